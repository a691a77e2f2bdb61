"""The time loop: adaptive or prescribed steps, recorded, and watched for what ends a run."""

import dataclasses
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .control.base import AbstractController
from .integrators.base import AbstractIntegrator, StepInfo, Work
from .results import RESULTS
from .system.equations import AbstractSystem
from .system.initial import remember
from .system.state import State

_EVEN_STEPS = 32
"""So many steps before the end of a run, methods that suffer from changes of the step take equal ones."""
_CLOSE_ENOUGH = (0.7, 1.5)
"""A step that was accepted is taken again near the end, if the controller asks for one between these parts of it."""
_LAST_DIGITS = 1e-12
_ONSET = 100.0
_EXPLOSION = 1e6
_LIGHT = 299_792_458.0
"""m/s"""
_FASTEST_TURN = 1e12
"""rad/s"""


class Limits(eqx.Module):
    """What ends a run or bounds its steps."""

    t1: Float[Array, ""]
    min_step: Float[Array, ""]
    max_step: Float[Array, ""]
    max_steps: Int[Array, ""]
    """accepted steps in this stretch; at most its capacity"""


class Watch(eqx.Module):
    """Looks for a motion that explodes.

    A step that is too large for its method makes the fastest motion turn around in every step, faster each time. A motion that is resolved
    does not turn around within a step, and where one does (an impact, a start) it is not faster than ever before, time and again. So the
    factors add up by which |v| exceeds all that the run has seen, in steps with v_{n+1} . v_n < 0: together they may reach a million.
    A single step counts for a hundred at most, for at the onset of a force it may be any number; and speeds by which positions change in
    their last digits only are no speeds. Nor may any body move faster than light, or turn by more than 1e12 rad/s.
    """

    fastest: Float[Array, ""]
    """|v|, the largest so far"""
    growth: Float[Array, ""]
    """logarithm of what it has grown by in steps that turned around"""

    @staticmethod
    def begin(state: State, h: Array) -> "Watch":
        """At the start, speed is also what the first step h will make of accelerations."""
        return Watch(jnp.sqrt(jnp.maximum(jnp.sum(state.v**2), jnp.sum((h * state.acceleration) ** 2))), jnp.zeros(()))

    def look(self, system: AbstractSystem, old: State, new: State) -> tuple["Watch", Bool[Array, ""]]:
        """The watch after a step, and whether the motion has exploded."""
        h = new.t - old.t
        unseen = _LAST_DIGITS * (1.0 + jnp.max(jnp.abs(new.q), initial=0.0)) / jnp.where(h > 0, h, 1.0)
        known = jnp.maximum(self.fastest, unseen)
        speed = jnp.sqrt(jnp.sum(new.v**2))
        turned = (jnp.sum(old.v * new.v) < 0) & (speed > known)
        growth = self.growth + jnp.where(turned, jnp.log(jnp.clip(speed / known, 1.0, _ONSET)), 0.0)
        limits = np.where(system.coordinate_lengths(), _LIGHT, _FASTEST_TURN)
        exploded = (growth > np.log(_EXPLOSION)) | jnp.any(jnp.abs(new.v) > limits)
        return Watch(jnp.maximum(self.fastest, speed), growth), exploded


class Stretch(eqx.Module):
    """Where a run stands between two stretches: everything but the state that is needed to go on."""

    scratch: Any
    control: Any
    h: Float[Array, ""]
    """s, the step to try next"""
    tried: Float[Array, ""]
    """s, the last step that was tried"""
    accepted: Bool[Array, ""]
    """whether it was accepted"""
    count: Int[Array, ""]
    """accepted steps in this stretch"""
    rejected: Int[Array, ""]
    failures: Int[Array, ""]
    """attempts whose equations could not be solved; they are among the rejected"""
    work: Work
    result: RESULTS
    blame: Int[Array, ""]
    """the unknown to blame for the last rejection"""
    trouble: RESULTS
    """what was wrong with the last rejected attempt"""
    watch: Watch


class Record(eqx.Module):
    """The states after 0, 1, ... accepted steps; rows beyond the last are not meaningful."""

    states: State
    steps: Float[Array, "capacity"]
    """s, step i leads from row i to row i + 1"""


