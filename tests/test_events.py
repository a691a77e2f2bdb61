"""Runs that end by an event: where and when, which one, in every mode, and with derivatives of the time itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

import jaxmbd as mbd

from .registry import CartesianPendulum
from .test_simulate import compilations

HHT = mbd.HHT(tolerance=1e-6)
HEIGHT, LEVEL, GRAVITY = 2.0, 0.5, 9.81
FALL = np.sqrt(2 * (HEIGHT - LEVEL) / GRAVITY)
"""s"""
TIMES = np.linspace(0.0, 1.0, 11)
LANDING = mbd.Event("ball.z", LEVEL, direction=-1)


@pytest.fixture(scope="module")
def ball():
    return mbd.Model([mbd.PointMass("ball", 1.0, position=(0, 0, HEIGHT))], [], [mbd.Gravity((0, 0, -GRAVITY))]).build()


def dropped(ball, height, gravity=GRAVITY):
    zero = jnp.zeros_like(height)
    return ball.set({"ball.position": jnp.stack([zero, zero, height]), "gravity.acceleration": jnp.stack([zero, zero, zero - gravity])})


def fall(ball, p, **options):
    """p: height, gravity, level."""
    options = {"max_steps": 64, "throw": False, "saveat": mbd.SaveAt(t1=True)} | options
    return mbd.simulate(dropped(ball, p[0], p[1]), 1.0, integrator=HHT, until=lambda now: now["ball.z"] - p[2], **options)


class TestFreeFall:
    AT = jnp.array([HEIGHT, GRAVITY, LEVEL])
    GRADIENT = np.array([1.0, -(HEIGHT - LEVEL) / GRAVITY, -1.0]) / (GRAVITY * FALL)
    """of the time, sqrt(2 (height - level) / gravity)"""

    @pytest.mark.parametrize("options", [{}, {"step": 0.01}], ids=["adaptive", "prescribed"])
    @pytest.mark.parametrize(
        ("saveat", "rows"),
        [(None, None), (TIMES, 7), (TIMES[:5], 5), (mbd.SaveAt(t1=True), 1)],
        ids=["steps", "times", "times before", "end"],
    )
    def test_ends_in_the_event(self, ball, options, saveat, rows):
        run = mbd.simulate(ball, 1.0, integrator=HHT, until=LANDING, saveat=saveat, **options)
        assert run.final.t == pytest.approx(FALL, abs=1e-12)
        assert run.final.q[2] == pytest.approx(LEVEL, abs=1e-12)
        assert run.final.v[2] == pytest.approx(-GRAVITY * FALL, abs=1e-9)
        assert run.result == mbd.RESULTS.event_occurred
        assert bool(run.succeeded)
        assert (int(run.event), run.event_name, run.events) == (0, "ball.z", ("ball.z",))
        assert run.message == "the run ended at t = 0.553001 s, by the event 'ball.z'."
        assert run.q.shape[0] == (rows or run.stats["steps"] + 1)
        expected = np.minimum(TIMES[:rows], FALL) if rows and rows > 1 else run.ts[:-1]
        np.testing.assert_allclose(run.ts[: len(expected)], expected, atol=1e-12)
        if saveat is None or rows != 5:
            np.testing.assert_array_equal(run.q[-1], run.final.q)

    def test_replayed_steps_end_alike(self, ball):
        run = mbd.simulate(ball, 1.0, integrator=HHT, until=LANDING)
        again = mbd.simulate(ball, float(run.steps.sum()), integrator=HHT, until=LANDING, step=run.steps)
        assert again.event_name == "ball.z"
        np.testing.assert_allclose(again.ts, run.ts, atol=1e-12)
        np.testing.assert_allclose(again.q, run.q, atol=1e-9)

    @pytest.mark.parametrize("options", [{}, {"step": np.full(50, 0.02)}], ids=["adaptive", "prescribed"])
    @pytest.mark.parametrize(("derivative", "adjoint"), [(jax.jacrev, "reverse"), (jax.jacfwd, "forward")], ids=["reverse", "forward"])
    def test_the_time_has_a_derivative(self, ball, derivative, adjoint, options):
        """And so has the state there, which moves along: z is the level, vz = -sqrt(2 gravity (height - level))."""

        def end(p):
            final = fall(ball, p, adjoint=adjoint, **options).final
            return jnp.stack([final.t, final.q[2], final.v[2]])

        found = jax.jit(derivative(end))(self.AT)
        of_speed = -np.array([GRAVITY, HEIGHT - LEVEL, -GRAVITY]) / (GRAVITY * FALL)
        np.testing.assert_allclose(found, [self.GRADIENT, [0.0, 0.0, 1.0], of_speed], atol=1e-8)

    def test_second_derivatives(self, ball):
        time = lambda p: fall(ball, p, step=np.full(20, 0.05)).final.t  # noqa: E731
        hessian = jax.jit(jax.hessian(time))(self.AT)
        drop = HEIGHT - LEVEL
        # FALL = sqrt(2 drop / gravity)
        by_drop, mixed, by_gravity = -FALL / (4 * drop**2), -FALL / (4 * drop * GRAVITY), 0.75 * FALL / GRAVITY**2
        expected = [[by_drop, mixed, -by_drop], [mixed, by_gravity, -mixed], [-by_drop, -mixed, by_drop]]
        np.testing.assert_allclose(hessian, expected, atol=1e-7)

    @pytest.mark.parametrize("saveat", [None, TIMES], ids=["steps", "times"])
    def test_each_lane_has_its_own(self, ball, saveat):
        heights = jnp.array([1.0, 100.0, HEIGHT, LEVEL])
        batch = jax.jit(jax.vmap(lambda h: fall(ball, jnp.stack([h, GRAVITY, LEVEL]), saveat=saveat)))(heights)
        times = np.array([np.sqrt(2 * 0.5 / GRAVITY), 1.0, FALL, 1.0])
        np.testing.assert_array_equal(batch.event, [0, -1, 0, -1])  # the last one starts on the level, and leaves it
        np.testing.assert_array_equal(batch.succeeded, True)
        np.testing.assert_allclose(batch.final.t, times, atol=1e-12)
        np.testing.assert_allclose(batch.ts[:, -1], times, atol=1e-12)
        np.testing.assert_allclose(batch.final.q[:, 2], heights - GRAVITY * times**2 / 2, atol=1e-9)
        if saveat is not None:
            np.testing.assert_allclose(batch.ts, np.minimum(TIMES, times[:, None]), atol=1e-12)
            np.testing.assert_allclose(batch.q[..., 2], heights[:, None] - GRAVITY * np.asarray(batch.ts) ** 2 / 2, atol=1e-9)

    def test_lanes_without_an_event_have_no_gradient_of_the_time(self, ball):
        heights = jnp.array([HEIGHT, 100.0, LEVEL])
        time = lambda h: fall(ball, jnp.stack([h, GRAVITY, LEVEL])).final.t  # noqa: E731
        expected = [self.GRADIENT[0], 0.0, 0.0]
        np.testing.assert_allclose(jax.jit(jax.grad(lambda h: jnp.sum(jax.vmap(time)(h))))(heights), expected, atol=1e-9)

    def test_going_on_from_an_event(self, ball):
        """A bounce: z at the end depends on the height through the speed and the time of the impact."""
        end = 1.0

        def bounced(height):
            first = fall(ball, jnp.stack([height, GRAVITY, LEVEL])).final
            turned = eqx.tree_at(lambda s: s.v, first, -0.8 * first.v)
            return mbd.simulate(ball, end, integrator=HHT, initial=turned, max_steps=64, saveat=mbd.SaveAt(t1=True), throw=False).final.q[2]

        def exact(height):
            t = jnp.sqrt(2 * (height - LEVEL) / GRAVITY)
            return LEVEL + 0.8 * GRAVITY * t * (end - t) - GRAVITY * (end - t) ** 2 / 2

        value, slope = jax.jit(jax.value_and_grad(bounced))(HEIGHT)
        assert value == pytest.approx(float(exact(HEIGHT)), abs=1e-9)
        assert slope == pytest.approx(float(jax.grad(exact)(HEIGHT)), abs=1e-8)


class TestConditions:
    def test_quarter_period_of_a_pendulum(self):
        """From the horizontal to the lowest point: a quarter of 4 K(1/2) sqrt(l / g). An angle with full turns, by name."""
        rod = mbd.PlanarBody("rod", mass=1.0, inertia=1e-9, position=(1.0, 0.0))
        hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0.0, 0.0))
        model = mbd.Model([rod], [hinge], [mbd.Gravity((0.0, -GRAVITY))])
        run = mbd.simulate(model, 2.0, integrator=mbd.RosenbrockNystrom(1e-9, 1e-9), until=mbd.Event("hinge.angle", -np.pi / 2))
        assert run.final.t == pytest.approx(ellipk(0.5) / np.sqrt(GRAVITY), abs=1e-8)

    def test_angles_are_counted_over_full_turns(self):
        """A wheel at 7 rad/s passes 10 rad, not half a turn, where its angle is cut."""
        wheel = mbd.PlanarBody("wheel", mass=1.0, inertia=1.0, angular_velocity=7.0)
        model = mbd.Model([wheel], [mbd.Revolute("axle", mbd.ground, wheel, point=(0.0, 0.0))])
        run = mbd.simulate(model, 3.0, integrator=HHT, max_step=0.2, until=mbd.Event("axle.angle", 10.0))
        assert run.final.t == pytest.approx(10.0 / 7.0, abs=1e-9)

    def test_directions_and_names(self):
        """x of a pendulum that is released at x = 1 passes zero downwards; y' = 0 at the lowest point, upwards."""
        conditions = {
            "never": mbd.Event("q[0]", direction=+1),
            "later": lambda now: now.q[0] + 0.5,
            "lowest": mbd.Event(lambda now: now.v[1], direction=+1),
            "also there": mbd.Event("q[0]", level=1e-3, direction=-1),
        }
        run = mbd.simulate(CartesianPendulum(), 2.0, integrator=HHT, until=conditions)
        assert run.event_name == "also there"
        assert run.final.q[0] == pytest.approx(1e-3, abs=1e-12)
        del conditions["also there"]
        run = mbd.simulate(CartesianPendulum(), 2.0, integrator=HHT, until=conditions)
        assert (int(run.event), run.event_name) == (2, "lowest")
        assert run.final.t == pytest.approx(ellipk(0.5) / np.sqrt(GRAVITY), abs=1e-4)  # the tolerance's global error

    def test_a_function_that_is_written_anew_is_not_compiled_anew(self):
        def run(x):
            return mbd.simulate(CartesianPendulum(), 2.0, integrator=HHT, until=lambda now: now.q[0] - x)

        run(jnp.asarray(0.5))
        with compilations() as count:
            assert run(jnp.asarray(0.25)).final.q[0] == pytest.approx(0.25, abs=1e-12)
        assert not count

    @pytest.mark.parametrize(
        ("until", "message"),
        [
            ("ball.zz", "'ball': unknown observable 'zz'"),
            ("peak:ball.z", "'peak:ball.z' belongs to a whole run: a condition knows the motion at one time only"),
            ("gravity.work", "'gravity.work' belongs to a whole run"),
            (lambda now: now.q, r"must give one number, got an array of shape \(3,\)"),
            (3.0, r"an event needs the name of an observable such as 'ball\.z', or a function, got 3\.0"),
        ],
    )
    def test_impossible_conditions_are_refused(self, ball, until, message):
        with pytest.raises(ValueError, match=message):
            mbd.simulate(ball, 1.0, integrator=HHT, until=until)

    def test_a_direction_is_one_of_three(self):
        with pytest.raises(ValueError, match=r"direction of an event must be \+1"):
            mbd.Event("ball.z", direction=2)

    def test_a_level_that_is_no_number_ends_its_lane(self, ball):
        run = jax.jit(lambda level: mbd.simulate(ball, 1.0, integrator=HHT, until=mbd.Event("ball.z", level), max_steps=64, throw=False))(
            np.nan
        )
        assert run.result == mbd.RESULTS.bad_parameter
        assert run.message.startswith("level of event 'ball.z' is out of its range")
