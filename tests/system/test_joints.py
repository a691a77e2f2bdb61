"""Every joint kind side by side: what it leaves, what it stops, what it carries, and that its rows are independent."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from numpy_mechanics import (
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

import jaxmbd as mbd
from jaxmbd.system.equations import constraint_jacobian

GRAVITY = np.array([1.2, -2.1, -9.4])
VIOLATION = 1e-9
"""What a run promises at every accepted step; the corrector stops at 1e-10 of the length scale."""
NOTHING = 1e-8
"""A motion that a joint stops: violations of 1e-9 over levers of a metre, several rows added up."""
SOMETHING = 2e-2
"""m or rad: a motion that is plainly there."""
BALANCE = 3e-4
"""N, N m, beside loads of 10: Newton-Euler holds at every saved time as far as the corrector iterates."""


def swing(t):
    return 0.7 * jnp.sin(4.0 * t)


def slide(t):
    return 0.3 * t - 0.5 * t**2


# --- the spatial model -----------------------------------------------------------------------------------------------------------------------

GEAR_RATIO, RADIUS, PITCH = -1.7, 0.15, 0.8
AXIS = {"screw": (0.2, 0.9, 0.4), "gear_a": (0.1, 1.0, 0.3), "gear_b": (0.8, -0.5, 0.6)}
AXIS |= {"universal": (1.0, 0.2, -0.4), "perpendicular": (0.3, 0.8, 0.1)}

SPATIAL = {
    "spherical": lambda n, a, b, p, u, w: [mbd.Spherical(n, a, b, p)],
    "revolute": lambda n, a, b, p, u, w: [mbd.Revolute(n, a, b, p, u)],
    "translational": lambda n, a, b, p, u, w: [mbd.Translational(n, a, b, p, u)],
    "cylindrical": lambda n, a, b, p, u, w: [mbd.Cylindrical(n, a, b, p, u)],
    "universal": lambda n, a, b, p, u, w: [mbd.Universal(n, a, b, p, u, w)],
    "fixed": lambda n, a, b, p, u, w: [mbd.Fixed(n, a, b)],
    "planar": lambda n, a, b, p, u, w: [mbd.Planar(n, a, b, p, u)],
    "inline": lambda n, a, b, p, u, w: [mbd.Inline(n, a, b, p, u)],
    "inplane": lambda n, a, b, p, u, w: [mbd.Inplane(n, a, b, p, u)],
    "parallel": lambda n, a, b, p, u, w: [mbd.Parallel(n, a, b, u)],
    "perpendicular": lambda n, a, b, p, u, w: [mbd.Perpendicular(n, a, b, u, w)],
    "distance": lambda n, a, b, p, u, w: [mbd.Distance(n, a, b, p + 0.4 * unit(u), p)],
    "screw": lambda n, a, b, p, u, w: [mbd.Screw(n, a, b, p, u, PITCH)],
    "turned": lambda n, a, b, p, u, w: [
        mbd.Revolute("turned_bearing", a, b, p, u),
        mbd.Motion(n, a, b, p, u, swing),
    ],
    "moved": lambda n, a, b, p, u, w: [
        mbd.Translational("moved_guide", a, b, p, u),
        mbd.Motion(n, a, b, p, u, slide, coordinate="travel"),
    ],
    "gear_a": lambda n, a, b, p, u, w: [mbd.Revolute("gear_a_bearing", a, b, p, u)],
    "gear_b": lambda n, a, b, p, u, w: [
        mbd.Revolute("gear_b_bearing", a, b, p, u),
        mbd.Gear("gear", "gear_a body", b, AXIS["gear_a"], u, GEAR_RATIO, carrier=a),
    ],
    "pinion": lambda n, a, b, p, u, w: [mbd.Revolute("pinion_bearing", a, b, p, u)],
    "rack": lambda n, a, b, p, u, w: [
        mbd.Translational("rack_guide", a, b, p, u),
        mbd.RackAndPinion("teeth", "pinion body", b, AXIS["pinion"], u, RADIUS, carrier=a),
    ],
}
"""The body's name, and the joints that hold it: built from (name, base, body, point, axis, an axis perpendicular to it)."""

ROWS = {
    **{"spherical": 3, "revolute": 5, "translational": 5, "cylindrical": 4, "universal": 4, "fixed": 6, "planar": 3},
    **{
        "inline": 2,
        "inplane": 1,
        "parallel": 2,
        "perpendicular": 1,
        "distance": 1,
        "screw": 5,
        "turned": 1,
        "moved": 1,
    },
    **{"gear": 1, "teeth": 1, "turned_bearing": 5, "moved_guide": 5, "gear_a_bearing": 5, "gear_b_bearing": 5},
    **{"pinion_bearing": 5, "rack_guide": 5},
}
"""Degrees of freedom that each joint takes."""


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


