"""The bearing of Modin, Führer, Fritzson and Söderlind, section 6.2: contact-power steps against CVODE, Table 1 and Figure 4.

Run by `python benchmarks/papers/contact_power.py bearing`.
Rings prescribed, 10^4 rpm, 1000 N, 0.011 s (one and a half turns), the cage 1 % slow at first.
Powers of our contacts are not those of the paper's, so alpha is not either: it is chosen to span the same range of cost.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from bearing_methods import Case, compare, distance, rows, table_head

import jaxmbd as mbd

END = 0.011
TIMES = np.linspace(0.0, END, 111)
TABLE_1 = {
    "EI1": "epsilon 1e-4, alpha 0.5: 5091",
    "EI2": "epsilon 1e-4, alpha 0.2: 2474",
    "EI3": "epsilon 1e-3, alpha 0.05: 1181",
    "EI4": "epsilon 1e-3, alpha 0.02: failure",
    "CV1": "h_max 1e-4, tol 1e-8: 9022 / 25006 (FAST-JAC / SLOW-JAC)",
    "CV2": "h_max 1e-4, tol 1e-6: 2397 / 7293",
    "CV3": "h_max 1e-3, tol 1e-4: 2222 / 10718",
    "CV4": "h_max 1e-3, tol 1e-3: failure",
}
SETTINGS = ((1e-4, 8.0), (1e-4, 4.0), (1e-4, 3.0), (1e-4, 2.5), (1e-4, 2.0), (1e-3, 30.0), (1e-3, 20.0), (1e-3, 10.0))
"""epsilon [s], alpha [W^(-1/3)]"""
CVODE_SETTINGS = ((1e-4, 1e-8), (1e-4, 1e-7), (1e-4, 1e-6), (1e-4, 1e-5), (1e-3, 1e-4), (1e-3, 1e-3))
"""h_max [s], rtol"""
ERRORS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3)


def controlled(case: Case, name: str, method: mbd.AbstractIntegrator, **options) -> list:
    points = []
    for epsilon, alpha in SETTINGS:
        controller = mbd.control.ContactPower(alpha, epsilon, 0.5, **options)
        points.append(case.ours(name, f"eps {epsilon:.0e}, alpha {alpha:g}", method, controller=controller, max_steps=60_000))
    rows(points)
    return points


def run(out: Path) -> None:
    print("Table 1 of the paper:\n  " + "\n  ".join(f"{name}  {text}" for name, text in TABLE_1.items()))
    bearing = mbd.bearings.DeepGroove(rings="prescribed", cage_speed_ratio=0.99)
    case = Case(bearing, bearing.system(), TIMES)
    case.reference = case.by_cvode(1e-10)
    other = mbd.simulate(case.system, END, integrator=mbd.Verlet(), step=1e-7, saveat=TIMES)
    force, cage = distance(case.loads(other), case.reference)
    print(f"\nReference: CVODE at rtol 1e-10; Verlet at h = 1e-7 s differs by {force:.1e} (forces), {cage:.1e} (cage speed).")
    print(f"Cage speed after {END} s: {case.reference[1][-1]:.2f} rad/s (from {case.reference[1][0]:.2f}).\n")
    table_head(case.equations.independent)
    nystrom = controlled(case, "contact power, (16)", mbd.ExplicitNystrom())
    verlet = controlled(case, "contact power, Verlet", mbd.Verlet())
    steady = controlled(case, "contact power PI, Verlet", mbd.Verlet(), integral=0.6, proportional=0.2)
    fixed = [case.ours("Verlet", f"h = {h:.1e}", mbd.Verlet(), step=h) for h in (1e-5, 8e-6, 5e-6, 2e-6, 1e-6)]
    theirs = [case.cvode(rtol, True, max_step=longest, max_order=order) for longest, rtol in CVODE_SETTINGS for order in (2, 5)]
    theirs += [case.cvode(part, False, max_order=order) for part in (0.1, 0.01, 3e-3, 1e-3, 1e-4) for order in (2, 5)]
    rows([*fixed, *theirs])
    print("\n  At equal error. Paper: twice (FAST-JAC) and six times (SLOW-JAC) cheaper.")
    compare([*nystrom, *verlet, *steady], theirs, ERRORS)
    print("  The same with fixed steps of Verlet beside CVODE:")
    compare(fixed, theirs, ERRORS)
    _figure_4(case, nystrom, verlet, out)


def _figure_4(case: Case, nystrom: list, verlet: list, out: Path) -> None:
    figure, axes = plt.subplots(2, 1, figsize=(9, 7), sharex=True, sharey=True, constrained_layout=True)
    for points, style in ((nystrom[:2], "-"), (verlet[:3], "--")):
        for point in points:
            sizes = point.sizes
            if sizes is not None and sizes.size:
                axes[0].semilogy(np.cumsum(sizes), sizes, style, linewidth=0.7, label=f"{point.method}, {point.setting}")
    for longest, rtol in CVODE_SETTINGS[::2]:
        found = case.equations.solve(TIMES, rtol, 1e-3 * rtol, every_step=True, max_step=longest)
        axes[1].semilogy(found.times[1:], np.diff(found.times), linewidth=0.7, label=f"CVODE, rtol {rtol:.0e}")
    for axis in axes:
        axis.legend(fontsize=7)
        axis.set(ylabel="step [s]", ylim=(1e-8, 1e-4))  # CVODE begins with far smaller ones
    axes[1].set_xlabel("time [s]")
    figure.savefig(out / "contact_power_figure_4.png", dpi=120)
    print(f"  {out / 'contact_power_figure_4.png'}")
