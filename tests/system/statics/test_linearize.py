"""Static equilibrium and small motions, against closed forms and minimal coordinates.

Many small mechanisms stand side by side in one planar model: it compiles once, and each of them must not notice the others.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.system.equations import constraint, constraint_jacobian
from jaxmbd.system.initial import initial_state

GRAVITY = 9.81
EXACT = 1e-9
"""Relative. The search ends when Newton's corrections are below 1e-8, and converges quadratically; the rest is rounding, which eigenvalues
amplify by the stiffest one, 1e5 times the softest."""

WEIGHT, SPRING, DAMPER, LAG = 2.0, 100.0, 3.0, 0.1
ROD, ROD_INERTIA, ARM, ROD_START = 3.0, 1.0, 0.8, -0.5
WHEEL_INERTIA, TORSION, WOUND = 0.02, 4e4, 7.0
"""The wheel's spring is wound by more than a turn."""
UPPER, LOWER, UPPER_LENGTH, LOWER_LENGTH = 1.0, 0.4, 0.7, 1.1
M1, M2, L1, L2, K1, K2, C1, C2 = 3.0, 0.3, 1.0, 1.5, 400.0, 3e5, 15.0, 5e4
"""The stiff double pendulum: two rods of half lengths L, horizontal at first."""
BARS = {"crank": ((0.0, 0.0), (0.3, 1.0)), "coupler": ((0.3, 1.0), (2.0, 1.5)), "rocker": ((2.2, 0.0), (2.0, 1.5))}


def turned(angle):
    return np.array([np.cos(angle), np.sin(angle)])


def weight_on_a_spring():
    """Its filter follows the displacement and pushes nothing."""
    weight = mbd.PlanarBody("weight", WEIGHT, 1.0, (0.0, -1.0))
    follow = mbd.ForceFunction(
        "filter",
        mbd.ground,
        weight,
        lambda a, b, t, x: (jnp.zeros(3), jnp.zeros(3)),
        state=(0.0,),
        rate=lambda a, b, t, x: (b.position[1] + 1.0 - x) / LAG,
    )
    guide = mbd.Translational("guide", mbd.ground, weight, (0, 0), (0, 1))
    spring = mbd.SpringDamper("spring", mbd.ground, weight, (0, 0), (0, -1), SPRING, DAMPER)
    return [weight], [guide], [spring, follow]


def pendulum():
    rod = mbd.PlanarBody("rod", ROD, ROD_INERTIA, ARM * turned(ROD_START), ROD_START)
    return [rod], [mbd.Revolute("hinge", mbd.ground, rod, (0, 0))], []


def torsion_pendulum():
    wheel = mbd.PlanarBody("wheel", 1.0, WHEEL_INERTIA, (5.0, 0.0))
    axle = mbd.Revolute("axle", mbd.ground, wheel, (5, 0))
    return [wheel], [axle], [mbd.TorsionSpringDamper("torsion", mbd.ground, wheel, stiffness=TORSION, free_angle=WOUND)]


def double_pendulum_of_points():
    middle, end = UPPER_LENGTH * turned(-1.0), UPPER_LENGTH * turned(-1.0) + LOWER_LENGTH * turned(-2.0)
    upper, lower = mbd.PointMass("upper", UPPER, middle), mbd.PointMass("lower", LOWER, end)
    strings = [
        mbd.Distance("string1", mbd.ground, upper, (0, 0), middle),
        mbd.Distance("string2", upper, lower, middle, end),
    ]
    return [upper, lower], strings, []


def stiff_double_pendulum():
    inner = mbd.PlanarBody("inner", M1, M1 * L1**2 / 3, (L1, 0))
    outer = mbd.PlanarBody("outer", M2, M2 * L2**2 / 3, (2 * L1 + L2, 0))
    joints = [mbd.Revolute("hinge1", mbd.ground, inner, (0, 0)), mbd.Revolute("hinge2", inner, outer, (2 * L1, 0))]
    springs = [
        mbd.TorsionSpringDamper("k1", mbd.ground, inner, stiffness=K1, damping=C1, free_angle=-np.pi / 2),
        mbd.TorsionSpringDamper("k2", inner, outer, stiffness=K2, damping=C2),
    ]
    return [inner, outer], joints, springs


