"""One run: initialise, loop, save, report."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import loop
from ._compiling import compiled_in_haste
from .control.base import AbstractController
from .derivatives import AbstractAdjoint, Forward, read_adjoint, run, run_saving
from .integrators.base import AbstractIntegrator
from .integrators.hht import HHT
from .largest_step import warn_of_step
from .prescribed import EvenSteps, Steps, read_steps, refuse_too_many, rows_in_memory
from .results import RESULTS
from .saving import Record, SaveAt, rows_at
from .solution import SimulationError, Solution
from .system.building.model import Model
from .system.equations import AbstractSystem, check_shapes, initial_states
from .system.faults.validity import first_unusable, traced_settings
from .system.initial import Violation, first_memory, start
from .system.parameters import is_traced, usable
from .system.state import Memory, State
from .system.system import System

_SEGMENT = 1024
"""Accepted steps in one compiled call outside jit: memory is bounded, and there is a moment to report progress."""
_TRACED_STEPS = 4096
"""Room for accepted steps under jit, grad or vmap, where shapes must be known beforehand, unless max_steps says otherwise."""
_MAX_STEPS = 1_000_000
_CONSISTENT = 1e-7


def simulate(
    model: Model | AbstractSystem,
    t1: Any,
    *,
    t0: Any = None,
    integrator: AbstractIntegrator | None = None,
    initial: State | None = None,
    saveat: Any = None,
    step: Any = None,
    first_step: Any = None,
    min_step: Any = None,
    max_step: Any = None,
    controller: AbstractController | None = None,
    adjoint: str | AbstractAdjoint = "reverse",
    max_steps: int | None = None,
    progress: bool = False,
    throw: bool = True,
) -> Solution:
    """Simulates from t0 to t1 [s].

    - `model`: a Model, a built System, or a user's own AbstractSystem.
    - `initial`: a state to start from, such as `solution.final`, as it is or changed; positions and velocities are projected onto the
      constraints. t0 is its time unless given.
    - `saveat`: None saves every accepted step (refused beyond 4 GB), an array of increasing times saves interpolated states; or an
      `mbd.SaveAt`, with `mbd.SaveAt(t1=True)` for the end alone.
    - `step`: None for adaptive steps, a number for steps of one size (the last one shortened to meet t1), an array to replay steps. One that
      is too large for an explicit method, or for the regularisation of friction, is warned of, but not under jit, grad or vmap, where
      numbers are not known: call once without.
    - `first_step`, `min_step`, `max_step`: bounds of adaptive steps [s].
    - `controller`: None for the integrator's own.
    - `adjoint`: "reverse" (or `mbd.Reverse()`) serves all of jax.grad, jax.jvp, jax.hessian and their kin, by the recorded steps;
      "forward" (or `mbd.Forward()`) differentiates the loop itself, in forward mode only. Derivatives are those of the accepted steps; step
      sizes and times count as constants.
    - `max_steps`: bound of accepted steps, prescribed ones too; a million unless given. Under jit, grad or vmap it is 4096 unless given,
      and sizes what is kept of adaptive runs if every step is saved or a reverse derivative asked for; otherwise it costs no memory.
    - `progress`: shows a progress bar (outside jit).
    - `throw`: raise if the run fails. With False, the solution holds what there is and `solution.result` says why it ended, lane by lane
      in a batch; the program then makes no calls to the host, which a GPU would have to wait for.
    """
    system = model.build() if isinstance(model, Model) else model
    _expect_type("model", system, AbstractSystem, "an mbd.Model or an mbd.AbstractSystem")
    _expect_type("integrator", integrator, AbstractIntegrator | None, "an integrator such as mbd.HHT()")
    _expect_type("controller", controller, AbstractController | None, "a controller such as mbd.LocalError()")
    _expect_type("initial", initial, State | None, "a state such as solution.final")
    given = dict(t0=t0, t1=t1, first_step=first_step, min_step=min_step, max_step=max_step, integrator=integrator, controller=controller)
    options, differentiated = _read_options(locals()), read_adjoint(adjoint)
    method: AbstractIntegrator = (HHT() if integrator is None else integrator).suited(system)
    if not isinstance(system, System):
        check_shapes(system)
    method.refuse_multiplier_forces(system)
    method.check(system)
    steps: Steps | None = options.pop("steps")
    if steps is not None:
        method = method.precise()
        if len(steps) > 0:
            options["first_step"] = jnp.asarray(steps[:1])[0]
    chosen = method.default_controller() if controller is None else controller
    chosen.check(system, method)
    job = _Job(
        system,
        method,
        chosen,
        _beginning(system) if initial is None else _fitting(system, initial),
        **options,
    )
    if is_traced(job, steps):
        wanted = _TRACED_STEPS if steps is None else len(steps)
        count = int(max_steps or wanted) if steps is None else min(int(max_steps or wanted), wanted)
        sizes = None if steps is None else jnp.asarray(steps[:count])
        settings, values = traced_settings({name: getattr(job, name) for name, value in given.items() if is_traced(value)})
        unusable = first_unusable(system, values)
        solution = _run_whole(job, sizes, unusable, capacity=count, complete=steps is None or count == wanted, adjoint=differentiated)
        solution = dataclasses.replace(solution, settings=settings)
        return solution.raise_if_failed() if throw else solution
    return _run_in_segments(job, steps, max_steps, progress, throw)


class _Beginning(eqx.Module):
    """What a run starts from, before it is made consistent. One structure, whatever it came from: another would compile again."""

    q: Array
    v: Array
    x: Array
    memory: Memory


@eqx.filter_jit
def _beginning(system: AbstractSystem) -> _Beginning:
    """The system's own."""
    q, v = (jnp.asarray(part, dtype=float) for part in (system.q0, system.v0))
    return _Beginning(q, v, initial_states(system), first_memory(system))