def begin(
    system: AbstractSystem, integrator: AbstractIntegrator, controller: AbstractController, state: State, h: Array
) -> tuple[State, Stretch]:
    state, scratch = integrator.init(system, state)
    state = integrator.look_back(system, state, jax.lax.stop_gradient(h))
    zero = jnp.zeros((), jnp.int32)
    control = controller.init(system, state)
    fine = RESULTS.successful
    stretch = Stretch(scratch, control, h, h, jnp.array(False), zero, zero, zero, Work.nothing(), fine, zero, fine, Watch.begin(state, h))
    return state, jax.lax.stop_gradient(stretch)


def is_over(t: Array, t1: Array) -> Bool[Array, ""]:
    return t >= t1


class _Attempt(eqx.Module):
    """A step that was tried."""

    h: Float[Array, ""]
    new: State
    scratch: Any
    info: StepInfo
    watch: Watch
    trouble: RESULTS
    """what there is to say if it is not accepted, or must not be"""

    @staticmethod
    def make(system: AbstractSystem, integrator: AbstractIntegrator, state: State, now: Stretch, h: Array) -> "_Attempt":
        new, scratch, info = integrator.step(system, state, now.scratch, h)
        seen = jax.lax.stop_gradient(new)
        finite = info.finite & is_finite(seen)
        watch, exploded = now.watch.look(system, jax.lax.stop_gradient(state), seen)
        exploded = exploded & finite & info.converged
        worst = jnp.where(exploded, jnp.argmax(jnp.abs(seen.v)), info.worst)
        trouble = RESULTS.where(info.converged, RESULTS.step_too_small, RESULTS.newton_failed)
        trouble = RESULTS.where(finite, trouble, RESULTS.not_finite)
        trouble = RESULTS.where(info.singular, RESULTS.singular_configuration, trouble)
        trouble = RESULTS.where(exploded, RESULTS.diverged, trouble)
        info = dataclasses.replace(info, converged=info.converged & finite, worst=worst.astype(now.blame.dtype))
        return _Attempt(h, new, scratch, info, watch, trouble)

    @property
    def diverged(self) -> Array:
        return self.trouble == RESULTS.diverged

    def settle(
        self, system: AbstractSystem, integrator: AbstractIntegrator, state: State, now: Stretch, accept: Array, h: Array, control: Any
    ) -> tuple[State, Stretch]:
        """The new state with its memory, and where the run stands then; `h` is the step to try next."""
        memory = jax.lax.stop_gradient(remember(system, self.new.q, self.new.t, state.memory))
        new = eqx.tree_at(lambda s: s.memory, self.new, memory)
        after = Stretch(
            _choose(accept, integrator.accept(state, new, self.scratch), self.scratch),
            control,
            h,
            self.h,
            accept,
            now.count + accept,
            now.rejected + ~accept,
            now.failures + ~self.info.converged,
            now.work + self.info.work.of(system),
            now.result,
            jnp.where(accept, now.blame, self.info.worst),
            RESULTS.where(accept, now.trouble, self.trouble),
            _choose(accept, self.watch, now.watch),
        )
        return new, jax.lax.stop_gradient(after)


def _adaptive(params, controller, stretch: Stretch, limits: Limits, capacity: int):
    system, integrator, state = params
    record = Record(
        jax.tree.map(lambda leaf: jnp.zeros((capacity + 1, *leaf.shape), leaf.dtype).at[0].set(leaf), state),
        jnp.zeros(capacity),
    )

    def proceed(carry):
        state, now, _ = carry
        return ~is_over(state.t, limits.t1) & (now.result == RESULTS.successful) & (now.count < limits.max_steps)

    def advance(carry):
        state, now, record = carry
        left = limits.t1 - state.t
        h = jnp.clip(now.h, limits.min_step, limits.max_step)
        last = h >= left * (1.0 - 1e-12)
        if integrator.even_end:
            h = _even(left, h, jnp.where(now.accepted, now.tried, 0.0))
        h = jax.lax.stop_gradient(jnp.where(last, left, h))
        attempt = _Attempt.make(system, integrator, state, now, h)
        attempt = eqx.tree_at(lambda a: a.new.t, attempt, jnp.where(last, limits.t1, attempt.new.t))
        order = integrator.order if attempt.info.order is None else attempt.info.order
        decision, control = controller.adapt(attempt.info, order, h, now.control)
        diverged = decision.accept & attempt.diverged
        accept = decision.accept & ~diverged
        new, after = attempt.settle(system, integrator, state, now, accept, decision.next_step, control)
        # A rejected state is written too; the next accepted one replaces it.
        row = now.count + 1
        states = jax.tree.map(lambda leaf, buffer: buffer.at[row].set(leaf), new, record.states)
        record = Record(states, record.steps.at[now.count].set(h))
        # A step may also be rejected for being too short.
        stuck = ~accept & (h <= limits.min_step) & ~(after.h > h)
        why = RESULTS.where(after.trouble == RESULTS.newton_failed, RESULTS.step_too_small, after.trouble)
        result = RESULTS.where(stuck | diverged, why, after.result)
        after = eqx.tree_at(lambda s: s.result, after, result)
        return _choose(accept, new, state), after, record

    _, after, record = eqxi.while_loop(
        proceed, advance, (state, stretch, record), kind="lax", buffers=lambda carry: (carry[2].states, carry[2].steps)
    )
    return record, jax.lax.stop_gradient(after)


