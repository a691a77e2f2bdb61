"""A run in one piece, for jit, grad and vmap."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..results import RESULTS
from ..solution import Solution
from ..system.equations import AbstractSystem
from ..system.state import State
from . import loop
from .derivatives import AbstractAdjoint, run, run_saving
from .pace import Adaptive, Prescribed
from .prescribed import refuse_too_many
from .starting import Job, begin_as_made


def plan(job: Job, stretch: loop.Stretch, capacity: int, max_steps: Any, steps: Array | None) -> loop.Plan:
    """A stretch of a job: room for so many steps, at most so many, and their sizes if they are given, followed by zeros."""
    pace = Adaptive(job.controller, job.t1, job.min_step, job.max_step) if steps is None else Prescribed.of(steps)
    return loop.Plan(pace, stretch, jnp.asarray(max_steps, jnp.int32), job.events, capacity, job.kernels)


@eqx.filter_jit
def run_whole(job: Job, sizes: Array | None, unusable: Array, capacity: int, complete: bool, adjoint: AbstractAdjoint) -> Solution:
    """`unusable`: the number of the first parameter that is out of its range, or -1; `complete`: the sizes lead to the end."""
    system, state, stretch, _, _ = begin_as_made(job)
    started = RESULTS.where(unusable < 0, stretch.result, RESULTS.bad_parameter)
    stretch = eqx.tree_at(lambda s: (s.result, s.blame), stretch, (started, jnp.maximum(unusable, 0)))
    asked = plan(job, stretch, capacity, capacity, sizes)
    orders = steps = None
    if job.saveat.steps:
        refuse_too_many(capacity + 1, state, "Give a smaller max_steps, larger steps, or saveat=..., the times to be saved.")
        record, after = run(system, job.integrator, state, asked, adjoint)
        final, previous = record.last_two(after.count)
        reached, event = end(job, system, previous, final, after)
        number = jnp.arange(record.states.t.shape[0])
        states = _with_end(record.states, number >= after.count, reached)
        taken = number[1:] <= after.count
        steps = jax.lax.stop_gradient(jnp.where(taken, record.steps, 0.0))
        orders = job.integrator.orders_of(record.states)
        orders = None if orders is None else jnp.where(taken, orders[1:], 0)
    else:
        saved, after = run_saving(system, job.integrator, state, asked, job.saveat.times, adjoint)
        final = saved.final
        reached, event = end(job, system, saved.previous, final, after)
        late = (after.result == RESULTS.event_occurred) & (saved.states.t > reached.t)
        states = saved.states if job.events is None else _with_end(saved.states, late, reached)
        states = jax.tree.map(lambda leaf: leaf[None], reached) if job.saveat.t1 else states
    full = (after.result == RESULTS.successful) & ~(complete & asked.pace.is_done(final.t, after.count))
    result = RESULTS.where(full, RESULTS.max_steps_reached, after.result)
    names = () if job.events is None else job.events.names
    return Solution(job.system, states, reached, stats(after), result, after.blame, steps, orders, after.tried, event=event, events=names)


def end(job: Job, system: AbstractSystem, previous: State | None, final: State, after: loop.Stretch) -> tuple[State, Int[Array, ""]]:
    """The state in which a run ends that has come to `final`, and the number of the event there, or -1."""
    if job.events is None:
        # At t1, however the start may move.
        return dataclasses.replace(final, t=jax.lax.stop_gradient(final.t)), jnp.full((), -1, jnp.int32)
    assert previous is not None
    assert after.lookout is not None
    return job.events.end(system, job.integrator, previous, final, after.lookout)


def _with_end(states: State, beyond: Bool[Array, "rows"], reached: State) -> State:
    """Rows from the end on repeat it, so that row -1 is always the end."""
    states = dataclasses.replace(states, method=states.method if reached.method is not None else None)
    return jax.tree.map(lambda rows, leaf: jnp.where(beyond.reshape(-1, *(1,) * leaf.ndim), leaf, rows), states, reached)


def stats(after: loop.Stretch) -> dict[str, Any]:
    by_order = {} if after.of_order is None else {f"steps_of_order_{k + 1}": after.of_order[k] for k in range(loop.HIGHEST_ORDER)}
    return {
        **by_order,
        "steps": after.count,
        "rejected": after.rejected,
        "newton_failures": after.failures,
        **{field: getattr(after.work, field) for field in vars(after.work)},
    }
