"""Rosenbrock-Nystrom methods: measured orders, the paper's step counts, derivatives, batches, dead points."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks.smooth_problems import Tumbling, tumbling_model
from benchmarks.turning_problems import governor, governor_reference, rattleback
from jaxmbd.integrators.rosenbrock import AbstractRosenbrock
from jaxmbd.integrators.tableaux import NEGRUT4, VERWER2

from ..registry import GRAVITY, CartesianPendulum, Oscillator, Sling, cartesian_pendulum_reference, sling_reference

END = 0.5
ANGLES = ("rod1.angle", "rod2.angle")


@pytest.fixture(scope="module")
def sling_end():
    return [part[-1] for part in sling_reference([0.0, END])]


class Variant(AbstractRosenbrock):
    """A Rosenbrock method with other weights or a wrong Jacobian."""

    rtol: jax.Array
    atol: jax.Array
    independent: tuple | None = eqx.field(static=True)
    scaled_error: bool = eqx.field(static=True)
    reuse: int = eqx.field(static=True)
    wrong: float = eqx.field(static=True)
    order: ClassVar[int] = 1
    name: ClassVar[str] = "variant"

    def __init__(self, wrong):
        self.rtol = self.atol = jnp.array(1e-4)
        self.independent, self.scaled_error, self.reuse, self.wrong = None, False, 1, wrong

    def differentiate(self, system, state, here):
        exact = super().differentiate(system, state, here)
        return jax.tree.map(lambda leaf: (1 - self.wrong) * leaf + self.wrong * 0.7, exact)


class Embedded(Variant):
    tableau: ClassVar = NEGRUT4._replace(b=NEGRUT4.b_hat)


class Inexact(Variant):
    tableau: ClassVar = VERWER2


METHODS = {
    "embedding": (Embedded(wrong=0.0), 3),
    "w-method, old Jacobians": (mbd.WMethod(reuse=4), 2),
    "w-method, wrong Jacobian": (Inexact(wrong=0.5), 2),
}


@pytest.mark.parametrize("name", METHODS)
def test_measured_order(name, sling_end):
    """On a non-autonomous problem with a driven constraint and differential states; multipliers are as accurate as the rest."""
    method, expected = METHODS[name]
    errors = []
    for n in (40, 80):
        final = mbd.simulate(Sling(), END, integrator=method, step=END / n).final
        parts = (final.q, final.v, final.x, final.multipliers)
        errors.append([np.max(np.abs(got - want)) for got, want in zip(parts, sling_end, strict=True)])
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / np.array(errors[1])), expected, atol=0.2)


@pytest.mark.slow
def test_an_exact_jacobian_is_needed_for_more_than_order_two(sling_end):
    """The order of the paper's method falls with a wrong Jacobian: what the W-method is for."""

    class Four(Variant):
        tableau: ClassVar = NEGRUT4

    errors = [
        np.max(np.abs(mbd.simulate(Sling(), END, integrator=Four(wrong=0.5), step=END / n).final.q - sling_end[0])) for n in (80, 160)
    ]
    assert np.log2(errors[0] / errors[1]) < 2.5


@pytest.fixture(scope="module")
def double_pendulum():
    return mbd.problems.double_pendulum().build()


class TestDoublePendulum:
    """Table 5 of the paper. Coordinates chosen by pivoting are the two angles, so both ways are one program."""

    @pytest.mark.parametrize(
        ("tolerance", "steps", "slack"), [(1e-2, 29, 2), (1e-3, 49, 0), (1e-4, 85, 0), (1e-5, 148, 0), (1e-6, 264, 8), (1e-7, 467, 14)]
    )
    def test_step_counts(self, double_pendulum, tolerance, steps, slack):
        run = mbd.simulate(double_pendulum, 2.0, integrator=mbd.RosenbrockNystrom(tolerance, tolerance, independent=ANGLES))
        assert abs(run.stats["steps"] - steps) <= slack
        assert np.max(run.constraint_violation()) < 1e-10
        assert run.stats["force_evaluations"] == 3 * (run.stats["steps"] + run.stats["rejected"])

    def test_the_automatic_choice_is_the_same(self, double_pendulum):
        chosen = mbd.simulate(double_pendulum, 2.0, integrator=mbd.RosenbrockNystrom(1e-4, 1e-4))
        assert chosen.stats["steps"] == 85

    def test_batches_equal_single_runs(self, double_pendulum):
        def end(damping):
            system = double_pendulum.set({"spring2.damping": damping})
            run = mbd.simulate(system, 0.5, integrator=mbd.RosenbrockNystrom(1e-4, 1e-4), max_steps=128)
            return run.final.q, run.stats["steps"]

        dampings = np.geomspace(1e4, 1e6, 16)
        q, steps = map(np.asarray, jax.jit(jax.vmap(end))(dampings))
        for i, damping in enumerate(dampings):
            q_alone, steps_alone = end(damping)
            assert steps[i] == steps_alone
            np.testing.assert_allclose(q[i], q_alone, rtol=0, atol=1e-10)


