"""The loop around the steps: saving, replaying, continuing, failing, batching, and not compiling twice."""

import io
from contextlib import contextmanager, redirect_stderr

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.integrators.base import Work

from .registry import CartesianPendulum, Oscillator, cartesian_pendulum_reference

HHT = mbd.HHT(tolerance=1e-6)


@pytest.fixture(scope="module")
def pendulum():
    return CartesianPendulum()


@pytest.fixture(scope="module")
def run(pendulum):
    return mbd.simulate(pendulum, 1.0, integrator=HHT)


class TestOutput:
    def test_nothing_of_family_b_is_counted_where_there_is_none(self, run):
        assert run.stats["b_evaluations"] == 0 < run.stats["a_evaluations"]
        one = jnp.ones((), jnp.int32)
        for system, count in ((Oscillator(), 0), (mbd.problems.penalty_pendulum(), 1)):
            assert Work.newton(one, one, one).of(system).b_evaluations == count

    def test_rows_are_the_accepted_steps(self, run):
        assert run.ts.shape[0] == run.stats["steps"] + 1
        assert run.ts[0] == 0.0
        assert run.ts[-1] == 1.0
        np.testing.assert_allclose(np.diff(run.ts), run.steps, rtol=1e-9)
        assert run.q.shape == run.v.shape == (run.ts.shape[0], 2)
        assert run.multipliers.shape == (run.ts.shape[0], 1)
        assert run.message == "the run reached its end."
        assert bool(run.result == mbd.RESULTS.successful)

    def test_saved_times_are_interpolated_to_the_order_of_the_method(self, pendulum, run):
        times = np.linspace(0.0, 1.0, 57)
        saved = mbd.simulate(pendulum, 1.0, integrator=HHT, saveat=times)
        q, v, _ = cartesian_pendulum_reference(times)
        step_error = np.max(np.abs(np.asarray(run.q) - cartesian_pendulum_reference(run.ts)[0]))
        np.testing.assert_allclose(saved.ts, times)
        # The interpolant adds nothing that is visible beside the error of the steps themselves.
        assert np.max(np.abs(saved.q - q)) < 1.5 * step_error
        assert np.max(np.abs(saved.v - v)) < 20 * step_error
        assert saved.stats["steps"] == run.stats["steps"]

    def test_saved_times_at_the_ends_are_the_states_there(self, pendulum, run):
        saved = mbd.simulate(pendulum, 1.0, integrator=HHT, saveat=[0.0, 1.0])
        np.testing.assert_allclose(saved.q, run.q[np.array([0, -1])], atol=1e-14)

    def test_replayed_steps_give_the_same_motion(self, pendulum, run):
        replay = mbd.simulate(pendulum, 1.0, integrator=HHT, step=run.steps)
        np.testing.assert_allclose(replay.ts, run.ts, atol=1e-12)
        # Newton stops at a thousandth of the tolerance in each step of the first run, near rounding in the second.
        np.testing.assert_allclose(replay.q, run.q, atol=1e-9 * run.stats["steps"])

    def test_fixed_steps_end_exactly_at_t1(self, pendulum):
        run = mbd.simulate(pendulum, 0.105, integrator=HHT, step=0.01)
        assert run.stats["steps"] == 11
        assert run.ts[-1] == pytest.approx(0.105, abs=1e-15)

    def test_continuing_from_the_final_state(self, pendulum, run):
        half = mbd.simulate(pendulum, 0.5, integrator=HHT)
        rest = mbd.simulate(pendulum, 1.0, integrator=HHT, initial=half.final)
        assert rest.ts[0] == 0.5
        np.testing.assert_allclose(rest.q[-1], run.q[-1], atol=2e-4)  # both within the tolerance's global error

    def test_a_perturbed_start_is_put_back_on_the_constraints(self, pendulum):
        state = mbd.simulate(pendulum, 0.1, integrator=HHT).final
        pushed = eqx.tree_at(lambda s: (s.q, s.v), state, (state.q * 1.01, state.v + 0.1))
        first = mbd.simulate(pendulum, 0.2, integrator=HHT, initial=pushed)
        q, v = np.asarray(first.q[0]), np.asarray(first.v[0])
        assert q @ q == pytest.approx(1.0, abs=1e-12)
        assert q @ v == pytest.approx(0.0, abs=1e-12)

    def test_long_runs_are_made_of_segments(self, pendulum):
        """More steps than one compiled stretch holds."""
        run = mbd.simulate(pendulum, 1.0, integrator=HHT, step=1.0 / 2500)
        assert run.stats["steps"] == 2500
        assert np.all(np.diff(run.ts) > 0)
        q, _, _ = cartesian_pendulum_reference(run.ts)
        assert np.max(np.abs(run.q - q)) < 1e-5

    def test_progress_bar_shows_simulated_time(self, pendulum):
        shown = io.StringIO()
        with redirect_stderr(shown):
            mbd.simulate(pendulum, 1.0, integrator=HHT, progress=True)
        assert "100%" in shown.getvalue()

    def test_steps_recorded_under_jit_can_be_replayed(self, pendulum, run):
        """Zeros follow them in the record."""
        recorded = jax.jit(lambda t1: mbd.simulate(pendulum, t1, integrator=HHT, max_steps=1024).steps)(1.0)
        replay = mbd.simulate(pendulum, 1.0, integrator=HHT, step=recorded)
        assert replay.stats["steps"] == run.stats["steps"]
        np.testing.assert_allclose(replay.q[-1], run.q[-1], atol=1e-9 * run.stats["steps"])

    def test_min_step_is_a_lower_bound(self, pendulum):
        run = mbd.simulate(pendulum, 1.0, integrator=mbd.HHT(tolerance=1e-3), min_step=0.005)
        assert np.min(run.steps[:-1]) >= 0.005 * (1 - 1e-12)

    def test_coordinates_without_constraints_are_normalized(self):
        class OnCircle(mbd.AbstractSystem):
            """A direction (x, y) that only normalisation keeps at unit length."""

            q0: jax.Array
            v0: jax.Array

            def mass(self, q):
                return jnp.eye(2)

            def force(self, q, v, t):
                return jnp.zeros(2)

            def normalize(self, q, v):
                q = q / jnp.sqrt(q @ q)
                return q, v - q * (q @ v)

        run = mbd.simulate(OnCircle(jnp.array([2.0, 0.0]), jnp.array([0.5, 1.0])), 1.0, integrator=HHT)
        np.testing.assert_allclose(np.sum(np.asarray(run.q) ** 2, axis=1), 1.0, atol=1e-14)

    def test_step_bounds_are_kept(self, pendulum):
        run = mbd.simulate(pendulum, 1.0, integrator=mbd.HHT(tolerance=1e-3), max_step=0.02, first_step=0.001)
        assert np.max(run.steps) <= 0.02 * (1 + 1e-12)
        assert run.steps[0] == pytest.approx(0.001)


