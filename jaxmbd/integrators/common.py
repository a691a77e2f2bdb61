"""What integrators share: how errors are measured, and what happens to coordinates that no constraint row guards."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..solvers.linear import solve_once
from ..system.equations import AbstractSystem, constraint_jacobian, saddle_matrix
from ..system.initial import projection_metric
from ..system.state import State


def rms(u: Array) -> Array:
    """Root mean square; zero for an empty vector."""
    mean = jnp.sum(u**2) / max(u.shape[0], 1)
    zero = mean == 0  # not "> 0": NaN must remain NaN
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, mean)))


VELOCITY_CORRECTOR = 0.01
"""What Newton's method may leave of the tolerance in velocities. (Positions allow much less: a correction of the position by e is one of the
velocity by e / h.)"""
_ROUNDING = 8 * 2.0**-52


def velocity_rounding(largest: Array, leading: Array) -> Array:
    """What rounding leaves in velocities that are found as `leading` [1/s] times differences of positions of the size `largest`."""
    return _ROUNDING * (1.0 + jnp.max(largest)) * leading


def coordinate_weights(system: AbstractSystem, length_scale: Array, largest: Array) -> Array:
    """1 / Y of (34) in paper 004: the largest value so far, at least the length scale (or one radian)."""
    is_length = jnp.asarray(system.coordinate_lengths(), dtype=bool)
    return 1.0 / jnp.maximum(jnp.where(is_length, length_scale, 1.0), largest)


def along_constraints(system: AbstractSystem, state: State, velocities: Float[Array, "rows q"], drive: Array) -> Float[Array, "rows q"]:
    """The velocities nearest to the given ones, in the metric of the mass matrix, for which Phi_q v = -drive at a state.

    Velocities of index-3 methods are one order less accurate across the constraints than along them wherever the step changes. That part has
    no influence on the motion, and no step would be small enough for it.
    """
    kept, n = state.memory.kept_rows, state.q.shape[0]
    if kept.shape[0] == 0:
        return velocities
    jacobian = constraint_jacobian(system, state.q, state.t)
    weight = projection_metric(system.mass(state.q), jacobian, kept)
    held = jnp.broadcast_to(-kept * drive, (velocities.shape[0], kept.shape[0]))
    right = jnp.concatenate([weight @ velocities.T, held.T])
    return solve_once(saddle_matrix(weight, jacobian, kept), right)[:n].T


def normalized(system: AbstractSystem, state: State) -> State:
    """Without constraint rows, nothing else keeps coordinates on a manifold of their own."""
    if state.multipliers.shape[0] > 0:
        return state
    q, v = system.normalize(state.q, state.v)
    return dataclasses.replace(state, q=q, v=v)
