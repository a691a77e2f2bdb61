"""Batches of one mechanism, measured in a process of their own; `sweep.py` and `single.py` start it and ask, a line of JSON for each question.

    python benchmarks/batches.py CASE [--kernels auto|scalar|array]      then lines such as {"lanes": 100}

So that several commits can be measured side by side it needs `simulate` only, of whichever jaxmbd is on the path.
"""

import argparse
import inspect
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from peers import CORES, samples

REPEATS, LONG = 5, 3.0
"""a batch is run so many times, of which the shortest counts; one that takes longer [s] is run once"""


class Case(NamedTuple):
    title: str
    model: Callable[[Any], Any]
    """of the package; numbers that vary are set by `vary`"""
    vary: Callable[[Any, Any], Any]
    """the system with another number"""
    low: float
    high: float
    """between which it lies"""
    t1: float
    """s"""
    options: Callable[[Any], dict[str, Any]]
    """further arguments of `simulate`"""
    angles: tuple[int, int] | None = None
    """places in q of what can be compared with the peers"""


def _set(*names: str) -> Callable[[Any, Any], Any]:
    return lambda system, value: system.set(dict.fromkeys(names, value))


def _in_angles(mbd: Any) -> Any:
    """The equations for two angles, with the stiffness of the first spring as a number that varies."""
    import jax.numpy as jnp

    class Varied(mbd.problems.DoublePendulumInAngles):
        stiffness: Any

        def __init__(self, stiffness: Any = 400.0):
            super().__init__()
            self.stiffness = jnp.asarray(stiffness)

        def stiff_force(self, q, v, t):
            more = (self.stiffness - 400.0) * (q[0] - 1.5 * np.pi)
            return super().stiff_force(q, v, t) - more * jnp.array([1.0, 0.0])

    return Varied()


_PENDULUM: dict[str, Any] = {"low": 300.0, "high": 500.0, "t1": 2.0}
_TYRES = [f"tyre_{end}_{side}.stiffness" for end in ("front", "rear") for side in ("left", "right")]

CASES = {
    "angles": Case(
        "two-angle double pendulum, RosenbrockNystrom 1e-4",
        _in_angles,
        lambda system, value: type(system)(value),
        options=lambda mbd: {"integrator": mbd.RosenbrockNystrom(1e-4, 1e-4)},
        angles=(0, 1),
        **_PENDULUM,
    ),
    "planar-rosenbrock": Case(
        "planar double pendulum, RosenbrockNystrom 1e-4",
        lambda mbd: mbd.problems.double_pendulum(),
        _set("spring1.stiffness"),
        options=lambda mbd: {"integrator": mbd.RosenbrockNystrom(1e-4, 1e-4)},
        angles=(2, 5),
        **_PENDULUM,
    ),
    "planar-hht": Case(
        "planar double pendulum, HHT 1e-5",
        lambda mbd: mbd.problems.double_pendulum(),
        _set("spring1.stiffness"),
        options=lambda mbd: {"integrator": mbd.HHT(tolerance=1e-5)},
        angles=(2, 5),
        **_PENDULUM,
    ),
    "four-bar": Case(
        "planar four-bar linkage, HHT 1e-5, 2 s",
        lambda mbd: mbd.problems.four_bar(),
        _set("coupler.mass"),
        0.3,
        0.7,
        2.0,
        lambda mbd: {"integrator": mbd.HHT(tolerance=1e-5)},
    ),
    "vehicle": Case(
        "vehicle (14 bodies) on the bump, RosenbrockNystrom 1e-4, 1 s",
        lambda mbd: mbd.problems.hmmwv(),
        _set(*_TYRES),
        2.5e5,
        3.5e5,
        1.0,
        lambda mbd: {"integrator": mbd.RosenbrockNystrom(1e-4, 1e-4), "max_step": 0.02},
    ),
    "bearing": Case(
        "ball bearing, SemiExplicit, 500 steps of 2 us",
        lambda mbd: mbd.problems.ball_bearing(),
        _set("inner.mass"),
        0.05,
        0.1,
        1e-3,
        lambda mbd: {"integrator": mbd.SemiExplicit(0.5, 0.6, predict_velocity=True), "step": 2e-6},
    ),
}