class Wall(mbd.AbstractSystem):
    """A point that runs into a force that is not finite beyond x = 1."""

    q0: jax.Array
    v0: jax.Array

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t):
        return jnp.where(q > 1.0, jnp.nan, 0.0)


def wall(speed):
    return Wall(jnp.zeros(1), jnp.asarray(speed, float).reshape(1))


class Longer(mbd.AbstractController):
    """Finds every step below 0.1 s too short, and asks for twice its size."""

    def adapt(self, info, order, h, memory):
        return mbd.Decision(h >= 0.1, jnp.where(h >= 0.1, h, 2.0 * h)), memory


class TestFailure:
    def test_a_step_rejected_for_being_too_short_ends_no_run(self):
        run = mbd.simulate(Oscillator(), 1.0, integrator=mbd.Verlet(), controller=Longer(), first_step=1 / 64, min_step=1 / 64, throw=False)
        assert run.result == mbd.RESULTS.successful
        assert run.stats["rejected"] == 3

    def test_failing_run_returns_what_it_has(self):
        run = mbd.simulate(wall(1.0), 2.0, integrator=HHT, throw=False)
        assert bool(run.result == mbd.RESULTS.not_finite)
        assert 0.9 < run.ts[-1] <= 1.0
        assert np.all(np.isfinite(run.q))
        assert "force(q, v, t) is not finite after t = 1 s" in run.message

    def test_failing_run_raises_with_the_solution_attached(self):
        with pytest.raises(mbd.SimulationError, match="not finite after t = 1") as caught:
            mbd.simulate(wall(1.0), 2.0, integrator=HHT)
        assert caught.value.solution.ts[-1] > 0.9

    def test_prescribed_steps_stop_where_forces_are_not_finite(self):
        run = mbd.simulate(wall(1.0), 2.0, integrator=HHT, step=0.3, throw=False)
        assert bool(run.result == mbd.RESULTS.not_finite)
        assert run.stats["steps"] == 3

    def test_too_few_steps_allowed(self, pendulum):
        run = mbd.simulate(pendulum, 1.0, integrator=HHT, max_steps=10, throw=False)
        assert bool(run.result == mbd.RESULTS.max_steps_reached)
        assert run.stats["steps"] == 10
        assert "raise max_steps" in run.message

    def test_a_failing_lane_harms_nobody(self):
        speeds = jnp.array([0.2, 1.0, 0.3])
        batch = jax.vmap(lambda s: mbd.simulate(wall(s), 2.0, integrator=HHT, throw=False, max_steps=256))(speeds)
        ended = np.asarray(batch.result == mbd.RESULTS.successful)
        np.testing.assert_array_equal(ended, [True, False, True])
        np.testing.assert_allclose(batch.final.q[np.array([0, 2]), 0], [0.4, 0.6], atol=1e-12)
        np.testing.assert_allclose(batch.final.t[np.array([0, 2])], 2.0)

    def test_failure_raises_under_jit(self):
        with pytest.raises(Exception, match="became NaN or infinite"):
            jax.block_until_ready(jax.jit(lambda s: mbd.simulate(wall(s), 2.0, integrator=HHT).final.q)(1.0))


