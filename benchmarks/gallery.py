"""The pictures of the gallery: ready-made problems, run and filmed, into docs/gallery.

    python benchmarks/gallery.py [NAME ...]

Needs Chromium and ffmpeg. Prints the size of every file, and of all together.
"""

import sys
import time
from pathlib import Path

import numpy as np

import jaxmbd as mbd
from jaxmbd.commands.shared import INTEGRATORS
from jaxmbd.problems import PROBLEMS

FOLDER = Path(__file__).parents[1] / "docs" / "gallery"
SIZE, RATE, ROWS = (360, 240), 15.0, 1500

FILMS = {
    "double-pendulum": {"traces": ["rod2.point(1.5,0)"]},
    "slider-crank": {"show": ["joint reactions"], "speed": 0.5},
    "hmmwv": {"t1": 2.4, "camera": (0.8, -1.0, 0.45)},
    "ball-bearing": {"speed": 3e-3},
    "spinning-top": {"traces": ["top.point(0,0,0.01)"]},
    "newton-cradle": {"t1": 0.9, "camera": (0.35, -1.0, 0.15), "speed": 0.5},
    "chain": {"t1": 2.0, "traces": ["link8.point(0.125,0,0)"], "camera": (0.0, 0.0, 1.0)},
    "spheres-in-box": {"speed": 0.1, "camera": (0.7, -1.0, 0.7)},
}
"""What differs from the problem's own suggestions"""


def film(name: str) -> Path:
    """Runs a problem as the command line does, and films it."""
    problem, choices = PROBLEMS[name], dict(FILMS[name])
    t1 = choices.pop("t1", problem.t1)
    step = problem.step
    # Rows for pictures; thousands of steps need not be kept.
    saveat = np.linspace(0.0, t1, ROWS) if step is not None or name == "hmmwv" else None
    solution = mbd.simulate(
        problem.function(),
        t1,
        integrator=INTEGRATORS[problem.integrator](problem.tolerance),
        step=step,
        max_step=problem.max_step,
        saveat=saveat,
    )
    look = {"camera": problem.camera, "speed": problem.speed} | choices
    return solution.save_video(FOLDER / f"{name}.webp", size=SIZE, rate=RATE, **look)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for wanted in sys.argv[1:] or FILMS:
        begin = time.perf_counter()
        path = film(wanted)
        print(f"{wanted:16} {path.stat().st_size / 1e3:6.0f} kB {time.perf_counter() - begin:6.1f} s", flush=True)
    print(f"{'together':16} {sum(file.stat().st_size for file in FOLDER.glob('*.webp')) / 1e3:6.0f} kB")
