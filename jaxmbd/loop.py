"""The time loop: adaptive or prescribed steps, recorded, with derivatives of the accepted steps.

A run records the state after every accepted step. Reverse mode walks this record backwards, differentiating one step at a time at its
recorded solution; it never sees a rejected step, an error estimate or a controller. Forward mode is the plain derivative of the loop.
"""

from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .control import AbstractController
from .integrators.base import AbstractIntegrator, Work
from .integrators.common import frozen
from .results import RESULTS
from .system.equations import AbstractSystem
from .system.initial import remember
from .system.state import State

_EVEN_STEPS = 10


class Limits(eqx.Module):
    """What ends a run or bounds its steps."""

    t1: Float[Array, ""]
    min_step: Float[Array, ""]
    max_step: Float[Array, ""]
    max_steps: Int[Array, ""]
    """accepted steps in this stretch; at most its capacity"""


class Stretch(eqx.Module):
    """Where a run stands between two stretches: everything but the state that is needed to go on."""

    scratch: Any
    control: Any
    h: Float[Array, ""]
    """s, the step to try next"""
    count: Int[Array, ""]
    """accepted steps in this stretch"""
    rejected: Int[Array, ""]
    failures: Int[Array, ""]
    """attempts whose equations could not be solved; they are among the rejected"""
    work: Work
    result: RESULTS
    blame: Int[Array, ""]
    """the unknown to blame for the last rejection"""
    singular: Bool[Array, ""]
    """whether the constraints were singular at the last rejection"""


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
    stretch = Stretch(scratch, control, h, zero, zero, zero, Work.nothing(), RESULTS.successful, zero, jnp.array(False))
    return state, jax.lax.stop_gradient(stretch)


def is_over(t: Array, t1: Array) -> Bool[Array, ""]:
    return t >= t1


def _attempt(system, integrator, controller, state: State, now: Stretch, h: Array, last: Array, t1: Array):
    """One try. Returns the new state, whether it is accepted, and where the run stands then."""
    new, scratch, info = integrator.step(system, state, now.scratch, h)
    new = eqx.tree_at(lambda s: s.t, new, jnp.where(last, t1, new.t))
    order = integrator.order if info.order is None else info.order
    decision, control = controller.adapt(info, order, h, now.control)
    accept = decision.accept
    memory = jax.lax.stop_gradient(remember(system, new.q, new.t, state.memory))
    new = eqx.tree_at(lambda s: s.memory, new, memory)
    scratch = _choose(accept, integrator.accept(state, new, scratch), scratch)
    after = Stretch(
        scratch,
        control,
        decision.next_step,
        now.count + accept,
        now.rejected + ~accept,
        now.failures + ~info.converged,
        now.work + info.work.of(system),
        now.result,
        jnp.where(accept, now.blame, info.worst.astype(now.blame.dtype)),
        ~accept & info.singular,
    )
    return new, accept, jax.lax.stop_gradient(after)


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
            remaining = jnp.ceil(left / h)
            h = jnp.where(remaining <= _EVEN_STEPS, left / remaining, h)
        h = jax.lax.stop_gradient(jnp.where(last, left, h))
        new, accept, after = _attempt(system, integrator, controller, state, now, h, last, limits.t1)
        # A rejected state is written too; the next accepted one replaces it.
        row = now.count + 1
        states = jax.tree.map(lambda leaf, buffer: buffer.at[row].set(leaf), new, record.states)
        record = Record(states, record.steps.at[now.count].set(h))
        # A step may also be rejected for being too short.
        stuck = ~accept & (h <= limits.min_step) & ~(after.h > h)
        why = RESULTS.where(after.singular, RESULTS.singular_configuration, RESULTS.step_too_small)
        result = RESULTS.where(stuck, why, after.result)
        after = eqx.tree_at(lambda s: s.result, after, result)
        return _choose(accept, new, state), after, record

    _, after, record = eqxi.while_loop(
        proceed, advance, (state, stretch, record), kind="lax", buffers=lambda carry: (carry[2].states, carry[2].steps)
    )
    return record, jax.lax.stop_gradient(after)


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
        new, scratch, info = integrator.step(system, state, now.scratch, h)
        memory = jax.lax.stop_gradient(remember(system, new.q, new.t, state.memory))
        new = eqx.tree_at(lambda s: s.memory, new, memory)
        ok = info.converged
        after = Stretch(
            _choose(ok, integrator.accept(state, new, scratch), scratch),
            now.control,
            now.h,
            now.count + ok,
            now.rejected,
            now.failures + ~ok,
            now.work + info.work.of(system),
            RESULTS.where(ok, now.result, RESULTS.where(info.singular, RESULTS.singular_configuration, RESULTS.newton_failed)),
            jnp.where(ok, now.blame, info.worst.astype(now.blame.dtype)),
            ~ok & info.singular,
        )
        return _choose(ok, new, state), jax.lax.stop_gradient(after)

    (_, after), states = jax.lax.scan(advance, (first, stretch), (steps, active))
    states = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, states)
    return Record(states, steps), after


def _choose(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _search(params, plan: "Plan"):
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


def run(system: AbstractSystem, integrator: AbstractIntegrator, state: State, plan: Plan, adjoint: str) -> tuple[Record, Stretch]:
    """Runs one stretch. `adjoint` chooses which derivative will be possible: "reverse" or "forward"."""
    params = (system, integrator, state)
    plan = frozen(plan)
    return _search(params, plan) if adjoint == "forward" else _search_reverse(params, plan)


@eqx.filter_custom_vjp
def _search_reverse(params, plan):
    return _search(params, plan)


@_search_reverse.def_fwd
def _forward(perturbed, params, plan):
    del perturbed
    record, after = _search(params, plan)
    return (record, after), (record, after.count)


@_search_reverse.def_bwd
def _backward(residuals, gradients, perturbed, params, plan):
    """Walks the accepted steps backwards: the cotangent of row i + 1 becomes one of row i and of the parameters."""
    del perturbed
    record, count = residuals
    system, integrator, _ = params
    diff, rest = eqx.partition((system, integrator), eqx.is_inexact_array)
    given = jax.tree.map(
        lambda leaf, gradient: jnp.zeros_like(leaf) if gradient is None and leaf is not None else gradient,
        eqx.filter(record.states, eqx.is_inexact_array),
        gradients[0].states,
        is_leaf=lambda leaf: leaf is None,
    )
    row = lambda tree, i: jax.tree.map(lambda leaf: leaf[i], tree)  # noqa: E731
    add = lambda a, b: jax.tree.map(jnp.add, a, b)  # noqa: E731

    def proceed(carry):
        return carry[0] > 0

    def retreat(carry):
        i, cotangent, total = carry
        state, known, h = row(record.states, i - 1), row(record.states, i), record.steps[i - 1]
        moving, still = eqx.partition(state, eqx.is_inexact_array)

        def step(diff, moving):
            system, integrator = eqx.combine(diff, rest)
            new, _, _ = integrator.step(system, eqx.combine(moving, still), None, h, known=known)
            return eqx.filter(new, eqx.is_inexact_array)

        _, pull_back = jax.vjp(step, diff, moving)
        of_params, of_state = pull_back(cotangent)
        return i - 1, add(of_state, row(given, i - 1)), add(total, of_params)

    start = (count, row(given, count), jax.tree.map(jnp.zeros_like, diff))
    _, of_state, of_params = jax.lax.while_loop(proceed, retreat, start)
    return (*of_params, of_state)


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
