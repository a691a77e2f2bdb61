"""Conditioning and Newton saturation of BDF, Bottasso, Bauchau and Cardona (2007): Figures 1 to 8 for the pendulum (sections 3.3 and 4.3)
with the slopes behind them; Figures 10 and 11 for the problem `cam-beam` (section 5) through its first impact, and their counterparts for
`stiff-impact`, the same without flexible bodies; the first impact of `cam-beam` by HHT and BDF.

    python benchmarks/papers/bdf.py [pendulum] [impact] [cam-beam] [agreement] [--output DIRECTORY] [--max-steps N]

Two-step BDF, steps from 1e-4 s to 1e-8 s, until t = 1e-3 s (at least 100 steps, at most N). The scaling factor is s = 1 / h^2, as in the
paper. Prints what is expected next to what is measured and ends with exit code 1 if they differ.

The paper starts at u = (1, 0). There, this library's Newton method saturates at rounding errors even without scaling: it forms differences of
positions before it multiplies them by 1 / h, which is exact, and so close to an axis a rounded u_x exists that satisfies the constraint exactly.
Anywhere else it does not, and corrections of the unscaled equations saturate as the paper says: the runs are repeated from an angle of
0.3 rad with a speed of 0.5 m/s, and that is checked.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from jaxtyping import Array

import jaxmbd as mbd
from jaxmbd.conditioning import of_step

mpl.use("Agg")
import matplotlib.pyplot as plt

STEPS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
END = 1e-3
MIN_STEPS = 100
"""Whether a correction ends at rounding errors or, by chance, at zero differs from step to step: ten would be too few."""
EXPECTED = {
    ("three-field", "none"): -3,
    ("three-field", "left"): -2,
    ("three-field", "multipliers"): -1,
    ("three-field", "full"): 0,
    ("two-field", "none"): -4,
    ("two-field", "left"): -3,
    ("two-field", "full"): 0,
}
"""slopes of log C against log h: (13), (19), (27), (30), (43), (47), (52)"""
MARKERS = {"none": "^", "left": "s", "multipliers": "o", "full": "D"}
NAMES = {"q": "displacements", "v": "velocities", "multipliers": "Lagrange multipliers"}


class Pendulum(mbd.AbstractSystem):
    """(31): unit mass, length and gravity."""

    q0: Array
    v0: Array

    def __init__(self, angle: float = 0.0, speed: float = 0.0):
        self.q0 = jnp.array([np.cos(angle), np.sin(angle)])
        self.v0 = speed * jnp.array([-np.sin(angle), np.cos(angle)])

    def mass(self, q):
        return jnp.eye(2)

    def force(self, q, v, t):
        return jnp.array([0.0, -1.0])

    def constraint(self, q, t):
        return 0.5 * (q @ q - 1.0)[None]


def method(form: str, scaling: str) -> mbd.BDF:
    return mbd.BDF(order=2, form=form, scaling=scaling, velocity_error=False, k_ave=0.0, m_ave=1.0)


def measure(pendulum: Pendulum, max_steps: int) -> dict:
    """By (form, scaling): one `Conditioning` a step size."""
    found = {}
    for form, scaling in EXPECTED:
        begin = time.perf_counter()
        counts = [int(np.clip(round(END / h), MIN_STEPS, max_steps)) for h in STEPS]
        found[form, scaling] = [mbd.conditioning(pendulum, method(form, scaling), h, n) for h, n in zip(STEPS, counts, strict=True)]
        print(f"  {form}, {scaling}: {sum(counts)} steps in {time.perf_counter() - begin:.0f} s", flush=True)
    return found


def slope(values) -> float:
    return float(np.polyfit(np.log(STEPS), np.log(values), 1)[0])


# --- figures ----------------------------------------------------------------------------------------------------------------------------------


def draw(path: Path, title: str, ylabel: str, curves: dict[str, list[float]]) -> None:
    figure, axes = plt.subplots(figsize=(5.5, 4))
    _curves(axes, curves)
    axes.set(xlabel="time step size h [s]", ylabel=ylabel, title=title)
    _save(figure, path)


def _curves(axes, curves: dict[str, list[float]]) -> None:
    for scaling, values in curves.items():
        axes.loglog(STEPS, values, marker=MARKERS[scaling], fillstyle="none", label=scaling)
    axes.grid(alpha=0.3)
    axes.legend()


def _save(figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def figures(found: dict, output: Path) -> None:
    def last(form, scalings):
        return {s: [float(c.last_correction) for c in found[form, s]] for s in scalings}

    def condition(form, scalings):
        return {s: [float(c.condition_number) for c in found[form, s]] for s in scalings}

    correction, number = "last decreasing Newton correction", "condition number"
    half, all_three = ("none", "left", "multipliers"), ("none", "left", "multipliers", "full")
    draw(output / "figure_2.png", "Figure 2: three fields", correction, last("three-field", half))
    draw(output / "figure_4.png", "Figure 4: three fields", number, condition("three-field", half))
    draw(output / "figure_5.png", "Figure 5: three fields, velocities scaled too", correction, last("three-field", all_three))
    draw(output / "figure_6.png", "Figure 6: three fields, velocities scaled too", number, condition("three-field", all_three))
    draw(output / "figure_7.png", "Figure 7: two fields", correction, last("two-field", ("none", "left", "full")))
    draw(output / "figure_8.png", "Figure 8: two fields", number, condition("two-field", ("none", "left", "full")))

    figure, axes = plt.subplots(figsize=(5.5, 4))
    h = STEPS.index(1e-7)
    for scaling in ("none", "full"):
        sizes = np.asarray(found["three-field", scaling][h].corrections)
        axes.semilogy(np.arange(1, len(sizes) + 1), np.maximum(sizes, 1e-20), marker=MARKERS[scaling], label=scaling)
    axes.set(xlabel="Newton iteration j", ylabel="correction", title="Figure 1: three fields, h = 1e-7 s, worst step")
    axes.grid(alpha=0.3)
    axes.legend()
    _save(figure, output / "figure_1.png")

    figure, rows = plt.subplots(3, 1, figsize=(5.5, 9), sharex=True)
    for axes, (field, name) in zip(rows, NAMES.items(), strict=True):
        _curves(axes, {s: [float(c.by_field[field]) for c in found["three-field", s]] for s in half})
        axes.set(ylabel="last correction", title=name)
    rows[-1].set_xlabel("time step size h [s]")
    figure.suptitle("Figure 3: by field (multipliers scaled: of lambda / s)")
    _save(figure, output / "figure_3.png")


# --- numbers ----------------------------------------------------------------------------------------------------------------------------------


def report(found: dict) -> bool:
    """Prints slopes and saturation; whether all is as expected."""
    fine = True
    print("  form         scaling      slope of C: expected, measured   C(1e-4)    C(1e-8)    last correction at 1e-4 ... 1e-8")
    for (form, scaling), expected in EXPECTED.items():
        numbers = [float(c.condition_number) for c in found[form, scaling]]
        last = [float(c.last_correction) for c in found[form, scaling]]
        measured = slope(numbers)
        ok = abs(measured - expected) <= 0.05
        if scaling == "full":
            ok &= abs(numbers[-1] / numbers[0] - 1) <= 0.01 and max(last) <= 1e-14
        fine &= ok
        saturation = " ".join(f"{value:.0e}" for value in last)
        print(
            f"  {form:12s} {scaling:12s} {expected:10d} {measured:12.4f}       {numbers[0]:10.3e} {numbers[-1]:10.3e}   {saturation}"
            f"{'' if ok else '   NOT AS EXPECTED'}"
        )
    return fine


# --- the impact -------------------------------------------------------------------------------------------------------------------------------

IMPACT_END = 0.52
"""s: the first contact, at 0.5096 s, and the second"""


@eqx.filter_jit
def along(system, integrator, states, steps):
    """Saturation of Newton's corrections of two-step formulas, from every state of a run with the step that was taken there."""
    return jax.lax.map(lambda row: of_step(system, integrator, *row)[1].last_correction, (states, steps))


