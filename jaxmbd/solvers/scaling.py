"""Scaling of equations and unknowns, so that a Newton iteration does not suffer from units or small steps.

A pure transformation: a residual r(z) becomes D_L r(D_R y) with diagonal D_L, D_R, and z = D_R y (Bottasso et al. 2007, (21)-(22)). Any Newton
method may be run on the scaled residual; its root and the derivative of its root are those of the original.
"""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float


class Scaling(eqx.Module):
    """Equations and unknowns are measured in units: D_L = diag(1 / rows), D_R = diag(columns)."""

    rows: Float[Array, "n"]
    """units of the equations"""
    columns: Float[Array, "n"]
    """units of the unknowns"""

    def residual(self, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """The scaled residual as a function of the scaled unknowns."""
        return lambda y: function(self.columns * y) / self.rows

    def matrix(self, jacobian: Float[Array, "n n"]) -> Float[Array, "n n"]:
        """D_L J D_R (22a)."""
        return jacobian / self.rows[:, None] * self.columns

    def shrink(self, z: Float[Array, "n"]) -> Float[Array, "n"]:
        """Unknowns in their units (22b)."""
        return z / self.columns

    def expand(self, y: Float[Array, "n"]) -> Float[Array, "n"]:
        """What scaled unknowns stand for."""
        return self.columns * y


def held_rows(kept: Float[Array, "rows"], row: Array, column: Array) -> Float[Array, "rows"]:
    """Units of constraint rows whose multipliers have the unit `column`. A dropped row reads multiplier = 0: its pivot is 1."""
    return kept * row + (1.0 - kept) * column
