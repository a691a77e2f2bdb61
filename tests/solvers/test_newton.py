"""Newton's method with a recycled Jacobian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.solvers import linear
from jaxmbd.solvers.newton import Recycled, modified_newton


def residual(z):
    return jnp.stack([z[0] ** 2 + z[1] - 3.0, jnp.sin(z[0]) - z[1]])


NOTHING = Recycled(linear.no_factors(2), jnp.array(False))


def correct(start, recycled, tolerance=1e-10, function=residual):
    return modified_newton(
        function,
        jax.jacfwd(function),
        jnp.asarray(start, float),
        recycled,
        lambda dz: jnp.max(jnp.abs(dz)) / tolerance,
        lambda z, r: jnp.array(True),
    )


def test_a_good_jacobian_is_used_again():
    _, recycled, first = correct([1.4, 1.0], NOTHING)
    z, _, second = correct([1.43, 0.99], recycled)
    assert int(first.jacobians) == 1
    assert int(second.jacobians) == 0
    assert bool(second.converged)
    np.testing.assert_allclose(residual(z), 0.0, atol=1e-9)  # corrections of 1e-10, times a slope of about 3


def test_a_bad_jacobian_is_renewed():
    wrong = Recycled(linear.factorize(-jnp.eye(2)), jnp.array(True))
    z, _, info = correct([1.4, 1.0], wrong)
    assert bool(info.converged)
    assert int(info.jacobians) >= 1
    np.testing.assert_allclose(residual(z), 0.0, atol=1e-9)


@pytest.mark.parametrize("function", [lambda z: z**2 + 1.0, lambda z: z * jnp.nan], ids=["no root", "nan"])
def test_failure_ends_and_is_told(function):
    _, recycled, info = correct([1.0, 0.5], NOTHING, function=function)
    assert not bool(info.converged)
    assert not bool(recycled.usable)


def test_finished_lanes_do_not_keep_the_others_waiting():
    """A lane whose residual is not finite must fail, not iterate for ever."""
    scales = jnp.array([1.0, jnp.nan])
    _, _, info = jax.vmap(lambda s: correct([1.4, 1.0], NOTHING, function=lambda z: s * residual(z)))(scales)
    np.testing.assert_array_equal(info.converged, [True, False])
