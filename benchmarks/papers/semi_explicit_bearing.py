"""The bearing of Modin, Fritzson and Führer (2007), section 6.3: evaluations of A for the same error, scheme (5) against CVODE.

Run by `python benchmarks/papers/semi_explicit.py bearing`.
Rings on penalties of 1e7 rad/s, 10^4 rpm, 1000 N, 0.6 ms; the cage starts 1 % slow, so that
balls and pockets meet. Two starts: the quasi-static one, from which forces hardly change, and one with the load raised by half at t = 0,
after which the balls swing on their contacts.
"""

from itertools import pairwise
from pathlib import Path

import cvode
import matplotlib.pyplot as plt
import numpy as np
from bearing_methods import Case, Point, compare, distance, draw, rows, table_head

import jaxmbd as mbd

END = 0.6e-3
TIMES = np.linspace(0.0, END, 21)
STEPS = (1e-5, 7.5e-6, 6e-6, 5e-6, 3e-6, 2e-6, 1e-6, 5e-7, 2.5e-7)
ERRORS = (3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
USELESS = 0.1
"""an error beyond which a run is none"""
PAPER = "Paper: 600 evaluations at h = 1e-6 s against 1588 of CVODE, a factor of 2.6."
WHY = """
What decides it is the wanted error. Damping and friction make A depend on velocities, so that scheme (5) is of first order, and of second with
the predicted velocity; its step ends at the stability limit of the contacts. CVODE keeps a Jacobian when its step changes, and renews it at the
start, after some 50 steps, and when Newton does not converge with an old one; the Jacobians counted above are most of what its runs with large
errors cost, and its high order makes small errors cheap. The estimates of sigma see the stiffness in the direction of motion only.
"""


def scheme(predict: bool, beta: float = 0.8, **options) -> mbd.SemiExplicit:
    return mbd.SemiExplicit(0.5, beta, predict_velocity=predict, **options)


def our_points(case: Case) -> list[list[Point]]:
    """Families of runs: fixed steps without and with the predicted velocity, then adaptive ones."""
    families = []
    for predict in (False, True):
        name = "scheme (5)" + (", v predicted" if predict else "")
        families.append([case.ours(name, f"h = {h:.1e}", scheme(predict), step=h) for h in STEPS])
    local = [
        case.ours("(5), v predicted, local error", f"tolerance {tol:.0e}", scheme(True, tolerance=tol, length_scale=1e-3), **ADAPTIVE)
        for tol in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
    ]
    sundman = [
        case.ours(
            f"(5), v predicted, sigma {how}",
            f"h^2 sigma = {tol}",
            scheme(True, estimate=how),
            controller=mbd.control.Stability(tol),
            **ADAPTIVE,
        )
        for how in ("consecutive", "printed")
        for tol in (1.0, 0.25, 0.04)
    ]
    return [*families, local, sundman]


ADAPTIVE = {"max_step": 1e-5, "first_step": 1e-6}
CAGE_OFFSET = (9.5e-5, 0.0, 0.0)
"""m; the pockets have 1e-4 m of play: balls and pockets meet at once"""


def cvode_points(case: Case) -> list[Point]:
    parts = [case.cvode(part, False, max_order=order) for part in (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3) for order in (2, 5)]
    relative = [case.cvode(rtol, True, max_order=order) for rtol in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8) for order in (2, 5)]
    return [*parts, *relative]


def study(title: str, case: Case, axis) -> None:
    tight = mbd.simulate(case.system, END, integrator=scheme(True, 0.5), step=2.5e-8, saveat=TIMES)
    case.reference = case.loads(tight)
    force, cage = distance(case.by_cvode(1e-10), case.reference)
    print(
        f"\n{title}. Reference: scheme (5), beta = 1/2, h = 2.5e-8 s; a tight CVODE run differs by {force:.1e} (forces), {cage:.1e} (cage)."
    )
    families, theirs = our_points(case), cvode_points(case)
    every = [p for family in families for p in family]
    table_head(case.equations.independent)
    rows([*every, *theirs])
    print(f"\n  At equal error, each at its best. {PAPER}")
    compare(every, theirs, ERRORS)
    print("  The same without adaptive steps and without the predicted velocity, as in the paper:")
    compare(families[0], theirs, ERRORS)
    explain(families, theirs)
    for family in families[:3]:
        draw(axis, family, family[0].method)
    for how in ("consecutive", "printed"):
        draw(axis, [p for p in families[3] if how in p.method], f"(5), v predicted, sigma {how}")
    draw(axis, theirs, "CVODE, FAST-JAC", "fast", color="k")
    draw(axis, theirs, "CVODE, SLOW-JAC", "slow", color="k", linestyle="--")
    axis.set(title=title, xlabel="evaluations of A in 0.6 ms", ylabel="error of ball-race forces (rms, relative)")
    axis.set_ylim(5e-8, 1.0)  # runs beyond blew up
    axis.grid(alpha=0.3)


def explain(families: list[list[Point]], theirs: list[Point]) -> None:
    """What the table says of the reasons, in numbers."""
    for family in families[:2]:
        fine = [p for p in family if p.force_error < USELESS]
        slopes = [
            np.log(one.force_error / other.force_error) / np.log(other.evaluations / one.evaluations) for one, other in pairwise(fine)
        ]
        print(f"  {family[0].method}: largest useful step {fine[0].setting}, orders seen " + ", ".join(f"{slope:.1f}" for slope in slopes))
    useful = [p for p in theirs if p.force_error < USELESS]
    least = min(useful, key=lambda p: p.fast)
    print(
        f"  CVODE: at least {min(p.jacobians for p in useful)} Jacobians in a run with an error below {USELESS}; the cheapest ({least.setting}) "
        f"spends {cvode.FAST_JACOBIAN * least.jacobians} of {least.fast} evaluations on {least.jacobians}"
    )
    for p in families[3]:
        if p.sizes is not None and np.isfinite(p.force_error):
            held = np.mean(p.sizes > 0.99 * ADAPTIVE["max_step"])
            print(f"  {p.method}, {p.setting}: {100 * held:.0f} % of the steps are held by max_step")


def run(out: Path) -> None:
    bearing = mbd.bearings.DeepGroove(rings="penalty", cage_speed_ratio=0.99, cage_offset=CAGE_OFFSET)
    start = bearing.start()
    cases = {
        "Quasi-static start": bearing.system(start),
        "Load raised by half at the start": bearing.replace(axial_load=1500.0).system(start),
    }
    figure, axes = plt.subplots(1, 2, figsize=(13, 5.5), constrained_layout=True)
    for axis, (title, system) in zip(axes, cases.items(), strict=True):
        study(title, Case(bearing, system, TIMES), axis)
    axes[0].legend(fontsize=8)
    print(WHY)
    figure.savefig(out / "semi_explicit_bearing.png", dpi=120)
    print(f"  {out / 'semi_explicit_bearing.png'}")
