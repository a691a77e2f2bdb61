"""Every joint kind side by side: what it leaves, what it stops, what it carries, and that its rows are independent."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbd as mbd
from jaxmbd.system.equations import constraint_jacobian

from ..numpy_mechanics import Load, at, inertial_load, torque_of_moment, unit
from .joint_models import (
    GEAR_RATIO,
    GRAVITY,
    MOUNT,
    PITCH,
    PLANAR_ROWS,
    RADIUS,
    ROD,
    SPATIAL_BODIES,
    SPATIAL_ROWS,
    TWIN_JOINTS,
    Z,
    rod_start,
    run_planar,
    run_spatial,
    slide,
    swing,
)

VIOLATION = 1e-9
"""What a run promises at every accepted step; the corrector stops at 1e-10 of the length scale."""
NOTHING = 1e-8
"""A motion that a joint stops: violations of 1e-9 over levers of a metre, several rows added up."""
SOMETHING = 1e-2
"""m or rad: a motion that is plainly there."""
BALANCE = 3e-4
"""N, N m, beside loads of 10: Newton-Euler holds at every saved time as far as the corrector iterates."""


@pytest.fixture(scope="module")
def spatial():
    return run_spatial()


@pytest.fixture(scope="module")
def planar():
    return run_planar()


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
    system, last = spatial.solution.system, spatial.solution.final
    rows = {name: where.stop - where.start for name, (_, _, where) in system.row_slices().items()}
    assert {name: rows[name] for name in SPATIAL_ROWS} == SPATIAL_ROWS
    jacobian = np.asarray(constraint_jacobian(system.recall(last.memory), last.q, last.t))
    rank = np.linalg.matrix_rank(jacobian, tol=1e-9)
    bodies = len(system.body_names)
    assert rank == len(jacobian) == sum(rows.values()) + bodies
    assert jacobian.shape[1] - rank == 6 * bodies - sum(rows.values())  # Gruebler
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
    rod = body.point(body.local(part.point)) - base.point(base.local(part.point + ROD * unit(part.axis)))
    stopped(np.linalg.norm(rod, axis=1) - ROD)
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


# --- reactions --------------------------------------------------------------------------------------------------------

ALONE = [name for name in SPATIAL_BODIES if name in SPATIAL_ROWS and name not in ("turned", "moved")]
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
    rod = unit(body.point(body.local(part.point)) - base.point(base.local(part.point + ROD * unit(part.axis))))
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
    """What the joints do to the base is what they do to the rest, reversed: forces and moments about the origin."""
    base = spatial.base
    turn = Rotation.from_matrix(base.A @ base.A[0].T).as_rotvec()
    pull = -(base.r - base.r[0]) * MOUNT.stiffness - base.velocity * MOUNT.damping
    elastic = np.stack([torque_of_moment(angle, angle * MOUNT.turn_stiffness) for angle in turn])
    twist = -elastic - base.spin * MOUNT.turn_damping
    total = Load(*inertial_load(base, MOUNT.mass, MOUNT.inertia)) - Load(MOUNT.mass * GRAVITY + pull, twist)
    force, moment = total.force, total.torque + np.cross(base.r, total.force)
    for name, body in spatial.bodies.items():
        needed = spatial.needed[name]
        force, moment = force + needed.force, moment + needed.torque + np.cross(body.r, needed.force)
    np.testing.assert_allclose(force, 0, atol=BALANCE * len(spatial.parts))
    np.testing.assert_allclose(moment, 0, atol=BALANCE * len(spatial.parts))


def test_solution_names_a_reaction(spatial):
    reaction = spatial.solution.reaction("universal")
    np.testing.assert_allclose(reaction.force, spatial.reactions["universal"][0], atol=1e-9)
    np.testing.assert_allclose(reaction.torque, spatial.reactions["universal"][1], atol=1e-9)
    assert reaction.unique
    with pytest.raises(ValueError, match=r"unknown joint 'univrsal'. Did you mean 'universal'\?"):
        spatial.solution.reaction("univrsal")


# --- planar -----------------------------------------------------------------------------------------------------------


def test_planar_joints_hold_and_take_their_degrees_of_freedom(planar):
    solution = planar.solution
    assert np.max(np.asarray(solution.constraint_violation())) < VIOLATION
    rows = {name: where.stop - where.start for name, (_, _, where) in solution.system.row_slices().items()}
    assert rows == PLANAR_ROWS | {"hinge": 2, "guide": 2, "soft hinge": 0, "soft guide": 0}
    last = solution.final
    jacobian = np.asarray(constraint_jacobian(solution.system.recall(last.memory), last.q, last.t))
    assert np.linalg.matrix_rank(jacobian, tol=1e-9) == len(jacobian) == sum(rows.values())


def test_planar_joints_stop_and_leave_what_their_names_say(planar):
    motion, angle = planar.relative, {name: planar.relative[name].angle(Z) for name in planar.parts}
    across, ahead = {}, {}
    for name, part in planar.parts.items():
        u = np.append(unit(part.axis), 0.0)
        ahead[name], across[name] = motion[name].offset @ u, motion[name].offset @ np.cross(Z, u)
    stopped(motion["revolute"].offset, motion["turned"].offset, motion["fixed"].offset)
    stopped(angle["translational"], angle["moved"], angle["fixed"], across["translational"], across["moved"])
    stopped(angle["turned"] - np.asarray(swing(planar.t)), ahead["moved"] - np.asarray(slide(planar.t)))
    left(angle["revolute"], angle["distance"], ahead["translational"], *motion["distance"].offset.T[:2])
    part, base, body = planar.parts["distance"], planar.base, planar.bodies["distance"]
    rod = body.point(body.local((*part.point, 0))) - base.point(base.local((*rod_start(part), 0)))
    stopped(np.linalg.norm(rod, axis=1) - np.hypot(0.3, 0.2))


def test_planar_reactions_are_what_newton_and_euler_need(planar):
    held_by = {name: [name] for name in planar.parts}
    held_by |= {"turned": ["turned", "turned_bearing"], "moved": ["moved", "moved_guide"]}
    for name, joints in held_by.items():
        body = planar.bodies[name]
        point = body.r if name in AT_CENTRE else body.point(body.local(np.append(planar.parts[name].point, 0.0)))
        got = Load(0.0, 0.0)
        for joint in joints:
            got = got + at(body, point, *planar.reactions[joint])
        np.testing.assert_allclose(got.force[:, :2], planar.needed[name].force[:, :2], atol=BALANCE, err_msg=name)
        np.testing.assert_allclose(got.torque[:, 2], planar.needed[name].torque[:, 2], atol=BALANCE, err_msg=name)


def test_point_joints_and_right_angles_keep_their_meaning_in_the_plane():
    """Rows at some other configuration than the first, against plain geometry."""
    point, axis, across = np.array([0.4, -0.3]), unit([1.0, 0.5]), unit([-0.5, 1.0])
    kinds = {"ball": mbd.Spherical, "line": mbd.Inline, "plane": mbd.Inplane}
    bodies = [mbd.PlanarBody(f"{name} body", 1.0, 1.0, (0.1, 0.2), 0.3) for name in (*kinds, "square")]
    joints = [mbd.Spherical("ball", mbd.ground, bodies[0], point)]
    joints += [kinds[name](name, mbd.ground, f"{name} body", point, axis) for name in ("line", "plane")]
    joints += [mbd.Perpendicular("square", mbd.ground, bodies[3], axis, across)]
    system = mbd.Model(bodies, joints, [mbd.Gravity((0.0, -9.81))]).build()
    moved = np.array([0.5, -0.1, 0.9])
    rows = np.asarray(eqx.filter_jit(lambda s, q: s.constraint(q, jnp.zeros(())))(system, jnp.tile(moved, 4)))
    turn = lambda angle: np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])  # noqa: E731
    offset = moved[:2] + turn(0.6) @ (point - (0.1, 0.2)) - point
    found = {name: rows[where] for name, (_, _, where) in system.row_slices().items()}
    np.testing.assert_allclose(found["ball"], offset, atol=1e-14)
    np.testing.assert_allclose(np.abs(found["line"]), np.abs([across @ offset]), atol=1e-14)
    np.testing.assert_allclose(found["plane"], [axis @ offset], atol=1e-14)
    np.testing.assert_allclose(found["square"], [axis @ turn(0.6) @ across], atol=1e-14)


def test_a_planar_model_and_its_spatial_twin_move_alike(planar, spatial):
    """Local errors of 1e-6 (spatial) and 1e-7 (planar) over about a hundred steps add up to 1e-4 at most."""
    for name in ("base", *(f"{name} body" for name in planar.parts)):
        flat = np.asarray(planar.solution.final.q)[planar.solution.system.body_slices()[name][2]]
        full = np.asarray(spatial.solution.final.q)[spatial.solution.system.body_slices()[f"twin {name}"][2]]
        np.testing.assert_allclose(full[:3], [*flat[:2], 0.0], atol=1e-4, err_msg=name)
        half_angle = np.array([np.cos(flat[2] / 2), 0.0, 0.0, np.sin(flat[2] / 2)])
        np.testing.assert_allclose(abs(half_angle @ full[3:]), 1.0, atol=1e-8, err_msg=name)  # 1 - (angle error)^2 / 8


def test_a_planar_model_and_its_spatial_twin_have_the_same_reactions(planar, spatial):
    """Compared between saved times, linearly, while steps change little: multipliers suffer where they grow or are cut."""
    chosen = (spatial.t > 0.1) & (spatial.t < spatial.t[-1])
    t = spatial.t[chosen]
    for name in TWIN_JOINTS:
        force, torque = (np.array([np.interp(t, planar.t[:-1], u[:-1]) for u in r.T]).T for r in planar.reactions[name])
        twin_force, twin_torque = (value[chosen] for value in spatial.reactions[f"twin {name}"])
        size = np.max(np.abs(force)) + np.max(np.abs(torque))
        np.testing.assert_allclose(twin_force[:, :2], force[:, :2], atol=1e-2 * size, err_msg=name)
        np.testing.assert_allclose(twin_torque[:, 2], torque[:, 2], atol=1e-2 * size, err_msg=name)


# --- penalties --------------------------------------------------------------------------------------------------------


def test_a_penalty_joint_yields_by_its_load_over_its_stiffness(planar):
    """Loads of 30 N over 1e7 N/m, at levers below a metre; 1e-5 besides for integrating two different equations."""
    slices = planar.solution.system.body_slices()
    for name in ("hinged", "slider"):
        hard, soft = (np.asarray(planar.solution.q)[:, slices[body][2]] for body in (name, f"soft {name}"))
        assert np.max(np.abs(hard - hard[0])) > 0.1
        np.testing.assert_allclose(soft, hard, atol=2e-5)


def test_a_penalty_joint_carries_the_load_of_the_multiplier_joint(planar):
    """After the first 50 ms, in which the penalty's own vibration dies out; without the last step, cut to meet t1."""
    settled = (planar.t > 0.05) & (planar.t < planar.t[-1])
    for name in ("hinge", "guide"):
        for hard, soft in zip(planar.reactions[name], planar.reactions[f"soft {name}"], strict=True):
            size = np.max(np.abs(hard))
            np.testing.assert_allclose(soft[settled], hard[settled], atol=1e-2 * size + 1e-9, err_msg=name)
