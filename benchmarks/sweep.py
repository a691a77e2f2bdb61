"""Simulations a second against the size of a batch, beside programs that run the same variations; and a sweep as a user would call it.

    python benchmarks/sweep.py                          # all parts
    python benchmarks/sweep.py angles planar-hht peers  # some
    python benchmarks/sweep.py vehicle --against REV    # the same of another commit, interleaved, and the ratios
    python benchmarks/sweep.py --quick                  # a look: few sizes, short

Parts `angles`, `planar-rosenbrock`, `planar-hht`, `four-bar`, `vehicle`, `bearing`: batches of 1, 10, 100 ... until they get no faster by a
tenth or a batch would take longer than --seconds. As in `mbd.sweep`, a batch is spread over as many threads as there are cores, each with a
program for its part of the lanes, and the library for small matrices has one thread (--algebra-threads). `speed-up` is over a loop of single
runs of a compiled function in one thread, which the batch of one is. Compiling stands apart. CPU microseconds are those of all threads, a lane
and step attempt. The error is that of the angles at the end, of some runs, against scipy's Radau.

Part `peers`: C++ by hand (compiled here), CVODE, MuJoCo and exudyn on the same double pendulums and cores, each with settings that err about
as much as ours. Part `vehicle-map`: 256 vehicles by `mbd.sweep`, tyre stiffness by damping, with a heat map of the chassis's greatest height;
seconds with tracing and compiling, memory of the process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import peers
from batches import CASES, child
from compile import packages
from parts import FIGURES, run_parts

SIZES = {"bearing": (1, 8, 64, 256), "vehicle": (1, 4, 16, 64, 256)}
"""of batches, where they are not the powers of ten"""
TARGETS = {
    "angles": "at least 1.0 of C++ (part `peers`, in the same run)",
    "planar-rosenbrock": "12,000 a second on two cores, or 15 times the commit before",
    "planar-hht": "3,500 a second on two cores, or 15 times the commit before",
    "vehicle": "4 times the commit before",
    "bearing": "4 times the commit before; 64 at most 20 times one",
}
FLAT = 1.1
"""A batch is no faster if its rate is not so many times that of the smaller ones."""
_rates: dict[str, float] = {}
"""of this commit, the best of each part"""


def sizes(name: str, quick: bool) -> Iterator[int]:
    if quick:
        yield from (1, 8)
        return
    yield from SIZES.get(name, (10**power for power in range(7)))


def measure(name: str, options: argparse.Namespace) -> None:
    case = CASES[name]
    print(f"\n{case.title}; {peers.CORES} threads" + (f", kernels={options.kernels}" if options.kernels else ""))
    print(
        "   lanes | compile [s] |   runs/s | speed-up | CPU us / lane, attempt | attempts a run | failed | error [rad] | memory [MB]",
        flush=True,
    )
    with packages(options.against) as found, ExitStack() as stack:
        children = {
            commit: stack.enter_context(child(package, name, options.kernels, options.algebra_threads)) for commit, package in found.items()
        }
        single: dict[str, float] = {}
        best = dict.fromkeys(children, 0.0)
        seconds = {}
        for lanes in sizes(name, options.quick):
            if lanes > 1 and lanes / best["here"] > options.seconds:
                print(f"  {lanes:>6} would take longer than {options.seconds:g} s")
                break
            before = best["here"]
            for commit, process in children.items():
                told = process.ask(lanes=lanes)
                rate = told["lanes"] / told["wall"]
                single.setdefault(commit, rate)
                best[commit] = max(best[commit], rate)
                seconds[commit, told["lanes"]] = told["wall"]
                print(row(told, rate / single[commit]) + ("" if options.against is None else f" | {commit}"), flush=True)
            if best["here"] < FLAT * before:
                break
    if options.against is not None:
        print(f"  best here / best of {options.against}: {best['here'] / best[options.against]:.2f}")
    if name == "bearing" and ("here", 64) in seconds:
        print(f"  64 / 1: {seconds['here', 64] / seconds['here', 1]:.1f} times as long")
    if name in TARGETS:
        print(f"  wanted: {TARGETS[name]}")
    _rates[name] = best["here"]


def row(told: dict[str, Any], speed_up: float) -> str:
    error = f"{peers.farthest(told['values'], told['angles']):.1e}" if "angles" in told else "-"
    lanes, attempts = told["lanes"], told["attempts"]
    return (
        f"  {lanes:>6} | {told['compile']:11.1f} | {lanes / told['wall']:8.1f} | {speed_up:8.1f} | {1e6 * told['cpu'] / attempts:22.2f} "
        f"| {attempts / lanes:14.1f} | {told['failed']:6d} | {error:>11} | {told['memory'] / 2**20:11.0f}"
    )


def beside(options: argparse.Namespace) -> None:
    print(f"\nother programs, stiff double pendulum, 2 s; {peers.CORES} threads or processes\n    runs/s | error [rad] | runs", flush=True)
    rates = {}
    for name, peer in peers.PEERS.items():
        if not peer.there():
            print(f"  {'':>8} | {'':>11} | {'':>6} | {peer.title}: not here")
            continue
        rates[name], error, runs = peers.measure(peer, peers.CORES, 0.3 if options.quick else 5.0)
        print(f"  {rates[name]:8.1f} | {error:11.1e} | {runs:>6} | {peer.title}", flush=True)
    for name in ("angles", "planar-rosenbrock", "planar-hht"):
        if name in _rates:
            print(f"  {name} / " + ", ".join(f"{peer} {_rates[name] / rate:.2f}" for peer, rate in rates.items()))


# --- a sweep as a user calls it -------------------------------------------------------------------------------------------------------------

_MAP = """
import resource, sys, time
begin = time.perf_counter()
import numpy as np
import jaxmbd as mbd