def test_scaled_error_takes_fewer_steps_when_stiff(double_pendulum):
    plain = mbd.simulate(double_pendulum, 2.0, integrator=mbd.RosenbrockNystrom(1e-4, 1e-4))
    scaled = mbd.simulate(double_pendulum, 2.0, integrator=mbd.RosenbrockNystrom(1e-4, 1e-4, scaled_error=True))
    assert scaled.stats["steps"] <= plain.stats["steps"]
    np.testing.assert_allclose(scaled.final.q, plain.final.q, atol=1e-3)


class TestDerivatives:
    """Forward against reverse against differences of replayed runs."""

    AT = jnp.array([1.0, 9.81])

    @pytest.mark.slow
    def test_of_a_w_method_with_old_jacobians(self):
        method = mbd.WMethod(1e-2, 1e-2, reuse=3)

        def end(p, adjoint="reverse", step=None):
            run = mbd.simulate(Sling(p[0], p[1]), END, integrator=method, adjoint=adjoint, step=step, max_steps=64)
            return run.final.q[1] + 0.1 * run.final.v[0] + run.final.x[0], run.steps

        reverse, steps = jax.jit(jax.grad(end, has_aux=True))(self.AT)
        forward, _ = jax.jit(jax.jacfwd(lambda p: end(p, "forward"), has_aux=True))(self.AT)
        np.testing.assert_allclose(reverse, forward, rtol=1e-9)
        replay = jax.jit(lambda p: end(p, step=steps)[0])
        for i in range(2):
            shift = 1e-5 * jnp.eye(2)[i] * self.AT
            difference = (replay(self.AT + shift) - replay(self.AT - shift)) / (2 * shift[i])
            np.testing.assert_allclose(reverse[i], difference, rtol=1e-6)


def test_without_constraints():
    run = mbd.simulate(Oscillator(), 2.0, integrator=mbd.RosenbrockNystrom(1e-7, 1e-7))
    rate = np.sqrt(20.0)
    np.testing.assert_allclose(run.q[:, 0], np.cos(rate * run.ts), atol=1e-5)
    middle = mbd.simulate(Oscillator(), 2.0, integrator=mbd.RosenbrockNystrom(1e-7, 1e-7), saveat=np.linspace(0, 2, 201))
    np.testing.assert_allclose(middle.q[:, 0], np.cos(rate * middle.ts), atol=1e-5)
    np.testing.assert_allclose(middle.v[:, 0], -rate * np.sin(rate * middle.ts), atol=1e-3)


@pytest.fixture(scope="module")
def four_bar():
    return mbd.problems.four_bar().build()


