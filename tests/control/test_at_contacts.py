"""Steps that end where contacts open and close: derivatives through impacts are those of the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.control import AtContacts

GRAVITY, MASS, STIFFNESS, RADIUS, HEIGHT = 9.81, 0.1, 1e4, 0.03, 0.2
T1 = 0.5


def ball(damping=0.0):
    disc = mbd.PlanarBody("ball", MASS, 1e-4, position=(0.0, RADIUS + HEIGHT))
    shapes = {"centre": (0.0, RADIUS + HEIGHT), "radius": RADIUS, "point": (0, 0), "normal": (0, 1)}
    floor = mbd.DiscLine("floor", disc, mbd.ground, **shapes, law=mbd.LinearContact(STIFFNESS, damping))
    return mbd.Model([disc], [], [mbd.Gravity((0, -GRAVITY)), floor]).build()


def exact(height):
    """Height at T1 over the ground, after one impact: a parabola, an arc of the spring's oscillation, a parabola."""
    fall, rate = jnp.sqrt(2 * height / GRAVITY), jnp.sqrt(STIFFNESS / MASS)
    speed = GRAVITY * fall
    contact = 2 / rate * (jnp.pi - jnp.arctan(speed * rate / GRAVITY))
    since = T1 - fall - contact
    return speed * since - 0.5 * GRAVITY * since**2


@pytest.fixture(scope="module")
def fallen():
    """By height: the floor sinks by what is asked for."""
    system, method = ball(), mbd.DormandPrince(1e-10, 1e-10)

    def end(height, steps=None):
        moved = system.set({"floor.point": jnp.stack([0.0, HEIGHT - height])})
        controls = {"controller": AtContacts(), "max_step": 0.02} if steps is None else {"step": steps}
        run = mbd.simulate(moved, T1, integrator=method, adjoint="forward", throw=False, max_steps=1024, **controls)
        return run.final.q[1] - RADIUS - (HEIGHT - height), run

    return end


def test_the_derivative_is_that_of_the_closed_form(fallen):
    value, slope, run = jax.jit(lambda h: jax.jvp(fallen, (h,), (1.0,), has_aux=True))(HEIGHT)
    np.testing.assert_allclose(value, exact(HEIGHT), atol=1e-8)
    np.testing.assert_allclose(slope, jax.grad(exact)(HEIGHT), rtol=2e-3)  # 30 % without
    steps = np.asarray(run.steps)[: int(run.stats["steps"])]
    tiny = np.flatnonzero(steps < 1e-9)
    assert tiny.size == 2  # across touch-down and lift-off
    depth = RADIUS - np.asarray(run.q)[:, 1] + np.asarray(run.system.get("floor.point"))[1]
    for place, (outside, inside) in zip(tiny, [(0, 1), (1, 0)], strict=True):
        assert depth[place + outside] < 0 < depth[place + inside]
        assert np.max(np.abs(depth[place : place + 2])) < 1e-9  # m: at 2 m/s within half a nanosecond


def test_a_dashpot_that_may_not_pull_has_kinks_of_its_own():
    """The bounds of the force are reached after touch-down, and again before lift-off."""
    law = mbd.LinearContact(1e4, damping=10.0)
    depth = jnp.array([-1e-3, 1e-6, 1e-3, 1e-3])
    rate = jnp.array([1.0, 1.0, 0.5, -2.0])
    signs = np.asarray(jax.vmap(law.switches)(depth, rate)) > 0
    np.testing.assert_array_equal(signs, [[False, False], [True, False], [True, True], [True, False]])


def test_what_it_refuses(annotations_unchecked):
    rod = mbd.PlanarBody("rod", 1.0, 0.1)
    free = mbd.Model([rod], [], [mbd.Gravity((0, -9.81))]).build()
    with pytest.raises(ValueError, match="there are none"):
        mbd.simulate(free, 0.1, controller=AtContacts())
    with pytest.raises(ValueError, match="must be another controller"):
        AtContacts(0.1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="must be positive"):
        AtContacts(within=0.0)


def test_stops_of_joints_have_kinks_too():
    arm = mbd.PlanarBody("arm", 1.0, 0.1, position=(0.5, 0.0))
    hinge = mbd.Revolute("hinge", mbd.ground, arm, (0, 0))
    stop = mbd.JointStop("stop", mbd.ground, arm, (0, 0), lower=-0.5, upper=0.2, law=mbd.LinearContact(1e3, 0.0))
    system = mbd.Model([arm], [hinge], [mbd.Gravity((0, -9.81)), stop]).build().prepare()
    signs = [np.asarray(system.switches(jnp.array([0.5, 0.0, angle]), jnp.zeros(3), jnp.zeros(()))) > 0 for angle in (-0.6, 0.0, 0.3)]
    np.testing.assert_array_equal([one.any() for one in signs], [True, False, True])
