"""Negrut, Rampalli, Ottarsson and Sajdak (2005): conditioning, orders, the global error, differential states, velocity constraints."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from papers.bdf import Pendulum
from smooth_problems import SMOOTH
from states import controlled_arm, stick_slip

import jaxmbd as mbd

from .page import Row, Section, claim

STEPS = (1e-4, 1e-6, 1e-8)
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6)
OPTIONS = {
    "full": ("(c)", "does not depend on h", 0),
    "accelerations": ("(b)", "ill conditioned for small h", -2),
    "positions": ("(a)", "extremely large entries for small h", -4),
}


def run(quick: bool) -> list[Section]:
    return [_conditioning(), _orders(), _global_error(), _states(quick), _velocity_constraints(), _models()]


def _conditioning() -> Section:
    rows = []
    for scaling, (option, text, power) in OPTIONS.items():
        numbers = [float(mbd.conditioning(Pendulum(0.3, 0.5), mbd.HHT(scaling=scaling), h, 100).condition_number) for h in STEPS]
        slope = np.polyfit(np.log(STEPS), np.log(numbers), 1)[0]
        rows.append(claim(f"option {option}: power of h in the condition number", text, f"{slope:.2f}", abs(slope - power) < 0.05))
    text = f"A pendulum at steps of {STEPS[0]:g} to {STEPS[-1]:g} s. `HHT(scaling=...)` chooses; (c), the paper's choice, is the default."
    return Section("Unknowns and scaling (section 2)", rows, text)


class Filter(mbd.AbstractSystem):
    """A mass pulled by the output of a first-order filter of its own position: linear, with an exact solution."""

    q0: Array
    v0: Array
    x0: Array

    def __init__(self):
        self.q0, self.v0, self.x0 = jnp.ones(1), jnp.zeros(1), jnp.array([0.3])

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t, x):
        return -x - q

    def state_rate(self, x, q, v, t):
        return (q - x) / 0.5


def _orders() -> Section:
    from scipy.linalg import expm

    matrix = np.array([[0.0, 1, 0], [-1, 0, -1], [2, 0, -2]])
    exact = (expm(matrix) @ [1.0, 0.0, 0.3])[[0, 2]]
    rows = []
    for what, method, expected in (
        ("rho = gamma, averaged as the accelerations are", mbd.HHT(1e-9), 2),
        ("(9) as printed, rho = 0.8", mbd.HHT(1e-9, rho=0.8), 1),
    ):
        errors = []
        for h in (0.02, 0.01):
            final = mbd.simulate(Filter(), 1.0, integrator=method, step=h).final
            errors.append(np.abs(np.append(final.q, final.x) - exact))
        order = np.log2(errors[0] / errors[1])
        told = f"{order[0]:.2f}, {order[1]:.2f}"
        rows.append(
            claim(f"{what}: orders of q, of x", "" if expected == 2 else "1 unless rho = 1/2", told, abs(order[1] - expected) < 0.2)
        )
    return Section(
        "Orders of differential states", rows, "A mass and a first-order filter of its position, against the matrix exponential."
    )


def _global_error() -> Section:
    problem = SMOOTH["double-pendulum"]
    system, end = problem.model().build(), problem.t1
    exact = problem.reference(np.array([0.0, end]))[0][-1]
    errors = []
    for tolerance in TOLERANCES:
        final = mbd.simulate(system, end, integrator=mbd.HHT(tolerance, velocity_error=False)).final
        errors.append(float(np.max(np.abs(np.asarray(final.q) - exact))))
    power = np.polyfit(np.log(TOLERANCES), np.log(errors), 1)[0]
    told = ", ".join(f"{error:.1e}" for error in errors)
    row = claim(
        "power of the tolerance in the global error of positions", "2/3, by (24): h ~ tol^(1/3)", f"{power:.2f}", abs(power - 2 / 3) < 0.2
    )
    return Section(
        "Global error", [row], f"The paper's own control of positions, at tolerances of {', '.join(f'{t:g}' for t in TOLERANCES)}: {told}."
    )


def _states(quick: bool) -> Section:
    lines, ratios = [], []
    for name, make in (("LuGre friction, stick and slip", stick_slip), ("PID controller on a hinge", controlled_arm)):
        system, end, scale = make()
        for tolerance in (1e-4, 1e-5) if quick else (1e-4, 1e-5, 1e-6):
            steps = {}
            for estimate in ("printed", "own-order"):
                run = mbd.simulate(
                    system, end, integrator=mbd.HHT(tolerance, state_scale=scale, state_error=estimate), saveat=mbd.SaveAt(t1=True)
                )
                steps[estimate] = int(run.stats["steps"])
                rejected = int(run.stats["rejected"])
                lines.append((name, f"{tolerance:g}", "(33)" if estimate == "printed" else "own order", f"{steps[estimate]} + {rejected}"))
            ratios.append(steps["printed"] / steps["own-order"])
    row = Row(
        "steps by (33) over steps by an estimate of the method's own order",
        "(33) is used",
        f"{min(ratios):.1f} to {max(ratios):.1f}",
        '(33) is one order below the averaged scheme: an option here, `HHT(state_error="printed")`',
    )
    text = "`python benchmarks/states.py` prints errors beside the steps."
    return Section("Error of differential states (33)", [row], text, (), (("model", "tolerance", "estimate", "steps + rejected"), lines))


def _velocity_constraints() -> Section:
    """A skate on an incline draws a cycloid."""
    slope, spin, mass, end = 3.0, 2.0, 2.0, 3.0
    sledge = mbd.PlanarBody("sledge", mass, 0.3, position=(0, 0), angular_velocity=spin)
    model = mbd.Model([sledge], [mbd.KnifeEdge("edge", mbd.ground, sledge, (0, 0), (0, 1))], [mbd.Gravity((slope, 0))])
    rows = []
    for method in (mbd.HHT(1e-6), mbd.BDF(1e-6)):
        run = mbd.simulate(model, end, integrator=method)
        turned = spin * np.asarray(run.ts)
        exact = np.stack([np.sin(turned) ** 2, turned - np.sin(turned) * np.cos(turned)], axis=1) * slope / (2 * spin**2)
        error = float(np.max(np.abs(np.asarray(run.position("sledge"))[:, :2] - exact)))
        rows.append(
            claim(f"skate on an incline, {method.name} at 1e-6: error of the cycloid", "(no example)", f"{error:.1e} m", error < 1e-3)
        )
    return Section(
        "Nonholonomic constraints", rows, "A(q, t) v + b(q, t) = 0: `KnifeEdge`, `RollingDisc`, and `velocity_constraint` of own equations."
    )


def _models() -> Section:
    rows = [
        Row("belt: BDF over HHT, time", "1286 / 485 = 2.65", "", "not yet: `python benchmarks/papers/hht.py belt`"),
        Row("track: BDF over HHT, time", "8988 / 1713 = 5.2", "", "not yet: `python benchmarks/papers/hht.py track`"),
        Row("all-terrain vehicle: BDF over HHT, time", "367 / 122 = 3.0", "", "not yet: `python -m benchmarks.papers.hht_atv`"),
    ]
    return Section(
        "Belt, track and all-terrain vehicle (section 4)", rows, "The models are problems here; their whole comparisons take hours."
    )
