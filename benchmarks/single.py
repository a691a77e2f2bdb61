"""What a single run costs: the second call of a compiled function, and of plain `simulate`, beside other programs in one thread.

    python benchmarks/single.py [angles planar-rosenbrock planar-hht peers] [--kernels auto|scalar|array] [--against REV] [--quick]

The stiff double pendulum for 2 s, of which the end is kept. Milliseconds: the least of several calls, of `simulate` the median beside it (every
call has another stiffness). The error is that of the angles at the end against scipy's Radau.
"""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import peers
from batches import CASES, child
from compile import packages
from parts import run_parts

TARGETS = {"angles": 0.1, "planar-rosenbrock": 0.5, "planar-hht": 1.2}
"""ms"""


def measure(name: str, options: argparse.Namespace) -> None:
    print(f"\n{CASES[name].title} (wanted: at most {TARGETS[name]} ms)" + (f", kernels={options.kernels}" if options.kernels else ""))
    print("  compiled [ms] | simulate [ms], median | attempts | compile [s] | error [rad]", flush=True)
    with packages(options.against) as found, ExitStack() as stack:
        for commit, package in found.items():
            process = stack.enter_context(child(package, name, options.kernels))
            compiled, plain = process.ask(lanes=1), process.ask()
            print(
                f"  {1e3 * compiled['wall']:13.3f} | {1e3 * plain['wall']:11.3f}, {1e3 * plain['median']:8.3f} | {compiled['attempts']:8d} "
                f"| {compiled['compile']:11.1f} | {peers.farthest(compiled['values'], compiled['angles']):11.1e}"
                + ("" if options.against is None else f" | {commit}"),
                flush=True,
            )


def beside(options: argparse.Namespace) -> None:
    print("\nother programs, the same runs one after the other in one thread\n      run [ms] | error [rad]", flush=True)
    for peer in peers.PEERS.values():
        if not peer.there():
            print(f"  {'':>12} | {'':>11} | {peer.title}: not here")
            continue
        rate, error, _ = peers.measure(peer, 1, 0.2 if options.quick else 3.0)
        print(f"  {1e3 / rate:12.3f} | {error:11.1e} | {peer.title}", flush=True)


def part(name: str) -> Callable[[argparse.Namespace], None]:
    return lambda options: measure(name, options)


ARGUMENTS: dict[str, dict[str, Any]] = {
    "--quick": {"action": "store_true", "help": "the others for a moment only"},
    "--kernels": {"metavar": "auto|scalar|array", "help": "handed on to simulate, of commits where it takes it"},
    "--against": {"metavar": "REV", "help": "another commit to compare with"},
}

if __name__ == "__main__":
    run_parts(__doc__, {**{name: part(name) for name in TARGETS}, "peers": beside}, ARGUMENTS)
