"""What the bearings of both papers by Modin and others share: one bearing by several methods, their errors and their cost in evaluations of A.

Errors are taken against a tight reference run, at common times: the root mean square error of all ball-race forces over their mean, and the
largest error of the cage's speed over that speed. Single hits of balls and pockets are not compared: they come a little earlier
or later with every method.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any

import cvode
import numpy as np

import jaxmbd as mbd

OVERLAP, CONTACT_FREQUENCY = 6e-6, 1.8e5
"""m, rad/s: what positions and velocities that matter are of the order of; CVODE's absolute tolerances are parts of them"""


@dataclasses.dataclass
class Point:
    """One run."""

    method: str
    setting: str
    evaluations: int
    """of A, without Jacobians"""
    jacobians: int
    independent: int
    """states: twice the degrees of freedom"""
    force_error: float
    cage_error: float
    steps: int
    sizes: np.ndarray | None = None
    """s, of the steps"""

    @property
    def fast(self) -> int:
        return self.evaluations + cvode.FAST_JACOBIAN * self.jacobians

    @property
    def slow(self) -> int:
        return self.with_jacobians_of(self.independent)

    def with_jacobians_of(self, evaluations: int) -> int:
        """The cost if one Jacobian takes so many evaluations."""
        return self.evaluations + evaluations * self.jacobians


class Case:
    """A bearing, a span of time, and a reference."""

    def __init__(self, bearing: mbd.bearings.DeepGroove, system: mbd.System, times: np.ndarray):
        self.bearing, self.system, self.times = bearing, system, times
        self.equations = cvode.FirstOrder(system)
        self.reference: Any = None

    def loads(self, solution: mbd.Solution) -> tuple[np.ndarray, np.ndarray]:
        """(ball-race forces [N] of both races, cage speed [rad/s]) at the common times"""
        report = self.bearing.report(solution)
        return np.concatenate([report.inner.load, report.outer.load], axis=1), np.asarray(report.cage_speed)

    def errors(self, solution: mbd.Solution) -> tuple[float, float]:
        (force, cage), (exact, exact_cage) = self.loads(solution), self.reference
        if force.shape != exact.shape:
            return np.inf, np.inf
        relative = np.sqrt(np.mean((force - exact) ** 2)) / np.mean(exact)
        return float(relative), float(np.max(np.abs(cage - exact_cage)) / np.mean(np.abs(exact_cage)))

    def ours(self, method: str, setting: str, integrator: mbd.AbstractIntegrator, **options: Any) -> Point:
        run = mbd.simulate(self.system, self.times[-1], integrator=integrator, saveat=self.times, throw=False, **options)
        failed = bool(run.result != mbd.RESULTS.successful)
        force, cage = (np.inf, np.inf) if failed else self.errors(run)
        cost = run.stats
        return Point(method, setting, cost["a_evaluations"], 0, 0, force, cage, cost["steps"], np.asarray(run.steps))

    def cvode(self, tolerance: float, relative: bool, **options: Any) -> Point:
        """With `relative`, CVODE's usual rtol and a thousandth of it as atol; otherwise parts of the overlap and its rate."""
        if relative:
            rtol, atol = tolerance, 1e-3 * tolerance * np.ones(self.equations.start.shape)
        else:
            rtol, atol = 1e-13, tolerance * self._scales()
        run = self.equations.solve(self.times, rtol, atol, **options)
        complete = run.success and run.states.shape[0] == self.times.shape[0]
        force, cage = self.errors(cvode.solution(self.system, run)) if complete else (np.inf, np.inf)
        order = options.get("max_order", 5)
        setting = f"{'rtol' if relative else 'part'} {tolerance:.0e}, order <= {order}"
        return Point("CVODE", setting, run.evaluations, run.jacobians, run.independent, force, cage, 0)

    def _scales(self) -> np.ndarray:
        length = np.asarray(self.system.coordinate_lengths(), bool)
        of_q = OVERLAP * np.where(length, 1.0, 2.0 / float(self.bearing.ball_diameter))
        return np.concatenate([of_q, CONTACT_FREQUENCY * of_q])

    def by_cvode(self, rtol: float) -> tuple[np.ndarray, np.ndarray]:
        """A tight run, as a reference or to check one."""
        return self.loads(cvode.solution(self.system, self.equations.solve(self.times, rtol, 1e-3 * rtol)))


def distance(one: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
    """Of two references: how far the errors can be trusted."""
    force = np.sqrt(np.mean((one[0] - other[0]) ** 2)) / np.mean(other[0])
    return float(force), float(np.max(np.abs(one[1] - other[1])) / np.mean(np.abs(other[1])))


def table_head(independent: int) -> None:
    print(f"  FAST and SLOW: a Jacobian counts {cvode.FAST_JACOBIAN} evaluations, or one for each of {independent} independent states;")
    print(
        "  the paper's own differences of SLOW and FAST are multiples of 144, as 84 or 156 evaluations would give (12 bodies of 7 or 13 states)."
    )
    print(
        f"  {'method':34s} {'setting':26s} {'steps':>6s} {'A':>6s} {'FAST':>7s} {'SLOW':>8s} {'84':>7s} {'156':>7s}   force error   cage error"
    )


def rows(points: Iterable[Point]) -> None:
    for p in points:
        print(
            f"  {p.method:34s} {p.setting:26s} {p.steps or '':>6} {p.evaluations:6d} {p.fast:7d} {p.slow:8d} "
            f"{p.with_jacobians_of(84):7d} {p.with_jacobians_of(156):7d}   {p.force_error:11.2e}"
            f" {p.cage_error:12.2e}",
            flush=True,
        )


def cheapest(points: Iterable[Point], error: float, cost: str) -> Point | None:
    """Among the runs that reach the error in force, and a cage speed as good."""
    good = [p for p in points if p.force_error <= error and p.cage_error <= error]
    return min(good, key=lambda p: getattr(p, cost), default=None)


def compare(ours: list[Point], theirs: list[Point], errors: Iterable[float]) -> None:
    """At equal error, every method at its best."""
    print(f"  {'error <=':>10s} | {'ours, evaluations (how)':64s} | CVODE FAST-JAC, ratio | SLOW-JAC, ratio")
    for error in errors:
        best, fast, slow = cheapest(ours, error, "evaluations"), cheapest(theirs, error, "fast"), cheapest(theirs, error, "slow")
        if best is None or fast is None or slow is None:
            print(f"  {error:10.0e} | not reached by both")
            continue
        how = f"{best.evaluations} ({best.method}, {best.setting})"
        print(
            f"  {error:10.0e} | {how:64s} | {fast.fast:9d} {fast.fast / best.evaluations:10.2f}  | {slow.slow:7d} "
            f"{slow.slow / best.evaluations:7.2f}"
        )


def draw(axis: Any, points: Iterable[Point], label: str, cost: str = "evaluations", **style: Any) -> None:
    """Error of forces against evaluations; the lower envelope as a line."""
    finite = sorted((p for p in points if np.isfinite(p.force_error)), key=lambda p: getattr(p, cost))
    if not finite:
        return
    x, y = np.array([getattr(p, cost) for p in finite]), np.array([p.force_error for p in finite])
    (line,) = axis.loglog(x, np.minimum.accumulate(y), label=label, **style)
    axis.loglog(x, y, ".", color=line.get_color(), alpha=0.5)