side, t1, kernels, out = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
options = {} if kernels == "default" else {"kernels": kernels}
values = {"tyre_*.stiffness": np.linspace(2e5, 4e5, side), "tyre_*.damping": np.geomspace(500.0, 8000.0, side)}
data = mbd.sweep(
    mbd.problems.hmmwv(), values, t1, observe="peak:chassis.z", integrator=mbd.RosenbrockNystrom(1e-4, 1e-4), max_step=0.02, **options
)
seconds = time.perf_counter() - begin
height = data["peak:chassis.z"]
mbd.view.plot_sweep(data, out)
print(
    f"  {data['result'].size} runs of {t1:g} s in {seconds:.1f} s with tracing and compiling, {int((data['result'] > 1).sum())} failed; "
    f"{float(data['steps'].mean()):.0f} steps a run; process at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MB"
)
print(f"  greatest height of the chassis {float(height.min()):.4f} to {float(height.max()):.4f} m; {out}")
"""


def vehicle_map(options: argparse.Namespace) -> None:
    """In a fresh process, with an empty cache: what is not compiled yet is part of it."""
    side, t1 = (2, 0.1) if options.quick else (16, 1.5)
    print(f"\nvehicle, {side} x {side} tyres over the bump by mbd.sweep (wanted: 256 within 180 s and 2 GB)", flush=True)
    arguments = [str(side), str(t1), options.kernels or "default", str(options.out / "sweep-vehicle.png")]
    with tempfile.TemporaryDirectory() as cache:
        surroundings = {"PYTHONPATH": str(Path(__file__).resolve().parents[1]), "JAX_COMPILATION_CACHE_DIR": cache}
        subprocess.run([sys.executable, "-c", _MAP, *arguments], env=os.environ | surroundings, check=True)


def part(name: str) -> Callable[[argparse.Namespace], None]:
    return lambda options: measure(name, options)


ARGUMENTS: dict[str, dict[str, Any]] = {
    "--quick": {"action": "store_true", "help": "small and short: whether all works"},
    "--kernels": {"metavar": "auto|scalar|array", "help": "handed on to simulate, of commits where it takes it"},
    "--against": {"metavar": "REV", "help": "another commit to compare with"},
    "--algebra-threads": {"type": int, "default": 1, "help": "of the library for small matrices; default 1"},
    "--seconds": {"type": float, "default": 60.0, "help": "a batch takes at most about so long; default 60"},
    **FIGURES,
}

if __name__ == "__main__":
    run_parts(__doc__, {**{name: part(name) for name in CASES}, "peers": beside, "vehicle-map": vehicle_map}, ARGUMENTS)