def _fitting(system: AbstractSystem, state: State) -> _Beginning:
    """A given state, if it has the system's size."""
    expected = eqx.filter_eval_shape(_beginning, system)
    given = _Beginning(state.q, state.v, state.x, state.memory)
    for field in ("q", "v", "x"):
        if getattr(given, field).shape != getattr(expected, field).shape:
            raise ValueError(
                f"initial does not belong to this system: its {field} has shape {getattr(given, field).shape}, "
                f"expected {getattr(expected, field).shape}."
            )
    return given


class _Job(eqx.Module):
    """A run as numbers: a second job of the same structure does not compile again."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    controller: AbstractController
    beginning: _Beginning
    t0: Array
    t1: Array
    first_step: Array
    """0: the integrator's choice"""
    min_step: Array
    max_step: Array
    saveat: SaveAt


def _read_options(given: dict[str, Any]) -> dict[str, Any]:
    """Times and step sizes as checked float arrays."""
    initial, step, saveat = given["initial"], given["step"], given["saveat"]
    max_steps = given["max_steps"]
    if max_steps is not None and not (max_steps == int(max_steps) and max_steps >= 1):
        raise ValueError(f"max_steps must be a whole number, at least 1, got {max_steps}.")
    t0 = given["t0"]
    t0 = _number("t0", (initial.t if initial is not None else 0.0) if t0 is None else t0)
    t1 = _number("t1", given["t1"])
    concrete = not is_traced(t0, t1)
    if concrete and t1 < t0:
        raise ValueError(f"t1 = {float(t1)} lies before t0 = {float(t0)}: time runs forward.")
    if not concrete:
        t1 = usable(t1, t1 >= t0)
    span = t1 - t0
    options: dict[str, Any] = {"t0": t0, "t1": t1}
    for name, default in (("first_step", 0.0), ("min_step", 1e-13 * span), ("max_step", np.inf)):
        value = default if given[name] is None else _number(name, given[name], allow_inf=name == "max_step")
        if given[name] is not None and not is_traced(value) and not value > 0:
            raise ValueError(f"{name} must be positive, got {float(value)} s.")
        if given[name] is not None and is_traced(value):
            value = usable(value, value > 0)
        options[name] = jnp.asarray(value, dtype=float)
    _expect_order(given, "min_step", "max_step")
    _expect_order(given, "first_step", "max_step")
    _expect_order(given, "min_step", "first_step")
    options["saveat"] = SaveAt.read(saveat, t0, t1)
    options["steps"] = None if step is None else read_steps(step, span)
    return options


