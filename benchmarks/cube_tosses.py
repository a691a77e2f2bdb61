"""Tosses of a cube onto a table, measured: contact, friction, inertia and centre of mass from some of them, predictions of the others.

    python benchmarks/cube_tosses.py --data DIR [--train 4 16 64] [--left-out 100] [--whole] [--report DIR]

DIR has `cube_tosses.npz`: 400 tosses tracked at 148 Hz (S. Pfrommer, M. Halm, M. Posa, "ContactNets: Learning Discontinuous Contact Dynamics
with Smooth, Implicit Representations", CoRL 2020; repository DAIRLab/contact-nets, BSD-3-Clause), as `samples` (place of the centre, quaternion,
velocity, angular velocity), `offsets` of the tosses and `rate_hz`.

The model: a box whose eight corners touch a plane by a spring and a dashpot, Coulomb friction, explicit steps of 0.25 ms. Found are stiffness,
damping, friction, moment of inertia, place of the centre of mass in the cube and length of its sides, from windows of a fifth of a second
around the first impact, whose initial states are found too; with `--whole` then from whole tosses. Gravity is what free flights show: the
lengths of the data are some two per cent short. Channels are the places of the cube's centre and of three points on its faces; the loss is
Student's.

Tosses that are left out are predicted from the state that their free flight shows. Printed are mean error of the place in per cent of a
side, mean error of the rotation and how many end on another face, beside the values that the authors of the data use in a rigid model.
"""

import argparse
import itertools
import time
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

import jaxmbd as mbd

SIDE, MASS, STEP = 0.1048, 0.37, 2.5e-4
WINDOW, BEFORE = 28, 5
"""frames of a window, and how many of them lie before the first contact"""
AUTHORS = {"J": 8.1e-4, "side": SIDE, "g": 9.81, "friction": 0.18, "offset": np.zeros(3)}
CHANNELS = [f"{point}{axis}" for point in ("centre_", "x_", "y_", "z_") for axis in "xyz"]
BEGIN = [f"cube.{name}" for name in ("x", "y", "z", "e0", "e1", "e2", "e3", "vx", "vy", "vz", "wx", "wy", "wz")]


class Toss(NamedTuple):
    ts: np.ndarray
    """s, from its first frame on"""
    centre: np.ndarray
    """m, of the cube"""
    turns: Rotation
    contact: int
    """the frame before the first contact"""


def read(folder: Path) -> list[Toss]:
    data = np.load(folder / "cube_tosses.npz")
    samples, offsets, rate = data["samples"], data["offsets"], float(data["rate_hz"])
    found = []
    corners = 0.5 * SIDE * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    for begin, end in itertools.pairwise(offsets):
        rows = samples[begin:end]
        turns = Rotation.from_quat(rows[:, [4, 5, 6, 3]])
        lowest = np.min(rows[:, None, 2] + np.stack([turns.apply(corner)[:, 2] for corner in corners], axis=1), axis=1)
        touching = np.flatnonzero(lowest < 2.5e-3)
        contact = max(int(touching[0]) - 1, 2) if touching.size else len(rows) - 1
        found.append(Toss(np.arange(len(rows)) / rate, rows[:, :3], turns, contact))
    return found


def cube() -> mbd.System:
    """About the origin, unturned: there its points are those of the body."""
    body = mbd.RigidBody("cube", MASS, 8.1e-4 * np.eye(3))
    law, rub = mbd.LinearContact(2e4, damping=100.0), mbd.Coulomb(0.18, regularisation=0.03)
    place = {"sizes": (SIDE,) * 3, "point": (0, 0, -1.0), "normal": (0, 0, 1), "centre": (0.0, 0.0, 0.0)}
    table = mbd.BoxPlane("table", body, mbd.ground, **place, law=law, friction=rub)
    system = mbd.Model([body], [], [mbd.Gravity((0, 0, -9.81)), table]).build()
    return system.set({"table.point": np.zeros(3)})  # at the origin the cube would stand in the table


def flown_gravity(tosses: list[Toss], offset: np.ndarray) -> float:
    """m/s^2, of the data's own metres: of parabolas through the centres of mass in free flight, weighted by how much they bend."""
    seen = weight = 0.0
    for toss in tosses:
        rows = slice(0, toss.contact + 1)
        ts, height = toss.ts[rows], (toss.centre[rows] + toss.turns[rows].apply(offset))[:, 2]
        if len(ts) < 8:
            continue
        lines = np.stack([np.ones_like(ts), ts], axis=1)
        bend, height = (part - lines @ np.linalg.lstsq(lines, part, rcond=None)[0] for part in (-0.5 * ts**2, height))
        seen, weight = seen + bend @ height, weight + bend @ bend
    return float(seen / weight)


