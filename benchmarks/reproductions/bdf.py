"""Bottasso, Bauchau and Cardona (2007): conditioning, saturation of Newton's corrections, errors by field, the impact."""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from papers import bdf as paper

import jaxmbd as mbd

from .page import Row, Section, claim, save

NUMBERS = {
    ("three-field", "none"): "(13)",
    ("three-field", "left"): "(19)",
    ("three-field", "multipliers"): "(27)",
    ("three-field", "full"): "after (30)",
    ("two-field", "none"): "(43)",
    ("two-field", "left"): "(47)",
    ("two-field", "full"): "(52)",
}
STEPS = (1e-4, 1e-5, 1e-6)
"""s, for the errors by field: beyond, an inverse in 16 digits shows nothing"""
FIELDS = {
    ("three-field", "none"): ("(11)", (-1, -2, -3)),
    ("three-field", "left"): ("(18)", (0, -1, -2)),
    ("three-field", "multipliers"): ("(26)", (0, -1, 0)),
    ("three-field", "full"): ("after (30)", (0, 0, 0)),
    ("two-field", "none"): ("(42)", (-1, -3)),
    ("two-field", "left"): ("(46)", (0, -2)),
    ("two-field", "full"): ("(51)", (0, 0)),
}


def run(quick: bool) -> list[Section]:
    steps = 1000 if quick else 100_000
    found = paper.measure(paper.Pendulum(0.3, 0.5), steps)
    return [_conditioning(found, steps), _by_field(), _saturation(found), _impact()]


def _conditioning(found: dict, steps: int) -> Section:
    rows = []
    for (form, scaling), power in paper.EXPECTED.items():
        numbers = [float(c.condition_number) for c in found[form, scaling]]
        slope = paper.slope(numbers)
        rows.append(
            claim(
                f"{NUMBERS[form, scaling]} {form}, scaling {scaling}: power of h in the condition number",
                str(power),
                f"{slope:.3f}",
                abs(slope - power) < 0.05,
                "another power",
            )
        )
    text = (
        f"The pendulum of section 3.3 at steps of 1e-4 to 1e-8 s, at most {steps} of them, from an angle of 0.3 rad with a speed of 0.5 "
        f"m/s. From the "
        "paper's start, on an axis, our corrections end at zero by chance: a rounded position exists there that satisfies the "
        "constraint exactly "
        "(`python benchmarks/papers/bdf.py pendulum` runs both)."
    )
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for axis, form, title in zip(
        axes, ("three-field", "two-field"), ("Figures 4 and 6: three fields", "Figure 8: two fields"), strict=True
    ):
        for (kind, scaling), values in found.items():
            if kind == form:
                axis.loglog(paper.STEPS, [float(c.condition_number) for c in values], marker=paper.MARKERS[scaling], label=scaling)
        axis.set(xlabel="h [s]", ylabel="condition number", title=title)
        axis.legend()
        axis.grid(alpha=0.3)
    return Section(
        "Condition numbers", rows, text, [(save(figure, "bdf_condition.png"), "Condition number against the step, Figures 4, 6 and 8.")]
    )


def _by_field() -> Section:
    """(6) on the matrices of our steps: the sum over the rows of |inverse|."""
    pendulum, rows = paper.Pendulum(0.3, 0.5), []
    from jaxmbd.running.starting import consistent_start

    start = consistent_start(pendulum)
    for (form, scaling), (equation, powers) in FIELDS.items():
        method = paper.method(form, scaling).suited(pendulum).precise()
        errors = []
        for h in STEPS:
            state = method.look_back(pendulum, method.init(pendulum, start)[0], jnp.asarray(h))
            equations = method.equations(pendulum, state, jnp.asarray(h))
            scale = equations.scaling()
            inverse = np.linalg.inv(np.asarray(equations.scaled_jacobian(scale)(scale.shrink(equations.first_guess()))))
            sums = np.sum(np.abs(inverse), axis=1)
            errors.append([np.max(sums[place]) for place in equations.fields().values() if place.stop > place.start])
        slopes = np.polyfit(np.log(STEPS), np.log(errors), 1)[0]
        rows.append(
            claim(
                f"{equation} {form}, scaling {scaling}: powers of h in the errors of (u{', v' if len(powers) == 3 else ''}, lambda)",
                ", ".join(map(str, powers)),
                ", ".join(f"{s:.2f}" for s in slopes + 0.0),
                bool(np.max(np.abs(slopes - powers)) < 0.1),
                "other powers",
            )
        )
    text = (
        "Estimate (6), the sum over a field's rows of the inverse of the iteration matrix. In two fields the norm of an unscaled or "
        "left-scaled matrix, which (6) "
        "multiplies by, grows as 1/h: (42) and (46) hold without that factor. The printed inverses (9), (17), (25), (30), (39), (45) "
        "and (50) are checked, block by "
        "block, in `tests/integrators/test_bdf_inverses.py`: all are exact but for the first column in three fields, which is its "
        "leading term, as the paper says."
    )
    return Section("Errors by field", rows, text)