def four_bar(spatial):
    """From four revolutes, of which three of space's rows are redundant; a spring pulls at the coupler."""
    bodies = {}
    for name, (start, end) in BARS.items():
        dx, dy = np.subtract(end, start)
        angle, length, centre = np.arctan2(dy, dx), np.hypot(dx, dy), np.add(start, end) / 2
        mass, inertia = 2.0 * length, length**3 / 6
        if spatial:
            axis = (np.cos(angle / 2), 0, 0, np.sin(angle / 2))
            bodies[name] = mbd.RigidBody(name, mass, (0.1 * inertia, inertia, inertia), (*centre, 0.0), axis)
        else:
            bodies[name] = mbd.PlanarBody(name, mass, inertia, centre, angle)
    lift, axis = ((0.0,), (0, 0, 1)) if spatial else ((), None)
    pins = [(mbd.ground, "crank", 0), ("crank", "coupler", 0), ("coupler", "rocker", 1), (mbd.ground, "rocker", 0)]
    joints = [mbd.Revolute(f"pin{i}", a, b, (*BARS[b][end], *lift), axis) for i, (a, b, end) in enumerate(pins)]
    spring = mbd.SpringDamper("pull", mbd.ground, bodies["coupler"], (1, 3, *lift), (1, 1.2, *lift), 300.0, 5.0)
    return list(bodies.values()), joints, [spring]


@pytest.fixture(scope="module")
def bench():
    parts = [
        weight_on_a_spring(),
        pendulum(),
        torsion_pendulum(),
        double_pendulum_of_points(),
        stiff_double_pendulum(),
        four_bar(spatial=False),
    ]
    bodies, joints, forces = (list(itertools.chain(*kind)) for kind in zip(*parts, strict=True))
    return mbd.Model(bodies, joints, [*forces, mbd.Gravity((0, -GRAVITY))]).build()


@pytest.fixture(scope="module")
def rest(bench):
    return mbd.equilibrium(bench)


@pytest.fixture(scope="module")
def modes(bench, rest):
    return mbd.eigenvalues(bench, rest)


def coordinates(system, state, body):
    return state.q[system.body_slices()[body][2]]


def multipliers(system, state, joint):
    return np.asarray(state.multipliers[system.row_slices()[joint][2]])


def find(modes, value):
    """The place of an eigenvalue, which must be there."""
    place = int(np.argmin(np.abs(modes.values - value)))
    assert abs(modes.values[place] - value) < EXACT * abs(value)
    return place


def moving_bodies(system, modes, place):
    shape = np.abs(modes.modes[:, place])
    return {name for name, (_, _, where) in system.body_slices().items() if shape[where].max() > 1e-6}


# --- equilibrium -----------------------------------------------------------------------------------------------------


def test_a_spring_stretches_by_weight_over_stiffness(bench, rest):
    sag = WEIGHT * GRAVITY / SPRING
    np.testing.assert_allclose(coordinates(bench, rest, "weight"), [0, -1 - sag, 0], atol=EXACT)
    np.testing.assert_allclose(rest.x, [-sag], rtol=EXACT)


def test_pendulums_hang_and_hinges_carry_their_weight(bench, rest):
    np.testing.assert_allclose(coordinates(bench, rest, "rod"), [0, -ARM, -np.pi / 2], atol=EXACT)
    np.testing.assert_allclose(coordinates(bench, rest, "lower"), [0, -UPPER_LENGTH - LOWER_LENGTH], atol=EXACT)
    np.testing.assert_allclose(coordinates(bench, rest, "outer"), [0, -2 * L1 - L2, -np.pi / 2], atol=EXACT)
    np.testing.assert_allclose(np.abs(multipliers(bench, rest, "hinge")), [0, ROD * GRAVITY], atol=1e-8)
    np.testing.assert_allclose(np.abs(multipliers(bench, rest, "string1")), [(UPPER + LOWER) * GRAVITY], rtol=EXACT)


def test_a_wound_spring_unwinds_over_full_turns(bench, rest):
    np.testing.assert_allclose(coordinates(bench, rest, "wheel"), [5, 0, WOUND], rtol=EXACT)
    np.testing.assert_allclose(np.max(rest.memory.angles), WOUND, rtol=EXACT)


def test_rest_is_rest(bench, rest):
    for part in (rest.v, rest.acceleration, rest.state_rate):
        np.testing.assert_array_equal(part, 0.0)
    violation = constraint(bench.recall(rest.memory), rest.q, rest.t)
    np.testing.assert_allclose(violation, 0.0, atol=1e-12)


# --- eigenvalues -----------------------------------------------------------------------------------------------------