def _even(left: Array, h: Array, last: Array) -> Array:
    """Near the end, a step of which a whole number is left: the last one again if that will do."""
    again = jnp.round(left / jnp.where(last > 0, last, jnp.inf))
    least, most = _CLOSE_ENOUGH
    goes_on = (jnp.abs(left - again * last) <= 1e-6 * last) & (h >= least * last) & (h <= most * last)
    remaining = jnp.where(goes_on, again, jnp.ceil(left / h))
    return jnp.where((remaining > 0) & (remaining <= _EVEN_STEPS), left / jnp.maximum(remaining, 1.0), h)


def _prescribed(params, controller, stretch: Stretch, steps: Array, active: Array):
    """Steps of given sizes. After a failure, and where not `active`, nothing moves."""
    system, integrator, first = params

    def advance(carry, given):
        h, wanted = given
        go = wanted & (carry[1].result == RESULTS.successful)
        state, after = jax.lax.cond(go, move, lambda carry, h: carry, carry, h)
        return (state, after), state

    def move(carry, h):
        state, now = carry
        attempt = _Attempt.make(system, integrator, state, now, h)
        ok = attempt.info.converged & ~attempt.diverged
        new, after = attempt.settle(system, integrator, state, now, ok, now.h, now.control)
        after = eqx.tree_at(lambda s: (s.result, s.rejected), after, (RESULTS.where(ok, now.result, after.trouble), now.rejected))
        return _choose(ok, new, state), after

    (_, after), states = jax.lax.scan(advance, (first, stretch), (steps, active))
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, states)
    return Record(states, steps), after


def is_finite(state: State) -> Bool[Array, ""]:
    """Whether all of its numbers are."""
    parts = (state.q, state.v, state.x, state.multipliers, state.acceleration, state.state_rate)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in parts]))


def _choose(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def search(params: tuple[AbstractSystem, AbstractIntegrator, State], plan: "Plan") -> tuple[Record, Stretch]:
    """Runs one stretch."""
    if plan.steps is None or plan.active is None:
        return _adaptive(params, plan.controller, plan.stretch, plan.limits, plan.capacity)
    return _prescribed(params, plan.controller, plan.stretch, plan.steps, plan.active)


class Plan(eqx.Module):
    """What to run: everything that has no derivative."""

    controller: AbstractController
    stretch: Stretch
    limits: Limits
    steps: Float[Array, "capacity"] | None
    """prescribed step sizes; None: adaptive"""
    active: Bool[Array, "capacity"] | None
    capacity: int = eqx.field(static=True)


def rows_at(integrator: AbstractIntegrator, record: Record, count: Array, times: Array) -> State:
    """The states at given times, by the integrator's interpolant; times beyond the last step give the last state."""
    rows = jnp.arange(record.states.t.shape[0])
    known = jnp.where(rows <= count, record.states.t, jnp.inf)
    times = jnp.clip(times, record.states.t[0], record.states.t[count])
    left = jnp.clip(jnp.searchsorted(known, times, side="right") - 1, 0, jnp.maximum(count - 1, 0))

    def at(i, t):
        # A run without steps has only row 0.
        pick = lambda j: jax.tree.map(lambda leaf: leaf[j], record.states)  # noqa: E731
        return integrator.interpolate(pick(i), pick(jnp.minimum(i + 1, count)), t)

    return jax.vmap(at)(left, times)
