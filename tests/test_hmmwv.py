"""The vehicle over the bump: its counts, its start in equilibrium, its eigenvalues, the law of its tyres."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems.vehicles import Tyre
from jaxmbd.system.equations import constraint_jacobian
from jaxmbd.system.initial import initial_state

CORNERS = ("front_left", "front_right", "rear_left", "rear_right")
SPEED = 4.4704  # m/s: 10 mph
FRONT_LOAD, REAR_LOAD = 5971.0, 5566.0  # N
R, STIFFNESS, DAMPING = 0.46, 296325.0, 3502.0  # m, N/m, N s/m: of a tyre
BUMP = 0.05  # m
EDGE = np.sqrt((R + BUMP) ** 2 - R**2)  # m, how far before the bump's axis the wheel meets it


@pytest.fixture(scope="module")
def model():
    return mbd.problems.hmmwv()


@pytest.fixture(scope="module")
def system(model):
    return model.build()


@eqx.filter_jit
def start_and_jacobian(system):
    system, t = system.prepare(), jnp.zeros(())
    return initial_state(system, t)[0], constraint_jacobian(system, system.q0, t)


def start(system):
    """Accelerations and all at t = 0. Vehicles with other numbers have the same structure: this compiles once."""
    return start_and_jacobian(system)[0]


@pytest.fixture(scope="module")
def at_rest(system):
    return mbd.equilibrium(system, held=("chassis.x", "chassis.y", "chassis.e3"))


def every(name, value):
    """The parameter `name` of the elements at all four corners."""
    element, parameter = name.split(".")
    return {f"{element}_{corner}.{parameter}": value for corner in CORNERS}


def body(system, name):
    return system.body_slices()[name][2]


def tyre_of(model, corner):
    return next(force for force in model.forces if force.name == f"tyre_{corner}").function


# --- the model ------------------------------------------------------------------------------------------------------


def test_counts(model, system):
    assert len(model.bodies) == 14
    assert system.q0.shape == (98,)
    jacobian = np.asarray(start_and_jacobian(system)[1])
    assert jacobian.shape == (88, 98)
    assert np.linalg.matrix_rank(jacobian) == 88
    assert not system.may_be_redundant()
    assert [len(group.names) for group in system.force_groups] == [4, 4]  # springs, tyres: one kind each
    assert [group.element.stiff for group in system.force_groups] == [True, False]
    np.testing.assert_allclose(sum(part.mass for part in model.bodies), 2352.25, atol=0.01)


def test_a_spindle_is_spindle_and_upright(model):
    spindle = next(part for part in model.bodies if part.name == "spindle_front_left")
    masses, places = np.array([14.705, 19.450]), np.array([0.910, 0.751])  # kg, m: both at the same x and z
    centre = masses @ places / masses.sum()
    spread = masses @ (places - centre) ** 2
    np.testing.assert_allclose(spindle.mass, masses.sum())
    np.testing.assert_allclose(spindle.position[1], centre)
    expected = np.array([0.04117 + 0.1656 + spread, 0.07352 + 0.1934, 0.04117 + 0.04367 + spread])
    np.testing.assert_allclose(np.diag(spindle.inertia), expected)
    np.testing.assert_allclose(tyre_of(model, "front_left").centre, (0.0, 0.910 - centre, 0.0), atol=1e-15)
    np.testing.assert_allclose(tyre_of(model, "front_right").centre, (0.0, centre - 0.910, 0.0), atol=1e-15)


def test_left_and_right_are_mirror_images(model):
    parts = {part.name: part for part in model.bodies}
    mirror = np.array([1.0, -1.0, 1.0])
    for name, left in parts.items():
        if name.endswith("left"):
            right = parts[name.replace("left", "right")]
            np.testing.assert_allclose(right.position, mirror * left.position, atol=1e-15)
            np.testing.assert_array_equal(right.inertia, left.inertia)
            assert right.mass == left.mass
    for name in ("chassis", "rack"):
        assert parts[name].position[1] == 0


def test_stands_on_its_tyres(model):
    chassis = model.bodies[0]
    np.testing.assert_allclose(chassis.position[2], 0.9895, atol=1e-4)
    pitch = 2 * chassis.orientation[2]
    np.testing.assert_allclose(pitch, 4.14e-4, rtol=0.01)  # rad, nose down: the front tyres carry more
    loads = {}
    for corner in CORNERS:
        spindle = next(part for part in model.bodies if part.name == f"spindle_{corner}")
        tyre = tyre_of(model, corner)
        lean = np.array([[np.cos(pitch), 0, np.sin(pitch)], [0, 1, 0], [-np.sin(pitch), 0, np.cos(pitch)]])
        loads[corner] = float(tyre.load(spindle.position + lean @ tyre.centre, jnp.array([SPEED, 0.0, 0.0])))
    np.testing.assert_allclose([loads["front_left"], loads["front_right"]], FRONT_LOAD, atol=1.0)
    np.testing.assert_allclose([loads["rear_left"], loads["rear_right"]], REAR_LOAD, atol=1.0)
    np.testing.assert_allclose(sum(loads.values()), 9.81 * sum(part.mass for part in model.bodies), rtol=1e-9)


def test_wheels_meet_the_bump_in_time(model):
    for corner, contact in (("front_left", 0.5), ("rear_right", 1.2386)):
        tyre = tyre_of(model, corner)
        spindle = next(part for part in model.bodies if part.name == f"spindle_{corner}")
        # Within a tenth of a millisecond, half a millimetre, that the pitch and the digits above leave.
        heights = [tyre.road(spindle.position[0] + SPEED * (contact + delay))[0] for delay in (-1e-4, 1e-4)]
        assert heights[0] == 0 < heights[1]


# --- equilibrium ----------------------------------------------------------------------------------------------------


def test_starts_in_equilibrium(system, at_rest):
    # Rounding errors of the springs, 2e7 N/m times 1e-16 m, act on arms of 6 kg: 1e-9 m/s^2 remains.
    assert np.max(np.abs(start(system).acceleration)) < 1e-7
    np.testing.assert_allclose(at_rest.q, system.q0, atol=1e-10)


@pytest.mark.parametrize(
    "options",
    [
        {"stiffness": 2e5, "damping": 2e4},
        {"stiffness": 2e8, "damping": 2e7},
        {"tyre_stiffness": 1e5, "tyre_damping": 0.0, "bump_height": 0.0, "speed": 20.0},
    ],
)
def test_starts_in_equilibrium_with_other_numbers(options):
    # As above, with 2e8 N/m.
    assert np.max(np.abs(start(mbd.problems.hmmwv(**options).build()).acceleration)) < 1e-6


def test_on_the_bump_left_and_right_move_alike(model, system):
    """The bump under the front wheels from the start: nothing rolls, yaws or drifts, and the centre of mass obeys the tyres."""
    spindle = body(system, "spindle_front_left")
    x = float(system.q0[spindle][0])
    state = start(system.set(every("tyre.bump_position", x + 0.1)))
    acceleration = {name: np.asarray(state.acceleration[where]) for name, (_, _, where) in system.body_slices().items()}
    rounding = 1e-9 * max(np.max(np.abs(a)) for a in acceleration.values())
    for name, left in acceleration.items():
        if name.endswith("right"):
            continue
        right = acceleration[name.replace("left", "right")]  # of chassis and rack: itself
        # Mirrored in y: positions (x, y, z), Euler parameters (e0, e1, e2, e3) of rotations about x and z.
        np.testing.assert_allclose(left, right * np.array([1, -1, 1, 1, -1, 1, -1]), atol=rounding)
    # Before the bump the vehicle was in balance: what the tyre adds by the bump's height and slope moves it.
    height = np.sqrt((R + BUMP) ** 2 - 0.1**2)
    added = 2 * (STIFFNESS * (height - R) + DAMPING * SPEED * 0.1 / height)
    momentum = sum(part.mass * acceleration[part.name][:3] for part in model.bodies)
    np.testing.assert_allclose(momentum, (0.0, 0.0, added), rtol=1e-9, atol=1e-6)
    assert acceleration["spindle_front_left"][2] > 9.81


def test_dominant_eigenvalues(system, at_rest):
    dominant = mbd.eigenvalues(system, at_rest).values[-1]
    assert dominant.imag == 0
    np.testing.assert_allclose(dominant.real, -4.6e4, rtol=0.05)
    # The paper's. It is a matter of damping: springs ten times softer change it by less than the tolerance.
    damped = system.set(every("spring.damping", 1.13e7))
    for case in (damped, damped.set(every("spring.stiffness", 2e6))):
        dominant = mbd.eigenvalues(case, at_rest).values[-1]
        assert dominant.imag == 0
        np.testing.assert_allclose(dominant.real, -2.6e5, rtol=0.05)


def test_modes_of_the_vehicle(system, at_rest):
    """x, y, yaw are free; the springs creep at k / c = 10 1/s; heave, pitch and roll bounce on the tyres; four stiff ones."""
    values = mbd.eigenvalues(system, at_rest).values
    assert values.shape == (20,)
    assert np.max(np.abs(values[:6])) < 1e-3
    np.testing.assert_allclose(values[6:10], -10.0, rtol=0.02)
    bounces = values[10:16:2]
    # Heave alone, the tyres under all of the mass: sqrt(4 k / m) = 22.4 rad/s; damping c / k = 0.012 s is light.
    np.testing.assert_allclose(np.abs(bounces[0]), np.sqrt(4 * 296325 / 2352), rtol=0.02)
    assert np.all(bounces.imag > 20)
    assert np.all(bounces.imag < 30)
    np.testing.assert_array_equal(values[16:].imag, 0.0)
    assert np.all(values[16:].real < -3.5e4)


# --- parameters and options -----------------------------------------------------------------------------------------


def test_parameters_have_names(system):
    for name in ("stiffness", "damping", "radius", "centre", "bump_position", "bump_height"):
        assert f"tyre_rear_left.{name}" in system.parameter_names()
    changed = system.set({"tyre_front_left.stiffness": 3e5, "tyre_front_left.bump_height": 0.04})
    assert changed.get("tyre_front_left.stiffness") == 3e5
    assert changed.get("tyre_front_right.stiffness") == 296325.0
    assert changed.get("tyre_front_left.bump_height") == 0.04
    with pytest.raises(ValueError, match="stiffness of force 'tyre_front_left' must not be negative"):
        system.set({"tyre_front_left.stiffness": -1.0})
    with pytest.raises(ValueError, match="radius of force 'tyre_rear_left' must be positive"):
        system.set({"tyre_rear_left.radius": 0.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stiffness": 0.0}, "stiffness of the problem 'hmmwv' must be positive: got 0"),
        ({"damping": -1.0}, "damping of the problem 'hmmwv' must not be negative: got -1"),
        ({"tyre_stiffness": -3e5}, "tyre_stiffness of the problem 'hmmwv' must be positive"),
        ({"tyre_stiffness": 1e4}, r"tyre_stiffness of the problem 'hmmwv' must exceed 1.3e\+04 N/m to carry the weight"),
        ({"tyre_damping": np.nan}, "tyre_damping of the problem 'hmmwv' is not finite"),
        ({"bump_height": -0.05}, "bump_height of the problem 'hmmwv' must not be negative"),
        ({"speed": 0.0}, "speed of the problem 'hmmwv' must be positive"),
        ({"speed": "fast"}, "speed of the problem 'hmmwv': expected one number"),
    ],
)
def test_wrong_options_are_errors(options, message, annotations_unchecked):
    with pytest.raises(ValueError, match=message):
        mbd.problems.hmmwv(**options)


def test_traced_options_are_refused_with_advice(annotations_unchecked):
    with pytest.raises(ValueError, match=r"change parameters of the built system with system\.set"):
        jax.eval_shape(lambda damping: mbd.problems.hmmwv(damping=damping).build().q0, 2e6)


# --- tyres ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tyre():
    return Tyre(STIFFNESS, DAMPING, R, jnp.zeros(3), 0.0, BUMP)


def load(tyre, x, z, vx=0.0, vz=0.0):
    return tyre.load(jnp.array([x, 0.0, z]), jnp.array([vx, 0.0, vz]))


def test_tyre_on_the_flat_road(tyre):
    np.testing.assert_allclose(load(tyre, 5.0, R - 0.02), STIFFNESS * 0.02)
    np.testing.assert_allclose(load(tyre, 5.0, R - 0.02, vx=3.0, vz=-0.1), STIFFNESS * 0.02 + DAMPING * 0.1)
    assert load(tyre, 5.0, R - 0.02, vz=2.0) == 0.0  # rises faster than the damper lets go: no pull
    assert load(tyre, 5.0, R) == 0.0
    assert load(tyre, 5.0, R + 0.01, vz=-10.0) == 0.0  # off the ground, though it comes near


def test_tyre_rolls_over_the_bump(tyre):
    """The wheel's centre moves on a circle of radius R + r about the bump's axis."""
    x = np.linspace(-0.999 * EDGE, 0.999 * EDGE, 41)
    rise, slope = jax.vmap(tyre.road)(jnp.asarray(x))
    np.testing.assert_allclose(np.hypot(x, R + rise), R + BUMP, rtol=1e-14)
    np.testing.assert_allclose(rise[20], BUMP)
    np.testing.assert_allclose(slope, jax.vmap(jax.grad(lambda x: tyre.road(x)[0]))(jnp.asarray(x)), rtol=1e-12)
    for far in (-3.0, -1.001 * EDGE, 1.001 * EDGE, 0.5, 3.0):
        assert [float(value) for value in tyre.road(jnp.asarray(far))] == [0.0, 0.0]
    # A wheel that follows the road feels no damper; one that does not, feels the road come up.
    rise, slope = tyre.road(jnp.asarray(-0.1))
    np.testing.assert_allclose(load(tyre, -0.1, R + rise - 0.02, SPEED, slope * SPEED), STIFFNESS * 0.02)
    np.testing.assert_allclose(load(tyre, -0.1, R + rise - 0.02, SPEED), STIFFNESS * 0.02 + DAMPING * slope * SPEED)


def test_tyre_force_acts_at_the_wheel(tyre):
    off_centre = eqx.tree_at(lambda tyre: tyre.centre, tyre, jnp.array([0.0, 0.1, 0.0]))
    spindle = mbd.Frame(jnp.array([5.0, 0.0, R - 0.02]), jnp.eye(3), jnp.zeros(3), jnp.array([0.5, 0.0, 0.0]))
    force, torque = off_centre(spindle, spindle, jnp.zeros(()))
    expected = STIFFNESS * 0.02 - DAMPING * 0.05  # it turns about x: the wheel rises at 0.05 m/s
    np.testing.assert_allclose(force, (0.0, 0.0, expected))
    np.testing.assert_allclose(torque, (0.1 * expected, 0.0, 0.0))


SMOOTH = {
    "on the flat road": (2.0, R - 0.02, SPEED, -0.3),
    "before the top": (-0.1, R, SPEED, 0.2),
    "at the top": (0.0, R + 0.03, SPEED, 0.2),
    "behind the top": (0.15, R, SPEED, -0.9),
    "in the air": (2.0, R + 0.02, SPEED, -0.3),
    "letting go": (2.0, R - 0.001, SPEED, 1.0),
}
KINKS = {
    "touches down": (2.0, R, SPEED, -0.3),
    "lifts off": (2.0, R - 0.01, SPEED, STIFFNESS * 0.01 / DAMPING),
    "meets the bump": (-EDGE, R - 0.02, SPEED, 0.0),
    "leaves the bump": (EDGE, R - 0.02, SPEED, 0.0),
    "touches down on the edge": (-EDGE, R, SPEED, -0.3),
}
"""x, z [m], x', z' [m/s] of the wheel's centre"""


