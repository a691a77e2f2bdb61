"""Other programs on variations of the stiff double pendulum: C++ by hand, CVODE, MuJoCo, exudyn.

All run it for 2 s with other stiffnesses of its first spring, each with settings whose error is near that of the others. Every one has all
cores: threads where the program has them, processes where it is driven from Python. Starting processes and building models of a first run
are not timed.
"""

import copy
import functools
import importlib.util
import math
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

END = 2.0
"""s"""
LOW, HIGH = 300.0, 500.0
"""N m/rad, between which the stiffness of the first spring is varied"""
START = (2 * math.pi, 23 * math.pi / 12, 0.0, 10.0)
"""rad, rad/s: both angles to the x axis, both rates"""
CPP_TOLERANCE, CVODE_TOLERANCE = 1e-4, 1e-5
MUJOCO_STEP, EXUDYN_STEP = 5e-4, 1e-3
"""s"""
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def stiffnesses(runs: int) -> np.ndarray:
    return np.linspace(LOW, HIGH, runs) if runs > 1 else np.array([LOW])


def rate(state: Any, stiffness: float) -> list[float]:
    """Of both angles and their rates, by hand; plain numbers, which Python handles faster than small arrays."""
    first, second, first_rate, second_rate = state
    across, turning = 0.9 * math.cos(first - second), 0.9 * math.sin(first - second)
    torque1 = -stiffness * (first - 1.5 * math.pi) - 15.0 * first_rate
    torque2 = -3e5 * (second - first) - 5e4 * (second_rate - first_rate)
    force1 = torque1 - torque2 - turning * second_rate**2 - 9.81 * 3.6 * math.cos(first)
    force2 = torque2 + turning * first_rate**2 - 9.81 * 0.45 * math.cos(second)
    inertia1, inertia2 = 5.2, 0.9
    determinant = inertia1 * inertia2 - across**2
    return [
        first_rate,
        second_rate,
        (inertia2 * force1 - across * force2) / determinant,
        (inertia1 * force2 - across * force1) / determinant,
    ]


@functools.cache
def reference(stiffness: float) -> np.ndarray:
    """Both angles at the end, by scipy's Radau at 1e-11."""
    from scipy.integrate import solve_ivp

    run = solve_ivp(lambda t, state: rate(state, stiffness), (0.0, END), START, "Radau", rtol=1e-11, atol=1e-11)
    return run.y[:2, -1]


def samples(runs: int) -> np.ndarray:
    """A few from the first to the last."""
    return np.unique(np.linspace(0, runs - 1, 5).astype(int))


def farthest(varied: Iterable[float], ends: Any) -> float:
    """rad, the largest error of an angle at the end."""
    return max(float(np.max(np.abs(np.asarray(end) - reference(value)))) for value, end in zip(varied, ends, strict=True))


class Measured(NamedTuple):
    seconds: float
    ends: np.ndarray
    """(runs, 2) rad"""


class Peer(NamedTuple):
    title: str
    there: Callable[[], bool]
    run: Callable[[int, int], Measured]
    """so many runs on so many cores"""
    few: int
    """runs a core that take a fraction of a second"""


# --- C++ ------------------------------------------------------------------------------------------------------------------------------------


def tableau_header() -> str:
    """The coefficients of RosenbrockNystrom as C++."""
    from jaxmbd.integrators.tableaux import NEGRUT4

    numbers = NEGRUT4.nystrom()
    lines = [f"constexpr int STAGES = {len(numbers.m_error)};", f"constexpr double GAMMA = {numbers.gamma!r};"]
    for name in ("times", "slopes", "a", "c", "theta", "delta", "m_error", "mu_error", "reuses"):
        values = getattr(numbers, name)
        kind, sizes = "bool" if values.dtype == bool else "double", "".join(f"[{size}]" for size in values.shape)
        nested = repr(values.tolist()).replace("[", "{").replace("]", "}").replace("True", "true").replace("False", "false")
        lines.append(f"constexpr {kind} {name.upper()}{sizes} = {nested};")
    return "\n".join(lines) + "\n"


