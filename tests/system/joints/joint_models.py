"""One spatial and one planar model with every joint kind side by side, run once, and what numpy makes of the runs."""

from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd

from ..numpy_mechanics import (
    Load,
    all_reactions,
    at,
    inertial_load,
    moving,
    quaternion_about,
    relative,
    resting,
    spring,
    unit,
)

GRAVITY = np.array([1.2, -2.1, -9.4])
GEAR_RATIO, RADIUS, PITCH, ROD = -1.7, 0.15, 0.8, 0.4
TIE = {"stiffness": 60.0, "damping": 1.0}
"""the spring that keeps each body near its place"""
Z = np.array([0.0, 0.0, 1.0])


def swing(t):
    return 0.7 * jnp.sin(4.0 * t)


def slide(t):
    return 0.3 * t - 0.5 * t**2


def spatial_joints(body: str, base: Any, own: Any, part: SimpleNamespace, parts: dict[str, SimpleNamespace]) -> list:
    """The joints that hold the body, by its name."""
    p, u, w = part.point, part.axis, part.other
    match body:
        case "spherical":
            return [mbd.Spherical("spherical", base, own, p)]
        case "revolute":
            return [mbd.Revolute("revolute", base, own, p, u)]
        case "translational":
            return [mbd.Translational("translational", base, own, p, u)]
        case "cylindrical":
            return [mbd.Cylindrical("cylindrical", base, own, p, u)]
        case "universal":
            return [mbd.Universal("universal", base, own, p, u, w)]
        case "fixed":
            return [mbd.Fixed("fixed", base, own)]
        case "planar":
            return [mbd.Planar("planar", base, own, p, u)]
        case "inline":
            return [mbd.Inline("inline", base, own, p, u)]
        case "inplane":
            return [mbd.Inplane("inplane", base, own, p, u)]
        case "parallel":
            return [mbd.Parallel("parallel", base, own, u)]
        case "perpendicular":
            return [mbd.Perpendicular("perpendicular", base, own, u, w)]
        case "distance":
            return [mbd.Distance("distance", base, own, p + ROD * unit(u), p)]
        case "screw":
            return [mbd.Screw("screw", base, own, p, u, PITCH)]
        case "turned":
            return [mbd.Revolute("turned_bearing", base, own, p, u), mbd.Motion("turned", base, own, p, u, swing)]
        case "moved":
            drive = mbd.Motion("moved", base, own, p, u, slide, coordinate="travel")
            return [mbd.Translational("moved_guide", base, own, p, u), drive]
        case "gear_a" | "pinion":
            return [mbd.Revolute(f"{body}_bearing", base, own, p, u)]
        case "gear_b":
            gear = mbd.Gear("gear", "gear_a body", own, parts["gear_a"].axis, u, GEAR_RATIO, carrier=base)
            return [mbd.Revolute("gear_b_bearing", base, own, p, u), gear]
        case "rack":
            teeth = mbd.RackAndPinion("teeth", "pinion body", own, parts["pinion"].axis, u, RADIUS, carrier=base)
            return [mbd.Translational("rack_guide", base, own, p, u), teeth]
    raise AssertionError(body)


SPATIAL_ROWS = {
    **{"spherical": 3, "revolute": 5, "translational": 5, "cylindrical": 4, "universal": 4, "fixed": 6, "planar": 3},
    **{"inline": 2, "inplane": 1, "parallel": 2, "perpendicular": 1, "distance": 1, "screw": 5},
    **{"turned": 1, "turned_bearing": 5, "moved": 1, "moved_guide": 5},
    **{"gear": 1, "gear_a_bearing": 5, "gear_b_bearing": 5, "teeth": 1, "pinion_bearing": 5, "rack_guide": 5},
}
"""Degrees of freedom that each joint takes."""
SPATIAL_BODIES = (
    *("spherical", "revolute", "translational", "cylindrical", "universal", "fixed", "planar", "inline", "inplane"),
    *("parallel", "perpendicular", "distance", "screw", "turned", "moved", "gear_a", "gear_b", "pinion", "rack"),
)


