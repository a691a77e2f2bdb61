"""What taking a step apart into scalars brings: one step of the stiff double pendulum for 1000 lanes at once: as it is; scalarised, with the
lanes side by side; and lane after lane in one kernel.

    python benchmarks/scalar_step.py [angles planar-rosenbrock planar-hht] [--lanes 1000]

Microseconds of wall and CPU a lane and step (the least of several runs), tracing and compiling apart, the largest difference between both
relative to the size of each quantity, and how many operations there are outside of loops.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from parts import run_parts

import jaxmbd as mbd
from jaxmbd.running.starting import consistent_start
from jaxmbd.scalar import one_kernel, scalarise

STEP = 1e-3
"""s"""


def least(function: Callable[[], Any], runs: int = 30) -> tuple[float, float]:
    """s of wall and of CPU"""
    walls, cpus = [], []
    for _ in range(runs):
        begin, busy = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - busy)
    return min(walls), min(cpus)


def difference(some: Any, others: Any) -> float:
    """The largest, relative to the largest number of each leaf."""

    def of(one, other):
        one, other = np.asarray(one, float), np.asarray(other, float)
        np.testing.assert_array_equal(np.isfinite(one), np.isfinite(other))
        one, other = np.where(np.isfinite(one), one, 0.0), np.where(np.isfinite(other), other, 0.0)
        return np.max(np.abs(one - other), initial=0.0) / max(np.max(np.abs(other), initial=0.0), 1.0)

    return max(jax.tree.leaves(jax.tree.map(of, some, others)))


def measure(title: str, system: Any, integrator: Any, lanes: int) -> None:
    state, system = consistent_start(system), system.prepare()
    state, scratch = integrator.init(system, state)
    moving, rest = eqx.partition((system, state, scratch), eqx.is_array)

    def step(velocities, moving):
        system, state, scratch = eqx.combine(moving, rest)
        state = eqx.tree_at(lambda s: s.v, state, velocities)
        return eqx.filter(integrator.step(system, state, scratch, jnp.asarray(STEP)), eqx.is_array)

    velocities = state.v * jnp.linspace(0.9, 1.1, lanes)[:, None]
    results = []
    print(f"{title}, {lanes} lanes")
    for name, function in (("as it is", step), ("scalarised", scalarise(step)), ("one kernel", one_kernel(step))):
        begin = time.perf_counter()
        lowered = jax.jit(jax.vmap(function, in_axes=(0, None))).lower(velocities, moving)
        traced = time.perf_counter()
        program = lowered.compile()
        done = time.perf_counter()
        results.append(program(velocities, moving))
        wall, cpu = least(lambda program=program: program(velocities, moving))
        print(
            f"  {name:<11} {1e6 * wall / lanes:7.2f} us a lane and step ({1e6 * cpu / lanes:.2f} of CPU); "
            f"traced in {traced - begin:.1f} s, compiled in {done - traced:.1f} s",
            flush=True,
        )
    report = scalarise(step).report(velocities[0], moving)
    print(f"  largest difference {max(difference(other, results[0]) for other in results[1:]):.1e}; {report}", flush=True)


def angles(options: argparse.Namespace) -> None:
    measure("two angles, RosenbrockNystrom", mbd.problems.DoublePendulumInAngles(), mbd.RosenbrockNystrom(1e-4, 1e-4), options.lanes)


def planar_rosenbrock(options: argparse.Namespace) -> None:
    measure("planar bodies, RosenbrockNystrom", mbd.problems.double_pendulum().build(), mbd.RosenbrockNystrom(1e-4, 1e-4), options.lanes)


def planar_hht(options: argparse.Namespace) -> None:
    measure("planar bodies, HHT", mbd.problems.double_pendulum().build(), mbd.HHT(1e-5), options.lanes)


if __name__ == "__main__":
    run_parts(
        __doc__,
        {"angles": angles, "planar-rosenbrock": planar_rosenbrock, "planar-hht": planar_hht},
        {"--lanes": {"type": int, "default": 1000, "help": "how many at once"}},
    )
