"""The HMMWV brakes from 10 mph, with wheels that turn as differential states, with and without an anti-lock controller.

    python benchmarks/anti_lock.py

Each wheel has a spin (a state), a slip (a variable), a tyre force by a magic formula and the reaction of its brake (a force state), and a brake
torque that follows its valve (a state). The valve opens while the slip is above -0.15, or, without the controller, always.
"""

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

CORNERS = ("front_left", "front_right", "rear_left", "rear_right")
RADIUS, INERTIA = 0.4699, 2.0
"""m, kg m^2, of a wheel"""
PEAK, LARGEST_TORQUE, LAG = 0.8, 4000.0, 0.02
"""largest coefficient of friction; N m; s"""


def friction(slip):
    """Longitudinal force over load: 0.8 at a slip of 0.1, 0.55 of a locked wheel."""
    return PEAK * jnp.sin(1.6 * jnp.arctan(14.0 * slip))


def braking(controlled: bool = True, speed: float = 4.4704) -> mbd.Model:
    vehicle = mbd.problems.hmmwv(bump_height=0.0, speed=speed)
    states = [state for corner in CORNERS for state in wheel(corner, controlled, speed)]
    return mbd.Model(vehicle.bodies, vehicle.joints, [*vehicle.forces, *states])


def wheel(corner: str, controlled: bool, speed: float) -> list:
    spin, slip, torque = f"spin_{corner}", f"slip_{corner}", f"brake_{corner}"

    def slipping(now):
        along = now[f"spindle_{corner}.vx"]
        return (RADIUS * now[f"{spin}.value"] - along) / jnp.maximum(jnp.abs(along), 0.5)

    def drag(now):
        return now[f"tyre_{corner}.fz"] * friction(now[f"{slip}.value"])

    def braked(now):
        return now[f"{torque}.value"] * jnp.tanh(now[f"{spin}.value"] / 0.1)

    def wanted(now):
        return LARGEST_TORQUE * (0.5 + 0.5 * jnp.tanh((now[f"{slip}.value"] + 0.15) / 0.02) if controlled else 1.0)

    def on_spindle(now):
        return drag(now) * jnp.array([1.0, 0.0, 0.0]), braked(now) * jnp.array([0.0, 1.0, 0.0])

    return [
        mbd.DifferentialState(spin, speed / RADIUS, lambda now: (-RADIUS * drag(now) - braked(now)) / INERTIA),
        mbd.Variable(slip, slipping),
        mbd.DifferentialState(torque, 0.0, lambda now: (wanted(now) - now[f"{torque}.value"]) / LAG),
        mbd.ForceState(f"hub_{corner}", mbd.ground, f"spindle_{corner}", on_spindle),
    ]


if __name__ == "__main__":
    print("anti-lock | steps + rejected | speed after 0.4 s [m/s] | way [m] | mean slip from 0.2 s | least spin [rad/s]")
    for controlled in (True, False):
        run = mbd.simulate(braking(controlled), 0.4, integrator=mbd.HHT(1e-3, state_scale=10.0), max_step=0.01)
        late = np.asarray(run.ts) > 0.2
        slips = np.stack([run.observe(f"slip_{corner}.value") for corner in CORNERS])
        spins = np.stack([run.observe(f"spin_{corner}.value") for corner in CORNERS])
        way = run.observe("chassis.x")[-1] - run.observe("chassis.x")[0]
        print(
            f"{controlled!s:9s} | {run.stats['steps']:8d} + {run.stats['rejected']:5d} | {run.observe('chassis.vx')[-1]:23.3f} | {way:7.3f} "
            f"| {np.mean(slips[:, late]):20.3f} | {np.min(spins):6.2f}"
        )
