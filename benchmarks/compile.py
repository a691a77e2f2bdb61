"""What starting costs: seconds of tracing, lowering and XLA, equations and kernels, cold and warm; and the memory of a batch.

    python benchmarks/compile.py                        # all; the vehicle's gradient takes minutes
    python benchmarks/compile.py --quick                # the small mechanisms
    python benchmarks/compile.py --against HEAD~3       # the same of another commit, interleaved, and the ratios
    python benchmarks/compile.py --only hmmwv --kinds first run

Every mechanism is measured in fresh processes: `cold` starts with an empty compilation cache, `warm` finds what `cold` left. Rows are

- `first`: building the model and a first step outside of `jit`, as `jaxmbd run` does it: all programs together;
- `run`, `gradient`, `vmap`: the run as a compiled function of one parameter, its derivative, and 64 lanes of it; compiled, not executed.

Seconds are CPU seconds of all threads, which other work on the machine disturbs least; the stages of `first` are wall times. Equations are
those of the jaxpr with all that it contains, kernels the operations that the compiled program hands out. `hits` says how many programs came
from the cache, of how many; one with host callbacks never does.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import monitoring

KINDS = ("first", "run", "gradient", "vmap")
LANES, MAX_STEPS = 64, 1024
MEMORY_LANES, MEMORY_STEPS = 256, (64, 65536)


class Case(NamedTuple):
    problem: str
    integrator: Callable[[Any], Any]
    """made of jaxmbd, which a child imports from the commit to be measured"""
    parameter: str
    t1: float
    """s"""
    quick: bool = False
    options: dict[str, float] = {}  # noqa: RUF012
    """of simulate"""


CASES = {
    "double-pendulum hht": Case("double_pendulum", lambda mbd: mbd.HHT(tolerance=1e-5), "spring1.stiffness", 2.0, quick=True),
    "double-pendulum rosenbrock": Case("double_pendulum", lambda mbd: mbd.RosenbrockNystrom(1e-5, 1e-5), "spring1.stiffness", 2.0),
    "slider-crank hht": Case("slider_crank", lambda mbd: mbd.HHT(tolerance=1e-5), "rod.mass", 1.0, quick=True),
    "hmmwv rosenbrock": Case("hmmwv", lambda mbd: mbd.RosenbrockNystrom(1e-5, 1e-5), "chassis.mass", 5.0, options={"max_step": 0.02}),
    "ball-bearing semi-explicit": Case(
        "ball_bearing", lambda mbd: mbd.SemiExplicit(0.5, 0.6, predict_velocity=True), "inner.mass", 0.001, options={"step": 2e-6}
    ),
}


# --- in a child: one mechanism --------------------------------------------------------------------------------------------------------------


class Clock:
    """Intervals in which JAX says it traced, lowered and compiled. Tracing contains tracing: their union counts."""

    EVENTS = {  # noqa: RUF012
        "/jax/core/compile/jaxpr_trace_duration": "trace",
        "/jax/core/compile/jaxpr_to_mlir_module_duration": "lower",
        "/jax/core/compile/backend_compile_duration": "xla",
    }

    def __init__(self):
        self.intervals: dict[str, list[tuple[float, float]]] = {}
        self.requests = self.hits = 0
        monitoring.register_event_duration_secs_listener(self._took)
        monitoring.register_event_listener(self._happened)

    def _took(self, event: str, seconds: float, **_: Any) -> None:
        if event in self.EVENTS:
            now = time.perf_counter()
            self.intervals[self.EVENTS[event]].append((now - seconds, now))

    def _happened(self, event: str, **_: Any) -> None:
        self.requests += event == "/jax/compilation_cache/compile_requests_use_cache"
        self.hits += event == "/jax/compilation_cache/cache_hits"

    def start(self) -> None:
        self.intervals = {stage: [] for stage in self.EVENTS.values()}
        self.requests = self.hits = 0
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self) -> dict[str, Any]:
        wall, cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu
        lengths = {stage: _covered(intervals) for stage, intervals in self.intervals.items()}
        return {"wall": wall, "cpu": cpu, **lengths, "hits": self.hits, "programs": self.requests}


def _covered(intervals: list[tuple[float, float]]) -> float:
    """The length of a union of intervals."""
    total, end = 0.0, -float("inf")
    for begin, until in sorted(intervals):
        total += max(0.0, until - max(begin, end))
        end = max(end, until)
    return total


def measure(case: Case, kinds: list[str]) -> dict[str, Any]:
    """All kinds of one mechanism, in this process."""
    begin, cpu = time.perf_counter(), time.process_time()
    import jaxmbd as mbd

    found: dict[str, Any] = {"import": {"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu}}
    clock = Clock()
    clock.start()
    model = getattr(mbd.problems, case.problem)()
    system = model.build() if isinstance(model, mbd.Model) else model
    integrator = case.integrator(mbd)
    if "first" in kinds:
        mbd.simulate(system, case.t1, integrator=integrator, max_steps=1, throw=False, **case.options)
        found["first"] = clock.stop()
        found["first"]["kernels"] = sum(kernels(module.to_string()) for module in _live_modules())
    value = jnp.asarray(system.get(case.parameter), float)

    def run(p):
        changed = system.set({case.parameter: p})
        return mbd.simulate(changed, case.t1, integrator=integrator, max_steps=MAX_STEPS, throw=False, **case.options).final.q

    functions = {
        "run": (run, value),
        "gradient": (jax.grad(lambda p: jnp.sum(run(p))), value),
        "vmap": (jax.vmap(run), jnp.broadcast_to(value, (LANES, *value.shape))),
    }
    for kind in kinds:
        if kind != "first":
            jax.clear_caches()
            found[kind] = staged(clock, *functions[kind])
    return found


def staged(clock: Clock, function: Callable[..., Any], argument: Any) -> dict[str, Any]:
    """Traced, lowered and compiled, one after the other."""
    clock.start()
    marks = [time.process_time()]
    traced = jax.jit(function).trace(argument)
    marks.append(time.process_time())
    lowered = traced.lower()
    marks.append(time.process_time())
    compiled = lowered.compile()
    marks.append(time.process_time())
    found = clock.stop()
    found |= dict(zip(("trace", "lower", "xla"), (b - a for a, b in pairwise(marks)), strict=True))
    return found | {"equations": equations(traced.jaxpr.jaxpr), "kernels": kernels(compiled.as_text() or "")}


def equations(jaxpr: Any) -> int:
    """Those of a jaxpr and of all jaxprs in it, each as often as it stands there."""
    count = 0
    for equation in jaxpr.eqns:
        count += 1
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                count += equations(inner) if hasattr(inner, "eqns") else 0
    return count


_FREE = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast"}


def kernels(program: str) -> int:
    """Operations of the compiled program that are handed out one by one: not what is inside of them, and not what costs nothing."""
    computations: dict[str, list[tuple[str, str]]] = {}
    entry = name = ""
    for line in program.splitlines():
        if begin := re.match(r"^(ENTRY )?%?([\w.\-]+) .*\{$", line):
            name = begin.group(2)
            entry = name if begin.group(1) else entry
            computations[name] = []
        elif operation := re.match(r"\s+(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([a-z\-]+)\(", line):
            computations[name].append((operation.group(1), line))
    count, waiting, seen = 0, [entry], set()
    while waiting:
        if (name := waiting.pop()) in seen or name not in computations:
            continue
        seen.add(name)
        for operation, line in computations[name]:
            count += operation not in _FREE
            if operation in ("while", "conditional", "call"):
                called = re.search(r"(?:branch_computations=\{|true_computation=)(.*?)(?:\}|metadata|$)", line)
                waiting += re.findall(r"(?:body|condition|to_apply|true_computation|false_computation)=%?([\w.\-]+)", line)
                waiting += re.findall(r"%([\w.\-]+)", called.group(1)) if called else []
    return count


def _live_modules() -> Iterator[Any]:
    for executable in jax.devices()[0].client.live_executables():
        yield from executable.hlo_modules()


def measure_memory() -> dict[str, Any]:
    """What XLA sets aside for a batch of runs of the double pendulum with five saved times, and what the process then takes."""
    import resource

    import jaxmbd as mbd

    system = mbd.problems.double_pendulum().build()
    times = jnp.linspace(0.002, 0.01, 5)

    def run(p, max_steps):
        changed = system.set({"spring1.stiffness": p})
        options = {"integrator": mbd.HHT(tolerance=1e-4), "saveat": times, "max_steps": max_steps, "throw": False}
        return mbd.simulate(changed, 0.01, **options).q

    found = {}
    for max_steps in MEMORY_STEPS:
        stiffness = jnp.linspace(300.0, 500.0, MEMORY_LANES)
        program = jax.jit(jax.vmap(lambda p, n=max_steps: run(p, n))).lower(stiffness).compile()
        analysis = program.memory_analysis()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        jax.block_until_ready(program(stiffness))
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        planned = analysis.temp_size_in_bytes + analysis.output_size_in_bytes + analysis.argument_size_in_bytes
        found[str(max_steps)] = {"planned": planned / 2**20, "process": (after - before) / 2**10}
    return found


# --- in the parent: children, and a table ---------------------------------------------------------------------------------------------------


def child(package: Path, cache: Path, *arguments: str) -> dict[str, Any]:
    """What a fresh process measures with the package in `package`. Its last line is the result, others are passed on."""
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",  # what XLA says of every program that comes from the cache
    }
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def packages(against: str | None) -> Iterator[dict[str, Path]]:
    """Where the commits to be measured are, by name."""
    here = Path(__file__).resolve().parents[1]
    if against is None:
        yield {"here": here}
        return
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        subprocess.run(["git", "-C", str(here), "worktree", "add", "--detach", str(other), against], check=True, stdout=sys.stderr)
        try:
            yield {against: other, "here": here}
        finally:
            subprocess.run(["git", "-C", str(here), "worktree", "remove", "--force", str(other)], check=True)


_COLUMNS = ("cpu", "trace", "lower", "xla", "wall")


def show(name: str, found: dict[str, Any]) -> str:
    seconds = "".join(f"{found[column]:8.2f}" for column in _COLUMNS)
    return f"  {name:26s}{seconds}{found.get('equations', '-')!s:>11}{found['kernels']:>9}{found['hits']:>6}/{found['programs']}"


def compare(kind: str, results: dict[tuple[str, str], dict[str, Any]], against: str | None) -> None:
    """Ratios: warm to cold, and of the two commits."""
    cold, warm = results["here", "cold"][kind]["cpu"], results["here", "warm"][kind]["cpu"]
    line = f"  {kind:26s}warm / cold {warm / cold:.2f}"
    if against is not None:
        ratios = (results["here", state][kind]["cpu"] / results[against, state][kind]["cpu"] for state in ("cold", "warm"))
        line += "; here / {}: cold {:.2f}, warm {:.2f}".format(against, *ratios)
    print(line, flush=True)


def report(names: list[str], kinds: list[str], against: str | None, memory: bool) -> None:
    header = "".join(f"{column:>8}" for column in ("CPU s", *_COLUMNS[1:])) + f"{'equations':>11}{'kernels':>9}{'hits':>7}"
    with packages(against) as found, tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(f"{name}\n  {'':26s}{header}", flush=True)
            results = {}
            for state in ("cold", "warm"):
                for commit, package in found.items():
                    cache = Path(folder) / re.sub(r"\W", "_", f"{commit} {name}")
                    results[commit, state] = child(package, cache, "--measure", name, "--kinds", *kinds)
                    for kind in kinds:
                        print(show(f"{kind}, {state}" + (f", {commit}" if against else ""), results[commit, state][kind]), flush=True)
            for kind in kinds:
                compare(kind, results, against)
        if memory:
            print(f"a batch of {MEMORY_LANES} double pendulums, five saved times: MB that XLA sets aside, and that the process grows by")
            for commit, package in found.items():
                sizes = child(package, Path(folder) / "memory", "--measure-memory")
                for steps, size in sizes.items():
                    print(f"  {commit}: max_steps {steps:>6}: {size['planned']:8.1f} {size['process']:8.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the small mechanisms only")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="mechanisms whose name contains one of these")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--against", metavar="REV", help="another commit to compare with")
    parser.add_argument("--no-memory", action="store_true", help="leave out the memory of a batch")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--measure-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(CASES[options.measure], options.kinds)))
    elif options.measure_memory:
        print(json.dumps(measure_memory()))
    else:
        chosen = [name for name, case in CASES.items() if case.quick or not options.quick]
        chosen = [name for name in chosen if not options.only or any(word in name for word in options.only)]
        report(chosen, options.kinds, options.against, not options.no_memory)
