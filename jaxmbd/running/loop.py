"""The time loop: steps of a controller or of a list, kept as far as asked, and watched for what ends a run."""

import dataclasses
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..control.base import AbstractController
from ..integrators.base import AbstractIntegrator, StepInfo, Work
from ..results import RESULTS
from ..system.equations import AbstractSystem
from ..system.initial import remember, with_known_rows
from ..system.state import State
from .events import Events, Lookout
from .kernels import Kernels
from .pace import AbstractPace
from .saving import AbstractKeeper, AtTimes, EveryStep
from .watch import Watch

HIGHEST_ORDER = 6
"""that any variable-order integrator has"""


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
    lookout: Lookout | None
    """for events; None if there are none"""


class Plan(eqx.Module):
    """What to run: everything that has no derivative."""

    pace: AbstractPace
    stretch: Stretch
    max_steps: Int[Array, ""]
    """accepted steps in this stretch; at most its capacity"""
    events: Events | None
    capacity: int = eqx.field(static=True)
    kernels: Kernels = eqx.field(static=True)


def begin(
    system: AbstractSystem, integrator: AbstractIntegrator, controller: AbstractController, state: State, h: Array, events: Events | None
) -> tuple[State, Stretch]:
    state, scratch = integrator.init(system, state)
    state = integrator.look_back(system, state, jax.lax.stop_gradient(h))
    zero = jnp.zeros((), jnp.int32)
    stretch = Stretch(
        scratch,
        controller.init(system, state),
        h=h,
        tried=h,
        accepted=jnp.array(False),
        count=zero,
        rejected=zero,
        failures=zero,
        work=Work.nothing(),
        result=RESULTS.successful,
        blame=zero,
        trouble=RESULTS.successful,
        watch=Watch.begin(state, h),
        of_order=None if integrator.orders_of(state) is None else jnp.zeros(HIGHEST_ORDER, jnp.int32),
        lookout=None if events is None else events.begin(system, state),
    )
    return state, jax.lax.stop_gradient(stretch)


def search(params: tuple[AbstractSystem, AbstractIntegrator, State], plan: Plan, times: Array | None = None) -> tuple[Any, Stretch]:
    """Runs one stretch, and keeps all its states (a Record), or those at given times and the last (Saved)."""
    system, integrator, first = params
    first = with_known_rows(system, first)
    pace = plan.pace
    keeper = _keeper(plan, times)

    def goes_on(state: State, now: Stretch) -> Bool[Array, ""]:
        return ~pace.is_done(state.t, now.count) & (now.result == RESULTS.successful) & (now.count < plan.max_steps)

    def proceed(carry):
        # As long as any lane of a batch does: each knows by itself when it is over, and steps of a list have one number for all.
        _, state, now, _ = carry
        return eqxi.unvmap_any(goes_on(state, now))

    def advance(carry):
        tries, state, now, kept = carry
        going = goes_on(state, now)
        proposal = pace.propose(integrator, state, now, tries)
        attempt = _Attempt.make(system, integrator, state, now, proposal.h)
        attempt = eqx.tree_at(lambda a: a.new.t, attempt, pace.arrive(proposal.last, attempt.new.t))
        order = integrator.order if attempt.info.order is None else attempt.info.order
        decision, control = pace.judge(pace.look(system, state, attempt.new, attempt.info), order, proposal.h, now.control)
        diverged = decision.accept & attempt.diverged
        accept = decision.accept & ~diverged & going
        new, after = attempt.settle(system, integrator, state, now, accept, decision.next_step, control)
        kept = keeper.add(kept, integrator, state, new, proposal.h, pace.row(tries, now.count), accept)
        stuck, why = pace.why_stuck(accept, proposal.h, after.h, after.trouble)
        after = dataclasses.replace(
            after,
            result=RESULTS.where(stuck | diverged, why, after.result),
            rejected=after.rejected if pace.tries_again else now.rejected,
        )
        if plan.events is not None:
            after = plan.events.look(system, new, accept, after)
        return tries + 1, _choose(accept, new, state), _choose(going, after, now), kept

    start = (jnp.zeros((), jnp.int32), first, plan.stretch, keeper.begin(integrator, first))
    _, final, after, kept = eqxi.while_loop(proceed, advance, start, kind="lax", buffers=lambda carry: keeper.buffers(carry[3]))
    return keeper.end(kept, integrator, final), jax.lax.stop_gradient(after)


def _keeper(plan: Plan, times: Array | None) -> AbstractKeeper:
    return EveryStep(plan.capacity) if times is None else AtTimes(times, with_previous=plan.events is not None)


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
        trouble = RESULTS.where(info.converged, RESULTS.step_too_small, integrator.unsolved)
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
            now.lookout,
        )
        return new, jax.lax.stop_gradient(after)


def is_finite(state: State) -> Bool[Array, ""]:
    """Whether all of its numbers are."""
    parts = (state.q, state.v, state.x, state.multipliers, state.acceleration, state.state_rate)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(part)) for part in parts]))


def _choose(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