def launch(toss: Toss, frames: int, g: float, offset: np.ndarray, at: int = 0) -> np.ndarray:
    """The state at a frame of a free flight that lasts so many frames from there on: a parabola, and an even rotation (of a cube it is)."""
    rows = slice(at, at + max(frames, 3))
    ts, turns = toss.ts[rows] - toss.ts[at], toss.turns[rows]
    rate = np.mean((turns[1:] * turns[:-1].inv()).as_rotvec(), axis=0) / np.mean(np.diff(ts))
    back = Rotation.from_rotvec(-ts[:, None] * rate) * turns
    middle = back.mean()
    mass = toss.centre[rows] + (Rotation.from_rotvec(ts[:, None] * rate) * middle).apply(offset)
    mass = mass + 0.5 * g * np.array([0, 0, 1.0]) * ts[:, None] ** 2
    lines = np.stack([np.ones_like(ts), ts], axis=1)
    (place, velocity), *_ = np.linalg.lstsq(lines, mass, rcond=None)
    quaternion = middle.as_quat()[[3, 0, 1, 2]]
    return np.concatenate([place, quaternion, velocity, rate])


def channel(number: int):
    """Of the solution: a component of the centre's place, or of a face's middle's."""
    point, axis = divmod(number, 3)

    def value(run):
        centre = run.system.get("table.centre")
        local = centre if point == 0 else centre + 0.5 * SIDE * jnp.eye(3)[point - 1]
        return run.point("cube", local).position[:, axis]

    return value


OBSERVED = dict(zip(CHANNELS, [channel(i) for i in range(12)], strict=True))


def experiment(toss: Toss, name: str, begin: int, end: int, g: float, offset: np.ndarray) -> mbd.Experiment:
    rows = slice(begin, end)
    places = [toss.centre[rows]] + [toss.centre[rows] + toss.turns[rows].apply(0.5 * SIDE * axis) for axis in np.eye(3)]
    table = {"t": toss.ts[rows] - toss.ts[begin]} | dict(zip(CHANNELS, np.concatenate(places, axis=1).T, strict=True))
    first = launch(toss, max(toss.contact - begin, 3), g, offset, begin)
    widths = (0.01,) * 3 + (0.02,) * 4 + (0.1,) * 3 + (0.5,) * 3
    initial = {key: (value, width) for key, value, width in zip(BEGIN, first, widths, strict=True)}
    return mbd.Experiment(table, OBSERVED, name=name, initial=initial)


UNKNOWNS = {
    "table.stiffness": (3e3, 1e5, "log"),
    "table.damping": (1.0, 3e2, "log"),
    "table.kinetic": (0.02, 0.8),
    "J": mbd.Free(3e-4, 3e-3, start=9e-4, log=True),
    "side": mbd.Free(0.098, 0.108, start=0.1035),
    "cx": mbd.Free(-0.02, 0.02, start=0.0),
    "cy": mbd.Free(-0.02, 0.02, start=0.0),
    "cz": mbd.Free(-0.02, 0.02, start=0.0),
    "cube.inertia": lambda p: p["J"] * jnp.eye(3),
    "table.sizes": lambda p: p["side"] * jnp.ones(3),
    "table.centre": lambda p: -jnp.stack([p["cx"], p["cy"], p["cz"]]),
}
SETTINGS = {"integrator": mbd.Verlet(), "step": STEP, "loss": "student", "progress": False}


def known(fit: mbd.Fit) -> tuple[float, np.ndarray]:
    """Gravity and the place of the centre of mass."""
    assert fit.system is not None
    return -float(fit.system.get("gravity.acceleration")[2]), np.array([fit.values[name] for name in ("cx", "cy", "cz")])


class Score(NamedTuple):
    place: np.ndarray
    """mean error of each toss, in sides"""
    turn: np.ndarray
    """mean error of each toss, rad"""
    face: np.ndarray
    """whether it ends on another face"""

    def __str__(self) -> str:
        place, turn = 100 * self.place, np.rad2deg(self.turn)
        return (
            f"place {np.mean(place):5.1f} % (median {np.median(place):4.1f}), rotation {np.mean(turn):5.1f} degrees "
            f"(median {np.median(turn):4.1f}), another face {100 * np.mean(self.face):4.1f} %"
        )


