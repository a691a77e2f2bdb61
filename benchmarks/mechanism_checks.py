"""Runs of mechanisms, judged by mechanics that share nothing with the library: Newton's and Euler's laws for every body, momenta, energies.

`METHODS` is the one table of what every integrator is asked to do, and how well. All errors are relative to what moves: forces to the largest
force, energies to the largest kinetic energy and the largest change of what is stored, momenta to the largest sum of those of single bodies.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

DURATION = 3.0
"""of a run, in the mechanism's own time: about half a swing of a pendulum"""
VIOLATION = 1e-6
"""m or rad, of constraints, or of the mechanism's length if that is smaller than a metre"""
RESTING = 1e-3
"""of the mechanism's own units of force, momentum and energy: what counts as none"""
SUPPLIED = 1e-3
"""of a method's bound of the energy, what springs may seem to supply, and dampers too: velocities that do not quite fit the constraints"""
MAX_STEPS = 4095
EXPECTED_WARNINGS = (
    "the initial velocities do not fit",
    "redundant constraints",
    "no joint or force acts",
    "no joint and no force but gravity",
)


@dataclasses.dataclass(frozen=True)
class Method:
    """An integrator, the mechanisms that suit it, and what its runs may err by."""

    make: Callable[[float, float, float], mbd.AbstractIntegrator]
    """of the mechanism's length [m], of the allowed error of angles and rates, and of that of all coordinates"""
    suits: Callable[[Any], bool]
    energy: float
    """largest gain or loss of energy that no element supplied"""
    momentum: float
    balance: float | None = 1e-7
    """of forces on single bodies: how well equations of motion are solved. (Multipliers know positions before the last correction that joints
    need, 1e-12 of a length, and stiff springs make 1e-8 of the largest force of that.) None: accelerations are those of a stage, or of
    predicted velocities"""
    tolerance: float = 1e-6


def _jointed(structure: Any) -> bool:
    return not structure.penalty


def _soft(structure: Any) -> bool:
    return _jointed(structure) and not structure.stiff


def _smooth(structure: Any) -> bool:
    return _soft(structure) and not structure.contacts


def _held(structure: Any) -> bool:
    """Methods without multipliers hold joints by penalties."""
    return structure.penalty or not structure.joints


def _without_rows(structure: Any) -> bool:
    """Not even those of Euler parameters: Newmark's methods are none for multipliers, and say so."""
    return _held(structure) and structure.planar


def _by_tolerance(tolerance: float) -> tuple[float, float]:
    """(energy, momentum) of methods whose positions err by at most 100 tolerances over a few periods. Rates err by a few times more, as springs
    vibrate a few times faster than the whole moves; momenta as much as rates, energies, with their squares, three times as much."""
    return 1e3 * tolerance, 3e2 * tolerance


def _second_order(tolerance: float) -> tuple[float, float]:
    """The same where positions err by 10 tolerance^(2/3): HHT, which loses energy by design, and whatever is of second order."""
    return 1e2 * tolerance ** (2 / 3), 3e1 * tolerance ** (2 / 3)


def _first_order(tolerance: float) -> tuple[float, float]:
    """The same where they err by 10 tolerance^(1/2)."""
    return 1e2 * tolerance**0.5, 3e1 * tolerance**0.5


