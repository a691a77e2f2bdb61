"""Closed spatial loops whose joints say some things twice, joints that contradict each other, and rows that must stay."""

from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks.mechanism_checks import Motion, balance
from jaxmbd.system.initial import initial_state
from jaxmbd.system.redundancy import choose_rows

from ..numpy_mechanics import moving, unit

VIOLATION = 1e-9
GRAVITY = np.array([0.0, -9.81, 0.0])
Z = np.array([0.0, 0.0, 1.0])


def rod(name, start, end, mass=1.0, **motion) -> mbd.RigidBody:
    """A slender rod between two points, with its own x axis along it."""
    start, end = np.asarray(start, float), np.asarray(end, float)
    length = np.linalg.norm(end - start)
    x = (end - start) / length
    y = unit(np.cross([0.3, 0.5, 0.81], x))
    moments = mass * length**2 / 12 * np.array([0.01, 1.0, 1.0])
    turn = np.stack([x, y, np.cross(x, y)], axis=1)
    return mbd.RigidBody(name, mass, moments, (start + end) / 2, turn, **motion)


# --- a four-bar linkage from four spatial revolutes ---------------------------------------------------------------------

CORNERS = np.array([[0.0, 0.0], [0.0, 0.5], [1.5, 1.2], [1.6, 0.0]])
"""Grashof: the crank of 0.5 m goes round."""
SPEED = 9.0
"""rad/s of the crank at the start, enough to carry it over the top"""


def four_bar_motions() -> list[dict]:
    """Velocities of crank, coupler and rocker that fit a crank turning at SPEED: two equations for two rates."""
    a, b, c, d = CORNERS
    across = lambda u: np.array([-u[1], u[0]])  # noqa: E731
    joint = SPEED * across(b - a)
    coupler, rocker = np.linalg.solve(np.stack([across(c - b), -across(c - d)], axis=1), -joint)
    return [
        {"velocity": 0.5 * joint, "angular_velocity": SPEED},
        {"velocity": joint + coupler * across(c - b) / 2, "angular_velocity": coupler},
        {"velocity": rocker * across(c - d) / 2, "angular_velocity": rocker},
    ]


NAMES = ("crank", "coupler", "rocker")


def spatial_four_bar() -> tuple[list, list]:
    corners = np.column_stack([CORNERS, np.zeros(4)])
    bodies = []
    for i, (name, motion) in enumerate(zip(NAMES, four_bar_motions(), strict=True)):
        velocity, spin = [*motion["velocity"], 0.0], motion["angular_velocity"] * Z
        bodies.append(rod(name, corners[i], corners[i + 1], velocity=velocity, angular_velocity=spin))
    chain = [mbd.ground, *bodies, mbd.ground]
    joints = [mbd.Revolute(f"corner {i}", chain[i], chain[i + 1], corners[i], Z) for i in range(4)]
    return bodies, joints


def planar_four_bar() -> mbd.Model:
    bodies = []
    for i, (name, motion) in enumerate(zip(NAMES, four_bar_motions(), strict=True)):
        start, end = CORNERS[i], CORNERS[i + 1]
        length, angle = np.linalg.norm(end - start), np.arctan2(*(end - start)[::-1])
        bodies.append(mbd.PlanarBody(name, 1.0, length**2 / 12, (start + end) / 2, angle, **motion))
    chain = [mbd.ground, *bodies, mbd.ground]
    joints = [mbd.Revolute(f"corner {i}", chain[i], chain[i + 1], CORNERS[i]) for i in range(4)]
    return mbd.Model(bodies, joints, [mbd.Gravity(GRAVITY[:2])])


# --- Bricard's loop: six revolutes along the edges of a cube -------------------------------------------------------------

CUBE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [0, 0, 1]], float)
"""Edges x, y, z, -x, -y, -z; each hinge axis is perpendicular to both edges that meet there."""


def bricard() -> tuple[list, list]:
    """The first edge is the ground. Every mobility formula counts 6 - 6 = 0 degrees of freedom; it has one."""
    bodies = [rod(f"edge {i}", CUBE[i], CUBE[(i + 1) % 6]) for i in range(1, 6)]
    chain = [mbd.ground, *bodies, mbd.ground]
    joints = []
    for i in range(6):
        before, after = CUBE[(i + 1) % 6] - CUBE[i], CUBE[(i + 2) % 6] - CUBE[(i + 1) % 6]
        joints.append(mbd.Revolute(f"hinge {i}", chain[i], chain[i + 1], CUBE[(i + 1) % 6], np.cross(before, after)))
    return bodies, joints


# --- pendulums with one and with two hinges -----------------------------------------------------------------------------


