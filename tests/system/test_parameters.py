"""Parameters by name: every one can be read and set, under every transformation, and reaches forces and geometry."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.system.faults.validity import expectations, first_unusable

from .numpy_mechanics import unit


class Ramp(eqx.Module):
    """A function of time with parameters."""

    rate: jax.Array
    offset: float

    def __call__(self, t):
        return self.rate * t + self.offset


class Lag(eqx.Module):
    time: jax.Array

    def __call__(self, a, b, t, x):
        return -x / self.time


class Pull(eqx.Module):
    ramp: Ramp
    gain: jax.Array

    def __call__(self, a, b, t, x):
        return self.gain * self.ramp(t) * (b.position - a.position) + x, jnp.zeros(3)


X, Y, Z = np.eye(3)
P = np.array([0.3, 0.2, 0.1])


@pytest.fixture(scope="module")
def system() -> mbd.System:
    """One of everything."""
    turned = unit([0.8, 0.3, -0.4, 0.3])
    bodies = [mbd.RigidBody(f"body {i}", 1.0 + i, (0.2, 0.3, 0.4), i * X + 0.1 * Y, turned) for i in range(4)]
    bodies.append(mbd.PointMass("bob", 0.5, (0.0, 1.0, 1.0)))
    a, b, c, d, bob = bodies
    joints = [
        mbd.Revolute("hinge", mbd.ground, a, P, Z),
        mbd.Universal("cross", a, b, P + X, X, Y),
        mbd.Revolute("soft", mbd.ground, c, P, X, penalty=mbd.Penalty(1e5, 10.0, rotational_damping=5.0)),
        mbd.Screw("thread", mbd.ground, d, P, Y, 0.1),
        mbd.Gear("gear", a, b, Z, Z, 2.0),
        mbd.Distance("rod", c, bob, P, bob.position),
        mbd.Motion("drive", mbd.ground, d, axis=Y, function=Ramp(jnp.array(0.0), 0.0)),
    ]
    law = mbd.ForceFunction("law", a, c, Pull(Ramp(jnp.array(1.0), 2.0), jnp.array(3.0)), state=(0, 0, 0), rate=Lag(jnp.array(0.5)))
    forces = [
        mbd.Gravity((0.0, 0.0, -9.81)),
        mbd.SpringDamper("spring", a, d, P, P + Y, 50.0, 1.0, 0.4),
        mbd.SpringDamper("other spring", mbd.ground, bob, P, bob.position, 20.0, 2.0, 0.1),
        mbd.TorsionSpringDamper("spiral", mbd.ground, a, Z, 5.0, 0.1, 0.2),
        mbd.Bushing("mount", mbd.ground, c, P, np.arange(1.0, 7.0)),
        mbd.PointForce("push", b, P, (1.0, 2.0, 3.0)),
        mbd.Torque("twist", b, (0.1, 0.2, 0.3), axes="body"),
        law,
    ]
    return mbd.Model(bodies, joints, forces).build()


NAMES = {
    *("body 2.mass", "body 2.inertia", "body 2.position", "body 2.orientation", "body 2.velocity", "body 2.angular_velocity"),
    *("bob.mass", "bob.position", "bob.velocity", "hinge.point", "hinge.axis", "cross.axis1", "cross.axis2", "thread.pitch"),
    *("soft.penalty.stiffness", "soft.stiffness", "soft.rotational_damping", "gear.ratio", "gear.axis_a", "rod.point1"),
    *("drive.function.rate", "drive.offset", "spring.stiffness", "spring.free_length", "spring.point1", "spiral.free_angle"),
    *("mount.stiffness", "push.value", "twist.value", "law.gain", "law.state", "law.time", "law.rate.time"),
    *("law.function.ramp.offset", "law.ramp.rate", "gravity.acceleration"),
}


def test_every_number_has_a_name(system):
    for name in NAMES:
        system.get(name)


def test_each_parameter_is_listed_once_by_its_shortest_name(system):
    """A Module of a person's own may have fields of any name: where a short one is taken, the long one is listed."""
    names = system.parameter_names()
    assert {"soft.stiffness", "drive.rate", "law.time", "law.ramp.rate", "law.gain"} <= set(names)
    assert not {"soft.penalty.stiffness", "drive.function.rate", "law.rate.time", "law.function.gain"} & set(names)
    law, friction = mbd.HuntCrossley(1e6, 0.1, 1.4), mbd.LuGre(1e4, 0.3, 0.2, exponent=1.5)
    ball = mbd.RigidBody("ball", 1.0, (1.0, 1.0, 1.0), (0.0, 0.0, 1.0))
    floor = mbd.SpherePlane("floor", ball, mbd.ground, 1.0, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), law, friction)
    both = mbd.Model([ball], forces=[floor]).build()
    assert {"floor.exponent", "floor.friction.exponent"} <= set(both.parameter_names())
    assert (float(both.get("floor.exponent")), float(both.get("floor.friction.exponent"))) == (1.4, 1.5)


