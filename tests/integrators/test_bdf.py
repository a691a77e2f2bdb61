"""BDF: measured orders, forms and scalings that agree, chosen orders, derivatives over replayed steps and orders, what it refuses."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import jaxmbd as mbd
from benchmarks.smooth_problems import SMOOTH
from jaxmbd.integrators.multistep import Formula, Grid, interpolation_weights
from jaxmbd.integrators.order_control import _does_not_fall

from ..registry import CartesianPendulum, DrivenFilter, cartesian_pendulum_reference

END = 0.8


@pytest.fixture(scope="module")
def pendulum():
    return CartesianPendulum()


def largest_errors(run, settled=0):
    """Of q and v over all steps, and of the multipliers after as many as it takes."""
    q, v, multipliers = cartesian_pendulum_reference(run.ts)
    return [np.max(np.abs(run.q - q)), np.max(np.abs(run.v - v)), np.max(np.abs(run.multipliers - multipliers)[settled:])]


class TestFormulas:
    """On a grid of uneven steps; rows are the newest points first."""

    STEPS = jnp.array([0.1, 0.17, 0.08, 0.12, 0.2, 0.1, 0.1])
    H = jnp.array(0.15)

    def times(self):
        return -np.concatenate([[0.0], np.cumsum(self.STEPS[:-1])])

    @pytest.mark.parametrize("order", range(1, 7))
    def test_derivative_is_exact_for_polynomials_of_the_order(self, order):
        t, h = self.times(), float(self.H)
        rows = jnp.asarray(np.stack([t**order, 3 * t ** (order - 1)], axis=1))
        formula = Formula.of_order(Grid.behind(self.H, self.STEPS), jnp.array(order))
        found = formula.derivative(jnp.array([h**order, 3 * h ** (order - 1)]), rows)
        np.testing.assert_allclose(found, [order * h ** (order - 1), 3 * (order - 1) * h ** max(order - 2, 0)], rtol=1e-11, atol=1e-11)

    def test_coefficients_on_even_steps_are_the_classical_ones(self):
        formula = Formula.of_order(Grid.behind(jnp.array(1.0), jnp.ones(7)), jnp.array(3))
        np.testing.assert_allclose([formula.leading, *formula.weights[:4]], [11 / 6, -3, 1.5, -1 / 3, 0], atol=1e-14)

    @pytest.mark.parametrize("order", range(1, 6))
    def test_error_constant_turns_the_miss_of_the_prediction_into_the_local_error(self, order):
        """For y = t^(k+1) the local error is known: the error of the derivative over the leading coefficient."""
        t, h = self.times(), float(self.H)
        grid = Grid.behind(self.H, self.STEPS)
        rows, value = jnp.asarray(t ** (order + 1))[:, None], jnp.array([h ** (order + 1)])
        formula = Formula.of_order(grid, jnp.array(order))
        error = (formula.derivative(value, rows)[0] - (order + 1) * h**order) / formula.leading
        miss = grid.misses(value, rows)[order - 1, 0]
        np.testing.assert_allclose(grid.error_constants()[order - 1] * miss, -error, rtol=1e-9)

    def test_interpolation_is_exact_for_polynomials_of_the_order(self):
        t = self.times()
        weights = interpolation_weights(self.STEPS, jnp.array(4), jnp.array(0.06))
        assert weights @ (t**4 - t) == pytest.approx(0.06**4 + 0.06, rel=1e-12)


class TestOrder:
    @pytest.mark.parametrize(
        ("order", "sizes"), [(1, (0.002, 0.001)), (2, (0.01, 0.005)), (3, (0.01, 0.005)), (4, (0.01, 0.005)), (5, (0.02, 0.01))]
    )
    def test_index_three_pendulum(self, pendulum, order, sizes):
        """Order k in q and v at once: the start does not spoil it. In the first k steps multipliers are one order less accurate."""
        runs = [mbd.simulate(pendulum, END, integrator=mbd.BDF(1e-9, order=order), step=h) for h in sizes]
        coarse, fine = (np.array(largest_errors(run, settled=2 * order)) for run in runs)
        np.testing.assert_allclose(np.log2(coarse / fine), order, atol=0.2, err_msg="of q, v, multipliers")
        assert runs[1].stats[f"steps_of_order_{order}"] == runs[1].stats["steps"]

    def test_mass_matrix_of_euler_parameters(self):
        """Singular, and a function of q."""
        system, exact = SMOOTH["tumbling-body"].model().build(), SMOOTH["tumbling-body"].reference([END])
        ends = [mbd.simulate(system, END, integrator=mbd.BDF(1e-9, order=3), step=h).final for h in (0.02, 0.01)]
        errors = np.array([[np.max(np.abs(got - want)) for got, want in zip((end.q, end.v), exact, strict=True)] for end in ends])
        np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 3, atol=0.2)

    def test_stiff_systems_start_with_rising_order(self):
        """What decays within microseconds has no past that explicit steps could find."""
        run = mbd.simulate(DrivenFilter(time_constant=1e-6), 0.1, integrator=mbd.BDF(1e-9, order=4), step=0.01)
        assert list(run.orders[:5]) == [1, 2, 3, 4, 4]
        assert np.max(np.abs(run.x[1:, 0] - run.q[1:, 0])) < 1e-4  # the filter follows at once


class TestForms:
    @pytest.mark.parametrize("options", [{"scaling": "none"}, {"form": "three-field", "scaling": "multipliers"}], ids=str)
    def test_forms_and_scalings_give_the_same_motion(self, pendulum, options):
        default = mbd.simulate(pendulum, 0.1, integrator=mbd.BDF(1e-9, order=2), step=0.005)
        other = mbd.simulate(pendulum, 0.1, integrator=mbd.BDF(1e-9, order=2, **options), step=0.005)
        np.testing.assert_allclose(other.q, default.q, atol=1e-11)
        np.testing.assert_allclose(other.v, default.v, atol=1e-8)  # Newton's 1e-12 over h
        np.testing.assert_allclose(other.multipliers, default.multipliers, rtol=1e-6, atol=1e-5)

    def test_stabilised_form_satisfies_velocity_constraints(self, pendulum):
        tolerance = 1e-6
        plain = mbd.simulate(pendulum, 1.0, integrator=mbd.BDF(tolerance, velocity_error=False))
        stable = mbd.simulate(pendulum, 1.0, integrator=mbd.BDF(tolerance, index="stabilized-2"))
        violations = [np.max(np.abs(np.sum(run.q * run.v, axis=1))) for run in (plain, stable)]
        assert violations[1] < 1e-7 < 1e-5 < violations[0]
        assert largest_errors(stable)[1] < 1e3 * tolerance  # velocities are controlled; measured 130
        assert np.max(stable.constraint_violation()) < 1e-9


@pytest.fixture(scope="module")
def runs(pendulum):
    """By tolerance."""
    return {tolerance: mbd.simulate(pendulum, 2.0, integrator=mbd.BDF(tolerance)) for tolerance in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)}


class TestAdaptive:
    def test_error_follows_the_tolerance(self, runs):
        errors = [largest_errors(run)[0] for run in runs.values()]
        assert np.polyfit(np.log(list(runs)), np.log(errors), 1)[0] > 0.7  # theory: 5/6 with order 5
        assert all(tight < 2 * loose for loose, tight in itertools.pairwise(errors))

    def test_constraints_hold_at_every_accepted_step(self, runs):
        for run in runs.values():
            assert np.max(run.constraint_violation()) < 1e-9

    def test_orders_are_chosen_and_counted(self, runs):
        run = runs[1e-6]
        orders = np.asarray(run.orders)
        assert orders[0] == 1
        assert np.max(orders) == 5
        assert np.all(np.diff(orders) <= 1)
        assert [run.stats[f"steps_of_order_{k}"] for k in range(1, 7)] == [int(np.sum(orders == k)) for k in range(1, 7)]

    def test_high_orders_need_fewer_steps(self, runs, pendulum):
        second = mbd.simulate(pendulum, 2.0, integrator=mbd.BDF(1e-7, order=2))
        assert set(np.asarray(second.orders)) == {1, 2}
        assert runs[1e-7].stats["steps"] < 0.3 * second.stats["steps"]

    def test_jacobian_is_recycled(self, runs):
        stats = runs[1e-7].stats
        assert stats["jacobians"] < 0.6 * stats["steps"]
        assert stats["newton_iterations"] < 4.5 * (stats["steps"] + stats["rejected"])

    def test_interpolation_is_as_accurate_as_the_steps(self, runs, pendulum):
        times = np.linspace(0.0, 2.0, 57)
        between = mbd.simulate(pendulum, 2.0, integrator=mbd.BDF(1e-6), saveat=times)
        q, v, _ = cartesian_pendulum_reference(times)
        at_steps = largest_errors(runs[1e-6])
        assert np.max(np.abs(between.q - q)) < 1.5 * at_steps[0]
        assert np.max(np.abs(between.v - v)) < 1.5 * at_steps[1]


class Ringing(mbd.AbstractSystem):
    """Two unit masses: y follows x, which swings slowly, by a stiff spring with little damping."""

    off: Array
    """m, by which y starts beside x"""
    frequency: float = eqx.field(static=True)
    """rad/s, of y alone"""
    v0: Array = eqx.field(default_factory=lambda: jnp.zeros(2))

    @property
    def q0(self):
        return jnp.stack([1.0 + 0.0 * self.off, 1.0 + self.off])

    def mass(self, q):
        return jnp.eye(2)

    def force(self, q, v, t):
        return jnp.stack([-q[0], self.frequency**2 * (q[0] - q[1]) - 2 * 0.01 * self.frequency * v[1]])


class TestVibrationsThatAreNotResolved:
    """Without damping, orders 3, 4 and 5 excite a vibration of frequency w in steps of up to h = 1.9 / w, 4.7 / w and 9.4 / w."""

    @pytest.mark.parametrize(
        ("terms", "order", "expected"),
        [
            ([1.0, 2.0, 3.0, 4.0, 5.0], 5, True),
            ([9.0, 9.0, 3.0, 3.0, 3.0], 5, True),
            ([1.0, 2.0, 6.0, 4.0, 5.0], 5, False),  # one of the last three is larger
            ([1.0, 2.0, 3.0, 6.0, 5.0], 5, False),
            ([1.0, 2.0, 3.0, 0.1, 0.2], 3, True),  # what is above the order does not matter
            ([1.0, 2.0, 3.0, 4.0, 5.0], 2, False),  # orders 1 and 2 are stable
            ([1.0, 2.0, 3.0, 4.0, 5.0], 1, False),
            ([1.0, 2.0, np.inf, np.inf, np.inf], 3, False),  # nothing is known of it
        ],
    )
    def test_terms_that_do_not_fall(self, terms, order, expected):
        assert _does_not_fall(jnp.array(terms), jnp.array(order)) == expected

    @pytest.mark.parametrize("turn", [1.0, 2.0, 3.0])
    def test_the_chosen_order_does_not_excite_them(self, turn):
        """Steps of w h = `turn`, whose errors are far above the tolerance, ask for high orders: without the rule order 5 makes a million metres
        of a millimetre."""
        run = mbd.simulate(Ringing(jnp.array(1e-3), 100.0), 2 * turn, integrator=mbd.BDF(1e-6), step=turn / 100)
        assert np.max(np.abs(run.q[:, 1] - run.q[:, 0])) < 1.1e-3

    def test_max_order(self):
        """Adaptive steps become longer than the vibration's period with both, and fewer with order 5 (measured 653 and 1100)."""
        system = Ringing(jnp.zeros(()), 1e3)
        free, second = (mbd.simulate(system, 10.0, integrator=mbd.BDF(1e-4, max_order=k)) for k in (5, 2))
        assert np.max(second.orders) == 2
        assert np.max(free.orders) == 5
        assert free.stats["steps"] < 0.8 * second.stats["steps"] < 1500
        for run in (free, second):
            np.testing.assert_allclose(run.q[:, 0], np.cos(run.ts), atol=1e-3)


