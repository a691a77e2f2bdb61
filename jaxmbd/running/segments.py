"""A run stretch after stretch, outside jit: memory is bounded, and there is a moment to report progress."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._compiling import compiled_in_haste
from ..integrators.base import AbstractIntegrator
from ..results import RESULTS
from ..solution import Solution
from ..system.equations import AbstractSystem
from ..system.parameters import is_traced
from ..system.state import State
from . import loop, starting, whole
from .derivatives import Forward, run
from .largest_step import warn_of_step
from .prescribed import EvenSteps, Steps, refuse_too_many, rows_in_memory
from .progress import ProgressBar
from .saving import Record, SaveAt, rows_at
from .starting import Job, one_row

_SEGMENT = 1024
"""Accepted steps in one compiled call."""
_MAX_STEPS = 1_000_000


@compiled_in_haste
def _begin(job: Job):
    return starting.begin(job)


@eqx.filter_jit
def _run_segment(job: Job, system: AbstractSystem, state: State, stretch: loop.Stretch, max_steps, steps):
    """The states of a segment, the last one, where the run stands then, and the number of the event that ended it, or -1."""
    stretch = eqx.tree_at(lambda s: s.count, stretch, jnp.zeros((), jnp.int32))
    record, after = run(system, job.integrator, state, whole.plan(job, stretch, _SEGMENT, max_steps, steps), Forward())
    final, previous = record.last_two(after.count)
    return record, final, whole.end(job, system, previous, final, after), after


@eqx.filter_jit
def _rows_at(integrator: AbstractIntegrator, record: Record, count: Array, times: Array) -> State:
    return rows_at(integrator, record, count, times)


def run_in_segments(job: Job, prescribed: Steps | None, max_steps: int | None, progress: bool, throw: bool) -> Solution:
    stripped = _strip(job.nameless())
    if job.kernels == "scalar lanes":  # there is one lane
        stripped = dataclasses.replace(stripped, kernels="array")
    system, state, stretch, violation, consistent = _begin(stripped)
    if is_traced(consistent, state):
        raise ValueError(
            "a function in the model closes over a traced value. Write it as an equinox Module with the value as a field, so that it is a "
            "parameter."
        )
    if not bool(consistent):
        solution = Solution(job.system, one_row(state), state, _stats(stretch, 0), stretch.result, stretch.blame, jnp.zeros(0))
        return starting.finish(solution, throw, starting.inconsistency(job.system, violation))
    if isinstance(prescribed, EvenSteps):
        warn_of_step(job.system, job.integrator, state, prescribed.size, min(len(prescribed), max_steps or _MAX_STEPS))
    max_steps = _bound_steps(state, prescribed, max_steps, save_all=job.saveat.steps)
    collected = _Collected.begin(job, state)
    taken = 0
    with ProgressBar(progress, float(job.t0), float(job.t1)) as bar:
        while True:
            allowed = bar.limit(min(_SEGMENT, max_steps - taken))
            steps = _block(prescribed, taken, allowed)
            record, state, (reached, event), stretch = _run_segment(stripped, system, state, stretch, jnp.asarray(allowed), steps)
            taken += int(stretch.count)
            ended = bool(stretch.result != RESULTS.successful)
            done = not ended and (float(state.t) >= float(job.t1) if prescribed is None else taken >= len(prescribed))
            collected.add(record, int(stretch.count), reached, event=int(event) >= 0, done=done)
            bar.show(float(reached.t), _SEGMENT)
            if ended or done or taken >= max_steps:
                break
    result = stretch.result if ended or done else RESULTS.max_steps_reached
    states, steps, orders = collected.stacked(reached)
    names = () if job.events is None else job.events.names
    stats = _stats(stretch, taken)
    solution = Solution(job.system, states, reached, stats, result, stretch.blame, steps, orders, stretch.tried, event=event, events=names)
    return starting.finish(solution, throw)


@dataclasses.dataclass
class _Collected:
    """What was kept of the segments so far, on the host."""

    job: Job
    states: list[State]
    steps: list[np.ndarray]
    orders: list[np.ndarray]
    saved_until: float = -np.inf
    """s"""

    @staticmethod
    def begin(job: Job, state: State) -> "_Collected":
        first = state if job.events is None else dataclasses.replace(state, method=None)
        return _Collected(job, [one_row(first)] if job.saveat.steps else [], [], [])

    def add(self, record: Record, count: int, reached: State, event: bool, done: bool) -> None:
        """A segment of `count` steps that has come to the state `reached`, by an event or not; `done`: which is the end as planned."""
        job = self.job
        self.steps.append(np.asarray(record.steps)[:count])
        orders = job.integrator.orders_of(record.states)
        if orders is not None:
            self.orders.append(np.asarray(orders)[1 : count + 1])
        if job.saveat.steps:
            states = record.states if job.events is None else dataclasses.replace(record.states, method=None)
            self.states.append(jax.tree.map(lambda leaf: np.asarray(leaf)[1 : count + 1 - event], states))
        elif job.saveat.ts is not None:
            times, t = np.asarray(job.saveat.times), float(reached.t)
            # The sum of many prescribed steps may fall short of t1 by rounding.
            mine = (times > self.saved_until) & ((times <= t) | done)
            saved = _rows_at(job.integrator, record, jnp.asarray(count), job.saveat.times)
            self.states.append(jax.tree.map(lambda leaf: np.asarray(leaf)[mine], saved))
            self.saved_until = t
        late = job.saveat.ts is not None and bool(np.any(np.asarray(job.saveat.times) > float(reached.t)))
        if event and (job.saveat.steps or late):
            self.states.append(one_row(reached))

    def stacked(self, final: State) -> tuple[State, Array, Array | None]:
        """All rows, step sizes and orders."""
        states = [one_row(final)] if self.job.saveat.t1 else self.states
        orders = jax.device_put(np.concatenate(self.orders)) if self.orders else None
        rows = jax.tree.map(lambda *leaves: jax.device_put(np.concatenate(leaves)), *states)
        return rows, jax.device_put(np.concatenate(self.steps)), orders


def _bound_steps(state: State, prescribed: Steps | None, given: int | None, save_all: bool) -> int:
    """How many steps may be taken. What is known to exceed memory is refused."""
    if prescribed is None:
        # How many there will be is not known: without a word from the user, as many as memory has room for.
        return given or (min(_MAX_STEPS, rows_in_memory(state)) if save_all else _MAX_STEPS)
    bound = given or _MAX_STEPS
    if save_all:
        taken = min(len(prescribed), bound)
        refuse_too_many(taken + 1, state, "Give saveat=..., the times to be saved, or a larger step.")
    return bound


def _strip(job: Job) -> Job:
    """Without what is handed over block by block, and would make every length of it another program."""
    return dataclasses.replace(job, saveat=SaveAt(steps=True))


def _block(steps: Steps | None, begin: int, allowed: int) -> Array | None:
    """The next prescribed steps, filled up with zeros to one size."""
    if steps is None:
        return None
    block = np.asarray(steps[begin : begin + allowed])
    return jnp.asarray(np.append(block, np.zeros(_SEGMENT - len(block))))


def _stats(stretch: loop.Stretch, steps: int) -> dict[str, Any]:
    return {name: int(value) for name, value in whole.stats(stretch).items()} | {"steps": steps}
