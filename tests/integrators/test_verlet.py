"""Explicit methods that carry the evaluation at the end of a step, and the theta method."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems import Oscillators

from ..registry import DrivenFilter, Oscillator


def test_verlet_keeps_the_energy_of_an_oscillator():
    """No drift: the energy oscillates by about (h w)^2 / 4 of itself, over 1000 steps as over 100."""
    run = mbd.simulate(Oscillator(40.0), 20.0, integrator=mbd.Verlet(), step=0.02)
    energy = np.asarray(run.energy().total) / float(run.energy().total[0]) - 1
    bound = 0.02**2 * 20.0 / 4
    assert np.max(np.abs(energy)) == pytest.approx(bound, rel=0.05)
    assert np.max(np.abs(energy[-100:])) < 1.01 * np.max(np.abs(energy[:100]))
    assert run.stats["a_evaluations"] == run.stats["steps"]


def test_scheme_16_is_what_is_printed():
    run = mbd.simulate(Oscillator(40.0), 0.4, integrator=mbd.ExplicitNystrom(), step=0.1)
    q, v = 1.0, 0.0
    for _ in range(4):
        force = -20.0 * q
        q, v = q + 0.1 * v + 0.75 * 0.01 * force, v + 0.1 * force
    np.testing.assert_allclose([run.final.q[0], run.final.v[0]], [q, v], rtol=1e-12)


@pytest.mark.parametrize(
    ("method", "order"),
    [(mbd.Theta(1.0), 1), (mbd.SemiExplicit(predict_velocity=True), 2)],
    ids=lambda value: getattr(value, "name", value),
)
def test_orders_with_differential_states(method, order):
    """q, v and x of a mass with a filter that acts back."""
    system = DrivenFilter()
    exact = system.exact([1.0])[0]
    runs = [mbd.simulate(system, 1.0, integrator=method, step=h).final for h in (0.02, 0.01)]
    errors = np.array([[float(run.q[0]), float(run.v[0]), float(run.x[0])] for run in runs]) - exact
    np.testing.assert_allclose(np.log2(np.abs(errors[0] / errors[1])), order, atol=0.2)


def test_theta_damps_the_stiff_mode_only_beyond_one_half():
    """Section 6.1 at h = 1: the difference of the two masses decays for theta = 0.8 and rings for 1/2, where |R| is nearly 1."""
    gap = [
        abs(float(run.final.q[0] - run.final.q[1]))
        for run in (mbd.simulate(Oscillators(), 20.0, integrator=mbd.Theta(theta), step=1.0) for theta in (0.5, 0.8))
    ]
    # The soft spring keeps about k_A / (2 k_B) of the amplitude between them.
    assert gap[0] > 30 * gap[1]
    assert gap[1] < 1e-3


def test_evaluations_of_the_theta_method_are_counted():
    stats = mbd.simulate(Oscillators(), 5.0, integrator=mbd.Theta(0.8), step=1.0).stats
    assert stats["a_evaluations"] == stats["b_evaluations"] == stats["newton_iterations"] > 5
    assert stats["jacobians"] == 1
