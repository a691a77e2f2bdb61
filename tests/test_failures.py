"""Runs that go wrong: each says what happened, when, and to whom; and none that goes right is accused."""

from contextlib import nullcontext

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.integrators.verlet import ExplicitNystrom
from jaxmbd.running.prescribed import EvenSteps

from .registry import CartesianPendulum, Oscillator

VERLET = mbd.Verlet()


class Spring(mbd.AbstractSystem):
    """A unit mass on a spring and a damper, pushed from some time on: one program for many motions."""

    q0: jax.Array
    v0: jax.Array
    stiffness: jax.Array
    damping: jax.Array
    push: jax.Array
    onset: jax.Array

    def __init__(self, q=0.0, v=0.0, stiffness=0.0, damping=0.0, push=0.0, onset=0.0):
        self.q0, self.v0 = (jnp.asarray(value, float).reshape(1) for value in (q, v))
        self.stiffness, self.damping, self.push, self.onset = (jnp.asarray(value, float) for value in (stiffness, damping, push, onset))

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t):
        return jnp.where(t >= self.onset, self.push, 0.0) - self.stiffness * q - self.damping * v


def light_mass():
    """10 g on 3 MN/m: Verlet is stable up to 2 sqrt(m / k) = 0.115 ms."""
    mass = mbd.PointMass("mass", 0.01, position=(1.0, 0.0))
    return mbd.Model([mass], forces=[mbd.SpringDamper("spring", mbd.ground, mass, (0.0, 0.0), (1.0, 0.0), 3e6, free_length=0.99)]).build()


class Anything(mbd.AbstractController):
    """Accepts every step that has a result, and goes on with its size."""

    def adapt(self, info, order, h, memory):
        return mbd.Decision(info.converged, h), memory


