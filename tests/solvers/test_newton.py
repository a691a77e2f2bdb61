"""Newton's method with a recycled Jacobian, and both policies of when to stop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.solvers import linear
from jaxmbd.solvers.newton import JudgeByResidual, Recycled, TrustLastRate, newton


def residual(z):
    return jnp.stack([z[0] ** 2 + z[1] - 3.0, jnp.sin(z[0]) - z[1]])


NOTHING = Recycled.nothing(2)
policies = pytest.mark.parametrize("stopping", [JudgeByResidual(), TrustLastRate()], ids=["by residual", "last rate"])


def correct(start, recycled, stopping, tolerance=1e-10, function=residual):
    size = lambda dz: jnp.max(jnp.abs(dz)) / tolerance  # noqa: E731
    return newton(function, jax.jacfwd(function), jnp.asarray(start, float), recycled, size, stopping)


@pytest.mark.parametrize(("stopping", "tolerance"), [(JudgeByResidual(), 1e-10), (TrustLastRate(), 1e-5)], ids=["by residual", "last rate"])
def test_a_good_jacobian_is_used_again(stopping, tolerance):
    _, recycled, first = correct([1.4, 1.0], NOTHING, stopping, tolerance)
    z, _, second = correct([1.43, 0.99], recycled, stopping, tolerance)
    assert int(first.jacobians) == 1
    assert int(second.jacobians) == 0
    assert bool(second.converged)
    np.testing.assert_allclose(residual(z), 0.0, atol=10 * tolerance)  # corrections of the tolerance, times a slope of about 3


@policies
def test_a_bad_jacobian_is_renewed(stopping):
    wrong = Recycled(linear.factorize(-jnp.eye(2)), jnp.array(True), jnp.array(0.5))
    z, _, info = correct([1.4, 1.0], wrong, stopping)
    assert bool(info.converged)
    assert int(info.jacobians) >= 1
    np.testing.assert_allclose(residual(z), 0.0, atol=1e-9)


@policies
@pytest.mark.parametrize("function", [lambda z: z**2 + 1.0, lambda z: z * jnp.nan], ids=["no root", "nan"])
def test_failure_ends_and_is_told(function, stopping):
    z, recycled, info = correct([1.0, 0.5], NOTHING, stopping, function=function)
    assert not bool(info.converged)
    assert not bool(recycled.usable)
    assert np.all(np.isfinite(z))


@policies
@pytest.mark.parametrize("function", [lambda z: jnp.arctan(z) + 1e3, lambda z: z + jnp.nan], ids=["no root", "nan"])
def test_the_unknown_that_cannot_be_found_is_blamed(function, stopping):
    """Also where the last thing that a failing solve does is not a correction."""
    hard = lambda z: jnp.stack([z[0] - 1.0, function(z[1])])  # noqa: E731
    _, _, info = correct([0.0, 0.0], NOTHING, stopping, function=hard)
    assert not bool(info.converged)
    assert int(info.worst) == 1


@policies
def test_rounding_below_the_tolerance_is_no_failure(stopping):
    """A residual that knows z to a twenty-fifth of the tolerance: corrections go back and forth, neither larger nor smaller."""
    flips = lambda z: 4e-12 * jnp.where(z > 1.0, 1.0, -1.0)  # noqa: E731
    size = lambda dz: jnp.max(jnp.abs(dz)) / 1e-10  # noqa: E731
    recycled = Recycled(linear.factorize(jnp.eye(1)), jnp.array(True), jnp.array(0.5))
    z, _, info = newton(flips, lambda z: jnp.eye(1), jnp.array([1.0 + 2e-12]), recycled, size, stopping)
    assert bool(info.converged)
    assert int(info.iterations) <= 2
    np.testing.assert_allclose(z, 1.0, atol=4e-12)


def test_small_corrections_cost_one_evaluation_where_the_last_rate_is_trusted():
    """Of a residual that cannot be evaluated cheaply, one evaluation a solve is enough; to look at the result is one more each."""
    linear_residual = lambda z: jnp.array([[2.0, 1.0], [0.0, 3.0]]) @ z - 1.0  # noqa: E731
    evaluations = {}
    for name, stopping in (("residual", JudgeByResidual()), ("rate", TrustLastRate())):
        known = Recycled(linear.factorize(jax.jacfwd(linear_residual)(jnp.zeros(2))), jnp.array(True), jnp.array(1e-6))
        _, _, info = correct([1 / 3 + 1e-9, 1 / 3], known, stopping, tolerance=1e-6, function=linear_residual)
        evaluations[name] = int(info.evaluations)
    assert evaluations == {"residual": 2, "rate": 1}


def test_an_unsatisfied_residual_asks_for_more():
    """Corrections of 1e-3 would do, constraints of 1e-9 would not."""
    loose, _, short = correct([1.4, 1.0], NOTHING, JudgeByResidual(), tolerance=1e-3)
    strict, _, long = correct([1.4, 1.0], NOTHING, JudgeByResidual(lambda r: jnp.all(jnp.abs(r) < 1e-9)), tolerance=1e-3)
    assert int(long.iterations) > int(short.iterations)
    assert np.max(np.abs(residual(strict))) < 1e-9 < np.max(np.abs(residual(loose)))


@policies
def test_finished_lanes_do_not_keep_the_others_waiting(stopping):
    """A lane whose residual is not finite must fail, not iterate for ever."""
    scales = jnp.array([1.0, jnp.nan])
    _, _, info = jax.vmap(lambda s: correct([1.4, 1.0], NOTHING, stopping, function=lambda z: s * residual(z)))(scales)
    np.testing.assert_array_equal(info.converged, [True, False])
