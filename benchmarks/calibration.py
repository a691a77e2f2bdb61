"""Calibration of made data: what is found, how sure, how often the intervals are right, at what cost, beside scipy's methods.

    python benchmarks/calibration.py [ball lugre penalty] [--seeds 20] [--report DIR]

Data are made with noise by a finer run than the fitted one (a tenth to a hundredth of its tolerances or steps, or another method):

- ball: stiffness, damping and friction of a contact from a disc that falls, bounces, slides and rolls;
- lugre: the LuGre law of a block that sticks and slips on a spring, from its position;
- penalty: stiffness and damping of a penalty joint with which a pendulum follows the one with multipliers, at steps of 5 ms.

An evaluation is one run of all experiments with its derivatives. The same residuals are given to scipy's `least_squares` with finite differences
and to Nelder and Mead; theirs are counted as runs. Measured data: `measured_pendulums.py`.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares, minimize

import jaxmbd as mbd
from jaxmbd.calibrate.calibrating import Problem


class Case(NamedTuple):
    """A made problem."""

    system: mbd.System
    """with the first guess"""
    truth: dict[str, float] | None
    """None: there is none, the best is asked for"""
    free: dict[str, Any]
    data: Callable[[int], list[mbd.Experiment]]
    """by seed"""
    options: dict[str, Any]


def ball() -> Case:
    """Thrown at 2 m/s from 0.5 m, without spin: the first impacts slide, the later ones roll."""
    disc = mbd.PlanarBody("ball", 0.1, 0.5 * 0.1 * 0.03**2, position=(0.0, 0.5), velocity=(2.0, 0.0))
    law, rub = mbd.LinearContact(1e4, damping=2.0), mbd.Coulomb(0.2, regularisation=1e-2)
    place = {"centre": (0.0, 0.5), "radius": 0.03, "point": (0, 0), "normal": (0, 1)}
    floor = mbd.DiscLine("floor", disc, mbd.ground, **place, law=law, friction=rub)
    truth = {"floor.stiffness": 1e4, "floor.damping": 2.0, "floor.kinetic": 0.2}
    system = mbd.Model([disc], [], [mbd.Gravity((0, -9.81)), floor]).build()
    ts = np.linspace(0.0, 1.2, 241)
    run = mbd.simulate(system, 1.2, integrator=mbd.RosenbrockNystrom(1e-8, 1e-8), saveat=ts, max_step=2e-3)
    exact = run.observe(["ball.x", "ball.y", "ball.angle"])

    def data(seed: int) -> list[mbd.Experiment]:
        random = np.random.default_rng(seed)
        noise = {"ball.x": 5e-4, "ball.y": 5e-4, "ball.angle": 1e-2}
        return [
            mbd.Experiment({"t": ts} | {name: np.asarray(exact[name]) + noise[name] * random.standard_normal(ts.size) for name in exact})
        ]

    free = {"floor.stiffness": (1e3, 1e5, "log"), "floor.damping": (0.0, 20.0), "floor.kinetic": (0.0, 1.0)}
    begin = system.set({"floor.stiffness": 6e3, "floor.damping": 3.0, "floor.kinetic": 0.3})
    options = {"integrator": mbd.RosenbrockNystrom(1e-5, 1e-5), "max_step": 5e-3, "grow": (0.4, 1.0)}
    return Case(begin, truth, free, data, options)


def lugre() -> Case:
    """A block of 1 kg on a table, drawn by a spring whose other end moves evenly at 0.1 m/s."""
    block = mbd.PlanarBody("block", 1.0, 0.01, position=(0.0, 0.0499))
    rub = mbd.LuGre(1e4, static=0.4, kinetic=0.25, stribeck_velocity=0.05, bristle_damping=50.0)
    place = {"centre": (0.0, 0.0499), "radius": 0.05, "point": (0, 0), "normal": (0, 1)}
    table = mbd.DiscLine("table", block, mbd.ground, **place, law=mbd.LinearContact(1e5, damping=500.0), friction=rub, allow_overlap=True)
    slide = mbd.Translational("slide", mbd.ground, block, point=(0, 0.0499), axis=(1, 0))
    guide = mbd.PointForce("spring", block, (0.0, 0.0499), lambda frame, t: _drawn(frame, t))
    system = mbd.Model([block], [slide], [mbd.Gravity((0, -9.81)), table, guide]).build()
    truth = {"table.static": 0.4, "table.kinetic": 0.25, "table.stribeck_velocity": 0.05, "table.bristle_stiffness": 1e4}
    ts = np.linspace(0.0, 4.0, 401)
    run = mbd.simulate(system, 4.0, integrator=mbd.RosenbrockNystrom(1e-8, 1e-8), saveat=ts)
    exact = np.asarray(run.observe("block.x"))

    def data(seed: int) -> list[mbd.Experiment]:
        random = np.random.default_rng(seed)
        return [mbd.Experiment({"t": ts, "block.x": exact + 1e-4 * random.standard_normal(ts.size)})]

    free = {
        "table.static": (0.05, 1.0, "log"),
        "table.kinetic": (0.05, 1.0, "log"),
        "table.stribeck_velocity": (5e-3, 0.5, "log"),
        "table.bristle_stiffness": (1e3, 1e5, "log"),
    }
    begin = system.set({"table.static": 0.5, "table.kinetic": 0.3, "table.stribeck_velocity": 0.03, "table.bristle_stiffness": 5e3})
    return Case(begin, truth, free, data, {"integrator": mbd.RosenbrockNystrom(1e-5, 1e-5), "grow": (0.25, 0.5, 1.0)})


def _drawn(frame: Any, t: Any) -> Any:
    import jax.numpy as jnp

    return jnp.stack([40.0 * (0.1 * t - frame.position[0]), 0.0, 0.0])


def penalty() -> Case:
    """A pendulum whose hinge is a penalty, integrated with steps of 5 ms, against the exact one."""

    def pendulum(stiffness: float | None) -> mbd.System:
        rod = mbd.PlanarBody("rod", 1.0, 0.03, position=(0.3, 0.0))
        held = None if stiffness is None else mbd.Penalty(stiffness, 20.0)
        return mbd.Model([rod], [mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0), penalty=held)], [mbd.Gravity((0, -9.81))]).build()

    ts = np.linspace(0.0, 2.0, 201)
    run = mbd.simulate(pendulum(None), 2.0, integrator=mbd.RosenbrockNystrom(1e-9, 1e-9), saveat=ts)
    exact = np.asarray(run.observe("rod.angle"))

    def data(seed: int) -> list[mbd.Experiment]:
        random = np.random.default_rng(seed)
        return [mbd.Experiment({"t": ts, "rod.angle": exact + 1e-3 * random.standard_normal(ts.size)})]

    free = {"hinge.penalty.stiffness": (1e2, 1e7, "log"), "hinge.penalty.damping": (1e-1, 1e5, "log")}
    return Case(pendulum(2e3), None, free, data, {"integrator": mbd.SemiExplicit(0.5, 0.6, predict_velocity=True), "step": 0.005})


CASES = {"ball": ball, "lugre": lugre, "penalty": penalty}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--seeds", type=int, default=20, help="noise seeds for the coverage of intervals")
    parser.add_argument("--report", type=Path, help="folder for a report of each")
    options = parser.parse_args()
    for name in options.cases:
        case = CASES[name]()
        begin = time.perf_counter()
        fit = mbd.calibrate(case.system, case.data(0), case.free, progress=False, **case.options)
        print(f"\n{name}: {time.perf_counter() - begin:.1f} s with compiling\n{fit}")
        if case.truth is not None:
            _cover(case, options.seeds)
        _compare(case)
        if options.report is not None:
            options.report.mkdir(parents=True, exist_ok=True)
            fit.report(options.report / f"{name}.html")
            fit.plot(options.report / f"{name}.png")


def _cover(case: Case, seeds: int) -> None:
    """How often the 95 % intervals contain the truth, and how many evaluations a fit takes."""
    assert case.truth is not None
    inside, evaluations, ended = dict.fromkeys(case.truth, 0), [], 0
    for seed in range(seeds):
        fit = mbd.calibrate(case.system, case.data(seed), case.free, progress=False, **case.options)
        evaluations.append(fit.evaluations)
        ended += fit.converged
        for name, value in case.truth.items():
            low, high = fit.interval(name)
            inside[name] += low <= value <= high
    told = ", ".join(f"{name} {count}" for name, count in inside.items())
    print(f"  of {seeds} seeds {ended} converged, evaluations at most {max(evaluations)}; intervals that contain the truth: {told}")


def _compare(case: Case) -> None:
    """The same residuals for others, in the search's own coordinates, scaled to their bounds."""
    options = dict(case.options)
    options.pop("grow", None)
    problem = Problem(case.system, case.data(0), case.free, {}, options, "squares")
    first = problem.first_point(None)
    levels = problem._first_levels(first)
    low, high = problem.data.bounds
    runs = 0

    def residuals(share: np.ndarray) -> np.ndarray:
        nonlocal runs
        runs += 1
        point = problem.evaluate(low + (high - low) * share, first.own)
        return (
            np.concatenate([np.ravel(part / levels[None, :, None]) for part in point.errors])
            if point.ok
            else np.full(first.errors[0].size, 1e3)
        )

    def squares(share: np.ndarray) -> float:
        return float(np.sum(residuals(share) ** 2))

    start = (first.u - low) / (high - low)
    rows = []
    for label, solve in (
        ("scipy least_squares, finite differences", lambda: least_squares(residuals, start, bounds=(0.0, 1.0), diff_step=1e-4).x),
        (
            "scipy Nelder-Mead",
            lambda: minimize(squares, start, method="Nelder-Mead", options={"maxfev": 400}).x,
        ),
    ):
        runs, begin = 0, time.perf_counter()
        x = np.clip(solve(), 0.0, 1.0)
        misfit = np.sqrt(np.mean(residuals(x) ** 2))
        rows.append((label, runs, time.perf_counter() - begin, misfit, problem.shared.shown(low + (high - low) * x)))
    for label, count, seconds, misfit, values in rows:
        told = ", ".join(f"{name} {value:.5g}" for name, value in values.items())
        print(f"  {label}: {count} runs, {seconds:.1f} s, misfit {misfit:.3g} of the first; {told}")


if __name__ == "__main__":
    main()
