"""What a run shows, by name: against closed forms, and against each other."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbd as mbd
from jaxmbd.measure import REDUCERS, slopes
from jaxmbd.observe import observe
from jaxmbd.system.initial import first_memory
from jaxmbd.system.rotations import from_ground, rotation_matrix

GRAVITY, FRICTION, SPEED = 9.81, 0.3, 3.0
MASS, STIFFNESS, DAMPING, STRETCH = 2.0, 50.0, 1.5, 0.2


def laboratory() -> mbd.Model:
    """Three experiments that do not know of each other: a mass on a spring and damper, a disc that slides, a rod that is driven round."""
    mass = mbd.PointMass("mass", MASS, (1.2, 0.0))
    disc = mbd.PlanarBody("disc", 1.0, 1e9, (0.0, 0.1 - GRAVITY / 1e4), velocity=(SPEED, 0.0))  # too inert to roll
    rod = mbd.PlanarBody("rod", 3.0, 1.0, (1.0, 0.0))
    floor = mbd.DiscLine(
        "floor",
        disc,
        mbd.ground,
        disc.position,
        0.1,
        (0.0, 0.0),
        (0.0, 1.0),
        mbd.LinearContact(1e4, 10.0),
        mbd.Coulomb(FRICTION, regularisation=1e-4),
    )
    return mbd.Model(
        [mass, disc, rod],
        [
            mbd.Inline("rail", mbd.ground, mass, (1.2, 0.0), (1.0, 0.0)),
            mbd.Revolute("hinge", mbd.ground, rod, (0.0, 0.0)),
            mbd.Motion("drive", mbd.ground, rod, function=lambda t: 8.0 * (1.0 - jnp.cos(2.0 * t))),
        ],
        [
            mbd.Gravity((0.0, -GRAVITY)),
            mbd.SpringDamper("spring", mbd.ground, mass, (0.0, 0.0), (1.2, 0.0), STIFFNESS, DAMPING, free_length=1.0),
            floor,
        ],
    )


@pytest.fixture(scope="module")
def system() -> mbd.System:
    return laboratory().build()


@pytest.fixture(scope="module")
def run(system) -> mbd.Solution:
    return mbd.simulate(system, 0.7, integrator=mbd.HHT(tolerance=1e-8), max_step=0.01)


@pytest.fixture(scope="module")
def seen(run, system) -> dict[str, jax.Array]:
    """Everything, compiled once."""
    points = [f"rod.point(0.5,0.2).{quantity}" for quantity in ("x", "vy", "ax")]
    return run.observe([*system.observable_names(), *points, *(f"{reducer}:mass.vx" for reducer in REDUCERS)])


def oscillation(t):
    """Stretch of the spring and its rate."""
    decay, frequency = DAMPING / (2 * MASS), np.sqrt(STIFFNESS / MASS - (DAMPING / (2 * MASS)) ** 2)
    fading = STRETCH * np.exp(-decay * t)
    stretch = fading * (np.cos(frequency * t) + decay / frequency * np.sin(frequency * t))
    return stretch, -fading * STIFFNESS / MASS / frequency * np.sin(frequency * t)


def turning(t):
    """Angle, rate and acceleration of the rod: more than a full turn."""
    return 8.0 * (1.0 - np.cos(2.0 * t)), 16.0 * np.sin(2.0 * t), 32.0 * np.cos(2.0 * t)


# HHT at a tolerance of 1e-8 takes steps of a millisecond or less, in which nothing here turns by more than w h = 0.02 rad; a method of second
# order is wrong by about (w h)^2 / 12, some 1e-5 of a quantity.
SECOND_ORDER = 3e-5


def close(found, expected, error=SECOND_ORDER):
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=error * np.max(np.abs(expected)))


# --- work ---------------------------------------------------------------------------------------------------------------------------------


def test_work_of_damper_friction_and_motor_is_that_of_their_closed_forms(run):
    t, work = np.asarray(run.ts), run.work()
    assert list(work) == ["spring", "floor", "drive", "gravity"]
    stretch, rate = oscillation(t)
    energy = 0.5 * MASS * rate**2 + 0.5 * STIFFNESS * stretch**2
    close(work["spring"].supplied, energy - energy[0])
    close(work["spring"].stored, 0.5 * STIFFNESS * (stretch**2 - STRETCH**2))
    close(work["spring"].total, 0.5 * MASS * rate**2)
    # The regularised law lacks (v_r / v)^2 / 2 of its limit, 1e-8 at these speeds.
    close(work["floor"].supplied, -FRICTION * GRAVITY * (SPEED * t - 0.5 * FRICTION * GRAVITY * t**2))
    angle, speed, _ = turning(t)
    close(work["drive"].supplied, 0.5 * 4.0 * speed**2 + 3.0 * GRAVITY * np.sin(angle))
    np.testing.assert_array_equal(work["gravity"].supplied, 0.0)
    close(work["gravity"].total, -3.0 * GRAVITY * np.sin(angle), error=1e-4)


def test_what_nothing_supplies_is_numerical_and_falls_with_the_steps(run, system, seen):
    coarse = mbd.simulate(system, 0.7, integrator=mbd.HHT(tolerance=1e-6), max_step=0.01)
    errors = [float(np.max(np.abs(error))) for error in (coarse.observe("energy.error"), seen["energy.error"])]
    assert errors[1] < SECOND_ORDER * float(np.max(run.energy().kinetic))
    # Second order, with steps as the third root of the tolerance: 100^(2/3) = 22 times less. Work that was forgotten would not fall.
    assert errors[1] < errors[0] / 8
    work = sum(np.asarray(one.supplied) for one in run.work().values())
    np.testing.assert_allclose(seen["energy.supplied"], work, rtol=1e-12, atol=1e-12)
    total = np.asarray(run.energy().total)
    np.testing.assert_allclose(seen["energy.error"], total - total[0] - work, atol=1e-10)


# --- loads and motion ---------------------------------------------------------------------------------------------------------------------


def test_a_spring_shows_its_pull_length_and_rate(run, seen):
    t = np.asarray(run.ts)
    stretch, rate = oscillation(t)
    load = run.force("spring")
    assert load.bodies == ("ground", "mass")
    assert load.angle is None
    close(load.length - 1.0, stretch)
    close(load.rate, rate)
    close(load.tension, STIFFNESS * stretch + DAMPING * rate)
    np.testing.assert_allclose(load.force[:, 1, 0], -load.tension, atol=1e-12)
    np.testing.assert_allclose(load.force[:, 0], -load.force[:, 1], atol=1e-12)
    np.testing.assert_allclose(seen["spring.force"], load.tension)
    np.testing.assert_allclose(seen["spring.fx"], load.force[:, 1, 0])
    close(seen["spring.potential"], 0.5 * STIFFNESS * stretch**2)
    np.testing.assert_allclose(seen["rail.travel"], seen["mass.x"] - 1.2, atol=1e-12)


def test_a_contact_is_a_force_too(run, seen):
    load = run.force("floor")
    assert load.tension is None
    loads = run.contact("floor")
    np.testing.assert_allclose(seen["floor.normal_force"], loads.normal_force)
    np.testing.assert_allclose(seen["floor.gap"], loads.gap)
    np.testing.assert_allclose(seen["floor.friction_force"], np.abs(loads.friction))
    close(seen["floor.slip_speed"], seen["disc.vx"])
    np.testing.assert_allclose(load.force[:, 0], np.stack([-seen["floor.friction_force"], seen["floor.normal_force"]], 1), atol=1e-9)
    np.testing.assert_allclose(seen["floor.normal_force"], GRAVITY, rtol=1e-6)


def test_a_hinge_counts_full_turns_even_between_distant_rows(run, seen):
    t = np.asarray(run.ts)
    angle, rate, acceleration = turning(t)
    assert angle[-1] > 2 * np.pi
    hinge = run.joint("hinge")
    assert hinge.travel is None
    np.testing.assert_allclose(hinge.angle, angle, atol=1e-8)  # the drive holds it
    for name in ("hinge.angle", "drive.angle", "rod.angle"):
        np.testing.assert_allclose(seen[name], angle, atol=1e-8)
    close(hinge.rate, rate)
    few = np.array([0, len(t) // 2, len(t) - 1])
    sparse = jax.tree.map(lambda leaf: leaf[few], run.states)
    assert np.max(np.diff(angle[few])) > np.pi
    np.testing.assert_allclose(eqx.filter_jit(observe)(run.system, sparse, ["hinge.angle"])["hinge.angle"], angle[few], atol=1e-8)
    torque = 4.0 * acceleration + 3.0 * GRAVITY * np.cos(angle)
    # HHT answers a change of its step by a ringing of accelerations and multipliers, some parts in a thousand here.
    close(seen["drive.tz"][5:], torque[5:], error=3e-3)
    close(seen["drive.power"][5:], (torque * rate)[5:], error=3e-3)


def test_a_point_of_a_body_moves_with_it(run, seen):
    angle, rate, acceleration = (part[:, None] for part in turning(np.asarray(run.ts)))
    along, across = np.concatenate([np.cos(angle), np.sin(angle)], 1), np.concatenate([-np.sin(angle), np.cos(angle)], 1)
    point = run.point("rod", (0.5, 0.2))
    np.testing.assert_allclose(point.position, 1.5 * along + 0.2 * across, atol=1e-8)
    close(point.velocity, rate * (1.5 * across - 0.2 * along))
    expected = acceleration * (1.5 * across - 0.2 * along) - rate**2 * (1.5 * along + 0.2 * across)
    close(point.acceleration[5:], expected[5:], error=3e-3)
    np.testing.assert_allclose(seen["rod.point(0.5,0.2).x"], point.position[:, 0])
    np.testing.assert_allclose(seen["rod.point(0.5,0.2).vy"], point.velocity[:, 1])
    np.testing.assert_allclose(seen["rod.point(0.5,0.2).ax"], point.acceleration[:, 0])
    rotation = np.asarray(run.rotation("rod"))
    np.testing.assert_allclose(rotation, np.stack([along, across], 2), atol=1e-8)
    by_parameter = jax.jacfwd(lambda x: run.point("rod", jnp.stack([x, 0.2])).position[-1])(0.5)
    np.testing.assert_allclose(by_parameter, rotation[-1, :, 0], atol=1e-12)


def test_points_and_angular_velocities_in_space():
    """Along a given motion, a disc that rolls about its axis while that precesses: angular velocity in the ground's axes and in the disc's, and
    a point off the axis, by the kinematics of rigid bodies."""
    precession, lean, spin, local = 1.7, 0.6, -4.0, np.array([0.3, -0.2, 0.5])
    system = mbd.Model([mbd.RigidBody("disc", 1.0, (1.0, 1.0, 2.0))], forces=[mbd.Gravity((0.0, 0.0, -GRAVITY))]).build()
    times = np.linspace(0.0, 2.0, 9)

    def place(t):
        about = lambda axis, angle: jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) * jnp.asarray(axis)])  # noqa: E731
        turned = after(
            after(about((0.0, 0.0, 1.0), precession * t), about((1.0, 0.0, 0.0), jnp.asarray(lean))), about((0.0, 0.0, 1.0), spin * t)
        )
        return jnp.concatenate([jnp.stack([t**2, 3.0 * t, -(t**3)]), turned])

    def state(t):
        rate = lambda t: jax.jvp(place, (t,), (jnp.ones(()),))[1]  # noqa: E731
        v, a = jax.jvp(rate, (t,), (jnp.ones(()),))
        return mbd.State(t, place(t), v, system.x0, jnp.zeros(len(system.row_lengths())), a, system.x0, first_memory(system))

    states = jax.jit(jax.vmap(state))(jnp.asarray(times))
    last = jax.tree.map(lambda leaf: leaf[-1], states)
    run = mbd.Solution(system, states, last, {}, mbd.RESULTS.successful, jnp.zeros((), jnp.int32), jnp.zeros(0))

    up = np.array([0.0, 0.0, 1.0])
    leaning = Rotation.from_euler("z", precession * times[:, None]) * Rotation.from_euler("x", lean)
    rotation = (leaning * Rotation.from_euler("z", spin * times[:, None])).as_matrix()
    axis = leaning.apply(up)
    omega, change, arm = precession * up + spin * axis, precession * spin * np.cross(up, axis), rotation @ local
    np.testing.assert_allclose(run.rotation("disc"), rotation, atol=1e-14)
    np.testing.assert_allclose(run.angular_velocity("disc"), omega, atol=1e-13)
    np.testing.assert_allclose(run.angular_velocity("disc", axes="body"), np.einsum("tij,ti->tj", rotation, omega), atol=1e-13)
    np.testing.assert_allclose(run.angular_velocity("disc", axes="body") @ up, precession * np.cos(lean) + spin, atol=1e-13)
    point, t, none = run.point("disc", local), times, np.zeros_like(times)
    np.testing.assert_allclose(point.position, np.stack([t**2, 3 * t, -(t**3)], 1) + arm, atol=1e-13)
    np.testing.assert_allclose(point.velocity, np.stack([2 * t, 3 + none, -3 * t**2], 1) + np.cross(omega, arm), atol=1e-13)
    inward = np.cross(change, arm) + np.cross(omega, np.cross(omega, arm))
    np.testing.assert_allclose(point.acceleration, np.stack([2 + none, none, -6 * t], 1) + inward, atol=1e-12)


# --- numbers of a run ---------------------------------------------------------------------------------------------------------------------


def test_reducers_make_one_number_of_a_run(run, seen):
    t, values = np.asarray(run.ts), {reducer: float(seen[f"{reducer}:mass.vx"]) for reducer in REDUCERS}
    rows = np.asarray(run.velocity("mass"))[:, 0]
    assert values["max"] == rows.max()
    assert values["min"] == rows.min()
    assert values["range"] == rows.max() - rows.min()
    assert values["final"] == rows[-1]
    # Half a period in, the mass is fastest between two rows: the rate is greatest where a' = 0.
    dense = oscillation(np.linspace(0.0, t[-1], 100_001))[1]
    for reducer, expected in (("peak", dense.max()), ("trough", dense.min()), ("mean", dense.mean()), ("rms", np.sqrt(np.mean(dense**2)))):
        np.testing.assert_allclose(values[reducer], expected, atol=2 * SECOND_ORDER * np.abs(dense).max())
    assert values["peak"] >= values["max"]


def test_slopes_of_a_parabola_are_exact_whatever_the_rows():
    ts = np.array([0.0, 0.1, 0.35, 0.4, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(slopes(ts, 3.0 * ts**2 - ts)[:5], 6.0 * ts[:5] - 1.0, atol=1e-12)
    np.testing.assert_allclose(slopes(ts[3:5], 2.0 * ts[3:5]), 2.0)
    np.testing.assert_allclose(slopes(ts[:1], ts[:1]), 0.0)


def test_every_name_of_the_list_can_be_observed_and_has_a_unit(run, system, seen):
    names = system.observable_names()
    assert run.observable_names() == names == list(seen)[: len(names)]
    assert len(set(names)) == len(names)
    for name in names:
        assert seen[name].shape == run.ts.shape
        assert np.all(np.isfinite(seen[name])), name
        assert system.observable_unit(name) == system.observable_unit(f"rms:{name}") != ""
    for name, unit in (
        ("rod.wz", "rad/s"),
        ("hinge.fx", "N"),
        ("floor.gap", "m"),
        ("peak:drive.power", "W"),
        ("rod.point(1,0).ax", "m/s^2"),
    ):
        assert system.observable_unit(name) == unit


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rood.x", "unknown observable 'rood.x'. Did you mean 'rod.x'?"),
        ("rod.angel", "'rod': unknown observable 'angel'. Did you mean 'angle'?"),
        ("rod.z", "'rod': unknown observable 'z'."),
        ("peek:rod.x", "unknown reducer 'peek'. Did you mean 'peak'?"),
        ("spring.stiffness", "'spring.stiffness' is a parameter, which no run changes"),
        ("rod.point(1,0,0).x", "'rod.point(1,0,0)': give 2 numbers"),
        ("rod.point(1,a).x", "'rod.point(1,a)': give 2 numbers"),
        ("rod.point(1,0).angle", "unknown quantity of a point 'angle'"),
        ("mass.point(1,0).x", "'mass': unknown observable"),
        (3, "must be a string such as 'rod.x', got 3"),
    ],
)
@pytest.mark.usefixtures("annotations_unchecked")
def test_a_name_that_means_nothing_is_told_the_nearest_that_does(system, name, message):
    with pytest.raises(
        ValueError, match="^" + "".join(rf"\{c}" if c in "().?" else c for c in message) if isinstance(name, str) else message
    ):
        system.observable_unit(name)


def test_questions_that_make_no_sense_are_refused(run):
    for ask, message in (
        (lambda: run.force("hinge"), "unknown force 'hinge'"),
        (lambda: run.joint("spring"), "unknown joint 'spring'"),
        (lambda: run.rotation("mass"), "body 'mass' is a point mass"),
        (lambda: run.point("mass", (0.0, 0.0)), "body 'mass' is a point mass"),
        (lambda: run.point("rod", (0.0, 0.0, 1.0)), "point of body 'rod': expected an array of shape"),
        (lambda: run.angular_velocity("rod", axes="rod"), "axes must be 'ground' or 'body'"),
        (lambda: eqx.tree_at(lambda s: s.states.t, run, run.ts[None]).observe("rod.x"), "this is a batch of runs: ask inside jax.vmap"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


# --- derivatives --------------------------------------------------------------------------------------------------------------------------


def test_observables_have_derivatives_and_batches():
    mass = mbd.PointMass("mass", MASS, (1.2, 0.0))
    system = mbd.Model([mass], [], [mbd.SpringDamper("spring", mbd.ground, mass, (0, 0), (1.2, 0), STIFFNESS, DAMPING, 1.0)]).build()
    names = ["peak:mass.vx", "final:spring.supplied", "rms:spring.force"]

    def number(stiffness, weights):
        run = mbd.simulate(system.set({"spring.stiffness": stiffness}), 1.0, integrator=mbd.ExplicitNystrom(), step=5e-3)
        return weights @ jnp.stack(list(run.observe(names).values()))

    step, each = 1e-3, jnp.eye(len(names))
    stiffness = jnp.repeat(STIFFNESS + step * jnp.array([-1.0, 0.0, 1.0]), len(names))
    values, slope = (part.reshape(3, -1) for part in jax.jit(jax.vmap(jax.value_and_grad(number)))(stiffness, jnp.tile(each, (3, 1))))
    # Central differences: the third derivative by the stiffness counts 1e-10 of the first, rounding 1e-10 of the value.
    np.testing.assert_allclose(slope[1], (values[2] - values[0]) / (2 * step), rtol=1e-6, atol=1e-9)


def test_no_derivative_is_lost_at_rest():
    """Zero length, zero slip, zero force, zero speed: where norms and angles have corners."""
    mass, disc = mbd.PointMass("mass", 1.0, (0.0, 0.0)), mbd.PlanarBody("disc", 1.0, 1.0, (0.0, 0.1))
    law, friction = mbd.LinearContact(1e4, 10.0), mbd.Coulomb(0.3)
    system = mbd.Model(
        [mass, disc],
        [mbd.Revolute("hinge", mbd.ground, disc, (0.0, 0.1), penalty=mbd.Penalty(1e3, 1.0))],
        [
            mbd.SpringDamper("spring", mbd.ground, mass, (0, 0), (0, 0), 10.0, 1.0),
            mbd.DiscLine("floor", disc, mbd.ground, (0.0, 0.1), 0.1, (0, 0), (0, 1), law, friction),
        ],
    ).build()
    q, v, x = system.q0, system.v0, system.x0
    memory = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), first_memory(system))
    names = ["mass.speed", "rms:mass.speed", "peak:mass.speed", "hinge.force", "hinge.angle", "spring.length", "spring.force"]
    names += ["floor.gap", "floor.slip_speed", "floor.friction_force", "energy.error"]

    def look(q, v):
        q, v, none = (jnp.stack([u, u]) for u in (q, v, x))
        return observe(system.prepare(), mbd.State(jnp.array([0.0, 1.0]), q, v, none, none, 0 * v, none, memory), names)

    along = tuple(jnp.asarray(part) for part in np.random.default_rng(0).normal(size=(2, *q.shape)))
    _, slopes = jax.jit(lambda q, v: jax.jvp(look, (q, v), along))(q, v)
    for name, slope in slopes.items():
        assert np.all(np.isfinite(slope)), name


# --- joints in space ----------------------------------------------------------------------------------------------------------------------


def turn(axis, angle):
    """Euler parameters."""
    axis = np.asarray(axis, float) / np.linalg.norm(axis)
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * axis)])


def after(p, q):
    """The rotation p after the rotation q."""
    return jnp.concatenate([(p[0] * q[0] - p[1:] @ q[1:])[None], p[0] * q[1:] + q[0] * p[1:] + jnp.cross(p[1:], q[1:])])


def test_joints_in_space_show_their_angles_and_travel_and_rates_are_their_derivatives():
    body = lambda name, at: mbd.RigidBody(name, 1.0, (1.0, 1.0, 1.0), at)  # noqa: E731
    fork, sleeve, table, nut = body("fork", (1, 0, 0)), body("sleeve", (0, 2, 0)), body("table", (0, 0, 3)), body("nut", (4, 0, 0))
    axis, soft = np.array([1.0, 2.0, -2.0]) / 3, mbd.Penalty(1.0, 0.0)  # nothing to assemble: the bodies stand where they are put
    system = mbd.Model(
        [fork, sleeve, table, nut],
        [
            mbd.Universal("cardan", mbd.ground, fork, (0, 0, 0), (0, 0, 1), (0, 1, 0), penalty=soft),
            mbd.Cylindrical("guide", mbd.ground, sleeve, (0, 2, 0), axis, penalty=soft),
            mbd.Planar("floor", mbd.ground, table, (0, 0, 3), (0, 0, 1), penalty=soft),
            mbd.Screw("thread", mbd.ground, nut, (4, 0, 0), (1, 0, 0), 0.1, penalty=soft),
            mbd.Gear("gear", "sleeve", "nut", axis, (1, 0, 0), ratio=2.0, penalty=soft),
            mbd.RackAndPinion("rack", "sleeve", "table", axis, (1, 0, 0), radius=0.5, penalty=soft),
        ],
    ).build()
    about = after(turn((0, 0, 1), 0.7), turn((0, 1, 0), -0.4))  # first about b's axis, which the first axis then carries along
    places = {
        "fork": np.array([*(rotation_matrix(about) @ np.array([1.0, 0, 0])), *about]),
        "sleeve": np.array([*(np.array([0, 2, 0]) + 0.3 * axis), *turn(axis, 1.1)]),
        "table": np.array([0.2, -0.5, 3.0, *turn((0, 0, 1), -0.9)]),
        "nut": np.array([4.0 + 0.1 / 4, 0, 0, *turn((1, 0, 0), np.pi / 2)]),
    }
    matrix = np.asarray(rotation_matrix(about))
    rates = np.array([0.8, -1.3])
    spin = rates[0] * np.array([0, 0, 1.0]) + rates[1] * matrix[:, 1]
    rng = np.random.default_rng(1)
    speeds = {name: rng.normal(size=7) for name in places} | {
        "fork": np.array([0, 0, 0, *0.5 * np.asarray(from_ground(jnp.asarray(about), jnp.asarray(spin)))])
    }
    q, v = (jnp.asarray(np.concatenate([part[name] for name in system.body_names])) for part in (places, speeds))
    q, v = system.normalize(q, v)
    names = [
        name for name in system.observable_names() if name.rpartition(".")[2].rstrip("12") in ("angle", "rate", "travel", "travel_rate")
    ]

    def look(q, v):
        state = mbd.State(jnp.zeros(()), q, v, system.x0, jnp.zeros(len(system.row_lengths())), v, system.x0, first_memory(system))
        seen = observe(system.prepare(), jax.tree.map(lambda leaf: leaf[None], state), names)
        return {name: value[0] for name, value in seen.items()}

    seen, slope = jax.jit(lambda q, v: jax.jvp(look, (q, v), (v, jnp.zeros_like(v))))(q, v)
    expected = {
        "cardan.angle1": 0.7,
        "cardan.angle2": -0.4,
        "guide.angle": 1.1,
        "guide.travel": 0.3,
        "floor.angle": -0.9,
        "thread.angle": np.pi / 2,
        "thread.travel": 0.025,
        "gear.angle1": 1.1,
        "gear.angle2": np.pi / 2,
        "rack.angle": 1.1,
        "rack.travel": 0.2,
    }
    for name, value in expected.items():
        np.testing.assert_allclose(seen[name], value, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(np.hypot(seen["floor.travel1"], seen["floor.travel2"]), np.hypot(0.2, 0.5))
    for name in ("guide.travel", "floor.travel1", "floor.travel2", "thread.travel", "rack.travel"):
        np.testing.assert_allclose(slope[name], seen[name.replace("travel", "travel_rate")], atol=1e-12, err_msg=name)
    # An angle changes by the rotation about its axis only as far as the joint holds the axes together: the fork's velocity obeys its joint.
    for i, rate in enumerate(rates, 1):
        np.testing.assert_allclose([seen[f"cardan.rate{i}"], slope[f"cardan.angle{i}"]], rate, atol=1e-12)


# --- a class brings its own ---------------------------------------------------------------------------------------------------------------


class Flywheel(mbd.AbstractSystem):
    """A wheel with a brake, as equations, and observables that this class alone knows."""

    q0: jax.Array
    v0: jax.Array
    observables: ClassVar[dict[str, mbd.Observable]] = {
        "momentum": mbd.Observable("kg m^2/s", lambda at: 3.0 * at.state.v[0]),
        "turned": mbd.Observable("rad", flow=lambda at: at.state.v[0]),
    }

    def mass(self, q):
        return 3.0 * jnp.eye(1)

    def force(self, q, v, t):
        return -1.5 * v

    def potential_energy(self, q, t):
        return 0.0 * t

    def coordinate_lengths(self):
        return (False,)


def test_equations_bring_their_own_observables_and_have_an_energy_balance_too():
    wheel = Flywheel(jnp.array([1.0]), jnp.array([2.0]))
    assert wheel.observable_names()[:4] == ["momentum", "turned", "q[0]", "v[0]"]
    assert wheel.observable_unit("turned") == "rad"
    assert wheel.observable_unit("peak:v[0]") == "rad/s"
    run = mbd.simulate(wheel, 2.0, integrator=mbd.Verlet(), step=0.01)
    speed = 2.0 * np.exp(-0.5 * np.asarray(run.ts))
    # Second order: h^2 of a rate of 0.5 / s.
    seen = run.observe(["momentum", "turned", "final:q[0]", "forces.supplied"])
    np.testing.assert_allclose(seen["momentum"], 3.0 * speed, rtol=1e-4)
    np.testing.assert_allclose(seen["turned"], 4.0 - 2.0 * speed, atol=1e-4)
    assert seen["final:q[0]"] == run.q[-1, 0]
    np.testing.assert_allclose(seen["forces.supplied"], 1.5 * speed**2 - 6.0, atol=6e-4)
    np.testing.assert_array_equal(run.work()["forces"].supplied, seen["forces.supplied"])
    with pytest.raises(ValueError, match=r"unknown observable 'moment'. Did you mean 'momentum'\?"):
        run.observe("moment")


# --- plots --------------------------------------------------------------------------------------------------------------------------------


def test_a_plot_shows_what_is_named(run, tmp_path):
    figure = mbd.view.plot(run, tmp_path / "plot.svg", observe=["hinge.angle", "drive.angle", "spring.force"])
    panels = {axes.get_ylabel(): [line.get_label() for line in axes.lines] for axes in figure.axes}
    assert panels["[rad]"] == ["hinge.angle", "drive.angle"]
    assert panels["[N]"] == ["spring.force"]
    with pytest.raises(ValueError, match=r"'final:rod\.x' is one number for the whole run, not a curve: leave the reducer out"):
        mbd.view.plot(run, tmp_path / "plot.svg", observe="final:rod.x")


def test_a_name_without_a_quantity_is_told_some(run):
    with pytest.raises(ValueError, match=r"'rod' names no quantity: write for example 'rod\.x', one of x, y"):
        run.observe("rod")
