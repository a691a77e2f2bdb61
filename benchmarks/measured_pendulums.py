"""Friction of measured pendulums: one set of parameters for all swings of a machine, and predictions of swings left out.

    python benchmarks/measured_pendulums.py --data DIR [--arms 1 2 3] [--laws viscous coulomb drag] [--every 20] [--report DIR]

DIR has `pendulums.npz`: free swings of single, double and triple arms on a fixed cart, encoders at 1 kHz, angles from the upward vertical [rad]
(K. Kaheman et al., "The Experimental Multi-Arm Pendulum on a Cart", 2022; repository dynamicslab/MultiArm-Pendulum, MIT licence), as arrays
`single`, `double`, `triple` of segments x samples x (angles, rates).

Laws are cumulative: viscous damping in the pivots; Coulomb friction as well; and quadratic drag of the air along the arms. Single arms are
fitted on all four segments; of double and triple ones every other segment is left out, and predicted from a state fitted to its first 0.4 or
0.3 s. The published values are simulated from the first sample, beside.
"""

import argparse
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

KINDS = {1: "single", 2: "double", 3: "triple"}
LENGTH = 0.17272
"""m, of an arm between its pivots"""
WINDOWS = {1: 1.0, 2: 0.4, 3: 0.3}
"""s, from which a state is found before a prediction"""
PUBLISHED = {
    1: {"a1": 0.14775, "m1": 0.14758, "I1": 1.0912e-4, "k1": 2.2394e-4},
    2: {"m1": 0.09384, "m2": 0.13760, "a1": 0.10857, "a2": 0.11678, "I1": 4.3753e-4, "I2": 1.26883e-3, "k1": 2.3714e-4, "k2": 1.0e-5},
}
"""by the authors of the data, in their model: viscous friction"""


class Dry(eqx.Module):
    """Coulomb friction of constant torque between two planar bodies."""

    torque: jax.Array
    """N m"""

    def __call__(self, a, b, t):
        rate = b.angular_velocity[2] - a.angular_velocity[2]
        return jnp.zeros(3), jnp.stack([0.0, 0.0, -self.torque * rate / jnp.sqrt(rate**2 + 0.02**2)])


def pendulum(arms: int, law: str) -> mbd.System:
    """Upright; masses of 0.1 kg, as only ratios matter."""
    bodies, joints, forces, last = [], [], [mbd.Gravity((0, -9.81))], mbd.ground
    for k in range(1, arms + 1):
        foot = LENGTH * (k - 1)
        arm = mbd.PlanarBody(f"arm{k}", 0.1, 1e-3 if k == arms else 5e-4, position=(0.0, foot + 0.11))
        joints.append(mbd.Revolute(f"pivot{k}", last, arm, point=(0.0, foot)))
        forces.append(mbd.TorsionSpringDamper(f"viscous{k}", last, arm, stiffness=0.0, damping=1e-5))
        if law != "viscous":
            forces.append(mbd.ForceFunction(f"dry{k}", last, arm, Dry(jnp.asarray(1e-4))))
        if law == "drag":
            tip = foot + (0.23 if k == arms else LENGTH)
            forces.append(mbd.AirDrag(f"drag{k}", arm, (0.0, foot), (0.0, tip), 0.005))
        bodies.append(arm)
        last = arm
    return mbd.Model(bodies, joints, forces).build()


def unknowns(arms: int, law: str) -> dict[str, object]:
    """Places of centres of mass (in the line of the arm), inertias, friction."""
    free: dict[str, object] = {}
    for k in range(1, arms + 1):
        free[f"a{k}"] = mbd.Free(0.03, 0.22, start=0.11)
        free[f"arm{k}.position"] = lambda p, k=k: jnp.stack([0.0, (k - 1) * LENGTH + p[f"a{k}"]])
        free[f"arm{k}.inertia"] = (1e-5, 1e-2, "log")
        free[f"viscous{k}.damping"] = (0.0, 1e-2)
        if law != "viscous":
            free[f"dry{k}.torque"] = mbd.Free(0.0, 1e-2)
        if law == "drag":
            free[f"drag{k}.coefficient"] = (0.0, 1.0)
    return free


def swing(angles: np.ndarray, name: str, every: int) -> mbd.Experiment:
    """A segment; its start is known from a cubic through the first 40 ms."""
    ts = np.arange(len(angles)) * 1e-3
    begin, table = {}, {"t": ts[::every]}
    for k, values in enumerate(angles.T, 1):
        cubic = np.polyfit(ts[:41], values[:41], 3)
        begin |= {f"arm{k}.angle": (cubic[-1], 0.03), f"arm{k}.wz": (cubic[-2], 2.0)}
        table[f"arm{k}.angle"] = values[::every]
    return mbd.Experiment(table, name=name, initial=begin)