def test_oscillator_frequency_and_damping(bench, modes):
    ratio = DAMPER / (2 * np.sqrt(SPRING * WEIGHT))
    natural = np.sqrt(SPRING / WEIGHT)
    place = find(modes, natural * (-ratio + 1j * np.sqrt(1 - ratio**2)))
    np.testing.assert_allclose(modes.frequencies[place], natural / (2 * np.pi), rtol=EXACT)
    np.testing.assert_allclose(modes.damping_ratios[place], ratio, rtol=EXACT)
    assert moving_bodies(bench, modes, place) == {"weight"}
    np.testing.assert_allclose(modes.modes[bench.body_slices()["weight"][2], place], [0, 1, 0], atol=EXACT)


def test_a_filter_is_a_real_eigenvalue(bench, modes):
    place = find(modes, -1 / LAG)
    assert modes.damping_ratios[place] == pytest.approx(1)
    assert moving_bodies(bench, modes, place) == set()


def test_pendulum_frequency(bench, modes):
    place = find(modes, 1j * np.sqrt(ROD * GRAVITY * ARM / (ROD_INERTIA + ROD * ARM**2)))
    assert moving_bodies(bench, modes, place) == {"rod"}


def test_torsion_pendulum_frequency(bench, modes):
    place = find(modes, 1j * np.sqrt(TORSION / WHEEL_INERTIA))
    assert moving_bodies(bench, modes, place) == {"wheel"}


def test_double_pendulum_of_point_masses(bench, modes):
    both = UPPER + LOWER
    coupling = LOWER * UPPER_LENGTH * LOWER_LENGTH
    mass = np.array([[both * UPPER_LENGTH**2, coupling], [coupling, LOWER * LOWER_LENGTH**2]])
    stiffness = GRAVITY * np.diag([both * UPPER_LENGTH, LOWER * LOWER_LENGTH])
    for square in np.linalg.eigvals(np.linalg.solve(mass, stiffness)):
        place = find(modes, 1j * np.sqrt(square))
        assert moving_bodies(bench, modes, place) == {"upper", "lower"}


def test_stiff_damped_double_pendulum_against_minimal_coordinates(modes):
    """Angles of the two rods from the hanging position; half lengths L, inertia m L^2 / 3."""
    coupling = 2 * M2 * L1 * L2
    mass = np.array([[4 / 3 * M1 * L1**2 + 4 * M2 * L1**2, coupling], [coupling, 4 / 3 * M2 * L2**2]])
    apart = np.array([[1.0, -1.0], [-1.0, 1.0]])
    stiffness = K2 * apart + np.diag([K1 + GRAVITY * (M1 + 2 * M2) * L1, GRAVITY * M2 * L2])
    damping = C2 * apart + np.diag([C1, 0.0])
    inverse = np.linalg.inv(mass)
    matrix = np.block([[np.zeros((2, 2)), np.eye(2)], [-inverse @ stiffness, -inverse @ damping]])
    for value in np.linalg.eigvals(matrix):
        find(modes, value)


def test_eigenvalues_are_sorted_with_conjugates_side_by_side(modes):
    assert np.all(np.diff(np.abs(modes.values)) >= 0)
    place = 0
    while place < len(modes.values):
        if modes.values[place].imag != 0:
            assert modes.values[place].imag > 0
            assert modes.values[place + 1] == np.conj(modes.values[place])
            np.testing.assert_array_equal(modes.modes[:, place + 1], np.conj(modes.modes[:, place]))
            place += 1
        place += 1


def test_modes_are_motions_that_the_joints_allow(bench, rest, modes):
    jacobian = constraint_jacobian(bench.recall(rest.memory), rest.q, rest.t)
    np.testing.assert_allclose(jacobian @ modes.modes, 0.0, atol=1e-12)


# --- space, redundant rows -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spatial():
    """The four-bar linkage, and a pendulum that starts at right angles to gravity, where its stiffness is singular."""
    rod = mbd.RigidBody("rod", ROD, (0.01, ROD_INERTIA, ROD_INERTIA), (ARM, 0, 0))
    bars, joints, forces = four_bar(spatial=True)
    joints.append(mbd.Revolute("hinge", mbd.ground, rod, (0, 0, 0), (0, 0, 1)))
    model = mbd.Model([rod, *bars], joints, [*forces, mbd.Gravity((0, -GRAVITY, 0))])
    with pytest.warns(UserWarning, match="redundant"):
        system = model.build()
    return system, mbd.equilibrium(system)


