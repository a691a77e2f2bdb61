"""What one step of the ball bearing costs on this machine: in a scan, as a single call, the share of A, a batch of 64.

    python benchmarks/bearing_step.py

SemiExplicit at h = 1e-6 s, alpha = 1/2, beta = 0.8 with rings on penalties, and Verlet with prescribed rings. Compiling is timed apart. The
least of several runs counts: whatever else the machine does only adds.
"""

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import jaxmbd as mbd
from jaxmbd.simulate import consistent_start
from jaxmbd.system.equations import acceleration_a
from jaxmbd.system.initial import remember

STEP, COUNT, LANES = 1e-6, 1000, 64


def least(function: Callable[[], Any], runs: int = 10) -> float:
    """s"""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        jax.block_until_ready(function())
        times.append(time.perf_counter() - begin)
    return min(times)


def compiled(function: Callable[..., Any], *arguments: Any) -> tuple[Callable[[], Any], float, str]:
    """(a call without arguments, seconds it took to compile, the program). Arguments are a system's numbers too: none is a constant."""
    arrays, rest = eqx.partition(arguments, eqx.is_array)
    begin = time.perf_counter()
    program = jax.jit(lambda arrays: eqx.filter(function(*eqx.combine(arrays, rest)), eqx.is_array)).lower(arrays).compile()
    return lambda: program(arrays), time.perf_counter() - begin, program.as_text() or ""


def called(integrator, system, state, scratch) -> tuple[Callable[[], Any], float]:
    """(a jitted step, as a script would call it, seconds of its first call).

    A call's own cost grows with its arguments: the system's numbers, some two hundred arrays, are constants of this program.
    """
    arrays, rest = eqx.partition((state, scratch), eqx.is_array)
    step = jax.jit(lambda arrays: eqx.filter(one_step(integrator, system, *eqx.combine(arrays, rest)), eqx.is_array))
    begin = time.perf_counter()
    jax.block_until_ready(step(arrays))
    return lambda: step(arrays), time.perf_counter() - begin


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
    body = re.search(r"body=%?([\w.\-]+)", program)
    found = Counter()
    for line in bodies.get(body.group(1) if body else "", []):
        if operation := re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z\-]+)\(", line):
            found[operation.group(1)] += 1
    for free in ("get-tuple-element", "parameter", "tuple", "constant", "bitcast"):
        found.pop(free, None)
    return ", ".join(f"{count} {kind}" for kind, count in found.most_common())


def measure(rings: str, integrator) -> None:
    begin = time.perf_counter()
    system = mbd.bearings.DeepGroove(rings=rings, cage_speed_ratio=0.99).system()
    built = time.perf_counter() - begin
    state, system = consistent_start(system), system.prepare()
    state, scratch = integrator.init(system, state)
    in_scan, compiling, program = compiled(many_steps, integrator, system, state, scratch)
    single, compiling_single = called(integrator, system, state, scratch)
    of_a, _, program_a = compiled(many_evaluations, system, state)
    in_batch, compiling_batch, _ = compiled(
        eqx.filter_vmap(many_steps, in_axes=(None, None, eqx.if_array(0), eqx.if_array(0))),
        integrator,
        system,
        *jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (LANES, *leaf.shape)) if eqx.is_array(leaf) else leaf, (state, scratch)),
    )
    step, call, a, batch = least(in_scan) / COUNT, least(single, 1000), least(of_a) / COUNT, least(in_batch, 3) / COUNT
    print(f"{type(integrator).__name__}, rings={rings!r}: built and started in {built:.1f} s")
    print(f"  in a scan        {1e6 * step:8.1f} us a step      (compiled in {compiling:.1f} s; {kernels(program)})")
    print(f"  evaluation of A  {1e6 * a:8.1f} us = {100 * a / step:.0f} %      ({kernels(program_a)})")
    print(f"  a single call    {1e6 * call:8.1f} us             (compiled in {compiling_single:.1f} s)")
    print(
        f"  {LANES} in a vmap     {1e6 * batch:8.1f} us a step, {batch / step:.1f} times one lane (compiled in {compiling_batch:.1f} s)",
        flush=True,
    )


if __name__ == "__main__":
    measure("penalty", mbd.SemiExplicit(0.5, 0.8))
    measure("prescribed", mbd.Verlet())
