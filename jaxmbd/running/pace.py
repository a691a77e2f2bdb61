"""Where step sizes come from: a controller, or a list."""

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..control.base import AbstractController, Decision
from ..integrators.base import AbstractIntegrator, StepInfo
from ..results import RESULTS
from ..scalar import kept_whole
from ..system.equations import AbstractSystem
from ..system.state import State

_EVEN_STEPS = 32
"""So many steps before the end of a run, methods that suffer from changes of the step take equal ones."""
_CLOSE_ENOUGH = (0.7, 1.5)
"""A step that was accepted is taken again near the end, if the controller asks for one between these parts of it."""


class Proposal(eqx.Module):
    """A step to try."""

    h: Float[Array, ""]
    """s"""
    last: Bool[Array, ""]
    """whether it leads to the end of the run"""


class AbstractPace(eqx.Module):
    """What the loop asks for before and after a step."""

    tries_again: eqx.AbstractClassVar[bool]
    """Whether a rejected step is tried again with another size."""

    @abstractmethod
    def is_done(self, t: Array, taken: Array) -> Bool[Array, ""]:
        """Whether there is no step left to take at time t, after so many accepted ones."""

    @abstractmethod
    def row(self, tries: Array, taken: Array) -> Int[Array, ""]:
        """The number of the step that is tried, where it is kept."""

    @abstractmethod
    def propose(self, integrator: AbstractIntegrator, state: State, now: Any, tries: Array) -> Proposal:
        """`now` is the Stretch, where the run stands."""

    @abstractmethod
    def arrive(self, last: Array, t: Array) -> Float[Array, ""]:
        """The time after a step, which the integrator takes for t."""

    def look(self, system: AbstractSystem, old: State, new: State, info: StepInfo) -> Any:
        """What is known of a step before it is judged."""
        return info

    @abstractmethod
    def judge(self, info: Any, order: Any, h: Array, control: Any) -> tuple[Decision, Any]:
        """What becomes of a step of size h, and the controller's own state then."""

    @abstractmethod
    def why_stuck(self, accept: Array, h: Array, next_step: Array, trouble: RESULTS) -> tuple[Bool[Array, ""], RESULTS]:
        """Whether the run ends for a step that was not accepted, and what it ends with if it does."""


class Adaptive(AbstractPace):
    """Steps of a controller, from wherever the run stands to t1."""

    tries_again: ClassVar[bool] = True
    controller: AbstractController
    t1: Float[Array, ""]
    min_step: Float[Array, ""]
    max_step: Float[Array, ""]

    def is_done(self, t: Array, taken: Array) -> Bool[Array, ""]:
        return t >= self.t1

    def row(self, tries: Array, taken: Array) -> Int[Array, ""]:
        return taken

    def propose(self, integrator: AbstractIntegrator, state: State, now: Any, tries: Array) -> Proposal:
        left = self.t1 - state.t
        h = jnp.clip(now.h, self.min_step, self.max_step)
        last = h >= left * (1.0 - 1e-12)
        if integrator.even_end:
            h = _even(left, h, jnp.where(now.accepted, now.tried, 0.0))
        return Proposal(to_the_same_end(jnp.where(last, left, h), last, state.t), last)

    def arrive(self, last: Array, t: Array) -> Float[Array, ""]:
        return jnp.where(last, self.t1, t)

    def look(self, system: AbstractSystem, old: State, new: State, info: StepInfo) -> Any:
        return self.controller.look(system, old, new, info)

    def judge(self, info: Any, order: Any, h: Array, control: Any) -> tuple[Decision, Any]:
        return self.controller.adapt(info, order, h, control)

    def why_stuck(self, accept: Array, h: Array, next_step: Array, trouble: RESULTS) -> tuple[Bool[Array, ""], RESULTS]:
        """At the smallest step; but a step may also be rejected for being too short."""
        stuck = ~accept & (h <= self.min_step) & ~(next_step > h)
        unsolved = (trouble == RESULTS.newton_failed) | (trouble == RESULTS.constraints_not_met)
        return stuck, RESULTS.where(unsolved, RESULTS.step_too_small, trouble)


class Prescribed(AbstractPace):
    """Steps of given sizes, one after the other. All lanes of a batch walk them together: what they keep is then written to all of them at
    once."""

    tries_again: ClassVar[bool] = False
    steps: Float[Array, "capacity"]
    """s, followed by zeros"""
    number: Int[Array, ""]
    """how many there are"""

    @staticmethod
    def of(steps: Float[Array, "capacity"]) -> "Prescribed":
        return Prescribed(steps, jnp.sum(steps > 0, dtype=jnp.int32))

    def is_done(self, t: Array, taken: Array) -> Bool[Array, ""]:
        return taken >= self.number

    def row(self, tries: Array, taken: Array) -> Int[Array, ""]:
        return tries

    def propose(self, integrator: AbstractIntegrator, state: State, now: Any, tries: Array) -> Proposal:
        last = tries == self.number - 1
        return Proposal(to_the_same_end(kept_whole(self.steps)[tries], last, state.t), last)

    def arrive(self, last: Array, t: Array) -> Float[Array, ""]:
        return t

    def judge(self, info: StepInfo, order: Any, h: Array, control: Any) -> tuple[Decision, Any]:
        return Decision(info.converged, h), control

    def why_stuck(self, accept: Array, h: Array, next_step: Array, trouble: RESULTS) -> tuple[Bool[Array, ""], RESULTS]:
        return ~accept, trouble


def to_the_same_end(h: Array, last: Array, t: Array) -> Float[Array, ""]:
    """Step sizes have no derivative, but for the last one of a run whose start moves."""
    return jax.lax.stop_gradient(h) - jnp.where(last, t - jax.lax.stop_gradient(t), 0.0)


def _even(left: Array, h: Array, last: Array) -> Array:
    """Near the end, a step of which a whole number is left: the last one again if that will do."""
    again = jnp.round(left / jnp.where(last > 0, last, jnp.inf))
    least, most = _CLOSE_ENOUGH
    goes_on = (jnp.abs(left - again * last) <= 1e-6 * last) & (h >= least * last) & (h <= most * last)
    remaining = jnp.where(goes_on, again, jnp.ceil(left / h))
    return jnp.where((remaining > 0) & (remaining <= _EVEN_STEPS), left / jnp.maximum(remaining, 1.0), h)