class TestPartition:
    def test_every_lane_chooses_its_own_coordinates(self):
        """A pendulum in x and y: x is singular at the bottom's sides, y at the bottom. Lanes pass there at different times."""
        method = mbd.RosenbrockNystrom(1e-7, 1e-7)

        def run(gravity):
            found = mbd.simulate(CartesianPendulum(gravity), 1.0, integrator=method, max_steps=512)
            chosen = found.states.method.partition.independent[:, 0]
            return found.final.q, jnp.sum(jnp.diff(chosen) != 0), found.stats["steps"]

        gravities = jnp.array([2.0, 5.0, GRAVITY, 20.0])
        q, changes, steps = jax.jit(jax.vmap(run))(gravities)
        assert len(set(np.asarray(changes).tolist())) > 1
        assert np.max(changes) >= 2
        alone = jax.jit(run)
        for i, gravity in enumerate(gravities):
            q_alone, changes_alone, steps_alone = alone(gravity)
            assert (changes[i], steps[i]) == (changes_alone, steps_alone)
            np.testing.assert_allclose(q[i], q_alone, atol=1e-11)
        exact, _, _ = cartesian_pendulum_reference(np.array([0.0, 1.0]))
        np.testing.assert_allclose(q[2], exact[-1], atol=1e-5)

    def test_redundant_rows(self, four_bar):
        """The spatial twin has three redundant constraints and moves like the planar one."""
        with pytest.warns(UserWarning, match="redundant"):
            spatial = mbd.problems.four_bar(spatial=True).build()
        method = mbd.RosenbrockNystrom(1e-6, 1e-6)
        run = mbd.simulate(spatial, 0.5, integrator=method)
        planar = mbd.simulate(four_bar, 0.5, integrator=method)
        np.testing.assert_allclose(run.position("rocker")[-1, :2], planar.position("rocker")[-1], atol=1e-5)
        assert np.max(run.constraint_violation()) < 1e-9

    def test_nothing_left_to_integrate(self):
        """The slider-crank is driven at constant speed: every position follows from time."""

        def closed_form(t):
            angle, zero = 4 * jnp.pi * t, jnp.zeros(())
            lean = jnp.arcsin(jnp.sin(angle) / 3)
            pin = 0.1 * jnp.stack([jnp.cos(angle), jnp.sin(angle)])
            end = pin + 0.3 * jnp.stack([jnp.cos(lean), -jnp.sin(lean)])
            return jnp.stack([*(pin / 2), angle, *((pin + end) / 2), -lean, *end, zero])

        run = mbd.simulate(mbd.problems.slider_crank(), 0.5, integrator=mbd.RosenbrockNystrom(), max_step=0.01)
        q, v = jax.jit(jax.vmap(lambda t: jax.jvp(closed_form, (t,), (jnp.ones(()),))))(run.ts)
        np.testing.assert_allclose(run.q, q, atol=1e-6)
        np.testing.assert_allclose(run.v, v, atol=1e-4)
        assert np.max(run.constraint_violation()) < 1e-10


class TestTurning:
    """Steps are taken in local coordinates, in which even turning is a straight line."""

    def test_stiff_links_that_turn_with_the_mechanism(self):
        """The flyball governor of the IFToMM benchmarks over its first second, against minimal coordinates. Euler parameters took 1366 steps
        at this tolerance, because the stiff links turn in them."""
        run = mbd.simulate(governor(), 1.0, integrator=mbd.RosenbrockNystrom(1e-6, 1e-6))
        exact = governor_reference(1.0, 1e-9)(np.asarray(run.ts))
        np.testing.assert_allclose(run.position("sleeve")[:, 2], exact[2], atol=5e-6)
        assert run.stats["steps"] + run.stats["rejected"] < 400
        assert np.max(run.constraint_violation()) < 1e-10

    @pytest.mark.slow
    def test_bdf_on_stiff_links(self):
        """The same by BDF, in its default form. At index 3 dampers answer to every change of step and order: 5000 steps led to 0.017 s."""
        run = mbd.simulate(governor(), 1.0, integrator=mbd.BDF(1e-6))
        exact = governor_reference(1.0, 1e-9)(np.asarray(run.ts))
        np.testing.assert_allclose(run.position("sleeve")[:, 2], exact[2], atol=1e-4)
        assert run.stats["steps"] + run.stats["rejected"] < 500

    @pytest.mark.parametrize(("tolerance", "steps", "error"), [(1e-6, 1500, 8e-3), (1e-8, 4500, 3e-5)])
    def test_free_body_about_its_unstable_axis(self, tolerance, steps, error):
        """Over 50 s, in which it turns over and over; in Euler parameters the error was 0.12 rad at 1e-6, after 1871 steps."""
        motion = Tumbling((1.0, 2.0, 3.0), (0.0, 0.0, 0.0), (0.1, 3.0, 0.2))
        method = mbd.RosenbrockNystrom(tolerance, tolerance)
        run = mbd.simulate(tumbling_model(motion), 50.0, integrator=method)
        q, _ = motion.place(motion.solution(50.0)(np.asarray(run.ts)))
        assert run.stats["steps"] < steps
        assert 2 * np.max(np.linalg.norm(run.q[:, 3:] - q[:, 3:], axis=1)) < error
        np.testing.assert_allclose(np.linalg.norm(run.q[:, 3:], axis=1), 1.0, atol=1e-14)

    @pytest.mark.slow
    def test_rattleback(self):
        """A stiff contact under a body that turns, against an explicit method."""
        times = np.linspace(0.0, 2.0, 201)
        exact = mbd.simulate(rattleback(), 2.0, integrator=mbd.DormandPrince(1e-9, 1e-9), saveat=times, max_steps=100_000)
        run = mbd.simulate(rattleback(), 2.0, integrator=mbd.RosenbrockNystrom(1e-6, 1e-6), saveat=times, max_steps=20_000)
        assert run.stats["steps"] + run.stats["rejected"] < 8000
        np.testing.assert_allclose(run.q[:, 3:], exact.q[:, 3:], atol=5e-4)

    def test_even_turning_is_resolved_between_steps(self):
        """Steps could be as long as one likes: they are bounded so that states between them hold the tolerance."""
        spin, times = 5.0, np.linspace(0.0, 4.0, 101)
        body = mbd.RigidBody("body", 2.0, (1.0, 1.0, 1.5), angular_velocity=(0.0, 0.0, spin))
        model = mbd.Model([body], forces=[mbd.Gravity((0.0, 0.0, -9.81))])
        run = mbd.simulate(model, 4.0, integrator=mbd.RosenbrockNystrom(1e-6, 1e-6), saveat=times)
        half = 0.5 * spin * times
        np.testing.assert_allclose(run.q[:, 3], np.cos(half), atol=1e-5)
        np.testing.assert_allclose(run.q[:, 6], np.sin(half), atol=1e-5)