class TestBatch:
    def test_64_lanes_equal_64_single_runs(self, pendulum):
        gravities = jnp.linspace(2.0, 20.0, 64)

        def end(gravity):
            system = eqx.tree_at(lambda s: s.gravity, pendulum, gravity)
            solution = mbd.simulate(system, 1.0, integrator=HHT, max_steps=1024)
            return solution.final.q, solution.stats["steps"]

        q, steps = jax.vmap(end)(gravities)
        single = [end(gravity) for gravity in gravities]
        np.testing.assert_array_equal(steps, [s for _, s in single])
        # Rounding may end Newton's iteration one correction sooner or later: a thousandth of the tolerance, 1e-9, in each step.
        np.testing.assert_allclose(q, np.stack([s for s, _ in single]), rtol=0, atol=1e-9 * np.max(steps))

    def test_a_lane_that_is_out_of_room_keeps_its_rows(self, pendulum):
        """It takes as many steps as there is room for; the other one takes more attempts."""

        def rows(gravity):
            system = eqx.tree_at(lambda s: s.gravity, pendulum, gravity)
            return mbd.simulate(system, 1.0, integrator=HHT, max_steps=8, first_step=1e-3, throw=False)

        gravities = jnp.array([9.81, 1e6])
        batch = jax.vmap(rows)(gravities)
        assert batch.stats["rejected"][1] > batch.stats["rejected"][0]
        for lane, gravity in enumerate(gravities):
            single = jax.jit(rows)(gravity)
            assert single.stats["steps"] == batch.stats["steps"][lane] == 8
            # Errors of the first steps are rounding, and with them the sizes of the next.
            np.testing.assert_allclose(batch.ts[lane], single.ts, rtol=1e-6)
            np.testing.assert_allclose(batch.q[lane], single.q, atol=1e-6)

    def test_traced_steps_with_gaps_are_refused(self, pendulum):
        run = jax.jit(lambda steps: mbd.simulate(pendulum, 0.03, integrator=HHT, step=steps, throw=False))
        assert run(jnp.array([0.01, 0.02, 0.0])).result == mbd.RESULTS.successful
        gap = run(jnp.array([0.01, 0.0, 0.02]))
        assert gap.result == mbd.RESULTS.bad_parameter
        assert gap.message.startswith("step is out of its range")


@contextmanager
def compilations():
    """Collects the durations of all compilations."""
    seen = []

    def listen(event, duration, **_):
        if "backend_compile" in event:
            seen.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield seen
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