def pendulums() -> tuple[list, list]:
    bodies, joints = [], []
    for name, hinges in (("plain", ("plain hinge",)), ("doubled", ("first hinge", "second hinge"))):
        end = np.array([0.6, -0.3, 0.2])
        body = rod(name, (0.0, 0.0, 0.0), end)
        bodies.append(body)
        joints += [mbd.Revolute(hinge, mbd.ground, body, (0.0, 0.0, 0.0), (0.1, 0.3, 1.0)) for hinge in hinges]
    return bodies, joints


END = 1.2
"""s: more than a turn of the crank"""


@pytest.fixture(scope="module")
def loops() -> mbd.Solution:
    """The four-bar and the pendulums side by side."""
    parts = [spatial_four_bar(), pendulums()]
    bodies, joints = ([item for part in parts for item in part[kind]] for kind in (0, 1))
    with pytest.warns(UserWarning, match="redundant constraints: 8 row"):
        system = mbd.Model(bodies, joints, [mbd.Gravity(GRAVITY)]).build()
    return mbd.simulate(system, t1=END, integrator=mbd.HHT(tolerance=1e-6))


@pytest.fixture(scope="module")
def flat() -> mbd.Solution:
    return mbd.simulate(planar_four_bar(), t1=END, integrator=mbd.HHT(tolerance=1e-6))


@pytest.fixture(scope="module")
def cycle() -> mbd.Solution:
    """Bricard's loop from the cube under gravity, until it has come back.

    In the cube, rounding decides which row is dropped, and with some the loop comes back without another choice. It begins with one that has to
    be exchanged on the way.
    """
    names = ", ".join(f"'hinge {i}'" for i in range(6))
    bodies, joints = bricard()
    with pytest.warns(UserWarning, match=f"1 row.* of the joints {names} follow"):
        system = mbd.Model(bodies, joints, [mbd.Gravity(GRAVITY)]).build()
    first = mbd.pose(system, {})
    first = eqx.tree_at(lambda state: state.memory.kept_rows, first, jnp.ones_like(first.memory.kept_rows).at[9].set(0.0))
    return mbd.simulate(system, t1=5.6, initial=first, integrator=mbd.HHT(tolerance=1e-5))


def test_a_spatial_four_bar_warns_and_names_its_joints():
    bodies, joints = spatial_four_bar()
    with pytest.warns(UserWarning, match="3 row.* of the joints 'corner 0', 'corner 1', 'corner 2', 'corner 3' follow"):
        system = mbd.Model(bodies, joints).build()
    assert system.may_be_redundant()


def test_every_row_holds_at_every_step_the_dropped_ones_too(loops, cycle):
    assert np.max(np.asarray(loops.constraint_violation())) < VIOLATION
    assert np.max(np.asarray(cycle.constraint_violation())) < VIOLATION


def test_a_spatial_four_bar_moves_like_the_planar_one(loops, flat):
    """Over more than a turn of the crank. Two runs at local errors of 1e-6, in different coordinates, a few hundred steps each."""
    crank = np.unwrap(np.asarray(flat.orientation("crank")))
    assert np.ptp(crank) > 2 * np.pi
    t = np.linspace(0.0, END, 200)
    for name in NAMES:
        body = moving(loops, name)
        plane = np.asarray(flat.position(name))
        for i in range(2):
            np.testing.assert_allclose(np.interp(t, loops.ts, body.r[:, i]), np.interp(t, flat.ts, plane[:, i]), atol=1e-3, err_msg=name)
        np.testing.assert_allclose(body.r[:, 2], 0.0, atol=VIOLATION)


def test_bricards_loop_goes_through_its_cycle(cycle):
    """From the cube it falls, turns inside out and comes back to the cube."""
    edges = [moving(cycle, f"edge {i}").r for i in range(1, 6)]
    far = np.max([np.linalg.norm(r - r[0], axis=1) for r in edges], axis=0)
    assert np.max(far) > 2.0
    assert np.min(far[np.argmax(far > 2.0) :]) < 0.05


def test_bricards_loop_keeps_its_energy_as_far_as_hht_does(cycle):
    """HHT at 1e-5 damps a little and never adds: of the energy that moves to and fro, a hundredth in the cycle."""
    energy = cycle.energy()
    total, scale = np.asarray(energy.total), np.ptp(np.asarray(energy.kinetic))
    assert scale > 10.0
    assert np.max(total - total[0]) < 1e-3 * scale
    assert total[0] - total[-1] < 1e-2 * scale


def test_two_hinges_in_one_place_move_like_one(loops):
    plain, doubled = moving(loops, "plain"), moving(loops, "doubled")
    np.testing.assert_allclose(doubled.r, plain.r, atol=1e-8)
    np.testing.assert_allclose(doubled.A, plain.A, atol=1e-8)
    assert np.ptp(plain.r[:, 0]) > 0.5


def test_two_hinges_in_one_place_share_the_load_of_one(loops):
    plain = np.asarray(loops.reaction("plain hinge").force)
    shared = sum(np.asarray(loops.reaction(name).force) for name in ("first hinge", "second hinge"))
    np.testing.assert_allclose(shared, plain, atol=1e-3 * np.max(np.abs(plain)))