def awkward(rng) -> SimpleNamespace:
    """A body somewhere, turned somehow, with a full inertia matrix, forces off its centre, a joint off its centre."""
    size = rng.uniform(0.3, 0.9, 3)
    mass = rng.uniform(1.0, 2.0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    moments = mass / 12 * (np.sum(size**2) - size**2)
    position = rng.uniform(-1.0, 1.0, 3)
    axis = rng.normal(size=3)
    return SimpleNamespace(
        mass=mass,
        inertia=turn @ np.diag(moments) @ turn.T,
        position=position,
        orientation=unit(rng.normal(size=4)),
        point=position + rng.uniform(-0.3, 0.3, 3),
        axis=axis,
        other=np.cross(axis, rng.normal(size=3)),
        push=rng.uniform(-4.0, 4.0, 3),
        pushed=position + rng.uniform(-0.2, 0.2, 3),
        twist=rng.uniform(0.4, 1.0, 3) * rng.choice([-1, 1], 3),
        tied=position + rng.uniform(-0.2, 0.2, 3),
        anchor=position + rng.uniform(-1.0, 1.0, 3),
    )


MOUNT = SimpleNamespace(
    mass=25.0,
    inertia=np.diag([2.0, 3.0, 2.5]),
    stiffness=np.array([3e3, 2e3, 4e3]),
    damping=30.0,
    turn_stiffness=np.array([150.0, 200.0, 120.0]),
    turn_damping=5.0,
)
"""The base that carries all bodies, itself on a bushing, so that the first body of every joint moves too."""


def run_spatial() -> SimpleNamespace:
    rng = np.random.default_rng(11)
    parts = {name: awkward(rng) for name in SPATIAL_BODIES}
    base = mbd.RigidBody("base", MOUNT.mass, MOUNT.inertia, (0.1, -0.2, 0.3), quaternion_about((1, 2, -1), 0.9))
    twin_bodies, twin_joints, twin_forces = twin()
    bodies, joints, forces = [base, *twin_bodies], [*twin_joints], [mbd.Gravity(GRAVITY), *twin_forces]
    stiffness = np.concatenate([MOUNT.stiffness, MOUNT.turn_stiffness])
    damping = np.repeat([MOUNT.damping, MOUNT.turn_damping], 3)
    forces.append(mbd.Bushing("mount", mbd.ground, base, base.position, stiffness, damping))
    for name, part in parts.items():
        own = mbd.RigidBody(f"{name} body", part.mass, part.inertia, part.position, part.orientation)
        bodies.append(own)
        joints += spatial_joints(name, base, own, part, parts)
        forces += [
            mbd.PointForce(f"push {name}", own, part.pushed, part.push),
            mbd.Torque(f"twist {name}", own, part.twist, axes="body"),
            mbd.SpringDamper(f"tie {name}", mbd.ground, own, part.anchor, part.tied, **TIE),
        ]
    solution = mbd.simulate(mbd.Model(bodies, joints, forces), t1=0.5, integrator=mbd.HHT(tolerance=1e-6))
    run = SimpleNamespace(solution=solution, parts=parts, t=np.asarray(solution.ts), base=moving(solution, "base"))
    run.bodies = {name: moving(solution, f"{name} body") for name in parts}
    run.relative = {name: relative(run.base, run.bodies[name], part.point) for name, part in parts.items()}
    run.reactions = all_reactions(solution, (*SPATIAL_ROWS, *(f"twin {name}" for name in TWIN_JOINTS)))
    run.needed = {}
    for name, part in parts.items():
        own = run.bodies[name]
        external = (
            at(own, own.r, part.mass * GRAVITY, own.A @ part.twist)
            + at(own, own.point(own.local(part.pushed)), part.push)
            + spring(resting(len(run.t)), own, part.anchor, part.tied, **TIE)
        )
        run.needed[name] = Load(*inertial_load(own, part.mass, part.inertia)) - external
    return run


# --- planar, and its spatial twin -------------------------------------------------------------------------------------

PLANAR_ROWS = {
    **{"revolute": 2, "translational": 2, "fixed": 3, "distance": 1},
    **{"turned_bearing": 2, "turned": 1, "moved_guide": 2, "moved": 1},
}
TWIN_JOINTS = tuple(PLANAR_ROWS)
PLANAR_BASE = {"mass": 15.0, "inertia": 2.0, "angle": 0.4}
BRACES = ((1, 0), (0, 1), (-1, -1))
"""directions of the springs that hold the planar base"""


def flat_parts() -> dict[str, SimpleNamespace]:
    rng = np.random.default_rng(5)
    parts = {}
    for name in ("revolute", "translational", "fixed", "distance", "turned", "moved"):
        position = rng.uniform(-1.0, 1.0, 2)
        parts[name] = SimpleNamespace(
            mass=rng.uniform(1.0, 2.0),
            inertia=rng.uniform(0.05, 0.1),
            position=position,
            angle=rng.uniform(-3.0, 3.0),
            point=position + rng.uniform(-0.3, 0.3, 2),
            axis=rng.normal(size=2),
            twist=rng.uniform(0.3, 0.6) * rng.choice([-1, 1]),
            tied=position + rng.uniform(-0.2, 0.2, 2),
            anchor=position + rng.uniform(-1.0, 1.0, 2),
        )
    return parts


def rod_start(part: SimpleNamespace) -> np.ndarray:
    """The end of the planar rod on the base."""
    return part.point + np.array([0.3, 0.2])


def run_planar() -> SimpleNamespace:
    parts = flat_parts()
    bodies = [mbd.PlanarBody("base", **PLANAR_BASE)]
    forces: list = [mbd.Gravity(GRAVITY[:2])]
    for i, (x, y) in enumerate(BRACES):
        forces.append(mbd.SpringDamper(f"brace {i}", mbd.ground, "base", (3 * x, 3 * y), (x, y), 900.0, 10.0))
    for name, part in parts.items():
        own = mbd.PlanarBody(f"{name} body", part.mass, part.inertia, part.position, part.angle)
        bodies.append(own)
        forces.append(mbd.Torque(f"twist {name}", own, part.twist))
        forces.append(mbd.SpringDamper(f"tie {name}", mbd.ground, own, part.anchor, part.tied, **TIE))
    p, u = {n: part.point for n, part in parts.items()}, {n: part.axis for n, part in parts.items()}
    joints = [
        mbd.Revolute("revolute", "base", "revolute body", p["revolute"]),
        mbd.Translational("translational", "base", "translational body", p["translational"], u["translational"]),
        mbd.Fixed("fixed", "base", "fixed body"),
        mbd.Distance("distance", "base", "distance body", rod_start(parts["distance"]), p["distance"]),
        mbd.Revolute("turned_bearing", "base", "turned body", p["turned"]),
        mbd.Motion("turned", "base", "turned body", p["turned"], function=swing),
        mbd.Translational("moved_guide", "base", "moved body", p["moved"], u["moved"]),
        mbd.Motion("moved", "base", "moved body", p["moved"], u["moved"], slide, coordinate="travel"),
    ]
    soft = hard_and_soft()
    model = mbd.Model([*bodies, *soft[0]], [*joints, *soft[1]], forces)
    solution = mbd.simulate(model, t1=0.5, integrator=mbd.HHT(tolerance=1e-7))
    run = SimpleNamespace(solution=solution, parts=parts, t=np.asarray(solution.ts), base=moving(solution, "base"))
    run.bodies = {name: moving(solution, f"{name} body") for name in parts}
    lifted = {name: np.append(part.point, 0.0) for name, part in parts.items()}
    run.relative = {name: relative(run.base, run.bodies[name], lifted[name]) for name in parts}
    run.reactions = all_reactions(solution, (*PLANAR_ROWS, "hinge", "guide", "soft hinge", "soft guide"))
    run.needed = {}
    for name, part in parts.items():
        own = run.bodies[name]
        tie = spring(resting(len(run.t)), own, np.append(part.anchor, 0.0), np.append(part.tied, 0.0), **TIE)
        external = at(own, own.r, part.mass * GRAVITY * (1, 1, 0), part.twist * Z) + tie
        run.needed[name] = Load(*inertial_load(own, part.mass, part.inertia * np.diag(Z))) - external
    return run


def hard_and_soft() -> tuple[list, list]:
    """A hinge and a slider on the ground, each once with multipliers and once with penalties."""
    bodies, joints = [], []
    penalty = mbd.Penalty(1e7, 1e4, rotational_stiffness=2e6, rotational_damping=2e3)
    for prefix, held in (("", None), ("soft ", penalty)):
        hinged = mbd.PlanarBody(prefix + "hinged", 1.5, 0.04, (0.4, 0.1), 0.7)
        slider = mbd.PlanarBody(prefix + "slider", 1.0, 0.03, (-0.5, 0.2), -0.3)
        bodies += [hinged, slider]
        joints += [
            mbd.Revolute(prefix + "hinge", mbd.ground, hinged, (0.1, 0.0), penalty=held),
            mbd.Translational(prefix + "guide", mbd.ground, slider, (-0.4, 0.1), (1.0, -0.6), penalty=held),
        ]
    return bodies, joints


def twin() -> tuple[list, list, list]:
    """The planar model once more, from rigid bodies that Planar joints keep in the x-y plane."""
    parts = flat_parts()
    lift = lambda u: np.append(u, 0.0)  # noqa: E731

    def body(name, mass, inertia, angle, position=(0.0, 0.0)):
        moments = inertia * np.array([0.7, 0.6, 1.0])
        return mbd.RigidBody(f"twin {name}", mass, moments, lift(position), quaternion_about(Z, angle))

    bodies, forces = [body("base", **PLANAR_BASE)], []
    for i, (x, y) in enumerate(BRACES):
        ends = (3 * x, 3 * y, 0), (x, y, 0)
        forces.append(mbd.SpringDamper(f"twin brace {i}", mbd.ground, "twin base", *ends, 900.0, 10.0))
    for name, part in parts.items():
        own = f"twin {name} body"
        bodies.append(body(f"{name} body", part.mass, part.inertia, part.angle, part.position))
        forces.append(mbd.Torque(f"twin twist {name}", own, part.twist * Z, axes="body"))
        forces.append(mbd.SpringDamper(f"twin tie {name}", mbd.ground, own, lift(part.anchor), lift(part.tied), **TIE))
    p = {name: lift(part.point) for name, part in parts.items()}
    u = {name: lift(part.axis) for name, part in parts.items()}

    def pair(name):
        return f"twin {name}", "twin base", f"twin {name.removesuffix('_bearing').removesuffix('_guide')} body"

    joints = [
        mbd.Planar("twin floor", mbd.ground, "twin base", (0, 0, 0), Z),
        mbd.Planar("twin distance floor", mbd.ground, "twin distance body", p["distance"], Z),
        mbd.Revolute(*pair("revolute"), p["revolute"], Z),
        mbd.Translational(*pair("translational"), p["translational"], u["translational"]),
        mbd.Fixed(*pair("fixed")),
        mbd.Distance(*pair("distance"), lift(rod_start(parts["distance"])), p["distance"]),
        mbd.Revolute(*pair("turned_bearing"), p["turned"], Z),
        mbd.Motion(*pair("turned"), p["turned"], Z, swing),
        mbd.Translational(*pair("moved_guide"), p["moved"], u["moved"]),
        mbd.Motion(*pair("moved"), p["moved"], u["moved"], slide, coordinate="travel"),
    ]
    return bodies, joints, forces
