"""Random mechanisms against mechanics: no crash, no NaN called success, constraints hold, energy, work and momenta balance.

    python benchmarks/fuzz.py --models 200 --seed 0 [--draws 4] [--integrators hht bdf] [--each] [--minutes 40]

Every model is a random structure (`random_mechanisms.py`) with several draws of its numbers. It is run by one integrator of those that suit it,
that which has had the fewest so far, or with --each by all. What they are asked is in `mechanism_checks.py`. A finding is printed with the
command that repeats it. Runs that the library itself calls failed are no findings; they are counted by their reasons.
"""

import argparse
import collections
import gc
import os
import time
from typing import Any

os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)  # compiling is nearly all of it

import jax
from mechanism_checks import METHODS, Outcome, examine
from random_mechanisms import Structure, random_structure

COLUMNS = ("violation", "energy gain", "energy loss", "momentum", "balance", "supplied")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=20, help="how many structures")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the others follow")
    parser.add_argument("--draws", type=int, nargs="+", default=[4], help="how many of each; or, with --only, which")
    parser.add_argument("--only", action="store_true", help="--draws are numbers of draws")
    parser.add_argument("--integrators", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--each", action="store_true", help="every integrator that suits, not one")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further structure after so many")
    options = parser.parse_args()
    table: dict[str, list[tuple[int, Outcome]]] = collections.defaultdict(list)
    turns: collections.Counter[str] = collections.Counter()
    begin, found, structures = time.perf_counter(), 0, 0
    for seed in range(options.seed, options.seed + options.models):
        if time.perf_counter() - begin > 60.0 * options.minutes:
            break
        structure, structures = random_structure(seed), structures + 1
        for name in _chosen(structure, options, turns):
            turns[name] += 1
            draws = options.draws if options.only else range(options.draws[0])
            for draw in draws:
                outcome = examine(structure, structure.draw(draw), METHODS[name])
                table[name].append((seed, outcome))
                found += len(outcome.findings)
                _tell(structure, name, draw, outcome)
        jax.clear_caches()
        gc.collect()
    _summarise(table, structures, found, time.perf_counter() - begin)


def _chosen(structure: Structure, options: argparse.Namespace, turns: collections.Counter[str]) -> list[str]:
    able = [name for name in options.integrators if METHODS[name].suits(structure)]
    return able if options.each else sorted(able, key=lambda name: turns[name])[:1]


def _tell(structure: Structure, name: str, draw: int, outcome: Outcome) -> None:
    """Prints what is wrong with a run, or that it failed."""
    if outcome.result == "successful" and not outcome.findings:
        return
    command = f"python benchmarks/fuzz.py --models 1 --seed {structure.seed} --integrators {name} --only --draws {draw}"
    for text in outcome.findings or [f"({outcome.message})"]:
        print(f"{text}\n    {structure}\n    {command}", flush=True)


def _summarise(table: dict[str, list[tuple[int, Outcome]]], structures: int, found: int, seconds: float) -> None:
    runs = [outcome for rows in table.values() for _, outcome in rows]
    print(
        f"\n{structures} structures, {len(runs)} runs, {sum(run.steps for run in runs)} steps, {seconds / 60:.1f} min, {found} findings\n"
    )
    print(f"{'worst:':18s} {'models':>6s} {'runs':>5s} {'ended':>5s} " + " ".join(f"{column:>11s}" for column in COLUMNS) + "  failures")
    for name in (name for name in METHODS if name in table):
        rows = table[name]
        outcomes: list[Outcome] = [outcome for _, outcome in rows]
        failures = collections.Counter(outcome.result for outcome in outcomes if outcome.result != "successful")
        ended = len(outcomes) - sum(failures.values())
        worst = [max((run.errors[column] for run in outcomes if column in run.errors), default=None) for column in COLUMNS]
        numbers: list[Any] = [f"{value:11.1e}" if value is not None else f"{'-':>11s}" for value in worst]
        reasons = ", ".join(f"{count} {reason}" for reason, count in failures.items())
        print(f"{name:18s} {len({seed for seed, _ in rows}):6d} {len(rows):5d} {ended:5d} {' '.join(numbers)}  {reasons}")


if __name__ == "__main__":
    main()
