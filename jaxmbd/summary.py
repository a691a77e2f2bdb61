"""A run in words: how it ended, what it cost."""

from typing import TYPE_CHECKING

import numpy as np

from .results import RESULTS, number, sentences
from .system.describing import Description, describe_system, lines
from .system.parameters import is_traced
from .system.system import System

if TYPE_CHECKING:
    from .solution import Solution

_COST = ("rejected", "newton_iterations", "newton_failures", "jacobians", "factorizations", "force_evaluations")


def describe(solution: "Solution") -> Description:
    system = solution.system
    about = describe_system(system).headline.removeprefix("System: ") if isinstance(system, System) else type(system).__name__
    if is_traced(solution):
        return Description("Solution, within a program that is being traced", [lines([("system", about)])])
    rows = [("system", about)]
    if solution.final.t.ndim > 0:
        codes = np.asarray(number(solution.result)).ravel()
        counts = [(sentences()[code], int(np.sum(codes == code))) for code in np.unique(codes)]
        rows += [(f"{count} of {codes.size}", text) for text, count in counts]
        rows.append(("steps", _total(solution.stats["steps"])))
        return Description(f"Solutions of {codes.size} runs", [lines(rows)])
    ts = np.asarray(solution.ts)
    rows.append(("time", f"{ts[0]:.6g} ... {ts[-1]:.6g} s in {ts.size} rows"))
    sizes = [] if solution.steps is None else [float(h) for h in np.asarray(solution.steps) if h > 0]
    spread = f", {min(sizes):.3g} ... {max(sizes):.3g} s" if sizes else ""
    rows.append(("steps", f"{int(solution.stats.get('steps', 0))}{spread}"))
    if solution.orders is not None and np.size(solution.orders):
        rows.append(("orders", f"{np.min(solution.orders)} ... {np.max(solution.orders)}, mean {np.mean(solution.orders):.2f}"))
    rows += [(name.replace("_", " "), f"{int(solution.stats[name])}") for name in _COST if int(solution.stats.get(name, 0))]
    headline = "Solution" if bool(solution.result == RESULTS.successful) else "Solution (ended early)"
    return Description(f"{headline}: {solution.message}", [lines(rows)])


def _total(counts: object) -> str:
    every = np.asarray(counts)
    return f"{every.min()} ... {every.max()} a run, {every.sum()} together"
