"""What a step costs as a mechanism grows: a rope of n rods on spherical joints, released from the horizontal, with HHT and BDF, and with exudyn.

    python -m benchmarks.scaling [--links 10 32 100 316 1000 3162] [--only hht bdf exudyn] [--algebra auto]

Steps of 1 ms. All times are CPU times of processes with one thread each, one process for each row, without kept programs. exudyn runs its
sparse solver (Eigen), generalised alpha with spectral radius 0.9 and modified Newton, which renews its Jacobian when convergence is slow; HHT
(alpha = -0.05) and BDF (its stabilised form, order 2) do the same, to the accuracy of prescribed steps. `apart` is the distance of the last rod
from where exudyn has it. The parts of a step are timed alone: a Jacobian, its factors, a residual, a solve.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LENGTH, H, STEPS = 10.0, 1e-3, 100
KINDS = ("hht", "bdf", "exudyn")


def rod(links: int) -> tuple[float, float, tuple[float, float, float]]:
    """Length, mass and moments of inertia of one rod: 1 kg a metre, 0.11 m thick."""
    length = LENGTH / links
    across = length * (length**2 / 12 + 1e-3)
    return length, length, (length * 1e-3, across, across)


def rope(links: int, algebra: str = "auto") -> Any:
    import jaxmbd as mbd

    length, mass, inertia = rod(links)
    bodies = [mbd.RigidBody(f"rod{i}", mass, inertia, position=((i + 0.5) * length, 0.0, 0.0)) for i in range(links)]
    joints = [
        mbd.Spherical(f"joint{i}", bodies[i - 1] if i else mbd.ground, body, point=(i * length, 0.0, 0.0)) for i, body in enumerate(bodies)
    ]
    return mbd.Model(bodies, joints, [mbd.Gravity((0.0, -9.81, 0.0))]).build(algebra)


def cpu(run: Callable[[], Any], times: int = 3) -> float:
    """Seconds, the least of some runs."""
    found = []
    for _ in range(times):
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found)


def ours(kind: str, links: int, algebra: str) -> dict[str, Any]:
    import jax

    import jaxmbd as mbd

    began = time.process_time()
    system = rope(links, algebra)
    build = time.process_time() - began
    method = mbd.HHT(alpha=-0.05) if kind == "hht" else mbd.BDF(order=2, index="stabilized-2")

    def run(steps: int) -> Any:
        return mbd.simulate(system, steps * H, step=H, integrator=method, saveat=mbd.SaveAt(t1=True), max_steps=STEPS)

    began = time.process_time()
    solution = run(STEPS)
    first = time.process_time() - began
    whole, start = cpu(lambda: run(STEPS)), cpu(lambda: run(1))
    stats = solution.stats
    answer: dict[str, Any] = {
        "build [s]": build,
        "compile [s]": first - whole,
        "step [ms]": 1e3 * (whole - start) / (STEPS - 1),
        "iterations": stats["newton_iterations"] / STEPS,
        "Jacobians": stats["jacobians"] / STEPS,
        "end": np.asarray(solution.final.q[-7:-4]).tolist(),
    }
    jax.block_until_ready(solution.final.q)
    return answer | parts(system, method)


def parts(system: Any, method: Any) -> dict[str, float]:
    """Milliseconds of what a step consists of."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from jaxmbd.running.starting import consistent_start

    state = consistent_start(system)
    method = method.suited(system)
    state, _ = method.init(system, state)
    state = method.look_back(system, state, jnp.array(H))

    def equations(system: Any, state: Any) -> Any:
        return method.equations(system.prepare(), state, jnp.array(H))

    @eqx.filter_jit
    def residual(system, state, z):
        there = equations(system, state)
        return there.residual(z) / there.scaling().rows

    @eqx.filter_jit
    def jacobian(system, state, z):
        there = equations(system, state)
        return there.scaled_jacobian(there.scaling())(z)

    @eqx.filter_jit
    def factorize(system, state, matrix):
        return equations(system, state).algebra().factorize(matrix)

    @eqx.filter_jit
    def solve(system, state, factors, right):
        return equations(system, state).algebra().solve(factors, right)

    z = equations(system, state).first_guess()
    right = residual(system, state, z)
    matrix = jacobian(system, state, z)
    factors = factorize(system, state, matrix)
    calls = {
        "Jacobian [ms]": lambda: jacobian(system, state, z),
        "factors [ms]": lambda: factorize(system, state, matrix),
        "residual [ms]": lambda: residual(system, state, z),
        "solve [ms]": lambda: solve(system, state, factors, right),
    }
    found = {}
    for name, call in calls.items():
        jax.block_until_ready(call())
        found[name] = 1e3 * cpu(lambda call=call: jax.block_until_ready([call() for _ in range(10)])) / 10
    return found


