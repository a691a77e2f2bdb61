"""Numbers from trajectories: peaks between saved times, errors against a reference."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def peak(ts: Float[Array, "rows"], values: Float[Array, "rows"], rates: Float[Array, "rows"]) -> Float[Array, ""]:
    """The largest value on the way, between saved times too: of the cubics through values and rates at both ends of every interval.

    For example `mbd.peak(run.ts, run.position("chassis")[:, 2], run.velocity("chassis")[:, 2])`. Its derivative is that of the trajectory at the
    moment of the peak. The largest *saved* value would jump from row to row when a parameter changes.
    """
    h = jnp.diff(ts)
    a, b = values[:-1], values[1:]
    slope_a, slope_b = h * rates[:-1], h * rates[1:]
    # p(s) = a + slope_a s + c2 s^2 + c3 s^3 on an interval, s from 0 to 1
    c2, c3 = 3 * (b - a) - 2 * slope_a - slope_b, 2 * (a - b) + slope_a + slope_b
    # p'(s) = 0 where p'' < 0, written without dividing by c3
    square = c2**2 - 3 * c3 * slope_a
    real = square > 0
    root = jnp.sqrt(jnp.where(real, square, 1.0))
    divisor = root - c2
    s = jnp.where(real & (divisor != 0), slope_a / jnp.where(divisor != 0, divisor, 1.0), 0.0)
    inside = real & (s > 0) & (s < 1)
    s = jnp.where(inside, s, 0.0)
    tops = jnp.where(inside, a + s * (slope_a + s * (c2 + s * c3)), a)
    return jnp.maximum(jnp.max(tops), values[-1])


class TrajectoryError(NamedTuple):
    """How far a trajectory is from a reference (Negrut et al. 2003, section 3.1)."""

    time: float
    """s, when the error is largest"""
    largest: float
    """in the unit of the values"""
    relative: float
    """%, of the reference value at that time"""
    average: float
    """root mean square over the rows"""


def trajectory_error(ts: Array, values: Array, reference_ts: Array, reference_values: Array) -> TrajectoryError:
    """The error of `values` at times `ts` against a reference with finer steps, interpolated by the cubic through its four nearest rows."""
    t, e, grid, reference = (np.asarray(part, float) for part in (ts, values, reference_ts, reference_values))
    if grid.ndim != 1 or grid.shape != reference.shape or t.shape != e.shape:
        raise ValueError(
            "trajectory_error compares one number over time: ts and values, and the two of the reference, must be vectors of one length."
        )
    if grid.size < 4:
        raise ValueError(f"the reference needs at least four rows for a cubic, got {grid.size}.")
    slack = 1e-9 * (grid[-1] - grid[0])  # of a sum of many steps
    if t[0] < grid[0] - slack or t[-1] > grid[-1] + slack:
        raise ValueError(f"the reference covers {grid[0]} s to {grid[-1]} s, the trajectory {t[0]} s to {t[-1]} s.")
    first = np.clip(np.searchsorted(grid, t, side="right") - 2, 0, grid.size - 4)
    nodes, known = (part[first[:, None] + np.arange(4)] for part in (grid, reference))
    exact = np.zeros_like(t)
    for i in range(4):
        others = [j for j in range(4) if j != i]
        exact += known[:, i] * np.prod([(t - nodes[:, j]) / (nodes[:, i] - nodes[:, j]) for j in others], axis=0)
    error = np.abs(exact - e)
    worst = int(np.argmax(error))
    relative = 100 * error[worst] / abs(exact[worst]) if exact[worst] != 0 else np.inf
    return TrajectoryError(float(t[worst]), float(error[worst]), float(relative), float(np.sqrt(np.mean(error**2))))
