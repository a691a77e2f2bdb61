"""Explicit methods on the state-space form: accuracy, stability limits, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

from ..registry import Oscillator, Sling

END = 0.5


@pytest.fixture(scope="module")
def sling_end():
    """By an implicit method: nothing is shared but the reduction."""
    return mbd.simulate(Sling(), END, integrator=mbd.Rodas4(1e-11, 1e-11)).final


def test_dormand_prince_is_of_order_five(sling_end):
    """At least: over so short a time it is better, and finer steps end in rounding."""
    errors = []
    for n in (5, 10, 20):
        final = mbd.simulate(Sling(), END, integrator=mbd.DormandPrince(), step=END / n).final
        errors.append([np.max(np.abs(getattr(final, part) - getattr(sling_end, part))) for part in ("q", "v", "x")])
    assert np.all(np.log2(np.array(errors[-2]) / np.array(errors[-1])) > 4.8)


@pytest.mark.parametrize("method", [mbd.DormandPrince, mbd.AdamsPECE])
def test_error_follows_the_tolerance(method, sling_end):
    tolerances = (1e-4, 1e-6, 1e-8)
    runs = [mbd.simulate(Sling(), END, integrator=method(t, t)) for t in tolerances]
    errors = [float(np.max(np.abs(run.final.q - sling_end.q))) for run in runs]
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
    """PECE of order 4 is stable to about 1.28 on the negative axis; past that errors grow."""
    run = mbd.simulate(Decay(100.0), 200 * step_times_rate / 100.0, integrator=mbd.AdamsPECE(), step=step_times_rate / 100.0)
    assert (abs(float(run.final.v[0])) < 1e-6) == stable


def test_gradients_agree():
    def end(p, adjoint="reverse", step=None):
        run = mbd.simulate(Oscillator(p), END, integrator=mbd.AdamsPECE(1e-5, 1e-5), adjoint=adjoint, step=step, max_steps=128)
        return run.final.q[0]

    reverse = jax.jit(jax.grad(end))(40.0)
    forward = jax.jit(jax.jacfwd(lambda p: end(p, "forward")))(40.0)
    assert reverse == pytest.approx(float(forward), rel=1e-10)
    steps = mbd.simulate(Oscillator(40.0), END, integrator=mbd.AdamsPECE(1e-5, 1e-5)).steps
    replay = jax.jit(lambda p: end(p, step=steps))
    assert reverse == pytest.approx(float((replay(40.001) - replay(39.999)) / 0.002), rel=1e-6)