METHODS: dict[str, Method] = {
    # Newton's method of index-3 equations stops when positions are accurate. What it leaves of them, a thousandth of the tolerance, are errors
    # of accelerations and multipliers larger by 1 / h^2: they show in the balance of forces where steps are small, and nowhere else.
    "hht": Method(lambda size, rate, every: mbd.HHT(rate, length_scale=size), lambda s: True, *_second_order(1e-6), balance=0.1),
    "bdf": Method(lambda size, rate, every: mbd.BDF(rate, length_scale=size), lambda s: True, *_second_order(1e-6), balance=0.1),
    "bdf-stabilized": Method(
        lambda size, rate, every: mbd.BDF(rate, length_scale=size, index="stabilized-2"),
        lambda s: not s.penalty,
        *_second_order(1e-6),
        balance=0.1,
    ),
    "rosenbrock-nystrom": Method(lambda size, rate, every: mbd.RosenbrockNystrom(rate, every), _jointed, *_by_tolerance(1e-6)),
    "rodas4": Method(lambda size, rate, every: mbd.Rodas4(rate, every), _jointed, *_by_tolerance(1e-6)),
    "w-method": Method(lambda size, rate, every: mbd.WMethod(rate, every), _jointed, *_by_tolerance(1e-4), tolerance=1e-4),
    "dormand-prince": Method(lambda size, rate, every: mbd.DormandPrince(rate, every), _soft, *_by_tolerance(1e-6)),
    "adams": Method(lambda size, rate, every: mbd.AdamsPECE(rate, every), _smooth, *_by_tolerance(1e-6)),
    "verlet": Method(lambda size, rate, every: mbd.Verlet(rate, length_scale=size), _held, *_second_order(1e-6), balance=None),
    "semi-explicit": Method(
        lambda size, rate, every: mbd.SemiExplicit(tolerance=rate, length_scale=size), _held, *_second_order(1e-6), balance=None
    ),
    "theta": Method(lambda size, rate, every: mbd.Theta(tolerance=rate, length_scale=size), _held, *_second_order(1e-6), balance=None),
    # Undamped penalties vibrate, and it resolves that: hence the tolerance.
    "trapezoidal": Method(
        lambda size, rate, every: mbd.Trapezoidal(rate, length_scale=size),
        _without_rows,
        *_second_order(1e-5),
        balance=0.1,
        tolerance=1e-5,
    ),
    "newmark": Method(lambda size, rate, every: mbd.Newmark(rate, length_scale=size), _without_rows, *_first_order(1e-6), balance=0.1),
    # Without damping it grows by design. Its error estimate is a whole term of second order, and pessimistic; but at 1e-4 a step may still
    # leap into a contact, which then throws back what was not there.
    "explicit-nystrom": Method(
        lambda size, rate, every: mbd.ExplicitNystrom(rate, length_scale=size),
        lambda s: _held(s) and not s.lossless,
        *_first_order(1e-6),
        balance=None,
        tolerance=1e-5,
    ),
}


@dataclasses.dataclass
class Outcome:
    """How a run ended, what it erred by, and what is wrong with that."""

    result: str
    message: str = ""
    steps: int = 0
    errors: dict[str, float] = dataclasses.field(default_factory=dict)
    findings: list[str] = dataclasses.field(default_factory=list)


# --- one run ------------------------------------------------------------------------------------------------------------------------------