def other(value: np.ndarray) -> np.ndarray:
    """Another acceptable value of any parameter: inertias, axes, lengths and stiffnesses stay what they must be."""
    return 1.5 * value


def test_every_parameter_comes_back_as_it_was_set_and_no_other_changes(system):
    names = system.parameter_names()
    before = {name: np.asarray(system.get(name)) for name in names}
    changed = system.set({name: other(value) for name, value in before.items()})
    for name, value in before.items():
        np.testing.assert_allclose(changed.get(name), other(value), err_msg=name)
    one = system.set({"spring.stiffness": 7.0})
    for name, value in before.items():
        np.testing.assert_array_equal(one.get(name), 7.0 if name == "spring.stiffness" else value, err_msg=name)
    assert jax.tree.structure(one) == jax.tree.structure(system)


def test_short_and_long_names_are_the_same_parameter(system):
    changed = system.set({"drive.rate": 3.0, "soft.penalty.damping": 4.0})
    assert float(changed.get("drive.function.rate")) == 3.0
    assert float(changed.get("soft.damping")) == 4.0


def test_three_numbers_set_an_inertia(system):
    np.testing.assert_allclose(system.set({"body 1.inertia": (1.0, 2.0, 2.5)}).get("body 1.inertia"), np.diag([1, 2, 2.5]))


# --- derivatives ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> mbd.System:
    """A pendulum with a spring, a user's force, and a second body on a soft joint."""
    turned = unit([0.8, 0.3, -0.4, 0.3])
    a, b = (mbd.RigidBody(f"body {i}", 1.0 + i, (0.2, 0.3, 0.4), i * X + 0.1 * Y, turned) for i in range(2))
    joints = [
        mbd.Revolute("hinge", mbd.ground, a, P, Z),
        mbd.Revolute("soft", mbd.ground, b, P, X, penalty=mbd.Penalty(1e2, 1.0)),
    ]
    law = Pull(Ramp(jnp.array(1.0), 2.0), jnp.array(3.0))
    forces = [
        mbd.Gravity((0.0, 0.0, -9.81)),
        mbd.SpringDamper("spring", a, b, P, P + Y, 50.0, 1.0, 0.4),
        mbd.ForceFunction("law", a, b, law, state=(0, 0, 0), rate=Lag(jnp.array(0.5))),
    ]
    return mbd.Model([a, b], joints, forces).build()


REACHED = (
    *("spring.stiffness", "spring.free_length", "spring.point1", "body 0.mass", "body 1.position", "hinge.point"),
    *("soft.stiffness", "law.gain", "law.ramp.rate", "gravity.acceleration"),
)


def measure(system, values) -> jax.Array:
    """A number that depends on all of them: forces and constraint rows away from the start."""
    changed = system.set(values)
    q, v = system.q0 + jnp.sin(jnp.arange(system.q0.size)) / 20, jnp.cos(jnp.arange(system.q0.size))
    t, x = jnp.asarray(0.3), changed.x0 + 0.1
    load, rows = changed.force(q, v, t, x) + changed.stiff_force(q, v, t, x), changed.constraint(q, t)
    return load @ jnp.cos(jnp.arange(load.size)) + 100.0 * rows @ jnp.sin(jnp.arange(rows.size))


@pytest.fixture(scope="module")
def measured():
    return eqx.filter_jit(measure)


