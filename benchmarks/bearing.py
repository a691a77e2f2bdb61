"""The ball bearing, measured: an engineer's report of a run, and derivatives against central differences.

    python benchmarks/bearing.py [report] [gradients]

`gradients`: of the cage's speed at the end and of the largest contact force of a pocket's hit, by the logarithms of contact stiffness, damping,
friction, clearance and penalty frequency, in reverse mode, against central differences of runs with the same steps: SemiExplicit on penalties
with fixed steps, and under contact-power control, where the derivative is that of the controlled run itself and the differences are those
of replays of its steps. Differences are made at increments a factor of three apart; the
pair of neighbours that agree best with each other counts, whatever the derivative is, and how well they agree is printed. Penalties are of
10^5.5 rad/s: at the default of 10^7 what is measured hardly depends on them, and differences are rounding; there forward and reverse
mode are compared. Compiling a gradient takes a minute or more.
"""

import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.bearings import DeepGroove, Start

SPAN, STEP = 1e-3, 2e-6
LADDERS = {"stiffness": 1e-3, "damping": 1e-1, "friction": 1e-2, "clearance": 1e-3, "penalty": 1e-1}
"""The largest increment of each logarithm; larger where little depends on the number, so that rounding would show."""
RUNGS = 6
"""increments tried, each a third of the last"""
NAMES = tuple(LADDERS)
OUTCOMES = ("cage speed", "peak force")


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


def outcome(
    bearing: DeepGroove, start: Start, integrator, steps: jax.Array, factors: jax.Array, adjoint: str = "reverse", control=None
) -> jax.Array:
    """(cage speed at the end [rad/s], largest force of a ball on its pocket [N]); with `control`, of a run that chooses its steps anew."""
    system = varied(bearing, factors).system(start)
    how = {"step": steps} if control is None else {"controller": control, "max_steps": len(steps) + 1}
    solution = mbd.simulate(system, jnp.sum(steps), integrator=integrator, throw=False, adjoint=adjoint, **how)
    report = bearing.report(solution)
    return jnp.stack([report.cage_speed[-1], jnp.max(report.pocket_force)])


def settled(value: Callable[[np.ndarray], np.ndarray], name: str) -> list[tuple[float, float, float]]:
    """Of each outcome: (central difference by the logarithm of a number, its increment, how well it agrees with the next larger one)."""
    unit = np.array([float(n == name) for n in NAMES])
    increments = [LADDERS[name] / 3**k for k in range(RUNGS)]
    slopes = np.array([(value(np.exp(e * unit)) - value(np.exp(-e * unit))) / (2 * e) for e in increments])
    agreement = np.abs(slopes[:-1] / slopes[1:] - 1)
    best = np.argmin(agreement, axis=0)
    return [(slopes[k + 1, i], increments[k + 1], agreement[k, i]) for i, k in enumerate(best)]


def compare(title: str, bearing: DeepGroove, start: Start, integrator, steps: np.ndarray, control=None) -> float:
    """Prints derivatives, with `control` those of the controlled run, and differences, and returns the largest relative disagreement."""
    sizes, ones = jnp.asarray(steps), jnp.ones(len(NAMES))

    def twice(factors):
        found = outcome(bearing, start, integrator, sizes, factors)
        return found, found

    begin = time.perf_counter()
    # One program for values and derivatives: compiling takes far longer than running.
    program = jax.jit(jax.jacrev(twice, has_aux=True))
    derivative, (speed, force) = program(ones)
    if control is not None:
        derivative = jax.jit(jax.jacrev(lambda factors: outcome(bearing, start, integrator, sizes, factors, control=control)))(ones)
    print(f"{title}: {len(steps)} steps, {1e3 * np.sum(steps):.3g} ms ({time.perf_counter() - begin:.0f} s, mostly compiling)")
    print(f"  cage {speed:.6g} rad/s, largest force of a pocket {force:.6g} N", flush=True)
    worst = 0.0
    for name in NAMES:
        for i, (difference, increment, agreement) in enumerate(settled(lambda factors: np.asarray(program(factors)[1]), name)):
            d = float(derivative[i, NAMES.index(name)])
            error = abs(d / difference - 1)
            worst = max(worst, error)
            print(
                f"  d {OUTCOMES[i]} / d log {name:9}  {d:15.8g}   error {error:.1e}   differences at {increment:.1e} and three times it "
                f"agree to {agreement:.1e}",
                flush=True,
            )
    return worst


def both_modes(bearing: DeepGroove, start: Start, integrator, steps: np.ndarray) -> float:
    """Derivatives by the penalty frequency in forward and in reverse mode; returns the largest relative disagreement."""
    ones, along = jnp.ones(len(NAMES)), jnp.asarray([float(name == "penalty") for name in NAMES])
    function = lambda adjoint: lambda factors: outcome(bearing, start, integrator, jnp.asarray(steps), factors, adjoint)  # noqa: E731
    forward = jax.jit(lambda: jax.jvp(function("forward"), (ones,), (along,))[1])()
    reverse = jax.jit(lambda: jax.jacrev(function("reverse"))(ones)[:, NAMES.index("penalty")])()
    print(f"Penalties of {float(bearing.penalty_frequency):.1e} rad/s, {1e3 * np.sum(steps):.3g} ms: by the logarithm of the frequency")
    for what, a, b in zip(OUTCOMES, forward, reverse, strict=True):
        print(f"  d {what}  forward {a:.10g}, reverse {b:.10g}, apart by {abs(a / b - 1):.1e}", flush=True)
    return float(jnp.max(jnp.abs(forward / reverse - 1)))


def bearing_of(penalty_frequency: float) -> DeepGroove:
    """The cage starts 1 % slow and 90 um off centre: pockets are hit within the first tenth of a millisecond."""
    return DeepGroove(rings="penalty", cage_speed_ratio=0.99, cage_offset=(90e-6, 0.0, 0.0), penalty_frequency=penalty_frequency)


def gradients(span: float = SPAN) -> float:
    bearing, integrator, fixed = bearing_of(10**5.5), mbd.SemiExplicit(0.5, 0.8), np.full(round(span / STEP), STEP)
    start = bearing.start()
    control = mbd.control.ContactPower(alpha=1.0, epsilon=2e-6, eta=0.1)
    run = mbd.simulate(bearing.system(start), span, integrator=integrator, controller=control)
    return max(
        compare("SemiExplicit, fixed steps", bearing, start, integrator, fixed),
        compare("SemiExplicit, contact-power control", bearing, start, integrator, np.asarray(run.steps), control),
        both_modes(bearing_of(1e7), start, integrator, fixed),
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
