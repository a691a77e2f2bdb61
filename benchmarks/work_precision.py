"""Global error against tolerance, steps and time: all integrators on smooth motions, beside CVODE, IDA and Radau.

    python benchmarks/work_precision.py [--problems pendulum four-bar] [--integrators bdf cvode] [--tolerances 1e-4 1e-6] [--out DIR]

Errors are the largest over all coordinates [m, rad, Euler parameters] and rates, against references that share nothing with jaxmbd
(`smooth_problems.py`): at the accepted steps, and at 200 times between them ("dense"). The drift is the largest change of the energy at steps,
over the largest kinetic energy. Times are those of a second call, what a first one takes more is compiling.

The comparators need scikit-sundae (`pip install -e ".[benchmark]"`). CVODE (BDF and Adams) and scipy's Radau integrate the equations of the
reference, in minimal coordinates; IDA integrates the same equations of motion as BDF(index="stabilized-2"), with multipliers (Gear, Gupta,
Leimkuhler), which are left out of its error test. rtol and atol are both the tolerance. They call Python for every evaluation, so that their
steps compare, their times hardly.
"""

import argparse
import dataclasses
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from parts import save
from scipy.integrate import solve_ivp
from smooth_problems import SMOOTH, SmoothProblem

import jaxmbd as mbd
from jaxmbd.running.starting import consistent_start
from jaxmbd.system.equations import constraint, constraint_force, constraint_rate, mass_product, total_force

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
INTEGRATORS: dict[str, Callable[[float], mbd.AbstractIntegrator]] = {
    "hht": lambda tolerance: mbd.HHT(tolerance),
    "bdf": lambda tolerance: mbd.BDF(tolerance),
    "bdf-index-3": lambda tolerance: mbd.BDF(tolerance, velocity_error=False),
    "rosenbrock-nystrom": lambda tolerance: mbd.RosenbrockNystrom(tolerance, tolerance),
    "rodas4": lambda tolerance: mbd.Rodas4(tolerance, tolerance),
    "dormand-prince": lambda tolerance: mbd.DormandPrince(tolerance, tolerance),
    "adams": lambda tolerance: mbd.AdamsPECE(tolerance, tolerance),
}
FLOOR = 1e-11
"""errors below are those of rounding, and of the reference"""


@dataclasses.dataclass
class Run:
    """What a solver did: states at its steps, or at the times that it was asked for."""

    ts: np.ndarray
    q: np.ndarray
    v: np.ndarray
    steps: int
    rejected: int | None
    """None: it does not say"""
    failure: str = ""


Solver = Callable[[float, np.ndarray | None], Run]
"""of the tolerance and the times to save, None for all steps"""


def ours(name: str) -> Callable[[SmoothProblem, mbd.System], Solver]:
    def prepare(problem: SmoothProblem, system: mbd.System) -> Solver:
        def solve(tolerance, times):
            run = mbd.simulate(system, problem.t1, integrator=INTEGRATORS[name](tolerance), saveat=times, throw=False)
            failure = "" if run.result == mbd.RESULTS.successful else run.message
            ts, q, v = map(np.asarray, (run.ts, run.q, run.v))
            return Run(ts, q, v, run.stats["steps"], run.stats["rejected"], failure)

        return solve

    return prepare


def cvode(method: str) -> Callable[[SmoothProblem, mbd.System], Solver]:
    def prepare(problem: SmoothProblem, system: mbd.System) -> Solver:
        from sksundae.cvode import CVODE

        def rate(t, y, yp):
            yp[:] = problem.motion.rate(t, np.array(y))

        def solve(tolerance, times):
            solver = CVODE(rate, rtol=tolerance, atol=tolerance, method=method, max_num_steps=100_000)
            found = solver.solve(np.array([0.0, problem.t1]) if times is None else times, problem.motion.start)
            return Run(found.t, *problem.place(found.y.T), len(found.t) - 1, None, "" if found.success else str(found.message))

        return solve

    return prepare


def radau(problem: SmoothProblem, system: mbd.System) -> Solver:
    def solve(tolerance, times):
        found = solve_ivp(problem.motion.rate, (0.0, problem.t1), problem.motion.start, "Radau", times, rtol=tolerance, atol=tolerance)
        return Run(found.t, *problem.place(found.y), len(found.t) - 1, None, "" if found.success else found.message)

    return solve


