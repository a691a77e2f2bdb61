"""The elementary controller: keep the local error at the tolerance."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..system.parameters import is_traced
from .base import AbstractController, Decision


class LocalError(AbstractController):
    """h_new = h * clip(safety * error^(-1 / (order + 1)), shrink, growth); right after a rejection at most `regrowth`.

    After an accepted step, an integrator's own wish (`StepInfo.ratio`) takes the place of the formula.
    A step whose equations could not be solved is repeated with `failure` times its size.
    """

    safety: Float[Array, ""] = eqx.field(default=0.9, converter=jnp.asarray)
    growth: Float[Array, ""] = eqx.field(default=2.0, converter=jnp.asarray)
    shrink: Float[Array, ""] = eqx.field(default=0.2, converter=jnp.asarray)
    failure: Float[Array, ""] = eqx.field(default=0.25, converter=jnp.asarray)
    regrowth: Float[Array, ""] = eqx.field(default=1.0, converter=jnp.asarray)

    def __check_init__(self):
        for field, low, high in (("safety", 0, 1), ("growth", 1, jnp.inf), ("shrink", 0, 1), ("failure", 0, 1), ("regrowth", 0, jnp.inf)):
            value = getattr(self, field)
            if eqx.is_array(value) and not is_traced(value) and not low < value <= high:
                raise ValueError(f"{field} of LocalError must lie between {low} and {high}, got {float(value)}.")

    def init(self, system: Any, state: Any) -> Bool[Array, ""]:
        """Whether the last attempt was rejected."""
        return jnp.array(False)

    def adapt(self, info: Any, order: Any, h: Array, memory: Array):
        usable = info.converged & jnp.isfinite(info.error)
        error = jnp.where(usable, jnp.maximum(info.error, 1e-12), 1.0)
        accept = usable & (info.error <= 1.0)
        limit = jnp.where(memory, self.regrowth, self.growth)
        factor = self.safety * error ** (-1.0 / (order + 1))
        if info.ratio is not None:
            factor = jnp.where(accept, info.ratio, factor)
        factor = jnp.clip(factor, self.shrink, limit)
        return Decision(accept, h * jnp.where(usable, factor, self.failure)), ~accept