def examine(structure: Any, drawn: Any, method: Method) -> Outcome:
    """Runs a mechanism and judges it. Whatever the library says honestly, a failure with its reason, is no finding."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            system = drawn.model.build()
            rate = method.tolerance * min(1.0, 1.0 / drawn.time)  # tolerances of rates are per second
            integrator = method.make(drawn.length, rate, rate * min(1.0, drawn.length))
            run = mbd.simulate(system, DURATION * drawn.time, integrator=integrator, max_steps=MAX_STEPS, throw=False)
        except Exception as error:
            return Outcome("crash", findings=[f"crash: {type(error).__name__}: {error}"])
    outcome = Outcome(_code(run.result), run.message, int(run.stats["steps"]))
    unexpected = {str(w.message) for w in caught if not str(w.message).startswith(EXPECTED_WARNINGS)}
    outcome.findings += [f"warning: {message}" for message in unexpected]
    numbers = (run.q, run.v, run.acceleration, run.multipliers, run.x, run.ts)
    if not all(np.all(np.isfinite(part)) for part in numbers):
        outcome.findings.append(f"not finite, but {outcome.result}")
        return outcome
    if outcome.result == "successful":
        _judge(structure, drawn, method, run, outcome)
    return outcome


def _code(result: mbd.RESULTS) -> str:
    return next(name for name in mbd.RESULTS._name_to_item if bool(result == mbd.RESULTS._name_to_item[name]))


def _judge(structure: Any, drawn: Any, method: Method, run: mbd.Solution, outcome: Outcome) -> None:
    seen, count = _seen(run), run.ts.shape[0]
    seen = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], seen)
    errors, findings = outcome.errors, outcome.findings
    errors["start"] = float(np.max(np.abs(run.q[0] - run.system.q0))) / max(1.0, drawn.length)
    errors["violation"] = float(np.max(seen["violation"])) / min(1.0, drawn.length)
    energy = seen["kinetic"] + np.sum(seen["stored"], axis=1)
    unit = drawn.mass * (drawn.length / drawn.time) ** 2
    scale = np.max(seen["kinetic"]) + np.max(np.sum(np.abs(seen["stored"] - seen["stored"][0]), axis=1)) + RESTING * unit
    error = (energy - energy[0] - np.sum(seen["supplied"], axis=1)) / scale
    errors["energy gain"], errors["energy loss"] = float(np.max(error)), float(-np.min(error))
    motion = Motion.of(drawn.model, run)
    errors["kinetic energy"] = float(np.max(np.abs(seen["kinetic"] - motion.kinetic()))) / scale
    errors["balance"] = max(balance(drawn, run, motion, seen))
    # Tolerances of velocities are those of motion at the mechanism's own speed. Where it is slower, they allow as much, relative to less.
    allowed = method.energy * max(1.0, float(np.sqrt(unit / scale)))
    bounds = {
        "start": 1e-9,
        "violation": VIOLATION,
        "energy gain": allowed,
        "energy loss": allowed,
        "kinetic energy": 1e-10,
    }
    if method.balance is not None:
        bounds["balance"] = method.balance
    supplied = seen["supplied"][:, _exact(structure, drawn, run.system.workers())]
    if structure.lossless:
        errors["supplied"] = float(np.max(np.abs(supplied), initial=0.0)) / scale
        bounds["supplied"] = SUPPLIED * method.energy
    elif not structure.driven and structure.friction != "LuGre":
        errors["supplied"] = float(np.max(supplied, initial=0.0)) / scale  # dampers take
        bounds["supplied"] = SUPPLIED * method.energy
    if structure.floating:
        errors["momentum"] = max(motion.momentum_errors(drawn))
        bounds["momentum"] = method.momentum
    for name, bound in bounds.items():
        if not errors[name] <= bound:
            findings.append(f"{name}: {errors[name]:.3g} exceeds {bound:.3g}")


def _exact(structure: Any, drawn: Any, workers: Sequence[str]) -> list[int]:
    """The workers whose supply is known. Penalties let axes tilt against each other, and a torsion spring about one of them then does work,
    with the square of the tilt: penalties sixteen times as stiff leave a 250th of it (seed 6142, draw 3)."""
    torsion = {force.name for force in drawn.model.forces if isinstance(force, mbd.TorsionSpringDamper)}
    return [i for i, worker in enumerate(workers) if not (structure.penalty and not structure.planar and worker in torsion)]


# --- what the library says of a run -------------------------------------------------------------------------------------------------------


def _seen(run: mbd.Solution) -> dict[str, Any]:
    """Energies, work, reactions and forces at all rows; compiled once a structure, whatever the integrator and however many steps."""
    missing = MAX_STEPS + 1 - run.ts.shape[0]
    pad = lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)])  # noqa: E731
    states = jax.tree.map(lambda leaf: pad(np.asarray(leaf)), dataclasses.replace(run.states, method=None))
    return _observed(run.system, states)


@eqx.filter_jit
def _observed(system: mbd.System, states: mbd.State) -> dict[str, Any]:
    final = jax.tree.map(lambda leaf: leaf[-1], states)
    run = mbd.Solution(system, states, final, {}, mbd.RESULTS.successful, jnp.zeros((), jnp.int32), jnp.zeros(0))
    energy, work = run.energy(), run.work()
    nothing = jnp.zeros((states.t.shape[0], 0))
    reactions = {name: run.reaction(name) for name in system.row_slices()}
    loads = {name: run.force(name) for group in system.force_groups for name in group.names}
    return {
        "violation": run.constraint_violation(),
        "kinetic": energy.kinetic,
        "stored": jnp.stack([one.stored for one in work.values()], 1) if work else nothing,
        "supplied": jnp.stack([one.supplied for one in work.values()], 1) if work else nothing,
        "reactions": {name: (one.force, one.torque) for name, one in reactions.items()},
        "loads": {name: (one.force, one.torque) for name, one in loads.items()},
    }


# --- mechanics, once more -----------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Body:
    """A body in space along a run, planar ones too; arrays have a row a time."""

    mass: float
    position: np.ndarray
    rotation: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    spin: np.ndarray
    """angular momentum about the centre of mass"""
    spin_rate: np.ndarray
    turning: np.ndarray
    """kinetic energy of rotation"""
    is_point: bool


@dataclasses.dataclass
class Motion:
    ts: np.ndarray
    bodies: dict[str, Body]

    @staticmethod
    def of(model: mbd.Model, run: mbd.Solution) -> "Motion":
        numbers = [np.asarray(part) for part in (run.q, run.v, run.acceleration)]
        slices = run.system.body_slices()
        return Motion(np.asarray(run.ts), {b.name: _body(b, *(part[:, slices[b.name][2]] for part in numbers)) for b in model.bodies})

    def kinetic(self) -> np.ndarray:
        return sum(0.5 * b.mass * np.sum(b.velocity**2, axis=1) + b.turning for b in self.bodies.values())

    def momentum_errors(self, drawn: Any) -> tuple[float, float]:
        """Of linear and angular momentum about the origin, where gravity alone acts from outside."""
        bodies, t = self.bodies.values(), (self.ts - self.ts[0])[:, None]
        mass, g = sum(b.mass for b in bodies), _gravity(drawn.model)
        linear = sum(b.mass * b.velocity for b in bodies)
        angular = sum(b.mass * np.cross(b.position, b.velocity) + b.spin for b in bodies)
        centre = sum(b.mass * b.position[0] for b in bodies)
        expected = linear[0] + mass * g * t
        turned = angular[0] + np.cross(centre, g) * t + np.cross(linear[0], g) * t**2 / 2
        sizes = sum(b.mass * np.linalg.norm(b.velocity, axis=1) for b in bodies)
        arms = sum(np.linalg.norm(b.position, axis=1) * b.mass * np.linalg.norm(b.velocity, axis=1) for b in bodies)
        spins = sum(np.linalg.norm(b.spin, axis=1) for b in bodies)
        little = RESTING * drawn.mass * drawn.length / drawn.time
        return (
            float(np.max(np.abs(linear - expected)) / (np.max(sizes) + little)),
            float(np.max(np.abs(angular - turned)) / (np.max(arms + spins) + little * drawn.length)),
        )


def _body(body: Any, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> Body:
    mass, rows = float(body.mass), len(q)
    if isinstance(body, mbd.RigidBody):
        p, rates, second = (part[:, 3:] for part in (q, v, a))
        rotation = _rotation(p)
        turn, change = 2.0 * _to_body(p, rates), 2.0 * _to_body(p, second)  # G' p' = 0
        inertia = np.asarray(body.inertia)
        own = turn @ inertia
        rate = change @ inertia + np.cross(turn, own)
        spin, spin_rate = (np.einsum("tij,tj->ti", rotation, u) for u in (own, rate))
        return Body(mass, q[:, :3], rotation, v[:, :3], a[:, :3], spin, spin_rate, 0.5 * np.sum(turn * own, axis=1), False)
    if isinstance(body, mbd.PlanarBody):
        c, s, inertia = np.cos(q[:, 2]), np.sin(q[:, 2]), float(body.inertia)
        rotation = np.zeros((rows, 3, 3))
        rotation[:, 0, 0], rotation[:, 0, 1], rotation[:, 1, 0], rotation[:, 1, 1], rotation[:, 2, 2] = c, -s, s, c, 1.0
        about = lambda u: np.pad(u[:, None], ((0, 0), (2, 0)))  # noqa: E731
        spin, spin_rate = about(inertia * v[:, 2]), about(inertia * a[:, 2])
        return Body(
            mass, *(_space(q[:, :2]), rotation, _space(v[:, :2]), _space(a[:, :2])), spin, spin_rate, 0.5 * inertia * v[:, 2] ** 2, False
        )
    none = np.zeros((rows, 3))
    return Body(mass, _space(q), np.tile(np.eye(3), (rows, 1, 1)), _space(v), _space(a), none, none, np.zeros(rows), True)


def _space(u: np.ndarray) -> np.ndarray:
    """Vectors, one a row, planar ones embedded in space."""
    return np.pad(u, ((0, 0), (0, 3 - u.shape[1])))


def _torques(u: np.ndarray) -> np.ndarray:
    """Torques, one a row, planar ones about z."""
    return np.pad(u.reshape(len(u), -1), ((0, 0), (3 - u.reshape(len(u), -1).shape[1], 0)))


def _rotation(p: np.ndarray) -> np.ndarray:
    e0, e1, e2, e3 = (p / np.linalg.norm(p, axis=1)[:, None]).T
    rows = (
        (1 - 2 * (e2**2 + e3**2), 2 * (e1 * e2 - e0 * e3), 2 * (e1 * e3 + e0 * e2)),
        (2 * (e1 * e2 + e0 * e3), 1 - 2 * (e1**2 + e3**2), 2 * (e2 * e3 - e0 * e1)),
        (2 * (e1 * e3 - e0 * e2), 2 * (e2 * e3 + e0 * e1), 1 - 2 * (e1**2 + e2**2)),
    )
    return np.moveaxis(np.array(rows), 2, 0)


def _to_body(p: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """G(p) p', half the angular velocity in body axes."""
    (e0, e1, e2, e3), (r0, r1, r2, r3) = p.T, rates.T
    return np.stack(
        [-e1 * r0 + e0 * r1 + e3 * r2 - e2 * r3, -e2 * r0 - e3 * r1 + e0 * r2 + e1 * r3, -e3 * r0 + e2 * r1 - e1 * r2 + e0 * r3], axis=1
    )


