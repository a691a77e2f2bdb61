"""What the methods on the state-space form share: independent coordinates, tolerances, error weights, what a failed step says."""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...control import LocalError
from ...control.base import AbstractController
from ...results import RESULTS
from ...solvers import linear
from ...system.equations import AbstractSystem
from ...system.parameters import Parameter, positive, read_all
from ...system.state import State
from ..base import AbstractIntegrator, StepInfo, Work
from ..common import rms
from ..interpolation import interpolate_smooth_motion
from .partition import Partition, Tangent, first_partition, read_independent, reconsider
from .reduction import Point, evaluate

_FIRST_STEP = 1e-4
"""s, as in section 3 of Negrut et al. (2003)"""
_SINGULAR = 1e-3
"""Constraints this near to singular ones are to blame if a run ends there."""
_HOPELESS = 25.0
"""A slope of dependent coordinates this many times beyond the limit at which a choice is reconsidered fails the step."""

_PARAMETERS: dict[str, Parameter] = {"rtol": positive("1"), "atol": positive("m, rad, and their rates")}


class AbstractStateSpace(AbstractIntegrator):
    """A one-step or multistep method for y'' = f(t, y, y', x), x' = g in independent coordinates y.

    `state.method` is a Module with the field `partition`.
    """

    rtol: eqx.AbstractVar[Float[Array, ""]]
    atol: eqx.AbstractVar[Float[Array, ""]]
    independent: eqx.AbstractVar[tuple[str | int, ...] | None]
    unsolved: ClassVar[RESULTS] = RESULTS.constraints_not_met
    caution: ClassVar[float] = 1.0
    """By how much errors of steps are kept below the tolerance."""
    growth: ClassVar[float] = 5.0
    """largest ratio of successive steps, (7)"""

    def default_controller(self) -> AbstractController:
        return LocalError(safety=0.9, growth=self.growth, shrink=0.2, regrowth=self.growth)

    def suited(self, system: AbstractSystem) -> "AbstractStateSpace":
        """With places in q instead of names, which a run does not know any more."""
        placed = copy.copy(self)
        object.__setattr__(placed, "independent", read_independent(system, self.independent))  # `placed` is nobody else's yet
        return placed

    def first_step(self, system: AbstractSystem, state: State) -> Array:
        return jnp.asarray(_FIRST_STEP)

    def interpolate(self, old: State, new: State, t: Array) -> State:
        return interpolate_smooth_motion(old, new, t)

    def first_partition(self, system: AbstractSystem, state: State) -> Partition:
        given = read_independent(system, self.independent)
        return first_partition(system.recall(state.memory), state.memory, state.q, state.t, given)

    def errors(
        self, system: AbstractSystem, old: State, new: Point, partition: Partition, position: Array, rate: Array, x: Array
    ) -> Float[Array, "errors"]:
        """Estimated errors of y, y', x over what the tolerances allow (4)."""
        y = partition.independent
        pairs = ((system.sizes(old.q)[y], system.sizes(new.q)[y], position), (old.v[y], new.v[y], rate), (old.x, new.x, x))
        allowed = [self.atol + self.rtol * jnp.maximum(jnp.abs(a), jnp.abs(b)) for a, b, _ in pairs]
        return jax.lax.stop_gradient(jnp.concatenate([error / scale for (_, _, error), scale in zip(pairs, allowed, strict=True)]))

    def judge(self, old: State, new: Point, here: Tangent, errors: Array, work: Work, power: Array | None = None) -> StepInfo:
        """The step's report; `here` is the tangent where it began."""
        partition = here.partition
        n, d = old.q.shape[0], partition.independent.shape[0]
        error = self.caution * rms(errors)  # (5)
        converged = new.converged & jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.v)) & jnp.all(jnp.isfinite(new.acceleration))
        # A step into the neighbourhood of a dead point is no step: on the other side, the search may find another branch of the motion.
        hopeless = new.tangent.steepest > _HOPELESS * partition.limit
        converged = converged & ~hopeless
        weakness, row = linear.weakest_row(here.dependent_jacobian, here.factors)
        singular, row = hopeless | ~(weakness > _SINGULAR), _pick(here.rows, row)
        i = jnp.argmax(jnp.abs(errors)) if errors.shape[0] > 0 else jnp.zeros((), jnp.int32)
        inaccurate = jnp.where(i < 2 * d, _pick(partition.independent, i % max(d, 1)), n + old.multipliers.shape[0] + i - 2 * d)
        worst = jnp.where(singular, n + row, jnp.where(converged, inaccurate, new.worst))
        return jax.lax.stop_gradient(StepInfo(error, converged, worst.astype(jnp.int32), work, singular=singular, power=power))

    def next_partition(self, system: AbstractSystem, new: Point) -> Partition:
        return new.tangent.partition if self.independent is not None else reconsider(system, new.tangent)


def evaluate_after(system: AbstractSystem, old: State, last: Point, t: Array, y: Array, y_rate: Array, x: Array, guess: Array) -> Point:
    """The state at (t, y, y', x), with the search for dependent positions helped by the last point; what the searches cost adds up."""
    new = evaluate(system, old.memory, old.method.partition, t, y, y_rate, x, guess, last.tangent.factors)
    added = (new.converged & last.converged, new.iterations + last.iterations, new.jacobians + last.jacobians)
    return eqx.tree_at(lambda p: (p.converged, p.iterations, p.jacobians), new, added)


def read_method(integrator: AbstractStateSpace, rtol: Any, atol: Any, independent: Sequence[str | int] | None) -> None:
    """The part of a constructor that all state-space methods share."""
    for field, value in read_all(type(integrator).__name__, _PARAMETERS, rtol=rtol, atol=atol).items():
        setattr(integrator, field, jnp.asarray(value))
    # A bare string would become a tuple of letters: it is kept, and refused with the fix when a system is at hand.
    integrator.independent = independent if independent is None or isinstance(independent, str) else tuple(independent)  # pyright: ignore


def _pick(values: Array, i: Array) -> Array:
    return values[i] if values.shape[0] > 0 else jnp.zeros((), jnp.int32)
