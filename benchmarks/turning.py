"""Bodies that turn: what local coordinates are worth to the Rosenbrock methods, beside BDF and HHT.

    python benchmarks/turning.py [governor] [rattleback] [tumbling]

Without names, all parts run. "in q" are the same methods in Euler parameters, of which some are chosen to be integrated: how they ran before
they had local coordinates. Errors are the largest at accepted steps. References: the governor's and the free body's equations in minimal
coordinates, derived by hand and solved by scipy; the rattleback's own motion at a tight tolerance.
"""

from typing import Any

import numpy as np
from parts import run_parts
from smooth_problems import Tumbling, tumbling_model
from turning_problems import governor, governor_reference, rattleback

import jaxmbd as mbd


class _NystromInQ(mbd.RosenbrockNystrom):
    def local(self, system, q):
        return None


class _RodasInQ(mbd.Rodas4):
    def local(self, system, q):
        return None


METHODS = {
    "rosenbrock-nystrom": lambda tolerance: mbd.RosenbrockNystrom(tolerance, tolerance),
    "  in q": lambda tolerance: _NystromInQ(tolerance, tolerance),
    "  scaled error": lambda tolerance: mbd.RosenbrockNystrom(tolerance, tolerance, scaled_error=True),
    "rodas4": lambda tolerance: mbd.Rodas4(tolerance, tolerance),
    "rodas4, in q": lambda tolerance: _RodasInQ(tolerance, tolerance),
    "dormand-prince": lambda tolerance: mbd.DormandPrince(tolerance, tolerance),
    "bdf": lambda tolerance: mbd.BDF(tolerance),
    "hht": lambda tolerance: mbd.HHT(tolerance),
}


def table(model: mbd.Model, t1: float, tolerances: tuple[float, ...], without: tuple[str, ...], error: Any) -> None:
    system = model.build()
    for name, method in METHODS.items():
        for tolerance in tolerances if name not in without else ():
            run = mbd.simulate(system, t1, integrator=method(tolerance), throw=False, max_steps=200_000)
            ending = error(run) if run.result == mbd.RESULTS.successful else run.message
            print(f"  {name:20s} {tolerance:7.0e}  {run.stats['steps']:6d} + {run.stats['rejected']:5d}  {ending}", flush=True)


def governor_part() -> None:
    solution = governor_reference(10.0)

    def error(run):
        y, turn = solution(np.asarray(run.ts)), np.asarray(run.rotation("shaft"))
        sleeve = np.max(np.abs(np.asarray(run.position("sleeve"))[:, 2] - y[2]))
        angle = np.max(np.abs(np.unwrap(np.arctan2(turn[:, 1, 0], turn[:, 0, 0])) - y[0]))
        return f"{sleeve:9.1e}  {angle:9.1e}"

    print("\nFlyball governor, 10 s: steps + rejected, error of the sleeve's height [m] and of the shaft's angle [rad]")
    table(governor(), 10.0, (1e-4, 1e-5, 1e-6), ("dormand-prince",), error)


def rattleback_part() -> None:
    model, t1 = rattleback(), 2.0
    times = np.linspace(0.0, t1, 401)
    exact = mbd.simulate(model, t1, integrator=mbd.DormandPrince(1e-10, 1e-10), saveat=times, max_steps=400_000).q

    def error(run):
        there = np.stack([np.interp(times, run.ts, column) for column in np.asarray(run.q).T], axis=1)
        return f"{np.max(np.abs(there - exact)[:, 3:]):9.1e}"

    print("\nRattleback, 2 s: steps + rejected, error of the Euler parameters")
    table(model, t1, (1e-4, 1e-5, 1e-6), (), error)


def tumbling_part() -> None:
    motion, t1 = Tumbling((1.0, 2.0, 3.0), (0.0, 0.0, 0.0), (0.1, 3.0, 0.2)), 50.0
    solution = motion.solution(t1)

    def error(run):
        q, _ = motion.place(solution(np.asarray(run.ts)))
        return f"{2 * np.max(np.linalg.norm(np.asarray(run.q)[:, 3:] - q[:, 3:], axis=1)):9.1e}"

    print("\nFree body about its unstable axis, 50 s: steps + rejected, error of its orientation [rad]")
    table(tumbling_model(motion), t1, (1e-6, 1e-7, 1e-8), (), error)


def main() -> None:
    parts = {"governor": governor_part, "rattleback": rattleback_part, "tumbling": tumbling_part}
    run_parts(__doc__, {name: lambda _, part=part: part() for name, part in parts.items()}, {})


if __name__ == "__main__":
    main()