def _expect_type(name: str, value: Any, kind: Any, what: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {what}, got {type(value).__name__}.")


def _expect_order(given: dict[str, Any], smaller: str, larger: str) -> None:
    low, high = given[smaller], given[larger]
    if low is not None and high is not None and not is_traced(low, high) and low > high:
        raise ValueError(f"{smaller} = {float(low):.6g} s exceeds {larger} = {float(high):.6g} s: exchange them, or leave one out.")


def _number(name: str, value: Any, allow_inf: bool = False) -> Any:
    if is_traced(value):
        return jnp.asarray(value, dtype=float)
    try:
        number = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number of seconds, got {value!r}.") from None
    if number.shape != () or np.isnan(number) or (np.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be one finite number of seconds, got {value!r}.")
    return number


# --- start ----------------------------------------------------------------------------------------------------------------------------------


def _start(job: _Job) -> tuple[AbstractSystem, State, loop.Stretch, Violation, Array]:
    system, given = job.system.prepare(), job.beginning
    q, v = system.normalize(given.q, given.v)
    state, violation, assembled = start(system, job.t0, q, v, given.x, given.memory)
    h = job.controller.first_step(job.integrator.first_step(system, state))
    h = jnp.where(job.first_step > 0, job.first_step, h)
    state, stretch = loop.begin(system, job.integrator, job.controller, state, jax.lax.stop_gradient(h))
    consistent = assembled & violation.small(_CONSISTENT)
    finite = loop.is_finite(state)
    result = RESULTS.where(violation.balanced, RESULTS.successful, RESULTS.jammed_start)
    result = RESULTS.where(finite, result, RESULTS.not_finite_at_start)
    result = RESULTS.where(consistent, result, RESULTS.inconsistent_start)
    consistent = consistent & finite & violation.balanced
    stretch = eqx.tree_at(lambda s: s.result, stretch, result)
    return system, state, stretch, violation, consistent


def consistent_start(system: AbstractSystem) -> State:
    """The system's initial state, made consistent; raises SimulationError if that fails."""
    if not isinstance(system, System):
        check_shapes(system)
    prepared, state, violation, consistent = _consistent(system)
    if not bool(consistent & violation.balanced):
        stats: dict[str, Any] = {}
        zero = jnp.zeros((), jnp.int32)
        result = RESULTS.jammed_start if bool(consistent) else RESULTS.inconsistent_start
        solution = Solution(prepared, _one_row(state), state, stats, result, zero, jnp.zeros(0))
        _finish(solution, True, _inconsistency(prepared, violation))
    return state


@compiled_in_haste
def _consistent(system: AbstractSystem) -> tuple[AbstractSystem, State, Violation, Array]:
    given, system = _beginning(system), system.prepare()
    q, v = system.normalize(given.q, given.v)
    state, violation, assembled = start(system, jnp.zeros(()), q, v, given.x, given.memory)
    return system, state, violation, assembled & violation.small(_CONSISTENT)


def _plan(job: _Job, stretch: loop.Stretch, capacity: int, max_steps: Any, steps: Any, active: Any) -> loop.Plan:
    limits = loop.Limits(job.t1, job.min_step, job.max_step, jnp.asarray(max_steps, jnp.int32))
    return loop.Plan(job.controller, stretch, limits, steps, active, capacity)


# --- one piece, for jit, grad and vmap ------------------------------------------------------------------------------------------------------


@eqx.filter_jit
def _run_whole(job: _Job, sizes: Array | None, unusable: Array, capacity: int, complete: bool, adjoint: AbstractAdjoint) -> Solution:
    """`unusable`: the number of the first parameter that is out of its range, or -1; `complete`: the sizes lead to the end."""
    system, state, stretch, _, _ = _start(job)
    started = RESULTS.where(unusable < 0, stretch.result, RESULTS.bad_parameter)
    stretch = eqx.tree_at(lambda s: (s.result, s.blame), stretch, (started, jnp.maximum(unusable, 0)))
    active = None if sizes is None else sizes > 0
    plan = _plan(job, stretch, capacity, capacity, sizes, active)
    orders = steps = None
    if job.saveat.steps:
        refuse_too_many(capacity + 1, state, "Give a smaller max_steps, larger steps, or saveat=..., the times to be saved.")
        record, after = run(system, job.integrator, state, plan, adjoint)
        # Rows beyond the last step repeat it, so that row -1 is always the end.
        rows = jnp.minimum(jnp.arange(record.states.t.shape[0]), after.count)
        states = jax.tree.map(lambda leaf: leaf[rows], record.states)
        final = _last_row(states)
        taken = jnp.arange(record.steps.shape[0]) < after.count
        steps = jax.lax.stop_gradient(jnp.where(taken, record.steps, 0.0))
        orders = job.integrator.orders_of(record.states)
        orders = None if orders is None else jnp.where(taken, orders[1:], 0)
    else:
        saved, after = run_saving(system, job.integrator, state, plan, job.saveat.times, adjoint)
        final = saved.final
        states = jax.tree.map(lambda leaf: leaf[None], final) if job.saveat.t1 else saved.states
    over = loop.is_over(final.t, job.t1) if active is None else complete & (after.count == jnp.sum(active))
    full = (after.result == RESULTS.successful) & ~over
    result = RESULTS.where(full, RESULTS.max_steps_reached, after.result)
    return Solution(system, states, final, _stats(after), result, after.blame, steps, orders, after.tried)


def _last_row(states: State) -> State:
    return jax.tree.map(lambda leaf: leaf[-1], states)


def _stats(after: loop.Stretch) -> dict[str, Any]:
    by_order = {} if after.of_order is None else {f"steps_of_order_{k + 1}": after.of_order[k] for k in range(loop.HIGHEST_ORDER)}
    return {
        **by_order,
        "steps": after.count,
        "rejected": after.rejected,
        "newton_failures": after.failures,
        **{field: getattr(after.work, field) for field in vars(after.work)},
    }


# --- stretch after stretch, outside jit -----------------------------------------------------------------------------------------------------


@compiled_in_haste
def _start_segments(job: _Job):
    return _start(job)


@eqx.filter_jit
def _run_segment(job: _Job, system: AbstractSystem, state: State, stretch: loop.Stretch, max_steps, steps, active):
    zero = jnp.zeros((), jnp.int32)
    stretch = eqx.tree_at(lambda s: s.count, stretch, zero)
    plan = _plan(job, stretch, _SEGMENT, max_steps, steps, active)
    record, after = run(system, job.integrator, state, plan, Forward())
    return record, jax.tree.map(lambda leaf: leaf[after.count], record.states), after


@eqx.filter_jit
def _rows_at(integrator: AbstractIntegrator, record: Record, count: Array, times: Array) -> State:
    return rows_at(integrator, record, count, times)


def _run_in_segments(job: _Job, prescribed: Steps | None, max_steps: int | None, progress: bool, throw: bool) -> Solution:
    stripped = _strip(job)
    system, state, stretch, violation, consistent = _start_segments(stripped)
    if is_traced(consistent, state):
        raise ValueError(
            "a function in the model closes over a traced value. Write it as an equinox Module with the value as a field, so that it is a "
            "parameter."
        )
    if not bool(consistent):
        solution = Solution(system, _one_row(state), state, _host_stats(stretch, 0), stretch.result, stretch.blame, jnp.zeros(0))
        return _finish(solution, throw, _inconsistency(system, violation))
    if isinstance(prescribed, EvenSteps):
        warn_of_step(system, job.integrator, state, prescribed.size, min(len(prescribed), max_steps or _MAX_STEPS))
    max_steps = _bound_steps(state, prescribed, max_steps, save_all=job.saveat.steps)
    pieces: list[State] = [_one_row(state)] if job.saveat.steps else []
    sizes: list[np.ndarray] = []
    orders: list[np.ndarray] = []
    times = np.asarray(job.saveat.times)
    saved_until, taken = -np.inf, 0
    with _bar(progress, float(job.t0), float(job.t1)) as bar:
        blocks = _blocks(prescribed, max_steps)
        while True:
            steps, active = next(blocks)
            allowed = min(_SEGMENT, max_steps - taken)
            record, state, stretch = _run_segment(stripped, system, state, stretch, jnp.asarray(bar.limit(allowed)), steps, active)
            count = int(stretch.count)
            taken += count
            sizes.append(np.asarray(record.steps)[:count])
            taken_orders = job.integrator.orders_of(record.states)
            if taken_orders is not None:
                orders.append(np.asarray(taken_orders)[1 : count + 1])
            t = float(state.t)
            ended = stretch.result != RESULTS.successful
            done = not bool(ended) and (t >= float(job.t1) if prescribed is None else taken >= len(prescribed))
            if job.saveat.steps:
                pieces.append(jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[1 : n + 1], record.states))
            elif job.saveat.ts is not None:
                # The sum of many prescribed steps may fall short of t1 by rounding.
                mine = (times > saved_until) & ((times <= t) | done)
                saved = _rows_at(job.integrator, record, stretch.count, job.saveat.times)
                pieces.append(jax.tree.map(lambda leaf, keep=mine: np.asarray(leaf)[keep], saved))
                saved_until = t
            bar.show(t)
            if bool(ended) or done or taken >= max_steps:
                break
    if job.saveat.t1:
        pieces.append(_one_row(state))
    result = stretch.result
    if not bool(ended) and not done:
        result = RESULTS.max_steps_reached
    states = jax.tree.map(lambda *leaves: jax.device_put(np.concatenate(leaves)), *pieces)
    all_orders = np.concatenate(orders) if orders else None
    stats = _host_stats(stretch, taken)
    saved_orders = None if all_orders is None else jax.device_put(all_orders)
    solution = Solution(
        system, states, state, stats, result, stretch.blame, jax.device_put(np.concatenate(sizes)), saved_orders, stretch.tried
    )
    return _finish(solution, throw)


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


def _strip(job: _Job) -> _Job:
    """Without what is handed over block by block, and would make every length of it another program."""
    return dataclasses.replace(job, saveat=SaveAt(steps=True))


def _blocks(steps: Steps | None, bound: int) -> Iterator[tuple[Any, Any]]:
    """Prescribed steps in blocks of one size, the last one filled up with inactive steps."""
    if steps is None:
        while True:
            yield None, None
    for begin in range(0, max(min(len(steps), bound), 1), _SEGMENT):
        block = np.asarray(steps[begin : min(begin + _SEGMENT, bound)])
        fill = _SEGMENT - len(block)
        yield (
            jnp.asarray(np.append(block, np.ones(fill))),
            jnp.asarray(np.append(np.ones(len(block), bool), np.zeros(fill, bool))),
        )


def _one_row(state: State) -> State:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)


