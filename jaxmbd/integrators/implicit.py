"""What implicit steps share: roots that are found or known already, a Jacobian that serves for many steps, what errors are relative to."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..solvers.algebra import DENSE, AbstractAlgebra
from ..solvers.newton import NewtonInfo, Recycled
from ..solvers.roots import AbstractEquations, implicit_root
from ..solvers.scaling import Scaling
from ..system.equations import AbstractSystem
from ..system.state import State


class AbstractStepEquations(AbstractEquations):
    """The equations of one step."""

    @abc.abstractmethod
    def unknowns_of(self, state: State) -> Float[Array, "n"]:
        """The unknowns of a step that led to `state`."""


class Places(NamedTuple):
    """Where a step's unknowns and equations have what a sudden change of velocity concerns."""

    motion: slice
    """the equations of motion"""
    moved: slice
    """the unknown that moves the bodies: q, or its acceleration"""
    held: slice
    """multipliers"""
    inertia: Array
    """what the mass matrix is multiplied by in the Jacobian of the equations of motion by `moved`"""


class AbstractMotionEquations(AbstractStepEquations):
    """Those of a step with equations of motion and constraints."""

    system: eqx.AbstractVar[AbstractSystem]

    @abc.abstractmethod
    def places(self) -> Places:
        """Where things are."""

    @abc.abstractmethod
    def scaling(self) -> Scaling:
        """Units of equations and unknowns in which the Jacobian is well conditioned."""


def solve_step(
    equations: Any, known: State | None, search: Callable[[Any], tuple[Float[Array, "n"], Any]]
) -> tuple[Float[Array, "n"], Any | None]:
    """The unknowns of a step, as a differentiable function of all that its equations depend on; and what else `search(equations)` returned.

    `known` is the result of the same step taken before: then nothing is searched, and the second is None.
    """
    if known is None:
        return implicit_root(equations, search)
    return implicit_root(equations, lambda there: (there.unknowns_of(known), None))


class StepJacobian(eqx.Module):
    """The Jacobian that the last steps left, factorised, and the size of the step that it was made for."""

    recycled: Recycled
    made_for: Float[Array, ""]
    """the step size [s], or any number that is inversely proportional to it; 0: there is no Jacobian yet"""

    @staticmethod
    def nothing(unknowns: int, algebra: AbstractAlgebra = DENSE) -> "StepJacobian":
        return StepJacobian(Recycled.nothing(unknowns, algebra), jnp.zeros(()))

    @property
    def factors(self) -> Any:
        return self.recycled.factors

    def near(self, step: Array, apart: float) -> Recycled:
        """For a step of another size: usable while the logarithm of their ratio is below `apart`."""
        close = jnp.abs(jnp.log(step / jnp.where(self.made_for > 0, self.made_for, step))) < apart
        return Recycled(self.recycled.factors, self.recycled.usable & close, self.recycled.rate)

    def after(self, recycled: Recycled, step: Array, info: NewtonInfo) -> "StepJacobian":
        """What a solve for a step leaves."""
        return StepJacobian(recycled, jnp.where(info.jacobians > 0, step, self.made_for))


class Largest(eqx.Module):
    """The largest sizes so far, which errors are relative to."""

    q: Float[Array, "q"]
    v: Float[Array, "q"]
    x: Float[Array, "x"]

    @staticmethod
    def at(state: State) -> "Largest":
        return Largest(jnp.abs(state.q), jnp.abs(state.v), jnp.abs(state.x))

    def include(self, state: State) -> "Largest":
        return Largest(*(jnp.maximum(old, jnp.abs(new)) for old, new in ((self.q, state.q), (self.v, state.v), (self.x, state.x))))
