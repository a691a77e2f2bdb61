"""Values within steps."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks.smooth_problems import SMOOTH
from jaxmbd.integrators.interpolation import quintic


def test_polynomials_of_degree_five_are_reproduced():
    coefficients = np.array([0.3, -1.2, 0.7, 2.0, -0.4, 0.9])
    p = [np.polynomial.Polynomial(coefficients).deriv(k) for k in range(3)]
    t0, t1, t = 0.2, 0.9, 0.55
    ends = [jnp.asarray(f(at)) for at in (t0, t1) for f in p]
    value, rate = quintic((t - t0) / (t1 - t0), jnp.asarray(t1 - t0), *ends)
    assert value == pytest.approx(p[0](t), rel=1e-13)
    assert rate == pytest.approx(p[1](t), rel=1e-13)


@pytest.mark.parametrize("integrator", [mbd.RosenbrockNystrom(1e-6, 1e-6), mbd.DormandPrince(1e-6, 1e-6), mbd.BDF(1e-6), mbd.HHT(1e-7)])
def test_states_within_steps_are_as_accurate_as_at_their_ends(integrator):
    """Positions, velocities and constraints: at most twice the error that the steps themselves have."""
    problem = SMOOTH["four-bar"]
    system, times = problem.model().build(), np.linspace(0.0, problem.t1, 501)
    at_steps, between = (mbd.simulate(system, problem.t1, integrator=integrator, saveat=saveat) for saveat in (None, times))
    for field in range(2):
        errors = []
        for run in (at_steps, between):
            reference = problem.reference(np.minimum(run.ts, problem.t1))[field]
            errors.append(np.max(np.abs(np.asarray((run.q, run.v)[field]) - reference)))
        assert errors[1] < 2.0 * errors[0], f"{'qv'[field]}: {errors[1]:.2g} between steps, {errors[0]:.2g} at steps"
    assert np.max(between.constraint_violation()) < 1e-6
