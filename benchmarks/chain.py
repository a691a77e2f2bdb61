"""Compile time and step time of a chain of n links with HHT: compile time must depend on kinds of elements, not on their number.

    python benchmarks/chain.py [--links 4 16 64] [--t1 0.2]

Times are of one run on one machine: compare the rows, not the numbers with those of another machine.
"""

import argparse
import time

import jaxmbd as mbd


def measure(links: int, t1: float, tolerance: float) -> dict[str, float]:
    """Seconds of building, of trace + compile (first run minus second), and of one step; Newton iterations a step."""
    began = time.perf_counter()
    system = mbd.problems.chain(n=links).build()
    build = time.perf_counter() - began
    clocks = []
    solution = None
    for _ in range(3):
        began = time.perf_counter()
        solution = mbd.simulate(system, t1, integrator=mbd.HHT(tolerance=tolerance))
        clocks.append(time.perf_counter() - began)
    assert solution is not None
    stats, run = solution.stats, min(clocks[1:])
    attempts = stats["steps"] + stats["rejected"]
    return {
        "build [s]": build,
        "trace + compile [s]": clocks[0] - run,
        "run [s]": run,
        "steps": attempts,
        "step [ms]": 1e3 * run / attempts,
        "Newton / step": stats["newton_iterations"] / attempts,
        "Jacobians / step": stats["jacobians"] / attempts,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, nargs="+", default=[4, 16, 64])
    parser.add_argument("--t1", type=float, default=0.2, help="simulated time [s]")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    options = parser.parse_args()
    rows = {}
    for links in options.links:
        rows[links] = measure(links, options.t1, options.tolerance)
        if links == options.links[0]:
            print("links | " + " | ".join(rows[links]))
        print(f"{links:5d} | " + " | ".join(f"{v:{len(k)}.3g}" for k, v in rows[links].items()), flush=True)
    first, last = options.links[0], options.links[-1]
    ratio = rows[last]["trace + compile [s]"] / rows[first]["trace + compile [s]"]
    print(f"trace + compile at {last} links / at {first} links: {ratio:.2f} (wanted: at most 1.5)")


if __name__ == "__main__":
    main()
