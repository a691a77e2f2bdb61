"""Negrut et al. (2003): the stiff double pendulum from both starts, the vehicle by explicit and implicit methods."""

import time

import jax
import matplotlib.pyplot as plt
import numpy as np
from papers import rosenbrock as paper

import jaxmbd as mbd

from .page import Row, Section, number, save

ANGLES = ("rod1.angle", "rod2.angle")
CONSISTENT = {1e-2: 5.223e-3, 1e-3: 4.198e-4, 1e-4: 4.916e-5, 1e-5: 1.902e-5}
"""Largest errors of Table 4 as its own relative errors have them: three of those printed are ten times too large"""
RELATIVE_4 = {1e-2: 0.12126, 1e-3: 0.00964, 1e-4: 0.00108, 1e-5: 0.00039}
RELATIVE_6 = {1e-2: 1.84434, 1e-3: 0.12340, 1e-4: 0.00922, 1e-5: 0.00246}
"""%"""
CASES = {10.0: "theta_2'(0) = 10", 0.0: "theta_2'(0) = 0", "absolute": "0, absolute tolerance alone"}
VALUES = (("theta_1(0.592127)", 0, 0.592127, 4.3073), ("theta_1(0.599954)", 0, 0.599954, 4.3548))
RATES = (
    ("theta_1'(0.795548)", 1, 0.795548, 2.2019),
    ("|theta_1'(0.373114)|", 1, 0.373114, 3.0729),
    ("|theta_1'(0.217757)|", 1, 0.217757, 9.384),
)
"""Delta / RelErr of Tables 4 and 6"""
TABLE_8 = {
    1e-2: (5.6, 12.6, 13.0, 13.3),
    1e-3: (13.2, 32.6, 36.3, 37.0),
    1e-4: (40.7, 95.0, 105.0, 106.0),
    1e-5: (172.0, 405.0, 422.0, 428.0),
}
TABLE_7 = {
    1e-2: (3618, 7276, 10865, 14480),
    1e-3: (3641, 7348, 11122, 14771),
    1e-4: (3667, 7287, 10949, 14630),
    1e-5: (3663, 7276, 10965, 14592),
}
"""s of an SGI Onyx for 1, 2, 3 and 4 s simulated"""
TRIED = """\
A setting that explains the printed steps and errors together was looked for and not found (`python
benchmarks/papers/double_pendulum_settings.py`: a separate program draws at random from both starts, safety factors 0.7 to 1, growth 1.5 to
10, shrinking 0.1 to 0.5, first steps 1e-6 to 1e-2 s, errors of positions, velocities or both, the norm (5) and others, exponents 1/3 to
1/5, the result of either order, relative and absolute angles, the scaled error, largest steps, absolute and relative parts of the
tolerance). That the tables belong to a start at rest is beyond doubt. From the printed start, the steps of three tolerances are exactly the
printed ones, but errors are several times larger than in print. What comes nearest to both is a start at rest with little or no relative
tolerance: a fifth to a fourth more steps than printed, errors within a factor of about two (the third rows below). In none of the nearest
settings is the largest error at 0.6 s, as printed: a phase error grows until 0.9 to 1.8 s.
"""


def run(quick: bool) -> list[Section]:
    return [*_pendulum(), _vehicle(quick)]