class TestExplosion:
    @pytest.mark.parametrize("method", [VERLET, mbd.SemiExplicit(), mbd.DormandPrince()], ids=lambda m: m.name)
    def test_a_prescribed_step_beyond_stability_warns_and_ends_as_diverged(self, method):
        with pytest.warns(match=r"stability limit of \w+, about (0\.00012|9e-05) s, because body 'mass' vibrates at 2\.8e\+03 Hz"):
            run = mbd.simulate(light_mass(), 0.1, integrator=method, step=4e-4, throw=False)
        assert bool(run.result == mbd.RESULTS.diverged)
        assert "the motion exploded at t = 0.00" in run.message
        assert "body 'mass'" in run.message
        assert np.all(np.isfinite(run.q))
        assert 0 < run.stats["steps"] < 10

    def test_adaptive_steps_are_watched_too(self):
        run = mbd.simulate(Spring(1.0, stiffness=5.0), 1e3, integrator=VERLET, controller=Anything(), first_step=1.0, throw=False)
        assert bool(run.result == mbd.RESULTS.diverged)
        # Each step of h^2 k = 5 multiplies by 2.6, so that a million takes 14 of them.
        assert run.stats["steps"] == pytest.approx(15, abs=3)

    def test_slow_growth_is_found_before_it_is_absurd(self):
        """h^2 k = 4.01 grows by 10 % a step: found at about a million times the motion's own speed."""
        with pytest.warns(match="beyond the stability limit"):
            run = mbd.simulate(Spring(1.0, stiffness=4.01), 1000.0, integrator=VERLET, step=1.0, throw=False)
        assert bool(run.result == mbd.RESULTS.diverged)
        assert 1e5 < np.abs(run.v).max() < 1e8

    @pytest.mark.parametrize(
        "motion",
        [
            Spring(v=7.8e3),  # a satellite
            Spring(q=1e7, v=-3e4, push=-9.81),  # a comet that turns around
            Spring(push=1e4, onset=500.0),  # a sled that waits, then starts
            Spring(1e-9, stiffness=3.99),  # nanometres, hardly resolved
            Spring(1e-14, stiffness=3.9, push=1e5, onset=500.0),  # rounding noise, hardly resolved, then a blow
            Spring(1.0, stiffness=1.0, damping=0.3),  # comes to rest, to the last digit
            Spring(1e-3, 1e-3, stiffness=-1e-4),  # an unstable equilibrium: growth by 1e4 without turning around
        ],
        ids=["satellite", "comet", "sled", "nanometres", "blow", "rest", "unstable"],
    )
    def test_nothing_legitimate_is_accused(self, motion):
        run = mbd.simulate(motion, 1000.0, integrator=VERLET, step=1.0)
        assert bool(run.result == mbd.RESULTS.successful)

    def test_resonance_is_not_an_explosion(self):
        """With h^2 k = 2 Verlet's oscillations take four steps: a force of the same period makes them grow ten thousandfold, turning around
        in every second step."""

        class Driven(Spring):
            def force(self, q, v, t):
                return self.push * jnp.sin(0.5 * jnp.pi * t) - self.stiffness * q

        run = mbd.simulate(Driven(stiffness=2.0, push=1.0), 20_000.0, integrator=VERLET, step=1.0)
        assert bool(run.result == mbd.RESULTS.successful)
        assert np.abs(run.v).max() > 5e3

    def test_success_means_success_in_every_lane(self):
        """Stiffness, damping and push over many decades, the push finite or not: runs with stable steps and finite forces succeed, no other
        does unless it grows too little to be seen."""
        random = np.random.default_rng(0)
        lanes, steps = 256, 400
        k, c, push = (10.0 ** random.uniform(-3, 4, lanes) * random.choice([0, 1], lanes) for _ in range(3))
        push[::16] = np.nan
        push[1::16] = np.inf

        def end(k, c, push):
            run = mbd.simulate(Spring(1.0, 1.0, k, c, push, 50.0), steps, integrator=VERLET, step=1.0, throw=False)
            return run.result, run.q, run.v

        result, q, v = jax.jit(jax.vmap(end))(k, c, push)
        ended = np.asarray(result == mbd.RESULTS.successful)
        growth = steps * np.log([VERLET.amplification(1.0, *pair) for pair in zip(k, c, strict=True)])
        stable, finite = growth < 1e-6, np.isfinite(push)
        assert np.all(np.isfinite(q))
        assert np.all(np.isfinite(v))
        assert np.all(ended[stable & finite])
        assert not np.any(ended & (~finite | (growth > np.log(1e9))))
        assert np.all(np.asarray(result == mbd.RESULTS.not_finite)[stable & ~finite])
        assert np.sum(stable) > 50
        assert np.sum(np.asarray(result == mbd.RESULTS.diverged)) > 50

    def test_a_gradient_passes_by_lanes_that_explode(self):
        def end(k):
            return mbd.simulate(Spring(1.0, stiffness=k), 20.0, integrator=VERLET, step=1.0, throw=False).final.q[0]

        together = jax.jit(jax.vmap(jax.grad(end)))(jnp.array([0.5, 50.0]))
        alone = jax.jit(jax.grad(end))(0.5)
        assert float(together[0]) == pytest.approx(float(alone), rel=1e-12)


class TestNotFinite:
    """A user's function that is not a number from some time on."""

    @pytest.fixture(scope="class")
    @staticmethod
    def model():
        cart, other = mbd.PointMass("cart", 1.0, position=(1.0, 0.0)), mbd.PointMass("other", 1.0, position=(3.0, 0.0))
        push = mbd.PointForce("push", cart, (1.0, 0.0), lambda t: jnp.stack([jnp.sqrt(0.5 - t), 0.0 * t]))
        fine = mbd.PointForce("fine", other, (3.0, 0.0), (1.0, 0.0))
        spring = mbd.SpringDamper("spring", mbd.ground, cart, (0.0, 0.0), (1.0, 0.0), 30.0)
        return mbd.Model([cart, other], forces=[spring, fine, push]).build()

    @pytest.mark.parametrize(
        ("method", "step", "last"), [(mbd.HHT(), None, 0.5), (mbd.HHT(), 0.01, 0.5), (VERLET, None, 0.5), (VERLET, 0.02, 0.5)]
    )
    def test_the_force_is_named(self, model, method, step, last):
        with pytest.raises(mbd.SimulationError, match=r"^force 'push' is not finite after t = 0\.(5|49|48) s; .*NaN or infinite") as caught:
            mbd.simulate(model, 1.0, integrator=method, step=step)
        solution = caught.value.solution
        assert bool(solution.result == mbd.RESULTS.not_finite)
        assert solution.ts[-1] == pytest.approx(last, abs=0.021)

    def test_at_the_start(self, model):
        with pytest.raises(mbd.SimulationError, match=r"^force 'push' is not finite at t = 0\.7 s; .*at the initial state"):
            mbd.simulate(model, 1.0, t0=0.7)

    def test_under_jit_the_code_is_the_same(self, model):
        end = eqx.filter_jit(lambda k: mbd.simulate(model.set({"spring.stiffness": k}), 1.0, integrator=VERLET, step=0.02, throw=False))
        assert end(30.0).message.startswith("force 'push' is not finite after t = 0.48 s")


