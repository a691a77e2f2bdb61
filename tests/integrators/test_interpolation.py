"""Values within steps."""

import jax
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
    value, rate = quintic(jnp.asarray((t - t0) / (t1 - t0)), jnp.asarray(t1 - t0), *ends)
    assert value == pytest.approx(p[0](t), rel=1e-13)
    assert rate == pytest.approx(p[1](t), rel=1e-13)


@pytest.mark.parametrize(
    ("integrator", "violation", "rate", "energy"),
    [
        (mbd.RosenbrockNystrom(1e-6, 1e-6), 5e-10, 3e-7, 1.5),
        (mbd.DormandPrince(1e-6, 1e-6), 2e-8, 5e-6, 10.0),
        (mbd.BDF(1e-6), 2e-9, 2e-7, 1.5),
        (mbd.HHT(1e-7), 2e-9, 5e-5, 1.5),
    ],
    ids=["rosenbrock-nystrom", "dormand-prince", "bdf", "hht"],
)
def test_states_within_steps_are_as_accurate_as_at_their_ends(integrator, violation, rate, energy):
    """Positions and velocities err by what the steps themselves do, and energy by `energy` times that: steps of DormandPrince are so long that
    the polynomials in them show. So they do in the constraints, which steps satisfy: bounds [m], [m/s] are two to three times what was found."""
    problem = SMOOTH["four-bar"]
    system, times = problem.model().build(), np.linspace(0.0, problem.t1, 501)
    at_steps, between = (mbd.simulate(system, problem.t1, integrator=integrator, saveat=saveat) for saveat in (None, times))
    errors = []
    for run in (at_steps, between):
        q, v = problem.reference(np.minimum(run.ts, problem.t1))
        total = run.energy().total
        errors.append([np.max(np.abs(part)) for part in (run.q - q, run.v - v, total - total[0])])
    ratios = np.divide(errors[1], errors[0])
    assert np.all(ratios < [1.2, 1.2, energy]), f"{ratios} times the errors of q, v and energy at steps"
    assert np.max(between.constraint_violation()) < violation
    assert np.max(np.abs(constraint_rates(system, between.states))) < rate


def constraint_rates(system, states):
    """Phi_q v + Phi_t of every row."""
    rate = lambda s: jax.jvp(system.constraint, (s.q, s.t), (s.v, jnp.ones(())))[1]  # noqa: E731
    return jax.jit(jax.vmap(rate))(states)
