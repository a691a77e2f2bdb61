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
from .saving import AbstractKeeper, AtTimes, EveryStep, Record
from .system.equations import AbstractSystem
from .system.initial import remember
from .system.state import State

_EVEN_STEPS = 32
"""So many steps before the end of a run, methods that suffer from changes of the step take equal ones."""
_CLOSE_ENOUGH = (0.7, 1.5)
"""A step that was accepted is taken again near the end, if the controller asks for one between these parts of it."""
HIGHEST_ORDER = 6
"""that any variable-order integrator has"""
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
    of_order: Int[Array, "orders"] | None
    """accepted steps of order 1, 2, ...; None if all are of one"""


def begin(
    system: AbstractSystem, integrator: AbstractIntegrator, controller: AbstractController, state: State, h: Array
) -> tuple[State, Stretch]:
    state, scratch = integrator.init(system, state)
    state = integrator.look_back(system, state, jax.lax.stop_gradient(h))
    zero = jnp.zeros((), jnp.int32)
    control = controller.init(system, state)
    fine = RESULTS.successful
    of_order = None if integrator.orders_of(state) is None else jnp.zeros(HIGHEST_ORDER, jnp.int32)
    watch = Watch.begin(state, h)
    stretch = Stretch(scratch, control, h, h, jnp.array(False), zero, zero, zero, Work.nothing(), fine, zero, fine, watch, of_order)
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
            None if now.of_order is None else now.of_order + (accept & (jnp.arange(1, HIGHEST_ORDER + 1) == integrator.orders_of(new))),
        )
        return new, jax.lax.stop_gradient(after)


def _adaptive(params, plan: "Plan", keeper: AbstractKeeper):
    system, integrator, state = params
    controller, limits = plan.controller, plan.limits

    def proceed(carry):
        state, now, _ = carry
        return ~is_over(state.t, limits.t1) & (now.result == RESULTS.successful) & (now.count < limits.max_steps)

    def advance(carry):
        state, now, kept = carry
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
        kept = keeper.add(kept, integrator, state, new, h, now.count, accept)
        # A step may also be rejected for being too short.
        stuck = ~accept & (h <= limits.min_step) & ~(after.h > h)
        why = RESULTS.where(after.trouble == RESULTS.newton_failed, RESULTS.step_too_small, after.trouble)
        result = RESULTS.where(stuck | diverged, why, after.result)
        after = eqx.tree_at(lambda s: s.result, after, result)
        return _choose(accept, new, state), after, kept

    begin = (state, plan.stretch, keeper.begin(integrator, state))
    final, after, kept = eqxi.while_loop(proceed, advance, begin, kind="lax", buffers=lambda carry: keeper.buffers(carry[2]))
    return keeper.end(kept, integrator, final), jax.lax.stop_gradient(after)


def _even(left: Array, h: Array, last: Array) -> Array:
    """Near the end, a step of which a whole number is left: the last one again if that will do."""
    again = jnp.round(left / jnp.where(last > 0, last, jnp.inf))
    least, most = _CLOSE_ENOUGH
    goes_on = (jnp.abs(left - again * last) <= 1e-6 * last) & (h >= least * last) & (h <= most * last)
    remaining = jnp.where(goes_on, again, jnp.ceil(left / h))
    return jnp.where((remaining > 0) & (remaining <= _EVEN_STEPS), left / jnp.maximum(remaining, 1.0), h)


def _prescribed(params, plan: "Plan", keeper: AbstractKeeper):
    """Steps of given sizes. After a failure, and where not `active`, nothing moves."""
    system, integrator, first = params
    # What a scan stacks it writes in place, for all lanes of a batch at once.
    stacked = isinstance(keeper, EveryStep)

    def advance(carry, given):
        (old, now), kept = carry
        h, wanted = given
        go = wanted & (now.result == RESULTS.successful)
        new, after = jax.lax.cond(go, move, lambda carry, h: carry, (old, now), h)
        if stacked:
            return ((new, after), kept), new
        kept = keeper.add(kept, integrator, old, new, h, now.count, after.count > now.count)
        return ((new, after), kept), None

    def move(carry, h):
        state, now = carry
        attempt = _Attempt.make(system, integrator, state, now, h)
        ok = attempt.info.converged & ~attempt.diverged
        new, after = attempt.settle(system, integrator, state, now, ok, now.h, now.control)
        after = eqx.tree_at(lambda s: (s.result, s.rejected), after, (RESULTS.where(ok, now.result, after.trouble), now.rejected))
        return _choose(ok, new, state), after

    begin = (first, plan.stretch), None if stacked else keeper.begin(integrator, first)
    ((final, after), kept), states = jax.lax.scan(advance, begin, (plan.steps, plan.active))
    if stacked:
        kept = Record(jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, states), plan.steps)  # pyright: ignore[reportArgumentType]
    return keeper.end(kept, integrator, final), after


def is_finite(state: State) -> Bool[Array, ""]:
    """Whether all of its numbers are."""
    parts = (state.q, state.v, state.x, state.multipliers, state.acceleration, state.state_rate)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in parts]))


def _choose(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def search(params: tuple[AbstractSystem, AbstractIntegrator, State], plan: "Plan", times: Array | None = None) -> tuple[Any, Stretch]:
    """Runs one stretch, and keeps all its states (a Record), or those at given times and the last (Saved)."""
    keeper = EveryStep(plan.capacity) if times is None else AtTimes(times)
    engine = _adaptive if plan.steps is None or plan.active is None else _prescribed
    return engine(params, plan, keeper)


class Plan(eqx.Module):
    """What to run: everything that has no derivative."""

    controller: AbstractController
    stretch: Stretch
    limits: Limits
    steps: Float[Array, "capacity"] | None
    """prescribed step sizes; None: adaptive"""
    active: Bool[Array, "capacity"] | None
    capacity: int = eqx.field(static=True)
