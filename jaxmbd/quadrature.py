"""Integrals over time along saved rows."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .integrators.interpolation import interpolate_motion
from .measure import slopes
from .system.equations import AbstractSystem
from .system.observing.views import Scene
from .system.state import State


def accumulate(system: AbstractSystem, states: State, look: Callable[[Scene], tuple[Any, Any]]) -> tuple[Any, Any]:
    """For look(scene) = (flows, values), trees of arrays: the flows' integrals over time from the first row to every row, and the values at the
    rows.

    Simpson's rule on each interval, with the system itself evaluated in the middle, on the cubics through positions and velocities of both
    rows; there even their derivative is of fourth order, and so is the integral. Accelerations play no part: in stiff systems they amplify
    the smallest errors. Efforts, whose rates nobody knows, stand on cubics through rows and slopes from neighbouring rows.
    """
    states = dataclasses.replace(states, method=None)
    rows, h = states.t.shape[0], jnp.diff(states.t)
    pick = lambda tree, which: jax.tree.map(lambda leaf: leaf[which], tree)  # noqa: E731
    join = lambda *trees: jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *trees)  # noqa: E731
    first, last = slice(None, -1), slice(1, None)
    efforts = jax.vmap(lambda state: system.recall(state.memory).efforts(state))(states)
    slope = slopes(states.t, efforts)
    between = 0.5 * (efforts[:-1] + efforts[1:]) + 0.125 * h[:, None] * (slope[:-1] - slope[1:])
    middles = jax.vmap(_middle, in_axes=(None, 0, 0))(system, pick(states, first), pick(states, last))
    flows, values = jax.vmap(lambda state, efforts: look(Scene(system.recall(state.memory), state, efforts)))(
        join(states, middles), join(efforts, between)
    )

    def add_up(flow: Array) -> Array:
        at, between = flow[:rows], flow[rows:]
        pieces = (at[:-1] + 4.0 * between + at[1:]) * (h / 6.0).reshape((-1,) + (1,) * (flow.ndim - 1))
        return jnp.concatenate([jnp.zeros_like(at[:1]), jnp.cumsum(pieces, axis=0)])

    return jax.tree.map(add_up, flows), pick(values, slice(rows))


def _middle(system: AbstractSystem, old: State, new: State) -> State:
    """The state halfway between two rows."""
    middle = interpolate_motion(old, new, 0.5 * (old.t + new.t))
    q, v = system.normalize(middle.q, middle.v)
    return dataclasses.replace(middle, q=q, v=v, memory=old.memory)