@functools.cache
def _program() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Compiled; the folder goes when the process ends."""
    folder = tempfile.TemporaryDirectory()
    (Path(folder.name) / "tableau.h").write_text(tableau_header(), encoding="utf-8")
    program = Path(folder.name) / "double_pendulum"
    source = Path(__file__).with_name("double_pendulum.cpp")
    flags = ["-std=c++17", "-O3", "-ffast-math", "-march=native", "-pthread", f"-I{folder.name}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(program)], check=True)
    return folder, program


def run_cpp(runs: int, cores: int) -> Measured:
    _, program = _program()
    arguments = [str(one) for one in (runs, cores, LOW, HIGH, CPP_TOLERANCE, END)]
    told = subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return Measured(float(told[0].split()[0]), np.array([line.split() for line in told[1:]], float))


# --- programs that Python drives run by run -------------------------------------------------------------------------------------------------


def _pooled(one: Callable[[float], Any], runs: int, cores: int) -> Measured:
    """In processes of their own, which have made a first run when the clock starts."""
    varied = stiffnesses(runs).tolist()
    if cores == 1:
        one(LOW)
        begin = time.perf_counter()
        ends = [one(stiffness) for stiffness in varied]
        return Measured(time.perf_counter() - begin, np.array(ends))
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(cores + 1)
    with context.Pool(cores, _warm, (one, ready)) as pool:
        ready.wait()
        begin = time.perf_counter()
        ends = pool.map(one, varied, chunksize=max(1, runs // (4 * cores)))
        return Measured(time.perf_counter() - begin, np.array(ends))


def _warm(one: Callable[[float], Any], ready: Any) -> None:
    one(LOW)
    ready.wait()


def one_by_cvode(stiffness: float) -> np.ndarray:
    from sksundae.cvode import CVODE

    def fill(t: float, state: np.ndarray, out: np.ndarray) -> None:
        out[:] = rate(state.tolist(), stiffness)

    solver = CVODE(fill, rtol=CVODE_TOLERANCE, atol=CVODE_TOLERANCE, method="BDF", max_num_steps=100_000)
    return solver.solve(np.array([0.0, END]), np.array(START)).y[-1, :2]


def one_by_exudyn(stiffness: float) -> np.ndarray:
    """Planar bodies and joints, generalised alpha with steps of one size, modified Newton."""
    import exudyn
    from exudyn import itemInterface as items

    system = exudyn.SystemContainer().AddSystem()
    angles, rates = np.array(START[:2]), np.array(START[2:])
    halves, masses, inertias = (1.0, 1.5), (3.0, 0.3), (1.0, 0.225)
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centres = np.stack([halves[0] * along[0], 2 * halves[0] * along[0] + halves[1] * along[1]])
    nodes, ends = [], []
    for angle, speed, half, mass, inertia, centre in zip(angles, rates, halves, masses, inertias, centres, strict=True):
        velocity = [-speed * half * np.sin(angle), speed * half * np.cos(angle), speed]  # the first rod rests
        nodes.append(system.AddNode(items.NodeRigidBody2D(referenceCoordinates=[*centre, angle], initialVelocities=velocity)))
        body = system.AddObject(items.ObjectRigidBody2D(physicsMass=mass, physicsInertia=inertia, nodeNumber=nodes[-1]))
        weight = system.AddMarker(items.MarkerBodyMass(bodyNumber=body))
        system.AddLoad(items.LoadMassProportional(markerNumber=weight, loadVector=[0, -9.81, 0]))
        ends.append([system.AddMarker(items.MarkerBodyPosition(bodyNumber=body, localPosition=[side * half, 0, 0])) for side in (-1, 1)])
    fixed = system.AddMarker(items.MarkerBodyPosition(bodyNumber=system.AddObject(items.ObjectGround())))
    for markers in ([fixed, ends[0][0]], [ends[0][1], ends[1][0]]):
        system.AddObject(items.ObjectJointRevolute2D(markerNumbers=markers))
    still = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=system.AddNode(items.NodePointGround()), coordinate=0))
    turns = [system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=node, coordinate=2)) for node in nodes]
    springs = (([still, turns[0]], stiffness, 15.0, 1.5 * np.pi - angles[0]), (turns, 3e5, 5e4, angles[0] - angles[1]))
    for markers, spring, damping, offset in springs:  # coordinates count from the start
        system.AddObject(
            items.ObjectConnectorCoordinateSpringDamper(markerNumbers=markers, stiffness=spring, damping=damping, offset=offset)
        )
    system.Assemble()
    settings = exudyn.SimulationSettings()
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = round(END / EXUDYN_STEP), END
    settings.timeIntegration.generalizedAlpha.spectralRadius = 0.9
    settings.timeIntegration.newton.useModifiedNewton = True
    settings.timeIntegration.verboseMode, settings.displayStatistics = 0, False
    settings.solutionSettings.writeSolutionToFile, settings.solutionSettings.sensorsWritePeriod = False, END
    system.SolveDynamic(settings, solverType=exudyn.DynamicSolverType.GeneralizedAlpha)
    return angles + [system.GetNodeOutput(node, exudyn.OutputVariableType.Coordinates)[2] for node in nodes]


# --- MuJoCo ---------------------------------------------------------------------------------------------------------------------------------

_MUJOCO = f"""
<mujoco>
  <compiler angle="radian"/>
  <option integrator="implicitfast" gravity="0 -9.81 0" timestep="{MUJOCO_STEP}"><flag contact="disable"/></option>
  <worldbody>
    <body>
      <joint name="first" type="hinge" axis="0 0 1" stiffness="{LOW}" damping="15" springref="{1.5 * math.pi}"/>
      <inertial pos="1 0 0" mass="3" diaginertia="0.5 0.5 1"/>
      <body pos="2 0 0">
        <joint type="hinge" axis="0 0 1" stiffness="3e5" damping="5e4"/>
        <inertial pos="1.5 0 0" mass="0.3" diaginertia="0.1125 0.1125 0.225"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
