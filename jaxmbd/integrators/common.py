"""What integrators share: how errors are measured, and what happens to coordinates that no constraint row guards."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..system.equations import AbstractSystem
from ..system.state import State


def frozen(tree: Any) -> Any:
    """The same without derivatives. Functions among the leaves (a user's law, a drive) stay what they are."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)


def rms(u: Array) -> Array:
    """Root mean square; zero for an empty vector."""
    mean = jnp.sum(u**2) / max(u.shape[0], 1)
    zero = mean == 0  # not "> 0": NaN must remain NaN
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, mean)))


def coordinate_weights(system: AbstractSystem, length_scale: Array, largest: Array) -> Array:
    """1 / Y of (34) in paper 004: the largest value so far, at least the length scale (or one radian)."""
    is_length = jnp.asarray(system.coordinate_lengths(), dtype=bool)
    return 1.0 / jnp.maximum(jnp.where(is_length, length_scale, 1.0), largest)


def normalized(system: AbstractSystem, state: State) -> State:
    """Without constraint rows, nothing else keeps coordinates on a manifold of their own."""
    if state.multipliers.shape[0] > 0:
        return state
    q, v = system.normalize(state.q, state.v)
    return dataclasses.replace(state, q=q, v=v)