class Impact(NamedTuple):
    """A motion towards an impact, and shortly beyond."""

    problem: str
    model: Callable[[], mbd.Model]
    until: float
    """s"""
    shown_from: float
    """s"""
    file: str
    options: dict[str, float]
    """of BDF, as the paper has them; those that are not given follow from the model"""
    prescribed: tuple[float, float] | None = None
    """(s, s): until when the step has which size, before it adapts"""
    state_scale: float | None = None


STIFF = Impact("stiff-impact", mbd.problems.stiff_impact, IMPACT_END, 0.505, "figures_10_11_stiff_impact", {}, state_scale=3e-6)
FLEXIBLE = Impact(
    "cam-beam", lambda: mbd.problems.cam_beam(spatial=False), 0.4945, 0.4935, "figures_10_11", {"k_ave": 1e3, "m_ave": 1.0}, (0.4, 1e-2)
)


def impact(case: Impact, output: Path, max_steps: int) -> bool:
    """With and without m_ave / h^2 in the scaling factor s = k_ave + m_ave / h^2; Newton stops on all scaled unknowns."""
    system = case.model().build()
    print(f"{case.problem} until {case.until} s, two fields, tolerance 1e-7, Newton stops on all scaled unknowns", flush=True)
    figure, (size, factor, saturation) = plt.subplots(3, 1, figsize=(7, 8), sharex=True, constrained_layout=True)
    finished = {}
    for label, options in (("s = k_ave + m_ave / h^2", case.options), ("s = k_ave", case.options | {"m_ave": 0.0})):
        scale = {} if case.state_scale is None else {"state_scale": case.state_scale}
        integrator = mbd.BDF(1e-7, stop="unknowns", velocity_error=False, **scale, **options)
        start = None
        if case.prescribed is not None:
            before, h = case.prescribed
            start = mbd.simulate(system, before, step=h, integrator=integrator).final
        run = mbd.simulate(system, case.until, integrator=integrator, initial=start, max_steps=max_steps, throw=False)
        finished[label] = bool(run.result == mbd.RESULTS.successful)
        stiffness, mass = float(run.final.method.stiffness), float(run.final.method.mass)
        steps = np.asarray(run.steps)
        last = along(run.system, integrator.precise(), jax.tree.map(lambda leaf: leaf[:-1], run.states), run.steps)
        scale = stiffness + mass / steps**2
        stats = run.stats
        print(
            f"  {label} (k_ave = {stiffness:.3g} N/m, m_ave = {mass:.3g} kg): {stats['steps']} steps, {stats['rejected']} rejected, of these "
            f"{stats['newton_failures']} because Newton failed;\n    steps {steps.min():.1e} ... {steps.max():.1e} s, s {scale.min():.1e} ... "
            f"{scale.max():.1e} N/m, saturation at most {float(jnp.nanmax(last)):.1e}\n    {run.message}\n    {first_contact(run)}",
            flush=True,
        )
        for axes, values in ((size, steps), (factor, scale), (saturation, np.asarray(last))):
            axes.semilogy(run.ts[:-1], values, marker=".", markersize=3, linewidth=0.7, label=label)
    size.set(ylabel="step size [s]", title=f"{case.problem}: counterparts of Figures 10 and 11")
    factor.set(ylabel="scaling factor s [N/m]")
    saturation.set(ylabel="last decreasing correction", xlabel="time [s]", xlim=(case.shown_from, case.until))
    for axes in (size, factor, saturation):
        axes.grid(alpha=0.3)
        axes.legend()
    output.mkdir(parents=True, exist_ok=True)
    figure.savefig(output / f"{case.file}.png", dpi=120)
    plt.close(figure)
    return finished["s = k_ave + m_ave / h^2"]


