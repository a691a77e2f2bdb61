"""Joints held by penalties: what they do to bodies, against derivatives of their rows by the coordinates; turns of a drive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.system.rotations import from_ground

HELD = mbd.Penalty(3e4, 50.0, 200.0, 4.0)


def two_bodies(joint) -> mbd.Model:
    first = mbd.RigidBody("first", 2.0, (0.3, 0.4, 0.5), (0.1, 0.2, 0.3), velocity=(1.0, -0.5, 0.2), angular_velocity=(0.3, -1.0, 2.0))
    second = mbd.RigidBody("second", 1.0, (0.2, 0.2, 0.1), (1.0, 0.3, -0.2), velocity=(0.2, 0.7, 0.1), angular_velocity=(-2.0, 0.4, 0.9))
    return mbd.Model([first, second], [joint], [mbd.Torque("load", "first", (0.0, 0.0, 1.0))])


def joints(a) -> list:
    point, axis = (0.5, 0.2, 0.1), (0.3, 1.0, -0.4)
    return [
        mbd.Revolute("joint", a, "second", point, axis, penalty=HELD),
        mbd.Distance("joint", a, "second", (0.0, 0.0, 0.1), point, penalty=HELD),
        mbd.Screw("joint", a, "second", point, axis, 0.02, penalty=HELD),
        mbd.Motion("joint", a, "second", axis=axis, function=lambda t: 4.0 * t, penalty=HELD),
        mbd.Motion("joint", a, "second", point, axis, lambda t: 4.0 * t, coordinate="travel", penalty=HELD),
    ]


@pytest.mark.parametrize(("a", "which"), [*(("first", i) for i in range(5)), (mbd.ground, 0), (mbd.ground, 3)])
def test_a_penalty_pulls_along_the_derivatives_of_its_rows(a, which):
    """B = -M^-1 Phi_q^T (k Phi + c Phi'), away from the configuration in which all rows are zero."""
    system = two_bodies(joints(a)[which]).build().prepare()
    rng, length = np.random.default_rng(which), np.array(joints(a)[which].are_lengths())

    @jax.jit
    def both(q, v, t):
        q, v = system.normalize(q, v)
        rows = lambda q, t: system._joint_rows(q, t, penalty=True)[0].ravel()  # noqa: E731
        values, rates = jax.jvp(rows, (q, t), (v, jnp.ones(())))
        multipliers = jnp.where(length, 3e4, 200.0) * values + jnp.where(length, 50.0, 4.0) * rates
        expected = -jax.vjp(lambda q: rows(q, t), q)[1](multipliers)[0]
        return system.solve_mass(q, system.stiff_force(q, v, t)), system.solve_mass(q, expected)

    found, expected = both(system.q0 + 0.05 * rng.normal(size=14), system.v0 + 0.05 * rng.normal(size=14), jnp.asarray(0.1))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.max(np.abs(expected)))


def test_dampers_of_penalties_turn_nothing_that_turns_as_one():
    """Joints that share a point, and have been torn from it: what they do to their bodies adds up to no force and no moment, dampers too,
    and bodies that turn as one rigid body are not braked."""
    rng, point, axis = np.random.default_rng(0), (0.5, 0.2, 0.1), (0.3, 1.0, -0.4)
    bodies = [mbd.RigidBody(f"body{i}", 1.0, (0.2, 0.3, 0.4), rng.normal(size=3), rng.normal(size=4)) for i in range(8)]
    held = [
        mbd.Spherical("ball", "body0", "body1", point, penalty=HELD),
        mbd.Revolute("hinge", "body2", "body3", point, axis, penalty=HELD),
        mbd.Universal("cross", "body4", "body5", point, axis, (1.0, -0.3, 0.0), penalty=HELD),
        mbd.Fixed("weld", "body6", "body7", penalty=HELD),
    ]
    system = mbd.Model(bodies, held).build().prepare()
    q, _ = system.normalize(system.q0 + 0.05 * rng.normal(size=56), jnp.zeros(56))
    spin, places = jnp.array([3.0, -1.0, 2.0]), q.reshape(8, 7)
    as_one = jnp.concatenate([jnp.cross(spin, places[:, :3]), 0.5 * jax.vmap(from_ground, (0, None))(places[:, 3:], spin)], axis=1).ravel()
    wrench = jax.jit(lambda v: [w for _, w in system._penalties(system.frames(q, v), jnp.zeros(())).values()])
    still, whirling, apart = (wrench(v) for v in (jnp.zeros(56), as_one, system.normalize(q, as_one + rng.normal(size=56))[1]))
    for pair, (a, b, c) in enumerate(zip(still, whirling, apart, strict=True)):
        size = np.max(np.abs(c.force))
        np.testing.assert_allclose(b.force, a.force, atol=1e-12 * size)
        np.testing.assert_allclose(b.torque, a.torque, atol=1e-12 * size)
        moment = np.sum(c.torque[0] + np.cross(places[2 * pair : 2 * pair + 2, :3], c.force[0]), axis=0)
        np.testing.assert_allclose(np.sum(c.force[0], axis=0), 0.0, atol=1e-12 * size)
        np.testing.assert_allclose(moment, 0.0, atol=1e-12 * size)
        assert np.max(np.abs(c.torque - a.torque)) > 1.0


def test_a_drive_with_a_penalty_follows_full_turns():
    """Three turns and a half at 1000 rad/s against a load; a step turns by 0.02 rad, the speed is wrong by a part of the square of that."""
    speed, stiff = 1000.0, mbd.Penalty(1e10, 2e5, 1e8, 2e3)
    wheel = mbd.RigidBody("wheel", 1.0, (1e-3, 1e-3, 2e-3), angular_velocity=(0.0, 0.0, speed))
    axis = mbd.Revolute("axis", mbd.ground, wheel, (0, 0, 0), (0, 0, 1), penalty=stiff)
    drive = mbd.Motion("drive", mbd.ground, wheel, axis=(0, 0, 1), function=lambda t: speed * t, penalty=stiff)
    model = mbd.Model([wheel], [axis, drive], [mbd.Torque("load", wheel, (0.0, 0.0, -5.0))])
    run = mbd.simulate(model, 7 * np.pi / speed, integrator=mbd.SemiExplicit(0.5, 0.8), step=2e-5)
    np.testing.assert_allclose(run.angular_velocity("wheel")[-1], [0, 0, speed], atol=1e-5 * speed)
    np.testing.assert_allclose(run.states.memory.angles[-1], 7 * np.pi, rtol=1e-6)
    # In steps so short that Newton's corrections end in rounding, it neither fails nor asks for new Jacobians all the time.
    short = mbd.simulate(model, 4e-3, integrator=mbd.SemiExplicit(0.5, 0.8), step=2e-6)
    assert short.stats["steps"] == 2000
    assert max(run.stats["jacobians"], short.stats["jacobians"]) < 10