def _gravity(model: mbd.Model) -> np.ndarray:
    given = [np.asarray(f.acceleration) for f in model.forces if isinstance(f, mbd.Gravity)]
    return sum((np.pad(g, (0, 3 - len(g))) for g in given), np.zeros(3))


def balance(drawn: Any, run: mbd.Solution, motion: Motion, seen: dict[str, Any]) -> tuple[float, float]:
    """By how much the forces and torques on any body differ from the rate of its momenta, over the largest force and torque.

    A joint does the opposite to its first body of what it does to its second, at the same point. (Gears have a carrier, which takes part: what
    they do to it and to the first body is not said, and not checked.)
    """
    model = drawn.model
    force = {name: b.mass * (_gravity(model) - b.acceleration) for name, b in motion.bodies.items()}
    torque = {name: -b.spin_rate for name, b in motion.bodies.items()}
    largest = {name: [np.abs(force[name]), np.abs(torque[name])] for name in force}
    unsaid: set[str] = set()

    def act(name: str, f: np.ndarray, m: np.ndarray, at: np.ndarray | None = None) -> None:
        if name == mbd.ground.name:
            return
        m = m if at is None else m + np.cross(at - motion.bodies[name].position, f)
        force[name], torque[name] = force[name] + f, torque[name] + m
        largest[name][0], largest[name][1] = np.maximum(largest[name][0], np.abs(f)), np.maximum(largest[name][1], np.abs(m))

    for element in model.forces:
        if not isinstance(element, mbd.Gravity):
            forces, torques = (np.asarray(part) for part in seen["loads"][element.name])
            for i, name in enumerate(element.bodies):
                act(name, _space(forces[:, i]), _torques(torques[:, i]))
    slices, start = run.system.body_slices(), np.asarray(run.system.q0)
    begin = {b.name: _body(b, *(start[None, slices[b.name][2]],) * 3) for b in model.bodies}
    for joint in model.joints:
        f, m = _space(np.asarray(seen["reactions"][joint.name][0])), _torques(np.asarray(seen["reactions"][joint.name][1]))
        at = _where_it_acts(joint, motion, begin)
        act(joint.bodies[1], f, m, at)
        if len(joint.bodies) == 2:
            act(joint.bodies[0], -f, -m, at)
        else:
            unsaid |= {joint.bodies[0], joint.bodies[2]}
    checked = [name for name in force if name not in unsaid]
    largest_force, largest_torque = (max(np.max(pair[i]) for pair in largest.values()) for i in range(2))
    turned = [name for name in checked if not motion.bodies[name].is_point]
    little = RESTING * drawn.mass * drawn.length / drawn.time**2
    return (
        max((float(np.max(np.abs(force[name]))) for name in checked), default=0.0) / (largest_force + little),
        max((float(np.max(np.abs(torque[name]))) for name in turned), default=0.0) / (largest_torque + little * drawn.length),
    )


def _where_it_acts(joint: Any, motion: Motion, begin: dict[str, Body]) -> np.ndarray:
    """The joint's point on its second body along a run; a joint without one acts on the centre of mass."""
    point, name = getattr(joint, "point2", getattr(joint, "point", None)), joint.bodies[1]
    given = None if point is None else np.pad(np.asarray(point), (0, 3 - len(point)))
    if name == mbd.ground.name:
        return np.zeros((1, 3)) if given is None else given[None]
    second = motion.bodies[name]
    if given is None:
        return second.position
    local = begin[name].rotation[0].T @ (given - begin[name].position[0])
    return second.position + np.einsum("tij,j->ti", second.rotation, local)
