"""HHT: measured orders, damping, differential states, and what it refuses."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks.smooth_problems import SMOOTH

from ..registry import CartesianPendulum, DrivenFilter, Oscillator, cartesian_pendulum_reference

END = 0.8


def order(errors, ratio=2.0):
    """Measured order from errors at steps h, h/2, h/4, ..., by the last halving."""
    return np.log(errors[-2] / errors[-1]) / np.log(ratio)


def errors_at(system, sizes, exact, integrator):
    """Largest error at the end, one row a step size, one column a quantity."""
    rows = []
    for step in sizes:
        final = mbd.simulate(system, END, integrator=integrator, step=step).final
        rows.append([np.max(np.abs(np.asarray(got) - want)) for got, want in zip(final_parts(final), exact, strict=True)])
    return np.array(rows)


def final_parts(final):
    return final.q, final.v, final.multipliers


TIGHT = mbd.HHT(tolerance=1e-9)


@pytest.fixture(scope="module")
def pendulum():
    return CartesianPendulum()


@pytest.fixture(scope="module")
def pendulum_end():
    return [part[-1] for part in cartesian_pendulum_reference(np.array([0.0, END]))]


class TestOrder:
    def test_index_three_pendulum_is_second_order_in_q_v_and_lambda(self, pendulum, pendulum_end):
        errors = errors_at(pendulum, [0.01, 0.005, 0.0025], pendulum_end, TIGHT)
        assert order(errors[:, 0]) == pytest.approx(2.0, abs=0.2)
        assert order(errors[:, 1]) == pytest.approx(2.0, abs=0.2)
        assert order(errors[:, 2]) == pytest.approx(2.0, abs=0.2)

    def test_alternating_steps_keep_the_order(self, pendulum, pendulum_end):
        """Of the motion: without moving a_n to the time that a new step assigns to it, jumps of the step cost one order (measured 0.9).

        They do cost one in the multipliers: these follow from positions over h^2, and what velocities miss across the constraints, O(h^2), no
        longer cancels from step to step.
        """
        errors = []
        for n in (80, 160, 320):
            pair = np.array([1.5, 1.0]) / 2.5 * END / (n / 2)
            final = mbd.simulate(pendulum, END, integrator=TIGHT, step=np.tile(pair, n // 2)).final
            errors.append([np.max(np.abs(got - want)) for got, want in zip(final_parts(final), pendulum_end, strict=True)])
        errors = np.array(errors)
        assert order(errors[:, 0]) == pytest.approx(2.0, abs=0.2)
        assert order(errors[:, 1]) == pytest.approx(2.0, abs=0.2)
        assert order(errors[:, 2]) == pytest.approx(1.0, abs=0.2)

    def test_spatial_body_in_euler_parameters_is_second_order(self):
        """Averaging forces as printed would be first order here, because the mass matrix depends on q."""
        q, v = SMOOTH["tumbling-body"].reference([END])
        errors = errors_at(SMOOTH["tumbling-body"].model().build(), [0.02, 0.01], (q[0], v[0], 0.0), TIGHT)
        assert order(errors[:, 0]) == pytest.approx(2.0, abs=0.2)
        assert order(errors[:, 1]) == pytest.approx(2.0, abs=0.2)
        assert np.all(errors[:, 2] < 1e-5)  # nothing pulls at the normalisation of the Euler parameters; what Newton leaves, 1e-12 over h^2

    @pytest.mark.parametrize(("rho", "expected"), [(None, 2.0), (0.7, 1.0), (1.0, 1.0)])
    def test_states_are_second_order_unless_rho_is_given(self, rho, expected):
        """(9) with rho > 1/2 as printed is first order."""
        system, errors = DrivenFilter(), []
        for step in (0.02, 0.01):
            final = mbd.simulate(system, 1.0, integrator=mbd.HHT(1e-9, rho=rho), step=step).final
            errors.append(abs(float(final.x[0]) - system.exact([1.0])[0, 2]))
        assert order(errors) == pytest.approx(expected, abs=0.2)


@pytest.fixture(scope="module")
def runs(pendulum):
    """By tolerance."""
    tolerances = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
    return {tolerance: mbd.simulate(pendulum, 2.0, integrator=mbd.HHT(tolerance=tolerance)) for tolerance in tolerances}


class TestAdaptive:
    def test_error_follows_the_tolerance(self, runs):
        errors = []
        for run in runs.values():
            q, _, _ = cartesian_pendulum_reference(run.ts)
            errors.append(np.max(np.abs(np.asarray(run.q) - q)))
        slope = np.polyfit(np.log(list(runs)), np.log(errors), 1)[0]
        assert slope == pytest.approx(2 / 3, abs=0.1)  # local errors of third order, global ones of second
        assert all(tight < loose for loose, tight in itertools.pairwise(errors))

    def test_constraints_hold_at_every_accepted_step(self, runs):
        for run in runs.values():
            assert np.max(run.constraint_violation()) < 1e-9

    def test_jacobian_is_recycled(self, runs):
        stats = runs[1e-6].stats
        assert stats["jacobians"] < 0.5 * stats["steps"]
        assert stats["newton_iterations"] < 4 * (stats["steps"] + stats["rejected"])

    def test_differential_states_are_controlled(self):
        """A fast filter limits the step although the motion is slow: (36), (38)."""
        system = DrivenFilter(time_constant=0.01)
        run = mbd.simulate(system, 1.0, integrator=mbd.HHT(tolerance=1e-4))
        exact = system.exact(np.asarray(run.ts))
        assert np.max(np.abs(run.x[:, 0] - exact[:, 2])) < 2e-3
        assert run.stats["steps"] > mbd.simulate(DrivenFilter(10.0), 1.0, integrator=mbd.HHT(tolerance=1e-4)).stats["steps"]

    def test_estimates_of_states_of_the_method_s_own_order_save_steps(self):
        """(33) is of second order in h, the averaged method of third: at a tenth of the tolerance 10^(1/2) times the steps, not 10^(1/3)."""
        steps = {}
        for estimate in ("own-order", "printed"):
            runs = [mbd.simulate(DrivenFilter(0.01), 1.0, integrator=mbd.HHT(tol, state_error=estimate)) for tol in (1e-4, 1e-5)]
            steps[estimate] = [run.stats["steps"] for run in runs]
            exact = DrivenFilter(0.01).exact(np.asarray(runs[1].ts))
            assert np.max(np.abs(runs[1].x[:, 0] - exact[:, 2])) < 5e-4
        assert steps["own-order"][1] < 0.6 * steps["printed"][1]
        growth = {name: np.log10(fine / coarse) for name, (coarse, fine) in steps.items()}
        assert growth["own-order"] == pytest.approx(1 / 3, abs=0.06)
        assert growth["printed"] == pytest.approx(1 / 2, abs=0.06)

    def test_length_scale_sets_the_unit_of_the_error(self, pendulum):
        """A pendulum of a thousandth of the length, seen at that scale, takes the same steps (in its own time)."""
        small = CartesianPendulum(gravity=9.81e-3, length=1e-3)
        coarse = mbd.simulate(small, 1.0, integrator=mbd.HHT(tolerance=1e-5))
        fine = mbd.simulate(small, 1.0, integrator=mbd.HHT(tolerance=1e-5, length_scale=1e-3))
        like = mbd.simulate(pendulum, 1.0, integrator=mbd.HHT(tolerance=1e-5))
        assert fine.stats["steps"] > 5 * coarse.stats["steps"]
        assert fine.stats["steps"] == pytest.approx(like.stats["steps"], rel=0.05)


class TestSpecialCases:
    def test_trapezoidal_rule_keeps_the_energy_of_an_oscillator(self):
        run = mbd.simulate(Oscillator(), 20.0, integrator=mbd.Trapezoidal(tolerance=1e-9), step=0.05)
        energy = run.energy().total
        assert np.max(np.abs(energy / energy[0] - 1)) < 1e-9  # rounding and Newton's remainder over 400 steps

    def test_hht_damps_high_frequencies_only(self):
        stiff, soft = Oscillator(4e6), Oscillator(4.0)
        lost = {}
        for name, system in (("stiff", stiff), ("soft", soft)):
            energy = mbd.simulate(system, 2.0, integrator=mbd.HHT(tolerance=1e-8), step=0.02).energy().total
            lost[name] = 1 - float(energy[-1] / energy[0])
        assert lost["stiff"] > 0.999
        assert lost["soft"] < 0.01

    @pytest.mark.parametrize("method", [mbd.Trapezoidal(), mbd.Newmark(beta=0.25, gamma=0.5), mbd.HHT(alpha=0.0)])
    def test_undamped_rules_warn_on_constraints(self, pendulum, method):
        with pytest.warns(UserWarning, match="unstable on constraints"):
            method.check(pendulum)

    def test_undamped_rules_do_not_ask_for_penalties_where_there_are_no_joints(self):
        body = mbd.Model([mbd.RigidBody("body", 1.0, (1.0, 1.0, 1.0))], forces=[mbd.Gravity((0.0, 0.0, -9.81))]).build()
        with pytest.warns(UserWarning, match=r"as the Euler parameters of bodies in space have: .* Use HHT with alpha < 0\.$"):
            mbd.Trapezoidal().check(body)

    def test_damped_newmark_says_that_it_is_first_order(self, pendulum):
        with pytest.warns(UserWarning, match="only first order"):
            mbd.Newmark().check(pendulum)

    def test_nothing_is_said_without_constraints(self):
        for method in (mbd.Trapezoidal(), mbd.Newmark(), mbd.HHT(alpha=0.0)):
            method.check(Oscillator())

    def test_newmark_is_hht_without_averaging(self):
        """With beta = 1/4 and gamma = 1/2 both are the trapezoidal rule."""
        system = Oscillator()
        newmark = mbd.simulate(system, 1.0, integrator=mbd.Newmark(1e-9, beta=0.25, gamma=0.5), step=0.01)
        hht = mbd.simulate(system, 1.0, integrator=mbd.HHT(1e-9, alpha=0.0), step=0.01)
        np.testing.assert_allclose(newmark.q, hht.q, atol=1e-12)


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"tolerance": 0.0}, "tolerance of HHT must be positive"),
            ({"tolerance": -1e-5}, "tolerance of HHT must be positive"),
            ({"alpha": -0.5}, r"alpha of HHT must lie in \[-1/3, 0\]"),
            ({"alpha": 0.1}, r"alpha of HHT must lie in \[-1/3, 0\]"),
            ({"length_scale": 0.0}, "length_scale of HHT must be positive"),
            ({"rho": 0.5}, r"rho of HHT must lie in \(1/2, 1\]"),
            ({"state_error": "exact"}, "state_error of HHT must be one of 'own-order', 'printed': got 'exact'"),
            ({"scaling": "left"}, "scaling of HHT must be one of 'full', 'accelerations', 'positions': got 'left'"),
            ({"tolerance": jnp.nan}, "tolerance of HHT is not finite"),
        ],
    )
    def test_impossible_parameters_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            mbd.HHT(**arguments)