def _host_stats(stretch: loop.Stretch, steps: int) -> dict[str, Any]:
    return {name: int(value) for name, value in _stats(stretch).items()} | {"steps": steps}


def _finish(solution: Solution, throw: bool, detail: str = "") -> Solution:
    if throw and bool(solution.result != RESULTS.successful):
        raise SimulationError(" ".join(filter(None, [solution.message, detail])), solution)
    return solution


def _inconsistency(system: AbstractSystem, violation: Violation) -> str:
    position, velocity = np.asarray(violation.position), np.asarray(violation.velocity)
    worst = np.argsort(-np.maximum(position, velocity))[:4]
    n = system.q0.shape[-1]
    names = dict.fromkeys(system.describe_unknown(n + int(i)) for i in worst if max(position[i], velocity[i]) > _CONSISTENT)
    if not names and not violation.balanced:
        return "These are: " + ", ".join(system.multiplier_forces()) + "."
    return "Violated: " + ", ".join(names) + "." if names else ""


class _bar:
    """A progress bar over simulated time, or nothing."""

    def __init__(self, wanted: bool, t0: float, t1: float):
        self.t0, self.t1, self.bar = t0, t1, None
        self.steps, self.clock = 32, time.perf_counter()
        if wanted:
            from tqdm.auto import tqdm

            layout = "{desc}{percentage:3.0f}%|{bar}| {n:.4g}/{total:.4g} s [{elapsed}<{remaining}]"
            self.bar = tqdm(total=t1 - t0, bar_format=layout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.bar is not None:
            self.bar.close()

    def limit(self, allowed: int) -> int:
        """Steps until the next report: enough for about a fifth of a second."""
        return allowed if self.bar is None else min(allowed, self.steps)

    def show(self, t: float) -> None:
        if self.bar is not None:
            self.bar.update(min(t, self.t1) - self.t0 - self.bar.n)
            now = time.perf_counter()
            self.steps = int(np.clip(self.steps * 0.2 / max(now - self.clock, 1e-3), 8, _SEGMENT))
            self.clock = now
