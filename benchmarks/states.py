"""Differential states with HHT: the estimate (33) of Negrut et al. (2005) beside one of the method's own order.

    python benchmarks/states.py

Errors are the largest at 101 times against BDF with a tolerance of 1e-9; those of states in units of `state_scale`.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd


def stick_slip() -> tuple[mbd.System, float, float]:
    """A block of 1 kg on a guide with LuGre friction, drawn by a spring whose other end moves evenly; (system, end [s], state_scale)."""
    rub = mbd.LuGre(1e4, static=0.4, kinetic=0.25, stribeck_velocity=0.05, bristle_damping=50.0)
    block = mbd.RigidBody("block", 1.0, (0.01, 0.01, 0.01), position=(0, 0, 0))
    guide = mbd.Translational("guide", mbd.ground, block, (0, 0, 0), axis=(1, 0, 0))
    spring = mbd.PointForce("spring", block, (0, 0, 0), lambda frame, t: jnp.array([50.0, 0, 0]) * (0.1 * t - frame.position[0]))
    friction = mbd.JointFriction("friction", guide, rub)
    return mbd.Model([block], [guide], [mbd.Gravity((0, 0, -9.81)), friction, spring]).build(), 5.0, 2e-5


def controlled_arm() -> tuple[mbd.System, float, float]:
    """A rod on a hinge, held at 1 rad by a torque in proportion to the error, its integral and its filtered derivative."""
    rod = mbd.RigidBody("rod", 1.0, (1e-3, 0.1, 0.1), position=(0.5, 0, 0))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, (0, 0, 0), axis=(0, 0, 1))

    def errors(rod, t, x):
        error = jnp.tanh(2 * t) - jnp.arctan2(rod.rotation[1, 0], rod.rotation[0, 0])
        return error, (error - x[1]) / 0.01

    def wrench(_, rod, t, x):
        error, derivative = errors(rod, t, x)
        return jnp.zeros(3), jnp.array([0.0, 0.0, 1.0]) * (60.0 * error + 40.0 * x[0] + 8.0 * derivative)

    def rate(_, rod, t, x):
        return jnp.stack(errors(rod, t, x))

    controller = mbd.ForceFunction("pid", mbd.ground, rod, wrench, state=jnp.zeros(2), rate=rate)
    return mbd.Model([rod], [hinge], [mbd.Gravity((0, -9.81, 0)), controller]).build(), 3.0, 1.0


def steps_by_estimate(name: str, make: Callable[[], tuple[mbd.System, float, float]]) -> None:
    system, end, scale = make()
    times = np.linspace(0.0, end, 101)
    exact = mbd.simulate(system, end, integrator=mbd.BDF(1e-9, state_scale=scale), saveat=times)
    print(f"\n{name}, {end:g} s")
    print("  tolerance | estimate  | steps + rejected | Newton | error of positions | of states")
    for tolerance in (1e-4, 1e-5, 1e-6):
        for estimate in ("printed", "own-order"):
            run = mbd.simulate(system, end, integrator=mbd.HHT(tolerance, state_scale=scale, state_error=estimate), saveat=times)
            q, x = np.max(np.abs(run.q - exact.q)), np.max(np.abs(run.x - exact.x)) / scale
            stats = run.stats
            print(
                f"  {tolerance:9.0e} | {estimate:9s} | {stats['steps']:8d} + {stats['rejected']:5d} | {stats['newton_iterations']:6d} "
                f"| {q:18.1e} | {x:.1e}"
            )


if __name__ == "__main__":
    steps_by_estimate("LuGre friction, a block that sticks and slips", stick_slip)
    steps_by_estimate("PID controller on a hinge", controlled_arm)