def test_gradients_by_name_equal_central_differences(small, measured):
    """The measure is smooth and of size 1e3: differences of 1e-5 leave 1e-7 of rounding and 1e-8 of curvature."""
    values = {name: jnp.asarray(small.get(name)) for name in REACHED}
    gradient = eqx.filter_jit(jax.grad(measure, argnums=1))(small, values)
    for name, value in values.items():
        for index in np.ndindex(value.shape):
            step = 1e-5 * (1.0 + abs(float(value[index])))
            ahead, behind = (float(measured(small, values | {name: value.at[index].add(s)})) for s in (step, -step))
            difference = (ahead - behind) / (2 * step)
            np.testing.assert_allclose(gradient[name][index], difference, rtol=1e-5, atol=1e-5, err_msg=f"{name} {index}")
        assert np.any(np.abs(np.asarray(gradient[name])) > 1e-3), name


def test_a_batch_of_settings_is_many_single_ones(small, measured):
    values = {name: jnp.asarray(small.get(name)) for name in REACHED}
    masses = jnp.linspace(1.0, 3.0, 5)
    together = jax.jit(jax.vmap(lambda mass: measure(small, values | {"body 0.mass": mass})))(masses)
    single = [float(measured(small, values | {"body 0.mass": mass})) for mass in masses]
    np.testing.assert_allclose(together, single, rtol=1e-12)
    assert np.ptp(single) > 0.1


# --- geometry ---------------------------------------------------------------------------------------------------------


def test_a_new_value_moves_the_geometry(system):
    """Points are given in the ground frame at the initial configuration; the body's own coordinates follow from both."""

    @eqx.filter_jit
    def hinge_in_body(changed):
        prepared = changed.prepare()
        where = changed.row_slices()["hinge"]
        local = prepared.geometry.joints[where[0]]
        return local.point_b[where[1]], changed.frames(changed.q0, changed.v0)

    place = system.body_names.index("body 0")
    for change in ({"hinge.point": (0.5, 0.6, 0.7)}, {"body 0.position": (1.0, 2.0, 3.0)}):
        changed = system.set(change)
        local, frames = hinge_in_body(changed)
        carried = frames.position[place] + frames.rotation[place] @ local
        np.testing.assert_allclose(carried, changed.get("hinge.point"), atol=1e-14)


def test_the_system_of_a_solution_has_no_geometry_but_what_its_numbers_say():
    """A point that is moved by `eqx.tree_at` moves the joint, as if it had been built so; the derivative is that of the run."""
    rod = mbd.PlanarBody("rod", 1.0, 0.1, position=(0.5, 0.0))
    model = mbd.Model([rod], [mbd.Revolute("hinge", mbd.ground, rod, point=(0.0, 0.0))], [mbd.Gravity((0.0, -9.81))])

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def end(height, system):
        moved = eqx.tree_at(lambda s: s.joint_groups[0].element.point, system, jnp.stack([0.0, height])[None])
        return mbd.simulate(moved, 0.1, step=0.01).final.q[0]

    used = mbd.simulate(model, 0.02, step=0.01).system
    low, high, here, origin = (end(jnp.array(height), used) for height in (0.3 - 1e-5, 0.3 + 1e-5, 0.3, 0.0))
    np.testing.assert_array_equal(here, end(jnp.array(0.3), model.build()))
    assert abs(here[0] - origin[0]) > 1e-3
    np.testing.assert_allclose(here[1], (high[0] - low[0]) / 2e-5, rtol=1e-6)


def test_numbers_that_must_be_in_order_are_compared_after_all_are_set():
    """Also under jit, where the larger one becomes NaN."""
    ball = mbd.RigidBody("ball", 1.0, (1e-4,) * 3)
    law, friction = mbd.Hertz(1e6), mbd.Coulomb(0.1, 0.2)
    pocket = mbd.SphericalPocket("pocket", ball, mbd.ground, 0.01, 0.0101, (0.0, 0.0, 0.0), law, friction)
    system = mbd.Model([ball], forces=[pocket]).build()
    with pytest.raises(ValueError, match=r"force 'pocket': pocket_radius = 0\.009 must be larger than radius = 0\.01; the clearance"):
        system.set({"pocket.pocket_radius": 0.009})
    with pytest.raises(ValueError, match=r"force 'pocket': static = 0\.2 must not be smaller than kinetic = 0\.3; exchange them"):
        system.set({"pocket.friction.kinetic": 0.3})
    smaller = system.set({"pocket.pocket_radius": 0.0091, "pocket.radius": 0.009})
    assert float(smaller.get("pocket.radius")) == 0.009

    @jax.jit
    def traced(radius):
        changed = system.set({"pocket.pocket_radius": radius})
        return changed.get("pocket.pocket_radius"), first_unusable(changed)

    assert [float(part) for part in traced(0.011)] == [0.011, -1]
    radius, number = traced(0.009)
    assert np.isnan(radius)
    expected = r"pocket_radius of force 'pocket' must be positive, and must be larger than radius \(the clearance"
    assert re.match(expected, expectations(system)[int(number)])


