"""Rosenbrock-Nystrom, Negrut et al. (2003): Tables 4 to 8 and Figure 4, beside what jaxmbd gives.

    python benchmarks/papers/rosenbrock.py [pendulum] [vehicle] [stiffness] [explicit] [derivatives] [--out DIR]

Without names, all parts run (the explicit methods take minutes). Compiling is reported apart from running; times are ratios within one run
on one machine, and mean most on one core that is otherwise free (`taskset -c 0 python ...`). The figure is written to DIR (the working
directory).

The vehicle has the suspension of a real HMMWV, 10 degrees of freedom; the paper's has 18, by a topology that is lost in print.
"""

import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt

import jaxmbd as mbd

sys.path.insert(0, str(Path(__file__).parents[1]))  # what papers and other benchmarks share
from parts import FIGURES, run_parts

TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5)
TABLE_4 = {
    1e-2: (0.592127, 5.223e-2, 3.234e-3),
    1e-3: (0.599954, 4.198e-3, 2.631e-4),
    1e-4: (0.626135, 4.916e-4, 2.946e-5),
    1e-5: (1.065146, 1.902e-5, 9.868e-6),
}
"""t* [s], largest and average error of theta_1 [rad]"""
TABLE_5 = {1e-2: 29, 1e-3: 49, 1e-4: 85, 1e-5: 148, 1e-6: 264, 1e-7: 467}
TABLE_6 = {
    1e-2: (0.795548, 4.061e-2, 2.348e-2),
    1e-3: (0.373114, 3.792e-3, 2.181e-3),
    1e-4: (0.217757, 8.652e-4, 3.445e-4),
    1e-5: (0.186183, 2.343e-4, 9.357e-5),
}
"""the same for its rate [rad/s]"""
TABLE_7 = {1e-2: 3618, 1e-3: 3641, 1e-4: 3667, 1e-5: 3663}
"""s of an SGI Onyx for 1 s simulated, explicit"""
TABLE_8 = {1e-2: (5.6, 13.3), 1e-3: (13.2, 37), 1e-4: (40.7, 106), 1e-5: (172, 428)}
"""the same, implicit, for 1 s and 4 s"""
VEHICLE = {"max_step": 0.02}
"""Cruising is an equilibrium: larger steps could pass the bump unnoticed."""


def method(tolerance, kind=mbd.RosenbrockNystrom, **options):
    return kind(tolerance, tolerance, **options)


def clocked(system, t1, **options):
    """A run and its wall time [s], compiled before by a much shorter one."""
    mbd.simulate(system, 1e-4 * t1, **options)
    began = time.perf_counter()
    run = mbd.simulate(system, t1, **options)
    jax.block_until_ready(run.q)
    return run, time.perf_counter() - began


# --- the double pendulum ----------------------------------------------------------------------------------------------------------------------


def pendulum() -> None:
    planar, spatial = (mbd.problems.double_pendulum(spatial=flag).build() for flag in (False, True))
    angles = ("rod1.angle", "rod2.angle")
    # The first 0.1 ms are a fast transient of the stiff damper: small constant steps, as in the paper, would not resolve it.
    reference = mbd.simulate(planar, 2.0, integrator=method(1e-10, mbd.Rodas4, independent=angles))
    print(f"Stiff double pendulum, 2 s. Reference: Rodas4 at tolerance 1e-10, {reference.stats['steps']} steps.")
    for title, table, quantity in (
        ("Table 4, position theta_1 [rad]", TABLE_4, lambda run: run.orientation("rod1")),
        ("Table 6, rate of theta_1 [rad/s]", TABLE_6, lambda run: run.angular_velocity("rod1")),
    ):
        print(
            f"\n{title}\n  tolerance |    t* paper      ours | largest paper      ours | rel. [%] | average paper      ours | with scaled error"
        )
        for tolerance in TOLERANCES:
            found = []
            for scaled in (False, True):
                run = mbd.simulate(planar, 2.0, integrator=method(tolerance, independent=angles, scaled_error=scaled))
                found.append(mbd.trajectory_error(run.ts, quantity(run), reference.ts, quantity(reference)))
            ours, (when, largest, average) = found[0], table[tolerance]
            print(
                f"  {tolerance:9.0e} | {when:11.6f} {ours.time:9.6f} | {largest:13.3e} {ours.largest:9.3e} | {ours.relative:8.4f} "
                f"| {average:13.3e} {ours.average:9.3e} | {found[1].largest:9.3e}"
            )
    print("\nTable 5, steps (accepted + rejected)")
    columns = ("two angles", "automatic choice", "spatial model", "scaled error", "Rodas4", "W-method")
    print("  tolerance | paper | " + " | ".join(f"{name:>16s}" for name in columns))
    for tolerance, paper in TABLE_5.items():
        runs = [
            mbd.simulate(planar, 2.0, integrator=method(tolerance, independent=angles)),
            mbd.simulate(planar, 2.0, integrator=method(tolerance)),
            mbd.simulate(spatial, 2.0, integrator=method(tolerance)),
            mbd.simulate(planar, 2.0, integrator=method(tolerance, scaled_error=True)),
            mbd.simulate(planar, 2.0, integrator=method(tolerance, mbd.Rodas4)),
            mbd.simulate(planar, 2.0, integrator=method(tolerance, mbd.WMethod)) if tolerance >= 1e-5 else None,
        ]
        cells = [f"{r.stats['steps']} + {r.stats['rejected']}" if r is not None else "" for r in runs]
        print(f"  {tolerance:9.0e} | {paper:5d} | " + " | ".join(f"{cell:>16s}" for cell in cells))


