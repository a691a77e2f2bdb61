"""Joints that hold velocities, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

SLOPE, SPIN, MASS = 3.0, 2.0, 2.0


def skate():
    """A skate with its edge under the centre of mass on an incline along x, turning freely: it draws a cycloid across the slope."""
    sledge = mbd.PlanarBody("sledge", MASS, 0.3, position=(0, 0), angular_velocity=SPIN)
    return mbd.Model([sledge], [mbd.KnifeEdge("edge", mbd.ground, sledge, (0, 0), (0, 1))], [mbd.Gravity((SLOPE, 0))])


def cycloid(t, spin=SPIN):
    """Position, and the force across the edge."""
    turned = spin * t
    x, y = np.sin(turned) ** 2, turned - np.sin(turned) * np.cos(turned)
    return np.stack([x, y], axis=-1) * SLOPE / (2 * spin**2), 2 * MASS * SLOPE * np.sin(turned)


class Skate(mbd.AbstractSystem):
    """The same as equations of a user."""

    q0: jax.Array
    v0: jax.Array

    def __init__(self, spin=SPIN):
        self.q0, self.v0 = jnp.zeros(3), jnp.array([0.0, 0.0, 1.0]) * spin

    def mass(self, q):
        return jnp.diag(jnp.array([MASS, MASS, 0.3]))

    def force(self, q, v, t):
        return jnp.array([MASS * SLOPE, 0.0, 0.0])

    def velocity_constraint(self, q, v, t):
        return (jnp.cos(q[2]) * v[1] - jnp.sin(q[2]) * v[0])[None]


@pytest.mark.parametrize("integrator", [mbd.HHT(1e-5), mbd.BDF(1e-5)], ids=["hht", "bdf"])
def test_a_skate_draws_a_cycloid(integrator):
    run = mbd.simulate(skate(), 3.0, integrator=integrator)
    place, force = cycloid(np.asarray(run.ts))
    np.testing.assert_allclose(run.position("sledge")[:, :2], place, atol=5e-4)
    across = -np.sin(run.q[:, 2]) * run.observe("edge.fx") + np.cos(run.q[:, 2]) * run.observe("edge.fy")
    np.testing.assert_allclose(across, force, atol=2e-2)
    np.testing.assert_allclose(run.energy().total, run.energy().total[0], atol=2e-3)


def test_equations_of_one_s_own_are_second_order_and_differentiate():
    def end(spin, step=0.02):
        return mbd.simulate(Skate(spin), 1.0, integrator=mbd.HHT(1e-9), step=step).final

    exact, force = cycloid(1.0)
    errors = [np.append(final.q[:2] - exact, abs(final.multipliers[0]) - force) for final in (end(SPIN), end(SPIN, 0.01))]
    assert np.all(np.log2(np.abs(errors[0] / errors[1])) > 1.8)
    _, slope = jax.jvp(lambda spin: end(spin).q, (SPIN,), (1.0,))
    backward = jax.grad(lambda spin: end(spin).q[1])(SPIN)
    change = 1e-4
    expected = (end(SPIN + change).q - end(SPIN - change).q) / (2 * change)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)
    np.testing.assert_allclose(backward, expected[1], rtol=1e-6)


def rolling_disc(lean=0.3, circle=1.0, radius=0.3, mass=0.5, gravity=9.81):
    """A thin disc that leans inwards and rolls in a circle; and its rate about the vertical.

    Torques about the centre, with the moments C about the axis and A across it: rate^2 [(C/r + m r) R + A sin lean] cos lean = m g r sin lean.
    """
    axial, across = 0.5 * mass * radius**2, 0.25 * mass * radius**2
    sine, cosine = np.sin(lean), np.cos(lean)
    rate = np.sqrt(gravity * mass * radius * sine / (cosine * ((axial / radius + mass * radius) * circle + across * sine)))
    axis = np.array([cosine, 0.0, sine])
    disc = mbd.RigidBody(
        "disc",
        mass,
        (axial, across, across),
        position=(circle, 0.0, radius * cosine),
        orientation=(np.cos(lean / 2), 0.0, -np.sin(lean / 2), 0.0),
        velocity=(0.0, rate * circle, 0.0),
        angular_velocity=rate * np.array([0.0, 0.0, 1.0]) - rate * (circle / radius + sine) * axis,
    )
    rim = mbd.RollingDisc("rim", mbd.ground, disc, radius, axis, (0, 0, 0), (0, 0, 1))
    return mbd.Model([disc], [rim], [mbd.Gravity((0, 0, -gravity))]), rate


def test_a_disc_rolls_in_a_steady_circle():
    model, rate = rolling_disc()
    run = mbd.simulate(model, np.pi / rate, integrator=mbd.HHT(1e-4))
    turned = rate * np.asarray(run.ts)
    expected = np.stack([np.cos(turned), np.sin(turned), np.full_like(turned, 0.3 * np.cos(0.3))], axis=1)
    np.testing.assert_allclose(run.position("disc"), expected, atol=1e-3)
    np.testing.assert_allclose(run.observe("rim.fz"), 0.5 * 9.81, rtol=1e-3)
    np.testing.assert_allclose(run.observe("rim.fx"), -0.5 * rate**2 * np.cos(turned), atol=5e-3)
    assert np.max(run.observe("rim.torque")) < 1e-8  # it touches in a point
    assert np.max(run.constraint_violation()) < 1e-9
    refusals = [
        (lambda: mbd.simulate(model, 0.1, integrator=mbd.RosenbrockNystrom()), "RosenbrockNystrom cannot hold velocities alone"),
        (lambda: mbd.simulate(model, 0.1, integrator=mbd.Verlet(), step=1e-3), "Verlet cannot hold velocities alone, as joint 'rim' does"),
        (lambda: mbd.equilibrium(model), "equilibrium cannot hold velocities alone, as joint 'rim' does"),
    ]
    for ask, message in refusals:
        with pytest.raises(ValueError, match=message):
            ask()


def test_a_start_is_made_consistent_and_says_so():
    sledge = mbd.PlanarBody("sledge", MASS, 0.3, position=(0, 0), velocity=(1.0, 0.5))
    model = mbd.Model([sledge], [mbd.KnifeEdge("edge", mbd.ground, sledge, (0, 0), (0, 1))])
    with pytest.warns(UserWarning, match="initial velocities do not fit the joints 'edge'"):
        system = model.build()
    start = mbd.simulate(system, 0.0).final
    np.testing.assert_allclose(start.v, (1.0, 0.0, 0.0), atol=1e-12)


def test_a_disc_that_lies_flat_is_refused():
    coin = mbd.RigidBody("coin", 1.0, (1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="joint 'rim': the disc lies flat on its plane"):
        mbd.Model([coin], [mbd.RollingDisc("rim", mbd.ground, coin, 0.1, (0, 0, 1), (0, 0, 0), (0, 0, 1))]).build()