def test_a_root_that_does_not_exist_is_newtons_failure():
    """A force that jumps: implicit equations without a solution, at any rate with prescribed steps."""

    class Jump(Spring):
        def force(self, q, v, t):
            return jnp.where(q > 0.5, -1e6, 1e6)

    run = mbd.simulate(Jump(), 1.0, integrator=mbd.HHT(), step=0.1, throw=False)
    assert bool(run.result == mbd.RESULTS.newton_failed)
    assert "Newton's method failed at t = 0 s, worst element: coordinate 0" in run.message


@pytest.mark.parametrize("method", [mbd.DormandPrince(), mbd.AdamsPECE()])
def test_an_explicit_method_does_not_speak_of_newton(method):
    """A step of two seconds leads a pendulum's points to where no rod reaches."""
    run = mbd.simulate(CartesianPendulum(), 40.0, integrator=method, step=2.0, throw=False)
    assert bool(run.result == mbd.RESULTS.constraints_not_met)
    assert run.message.startswith("the step is too long for the constraints to be met at t = 0 s, worst element: coordinate 0")
    assert "Newton" not in run.message
    assert bool(jax.jit(lambda: mbd.simulate(CartesianPendulum(), 40.0, integrator=method, step=2.0, throw=False).result)() == run.result)


class TestMemory:
    def test_even_steps_are_slices_of_what_they_stand_for(self):
        even = EvenSteps.over(1.05, 0.1)
        whole = np.append(np.full(10, 0.1), 0.05)
        assert len(even) == 11
        np.testing.assert_allclose(even[:20], whole)
        np.testing.assert_allclose(even[4:8], whole[4:8])
        np.testing.assert_allclose(even[8:11], whole[8:])
        assert len(EvenSteps.over(1.0, 0.1)) == 10
        assert len(EvenSteps.over(0.0, 0.1)[:1]) == 0

    def test_prescribed_steps_are_bounded_too(self):
        for steps in (1e-9, np.full(2000, 5e-4)):
            run = mbd.simulate(Spring(v=1.0), 1.0, integrator=VERLET, step=steps, max_steps=1500, saveat=[0.0, 1e-6], throw=False)
            assert bool(run.result == mbd.RESULTS.max_steps_reached)
            assert run.stats["steps"] == 1500
            assert run.ts.shape[0] == np.sum(np.array([0.0, 1e-6]) <= float(run.final.t))
        run = jax.jit(lambda v: mbd.simulate(Spring(v=v), 1.0, integrator=VERLET, step=1.0 / 64, max_steps=20, throw=False))(1.0)
        assert bool(run.result == mbd.RESULTS.max_steps_reached)
        assert run.stats["steps"] == 20

    def test_more_than_memory_holds_is_refused(self):
        with pytest.raises(ValueError, match=r"1000000001 rows of \d+ bytes are [\d.]+ GB\. Give saveat=\.\.\., .*or a larger step"):
            mbd.simulate(Spring(), 1.0, integrator=VERLET, step=1e-9, max_steps=2_000_000_000)
        with pytest.raises(ValueError, match=r"\d+ GB\. Give a smaller max_steps"):
            jax.jit(lambda v: mbd.simulate(Spring(v=v), 1.0, integrator=VERLET, max_steps=1_000_000_000).final.q)(1.0)
        with pytest.raises(ValueError, match="too small to be counted"):
            mbd.simulate(Spring(), 1.0, integrator=VERLET, step=1e-300)

    def test_no_time_no_steps(self):
        run = mbd.simulate(Spring(v=1.0), 0.0, integrator=VERLET, step=0.1)
        assert run.stats["steps"] == 0
        assert run.ts.shape == (1,)


