"""Explicit methods on the state-space form: accuracy, stability limits, derivatives."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks.smooth_problems import SMOOTH

from ..registry import Sling, sling_reference

END = 0.5


@pytest.fixture(scope="module")
def sling_end():
    return {part: rows[-1] for part, rows in zip(("q", "v", "x", "multipliers"), sling_reference([0.0, END]), strict=True)}


def order(system, end, exact, method, counts):
    """Measured from two numbers of steps, the second twice the first, of every part of the exact state: names and values."""
    errors = []
    for n in counts:
        final = mbd.simulate(system, end, integrator=method, step=end / n).final
        errors.append([np.max(np.abs(getattr(final, part) - value)) for part, value in exact.items()])
    return np.log2(np.array(errors[0]) / np.array(errors[1]))


def test_dormand_prince_is_of_order_five():
    exact = dict(zip(("q", "v"), SMOOTH["pendulum"].reference([2.0]), strict=True))
    np.testing.assert_allclose(order(SMOOTH["pendulum"].model().build(), 2.0, exact, mbd.DormandPrince(), (80, 160)), 5, atol=0.2)


@pytest.mark.parametrize("method", [mbd.DormandPrince, mbd.AdamsPECE])
def test_error_follows_the_tolerance(method, sling_end):
    tolerances = (1e-4, 1e-6, 1e-8)
    runs = [mbd.simulate(Sling(), END, integrator=method(t, t)) for t in tolerances]
    errors = [float(np.max(np.abs(run.final.q - sling_end["q"]))) for run in runs]
    assert all(error < 50 * tolerance for error, tolerance in zip(errors, tolerances, strict=True)), errors
    assert all(np.max(run.stats["steps"]) < 200 for run in runs)


def test_evaluations_are_counted():
    for method, each in ((mbd.DormandPrince(), 6), (mbd.AdamsPECE(), 2)):
        stats = mbd.simulate(Sling(), END, integrator=method).stats
        assert stats["force_evaluations"] == each * (stats["steps"] + stats["rejected"])


class Decay(mbd.AbstractSystem):
    """A mass in honey: y'' = -rate y', an eigenvalue of -rate."""

    q0: jax.Array
    v0: jax.Array
    rate: jax.Array

    def __init__(self, rate):
        self.q0, self.v0, self.rate = jnp.zeros(1), jnp.ones(1), jnp.asarray(rate, float)

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t):
        return -self.rate * v


@pytest.mark.parametrize(("step_times_rate", "stable"), [(1.1, True), (1.4, False)])
def test_stability_limit_of_adams(step_times_rate, stable):
    """PECE of order 4 is stable to about 1.28 on the negative axis; past that errors grow, and it is said beforehand."""
    told = (
        nullcontext() if stable else pytest.warns(match=r"limit of AdamsPECE, about 0\.013 s, because coordinate 0 is damped at 1e\+02 1/s")
    )
    with told:
        run = mbd.simulate(Decay(100.0), 200 * step_times_rate / 100.0, integrator=mbd.AdamsPECE(), step=step_times_rate / 100.0)
    assert (abs(float(run.final.v[0])) < 1e-6) == stable
