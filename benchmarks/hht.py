"""What HHT does, measured: orders, error against tolerance, derivatives against differences, the cost of a batch.

    python benchmarks/hht.py

Times are ratios within one run on one machine, compiling excluded.
"""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from smooth_problems import SMOOTH

import jaxmbd as mbd


def measured_orders() -> None:
    """Fixed steps, each half of the last; errors at t = 0.8 s against closed forms and equations in minimal coordinates."""
    print("orders of HHT, alpha = -0.3 (error at h / error at h/2, as a power of 2)")
    for name in ("pendulum", "tumbling-body"):
        system, exact = SMOOTH[name].model().build(), SMOOTH[name].reference([0.8])
        ends = [mbd.simulate(system, 0.8, integrator=mbd.HHT(tolerance=1e-9), step=step).final for step in (0.01, 0.005)]
        errors = [[np.max(np.abs(got - want)) for got, want in zip((end.q, end.v), exact, strict=True)] for end in ends]
        q, v = np.log2(errors[0]) - np.log2(errors[1])
        print(f"  {name:34s} q {q:.2f}  v {v:.2f}")


def error_against_tolerance() -> None:
    print("\nstiff double pendulum, 2 s, against scipy's Radau in minimal coordinates")
    print("  tolerance | largest error [rad] | error / tolerance^(2/3) | steps + rejected | Newton | Jacobians")
    system = mbd.problems.double_pendulum().build()
    times = np.linspace(0.0, 2.0, 201)
    exact = mbd.problems.DoublePendulumInAngles().reference(times)
    for tolerance in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        run = mbd.simulate(system, 2.0, integrator=mbd.HHT(tolerance=tolerance), saveat=times)
        angles = np.stack([run.orientation("rod1"), run.orientation("rod2")], axis=1)
        error, stats = np.max(np.abs(angles - exact)), run.stats
        print(
            f"  {tolerance:9.0e} | {error:19.2e} | {error / tolerance ** (2 / 3):23.2f} | {stats['steps']:7d} + {stats['rejected']:4d}   "
            f"| {stats['newton_iterations']:6d} | {stats['jacobians']:9d}"
        )


def derivatives() -> None:
    print("\nstiff double pendulum, 1 s: derivative of rod 2's final height")
    print("  parameter           | jax.grad     | replayed differences (relative deviation) | re-adapted differences (deviation)")
    system, integrator = mbd.problems.double_pendulum().build(), mbd.HHT(tolerance=1e-5)
    height = system.body_slices()["rod2"][2].start + 1
    steps = mbd.simulate(system, 1.0, integrator=integrator).steps
    for name in ("spring1.stiffness", "spring2.damping", "rod2.mass"):
        value = float(system.get(name))

        def end(p, name=name, **options):
            return mbd.simulate(system.set({name: p}), 1.0, integrator=integrator, **options).final.q[height]

        gradient = float(jax.grad(lambda p, end=end: end(p, max_steps=512))(value))
        change = 1e-4 * value
        replayed = float(end(value + change, step=steps) - end(value - change, step=steps)) / (2 * change)
        adapted = float(end(value + change) - end(value - change)) / (2 * change)
        print(
            f"  {name:19s} | {gradient:+.5e} | {replayed:+.5e} ({abs(gradient / replayed - 1):.1e}){'':15s} "
            f"| {adapted:+.5e} ({abs(gradient / adapted - 1):.1e})"
        )


def cost_of_a_batch() -> None:
    system, integrator = mbd.problems.double_pendulum().build(), mbd.HHT(tolerance=1e-5)

    def end(stiffness):
        changed = system.set({"spring1.stiffness": stiffness})
        return mbd.simulate(changed, 1.0, integrator=integrator, max_steps=512, throw=False).final.q

    def clock(function, argument):
        jax.block_until_ready(function(argument))
        times = []
        for _ in range(3):
            began = time.perf_counter()
            jax.block_until_ready(function(argument))
            times.append(time.perf_counter() - began)
        return min(times)

    single = clock(jax.jit(end), 400.0)
    backward = clock(jax.jit(jax.grad(lambda k: end(k)[4])), 400.0)
    batch = clock(eqx.filter_jit(jax.vmap(end)), jnp.linspace(300.0, 500.0, 64))
    print(f"\nstiff double pendulum, 1 s: gradient / run {backward / single:.1f}, 64 lanes / one {batch / single:.1f}")


if __name__ == "__main__":
    measured_orders()
    error_against_tolerance()
    derivatives()
    cost_of_a_batch()