def ida(problem: SmoothProblem, system: mbd.System) -> Solver:
    from sksundae.ida import IDA

    start = consistent_start(system)
    prepared, none = system.prepare().recall(start.memory), jnp.zeros(0)
    n, m = start.q.shape[0], start.multipliers.shape[0]

    @jax.jit
    def residual(t, y, rates):
        q, v, multipliers, pushes = jnp.split(y, [n, 2 * n, 2 * n + m])
        forces = mass_product(prepared, q, rates[n : 2 * n]) + constraint_force(prepared, q, t, multipliers)
        return jnp.concatenate(
            [
                rates[:n] - v + constraint_force(prepared, q, t, pushes),
                forces - total_force(prepared, q, v, t, none),
                constraint(prepared, q, t),
                constraint_rate(prepared, q, v, t),
            ]
        )

    @jax.jit
    def slopes(t, y, rates, factor):
        by_state, by_rate = jax.jacfwd(residual, argnums=(1, 2))(t, y, rates)
        return by_state + factor * by_rate

    def fill_residual(t, y, rates, out):
        out[:] = residual(t, np.array(y), np.array(rates))

    def fill_slopes(t, y, rates, res, factor, out):
        out[:] = slopes(t, np.array(y), np.array(rates), factor)

    state = np.concatenate([start.q, start.v, start.multipliers, np.zeros(m)])
    rates = np.concatenate([start.v, start.acceleration, np.zeros(2 * m)])

    def solve(tolerance, times):
        allowed = np.concatenate([np.full(2 * n, tolerance), np.full(2 * m, 1e6)])
        algebraic = None if m == 0 else np.arange(2 * n, 2 * n + 2 * m)
        solver = IDA(fill_residual, jacfn=fill_slopes, rtol=tolerance, atol=allowed, algebraic_idx=algebraic, max_num_steps=100_000)
        found = solver.solve(np.array([0.0, problem.t1]) if times is None else times, state, rates)
        q, v = found.y[:, :n], found.y[:, n : 2 * n]
        return Run(found.t, q, v, len(found.t) - 1, None, "" if found.success else str(found.message))

    return solve


SOLVERS: dict[str, Callable[[SmoothProblem, mbd.System], Solver]] = {
    **{name: ours(name) for name in INTEGRATORS},
    "cvode": cvode("BDF"),
    "cvode-adams": cvode("Adams"),
    "ida": ida,
    "radau": radau,
}


@dataclasses.dataclass
class Row:
    tolerance: float
    steps: int
    rejected: int | None
    error_q: float
    error_v: float
    dense_q: float
    dense_v: float
    drift: float
    seconds: float

    def __str__(self) -> str:
        rejected = "-" if self.rejected is None else str(self.rejected)
        errors = (
            f"{self.error_q:8.1e}  {self.error_q / self.tolerance:11.2f}  {self.error_v:8.1e}  {self.dense_q:8.1e}  {self.dense_v:8.1e}"
        )
        return f"    {self.tolerance:7.0e}  {self.steps:6d}  {rejected:>5s}  {errors}  {self.drift:8.1e}  {self.seconds:8.4f}"


HEAD = "  tolerance   steps  rej'd   error q  / tolerance   error v   dense q   dense v     drift      time"


def misses(problem: SmoothProblem, run: Run) -> tuple[float, float]:
    """Largest errors of q and of v."""
    q, v = problem.reference(run.ts)
    return float(np.max(np.abs(run.q - q))), float(np.max(np.abs(run.v - v)))