@jax.jit
def load_of_all(numbers):
    """As a function of x, z, x', z' and of every parameter of the tyre."""
    x, z, vx, vz, *parameters = numbers
    stiffness, damping, radius, bump_position, bump_height = parameters
    return load(Tyre(stiffness, damping, radius, jnp.zeros(3), bump_position, bump_height), x, z, vx, vz)


gradient, hessian = jax.jit(jax.grad(load_of_all)), jax.jit(jax.hessian(load_of_all))


@pytest.mark.parametrize("condition", SMOOTH)
def test_tyre_derivatives_equal_finite_differences(condition):
    numbers = np.array([*SMOOTH[condition], STIFFNESS, DAMPING, R, 0.0, BUMP])
    for i, exact in enumerate(gradient(numbers)):
        # Central differences: errors of the order of step^2 and of rounding over step.
        step = np.zeros_like(numbers)
        step[i] = 1e-6 * max(1.0, abs(numbers[i]))
        difference = (load_of_all(numbers + step) - load_of_all(numbers - step)) / (2 * step[i])
        np.testing.assert_allclose(exact, difference, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("condition", [*SMOOTH, *KINKS])
def test_tyre_derivatives_are_finite(condition):
    """Also of second order, which derivatives of implicit steps use, also a hair beside a kink, also without a bump."""
    numbers = np.array([*(SMOOTH | KINKS)[condition], STIFFNESS, DAMPING, R, 0.0, BUMP])
    for beside in (0.0, 1e-15, -1e-15):
        for bump_height in (BUMP, 0.0):
            there = numbers + beside
            there[-1] = bump_height
            assert np.all(np.isfinite(gradient(there)))
            assert np.all(np.isfinite(hessian(there)))
            assert load_of_all(there) >= 0


# --- the run --------------------------------------------------------------------------------------------------------


ROSENBROCK = mbd.RosenbrockNystrom(1e-4, 1e-4)


@pytest.mark.parametrize(
    ("integrator", "drift", "turn"),
    # Independent coordinates are those of one side: left and right differ by the method's error.
    [(ROSENBROCK, 5e-4, 1e-4), pytest.param(mbd.HHT(tolerance=1e-4), 1e-6, 1e-9, marks=pytest.mark.slow)],
    ids=["rosenbrock", "hht"],
)
def test_run_over_the_bump(system, integrator, drift, turn):
    solution = mbd.simulate(system, 5.0, integrator=integrator, max_step=0.02)
    times, positions = np.asarray(solution.ts), np.asarray(solution.position("chassis"))
    height = positions[:, 2]
    # 1.02975 m at the tolerance 1e-9; here the error of the method, 4 tolerance^(2/3) at worst, is some 3e-4 m.
    np.testing.assert_allclose(height.max(), 1.0297, atol=5e-4)
    np.testing.assert_allclose(times[height.argmax()], 0.65, atol=0.02)
    np.testing.assert_allclose(height[times < 0.5], height[0], atol=1e-9)
    np.testing.assert_allclose(height[times >= 4.0], height[0], atol=1e-4)
    # Tyre forces are vertical: x and y go on as they began, and nothing turns the vehicle about x or z.
    velocity = np.asarray(solution.velocity("chassis"))
    np.testing.assert_allclose(positions[-1, :2], positions[0, :2] + (5.0 * SPEED, 0.0), atol=drift)
    np.testing.assert_allclose(velocity[-1], (SPEED, 0.0, 0.0), atol=1e-4)
    np.testing.assert_allclose(np.asarray(solution.orientation("chassis"))[:, (1, 3)], 0.0, atol=turn)
    assert np.max(solution.constraint_violation()) < 1e-9


def peak_height(system, **options):
    run = mbd.simulate(system, 0.8, integrator=mbd.RosenbrockNystrom(1e-3, 1e-3), max_step=0.02, max_steps=128, throw=False, **options)
    return mbd.peak(run.ts, run.position("chassis")[:, 2], run.velocity("chassis")[:, 2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tyre.stiffness", "spring.damping", "tyre.bump_height"])
def test_gradient_of_the_peak_height(system, name):
    """Against central differences over replayed steps."""
    value = float(system.get(next(iter(every(name, 0.0)))))
    steps = mbd.simulate(system, 0.8, integrator=mbd.RosenbrockNystrom(1e-3, 1e-3), max_step=0.02).steps
    gradient = jax.jit(jax.grad(lambda p: peak_height(system.set(every(name, p)))))(value)
    replay = jax.jit(lambda p: peak_height(system.set(every(name, p)), step=steps))
    change = 1e-4 * value
    assert gradient == pytest.approx(float(replay(value + change) - replay(value - change)) / (2 * change), rel=1e-4)


@pytest.mark.slow
def test_a_batch_of_dampings_equals_single_runs(system):
    def end(damping):
        changed = system.set(every("spring.damping", damping))
        run = mbd.simulate(changed, 0.6, integrator=mbd.RosenbrockNystrom(1e-3, 1e-3), max_step=0.02, max_steps=128, throw=False)
        return run.final.q, run.stats["steps"]

    dampings = jnp.geomspace(1e6, 4e6, 100)
    q, steps = jax.jit(jax.vmap(end))(dampings)
    alone = jax.jit(end)
    for i, damping in enumerate(dampings):
        q_alone, steps_alone = alone(damping)
        assert steps[i] == steps_alone
        np.testing.assert_allclose(q[i], q_alone, rtol=0, atol=1e-9)