def _pendulum() -> list[Section]:
    systems = {rate: mbd.problems.double_pendulum(second_rate=rate).build() for rate in (10.0, 0.0)}
    runs, exact = {}, {}
    for rate, system in systems.items():
        exact[rate] = mbd.simulate(system, 2.0, integrator=paper.method(1e-10, mbd.Rodas4, independent=ANGLES))
        for tolerance in paper.TABLE_5:
            runs[rate, tolerance] = mbd.simulate(system, 2.0, integrator=paper.method(tolerance, independent=ANGLES))
    for tolerance in paper.TABLE_5:
        absolute = mbd.RosenbrockNystrom(1e-3 * tolerance, tolerance, independent=ANGLES)
        runs["absolute", tolerance] = mbd.simulate(systems[0.0], 2.0, integrator=absolute)
    sections = [_start(exact)]
    rows = []
    for tolerance, printed in paper.TABLE_5.items():
        for case, name in CASES.items():
            stats = runs[case, tolerance].stats
            text = f" (+ {stats['rejected']} rejected)"
            rows.append(number(f"steps at {tolerance:.0e}, {name}", stats["steps"], printed, "{:.0f}", text=text))
    sections.append(
        Section("Table 5: steps", rows, "Safety factor 0.9, step ratios 0.2 to 5, errors of positions and velocities controlled.")
    )
    rows = []
    for title, table, relative, read in (
        ("Table 4, theta_1 [rad]", paper.TABLE_4, RELATIVE_4, lambda run: run.orientation("rod1")),
        ("Table 6, theta_1' [rad/s]", paper.TABLE_6, RELATIVE_6, lambda run: run.angular_velocity("rod1")),
    ):
        for tolerance in paper.TOLERANCES:
            when, largest, average = table[tolerance]
            if table is paper.TABLE_4:
                largest = CONSISTENT[tolerance]
            for case, name in CASES.items():
                ours, true = runs[case, tolerance], exact[0.0 if case == "absolute" else case]
                found = mbd.trajectory_error(ours.ts, read(ours), true.ts, read(true))
                ratio = found.largest / largest
                verdict = f"not met: {ratio:.1f} times the paper's, see above" if ratio > 1.5 else f"within {100 * abs(ratio - 1):.0f} %"
                if ratio <= 1:
                    verdict = "met: smaller"
                rows.append(
                    Row(
                        f"{title}, {tolerance:.0e}, {name}",
                        f"{largest:.2e}, {relative[tolerance]:.5f} %, {average:.2e}, t* {when:.3f}",
                        f"{found.largest:.2e}, {found.relative:.5f} %, {found.average:.2e}, t* {found.time:.3f}",
                        verdict,
                    )
                )
    text = (
        "Largest error, the same in per cent of the value there, average error, and when the largest occurs. Three largest errors of "
        "Table 4 are printed ten times too large against their own relative errors; the consistent ones stand here."
    )
    sections.append(Section("Tables 4 and 6: errors", rows, text + "\n\n" + TRIED, _figure_2(exact)))
    return sections


def _start(exact: dict) -> Section:
    rows = []
    for name, which, when, printed in (*VALUES, *RATES):
        for rate, run in exact.items():
            series = run.orientation("rod1") if which == 0 else run.angular_velocity("rod1")
            value = abs(float(np.interp(when, run.ts, np.asarray(series))))
            apart = abs(value / printed - 1)
            verdict = "met" if apart < 1e-3 else f"not met: {100 * apart:.0f} % apart, the tables belong to the other start"
            rows.append(Row(f"{name}, theta_2'(0) = {rate:g}", f"{printed:.4f}", f"{value:.4f}", verdict))
    text = (
        "Error over relative error in Tables 4 and 6 is the trajectory's own value. Those values belong to a start with theta_2'(0) = "
        "0, not to the printed 10 rad/s: "
        "`mbd.problems.double_pendulum(second_rate=0.0)`. References: `Rodas4` at tolerance 1e-10."
    )
    return Section("Which start the tables belong to", rows, text)


def _figure_2(exact: dict) -> list[tuple[str, str]]:
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), constrained_layout=True)
    for rate, style in ((10.0, "-"), (0.0, "--")):
        axes[0].plot(exact[rate].ts, exact[rate].orientation("rod1"), style, label=f"theta_2'(0) = {rate:g} rad/s")
        axes[1].plot(exact[rate].ts, exact[rate].angular_velocity("rod1"), style)
    axes[0].set(xlabel="time [s]", ylabel="theta_1 [rad]")
    axes[1].set(xlabel="time [s]", ylabel="theta_1' [rad/s]")
    axes[0].legend()
    return [(save(figure, "rosenbrock_figure_2.png"), "Figure 2: angle and rate of the first rod, from both starts.")]


# --- the vehicle ------------------------------------------------------------------------------------------------------------------------------