class TestCompilation:
    def test_other_values_times_and_states_do_not_compile_again(self, pendulum):
        mbd.simulate(pendulum, 1.0, integrator=HHT)
        with compilations() as count:
            other = CartesianPendulum(gravity=3.0)
            second = mbd.simulate(other, 1.7, integrator=mbd.HHT(tolerance=1e-5, alpha=-0.1), max_step=0.1)
            mbd.simulate(other, 2.5, integrator=HHT, initial=second.final, first_step=1e-3)
        assert not count


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"t1": -1.0}, "t1 = -1.0 lies before t0 = 0.0"),
            ({"t1": np.nan}, "t1 must be one finite number"),
            ({"t1": 1.0, "step": -0.1}, "step must be positive"),
            ({"t1": 1.0, "step": [0.1, 0.0, 0.9]}, "positive step sizes"),
            ({"t1": 1.0, "saveat": [0.0, 2.0]}, "saveat must lie between"),
            ({"t1": 1.0, "saveat": [0.5, 0.1]}, "increasing times"),
            ({"t1": 1.0, "first_step": 0.0}, "first_step must be positive"),
            ({"t1": 1.0, "max_steps": 0}, "max_steps must be a whole number, at least 1"),
            ({"t1": 1.0, "max_steps": 10.5}, "max_steps must be a whole number, at least 1"),
            ({"t1": 1.0, "step": [0.1, 0.1]}, "the given steps add up to 0.2 s, but t1 - t0 = 1 s"),
            ({"t1": 1.0, "integrator": "hht"}, "integrator must be an integrator such as"),
            ({"t1": 1.0, "initial": np.zeros(2)}, "initial must be a state such as"),
            ({"t1": 1.0, "adjoint": "backward"}, "adjoint must be"),
        ],
    )
    @pytest.mark.usefixtures("annotations_unchecked")
    def test_impossible_requests_are_refused(self, pendulum, arguments, message):
        with pytest.raises(ValueError, match=message):
            mbd.simulate(pendulum, **arguments)

    def test_a_state_of_another_system_is_refused(self, pendulum):
        other = mbd.simulate(wall(0.1), 0.1, integrator=HHT).final
        with pytest.raises(ValueError, match="initial does not belong to this system: its q has shape"):
            mbd.simulate(pendulum, 1.0, initial=other)

    @pytest.mark.parametrize(
        ("name", "wrong", "message"),
        [
            ("force", lambda self, q, v, t: jnp.zeros(()), r"force\(q, v, t\) of Wrong must have shape \(1,\), got \(\)"),
            ("mass", lambda self, q: jnp.eye(2), r"mass\(q\) of Wrong must have shape \(1, 1\), got \(2, 2\)"),
            ("constraint", lambda self, q, t: q[0], r"constraint\(q, t\) of Wrong must be a vector"),
        ],
    )
    def test_equations_that_do_not_fit_are_refused(self, name, wrong, message):
        system = type("Wrong", (Wall,), {name: wrong})(jnp.zeros(1), jnp.zeros(1))
        with pytest.raises(ValueError, match=message):
            mbd.simulate(system, 1.0)

    def test_traced_values_in_closures_are_refused(self):
        def end(strength):
            body = mbd.PointMass("p", 1.0, position=(0.0, 0.0))
            push = mbd.PointForce("push", body, (0.0, 0.0), lambda t: jnp.stack([strength * t, 0.0 * t]))
            return mbd.simulate(mbd.Model([body], forces=[push]), 1.0, integrator=HHT).final.q[0]

        with pytest.raises(ValueError, match="closes over a traced value"):
            jax.grad(end)(1.0)

    @pytest.mark.usefixtures("annotations_unchecked")
    def test_something_else_than_a_model_is_refused(self):
        with pytest.raises(ValueError, match=r"must be an mbd\.Model"):
            mbd.simulate("pendulum", 1.0)  # pyright: ignore[reportArgumentType]


def test_a_renamed_model_does_not_compile_again():
    """Names are not part of what is compiled; what comes back has those of its own model."""

    def model(*names):
        one, two = (mbd.PlanarBody(name, 1.0, 0.1, position=(x, 0.0)) for name, x in zip(names, (0.5, 1.5), strict=False))
        hinges = [mbd.Revolute(names[2], mbd.ground, one, point=(0.0, 0.0)), mbd.Revolute(names[3], one, two, point=(1.0, 0.0))]
        return mbd.Model(
            [one, two], hinges, [mbd.TorsionSpringDamper(names[4], mbd.ground, one, stiffness=1.0), mbd.Gravity((0.0, -9.81), names[5])]
        )

    with compilations() as first:
        mbd.simulate(model("upper", "lower", "shoulder", "elbow", "spring", "gravity"), 0.02, step=0.01)
    renamed = model("arm", "hand", "left", "right", "band", "weight")
    with compilations() as second:
        solution = mbd.simulate(renamed, 0.02, step=0.01)
    assert len(first) > 0
    assert second == []
    assert solution.system.body_names == ("arm", "hand")
    assert {"arm.x", "left.angle", "band.torque", "weight.work"} <= set(solution.observable_names())
    with pytest.raises(mbd.SimulationError, match="'band'"):
        mbd.simulate(renamed.build().set({"band.stiffness": 1e308, "band.free_angle": 1e3}), 0.02, step=0.01)