def test_euler_parameter_normalisations_are_never_dropped(loops, cycle):
    for solution, redundant in ((loops, 3 + 5), (cycle, 1)):
        kept = np.asarray(solution.states.memory.kept_rows)
        essential = np.asarray(solution.system.essential_rows())
        assert np.sum(essential) == len(solution.system.body_names)
        assert np.all(kept[:, essential] == 1)
        assert np.all(np.sum(kept == 0, axis=1) == redundant)


def test_reactions_say_when_they_are_not_unique(loops, cycle):
    assert loops.reaction("plain hinge").unique
    for name in ("first hinge", "second hinge", "corner 2"):
        assert not loops.reaction(name).unique, name
    assert not cycle.reaction("hinge 4").unique


def test_reactions_balance_where_other_rows_are_kept(cycle):
    """The multipliers of a step belong to the rows that it kept, whichever are kept from there on."""
    kept = np.asarray(cycle.states.memory.kept_rows)
    assert np.any(kept[1:] != kept[:-1])
    bodies, joints = bricard()
    drawn = SimpleNamespace(model=mbd.Model(bodies, joints, [mbd.Gravity(GRAVITY)]), mass=1.0, length=1.0, time=1.0)
    reactions = {joint.name: cycle.reaction(joint.name) for joint in joints}
    seen = {"reactions": {name: (one.force, one.torque) for name, one in reactions.items()}}
    assert max(balance(drawn, cycle, Motion.of(drawn.model, cycle), seen)) < 1e-4


# --- contradictions -----------------------------------------------------------------------------------------------------


def test_two_motions_at_different_rates_contradict_each_other():
    body = mbd.PlanarBody("body", 1.0, 1.0)
    joints = [
        mbd.Revolute("hinge", mbd.ground, body, (0.0, 0.0)),
        mbd.Motion("slow", mbd.ground, body, function=lambda t: 1.0 * t),
        mbd.Motion("fast", mbd.ground, body, function=lambda t: 2.0 * t),
    ]
    with pytest.raises(ValueError, match=r"joints 'slow', 'fast' contradict each other.* make their .*motions agree"):
        mbd.Model([body], joints).build()


def test_a_rod_that_cannot_be_so_long_is_a_contradiction():
    body = mbd.PlanarBody("body", 1.0, 1.0, (1.0, 0.0))
    joints = [
        mbd.Revolute("hinge", mbd.ground, body, (0.0, 0.0)),
        mbd.Distance("rod", mbd.ground, body, (0.0, 3.0), (2.0, 0.0), length=7.0),
    ]
    with pytest.raises(ValueError, match=r"'rod'.* contradict"), pytest.warns(UserWarning, match="its length is 7 m"):
        mbd.Model([body], joints).build()


def test_a_rod_of_another_length_is_assembled():
    body = mbd.PlanarBody("body", 1.0, 1.0, (1.0, 0.0))
    joints = [
        mbd.Revolute("hinge", mbd.ground, body, (0.0, 0.0)),
        mbd.Distance("rod", mbd.ground, body, (0.0, 3.0), (2.0, 0.0), length=3.0),
    ]
    with pytest.warns(UserWarning, match="its length is 3 m, but its points are 3.60555 m apart"):
        system = mbd.Model([body], joints).build()
    state, _, assembled = eqx.filter_jit(initial_state)(system.prepare(), jnp.zeros(()))
    end = 2 * np.asarray(state.q)[:2]
    assert assembled
    np.testing.assert_allclose([np.linalg.norm(end), np.linalg.norm(end - (0.0, 3.0))], [2.0, 3.0], atol=VIOLATION)


# --- the choice of rows -------------------------------------------------------------------------------------------------


def test_chosen_rows_span_all_rows_and_are_independent():
    rng = np.random.default_rng(4)
    basis = rng.normal(size=(6, 9))
    rows = np.concatenate([basis, rng.normal(size=(4, 6)) @ basis]) * rng.uniform(0.01, 100.0, (10, 1))
    essential = np.zeros(10)
    essential[[7, 9]] = 1.0
    kept = np.asarray(choose_rows(jnp.asarray(rows), jnp.asarray(essential), jnp.ones(10)))
    chosen = rows[kept > 0] / np.linalg.norm(rows[kept > 0], axis=1, keepdims=True)
    assert np.all(kept[[7, 9]] == 1)
    assert len(chosen) == np.linalg.matrix_rank(rows) == 6
    assert np.linalg.cond(chosen) < 1e3
    again = np.asarray(choose_rows(jnp.asarray(rows), jnp.asarray(essential), jnp.asarray(kept)))
    np.testing.assert_array_equal(again, kept)


def test_a_zero_row_is_redundant():
    rows = jnp.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(choose_rows(rows, jnp.zeros(3), jnp.ones(3)), [1.0, 0.0, 1.0])