@pytest.fixture(scope="module")
def spatial() -> SimpleNamespace:
    rng = np.random.default_rng(11)
    parts = {name: awkward(rng) for name in SPATIAL}
    for name, axis in AXIS.items():
        parts[name].axis = np.array(axis)
        parts[name].other = np.cross(axis, rng.normal(size=3))
    AXIS["pinion"] = parts["pinion"].axis
    base = mbd.RigidBody(
        "base", 25.0, (2.0, 3.0, 2.5), (0.1, -0.2, 0.3), quaternion_about((1, 2, -1), 0.9), angular_velocity=(0, 0, 0)
    )
    bodies, joints = [base], []
    forces: list = [
        mbd.Gravity(GRAVITY),
        mbd.Bushing("mount", mbd.ground, base, base.position, (3e3, 2e3, 4e3, 150, 200, 120), (30, 30, 30, 5, 5, 5)),
    ]
    for name, part in parts.items():
        body = mbd.RigidBody(f"{name} body", part.mass, part.inertia, part.position, part.orientation)
        bodies.append(body)
        joints += SPATIAL[name](name, base, body, part.point, part.axis, part.other)
        forces += [
            mbd.PointForce(f"push {name}", body, part.pushed, part.push),
            mbd.Torque(f"twist {name}", body, part.twist, axes="body"),
            mbd.SpringDamper(f"tie {name}", mbd.ground, body, part.anchor, part.tied, 60.0, 1.0),
        ]
    solution = mbd.simulate(mbd.Model(bodies, joints, forces), t1=0.5, integrator=mbd.HHT(tolerance=1e-6))
    ground, frame = resting(len(solution.ts)), moving(solution, "base")
    run = SimpleNamespace(solution=solution, base=frame, parts=parts, t=np.asarray(solution.ts))
    run.bodies = {name: moving(solution, f"{name} body") for name in parts}
    run.relative = {name: relative(frame, run.bodies[name], part.point) for name, part in parts.items()}
    run.reactions = all_reactions(solution, ROWS)
    run.external, run.needed = {}, {}
    for name, part in parts.items():
        body = run.bodies[name]
        run.external[name] = (
            at(body, body.r, part.mass * GRAVITY)
            + at(body, body.point(body.local(part.pushed)), part.push)
            + Load(0 * body.r, body.A @ part.twist)
            + spring(ground, body, part.anchor, part.tied, 60.0, 1.0)
        )
        run.needed[name] = Load(*inertial_load(body, part.mass, part.inertia)) - run.external[name]
    return run


def carried(run, name: str, joint: str | None = None, point: np.ndarray | None = None) -> Load:
    """A joint's reaction as a load on its second body about the centre of mass."""
    body = run.bodies[name]
    force, torque = run.reactions[joint or name]
    point = body.point(body.local(run.parts[name].point)) if point is None else point
    return at(body, point, force, torque)


