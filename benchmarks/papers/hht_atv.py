"""The all-terrain vehicle with a flexible frame of Negrut et al. (2005), section 4.3: HHT against BDF.

    python -m benchmarks.papers.hht_atv [--modes 134] [--t1 2.0] [--methods hht bdf bdf-tight] [--picture atv.png]

From static equilibrium, steps of 0.5 ms at most as in the paper. Printed are counts, CPU times (compilation apart), the ten hot spots of von
Mises' stress in the frame with their peaks, the engine's pitch rate and the vertical reaction of the trailing arm's ball. The paper: HHT 3.0
times faster than BDF, stresses within 0.5 %, angular velocity within 1.6 %; its geometry is not published: its curves are not compared.
"""

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np

import jaxmbd as mbd
from jaxmbd.problems.quads import AT_REST, atv, atv_frame
from jaxmbd.stresses import recovery_of

METHODS = {"hht": mbd.HHT(1e-5), "bdf": mbd.BDF(1e-4), "bdf-tight": mbd.BDF(1e-5)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--modes", type=int, default=134)
    options.add_argument("--t1", type=float, default=2.0)
    options.add_argument("--methods", nargs="+", choices=METHODS, default=["hht", "bdf"])
    options.add_argument("--picture")
    given = options.parse_args()
    mbd.cache_compilations()

    begin = time.process_time()
    reduced, system = atv_frame(given.modes), atv(given.modes).build()
    hertz = np.asarray(reduced.frequencies)
    print(f"{reduced.count} modes, {hertz[0]:.2f} Hz to {hertz[-1] / 1e3:.2f} kHz; {float(reduced.mass):.3f} kg; {cpu(begin)} to build")
    print(f"{len(system.coordinate_lengths())} coordinates, {len(system.row_lengths())} rows, {system.freedoms()} freedoms")
    begin = time.process_time()
    rest = mbd.equilibrium(system, held=AT_REST)
    print(f"equilibrium: {cpu(begin)} with compilation", flush=True)
    runs = {name: run(name, system, rest, given.t1) for name in given.methods}
    first = runs[given.methods[0]]
    for name, other in list(runs.items())[1:]:
        compare(given.methods[0], first, name, other)
    if given.picture:
        draw(first, given.picture)


def cpu(begin: float) -> str:
    return f"{time.process_time() - begin:.1f} s of CPU"


def run(name: str, system: mbd.System, rest: mbd.State, t1: float) -> mbd.Solution:
    rows = round(t1 / 1e-3) + 1
    go = lambda until: mbd.simulate(  # noqa: E731
        system, until, initial=rest, integrator=METHODS[name], max_step=5e-4, saveat=np.linspace(0.0, until, rows), throw=False
    )
    begin = time.process_time()
    go(2e-3)
    compiling = cpu(begin)
    begin = time.process_time()
    found = go(t1)
    stats = {key: int(value) for key, value in found.stats.items() if np.ndim(value) == 0}
    print(f"\n{name}: {found.message} {cpu(begin)} for {t1} s; {compiling} to compile")
    print(", ".join(f"{stats[key]} {key}" for key in ("steps", "rejected", "newton_iterations", "jacobians")))
    loads = [f"{corner} {float(found.contact(f'tyre_{corner}').normal_force[0]):.1f}" for corner in ("FL", "FR", "RL", "RR")]
    print(f"tyres at rest [N]: {', '.join(loads)}")
    for spot in found.hot_spots("frame", 10):
        print(f"  {spot.stress / 1e6:7.2f} MPa at {spot.time:.3f} s, tube {spot.label}, {np.round(spot.position, 3)} m")
    print(f"largest pitch rate of the engine {float(found.observe('peak:engine.wy')):.4f} rad/s", flush=True)
    return found


def compare(one_name: str, one: mbd.Solution, other_name: str, other: mbd.Solution) -> None:
    print(f"\n{other_name} against {one_name}:")
    spots = one.hot_spots("frame", 10)
    peaks = np.asarray(other.stress("frame")[:, np.array([spot.point for spot in spots])]).max(axis=0)
    apart = [abs(peak / spot.stress - 1) for peak, spot in zip(peaks, spots, strict=True)]
    same = len({spot.label for spot in spots} & {spot.label for spot in other.hot_spots("frame", 10)})
    print(f"  peaks at the ten hot spots differ by at most {100 * max(apart):.2f} %; {same} of ten places are the same")
    for what in ("engine.wy", "trailing_arm_right.fz"):
        a, b = (np.asarray(run.observe(what)) for run in (one, other))
        size = np.ptp(a)
        print(f"  {what}: largest difference {100 * np.abs(a - b).max() / size:.2f} % of its range {size:.4g}")


def draw(run: mbd.Solution, path: str) -> None:
    """The frame, its tubes coloured by the largest stress that each place met; deflections are too small to see."""
    recovery = recovery_of(run.system, "frame")
    places, peaks = np.asarray(recovery.positions), np.zeros(len(recovery.positions))
    for first in range(0, len(run.ts), 200):
        stress = recovery.von_mises(run.deflection("frame")[first : first + 200])
        peaks = np.maximum(peaks, np.asarray(stress).max(axis=0))
    figure = plt.figure(figsize=(9, 6))
    axes = figure.add_subplot(projection="3d")
    order = np.argsort(peaks)
    points = axes.scatter(*places[order].T, c=peaks[order] / 1e6, s=6, cmap="turbo")
    for number, spot in enumerate(run.hot_spots("frame", 10), 1):
        axes.text(*spot.position, str(number), fontsize=9)
    axes.set_aspect("equal")
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]", title="largest von Mises stress, and the ten hot spots")
    figure.colorbar(points, label="MPa", shrink=0.7)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