class TestDerivatives:
    BDF = mbd.BDF(1e-6, corrector=1e-5)  # forward mode differentiates at what Newton leaves
    AT = 9.81

    @staticmethod
    def end(gravity, integrator, **options):
        system = eqx.tree_at(lambda s: s.gravity, CartesianPendulum(), jnp.asarray(gravity, float))
        return mbd.simulate(system, 1.0, integrator=integrator, **options).final.q[0]

    @pytest.fixture(scope="class")
    @classmethod
    def run(cls, pendulum):
        return mbd.simulate(pendulum, 1.0, integrator=cls.BDF)

    @pytest.fixture(scope="class")
    @classmethod
    def differences(cls, run):
        """Over replayed steps and orders."""
        replay = mbd.BDF(1e-6, orders=run.orders)
        up, down = (cls.end(cls.AT + d, replay, step=run.steps) for d in (1e-4, -1e-4))
        return float(up - down) / 2e-4

    def test_replay_takes_the_same_steps_and_orders(self, run, pendulum):
        again = mbd.simulate(pendulum, 1.0, integrator=mbd.BDF(1e-6, orders=run.orders), step=run.steps)
        np.testing.assert_array_equal(again.orders, run.orders)
        np.testing.assert_allclose(again.q, run.q, atol=1e-6)  # what Newton leaves, a thousandth of the tolerance in every step, adds up

    def test_reverse_mode(self, differences):
        gradient = jax.grad(lambda g: self.end(g, self.BDF, max_steps=256))(self.AT)
        assert gradient == pytest.approx(differences, rel=1e-5)

    def test_forward_mode(self, differences):
        gradient = jax.jacfwd(lambda g: self.end(g, self.BDF, max_steps=256, adjoint="forward"))(self.AT)
        assert gradient == pytest.approx(differences, rel=1e-5)

    def test_batch_equals_single_runs(self, run):
        def lane(gravity):
            system = eqx.tree_at(lambda s: s.gravity, CartesianPendulum(), gravity)
            return mbd.simulate(system, 1.0, integrator=self.BDF, max_steps=256)

        batch = jax.vmap(lane)(jnp.array([5.0, self.AT]))
        assert batch.stats["steps"][1] == run.stats["steps"]
        np.testing.assert_array_equal(batch.orders[1][: len(run.orders)], run.orders)
        np.testing.assert_allclose(batch.final.q[1], run.final.q, atol=1e-12)
        assert batch.stats["steps"][0] < batch.stats["steps"][1]


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"order": 7}, "order of BDF must be a whole number from 1 to 6"),
            ({"order": 0}, "order of BDF must be a whole number from 1 to 6"),
            ({"order": 2.5}, "order of BDF must be a whole number from 1 to 6"),
            ({"max_order": 6}, "max_order of BDF must be a whole number from 1 to 5, got 6: order=6 takes 6 in every step"),
            ({"max_order": 0}, "max_order of BDF must be a whole number from 1 to 5, got 0"),
            ({"max_order": None}, "max_order of BDF must be a whole number from 1 to 5, got None"),
            ({"form": "one-field"}, "form of BDF must be one of 'two-field', 'three-field'"),
            ({"scaling": "multipliers"}, "no velocities are left to scale: write scaling='full'"),
            ({"scaling": "some"}, "scaling of BDF in the two-field form must be one of"),
            ({"stop": "forces"}, "stop of BDF must be one of 'motion', 'unknowns'"),
            ({"index": 2}, "index of BDF must be 3 or 'stabilized-2'"),
            ({"k_ave": -1.0}, "k_ave of BDF must not be negative"),
            ({"tolerance": 0.0}, "tolerance of BDF must be positive"),
            ({"order": 2, "orders": [1, 2]}, "an order or the orders of all steps, not both"),
            ({"orders": [1, 9]}, "orders of BDF must be a one-dimensional array of whole numbers from 1 to 6"),
        ],
    )
    @pytest.mark.usefixtures("annotations_unchecked")
    def test_impossible_parameters_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            mbd.BDF(**arguments)

    def test_inconsistent_start_is_named(self):
        class Torn(CartesianPendulum):
            def constraint(self, q, t):
                return jnp.stack([q[0] - 1.0, q[0] - 2.0])

        with pytest.raises(mbd.SimulationError, match="constraints cannot be satisfied near the initial configuration"):
            mbd.simulate(Torn(), 1.0, integrator=mbd.BDF())