def along(u: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Components of rows along a fixed direction or along rows of directions."""
    return np.sum(rows * unit(u), axis=-1)


def triad(u: np.ndarray) -> np.ndarray:
    t = unit(u)
    n = unit(np.cross(t, [0.4, 0.1, -0.7]))
    return np.stack([t, n, np.cross(t, n)])


def stopped(*values) -> None:
    for value in values:
        assert np.max(np.abs(value)) < NOTHING


def left(*values) -> None:
    for value in values:
        assert np.max(np.abs(value)) > SOMETHING


def turns_every_way(motion) -> None:
    """Each of three perpendicular directions leaves its place."""
    left(*(np.linalg.norm(motion.turn @ e - e, axis=1) for e in np.eye(3)))


def test_every_joint_kind_holds_at_every_step(spatial):
    assert np.max(np.asarray(spatial.solution.constraint_violation())) < VIOLATION
    assert len(spatial.t) > 100


def test_each_joint_takes_its_degrees_of_freedom_and_no_row_repeats_another(spatial):
    system = spatial.solution.system
    rows = {name: where.stop - where.start for name, (_, _, where) in system.row_slices().items()}
    assert rows == ROWS
    last = spatial.solution.final
    jacobian = np.asarray(constraint_jacobian(system.recall(last.memory), last.q, last.t))
    rank = np.linalg.matrix_rank(jacobian, tol=1e-9)
    assert rank == len(jacobian) == sum(ROWS.values()) + len(spatial.parts) + 1
    assert jacobian.shape[1] - rank == 6 * (len(spatial.parts) + 1) - sum(ROWS.values())  # Gruebler
    assert not system.redundant


def test_a_spherical_joint_shares_a_point_and_leaves_all_rotations(spatial):
    motion = spatial.relative["spherical"]
    stopped(motion.offset)
    turns_every_way(motion)


def test_a_revolute_joint_leaves_the_turn_about_its_axis_only(spatial):
    motion, u = spatial.relative["revolute"], unit(spatial.parts["revolute"].axis)
    stopped(motion.offset, motion.turn @ u - u)
    left(motion.angle(u))


def test_a_translational_joint_leaves_the_displacement_along_its_axis_only(spatial):
    motion, (t, n, k) = spatial.relative["translational"], triad(spatial.parts["translational"].axis)
    stopped(along(n, motion.offset), along(k, motion.offset), motion.turn - np.eye(3))
    left(along(t, motion.offset))


def test_a_cylindrical_joint_leaves_turn_and_displacement_along_its_axis(spatial):
    motion, (t, n, k) = spatial.relative["cylindrical"], triad(spatial.parts["cylindrical"].axis)
    stopped(along(n, motion.offset), along(k, motion.offset), motion.turn @ t - t)
    left(along(t, motion.offset), motion.angle(t))


def test_a_universal_joint_keeps_its_axes_perpendicular_and_leaves_two_rotations(spatial):
    motion, part = spatial.relative["universal"], spatial.parts["universal"]
    u, w = unit(part.axis), unit(part.other)
    stopped(motion.offset, (motion.turn @ w) @ u)
    left(np.linalg.norm(motion.turn @ w - w, axis=1), np.linalg.norm(motion.turn @ u - u, axis=1))


def test_a_fixed_joint_leaves_nothing(spatial):
    motion = spatial.relative["fixed"]
    stopped(motion.offset, motion.turn - np.eye(3))


def test_a_planar_joint_leaves_two_displacements_and_the_turn_about_the_normal(spatial):
    motion, (t, n, k) = spatial.relative["planar"], triad(spatial.parts["planar"].axis)
    stopped(along(t, motion.offset), motion.turn @ t - t)
    left(along(n, motion.offset), along(k, motion.offset), motion.angle(t))


def test_an_inline_joint_keeps_a_point_on_a_line_and_leaves_all_rotations(spatial):
    motion, (t, n, k) = spatial.relative["inline"], triad(spatial.parts["inline"].axis)
    stopped(along(n, motion.offset), along(k, motion.offset))
    left(along(t, motion.offset))
    turns_every_way(motion)


def test_an_inplane_joint_keeps_a_point_in_a_plane_and_leaves_all_rotations(spatial):
    motion, (t, n, k) = spatial.relative["inplane"], triad(spatial.parts["inplane"].axis)
    stopped(along(t, motion.offset))
    left(along(n, motion.offset), along(k, motion.offset))
    turns_every_way(motion)


def test_a_parallel_joint_keeps_a_direction_and_leaves_displacements_and_one_turn(spatial):
    motion, u = spatial.relative["parallel"], unit(spatial.parts["parallel"].axis)
    stopped(motion.turn @ u - u)
    left(motion.angle(u), *motion.offset.T)


def test_a_perpendicular_joint_keeps_a_right_angle_and_leaves_the_rest(spatial):
    motion, part = spatial.relative["perpendicular"], spatial.parts["perpendicular"]
    stopped((motion.turn @ unit(part.other)) @ unit(part.axis))
    left(*motion.offset.T)
    turns_every_way(motion)


def test_a_distance_joint_keeps_a_length_and_leaves_the_rest(spatial):
    part, base, body = spatial.parts["distance"], spatial.base, spatial.bodies["distance"]
    rod = body.point(body.local(part.point)) - base.point(base.local(part.point + 0.4 * unit(part.axis)))
    stopped(np.linalg.norm(rod, axis=1) - 0.4)
    left(*(spatial.relative["distance"].offset.T))
    turns_every_way(spatial.relative["distance"])


def test_a_screw_travels_by_its_pitch_a_turn(spatial):
    motion, (t, n, k) = spatial.relative["screw"], triad(spatial.parts["screw"].axis)
    angle, travel = motion.angle(t), along(t, motion.offset)
    stopped(along(n, motion.offset), along(k, motion.offset), motion.turn @ t - t, travel - PITCH * angle / (2 * np.pi))
    left(angle, travel)


def test_a_motion_prescribes_an_angle(spatial):
    motion, u = spatial.relative["turned"], spatial.parts["turned"].axis
    stopped(motion.angle(u) - np.asarray(swing(spatial.t)), motion.offset)


def test_a_motion_prescribes_a_travel(spatial):
    motion, u = spatial.relative["moved"], spatial.parts["moved"].axis
    stopped(along(u, motion.offset) - np.asarray(slide(spatial.t)), motion.turn - np.eye(3))


def test_gears_turn_in_their_ratio_as_seen_from_the_carrier(spatial):
    a, b = (spatial.relative[name].angle(spatial.parts[name].axis) for name in ("gear_a", "gear_b"))
    stopped(b - GEAR_RATIO * a)
    left(a)


def test_a_rack_travels_by_the_radius_times_the_pinions_angle(spatial):
    angle = spatial.relative["pinion"].angle(spatial.parts["pinion"].axis)
    travel = along(spatial.parts["rack"].axis, spatial.relative["rack"].offset)
    stopped(travel - RADIUS * angle)
    left(angle, travel)


# --- reactions -------------------------------------------------------------------------------------------------------------------------------

ALONE = [name for name in SPATIAL if name in ROWS and name not in ("turned", "moved")]
AT_CENTRE = ("fixed", "parallel", "perpendicular", "gear", "teeth")
"""Joints without a point of their own: their reaction counts about the second body's centre of mass."""


@pytest.mark.parametrize("name", ALONE)
def test_a_reaction_is_what_newton_and_euler_need(spatial, name):
    point = spatial.bodies[name].r if name in AT_CENTRE else None
    got, needed = carried(spatial, name, point=point), spatial.needed[name]
    np.testing.assert_allclose(got.force, needed.force, rtol=0, atol=BALANCE)
    np.testing.assert_allclose(got.torque, needed.torque, rtol=0, atol=BALANCE)
    left(np.hypot(needed.force, needed.torque))


def test_a_driven_body_is_carried_by_bearing_and_drive_together(spatial):
    for name, bearing in (("turned", "turned_bearing"), ("moved", "moved_guide")):
        got, needed = carried(spatial, name) + carried(spatial, name, bearing), spatial.needed[name]
        np.testing.assert_allclose(got.force, needed.force, rtol=0, atol=BALANCE)
        np.testing.assert_allclose(got.torque, needed.torque, rtol=0, atol=BALANCE)


def direction(run, axis) -> np.ndarray:
    """A direction that is fixed in the base, row by row."""
    return (run.base.A @ run.base.A[0].T) @ unit(axis)


def test_a_joint_does_no_work_on_the_motions_it_leaves(spatial):
    """Force has no part along a free displacement, torque none about a free rotation."""

    def nothing(joint, forces=(), torques=()):
        force, torque = spatial.reactions[joint]
        for u in forces:
            assert np.max(np.abs(along(u, force))) < BALANCE, joint
        for u in torques:
            assert np.max(np.abs(along(u, torque))) < BALANCE, joint

    every = np.eye(3)
    axes = {name: [direction(spatial, e) for e in triad(part.axis)] for name, part in spatial.parts.items()}
    second = {n: spatial.bodies[n].A @ spatial.bodies[n].A[0].T @ unit(spatial.parts[n].other) for n in spatial.parts}
    nothing("spherical", torques=every)
    nothing("revolute", torques=axes["revolute"][:1])
    nothing("translational", forces=axes["translational"][:1])
    nothing("cylindrical", forces=axes["cylindrical"][:1], torques=axes["cylindrical"][:1])
    nothing("universal", torques=[axes["universal"][0], second["universal"]])
    nothing("planar", forces=axes["planar"][1:], torques=axes["planar"][:1])
    nothing("inline", forces=axes["inline"][:1], torques=every)
    nothing("inplane", forces=axes["inplane"][1:], torques=every)
    nothing("parallel", forces=every, torques=axes["parallel"][:1])
    nothing("perpendicular", forces=every, torques=[axes["perpendicular"][0], second["perpendicular"]])
    nothing("distance", torques=every)
    nothing("turned", forces=every, torques=axes["turned"][1:])
    nothing("turned_bearing", torques=axes["turned"][:1])
    nothing("moved", forces=axes["moved"][1:], torques=every)
    nothing("moved_guide", forces=axes["moved"][:1])
    nothing("gear", forces=every, torques=axes["gear_b"][1:])
    nothing("gear_b_bearing", torques=axes["gear_b"][:1])
    nothing("teeth", forces=axes["rack"][1:], torques=every)
    nothing("rack_guide", forces=axes["rack"][:1])


def test_a_rod_pulls_along_itself(spatial):
    part, base, body = spatial.parts["distance"], spatial.base, spatial.bodies["distance"]
    rod = unit(body.point(body.local(part.point)) - base.point(base.local(part.point + 0.4 * unit(part.axis))))
    force, _ = spatial.reactions["distance"]
    np.testing.assert_allclose(np.cross(rod, force), 0, atol=BALANCE)


def test_a_screw_balances_thrust_and_torque(spatial):
    force, torque = spatial.reactions["screw"]
    u = direction(spatial, spatial.parts["screw"].axis)
    np.testing.assert_allclose(along(u, force) * PITCH / (2 * np.pi) + along(u, torque), 0, atol=BALANCE)
    left(along(u, force))


def test_gears_exchange_torque_in_the_inverse_ratio(spatial):
    """Power in is power out: the torque on the first wheel is -ratio times that on the second."""
    u = direction(spatial, spatial.parts["gear_a"].axis)
    on_first = spatial.needed["gear_a"] - carried(spatial, "gear_a", "gear_a_bearing")
    on_second = along(direction(spatial, spatial.parts["gear_b"].axis), spatial.reactions["gear"][1])
    np.testing.assert_allclose(along(u, on_first.torque), -GEAR_RATIO * on_second, atol=BALANCE)
    left(on_second)


def test_a_rack_pushes_back_on_the_pinion(spatial):
    u = direction(spatial, spatial.parts["pinion"].axis)
    on_pinion = spatial.needed["pinion"] - carried(spatial, "pinion", "pinion_bearing")
    push = along(direction(spatial, spatial.parts["rack"].axis), spatial.reactions["teeth"][0])
    np.testing.assert_allclose(along(u, on_pinion.torque), -RADIUS * push, atol=BALANCE)
    left(push)


def test_reactions_come_in_opposite_pairs(spatial):
    """What the joints do to the base is what they do to the rest, reversed: only external loads move the whole."""
    base = spatial.base
    force, torque = inertial_load(base, 25.0, np.diag([2.0, 3.0, 2.5]))
    mount = np.array([3e3, 2e3, 4e3]), np.array([30.0, 30, 30])
    force = force - 25.0 * GRAVITY + mount[0] * (base.r - base.r[0]) + mount[1] * base.velocity
    for name in spatial.parts:
        force = force + spatial.needed[name].force
    np.testing.assert_allclose(force, 0, atol=BALANCE * len(spatial.parts))


def test_solution_names_a_reaction(spatial):
    force, torque, unique = spatial.solution.reaction("universal")
    np.testing.assert_allclose(force, spatial.reactions["universal"][0], atol=1e-9)
    np.testing.assert_allclose(torque, spatial.reactions["universal"][1], atol=1e-9)
    assert unique
    with pytest.raises(ValueError, match=r"unknown joint 'univrsal'. Did you mean 'universal'\?"):
        spatial.solution.reaction("univrsal")


# --- planar models ---------------------------------------------------------------------------------------------------------------------------

PLANAR_ROWS = {
    **{"revolute": 2, "translational": 2, "fixed": 3, "distance": 1, "turned_bearing": 2, "turned": 1},
    **{"moved_guide": 2, "moved": 1, "spherical": 2, "inline": 1, "inplane": 1, "perpendicular": 1},
    **{"wheel_a_bearing": 2, "wheel_b_bearing": 2, "gear": 1, "rack_guide": 2, "teeth": 1},
}
TWINNED = ("revolute", "translational", "fixed", "distance", "turned", "moved")
"""The bodies that the spatial twin has too; they hang on a base of their own."""


def flat_parts() -> dict[str, SimpleNamespace]:
    rng = np.random.default_rng(5)
    names = (*TWINNED, "spherical", "inline", "inplane", "perpendicular", "wheel_a", "wheel_b", "rack")
    parts = {}
    for name in names:
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


def planar_joints(parts, base, other) -> list:
    """The joints of the planar model; `other` is the base of the kinds that have no twin."""
    p = parts
    across = np.array([-p["perpendicular"].axis[1], p["perpendicular"].axis[0]])
    return [
        mbd.Revolute("revolute", base, "revolute body", p["revolute"].point),
        mbd.Translational(
            "translational", base, "translational body", p["translational"].point, p["translational"].axis
        ),
        mbd.Fixed("fixed", base, "fixed body"),
        mbd.Distance("distance", base, "distance body", p["distance"].point + (0.3, 0.2), p["distance"].point),
        mbd.Revolute("turned_bearing", base, "turned body", p["turned"].point),
        mbd.Motion("turned", base, "turned body", function=swing),
        mbd.Translational("moved_guide", base, "moved body", p["moved"].point, p["moved"].axis),
        mbd.Motion("moved", base, "moved body", p["moved"].point, p["moved"].axis, slide, coordinate="travel"),
        mbd.Spherical("spherical", other, "spherical body", p["spherical"].point),
        mbd.Inline("inline", other, "inline body", p["inline"].point, p["inline"].axis),
        mbd.Inplane("inplane", other, "inplane body", p["inplane"].point, p["inplane"].axis),
        mbd.Perpendicular("perpendicular", other, "perpendicular body", p["perpendicular"].axis, across),
        mbd.Revolute("wheel_a_bearing", other, "wheel_a body", p["wheel_a"].point),
        mbd.Revolute("wheel_b_bearing", other, "wheel_b body", p["wheel_b"].point),
        mbd.Gear("gear", "wheel_a body", "wheel_b body", ratio=GEAR_RATIO, carrier=other),
        mbd.Translational("rack_guide", other, "rack body", p["rack"].point, p["rack"].axis),
        mbd.RackAndPinion("teeth", "wheel_a body", "rack body", direction=p["rack"].axis, radius=RADIUS, carrier=other),
    ]


BASE = {"mass": 15.0, "inertia": 2.0}
TIMES = np.linspace(0.0, 0.5, 26)


@pytest.fixture(scope="module")
def planar() -> SimpleNamespace:
    parts = flat_parts()
    bodies = [
        mbd.PlanarBody("base", **BASE, angle=0.4),
        mbd.PlanarBody("other", **BASE, position=(0.3, 0.1), angle=-1.0),
    ]
    forces: list = [mbd.Gravity(GRAVITY[:2])]
    for base in ("base", "other"):
        for i, (x, y) in enumerate(((1, 0), (0, 1), (-1, -1))):
            forces.append(mbd.SpringDamper(f"{base} mount {i}", mbd.ground, base, (3 * x, 3 * y), (x, y), 900.0, 10.0))
    for name, part in parts.items():
        body = mbd.PlanarBody(f"{name} body", part.mass, part.inertia, part.position, part.angle)
        bodies.append(body)
        forces.append(mbd.Torque(f"twist {name}", body, part.twist))
        forces.append(mbd.SpringDamper(f"tie {name}", mbd.ground, body, part.anchor, part.tied, 60.0, 1.0))
    model = mbd.Model(bodies, planar_joints(parts, "base", "other"), forces)
    solution = mbd.simulate(model, t1=0.5, integrator=mbd.HHT(tolerance=1e-7))
    run = SimpleNamespace(solution=solution, parts=parts, t=np.asarray(solution.ts))
    run.bodies = {name: moving(solution, f"{name} body") for name in parts}
    run.bases = {name: moving(solution, "base" if name in TWINNED else "other") for name in parts}
    run.relative = {n: relative(run.bases[n], run.bodies[n], np.append(p.point, 0.0)) for n, p in parts.items()}
    run.reactions = all_reactions(solution, PLANAR_ROWS)
    ground, run.needed = resting(len(run.t)), {}
    for name, part in parts.items():
        body = run.bodies[name]
        external = at(body, body.r, part.mass * GRAVITY * (1, 1, 0), np.array([0, 0, part.twist])) + spring(
            ground, body, np.append(part.anchor, 0.0), np.append(part.tied, 0.0), 60.0, 1.0
        )
        run.needed[name] = Load(*inertial_load(body, part.mass, np.diag([0, 0, part.inertia]))) - external
    return run


def test_planar_joints_hold_and_take_their_degrees_of_freedom(planar):
    solution = planar.solution
    assert np.max(np.asarray(solution.constraint_violation())) < VIOLATION
    rows = {name: where.stop - where.start for name, (_, _, where) in solution.system.row_slices().items()}
    assert rows == PLANAR_ROWS
    last = solution.final
    jacobian = np.asarray(constraint_jacobian(solution.system.recall(last.memory), last.q, last.t))
    assert np.linalg.matrix_rank(jacobian, tol=1e-9) == len(jacobian) == sum(PLANAR_ROWS.values())
    assert jacobian.shape[1] == 3 * (len(planar.parts) + 2)


def test_planar_joints_stop_and_leave_what_their_names_say(planar):
    z = np.array([0.0, 0.0, 1.0])
    motion, angle = planar.relative, {name: planar.relative[name].angle(z) for name in planar.parts}
    across, ahead = {}, {}
    for name, part in planar.parts.items():
        u = np.append(unit(part.axis), 0.0)
        ahead[name], across[name] = motion[name].offset @ u, motion[name].offset @ np.cross(z, u)
    stopped(*(motion[name].offset for name in ("revolute", "spherical", "turned", "fixed", "wheel_a", "wheel_b")))
    stopped(*(angle[name] for name in ("translational", "moved", "fixed", "perpendicular", "rack")))
    stopped(across["translational"], across["moved"], across["rack"], across["inline"], ahead["inplane"])
    stopped(angle["turned"] - swing(planar.t), ahead["moved"] - slide(planar.t))
    stopped(angle["wheel_b"] - GEAR_RATIO * angle["wheel_a"], ahead["rack"] - RADIUS * angle["wheel_a"])
    left(*(angle[name] for name in ("revolute", "spherical", "distance", "inline", "inplane", "wheel_a")))
    left(ahead["translational"], ahead["inline"], across["inplane"], ahead["rack"])
    left(ahead["perpendicular"], across["perpendicular"], *motion["distance"].offset.T[:2])
    point, base, body = planar.parts["distance"].point, planar.bases["distance"], planar.bodies["distance"]
    rod = body.point(body.local((*point, 0))) - base.point(base.local((*(point + (0.3, 0.2)), 0)))
    stopped(np.linalg.norm(rod, axis=1) - np.hypot(0.3, 0.2))


def test_planar_reactions_are_what_newton_and_euler_need(planar):
    held_by = {name: [name] for name in planar.parts if name in PLANAR_ROWS}
    held_by |= {"turned": ["turned", "turned_bearing"], "moved": ["moved", "moved_guide"]}
    held_by |= {"wheel_b": ["wheel_b_bearing", "gear"], "rack": ["rack_guide", "teeth"]}
    for name, joints in held_by.items():
        body, got = planar.bodies[name], Load(0.0, 0.0)
        for joint in joints:
            own = joint in (*AT_CENTRE, "turned")  # a motion without a point acts at the centre
            point = body.r if own else body.point(body.local(np.append(planar.parts[name].point, 0.0)))
            got = got + at(body, point, *planar.reactions[joint])
        np.testing.assert_allclose(got.force, planar.needed[name].force, atol=BALANCE, err_msg=name)
        np.testing.assert_allclose(got.torque[:, 2], planar.needed[name].torque[:, 2], atol=BALANCE, err_msg=name)


@pytest.fixture(scope="module")
def twin() -> mbd.Solution:
    """The first half of the planar model, from rigid bodies that a Planar joint keeps in the plane."""
    parts = {name: part for name, part in flat_parts().items() if name in TWINNED}
    lift = lambda u: np.append(u, 0.0)  # noqa: E731
    z = (0.0, 0.0, 1.0)

    def body(name, mass, inertia, position, angle):
        return mbd.RigidBody(
            name, mass, inertia * np.array([0.7, 0.6, 1.0]), lift(position), quaternion_about(z, angle)
        )

    bodies = [body("base", **BASE, position=(0.0, 0.0), angle=0.4)]
    forces: list = [mbd.Gravity(lift(GRAVITY[:2]))]
    for i, (x, y) in enumerate(((1, 0), (0, 1), (-1, -1))):
        forces.append(mbd.SpringDamper(f"mount {i}", mbd.ground, "base", (3 * x, 3 * y, 0), (x, y, 0), 900.0, 10.0))
    for name, part in parts.items():
        own = f"{name} body"
        bodies.append(body(own, part.mass, part.inertia, part.position, part.angle))
        forces.append(mbd.Torque(f"twist {name}", own, (0, 0, part.twist)))
        forces.append(mbd.SpringDamper(f"tie {name}", mbd.ground, own, lift(part.anchor), lift(part.tied), 60.0, 1.0))
    p = {name: lift(part.point) for name, part in parts.items()}
    u = {name: lift(part.axis) for name, part in parts.items()}
    joints = [
        mbd.Planar("floor", mbd.ground, "base", (0, 0, 0), z),
        mbd.Planar("distance floor", mbd.ground, "distance body", p["distance"], z),
        mbd.Revolute("revolute", "base", "revolute body", p["revolute"], z),
        mbd.Translational("translational", "base", "translational body", p["translational"], u["translational"]),
        mbd.Fixed("fixed", "base", "fixed body"),
        mbd.Distance("distance", "base", "distance body", p["distance"] + (0.3, 0.2, 0), p["distance"]),
        mbd.Revolute("turned_bearing", "base", "turned body", p["turned"], z),
        mbd.Motion("turned", "base", "turned body", axis=z, function=swing),
        mbd.Translational("moved_guide", "base", "moved body", p["moved"], u["moved"]),
        mbd.Motion("moved", "base", "moved body", p["moved"], u["moved"], slide, coordinate="travel"),
    ]
    return mbd.simulate(mbd.Model(bodies, joints, forces), t1=0.5, integrator=mbd.HHT(tolerance=1e-7))


def test_a_planar_model_and_its_spatial_twin_move_alike(planar, twin):
    """Both runs keep local errors of 1e-7; over their 200 steps that adds up to 1e-5 at most."""
    final, other = planar.solution.final, twin.final
    for name in ("base", *(f"{name} body" for name in TWINNED)):
        flat = np.asarray(final.q)[planar.solution.system.body_slices()[name][2]]
        full = np.asarray(other.q)[twin.system.body_slices()[name][2]]
        np.testing.assert_allclose(full[:3], [*flat[:2], 0.0], atol=1e-5, err_msg=name)
        half_angles = np.array([np.cos(flat[2] / 2), 0.0, 0.0, np.sin(flat[2] / 2)])
        np.testing.assert_allclose(abs(half_angles @ full[3:]), 1.0, atol=1e-9, err_msg=name)  # 1 - angle^2 / 8


def test_a_planar_model_and_its_spatial_twin_have_the_same_reactions(planar, twin):
    """At the end, where both have a step; accelerations follow positions at the accuracy of 1e-3 of the loads of 10 N."""
    joints = [name for name in PLANAR_ROWS if name in twin.system.row_slices()]
    full = all_reactions(twin, joints)
    for name in joints:
        force, torque = (value[-1] for value in planar.reactions[name])
        np.testing.assert_allclose(full[name][0][-1][:2], force[:2], atol=1e-2, err_msg=name)
        np.testing.assert_allclose(full[name][1][-1][2], torque[2], atol=1e-2, err_msg=name)


# --- penalties -------------------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def penalties() -> mbd.Solution:
    """A hinge and a slider, each once with multipliers and once with penalties."""
    bodies, joints, forces = [], [], [mbd.Gravity((0.0, 0.0, -9.81))]
    penalty = mbd.Penalty(1e7, 6e3, rotational_stiffness=2e6, rotational_damping=1e3)
    for suffix, held in (("", None), (" soft", penalty)):
        hinged = mbd.RigidBody("hinged" + suffix, 1.5, (0.02, 0.03, 0.04), (0.4, 0.1, 0.05), (0.8, 0.2, -0.3, 0.4))
        slider = mbd.RigidBody("slider" + suffix, 1.0, (0.03, 0.03, 0.02), (-0.5, 0.2, 0.1), (0.7, -0.2, 0.3, 0.4))
        bodies += [hinged, slider]
        joints += [
            mbd.Revolute("hinge" + suffix, mbd.ground, hinged, (0.1, 0.0, 0.0), (0.2, 1.0, 0.3), penalty=held),
            mbd.Translational("guide" + suffix, mbd.ground, slider, (-0.4, 0.1, 0.0), (1.0, 0.3, 0.5), penalty=held),
        ]
        forces.append(
            mbd.SpringDamper("tie" + suffix, mbd.ground, slider, (-1.5, -0.1, -0.4), (-0.4, 0.1, 0.0), 40.0, 1.0)
        )
    integrator = mbd.HHT(tolerance=1e-6)
    return mbd.simulate(mbd.Model(bodies, joints, forces), t1=0.4, integrator=integrator)


def test_a_penalty_joint_yields_by_its_load_over_its_stiffness(penalties):
    """Loads of 30 N over 1e7 N/m at levers below a metre; 1e-5 besides for the integration of two different equations."""
    for name in ("hinged", "slider"):
        hard, soft = (np.asarray(penalties.position(body)) for body in (name, name + " soft"))
        assert np.max(np.abs(hard - hard[0])) > 0.1
        np.testing.assert_allclose(soft, hard, atol=2e-5)
    assert not any(
        where.stop > where.start for n, (_, _, where) in penalties.system.row_slices().items() if "soft" in n
    )


def test_a_penalty_joint_carries_the_load_of_the_multiplier_joint(penalties):
    """After the first 50 ms, in which the penalty's own vibration dies out."""
    settled = np.asarray(penalties.ts) > 0.05
    found = all_reactions(penalties, ("hinge", "hinge soft", "guide", "guide soft"))
    for name in ("hinge", "guide"):
        for hard, soft in zip(found[name], found[name + " soft"], strict=True):
            size = np.max(np.abs(hard))
            np.testing.assert_allclose(soft[settled], hard[settled], atol=1e-2 * size, err_msg=name)
