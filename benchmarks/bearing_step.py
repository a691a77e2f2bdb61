"""What one step of the ball bearing costs on this machine: in a scan, as a single call, the share of A, a batch of 64.

    python benchmarks/bearing_step.py

SemiExplicit at h = 1e-6 s, alpha = 1/2, beta = 0.8 with rings on penalties, and Verlet with prescribed rings; each as XLA compiles it by
itself and after `mbd.fuse_loops()`, in a process of its own (`--fused` runs only that). Compiling is timed apart. The least of several runs
counts: whatever else the machine does only adds. For the single call the median stands beside it: by itself XLA hands a call over to
another thread, and waking that up can take longer than the step.
"""

import functools
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

import jaxmbd as mbd
from jaxmbd.running.starting import consistent_start
from jaxmbd.system.equations import acceleration_a
from jaxmbd.system.initial import remember

STEP, COUNT, LANES = 1e-6, 1000, 64


class Cost(NamedTuple):
    wall: float
    """s"""
    cpu: float
    """s, of all threads: what is left on a machine that is busy with other things"""
    median: float
    """s, of the wall"""

    def show(self, steps: int = 1) -> str:
        return f"{1e6 * self.wall / steps:8.1f} us ({1e6 * self.cpu / steps:.1f} of CPU)"


def least(function: Callable[[], Any], runs: int = 10) -> Cost:
    walls, cpus = [], []
    for _ in range(runs):
        begin, busy = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        walls.append(time.perf_counter() - begin)
        cpus.append(time.process_time() - busy)
    return Cost(min(walls), min(cpus), statistics.median(walls))


def compiled(function: Callable[..., Any], *arguments: Any) -> tuple[Callable[[], Any], float, str]:
    """(a call without arguments, seconds it took to compile, the program). Arguments are a system's numbers too: none is a constant."""
    arrays, rest = eqx.partition(arguments, eqx.is_array)
    begin = time.perf_counter()
    program = jax.jit(lambda arrays: eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)).lower(arrays).compile()
    return lambda: program(arrays), time.perf_counter() - begin, program.as_text() or ""


def single_call(integrator, system, state, scratch) -> tuple[Callable[[], Any], float]:
    """(a call that goes on by one step, seconds of the first one).

    How a program steps that exchanges data with others: a compiled function of the state, one vector whose memory it reuses, and of the
    number of steps. Handing over twenty arrays would take longer than the step. The system's numbers are constants.
    """
    arrays, rest = eqx.partition((state, scratch), eqx.is_array)
    with warnings.catch_warnings(action="ignore"):  # of flags that travel as numbers
        vector, unpack = ravel_pytree(arrays)

    def step(_, vector):
        new = eqx.filter(one_step(integrator, system, *eqx.combine(unpack(vector), rest)), eqx.is_array)
        return ravel_pytree(new)[0]

    @functools.partial(jax.jit, donate_argnums=0)
    def advance(vector, count):
        return jax.lax.fori_loop(0, count, step, vector)

    now, one = [vector], jnp.asarray(1)

    def call():
        now[0] = advance(now[0], one)
        return now[0]

    begin = time.perf_counter()
    jax.block_until_ready(call())
    return call, time.perf_counter() - begin


def one_step(integrator, system, state, scratch):
    """What a run with fixed steps does in each."""
    new, scratch, _ = integrator.step(system, state, scratch, jnp.asarray(STEP))
    new = eqx.tree_at(lambda s: s.memory, new, remember(system, new.q, new.t, state.memory))
    return new, integrator.accept(state, new, scratch)


def many_steps(integrator, system, state, scratch):
    arrays, rest = eqx.partition((state, scratch), eqx.is_array)

    def advance(carry, _):
        return eqx.filter(one_step(integrator, system, *eqx.combine(carry, rest)), eqx.is_array), None

    return jax.lax.scan(advance, arrays, None, length=COUNT)[0]


def many_evaluations(system, state):
    """A alone, each at a point that depends on the last evaluation, so that none can be left out."""

    def advance(q, _):
        return q + 1e-30 * acceleration_a(system, q, state.v, state.t, state.x), None

    return jax.lax.scan(advance, state.q, None, length=COUNT)[0]


def kernels(program: str) -> str:
    """What the body of the scan consists of."""
    bodies, name = {}, ""
    for line in program.splitlines():
        if begin := re.match(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$", line):
            name = begin.group(1)
            bodies[name] = []
        elif name:
            bodies[name].append(line)
    counts = []
    for body in re.findall(r"body=%?([\w.\-]+)", program):
        operations = (re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z\-]+)\(", line) for line in bodies.get(body, []))
        found = Counter(operation.group(1) for operation in operations if operation)
        for free in ("get-tuple-element", "parameter", "tuple", "constant", "bitcast"):
            found.pop(free, None)
        counts.append(found)
    largest = max(counts, key=lambda found: sum(found.values()), default=Counter())
    return ", ".join(f"{count} {kind}" for kind, count in largest.most_common())


def measure(rings: str, integrator) -> None:
    begin = time.perf_counter()
    system = mbd.bearings.DeepGroove(rings=rings, cage_speed_ratio=0.99).system()
    built = time.perf_counter() - begin
    state, system = consistent_start(system), system.prepare()
    state, scratch = integrator.init(system, state)
    in_scan, compiling, program = compiled(many_steps, integrator, system, state, scratch)
    # A step in mid-run: the first one of all factorises.
    single, compiling_single = single_call(integrator, system, *eqx.combine(in_scan(), (state, scratch)))
    of_a, _, program_a = compiled(many_evaluations, system, state)
    in_batch, compiling_batch, _ = compiled(
        eqx.filter_vmap(many_steps, in_axes=(None, None, eqx.if_array(0), eqx.if_array(0))),
        integrator,
        system,
        *jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (LANES, *leaf.shape)) if eqx.is_array(leaf) else leaf, (state, scratch)),
    )
    step, call, a, batch = least(in_scan), least(single, 1000), least(of_a), least(in_batch, 3)
    print(f"{type(integrator).__name__}, rings={rings!r}: built and started in {built:.1f} s")
    print(f"  a step in a scan  {step.show(COUNT)}, compiled in {compiling:.1f} s; {kernels(program)}")
    print(f"  A alone           {a.show(COUNT)}, {100 * a.wall / step.wall:.0f} % of a step; {kernels(program_a)}")
    print(f"  a single call     {call.show()}, median {1e6 * call.median:.1f} us, compiled in {compiling_single:.1f} s")
    print(
        f"  {LANES} in a vmap      {batch.show(COUNT)}, {batch.wall / step.wall:.1f} times one, compiled in {compiling_batch:.1f} s",
        flush=True,
    )


def report() -> None:
    measure("penalty", mbd.SemiExplicit(0.5, 0.8))
    measure("prescribed", mbd.Verlet())


if __name__ == "__main__":
    if "--fused" in sys.argv:
        mbd.fuse_loops()
        print("after fuse_loops()", flush=True)
        report()
    else:
        print("as XLA compiles it by itself", flush=True)
        report()
        subprocess.run([sys.executable, __file__, "--fused"], check=True)