@pytest.mark.parametrize(
    "method",
    [mbd.HHT(1e-4), mbd.BDF(1e-4), mbd.RosenbrockNystrom(), mbd.DormandPrince(), VERLET, mbd.SemiExplicit()],
    ids=lambda m: m.name,
)
def test_nothing_is_nan_on_the_way(method):
    """With jax.debug_nans, whatever comes out of a compiled program as NaN raises."""
    with jax.debug_nans(True):
        run = mbd.simulate(Oscillator(), 0.2, integrator=method)
    assert bool(run.result == mbd.RESULTS.successful)


class TestStabilityLimit:
    """Factors of single steps against theory; and what is found of a model."""

    @pytest.mark.parametrize(
        ("method", "k", "c", "limit"),
        [
            (VERLET, 1.0, 0.0, 2.0),
            (VERLET, 0.0, 1.0, 1.0),  # forces see v_n + h a_n: 2 - 2 h c = 0 at the eigenvalue -1
            (mbd.SemiExplicit(0.5), 1.0, 0.0, 2.0),  # Theorem 3
            (mbd.SemiExplicit(0.5), 2.0, 0.5, 0.5 * (np.sqrt(8.25) - 0.5)),  # h c + h^2 k / 2 = 2
            (mbd.DormandPrince(), 0.0, 1.0, 3.307),  # Hairer and Wanner, figure IV.2.3
            (mbd.AdamsPECE(), 0.0, 1.0, 1.284),
        ],
    )
    def test_steps_grow_beyond_the_limit_only(self, method, k, c, limit):
        assert method.amplification(0.995 * limit, k, c) <= 1 + 1e-9
        assert method.amplification(1.005 * limit, k, c) > 1 + 1e-4

    def test_scheme_16_grows_by_its_determinant(self):
        assert ExplicitNystrom().amplification(0.1, 20.0, 0.0) == pytest.approx(np.sqrt(1 + 0.01 * 20 / 4), rel=1e-12)

    def test_dormand_prince_is_the_exponential_to_fifth_order(self):
        assert mbd.DormandPrince().amplification(0.1, 0.0, -1.0) == pytest.approx(np.exp(0.1), abs=1e-8)

    @pytest.fixture(scope="class")
    @staticmethod
    def disc():
        """A disc on a floor that it just touches."""
        body = mbd.PlanarBody("disc", 2.0, 0.01, position=(0.0, 0.1), velocity=(1.0, 0.0))
        law, friction = mbd.LinearContact(2e4), mbd.Coulomb(0.1, regularisation=0.01)
        floor = mbd.DiscLine("floor", body, mbd.ground, (0.0, 0.1), 0.1, (0.0, 0.0), (0.0, 1.0), law, friction)
        return mbd.Model([body], forces=[mbd.Gravity((0.0, -10.0)), floor]).build()

    @pytest.mark.parametrize(
        ("changes", "step", "warning"),
        [
            # sqrt(k / m) = 100 1/s: 20 ms. Friction: mu g (1 + m r^2 / J) / v_r = 0.1 * 10 * 3 / v_r, Verlet up to the inverse of that.
            ({}, 3e-3, None),
            ({}, 4e-3, r"about 0\.0033 s, because friction in contact 'floor' brakes slow slip at 3e\+02 1/s"),
            ({"floor.regularisation": 1.0}, 19e-3, None),
            (
                {"floor.regularisation": 1.0, "disc.position": (0.0, 0.2)},
                21e-3,
                r"about 0\.02 s, because contact 'floor' is as stiff as 16 Hz",
            ),
        ],
    )
    def test_contacts_are_seen_before_they_close(self, disc, changes, step, warning):
        with nullcontext() if warning is None else pytest.warns(match=warning):
            mbd.simulate(disc.set(changes), 2.0, integrator=VERLET, step=step, throw=False)


def test_steps_of_replayed_runs_do_not_warn():
    """They were chosen step by step: a limit at the start says nothing."""
    run = mbd.simulate(
        light_mass(), 2e-3, integrator=VERLET, step=np.append(np.full(4, 1.3e-4), np.full(24, (2e-3 - 5.2e-4) / 24)), throw=False
    )
    assert run.stats["steps"] == 28