def _clocked(system, t1: float, **options):
    """A run and its CPU time [s]; a shorter one compiles."""
    mbd.simulate(system, 1e-4 * t1, **options)
    began = time.process_time()
    run = mbd.simulate(system, t1, **options)
    jax.block_until_ready(run.q)
    return run, time.process_time() - began


def _vehicle(quick: bool) -> Section:
    """Tables 7 and 8. Explicit steps are held by stability: their number a second is measured over a short span."""
    span, seconds, tolerances = (0.01 if quick else 0.1), (1.0, 2.0, 3.0, 4.0), paper.TOLERANCES
    lines, figures, rows = [], [], []
    for damping in (1.13e7, 2e6):
        model = mbd.problems.hmmwv(damping=damping)
        system = model.build()
        rest = mbd.equilibrium(model, held=("chassis.x", "chassis.y", "chassis.e3"))
        fastest = float(mbd.eigenvalues(model, rest).values[-1].real)
        for tolerance in tolerances:
            explicit, cost = _clocked(system, span, integrator=paper.method(tolerance, mbd.AdamsPECE), **paper.VEHICLE)
            per_second, size = cost / span, span / (explicit.stats["steps"] + explicit.stats["rejected"])
            for second in seconds:
                run, spent = _clocked(system, second, integrator=paper.method(tolerance), **paper.VEHICLE)
                at = int(second) - 1
                printed = TABLE_7[tolerance][at] / TABLE_8[tolerance][at]
                lines.append(
                    (
                        f"{damping:.3g}",
                        f"{tolerance:.0e}",
                        f"{second:.0f}",
                        f"{run.stats['steps']} + {run.stats['rejected']}",
                        f"{spent:.2f}",
                        f"{size:.1e}",
                        f"{per_second * second:.0f}",
                        f"{per_second * second / spent:.0f}",
                        f"{printed:.0f}",
                    )
                )
                if damping == 1.13e7 and tolerance == 1e-3 and second == 4.0:
                    figures = _figure_4(run)
            if damping == 1.13e7 and tolerance == tolerances[0]:
                rows.append(number("dominant eigenvalue [1/s], damping 1.13e7", fastest, -2.6e5, "{:.2e}"))
            if damping == 1.13e7:
                inside = 1e-6 <= size <= 1e-5
                rows.append(
                    Row(
                        f"explicit step at {tolerance:.0e} [s]",
                        "1e-6 ... 1e-5",
                        f"{size:.1e}",
                        "met" if inside else "not met: another length",
                    )
                )
                ratio = float(lines[-1][7])
                why = "another machine, program and topology"
                rows.append(number(f"explicit over implicit time, 4 s at {tolerance:.0e}", ratio, printed, "{:.0f}", why))
    text = (
        "Ten degrees of freedom, by the suspension of a real HMMWV: the paper's topology (18) is lost in print. Explicit: Adams PECE of "
        "order 4 for DEABM, over "
        f"{span} s and extrapolated, since stability holds its steps. Damping 1.13e7 N s/m gives the paper's eigenvalue, 2e6 N s/m is "
        "the printed number."
    )
    head = (
        "damping [N s/m]",
        "tolerance",
        "simulated [s]",
        "implicit steps",
        "CPU [s]",
        "explicit step [s]",
        "explicit CPU [s]",
        "ratio",
        "ratio in print",
    )
    return Section("Tables 7 and 8: the vehicle", rows, text, figures, (head, lines))


def _figure_4(run: mbd.Solution) -> list[tuple[str, str]]:
    figure, height = plt.subplots(figsize=(8, 4), constrained_layout=True)
    height.plot(run.ts, run.position("chassis")[:, 2], color="C0")
    height.set(xlabel="time [s]", ylabel="chassis height [m]", ylim=(0.95, 1.11))
    step = height.twinx()
    step.step(run.ts[1:], run.steps, where="pre", color="C1", linewidth=0.9)
    step.set(ylabel="step size [s]", yscale="log", ylim=(1e-7, 1e-1))
    height.legend(handles=[height.lines[0], step.lines[0]], labels=["chassis height", "step size"], loc="center right")
    return [(save(figure, "rosenbrock_figure_4.png"), "Figure 4: chassis height and step size at tolerance 1e-3, damping 1.13e7 N s/m.")]