def test_coordinates_are_chosen_anew_in_time():
    """Of a pendulum in x and y: at a limit of four times the first slope it took 81 steps and 39 more in vain, and erred by 1.2e-3 m."""
    run = mbd.simulate(CartesianPendulum(), 3.0, integrator=mbd.RosenbrockNystrom(1e-4, 1e-4))
    exact, _, _ = cartesian_pendulum_reference(np.asarray(run.ts))
    assert run.stats["steps"] + run.stats["rejected"] < 100
    np.testing.assert_allclose(run.q, exact, atol=3e-4)


class TestDeadPoint:
    def test_coordinates_are_chosen_anew_on_the_way(self, four_bar):
        """The crank goes round several times: no single coordinate of x and y type would do, energy says that nothing was lost."""
        method = mbd.RosenbrockNystrom(1e-7, 1e-7)
        run = mbd.simulate(four_bar, 2.0, integrator=method)
        energy = run.energy().total
        assert np.max(np.abs(energy - energy[0])) < 1e-3 * np.max(run.energy().kinetic)
        assert np.max(run.constraint_violation()) < 1e-10

    def test_a_given_coordinate_that_reaches_its_limit_is_named(self, four_bar):
        """The rocker turns back where crank and coupler are in line: its angle cannot carry the motion through there."""
        method = mbd.RosenbrockNystrom(1e-4, 1e-4, independent=("rocker.angle",))
        run = mbd.simulate(four_bar, 2.0, integrator=method, throw=False)
        assert run.result == mbd.RESULTS.singular_configuration
        assert 0.0 < float(run.final.t) < 0.5
        assert len(run.ts) > 5
        assert np.max(run.constraint_violation()) < 1e-9
        assert "singular configuration at t = " in run.message
        assert "joint 'hinge" in run.message
        with pytest.raises(mbd.SimulationError, match="singular configuration"):
            mbd.simulate(four_bar, 2.0, integrator=method)


class TestBadInput:
    def test_wrong_number_of_coordinates(self, double_pendulum):
        with pytest.raises(ValueError, match="must name 2 different coordinates"):
            mbd.simulate(double_pendulum, 1.0, integrator=mbd.RosenbrockNystrom(independent=("rod1.angle",)))

    def test_unknown_coordinate(self, double_pendulum):
        with pytest.raises(ValueError, match=r"rod1\.angle"):
            mbd.simulate(double_pendulum, 1.0, integrator=mbd.RosenbrockNystrom(independent=("rod1.angel", "rod2.angle")))

    def test_a_bare_string(self, double_pendulum):
        with pytest.raises(ValueError, match="sequence of names"):
            mbd.simulate(double_pendulum, 1.0, integrator=mbd.RosenbrockNystrom(independent="rod1.angle"))

    @pytest.mark.parametrize("bad", [0.0, -1e-3, float("nan")])
    def test_tolerances(self, bad):
        with pytest.raises(ValueError, match="rtol"):
            mbd.RosenbrockNystrom(bad)

    def test_reuse(self):
        with pytest.raises(ValueError, match="reuse"):
            mbd.WMethod(reuse=0)