def _saturation(found: dict) -> Section:
    rows = []
    for form in ("three-field", "two-field"):
        plain, full = ([float(c.last_correction) for c in found[form, scaling]] for scaling in ("none", "full"))
        rows.append(
            claim(
                f"{form}: last decreasing correction, all scaled, 1e-4 ... 1e-8 s",
                "does not depend on h",
                f"{min(full):.0e} ... {max(full):.0e}",
                max(full) < 1e-14,
                "it grows",
            )
        )
        rows.append(
            claim(
                f"{form}: the same, unscaled",
                "grows as h falls",
                f"{plain[0]:.0e} to {plain[-1]:.0e}",
                plain[-1] > 1e3 * plain[0],
                "it does not",
            )
        )
    worst = float(found["three-field", "none"][paper.STEPS.index(1e-7)].last_correction)
    rows.append(
        Row(
            "Figure 1: saturation unscaled at h = 1e-7 s",
            "4e-3",
            f"{worst:.0e}",
            "not met: ours is larger, from another start (above) and in the worst step",
        )
    )
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, constrained_layout=True)
    for axis, form, title in zip(
        axes, ("three-field", "two-field"), ("Figures 2 and 5: three fields", "Figure 7: two fields"), strict=True
    ):
        for (kind, scaling), values in found.items():
            if kind == form:
                axis.loglog(paper.STEPS, [float(c.last_correction) for c in values], marker=paper.MARKERS[scaling], label=scaling)
        axis.set(xlabel="h [s]", ylabel="last decreasing correction", title=title)
        axis.legend()
        axis.grid(alpha=0.3)
    return Section(
        "Saturation of Newton's corrections",
        rows,
        "",
        [(save(figure, "bdf_saturation.png"), "Last decreasing Newton correction, Figures 2, 5 and 7.")],
    )


def _impact() -> Section:
    system = mbd.problems.stiff_impact().build()
    figure, (size, factor) = plt.subplots(2, 1, figsize=(8, 5.5), sharex=True, constrained_layout=True)
    rows = []
    for label, options, expected in (("s = k_ave + m_ave / h^2", {}, True), ("s = k_ave", {"m_ave": 0.0}, False)):
        integrator = mbd.BDF(1e-7, stop="unknowns", velocity_error=False, state_scale=3e-6, **options)
        found = mbd.simulate(system, paper.IMPACT_END, integrator=integrator, throw=False)
        steps, reached = np.asarray(found.steps), bool(found.result == mbd.RESULTS.successful)
        scale = float(found.final.method.stiffness) + float(found.final.method.mass) / steps**2
        rows.append(
            claim(
                f"{label}: the run through the impact",
                "converges at every step" if expected else "fails when steps become small",
                f"{'reached its end' if reached else 'failed'}, {found.stats['newton_failures']} failures of Newton in "
                f"{found.stats['steps']} steps, "
                f"s up to {scale.max():.0e} N/m",
                reached == expected,
                "differences of positions keep their digits, so that without the mass Newton fails more often, and the run ends all the same",
            )
        )
        size.semilogy(found.ts[:-1], steps, linewidth=0.8, label=label)
        factor.semilogy(found.ts[:-1], scale, linewidth=0.8, label=label)
    size.set(ylabel="step [s]", title="Figures 10 and 11, counterparts")
    factor.set(ylabel="s [N/m]", xlabel="time [s]", xlim=(0.5, paper.IMPACT_END))
    size.legend()
    text = (
        "The problem `stiff-impact`, a driven cam with a contact of 2 GN/m, is the paper's without flexible bodies; with them it is "
        "`cam-beam` (`benchmarks/papers/bdf.py`). Paper: steps and "
        "scaling factors of the order of 1e13 at the instant of contact."
    )
    return Section("Impact (section 5)", rows, text, [(save(figure, "bdf_impact.png"), "Step size and scaling factor through the impact.")])