# --- the vehicle ------------------------------------------------------------------------------------------------------------------------------


def vehicle(out: Path) -> None:
    system = mbd.problems.hmmwv().build()
    began = time.perf_counter()
    mbd.simulate(system, 0.1, integrator=method(1e-2), **VEHICLE)
    compiling = time.perf_counter() - began
    reference = mbd.simulate(system, 5.0, integrator=method(1e-8), **VEHICLE)
    top = float(_peak(reference))
    print(f"\nHMMWV over a bump, 5 s. Trace and compile {compiling:.1f} s. Peak height at tolerance 1e-8: {top:.6f} m.")
    print("  tolerance | steps + rejected | wall / simulated time | us a step | error of the peak [m] | height at 5 s - static [m] |")
    print("            | with scaled error: steps + rejected, error of the peak [m]")
    for tolerance in TOLERANCES:
        run, wall = clocked(system, 5.0, integrator=method(tolerance), **VEHICLE)
        scaled = mbd.simulate(system, 5.0, integrator=method(tolerance, scaled_error=True), **VEHICLE)
        height = run.position("chassis")[:, 2]
        attempts = run.stats["steps"] + run.stats["rejected"]
        print(
            f"  {tolerance:9.0e} | {run.stats['steps']:8d} + {run.stats['rejected']:4d}  | {wall / 5.0:21.2f} | {1e6 * wall / attempts:9.0f} "
            f"| {abs(float(_peak(run)) - top):21.1e} | {float(height[-1] - height[0]):26.1e} "
            f"| {scaled.stats['steps']} + {scaled.stats['rejected']}, {abs(float(_peak(scaled)) - top):.1e}"
        )
    figure_4(mbd.simulate(system, 5.0, integrator=method(1e-3), **VEHICLE), out)


def _peak(run: mbd.Solution):
    return mbd.peak(run.ts, run.position("chassis")[:, 2], run.velocity("chassis")[:, 2])


def figure_4(run: mbd.Solution, out: Path) -> None:
    figure, height = plt.subplots(figsize=(8, 4.5), constrained_layout=True)
    height.plot(run.ts, run.position("chassis")[:, 2], color="C0")
    height.set(xlabel="time [s]", ylabel="chassis height [m]", ylim=(0.95, 1.11))
    step = height.twinx()
    step.step(run.ts[1:], run.steps, where="pre", color="C1", linewidth=0.9)
    step.set(ylabel="step size [s]", yscale="log", ylim=(1e-7, 1e-1))
    height.legend(handles=[height.lines[0], step.lines[0]], labels=["chassis height", "step size"], loc="upper right")
    figure.suptitle("HMMWV over a bump, Rosenbrock-Nystrom, tolerance 1e-3 (Figure 4)")
    figure.savefig(out / "rosenbrock_figure_4.png", dpi=120)
    print(f"  Figure 4: {out / 'rosenbrock_figure_4.png'}")


def stiffness() -> None:
    print("\nHMMWV, 5 s, tolerance 1e-3: cost against the stiffness of the suspension (stiffness / damping = 10 1/s)")
    print("  damping [N s/m] | dominant eigenvalue [1/s] | steps + rejected | wall time over that of the softest")
    first = None
    for damping in (2e4, 2e5, 2e6, 2e7):
        model = mbd.problems.hmmwv(stiffness=10 * damping, damping=damping)
        run, wall = clocked(model.build(), 5.0, integrator=method(1e-3), **VEHICLE)
        rest = mbd.equilibrium(model, held=("chassis.x", "chassis.y", "chassis.e3"))
        fastest = mbd.eigenvalues(model, rest).values[-1]
        first = first or wall
        print(f"  {damping:15.0e} | {fastest.real:25.3e} | {run.stats['steps']:8d} + {run.stats['rejected']:4d}  | {wall / first:.2f}")


