"""Roots of equations, and their derivatives by the implicit function theorem."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .algebra import DENSE, AbstractAlgebra
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

    def jacobian(self, z: Float[Array, "n"]) -> Any:
        """Of the residual, in the form of `algebra`. Exact if that is dense; otherwise terms that hardly matter may be missing."""
        return jax.jacfwd(self.residual)(z)

    def algebra(self) -> AbstractAlgebra:
        """How the Jacobian is kept and solved with."""
        return DENSE

    def scaled_jacobian(self, scaling: Scaling) -> Callable[[Array], Any]:
        """Of the scaled residual, as a function of the scaled unknowns."""
        return lambda y: self.algebra().scaled(self.jacobian(scaling.expand(y)), scaling)

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
    return found - _solve(there, found, equations.residual(found))


def _follow(primals: tuple[Any, Array], tangents: tuple[Any, Any]) -> tuple[Array, Array]:
    (equations, found), (change, _) = primals, tangents
    z = _corrected_root(equations, found)  # not `found`: where this is differentiated again, z moves along
    _, rows = eqx.filter_jvp(lambda e: e.residual(z), (equations,), (change,))
    if rows is None:  # nothing that the residual depends on has a derivative
        return z, jnp.zeros_like(z)
    return z, -_solve(equations, z, rows)


_root.def_jvp(_follow)
_corrected_root.def_jvp(_follow)


def _solve(equations: Any, z: Array, rows: Array) -> Array:
    """J(z)^-1 rows."""
    matrix, algebra, scaling = equations.jacobian(z), equations.algebra(), frozen(equations.scaling())

    def product(direction: Array) -> Array:
        return jax.jvp(equations.residual, (z,), (direction,))[1]

    if scaling is None:
        return algebra.solve_once(matrix, rows, product)
    scaled = algebra.scaled(matrix, scaling)
    return scaling.expand(algebra.solve_once(scaled, rows / scaling.rows, lambda y: product(scaling.expand(y)) / scaling.rows))