# --- numbers that were left out ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="left_out")
def model_with_numbers_left_out() -> mbd.System:
    """Friction laws with one coefficient each, and a joint whose penalty has one stiffness; discs that slide at 1 m/s under known loads."""
    discs = [mbd.PlanarBody(name, 1.0, 0.1, (float(i), 0.0995), velocity=(1.0, 0.0)) for i, name in enumerate(("dry", "bristly"))]
    laws = (mbd.Coulomb(0.1), mbd.LuGre(1e4, 0.1))
    floors = [
        mbd.DiscLine(f"under {disc.name}", disc, mbd.ground, disc.position, 0.1, (0.0, 0.0), (0.0, 1.0), mbd.LinearContact(1e4), law)
        for disc, law in zip(discs, laws, strict=True)
    ]
    held = mbd.PlanarBody("held", 1.0, 0.1, angle=0.02)
    weld = mbd.Fixed("weld", mbd.ground, held, penalty=mbd.Penalty(1e3, 10.0))
    spring = mbd.SpringDamper("spring", mbd.ground, held, (1.0, 1.0), (0.0, 0.0), 10.0)
    return mbd.Model([*discs, held], [weld], [*floors, spring]).build()


def test_a_coefficient_that_was_left_out_follows_the_one_that_was_given(left_out):
    dry = left_out.set({"under dry.friction.kinetic": 0.12})
    assert float(dry.get("under dry.friction.static")) == float(dry.get("under dry.static")) == 0.12
    bristly = left_out.set({"under bristly.static": 0.09})
    assert float(bristly.get("under bristly.kinetic")) == 0.09
    welded = left_out.set({"weld.stiffness": 2e3, "weld.damping": 20.0})
    assert (float(welded.get("weld.rotational_stiffness")), float(welded.get("weld.rotational_damping"))) == (2e3, 20.0)


def test_what_follows_takes_part_in_forces_and_derivatives(left_out):
    """Friction of a sliding contact is the coefficient times its load, whatever share of it is called static."""

    @jax.jit
    def push(coefficient, stiffness, v):
        changed = left_out.set({"under dry.kinetic": coefficient, "weld.stiffness": stiffness})
        return changed.force(changed.q0 + 0.01 * jnp.eye(9)[8], v, 0.0)[jnp.array([0, 8])]

    load = 1e4 * 0.0005
    for speed in (1.0, 1e-3):  # fast, and within the Stribeck velocity
        v = jnp.zeros(9).at[0].set(speed)
        expected = -0.12 * load * speed / np.hypot(speed, 1e-3)
        friction, torque = push(0.12, 2e3, v)
        np.testing.assert_allclose(friction, expected, rtol=1e-9)
        np.testing.assert_allclose(jax.jacfwd(push)(0.12, 2e3, v)[0], expected / 0.12, rtol=1e-9)
        np.testing.assert_allclose(torque / 2e3, push(0.12, 1e3, v)[1] / 1e3, rtol=1e-9)


def test_setting_what_was_left_out_says_where_to_give_it(left_out):
    with pytest.raises(
        ValueError, match=r"'under dry.friction.static' was left out when force 'under dry' was made, so it has the value of "
    ):
        left_out.set({"under dry.friction.static": 0.2})
    with pytest.raises(
        ValueError, match=r"'weld.rotational_damping' was left out .* has the value of damping .* Give rotational_damping=\.\.\."
    ):
        left_out.set({"weld.rotational_damping": 0.2})
    for use in (lambda: left_out.set({"spring.free_length": 0.2}), lambda: left_out.get("spring.free_length")):
        with pytest.raises(
            ValueError, match=r"'spring.free_length' was left out when force 'spring' was made, so it follows from the rest"
        ):
            use()
    assert not {"under dry.static", "weld.rotational_stiffness", "spring.free_length"} & set(left_out.parameter_names())