def test_a_redundant_linkage_equals_its_planar_twin(spatial, bench, rest, modes):
    system, state = spatial
    for bar in BARS:
        np.testing.assert_allclose(coordinates(system, state, bar)[:3], [*coordinates(bench, rest, bar)[:2], 0.0], atol=EXACT)
    (planar,) = [v for i, v in enumerate(modes.values) if v.imag > 0 and moving_bodies(bench, modes, i) == set(BARS)]
    found = mbd.eigenvalues(system, state)
    assert found.values.shape == (4,)
    find(found, planar)


def test_spatial_pendulum_frequency(spatial):
    system, state = spatial
    half = np.sqrt(0.5)
    np.testing.assert_allclose(coordinates(system, state, "rod"), [0, -ARM, 0, half, 0, 0, -half], atol=EXACT)
    modes = mbd.eigenvalues(system, state)
    place = find(modes, 1j * np.sqrt(ROD * GRAVITY * ARM / (ROD_INERTIA + ROD * ARM**2)))
    assert moving_bodies(system, modes, place) == {"rod"}


def test_redundant_rows_under_jit_need_the_number_of_freedoms(spatial):
    """The build has counted them; a model built from traced numbers could not."""
    system, state = spatial
    linear = eqx.filter_jit(mbd.linearize)(system, state)
    assert linear.mass.shape == (system.freedoms(),) * 2
    with pytest.raises(ValueError, match="freedoms="):
        eqx.filter_jit(mbd.linearize)(system.watching(), state)


# --- neutral directions ----------------------------------------------------------------------------------------------


class Cushion(eqx.Module):
    """Vertical springs under three points of a plate, which do not mind where it is in the plane."""

    stiffness: jax.Array

    def __call__(self, a, b, t):
        arms = jnp.array([[1.0, 0.5, -0.2], [1.0, -0.5, -0.2], [-1.0, 0.1, -0.2]]) @ b.rotation.T
        forces = jnp.array([0.0, 0.0, 1.0]) * jnp.maximum(-self.stiffness * (b.position[2] + arms[:, 2:]), 0.0)
        return jnp.sum(forces, axis=0), jnp.sum(jnp.cross(arms, forces), axis=0)


@pytest.fixture(scope="module")
def puck():
    yaw = (np.cos(0.3), 0.0, 0.0, np.sin(0.3))
    body = mbd.RigidBody("puck", 10.0, (1.0, 2.0, 2.5), (3.0, 4.0, 0.5), yaw)
    cushion = mbd.ForceFunction("cushion", mbd.ground, body, Cushion(np.array(1000.0)))
    return mbd.Model([body], [], [mbd.Gravity((0, 0, -GRAVITY)), cushion]).build()


def test_a_puck_stays_where_nothing_pushes_it(puck):
    state = mbd.equilibrium(puck)
    np.testing.assert_allclose(state.q[:2], [3, 4], atol=1e-9)
    # Settling tilts the plate by hundredths about two axes; that is a yaw of their product.
    np.testing.assert_allclose(state.q[6], np.sin(0.3), atol=1e-3)
    values = np.abs(mbd.eigenvalues(puck, state).values)
    assert np.all(values[:6] < 1e-6)
    assert np.all(values[6:] > 1)


def test_held_coordinates_stay_exactly(puck):
    state = mbd.equilibrium(puck, held=("puck.x", "puck.y", "puck.e3"))
    np.testing.assert_array_equal(np.asarray(state.q)[[0, 1, 6]], np.asarray(puck.q0)[[0, 1, 6]])
    np.testing.assert_allclose(state.acceleration, 0.0)
    loose = mbd.equilibrium(puck)
    np.testing.assert_allclose(state.q[2], loose.q[2], rtol=EXACT)


def test_unknown_held_coordinates(puck):
    with pytest.raises(ValueError, match=r"'puck.angle'.*Did you mean"):
        mbd.equilibrium(puck, held=("puck.angle",))
    with pytest.raises(ValueError, match=r"held=\('puck.x',\)"):
        mbd.equilibrium(puck, held="puck.x")
    with pytest.raises(ValueError, match="no coordinate 7"):
        mbd.equilibrium(puck, held=(7,))


