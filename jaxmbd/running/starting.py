"""Where a run starts: a state that satisfies the constraints and the equations of motion."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .._compiling import compiled_in_haste
from .._numbers import Number
from ..control.base import AbstractController
from ..integrators.base import AbstractIntegrator
from ..results import RESULTS
from ..solution import SimulationError, Solution
from ..system.equations import AbstractSystem, check_shapes, initial_states
from ..system.initial import Violation, first_memory, start
from ..system.state import Memory, State
from ..system.system import System
from . import loop
from .events import Events
from .kernels import Kernels, made_of
from .saving import SaveAt

_CONSISTENT = 1e-7


class Beginning(eqx.Module):
    """What a run starts from, before it is made consistent. One structure, whatever it came from: another would compile again."""

    q: Array
    v: Array
    x: Array
    memory: Memory


class Job(eqx.Module):
    """A run as numbers: a second job of the same structure does not compile again."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    controller: AbstractController
    beginning: Beginning
    t0: Number
    t1: Number
    first_step: Array
    """0: the integrator's choice"""
    min_step: Array
    max_step: Array
    saveat: SaveAt
    events: Events | None
    kernels: Kernels = eqx.field(static=True)

    def nameless(self) -> "Job":
        """For the compiler, to which names are nothing. Only conditions of events look quantities up by name while they are traced."""
        return self if self.events is not None else dataclasses.replace(self, system=self.system.nameless())


@eqx.filter_jit
def own_beginning(system: AbstractSystem) -> Beginning:
    """The system's."""
    q, v = (jnp.asarray(part, dtype=float) for part in (system.q0, system.v0))
    return Beginning(q, v, initial_states(system), first_memory(system))


def fitting(system: AbstractSystem, state: State) -> Beginning:
    """A given state, if it has the system's size."""
    expected = eqx.filter_eval_shape(own_beginning, system)
    given = Beginning(state.q, state.v, state.x, state.memory)
    for field in ("q", "v", "x"):
        if getattr(given, field).shape != getattr(expected, field).shape:
            raise ValueError(
                f"initial does not belong to this system: its {field} has shape {getattr(given, field).shape}, "
                f"expected {getattr(expected, field).shape}."
            )
    return given


def begin(job: Job) -> tuple[AbstractSystem, State, loop.Stretch, Violation, Array]:
    """The prepared system, the first state, where the run stands, and whether it may go on from there."""
    system, given = job.system.prepare(), job.beginning
    q, v = system.normalize(given.q, given.v)
    state, violation, assembled = start(system, job.t0, q, v, given.x, given.memory)
    h = job.controller.first_step(job.integrator.first_step(system, state))
    h = jnp.where(job.first_step > 0, job.first_step, h)
    state, stretch = loop.begin(system, job.integrator, job.controller, state, jax.lax.stop_gradient(h), job.events)
    consistent = assembled & violation.small(_CONSISTENT)
    finite = loop.is_finite(state)
    result = RESULTS.where(violation.balanced, RESULTS.successful, RESULTS.jammed_start)
    result = RESULTS.where(finite, result, RESULTS.not_finite_at_start)
    result = RESULTS.where(consistent, result, RESULTS.inconsistent_start)
    consistent = consistent & finite & violation.balanced
    stretch = eqx.tree_at(lambda s: s.result, stretch, result)
    return system, state, stretch, violation, consistent


def begin_as_made(job: Job) -> tuple[AbstractSystem, State, loop.Stretch, Violation, Array]:
    """The same; where all of a run is to be scalars, its start is a kernel of its own."""
    if job.kernels != "scalar":
        return begin(job)
    rest = []

    def arrays(job: Job) -> Any:
        found, others = eqx.partition(begin(job), eqx.is_array)
        rest.append(others)
        return found

    @eqx.filter_custom_jvp
    def run(job):
        return made_of(job.kernels, arrays)(job)

    @run.def_jvp
    def _derivative(primals, tangents):
        return eqx.filter_jvp(arrays, primals, tangents)

    return eqx.combine(run(job), rest[-1])


def consistent_start(system: AbstractSystem) -> State:
    """The system's initial state, made consistent; raises SimulationError if that fails."""
    if not isinstance(system, System):
        check_shapes(system)
    state, violation, consistent = _consistent(system.nameless())
    if not bool(consistent & violation.balanced):
        stats: dict[str, Any] = {}
        zero = jnp.zeros((), jnp.int32)
        result = RESULTS.jammed_start if bool(consistent) else RESULTS.inconsistent_start
        solution = Solution(system, one_row(state), state, stats, result, zero, jnp.zeros(0))
        finish(solution, True, inconsistency(system, violation))
    return state


@compiled_in_haste
def _consistent(system: AbstractSystem) -> tuple[State, Violation, Array]:
    given, system = own_beginning(system), system.prepare()
    q, v = system.normalize(given.q, given.v)
    state, violation, assembled = start(system, jnp.zeros(()), q, v, given.x, given.memory)
    return state, violation, assembled & violation.small(_CONSISTENT)


def inconsistency(system: AbstractSystem, violation: Violation) -> str:
    """What is wrong with a start, by name."""
    position, velocity = np.asarray(violation.position), np.asarray(violation.velocity)
    worst = np.argsort(-np.maximum(position, velocity))[:4]
    n = system.q0.shape[-1]
    names = dict.fromkeys(system.describe_unknown(n + int(i)) for i in worst if max(position[i], velocity[i]) > _CONSISTENT)
    if not names and not violation.balanced:
        return "These are: " + ", ".join(system.multiplier_forces()) + "."
    return "Violated: " + ", ".join(names) + "." if names else ""


def one_row(state: State) -> State:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)


def finish(solution: Solution, throw: bool, detail: str = "") -> Solution:
    """Raises on demand, if the run failed."""
    if throw and not bool(solution.succeeded):
        raise SimulationError(" ".join(filter(None, [solution.message, detail])), solution)
    return solution
