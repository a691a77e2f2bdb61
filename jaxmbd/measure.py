"""Numbers from trajectories: peaks between saved times, errors against a reference."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ._numbers import Numbers


def peak(ts: Float[Numbers, "rows"], values: Float[Numbers, "rows"], rates: Float[Numbers, "rows"]) -> Float[Numbers, ""]:
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


def slopes(ts: Float[Numbers, "rows"], values: Float[Numbers, "rows ..."]) -> Float[Numbers, "rows ..."]:
    """Rates of change from neighbouring rows: of the parabola through three of them. Rows that repeat the one before them do not count."""
    h = jnp.diff(ts)
    h = h.reshape(h.shape + (1,) * (values.ndim - 1))
    moved = h > 0
    secants = jnp.where(moved, jnp.diff(values, axis=0) / jnp.where(moved, h, 1.0), 0.0)
    none = jnp.zeros_like(h[:1]) if h.shape[0] else jnp.zeros((1,) * values.ndim)
    before, after = jnp.concatenate([none, h]), jnp.concatenate([h, none])
    left, right = (jnp.concatenate(parts) for parts in ((jnp.zeros_like(values[:1]), secants), (secants, jnp.zeros_like(values[:1]))))
    whole = before + after
    inner = (after * left + before * right) / jnp.where(whole > 0, whole, 1.0)
    # At an end there is a row on one side only: the parabola of the next row, or a line if that is an end too.
    is_first, is_last = (before == 0) & (after > 0), (after == 0) & (before > 0)
    is_end = is_first | is_last
    next_, last = (jnp.concatenate(parts) for parts in ((inner[1:], inner[-1:]), (inner[:1], inner[:-1])))
    next_ends, last_ends = (jnp.concatenate(parts) for parts in ((is_end[1:], is_end[-1:]), (is_end[:1], is_end[:-1])))
    found = jnp.where(is_first, jnp.where(next_ends, right, 2 * right - next_), inner)
    return jnp.where(is_last, jnp.where(last_ends, left, 2 * left - last), found)


def _mean(ts: Array, values: Array) -> Numbers:
    span = ts[-1] - ts[0]
    area = jnp.sum(0.5 * jnp.diff(ts) * (values[:-1] + values[1:]))
    return jnp.where(span > 0, area / jnp.where(span > 0, span, 1.0), values[0])


def _root(square: Array) -> Numbers:
    zero = square <= 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, square)))


REDUCERS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "peak": peak,
    "trough": lambda ts, values, rates: -peak(ts, -values, -rates),
    "max": lambda ts, values, rates: jnp.max(values),
    "min": lambda ts, values, rates: jnp.min(values),
    "range": lambda ts, values, rates: jnp.max(values) - jnp.min(values),
    "final": lambda ts, values, rates: values[-1],
    "mean": lambda ts, values, rates: _mean(ts, values),
    "rms": lambda ts, values, rates: _root(_mean(ts, values**2)),
}
"""One number of a trajectory, from times, values and rates. `peak` and `trough` look between rows too; `max`, `min` and `range` are those of
the rows. `mean` and `rms` are over time, not over rows, which may be dense where steps are short."""


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
