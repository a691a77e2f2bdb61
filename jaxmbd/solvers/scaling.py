"""Scaling of equations and unknowns, so that a Newton iteration does not suffer from units or small steps.

A pure transformation: a residual r(z) becomes D_L r(D_R y) with diagonal D_L, D_R, and z = D_R y (paper 003, (21)-(22)). Any Newton method may
be run on the scaled residual; its root and the derivative of its root are those of the original.
"""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float


class Scaling(eqx.Module):
    """Left and right diagonal scaling."""

    left: Float[Array, "n"]
    """factors of the equations"""
    right: Float[Array, "n"]
    """units of the unknowns"""

    def residual(self, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """The scaled residual as a function of the scaled unknowns."""
        return lambda y: self.left * function(self.right * y)

    def jacobian(self, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """The Jacobian of the scaled residual, from that of the original."""
        return lambda y: self.matrix(function(self.right * y))

    def matrix(self, jacobian: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """D_L J D_R (22a)."""
        return self.left[:, None] * jacobian * self.right

    def shrink(self, z: Float[Array, "n"]) -> Float[Array, "n"]:
        """Unknowns in scaled units (22b)."""
        return z / self.right

    def expand(self, y: Float[Array, "n"]) -> Float[Array, "n"]:
        """Scaled unknowns in their own units."""
        return self.right * y


def held_rows(kept: Float[Array, "rows"], left: Array, right: Array) -> Float[Array, "rows"]:
    """Left factors of constraint rows whose multipliers have the unit `right`. A dropped row reads multiplier = 0: its pivot is 1."""
    return kept * left + (1.0 - kept) / right