class Batches:
    """A case, ready to be measured."""

    def __init__(self, case: Case, kernels: str | None):
        import jax

        import jaxmbd as mbd

        model = case.model(mbd)
        system = model.build() if isinstance(model, mbd.Model) else model
        options = {"saveat": mbd.SaveAt(t1=True), "max_steps": 100_000, **case.options(mbd)}
        if kernels is not None and "kernels" in inspect.signature(mbd.simulate).parameters:
            options["kernels"] = kernels

        def run(value: Any, throw: bool = False) -> Any:
            return mbd.simulate(case.vary(system, value), case.t1, throw=throw, **options)

        def ends(value: Any) -> dict[str, Any]:
            found = run(value)
            attempts = found.stats["steps"] + found.stats["rejected"]
            return {"q": found.final.q, "attempts": attempts, "reached": found.final.t}

        self.case, self.run, self.jax, self.lane = case, run, jax, ends

    def measure(self, lanes: int) -> dict[str, Any]:
        """A batch in as many threads as there are cores, each with its part of the lanes; one lane alone is no batch."""
        threads = CORES if lanes >= 2 * CORES else 1
        width = -(-lanes // threads)
        lanes = width * threads
        values = np.linspace(self.case.low, self.case.high, lanes) if lanes > 1 else np.array([self.case.low])
        parts = [self.jax.numpy.asarray(part if lanes > 1 else part[0]) for part in np.split(values, threads)]
        begin = time.perf_counter()
        program = self.jax.jit(self.jax.vmap(self.lane) if lanes > 1 else self.lane).lower(parts[0]).compile()
        compiling = time.perf_counter() - begin
        with ThreadPoolExecutor(threads) as pool:
            found, wall, cpu = self._clock(lambda: list(pool.map(lambda part: self.jax.block_until_ready(program(part)), parts)))
        joined = {name: np.concatenate([np.atleast_1d(part[name]) for part in found]) for name in ("attempts", "reached")}
        told = {"lanes": lanes, "threads": threads, "compile": compiling, "wall": wall, "cpu": cpu}
        told |= {"attempts": int(np.sum(joined["attempts"])), "failed": int(np.sum(joined["reached"] < self.case.t1 * (1 - 1e-12)))}
        return told | self._compared(values, np.concatenate([np.atleast_2d(part["q"]) for part in found]))

    def single(self) -> dict[str, Any]:
        """A second call of `simulate` as it is, outside of jit."""
        self.run(self.case.low, throw=True)
        runs = 20
        walls = []
        for value in np.linspace(self.case.low, self.case.high, runs):
            begin = time.perf_counter()
            self.jax.block_until_ready(self.run(value, throw=True).final.q)
            walls.append(time.perf_counter() - begin)
            if sum(walls) > LONG and len(walls) >= 3:
                break
        return {"wall": min(walls), "median": float(np.median(walls))}

    def _clock(self, call: Callable[[], Any]) -> tuple[Any, float, float]:
        best = (float("inf"), 0.0)
        found = None
        for _ in range(REPEATS):
            begin, busy = time.perf_counter(), time.process_time()
            found = call()
            took = time.perf_counter() - begin, time.process_time() - busy
            best = min(best, took)
            if took[0] > LONG:
                break
        return found, *best

    def _compared(self, values: np.ndarray, q: np.ndarray) -> dict[str, Any]:
        if self.case.angles is None:
            return {}
        rows = samples(len(values))
        return {"values": values[rows].tolist(), "angles": q[rows][:, list(self.case.angles)].tolist()}


class Child(NamedTuple):
    """The process that measures a case with the package of some commit."""

    process: Any

    def ask(self, **question: Any) -> dict[str, Any]:
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"benchmarks/batches.py ended with {self.process.wait()}.")
        return json.loads(line)


@contextmanager
def child(package: Path, case: str, kernels: str | None, algebra_threads: int | None = None) -> Iterator[Child]:
    """`algebra_threads`: of the library that solves small matrices; None: as it is."""
    environment = os.environ | {"PYTHONPATH": str(package), "TF_CPP_MIN_LOG_LEVEL": "3"}
    if algebra_threads is not None:
        environment["OPENBLAS_NUM_THREADS"] = str(algebra_threads)
    command = [sys.executable, __file__, case, *(["--kernels", kernels] if kernels else [])]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Child(process)
        finally:
            if process.stdin is not None:
                process.stdin.close()  # it then ends by itself
            process.terminate()


def answer(arguments: argparse.Namespace) -> None:
    batches = Batches(CASES[arguments.case], arguments.kernels)
    for line in sys.stdin:
        question = json.loads(line)
        found = batches.measure(question["lanes"]) if "lanes" in question else batches.single()
        found["memory"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--kernels", help="handed on to simulate, if it takes it")
    answer(parser.parse_args())
