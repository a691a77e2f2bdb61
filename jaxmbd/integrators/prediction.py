"""Prediction of the next solution from the last ones by polynomial extrapolation of adaptive degree (Negrut et al. 2005, 3.5)."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

_POINTS = 4
"""Degree up to three."""


class Predictor(eqx.Module):
    """The last accepted solutions, newest first."""

    times: Float[Array, "points"]
    values: Float[Array, "points n"]
    count: Int[Array, ""]
    degree: Int[Array, ""]
    """the one that would have predicted the newest value best"""

    @staticmethod
    def begin(t: Array, value: Float[Array, "n"]) -> "Predictor":
        values = jnp.zeros((_POINTS, value.shape[0])).at[0].set(value)
        one = jnp.ones((), jnp.int32)
        return Predictor(jnp.full(_POINTS, t) - jnp.arange(_POINTS), values, one, 0 * one)

    def predict(self, t: Array) -> Float[Array, "n"]:
        return self._weights(t)[self.degree] @ self.values

    def push(self, t: Array, value: Float[Array, "n"], scale: Float[Array, "n"]) -> "Predictor":
        """Takes in an accepted value and picks the degree that fits the smoothness: the one whose prediction came closest."""
        misses = jnp.sum(((self._weights(t) @ self.values - value) * scale) ** 2, axis=1)
        possible = jnp.arange(_POINTS) < self.count
        degree = jnp.argmin(jnp.where(possible & jnp.isfinite(misses), misses, jnp.inf))
        return Predictor(
            jnp.concatenate([t[None], self.times[:-1]]),
            jnp.concatenate([value[None], self.values[:-1]]),
            jnp.minimum(self.count + 1, _POINTS),
            degree.astype(jnp.int32),
        )

    def _weights(self, t: Array) -> Float[Array, "degrees points"]:
        """Row d: Lagrange weights that extrapolate the newest d + 1 points to t (the divided-difference polynomial in another basis)."""
        i = jnp.arange(_POINTS)
        degree, point, other = i[:, None, None], i[None, :, None], i[None, None, :]
        used = (point <= degree) & (other <= degree) & (point != other)
        apart = self.times[None, :, None] - self.times[None, None, :]
        factors = jnp.where(used, (t - self.times) / jnp.where(used, apart, 1.0), 1.0)
        return jnp.where(point[..., 0] <= degree[..., 0], jnp.prod(factors, axis=2), 0.0)
