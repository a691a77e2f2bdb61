"""Roots of equations, and their derivatives by the implicit function theorem."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .linear import solve_once
from .scaling import Scaling


def frozen(tree: Any) -> Any:
    """The same without derivatives. Functions among the leaves (a user's law, a drive) stay what they are."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


class AbstractEquations(eqx.Module):
    """residual(z) = 0, as many equations as unknowns. Everything that the residual depends on is a leaf."""

    @abc.abstractmethod
    def residual(self, z: Float[Array, "n"]) -> Float[Array, "n"]:
        """Zero at the root."""

    def jacobian(self, z: Float[Array, "n"]) -> Float[Array, "n n"]:
        """Of the residual, exact."""
        return jax.jacfwd(self.residual)(z)

    def scaling(self) -> Scaling | None:
        """Units of equations and unknowns in which the Jacobian is well conditioned; None: it is as it stands."""
        return None


def implicit_root(equations: AbstractEquations, search: Callable[[Any], tuple[Float[Array, "n"], Any]]) -> tuple[Float[Array, "n"], Any]:
    """A root z of the equations, as a differentiable function of their leaves.

    `search(equations)` returns the root and anything else. It sees the equations without derivatives, and the way it finds the root has none:
    it may iterate with an old Jacobian, or know the root already. Derivatives of any order, forward and reverse, are those of the implicit
    function: dz = -J^-1 dr with the exact Jacobian, which is differentiated in its turn.
    """
    found, extra = search(frozen(equations))
    return _root(equations, frozen(found)), frozen(extra)


@eqx.filter_custom_jvp
def _root(equations: Any, found: Array) -> Array:
    return found


@eqx.filter_custom_jvp
def _corrected_root(equations: Any, found: Array) -> Array:
    """The same value. JAX 0.10 forgets the rule below when it linearises a scan; a Newton correction with a constant matrix has the first
    derivative of the root all the same, and so second derivatives remain exact."""
    there = frozen(equations)
    return found - _solve(there, there.jacobian(found), equations.residual(found))


def _follow(primals: tuple[Any, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    (equations, found), (change, _) = primals, tangents
    z = _corrected_root(equations, found)  # not `found`: where this is differentiated again, z moves along
    _, rows = eqx.filter_jvp(lambda e: e.residual(z), (equations,), (change,))
    if rows is None:  # nothing that the residual depends on has a derivative
        return z, jnp.zeros_like(z)
    return z, -_solve(equations, equations.jacobian(z), rows)


_root.def_jvp(_follow)
_corrected_root.def_jvp(_follow)


def _solve(equations: Any, matrix: Array, rows: Array) -> Array:
    scaling = frozen(equations.scaling())
    if scaling is None:
        return solve_once(matrix, rows)
    return scaling.expand(solve_once(scaling.matrix(matrix), rows / scaling.rows))