def first_contact(run: mbd.Solution) -> str:
    """When it begins, how long it lasts, how hard it is: of the saved steps."""
    force = np.asarray(run.observe("contact.normal_force"))
    touching = np.flatnonzero(force > 0)
    if touching.size == 0:
        return "no contact"
    first = touching[0]
    apart = np.flatnonzero(force[first:] <= 0)
    if apart.size == 0:
        return f"contact from {run.ts[first]:.5f} s on"
    last = first + apart[0]
    span = float(run.ts[last] - run.ts[first - 1])
    return f"first contact at {run.ts[first]:.5f} s, for {1e3 * span:.4f} ms, peak {1e-3 * force[first:last].max():.2f} kN"


def agreement(output: Path, max_steps: int) -> bool:
    """The first impact by HHT and BDF of tolerance 1e-7."""
    system = FLEXIBLE.model().build()
    for integrator in (mbd.HHT(1e-7), mbd.BDF(1e-7)):
        assert FLEXIBLE.prescribed is not None
        before, h = FLEXIBLE.prescribed
        start = mbd.simulate(system, before, step=h, integrator=integrator).final
        run = mbd.simulate(system, 0.4942, integrator=integrator, initial=start, max_steps=max_steps, throw=False)
        print(f"cam-beam by {integrator.name}, tolerance 1e-7, {run.stats['steps']} steps: {first_contact(run)}", flush=True)
    return True


def pendulums(output: Path, max_steps: int) -> bool:
    fine = True
    starts = {"as in the paper": (Pendulum(), ""), "from 0.3 rad with 0.5 m/s": (Pendulum(0.3, 0.5), "from_0.3_rad")}
    for name, (pendulum, folder) in starts.items():
        print(f"pendulum, {name}", flush=True)
        found = measure(pendulum, max_steps)
        fine &= report(found)
        (output / folder).mkdir(parents=True, exist_ok=True)
        figures(found, output / folder)
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("bdf-figures"), help="directory of the PNGs; default: %(default)s")
    parser.add_argument("--max-steps", type=int, default=100_000, help="steps of one run; default: %(default)s, all")
    parser.add_argument("parts", nargs="*", help="pendulum, impact, cam-beam, agreement; all unless given")
    options = parser.parse_args()
    parts = {
        "pendulum": lambda: pendulums(options.output, options.max_steps),
        "impact": lambda: impact(STIFF, options.output, options.max_steps),
        "cam-beam": lambda: impact(FLEXIBLE, options.output, options.max_steps),
        "agreement": lambda: agreement(options.output, options.max_steps),
    }
    fine = True
    for name in options.parts or parts:
        if name not in parts:
            parser.error(f"there is no part {name!r}; there are {', '.join(parts)}")
        fine &= parts[name]()
    print(f"figures are in {options.output}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