"""Inertia matters about z only; the two others are what a flat body has."""


def run_mujoco(runs: int, cores: int) -> Measured:
    """By its own rollouts in threads; every run has a model of its own."""
    import mujoco
    from mujoco import rollout

    first = mujoco.MjModel.from_xml_string(_MUJOCO)
    models = []
    for stiffness in stiffnesses(runs):
        models.append(copy.copy(first))
        models[-1].joint("first").stiffness[:] = stiffness
    data = mujoco.MjData(first)
    data.qpos[:], data.qvel[:] = (START[0], START[1] - START[0]), (START[2], START[3] - START[2])
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    start = np.zeros(mujoco.mj_stateSize(first, kind))
    mujoco.mj_getState(first, data, start, kind)
    works = [mujoco.MjData(first) for _ in range(min(cores, runs))]
    begin = time.perf_counter()
    states, _ = rollout.rollout(models, works, np.tile(start, (runs, 1)), nstep=round(END / MUJOCO_STEP))
    seconds = time.perf_counter() - begin
    return Measured(seconds, np.cumsum(states[:, -1, 1:3], axis=1))  # a state begins with the time; the second angle is relative


def _installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


PEERS = {
    "c++": Peer(f"C++ by hand, two angles, {CPP_TOLERANCE:g}", lambda: shutil.which("g++") is not None, run_cpp, 2000),
    "cvode": Peer(
        f"CVODE (scikit-sundae), two angles, {CVODE_TOLERANCE:g}",
        lambda: _installed("sksundae"),
        functools.partial(_pooled, one_by_cvode),
        20,
    ),
    "mujoco": Peer(f"MuJoCo, implicitfast, h = {MUJOCO_STEP:g} s", lambda: _installed("mujoco"), run_mujoco, 4),
    "exudyn": Peer(
        f"exudyn, planar bodies, h = {EXUDYN_STEP:g} s", lambda: _installed("exudyn"), functools.partial(_pooled, one_by_exudyn), 2
    ),
}


def measure(peer: Peer, cores: int, seconds: float) -> tuple[float, float, int]:
    """(runs a second, error [rad], runs): of as many runs as take about so many seconds."""
    found = peer.run(peer.few * cores, cores)
    runs = int(peer.few * cores * max(1.0, min(seconds / found.seconds, 1000.0)))
    if runs > peer.few * cores:
        found = peer.run(runs, cores)
    rows = samples(runs)
    return runs / found.seconds, farthest(stiffnesses(runs)[rows].tolist(), found.ends[rows]), runs
