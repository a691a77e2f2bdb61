"""What BDF does, measured: orders, and the orders it chooses where forces jump. `work_precision.py` has its errors on smooth motions.

python benchmarks/bdf.py
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.integrate import solve_ivp

import jaxmbd as mbd

GRAVITY = 9.81
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


class Pendulum(mbd.AbstractSystem):
    """A unit mass on a massless rod in x and y, released from the horizontal."""

    q0: Array
    v0: Array

    def __init__(self):
        self.q0, self.v0 = jnp.array([1.0, 0.0]), jnp.zeros(2)

    def mass(self, q):
        return jnp.eye(2)

    def force(self, q, v, t):
        return jnp.array([0.0, -GRAVITY])

    def constraint(self, q, t):
        return 0.5 * (q @ q - 1.0)[None]

    def reference(self, ts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(q, v, lambda) from the angle."""
        run = solve_ivp(
            lambda t, s: [s[1], -GRAVITY * np.cos(s[0])],
            (0.0, ts[-1] + 1e-9),
            [0.0, 0.0],
            "DOP853",
            rtol=1e-13,
            atol=1e-13,
            dense_output=True,
        )
        angle, rate = run.sol(ts)
        q = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        v = rate[:, None] * np.stack([-np.sin(angle), np.cos(angle)], axis=1)
        return q, v, (rate**2 - GRAVITY * np.sin(angle))[:, None]


def measured_orders() -> None:
    """Largest errors until t = 0.8 s; of the multipliers at the end, too, because the first k steps are one order less accurate in them."""
    pendulum = Pendulum()
    print("index-3 pendulum, fixed steps: error at h, and order from h and 2 h")
    print("  k  h        q                v                lambda           lambda at the end")
    for order, h in ((1, 0.001), (2, 0.0025), (3, 0.0025), (4, 0.0025), (5, 0.005), (6, 0.01)):
        rows = []
        for step in (2 * h, h):
            run = mbd.simulate(pendulum, 0.8, integrator=mbd.BDF(1e-9, order=order), step=step)
            q, v, multipliers = pendulum.reference(np.asarray(run.ts))
            miss = np.abs(np.asarray(run.multipliers) - multipliers)
            rows.append([np.max(np.abs(run.q - q)), np.max(np.abs(run.v - v)), np.max(miss), miss[-1, 0]])
        columns = "  ".join(f"{fine:.1e} ({np.log2(coarse / fine):5.2f})" for coarse, fine in zip(*rows, strict=True))
        print(f"  {order}  {h:.4f}  {columns}")


def vehicle() -> None:
    """The chassis' height over both bumps: forces jump when a tyre touches down, so errors are those of events, not of a smooth method."""
    system, times, bound = mbd.problems.hmmwv().build(), np.linspace(0.0, 2.0, 81), 0.02
    where = system.coordinate_names().index("chassis.z")
    reference = mbd.simulate(system, 2.0, integrator=mbd.Rodas4(1e-9, 1e-9), saveat=times, max_step=bound).q[:, where]
    print(
        "\nHMMWV, 2 s, largest error of the chassis' height against Rodas4 at 1e-9\n    tolerance   error [m]   steps + rejected   by order"
    )
    errors = []
    for tolerance in TOLERANCES:
        run = mbd.simulate(system, 2.0, integrator=mbd.BDF(tolerance), saveat=times, max_step=bound)
        errors.append(float(np.max(np.abs(run.q[:, where] - reference))))
        orders = "/".join(str(run.stats[f"steps_of_order_{k}"]) for k in range(1, 6))
        print(f"    {tolerance:.0e}       {errors[-1]:.1e}     {run.stats['steps']:5d} + {run.stats['rejected']:3d}        {orders}")
    print(f"    slope of log error against log tolerance: {np.polyfit(np.log(TOLERANCES), np.log(errors), 1)[0]:.2f}")


if __name__ == "__main__":
    measured_orders()
    vehicle()
