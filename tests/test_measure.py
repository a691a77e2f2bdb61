"""Peaks and trajectory errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd


def parabola(top, ts):
    return top - 3.0 * (ts - 0.437) ** 2, -6.0 * (ts - 0.437)


def test_peak_lies_between_rows():
    ts = jnp.linspace(0.0, 1.0, 7)
    values, rates = parabola(2.0, ts)
    assert mbd.peak(ts, values, rates) == pytest.approx(2.0, abs=1e-12)
    assert jnp.max(values) < 1.99
    # a monotonic trajectory peaks at its end
    assert mbd.peak(ts, ts, jnp.ones_like(ts)) == 1.0
    assert mbd.peak(ts, -ts, -jnp.ones_like(ts)) == 0.0


def test_peak_has_the_derivative_of_the_trajectory():
    ts = jnp.linspace(0.0, 1.0, 7)
    assert jax.grad(lambda top: mbd.peak(ts, *parabola(top, ts)))(2.0) == pytest.approx(1.0)
    # rows that repeat, as under jit, and a trajectory at rest: no NaN
    still = jnp.concatenate([ts, jnp.ones(4)])
    for values in (jnp.zeros_like(still), still):
        gradient = jax.grad(lambda v: mbd.peak(still, v, jnp.zeros_like(v)))(values)
        assert np.all(np.isfinite(gradient))


def test_error_against_a_reference():
    fine, coarse = np.linspace(0.0, 2.0, 401), np.linspace(0.0, 2.0, 23)
    error = mbd.trajectory_error(coarse, np.sin(coarse) + 0.1 * (coarse == coarse[5]), fine, np.sin(fine))
    assert error.time == coarse[5]
    assert error.largest == pytest.approx(0.1, rel=1e-6)
    assert error.relative == pytest.approx(10 / np.sin(coarse[5]), rel=1e-6)
    assert error.average == pytest.approx(0.1 / np.sqrt(23), rel=1e-6)


def test_reference_must_cover_the_trajectory():
    grid = np.linspace(0, 1, 10)
    with pytest.raises(ValueError, match="covers"):
        mbd.trajectory_error(2 * grid, grid, grid, grid)
    with pytest.raises(ValueError, match="four rows"):
        mbd.trajectory_error(grid, grid, grid[:3], grid[:3])
    with pytest.raises(ValueError, match="one number over time"):
        mbd.trajectory_error(grid, grid[:, None], grid, grid)
