"""The ball bearing, measured: an engineer's report of a run, and derivatives against central differences.

    python benchmarks/bearing.py [report] [gradients]

`gradients`: of the cage's speed at the end and of the largest contact force of a pocket's hit, by the logarithms of contact stiffness, damping,
friction, clearance and penalty frequency, in reverse mode, against central differences of runs with the same steps. SemiExplicit with fixed
steps and rings on penalties; Verlet with the steps that contact-power control chose and prescribed rings. That differences at two increments
agree shows that over this span they mean something. Compiling a gradient takes a minute or more.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.bearings import DeepGroove, Start

SPAN, STEP = 1e-3, 2e-6
INCREMENTS = {"stiffness": 1e-4, "damping": 1e-2, "friction": 1e-3, "clearance": 1e-4, "penalty": 1e-2}
"""of the logarithm; the larger ones where little depends on the number, so that rounding would show. The second increment is a third of it."""
NAMES = tuple(INCREMENTS)


def varied(bearing: DeepGroove, factors: jax.Array) -> DeepGroove:
    """The bearing with numbers multiplied by factors, in the order of NAMES."""
    stiffness, damping, friction, clearance, penalty = factors
    return bearing.replace(
        stiffness_inner=stiffness * bearing.hertz("inner").stiffness,
        stiffness_outer=stiffness * bearing.hertz("outer").stiffness,
        damping=damping * bearing.damping,
        cage_damping=damping * bearing.cage_damping,
        friction=mbd.Coulomb(friction * 0.05, regularisation=0.1),
        clearance=clearance * bearing.clearance,
        penalty_frequency=penalty * bearing.penalty_frequency,
    )


def outcome(bearing: DeepGroove, start: Start, integrator, steps: jax.Array, factors: jax.Array) -> jax.Array:
    """(cage speed at the end [rad/s], largest force of a ball on its pocket [N])"""
    system = varied(bearing, factors).system(start)
    solution = mbd.simulate(system, jnp.sum(steps), integrator=integrator, step=steps, throw=False)
    report = bearing.report(solution)
    return jnp.stack([report.cage_speed[-1], jnp.max(report.pocket_force)])


def compare(title: str, bearing: DeepGroove, start: Start, integrator, steps: np.ndarray, names: tuple[str, ...] = NAMES) -> float:
    """Prints derivatives and differences, and returns the largest relative disagreement."""
    sizes, ones = jnp.asarray(steps), jnp.ones(len(NAMES))

    def twice(factors):
        found = outcome(bearing, start, integrator, sizes, factors)
        return found, found

    begin = time.perf_counter()
    # One program for values and derivatives: compiling takes far longer than running.
    program = jax.jit(jax.jacrev(twice, has_aux=True))
    derivative, (speed, force) = program(ones)
    value = lambda factors: np.asarray(program(factors)[1])  # noqa: E731
    print(f"{title}: {len(steps)} steps, {1e3 * np.sum(steps):.3g} ms ({time.perf_counter() - begin:.0f} s, mostly compiling)")
    print(f"  cage {speed:.6g} rad/s, largest force of a pocket {force:.6g} N")
    worst = 0.0
    for name in names:
        unit, e = np.array([float(n == name) for n in NAMES]), INCREMENTS[name]
        wide, narrow = ((value(ones + h * unit) - value(ones - h * unit)) / (2 * h) for h in (e, e / 3))
        for what, d, a, b in zip(("cage speed", "peak force"), np.asarray(derivative)[:, NAMES.index(name)], wide, narrow, strict=True):
            worst = max(worst, abs(d / b - 1))
            print(
                f"  d {what} / d log {name:9}  {d:15.8g}   error {abs(d / b - 1):.1e}   differences agree to {abs(a / b - 1):.1e}",
                flush=True,
            )
    return worst


def bearing_of(rings: str) -> DeepGroove:
    """The cage starts 1 % slow and 90 um off centre: pockets are hit within the first tenth of a millisecond. Penalties of 10^5.5 rad/s: at 10^7
    nothing that is measured depends on them any more, which is what they are for."""
    return DeepGroove(rings=rings, cage_speed_ratio=0.99, cage_offset=(90e-6, 0.0, 0.0), penalty_frequency=10**5.5)


def gradients(span: float = SPAN) -> float:
    semi, explicit = bearing_of("penalty"), bearing_of("prescribed")
    start = explicit.start()
    worst = compare("SemiExplicit, fixed steps, penalty rings", semi, start, mbd.SemiExplicit(0.5, 0.8), np.full(round(span / STEP), STEP))
    control = mbd.control.ContactPower(alpha=1.0, epsilon=2e-6, eta=0.1)
    run = mbd.simulate(explicit.system(start), span, integrator=mbd.Verlet(), controller=control, max_step=5e-6)
    others = tuple(name for name in NAMES if name != "penalty")
    return max(
        worst, compare("Verlet, contact-power steps, prescribed rings", explicit, start, mbd.Verlet(), np.asarray(run.steps), others)
    )


def report() -> None:
    bearing = DeepGroove(rings="penalty", cage_speed_ratio=0.99)
    solution = mbd.simulate(bearing.system(), 0.011, integrator=mbd.SemiExplicit(0.5, 0.8), step=STEP, saveat=np.linspace(0, 0.011, 1101))
    print(bearing.report(solution))


if __name__ == "__main__":
    parts = sys.argv[1:] or ["report", "gradients"]
    if "report" in parts:
        report()
    if "gradients" in parts:
        print(f"largest error {gradients():.1e}")