def explicit(span: float) -> None:
    """Explicit over implicit: right-hand sides and wall time for the same simulated second."""
    system = mbd.problems.hmmwv().build()
    directions = 2 * system.freedoms() + 1
    scope = "" if span == 1.0 else f" Explicit runs simulate {span} s and are extrapolated to 1 s."
    print(f"\nHMMWV, 1 s, Tables 7 and 8 as ratios explicit / implicit.{scope}")
    print(f"A Jacobian counts nothing in the first ratio of evaluations and as its {directions} directions in the second.")
    print("Paper: wall time of DEABM over that of the implicit method, for 1 s and for 4 s.")
    print(
        "  tolerance | Adams: steps, h [s] | ratio of evaluations | with Jacobians | of wall times | paper 1 s, 4 s | Dormand-Prince (ev., wall)"
    )
    for tolerance in TOLERANCES:
        implicit, wall = clocked(system, 1.0, integrator=method(tolerance), **VEHICLE)
        spent = implicit.stats["force_evaluations"], implicit.stats["force_evaluations"] + directions * implicit.stats["jacobians"]
        ratios = {}
        for kind in (mbd.AdamsPECE, mbd.DormandPrince):
            run, long = clocked(system, span, integrator=method(tolerance, kind), **VEHICLE)
            ratios[kind] = run, run.stats["force_evaluations"] / span, long / span / wall
        run, evaluations, times = ratios[mbd.AdamsPECE]
        _, evaluations_rk, times_rk = ratios[mbd.DormandPrince]
        paper = TABLE_7[tolerance] / TABLE_8[tolerance][0], 4 * TABLE_7[tolerance] / TABLE_8[tolerance][1]
        taken = run.stats["steps"] + run.stats["rejected"]
        print(
            f"  {tolerance:9.0e} | {taken:9d}, {span / taken:8.2e} | {evaluations / spent[0]:20.0f} | {evaluations / spent[1]:14.0f} "
            f"| {times:13.0f} | {paper[0]:6.0f}, {paper[1]:6.0f} | {evaluations_rk / spent[0]:.0f}, {times_rk:.0f}"
        )


# --- derivatives ------------------------------------------------------------------------------------------------------------------------------

CORNERS = ("front_left", "front_right", "rear_left", "rear_right")


def derivatives() -> None:
    """Of the peak height over the first bump, against differences of replayed runs; and a batch of dampings against single runs."""
    system, integrator, end, room = mbd.problems.hmmwv().build(), method(1e-3), 1.0, 160
    parameters = {"tyre stiffness": "tyre_{}.stiffness", "TSDA damping": "spring_{}.damping", "bump height": "tyre_{}.bump_height"}

    def changed(name, value):
        return system.set({parameters[name].format(corner): value for corner in CORNERS})

    def top(name, value, **options):
        return _peak(mbd.simulate(changed(name, value), end, integrator=integrator, max_steps=room, throw=False, **VEHICLE, **options))

    steps = mbd.simulate(system, end, integrator=integrator, **VEHICLE).steps
    print(f"\nHMMWV: derivative of the peak height in the first {end} s, jax.grad against central differences of replayed steps")
    for name, pattern in parameters.items():
        value = float(system.get(pattern.format(CORNERS[0])))
        gradient = float(jax.jit(jax.grad(lambda p, name=name: top(name, p)))(value))
        replay = jax.jit(lambda p, name=name: top(name, p, step=steps))
        change = 1e-4 * value
        difference = float(replay(value + change) - replay(value - change)) / (2 * change)
        print(f"  {name:15s} {gradient:+.6e} | {difference:+.6e} | relative deviation {abs(gradient / difference - 1):.1e}")

    def end_of(damping):
        run = mbd.simulate(changed("TSDA damping", damping), end, integrator=integrator, max_steps=room, throw=False, **VEHICLE)
        return run.final.q, run.stats["steps"]

    dampings = jnp.geomspace(1e6, 4e6, 100)
    alone, together = eqx.filter_jit(end_of), eqx.filter_jit(jax.vmap(end_of))
    jax.block_until_ready((alone(dampings[0]), together(dampings)))
    began = time.perf_counter()
    singles = [jax.block_until_ready(alone(damping)) for damping in dampings]
    middle = time.perf_counter()
    q, counts = jax.block_until_ready(together(dampings))
    finish = time.perf_counter()
    deviation = max(float(jnp.max(jnp.abs(q[i] - single[0]))) for i, single in enumerate(singles))
    same = sum(int(counts[i]) == int(single[1]) for i, single in enumerate(singles))
    print(
        f"  100 TSDA dampings in one vmap: largest deviation from single runs {deviation:.1e}, {same} of 100 with the same steps; "
        f"batch / 100 single runs: {(finish - middle) / (middle - began):.2f} of the time"
    )


def main() -> None:
    parts = {
        "pendulum": lambda _: pendulum(),
        "vehicle": lambda given: vehicle(given.out),
        "stiffness": lambda _: stiffness(),
        "explicit": lambda given: explicit(given.explicit_span),
        "derivatives": lambda _: derivatives(),
    }
    span = {"type": float, "default": 1.0, "help": "s that the explicit methods simulate"}
    run_parts(__doc__, parts, {**FIGURES, "--explicit-span": span})


if __name__ == "__main__":
    main()
