"""Samples as a smooth function of time."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Number, Numbers
from ..parameters import is_traced


class Signal(eqx.Module):
    """A measured input as a function of time: give it to `Motion`, `Torque`, `PointForce`, or use it in a function of your own.

    Between samples it blends the parabolas through either sample and its two neighbours, so that it, its rate and its second derivative are
    continuous (a `Motion` needs that), and data of second degree are met exactly. It looks at four samples only. Before the first and after the
    last sample it is constant. Samples may be numbers or vectors; both leaves are parameters, `"drive.values"`, and differentiate.
    """

    ts: Float[Numbers, "samples"]
    """s"""
    values: Float[Numbers, "samples ..."]

    def __init__(self, ts: Any, values: Any):
        array: Any = jnp.asarray if is_traced(ts, values) else np.asarray
        self.ts, self.values = array(ts, float), array(values, float)
        if self.ts.ndim != 1 or self.ts.shape[0] < 3 or self.values.shape[:1] != self.ts.shape:
            raise ValueError(
                f"a Signal needs at least three times and a value at each, got shapes {self.ts.shape} and {self.values.shape} of ts and values."
            )
        if not is_traced(ts, values):
            if not (np.all(np.isfinite(self.ts)) and np.all(np.isfinite(self.values))):
                raise ValueError("ts and values of a Signal must be finite: leave out the rows that are not.")
            if not np.all(np.diff(self.ts) > 0):
                late = int(np.argmin(np.diff(self.ts) > 0)) + 1
                raise ValueError(f"the times of a Signal must increase, sample {late} ({self.ts[late]:g} s) does not: sort them.")

    def __call__(self, t: Number) -> Array:
        ts = jnp.asarray(self.ts)
        last = ts.shape[0] - 1
        t = jnp.clip(t, ts[0], ts[last])
        left = jnp.clip(jnp.searchsorted(ts, t, side="right") - 1, 0, last - 1)
        share = (t - ts[left]) / (ts[left + 1] - ts[left])
        weight = share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
        before, after = (self._parabola(jnp.clip(middle, 1, last - 1), t) for middle in (left, left + 1))
        return before + weight * (after - before)

    def _parabola(self, middle: Array, t: Array) -> Array:
        """Through a sample and its neighbours, in Newton's form."""
        (t0, t1, t2), (y0, y1, y2) = (
            (part[middle - 1], part[middle], part[middle + 1]) for part in (jnp.asarray(self.ts), jnp.asarray(self.values))
        )
        first, second = (y1 - y0) / (t1 - t0), (y2 - y1) / (t2 - t1)
        return y1 + (t - t1) * (first + (t - t0) * (second - first) / (t2 - t0))
