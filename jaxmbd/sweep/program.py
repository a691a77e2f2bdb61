"""One program for all chunks of a sweep: a fixed number of lanes, each a run of which only what is observed is kept."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import results
from ..running.saving import SaveAt
from ..simulate import simulate
from ..solution import Solution
from ..system.observing.grammar import find
from ..system.system import System
from .designs import spread

LANES = "lanes"
"""The axis of devices over which the lanes of a chunk are spread."""
ROWS = 257
"""Times at which a run is looked at for reducers and functions if none are given, evenly from its start to its end."""
STATISTICS = {
    "result": "how the run ended: the number of a sentence, see flag_meanings",
    "time_reached": "s, where it ended",
    "steps": "accepted",
    "rejected": "steps tried again with a smaller size",
}
"""What every run has beside its observables."""


class Job(NamedTuple):
    """What is done in every lane. It can be sent to other processes."""

    system: System
    t1: float
    observe: tuple[str | Callable[[Solution], Any], ...]
    times: np.ndarray | None
    """s, where time series are kept"""
    options: dict[str, Any]
    """further arguments of `simulate`"""

    def lane(self, values: dict[str, Any]) -> dict[str, Any]:
        """Statistics and observables of one run. What a run did not reach is NaN."""
        run = simulate(self.system.set(spread(self.system, values)), self.t1, throw=False, **self.options)
        reached = {"result": results.number(run.result), "time_reached": run.final.t, "steps": run.stats["steps"]}
        return {**reached, "rejected": run.stats["rejected"], **self.seen(run)}

    def seen(self, run: Solution) -> dict[str, jax.Array]:
        """The observables of one run."""
        found = dict(run.observe([one for one in self.observe if isinstance(one, str)]))
        for function in self.observe:
            if not isinstance(function, str):
                found |= _call(function, run)
        return {name: self._fitting(name, value, run) for name, value in found.items()}

    def _fitting(self, name: str, value: Any, run: Solution) -> jax.Array:
        value = jnp.asarray(value)
        if value.ndim == 0:
            there = run.succeeded
        elif self.times is not None and value.shape == self.times.shape:
            there = run.succeeded | (self.times <= run.final.t)
        else:
            rows = (
                "saveat=times gives it room for one at each of them" if self.times is None else f"or one at each of {len(self.times)} times"
            )
            raise ValueError(
                f"the observable {name!r} must be one number for a run ({rows}), got an array of shape {value.shape}: return its parts by name, "
                "as a dictionary of numbers."
            )
        return jnp.where(there, value, jnp.nan) if jnp.issubdtype(value.dtype, jnp.inexact) else value

    def units(self) -> dict[str, str]:
        """Of observables that have one."""
        return {one: self.system.observable_unit(one) for one in self.observe if isinstance(one, str)}


def _call(function: Callable[[Solution], Any], run: Solution) -> dict[str, Any]:
    """What a user's function gives, by name."""
    value = function(run)
    name = getattr(function, "__name__", type(function).__name__)
    found = dict(value) if isinstance(value, Mapping) else {"observed" if name == "<lambda>" else name: value}
    for key, part in found.items():
        try:
            number = jnp.asarray(part)
        except (TypeError, ValueError):
            number = None
        if number is None or (not jnp.issubdtype(number.dtype, jnp.number) and number.dtype != bool):
            raise ValueError(f"the observable {key!r} must be a number or an array of them, got {type(part).__name__}.")
        if not isinstance(key, str) or "/" in key or key in STATISTICS:
            raise ValueError(f"an observable cannot have the name {key!r}.")
    return found


