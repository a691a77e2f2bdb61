"""What one step makes of a disturbance: the stability of a method by experiment."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..system.equations import AbstractSystem
from ..system.initial import initial_state
from .base import AbstractIntegrator


def step_matrix(method: AbstractIntegrator, system: AbstractSystem, h: Float[Array, ""]) -> Float[Array, "2 2"]:
    """The map (q, v) -> (q, v) of a step h on a linear system of one coordinate."""
    state, scratch = method.init(system, initial_state(system, jnp.zeros(()))[0])

    def step(z: Array) -> Array:
        new, _, _ = method.step(system, dataclasses.replace(state, q=z[:1], v=z[1:]), scratch, h)
        return jnp.concatenate([new.q, new.v])

    return jax.vmap(step)(jnp.eye(2)).T


def spectral_radius(method: AbstractIntegrator, system: AbstractSystem, h: Float[Array, ""]) -> Float[Array, ""]:
    """Of that map: disturbances grow where it exceeds 1."""
    (a, b), (c, d) = step_matrix(method, system, h)
    half, root = 0.5 * (a + d), jnp.sqrt((0.25 * (a - d) ** 2 + b * c).astype(complex))
    return jnp.maximum(jnp.abs(half + root), jnp.abs(half - root))