def by_exudyn(links: int) -> dict[str, Any]:
    import exudyn
    from exudyn.utilities import RigidBodyInertia

    exudyn.config.suppressWarnings = True
    length, mass, inertia = rod(links)
    system = exudyn.SystemContainer().AddSystem()
    ground = system.CreateGround()
    last = ground
    for i in range(links):
        body = system.CreateRigidBody(
            referencePosition=[(i + 0.5) * length, 0.0, 0.0],
            inertia=RigidBodyInertia(mass, np.diag(inertia)),
            nodeType=exudyn.NodeType.RotationEulerParameters,
            gravity=[0.0, -9.81, 0.0],
        )
        system.CreateSphericalJoint(bodyNumbers=[last, body], position=[i * length, 0.0, 0.0], show=False)
        last = body
    system.Assemble()
    settings = exudyn.SimulationSettings()
    settings.timeIntegration.verboseMode = 0
    settings.linearSolverType = exudyn.LinearSolverType.EigenSparse
    settings.solutionSettings.writeSolutionToFile = False
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.timeIntegration.generalizedAlpha.spectralRadius = 0.9
    settings.parallel.numberOfThreads = 1

    def run(steps: int) -> None:
        settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, steps * H
        assert system.SolveDynamic(settings, solverType=exudyn.DynamicSolverType.GeneralizedAlpha)

    start, whole = cpu(lambda: run(1)), cpu(lambda: run(STEPS))
    end = system.GetObjectOutputBody(last, exudyn.OutputVariableType.Position, [0.0, 0.0, 0.0])
    return {"step [ms]": 1e3 * (whole - start) / (STEPS - 1), "end": np.asarray(end).tolist()}


def row(kind: str, links: int, algebra: str) -> None:
    """One measurement, as a line of JSON."""
    answer = by_exudyn(links) if kind == "exudyn" else ours(kind, links, algebra)
    answer["memory [MB]"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(json.dumps(answer))


def measured(kind: str, links: int, algebra: str) -> dict[str, Any]:
    """The same, in a process of its own."""
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    threads = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    environment = os.environ | alone | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {threads}".strip()}
    command = [sys.executable, "-m", "benchmarks.scaling", "--row", kind, "--links", str(links), "--algebra", algebra]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, nargs="+", default=[10, 32, 100, 316, 1000, 3162])
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--algebra", default="auto")
    parser.add_argument("--row", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        row(options.row, options.links[0], options.algebra)
        return
    for links in options.links:
        rows = {kind: measured(kind, links, options.algebra) for kind in reversed(options.only)}
        ends, peer = {kind: np.array(answer.pop("end")) for kind, answer in rows.items()}, rows.get("exudyn")
        for kind, answer in reversed(rows.items()):
            if peer is not None and kind != "exudyn":
                answer["of exudyn"] = answer["step [ms]"] / peer["step [ms]"]
                answer["apart [m]"] = float(np.linalg.norm(ends[kind] - ends["exudyn"]))
            print(f"{links:5d} {kind:6s} " + ", ".join(f"{name} {value:.3g}" for name, value in answer.items()), flush=True)


if __name__ == "__main__":
    main()