def energies(system: mbd.System) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Total and kinetic energy of at most 200 rows out of all."""
    prepared = system.prepare()

    @jax.jit
    @jax.vmap
    def both(q, v):
        kinetic = 0.5 * v @ prepared.mass_product(q, v)
        return kinetic + prepared.potential_energy(q, jnp.zeros(())), kinetic

    def some(q, v):
        rows = np.linspace(0, len(q) - 1, 200).astype(int)
        total, kinetic = both(q[rows], v[rows])
        return np.asarray(total), np.asarray(kinetic)

    return some


def measure(problem: SmoothProblem, solve: Solver, energy: Any, tolerances: Any) -> list[Row]:
    """One row a tolerance; prints them."""
    times = np.linspace(0.0, problem.t1, 201)
    clock = lambda t: (solve(t, times), time.perf_counter())[1]  # noqa: E731
    began = time.perf_counter()
    first = clock(tolerances[0]) - began
    again = -time.perf_counter() + clock(tolerances[0])
    print(f"    compiling {max(first - again, 0.0):.1f} s\n{HEAD}")
    rows = []
    for tolerance in tolerances:
        steps = solve(tolerance, None)
        began = time.perf_counter()
        dense = solve(tolerance, times)
        seconds = time.perf_counter() - began
        if steps.failure:
            print(f"    {tolerance:7.0e}  {steps.steps:6d}  {steps.failure[:110]}", flush=True)
            continue
        (error_q, error_v), (dense_q, dense_v) = (misses(problem, run) for run in (steps, dense))
        total, kinetic = energy(steps.q, steps.v)
        drift = np.max(np.abs(total - total[0])) / np.max(kinetic)
        rows.append(Row(tolerance, steps.steps, steps.rejected, error_q, error_v, dense_q, dense_v, drift, seconds))
        print(rows[-1], flush=True)
    return rows


def summarise(name: str, solver: str, rows: list[Row], count: int) -> str:
    """One line: the worst of the rows, and how the error falls. It may rise by half before that is told."""
    power = 2 / 3 if solver == "hht" else 1.0
    ratios = [row.error_q / row.tolerance**power for row in rows]
    worst = int(np.argmax(ratios))
    slope = np.polyfit(np.log([row.tolerance for row in rows]), np.log([row.error_q for row in rows]), 1)[0] if len(rows) > 1 else np.nan
    rises = [max(b.error_q, FLOOR) / max(a.error_q, FLOOR) for a, b in itertools.pairwise(rows)]
    between = max(row.dense_q / max(row.error_q, FLOOR) for row in rows)
    rates = max(row.error_v / row.tolerance**power for row in rows)
    missing = "" if len(rows) == count else f"  {count - len(rows)} failed"
    falls = "yes" if max(rises, default=0.0) < 1.5 else f"no ({max(rises):.1f})"
    found = f"{ratios[worst]:11.2f} at {rows[worst].tolerance:.0e}  {rates:13.2f}  {slope:5.2f}   {falls:9s} {between:5.1f}"
    return f"  {name:20s} {solver:19s} {found}{missing}"


def draw(name: str, rows: dict[str, list[Row]], out: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 5), sharey=True, layout="constrained")
    figure.suptitle(f"{name}: largest error of q at accepted steps")
    for axis, field, label in zip(axes, ("tolerance", "steps", "seconds"), ("tolerance", "steps", "time [s]"), strict=True):
        for i, (solver, found) in enumerate(rows.items()):
            style = "-" if solver in INTEGRATORS else "--"
            axis.loglog([getattr(r, field) for r in found], [r.error_q for r in found], "osv^<>D*xp+"[i % 11] + style, label=solver)
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    limits = np.array(axes[0].get_xlim())
    axes[0].loglog(limits, limits, ":", color="gray", label="tolerance")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    save(figure, out / f"work_precision_{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", choices=SMOOTH, default=list(SMOOTH), metavar="NAME", help=", ".join(SMOOTH))
    parser.add_argument("--integrators", nargs="+", choices=SOLVERS, default=list(SOLVERS), metavar="NAME", help=", ".join(SOLVERS))
    parser.add_argument("--tolerances", nargs="+", type=float, default=list(TOLERANCES))
    parser.add_argument("--out", type=Path, help="where figures go; none are drawn unless given")
    options = parser.parse_args()
    summary = []
    for name in options.problems:
        problem, rows = SMOOTH[name], {}
        system = problem.model().build()
        energy = energies(system)
        for solver in options.integrators:
            print(f"\n{name}, {problem.t1:g} s, {solver}")
            rows[solver] = measure(problem, SOLVERS[solver](problem, system), energy, options.tolerances)
            if rows[solver]:
                summary.append(summarise(name, solver, rows[solver], len(options.tolerances)))
            jax.clear_caches()  # a process may have 65530 memory maps, and every compiled program keeps some
        if options.out is not None:
            draw(name, rows, options.out)
    print("\nsummary: largest errors of q and v over tolerance (hht: over tolerance^(2/3)); slope of log error of q over log tolerance;")
    print(
        "         whether it falls with every tolerance, and where not, by how much it rises; largest error between steps over that at steps"
    )
    print("  problem              integrator                  q / tolerance    v / tolerance  slope   falls     dense")
    print("\n".join(summary))


if __name__ == "__main__":
    main()