@eqx.filter_jit
def _runs(system: mbd.System, begins: jax.Array, ts: jax.Array):
    def one(begin):
        run = mbd.simulate(
            system,
            T_END,
            t0=0.0,
            initial=mbd.pose(system, dict(zip(BEGIN, begin, strict=True))),
            integrator=mbd.Verlet(),
            step=STEP,
            saveat=ts,
            max_steps=100_000,
            throw=False,
        )
        return run.point("cube", run.system.get("table.centre")).position, run.rotation("cube")

    return jax.vmap(one)(begins)


T_END = 2.0
"""s, of a prediction; few tosses last longer"""


def predict(system: mbd.System, tosses: list[Toss], g: float, offset: np.ndarray) -> Score:
    begins = np.stack([launch(toss, toss.contact + 1, g, offset) for toss in tosses])
    ts = np.arange(0.0, T_END, tosses[0].ts[1])
    centres, rotations = (np.asarray(part) for part in _runs(system, jnp.asarray(begins), jnp.asarray(ts)))
    place, turn, face = [], [], []
    for toss, centre, matrices in zip(tosses, centres, rotations, strict=True):
        rows = min(len(toss.ts), len(ts))
        place.append(np.mean(np.linalg.norm(centre[:rows] - toss.centre[:rows], axis=1)) / SIDE)
        found = Rotation.from_matrix(matrices[:rows])
        turn.append(np.mean((found * toss.turns[:rows].inv()).magnitude()))
        up = [
            np.argmax(np.abs(m[2])) * np.sign(m[2][np.argmax(np.abs(m[2]))]) + 0.5
            for m in (matrices[rows - 1], toss.turns[rows - 1].as_matrix())
        ]
        face.append(up[0] != up[1])
    return Score(np.array(place), np.array(turn), np.array(face))


def fit_windows(tosses: list[Toss]) -> mbd.Fit:
    parts, offset = [], np.array([0.0, 0.0, 0.005])  # the search finds it; starts of windows need a rough value
    g = flown_gravity(tosses, offset)
    for i, toss in enumerate(tosses):
        begin = max(toss.contact - BEFORE, 0)
        parts.append(experiment(toss, f"toss {i}", begin, min(begin + WINDOW, len(toss.ts)), g, offset))
    return mbd.calibrate(fallen(cube(), g), parts, UNKNOWNS, iterations=25, tolerance=1e-5, **SETTINGS)


def fallen(system: mbd.System, g: float) -> mbd.System:
    return system.set({"gravity.acceleration": np.array([0.0, 0.0, -g])})


def fit_whole(tosses: list[Toss], begin: mbd.Fit) -> mbd.Fit:
    g, offset = known(begin)
    parts = [experiment(toss, f"toss {i}", 0, len(toss.ts), g, offset) for i, toss in enumerate(tosses)]
    return mbd.calibrate(fallen(cube(), g), parts, UNKNOWNS, iterations=15, tolerance=1e-4, begin=begin, **SETTINGS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with cube_tosses.npz")
    parser.add_argument("--train", type=int, nargs="+", default=[4, 16, 64], help="numbers of tosses to fit")
    parser.add_argument("--left-out", type=int, default=100, help="tosses to predict")
    parser.add_argument("--whole", action="store_true", help="after windows, whole tosses")
    parser.add_argument("--report", type=Path, help="folder for a report of each fit")
    options = parser.parse_args()
    tosses = read(options.data)
    order = np.random.default_rng(0).permutation(len(tosses))
    left_out = [tosses[i] for i in order[-options.left_out :]]
    plain = cube().set(
        {
            "cube.inertia": AUTHORS["J"] * np.eye(3),
            "table.kinetic": AUTHORS["friction"],
            "table.sizes": np.full(3, AUTHORS["side"]),
        }
    )
    print(
        f"{len(left_out)} tosses left out, values of the data's authors: {predict(plain, left_out, AUTHORS['g'], AUTHORS['offset'])}",
        flush=True,
    )
    for count in options.train:
        chosen = [tosses[i] for i in order[:count]]
        begin = time.perf_counter()
        fit = fit_windows(chosen)
        if options.whole:
            fit = fit_whole(chosen, fit)
        told = "\n".join(line for line in str(fit).splitlines() if "follow each other" not in line)
        print(f"\n{count} tosses fitted in {time.perf_counter() - begin:.0f} s with compiling, gravity {known(fit)[0]:.3f} m/s^2\n{told}")
        print(f"  left out: {predict(fit.system, left_out, *known(fit))}", flush=True)
        if options.report is not None:
            options.report.mkdir(parents=True, exist_ok=True)
            fit.report(options.report / f"cube-{count}.html")
            fit.plot(options.report / f"cube-{count}.png")


if __name__ == "__main__":
    main()