def rms_by_experiment(channels: list) -> np.ndarray:
    found: dict[str, list[np.ndarray]] = {}
    for one in channels:
        found.setdefault(one.experiment, []).append(one.residuals)
    return np.array([np.sqrt(np.mean(np.concatenate(parts) ** 2)) for parts in found.values()])


def published_errors(arms: int, segments: np.ndarray) -> np.ndarray:
    """rms of angles, simulated with the published values from the first sample."""
    known = PUBLISHED[arms]
    system = pendulum(arms, "viscous")
    values = {}
    for k in range(1, arms + 1):
        values |= {f"arm{k}.mass": known[f"m{k}"], f"arm{k}.inertia": known[f"I{k}"], f"viscous{k}.damping": known[f"k{k}"]}
        values[f"arm{k}.position"] = np.array([0.0, (k - 1) * LENGTH + known[f"a{k}"]])
    system, found = system.set(values), []
    for segment in segments:
        ts = np.arange(0, len(segment), 20) * 1e-3
        begin = {f"arm{k}.angle": segment[0, k - 1] for k in range(1, arms + 1)}
        begin |= {f"arm{k}.wz": segment[0, arms + k - 1] for k in range(1, arms + 1)}
        run = mbd.simulate(system, ts[-1], initial=mbd.pose(system, begin), integrator=mbd.RosenbrockNystrom(1e-7, 1e-7), saveat=ts)
        angles = np.stack([run.observe(f"arm{k}.angle") for k in range(1, arms + 1)], axis=1)
        found.append(np.sqrt(np.mean((angles - segment[::20, :arms]) ** 2)))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with pendulums.npz")
    parser.add_argument("--arms", type=int, nargs="+", default=[1, 2, 3], choices=KINDS)
    parser.add_argument("--laws", nargs="+", default=["viscous", "coulomb", "drag"], choices=["viscous", "coulomb", "drag"])
    parser.add_argument("--every", type=int, default=20, help="samples [ms] from one that is fitted to the next")
    parser.add_argument("--report", type=Path, help="folder for a report of each fit")
    options = parser.parse_args()
    data = np.load(options.data / "pendulums.npz")
    for arms in options.arms:
        segments = data[KINDS[arms]]
        if arms in PUBLISHED:
            print(
                f"{KINDS[arms]}: published values from the first sample, rms [rad]: median {np.median(published_errors(arms, segments)):.4f}"
            )
        swings = [swing(angles[:, :arms], f"{KINDS[arms]} {i}", options.every) for i, angles in enumerate(segments)]
        fitted, left_out = (swings, []) if arms == 1 else (swings[::2], swings[1::2])
        for law in options.laws:
            report(arms, law, fitted, left_out, options.report)


def report(arms: int, law: str, fitted: list, left_out: list, folder: Path | None) -> None:
    begin = time.perf_counter()
    sensors = {f"arm{k}.angle": mbd.Sensor(bias=mbd.Free(-0.02, 0.02)) for k in range(1, arms + 1)}
    fit = mbd.calibrate(
        pendulum(arms, law),
        fitted,
        unknowns(arms, law),
        sensors=sensors,
        integrator=mbd.RosenbrockNystrom(1e-6, 1e-6),
        grow=(0.1, 0.4, 1.0),
        iterations=25,
        tolerance=1e-6,
        progress=False,
    )
    errors = rms_by_experiment([one for one in fit.channels if not one.validation])
    print(f"\n{KINDS[arms]}, {law}: {len(fitted)} segments, {time.perf_counter() - begin:.0f} s\n{fit}")
    print(f"  rms of each segment [rad]: median {np.median(errors):.5f}, {np.array2string(errors, precision=5, max_line_width=120)}")
    if left_out:
        predicted = rms_by_experiment(fit.compare(left_out, window=WINDOWS[arms]))
        print(
            f"  left out, from the first {WINDOWS[arms]} s [rad]: median {np.median(predicted):.5f}, {np.array2string(predicted, precision=5)}"
        )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        fit.report(folder / f"{KINDS[arms]}-{law}.html")
        fit.plot(folder / f"{KINDS[arms]}-{law}.png")


if __name__ == "__main__":
    main()