# --- derivatives, jit, vmap ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hanger():
    """A rod on a hinge, held up by a spring: its equilibrium is no linear function of the stiffness. A pulley turns freely beside it."""
    rod = mbd.PlanarBody("rod", ROD, ROD_INERTIA, (ARM, 0.0))
    pulley = mbd.PlanarBody("pulley", WEIGHT, 1.0, (5.0, 0.0), angle=0.3)
    joints = [mbd.Revolute("hinge", mbd.ground, rod, (0, 0)), mbd.Revolute("axle", mbd.ground, pulley, (5, 0))]
    spring = mbd.SpringDamper("spring", mbd.ground, rod, (2, 2), (2 * ARM, 0), SPRING, DAMPER, free_length=1.8)
    return mbd.Model([rod, pulley], joints, [mbd.Gravity((0, -GRAVITY)), spring]).build()


def test_a_hold_leaves_a_joint_its_reaction(hanger):
    """The axle carries the pulley although its height is held as well; the rod is held where it would not rest by itself."""
    state = mbd.equilibrium(hanger, held=("pulley.y", "rod.angle"))
    np.testing.assert_allclose(state.q, hanger.q0, atol=1e-12)
    np.testing.assert_allclose(np.abs(multipliers(hanger, state, "axle")), [0, WEIGHT * GRAVITY], atol=EXACT)


def balance(angle, stiffness):
    """Torque about the hinge [N m]."""
    span = np.array([2.0, 2.0]) - 2 * ARM * turned(angle)
    length = np.hypot(*span)
    pull = stiffness * (length - 1.8) * span / length
    arm = 2 * ARM * turned(angle)
    return arm[0] * pull[1] - arm[1] * pull[0] - ROD * GRAVITY * ARM * np.cos(angle)


def test_gradient_with_respect_to_a_stiffness_in_a_batch(hanger):
    """Against the implicit function theorem by hand, and against differences of equilibria."""

    def height(stiffness):
        return coordinates(hanger, mbd.equilibrium(hanger.set({"spring.stiffness": stiffness})), "rod")[1]

    stiffness = np.array([60.0, SPRING - 0.01, SPRING, SPRING + 0.01, 150.0, 200.0, 300.0, 400.0])
    heights, slopes = eqx.filter_jit(jax.vmap(jax.value_and_grad(height)))(stiffness)
    for k, value, slope in zip(stiffness, heights, slopes, strict=True):
        angle, step = np.arcsin(value / ARM), 1e-4
        np.testing.assert_allclose(balance(angle, k), 0.0, atol=1e-10)
        by_angle = (balance(angle + step, k) - balance(angle - step, k)) / (2 * step)
        by_stiffness = balance(angle, 1.0) - balance(angle, 0.0)
        # Central differences of the closed form with this step are good to 1e-8.
        np.testing.assert_allclose(slope, -by_stiffness / by_angle * ARM * np.cos(angle), rtol=1e-7)
    np.testing.assert_allclose(slopes[2], (heights[3] - heights[1]) / 0.02, rtol=1e-7)


class Bead(mbd.AbstractSystem):
    """A bead on the parabola y = x^2, with a spring along x, and gravity along +y that softens it."""

    stiffness: jax.Array
    q0: jax.Array = eqx.field(default_factory=lambda: jnp.array([0.3, 0.09]))
    v0: jax.Array = eqx.field(default_factory=lambda: jnp.zeros(2))

    def mass(self, q):
        return WEIGHT * jnp.eye(2)

    def force(self, q, v, t):
        return jnp.stack([-self.stiffness * q[0], jnp.asarray(WEIGHT * GRAVITY)])

    def constraint(self, q, t):
        return q[1:] - q[:1] ** 2


def test_gradient_of_a_frequency():
    def frequency(stiffness):
        system = Bead(stiffness)
        matrix = mbd.linearize(system, mbd.equilibrium(system)).matrix
        return jnp.max(jnp.abs(jnp.linalg.eigvals(matrix)))

    expected = np.sqrt(SPRING / WEIGHT - 2 * GRAVITY)
    value, slope = jax.value_and_grad(frequency)(SPRING)
    np.testing.assert_allclose(value, expected, rtol=EXACT)
    np.testing.assert_allclose(slope, 1 / (2 * WEIGHT * expected), rtol=EXACT)
    _, forward = jax.jvp(frequency, (SPRING,), (1.0,))
    np.testing.assert_allclose(forward, slope, rtol=EXACT)


def test_about_a_state_of_rest_that_is_no_equilibrium():
    """(1 + 4 x^2) x'' + 4 x x'^2 + c x = 0 with c = k / m - 2 g, for neighbours at a distance along the parabola."""
    system = Bead(jnp.asarray(SPRING))
    state, _, _ = eqx.filter_jit(initial_state)(system, jnp.zeros(()))
    x, c = 0.3, SPRING / WEIGHT - 2 * GRAVITY
    acceleration = -c * x / (1 + 4 * x**2)
    np.testing.assert_allclose(state.acceleration[0], acceleration, rtol=EXACT)
    square = (c + 4 * x * acceleration) / (1 + 4 * x**2)
    np.testing.assert_allclose(mbd.eigenvalues(system, state).values[0], 1j * np.sqrt(square), rtol=EXACT)


