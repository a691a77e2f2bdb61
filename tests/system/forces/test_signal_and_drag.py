"""Measured inputs and the drag of the air, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd


def test_a_signal_meets_parabolas_exactly_and_is_smooth():
    ts = np.array([0.0, 0.3, 0.4, 1.0, 1.7, 2.0])
    parabola = lambda t: 1.0 - 2.0 * t + 3.0 * t**2  # noqa: E731
    signal, at = mbd.Signal(ts, parabola(ts)), jnp.linspace(0.0, 2.0, 101)
    np.testing.assert_allclose(jax.vmap(signal)(at), parabola(at), rtol=1e-12)
    wild = mbd.Signal(ts, np.array([0.0, 1.0, -1.0, 2.0, 0.5, 0.0]))
    for derivative in (wild, jax.grad(wild), jax.grad(jax.grad(wild))):
        for knot in ts[1:-1]:
            np.testing.assert_allclose(derivative(knot - 1e-9), derivative(knot + 1e-9), atol=1e-4)
    np.testing.assert_allclose(jax.vmap(wild)(jnp.asarray(ts)), wild.values, atol=1e-12)
    assert wild(5.0) == wild.values[-1]


def test_a_signal_converges_with_the_third_order():
    errors = []
    for count in (21, 41):
        ts = np.linspace(0, 2, count)
        at = jnp.linspace(0.2, 1.8, 333)
        errors.append(np.max(np.abs(jax.vmap(mbd.Signal(ts, np.sin(3 * ts)))(at) - np.sin(3 * at))))
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 3.0, atol=0.2)


def test_a_signal_drives_a_motion_and_differentiates():
    rod = mbd.PlanarBody("rod", 1.0, 0.1)
    ts = np.linspace(0.0, 1.0, 41)
    drive = mbd.Motion("drive", mbd.ground, rod, function=mbd.Signal(ts, 0.5 * ts**2))
    system = mbd.Model([rod], [mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0)), drive], []).build()

    def torque(values):
        run = mbd.simulate(system.set({"drive.values": values}), 0.5, integrator=mbd.HHT(1e-6), saveat=mbd.SaveAt(t1=True))
        return run.observe("drive.tz")[0]

    values = system.get("drive.values")
    np.testing.assert_allclose(torque(values), 0.1 * 1.0, rtol=1e-3)  # an even angular acceleration of 1 rad/s^2
    np.testing.assert_allclose(jax.jvp(torque, (values,), (values,))[1], 0.1, rtol=1e-3)  # the torque is in proportion to the motion


@pytest.mark.parametrize(
    ("ts", "values", "message"),
    [
        ([0.0, 1.0], [0.0, 1.0], "at least three times and a value at each"),
        ([0.0, 1.0, 2.0], [0.0, 1.0], r"shapes \(3,\) and \(2,\)"),
        ([0.0, 2.0, 1.0], [0.0, 1.0, 2.0], r"must increase, sample 2 \(1 s\) does not: sort them"),
        ([0.0, 1.0, 2.0], [0.0, np.nan, 2.0], "must be finite"),
    ],
)
def test_signals_that_are_none(ts, values, message):
    with pytest.raises(ValueError, match=message):
        mbd.Signal(ts, values)


@pytest.mark.parametrize("planar", [True, False])
def test_drag_of_a_turning_arm(planar):
    """About its end: the torque is the integral of c (w s)^2 s, c w^2 l^4 / 4. At rest there is none, and no NaN."""
    length, c, w = 0.8, 0.3, -2.0
    if planar:
        rod = mbd.PlanarBody("rod", 1.0, 0.1, position=(0.4, 0.0), velocity=(0.0, 0.4 * w), angular_velocity=w)
        ends = (0, 0), (length, 0)
    else:
        rod = mbd.RigidBody("rod", 1.0, (0.01, 0.1, 0.1), position=(0.4, 0, 0), velocity=(0, 0.4 * w, 0), angular_velocity=(0, 0, w))
        ends = (0, 0, 0), (length, 0, 0)
    drag = mbd.AirDrag("drag", rod, *ends, c)
    system = mbd.Model([rod], [], [drag]).build()
    run = mbd.simulate(system, 1e-6, integrator=mbd.DormandPrince(1e-6, 1e-6))
    load = run.force("drag")
    force, torque = load.force[0, 0], load.torque[0, 0] if planar else load.torque[0, 0, 2]
    np.testing.assert_allclose(force[1], c * w**2 * length**3 / 3, rtol=1e-9)
    np.testing.assert_allclose(torque + 0.4 * force[1], c * w**2 * length**4 / 4, rtol=1e-9)

    def pull(speed):
        moving = system.set(
            {"rod.velocity": speed * jnp.ones(2 if planar else 3), "rod.angular_velocity": 0.0 * system.get("rod.angular_velocity")}
        )
        moving = moving.prepare()
        return moving.force(moving.q0, moving.v0, 0.0)[1]

    assert jax.grad(pull)(0.0) == 0.0
    np.testing.assert_allclose(jax.grad(pull)(0.5), (pull(0.5 + 1e-5) - pull(0.5 - 1e-5)) / 2e-5, rtol=1e-6)


def test_an_arm_without_length_is_refused():
    rod = mbd.PlanarBody("rod", 1.0, 0.1)
    with pytest.raises(ValueError, match="force 'drag': its arm has no length"):
        mbd.Model([rod], [], [mbd.AirDrag("drag", rod, (0, 0), (0, 0), 1.0)]).build()