def read_job(system: System, t1: Any, observe: Any, saveat: Any, options: dict[str, Any]) -> Job:
    """The arguments of `sweep` that say what a run does and what is kept of it."""
    observed = (observe,) if isinstance(observe, str) or callable(observe) else tuple(observe)
    if not observed or not all(isinstance(one, str) or callable(one) for one in observed):
        raise ValueError(f"observe must be names such as 'peak:rod.y' or functions of the solution, got {observe!r}.")
    t0 = options.get("t0") or (0.0 if options.get("initial") is None else options["initial"].t)
    wanted = saveat if isinstance(saveat, SaveAt) else None if saveat is None else SaveAt(ts=saveat)
    if wanted is not None and wanted.steps:
        raise ValueError("a sweep keeps no steps, whose number is another in each run: give saveat=times.")
    names = [one for one in observed if isinstance(one, str)]
    found = find(system, *names)
    series = [name for name, one in zip(names, found, strict=True) if not one.reducer]
    if series and (wanted is None or wanted.ts is None):
        raise ValueError(f"{series[0]!r} is a number for each time: say which, saveat=times [s], or take one, such as 'final:{series[0]}'.")
    times = None if wanted is None or wanted.ts is None else np.asarray(SaveAt.read(wanted, t0, t1).ts)
    if wanted is None:
        ends = all(one.reducer == "final" and not one.observable.flow and not one.observable.full_turns for one in found)
        needs_rows = not ends or any(callable(one) for one in observed)
        wanted = SaveAt(ts=np.linspace(float(t0), float(t1), ROWS)) if needs_rows else SaveAt(t1=True)
    return Job(system, float(t1), observed, times, {**options, "saveat": wanted})


class Program(NamedTuple):
    """A job for so many lanes, traced and perhaps compiled."""

    width: int
    lowered: jax.stages.Lowered
    shapes: dict[str, jax.ShapeDtypeStruct]
    """of what it gives, by name, for all lanes"""
    lanes: jax.sharding.NamedSharding

    @property
    def fingerprint(self) -> str:
        """Of all that it computes: the mechanism, its numbers, the method, what is observed."""
        text = re.sub(r"0x[0-9a-f]+", "", self.lowered.as_text())
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def calls_algebra(self) -> bool:
        """Whether matrices of many lanes are handed over to a library."""
        return re.search(r"lapack_|blas_|triangular_solve|cholesky", self.lowered.as_text()) is not None

    def compiled(self) -> "Compiled":
        compiled = self.lowered.compile()
        return Compiled(self, compiled, _needed(compiled))


def threads() -> int:
    """Chunks that run at a time. XLA runs a loop over lanes on a CPU in one thread for most of its time; several devices have a part of every
    chunk each, and an accelerator has no use for a second queue."""
    alone_on_cpu = jax.default_backend() == "cpu" and jax.local_device_count() == 1
    return min(2, os.cpu_count() or 1) if alone_on_cpu else 1


class Compiled(NamedTuple):
    program: Program
    call: jax.stages.Compiled
    bytes: int
    """of memory that it takes while it runs"""

    @property
    def threads(self) -> int:
        """One for programs that call the algebra library: two of them at a time were seen to wait for each other for ever (a vehicle, two cores:
        XLA's pool had no thread left for what both were waiting for)."""
        return 1 if self.program.calls_algebra else threads()

    def run(self, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The runs of a chunk, of at most its width; it is filled up with copies of the last."""
        count, width = len(next(iter(columns.values()))), self.program.width
        full = {name: np.concatenate([values, np.repeat(values[-1:], width - count, axis=0)]) for name, values in columns.items()}
        found = self.call(jax.device_put(full, self.program.lanes))
        return {name: np.asarray(values)[:count] for name, values in found.items()}


def trace(job: Job, columns: dict[str, np.ndarray], width: int) -> Program:
    """The program of a job, for lanes with such values. Every device has its own loop over its own lanes: it waits for no other."""
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()), (LANES,))
    spread = jax.sharding.PartitionSpec(LANES)
    lanes = jax.sharding.NamedSharding(mesh, spread)
    whole = jax.vmap(job.lane)
    if mesh.size > 1:
        whole = jax.shard_map(whole, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)
    example = {name: jax.ShapeDtypeStruct((width, *values.shape[1:]), values.dtype, sharding=lanes) for name, values in columns.items()}
    traced = jax.jit(whole, in_shardings=lanes, out_shardings=lanes).trace(example)
    return Program(width, traced.lower(), dict(traced.out_info), lanes)


def _needed(compiled: jax.stages.Compiled) -> int:
    sizes: Any = compiled.memory_analysis()
    if sizes is None:
        return 0
    return sizes.temp_size_in_bytes + sizes.argument_size_in_bytes + sizes.output_size_in_bytes