# --- failure ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lift():
    """A weight on a vertical guide: without stiffness nothing stops it."""
    bodies, joints, forces = weight_on_a_spring()
    return mbd.Model(bodies, joints, [*forces[:1], mbd.Gravity((0, -GRAVITY))]).build()


def test_simulation_stays_at_the_equilibrium(lift):
    state = mbd.equilibrium(lift, t=0.5)
    solution = mbd.simulate(lift, 1.0, initial=state)
    np.testing.assert_allclose(solution.q, np.broadcast_to(state.q, solution.q.shape), atol=EXACT)
    assert solution.ts[0] == 0.5


def test_no_equilibrium_names_the_body(lift):
    with pytest.raises(RuntimeError, match=r"force of 19\.6 N .* body 'weight'.*9\.81"):
        mbd.equilibrium(lift.set({"spring.stiffness": 0.0}))


def test_no_equilibrium_without_throwing(lift):
    state = mbd.equilibrium(lift.set({"spring.stiffness": 0.0}), throw=False)
    np.testing.assert_allclose(state.acceleration, [0, -GRAVITY, 0], atol=1e-12)


def test_a_failing_lane_harms_nobody():
    """With gravity stronger than the spring the bead runs down the parabola for ever."""
    stiffness = jnp.array([SPRING, WEIGHT * GRAVITY])
    states = jax.vmap(lambda k: mbd.equilibrium(Bead(k), throw=False))(stiffness)
    np.testing.assert_allclose(states.q[0], 0.0, atol=EXACT)
    np.testing.assert_array_equal(states.acceleration[0], 0.0)
    assert np.abs(states.acceleration[1, 1]) > 0.1


def test_failure_under_jit():
    with pytest.raises(Exception, match="Failure: no static equilibrium"):
        jax.block_until_ready(jax.jit(lambda k: mbd.equilibrium(Bead(k)).q)(WEIGHT * GRAVITY))


def test_a_bad_parameter_under_jit(lift):
    """The parameter is named, or, without throwing, nothing balances, and the host is not asked."""
    find = jax.jit(lambda k, throw: mbd.equilibrium(lift.set({"spring.stiffness": k}), throw=throw).acceleration, static_argnums=1)
    assert "callback" not in find.lower(1.0, False).as_text()
    assert not np.any(find(SPRING, False))
    assert np.all(np.isnan(find(-1.0, False)))
    with pytest.raises(Exception, match=r"Failure: stiffness of force '.*' must not be negative"):
        jax.block_until_ready(find(-1.0, True))


def test_a_moving_state_under_jit(lift):
    state = mbd.equilibrium(lift)
    small = lambda v, throw: mbd.linearize(lift, eqx.tree_at(lambda s: s.v, state, v), throw=throw).matrix  # noqa: E731
    matrix = jax.jit(small, static_argnums=1)
    assert "callback" not in matrix.lower(state.v, False).as_text()
    np.testing.assert_allclose(matrix(state.v, False), mbd.linearize(lift, state).matrix, atol=EXACT)
    assert np.all(np.isnan(matrix(state.v + 0.1, False)[1]))
    with pytest.raises(Exception, match="Failure: linearize needs a state of rest"):
        jax.block_until_ready(matrix(state.v + 0.1, True))


def test_a_moving_state_has_no_eigenvalues(bench, rest):
    moving = eqx.tree_at(lambda s: s.v, rest, rest.v.at[0].set(0.1))
    with pytest.raises(ValueError, match=r"state of rest.* 0\.1 m/s"):
        mbd.eigenvalues(bench, moving)


def test_eigenvalues_are_not_traced(bench, rest):
    with pytest.raises(ValueError, match=r"mbd\.linearize"):
        jax.vmap(lambda q: mbd.eigenvalues(bench, eqx.tree_at(lambda s: s.q, rest, q)).values)(rest.q[None])


def test_only_models_and_systems(annotations_unchecked):
    for function in (mbd.equilibrium, mbd.eigenvalues):
        with pytest.raises(ValueError, match=r"mbd\.Model or an mbd\.AbstractSystem, got int"):
            function(3)
