"""What a multistep method needs of the time before its start.

Adaptive runs begin with order 1 and a tiny step; they need a past for a prediction only. Steps of a fixed order k need k - 1 values before the
first: they come from the equations of motion in index-1 form, integrated backwards by small explicit steps. In a stiff system there is no
smooth past to be found that way (what decays forwards explodes backwards); then the order rises step by step instead.
"""

import dataclasses
from typing import TYPE_CHECKING, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..solvers.roots import frozen
from ..system.balance import accelerations
from ..system.blocks.start import solve_saddle
from ..system.equations import AbstractSystem, constraint_curvature, constraint_jacobian, saddle_matrix, state_rate, total_force
from ..system.state import State
from .multistep import Past

if TYPE_CHECKING:
    from ..system.mechanism import AbstractMechanism

_SUBSTEPS = 12
"""Runge-Kutta steps in a step: the error, (1/12)^4 of what a step of order 4 would leave, does not show in steps of order 5 or 6."""
_RELIABLE = 1e-3
"""Half as many Runge-Kutta steps must agree to this part of the motion in the past."""


def flat_past(state: State, h: Array, points: int, correction: Array, stiffness: Array, mass: Array) -> Past:
    """A past of two points: now, and one step earlier on a straight line. The latter serves predictions, never a formula.

    (With the acceleration, positions of a stiff system would be predicted far off: it may be large and gone after a small part of a step.)
    """
    v = state.v - h * state.acceleration
    x = state.x - h * state.state_rate
    zero = jnp.zeros((), jnp.int32)

    def rows(now: Array, before: Array) -> Array:
        return jnp.concatenate([now[None], jnp.broadcast_to(before, (points - 1, *before.shape))])

    return Past(
        rows(jnp.zeros_like(state.q), -h * state.v),
        rows(state.v, v),
        rows(state.x, x),
        jnp.full(points, h),
        zero + 2,
        zero,
        zero,
        correction,
        stiffness,
        mass,
    )


def smooth_past(system: AbstractSystem, state: State, past: Past, h: Array) -> Past:
    """The past at t - h, t - 2h, ... by Runge-Kutta's method; the given one where that is not reliable."""
    system = system.recall(state.memory)
    points = past.v.shape[0]
    fine = _backwards(frozen(system), frozen(state), h, points, _SUBSTEPS)
    coarse = _backwards(frozen(system), frozen(state), h, points, _SUBSTEPS // 2)
    reliable = jnp.array(True)
    for a, b, now in zip(fine, coarse, (state.q, state.v, state.x), strict=True):
        moved = jnp.max(jnp.abs(a - now), initial=0.0)
        apart = jnp.max(jnp.abs(a - b), initial=0.0)
        reliable &= (apart <= _RELIABLE * moved + 1e-12 * (1.0 + jnp.max(jnp.abs(now), initial=0.0))) & jnp.isfinite(moved)
    # With a step of zero nothing overflows, and nothing that is not used spoils a derivative.
    q, v, x = _backwards(system, state, jnp.where(reliable, h, 0.0), points, _SUBSTEPS)

    def rows(now: Array, before: Array, otherwise: Array) -> Array:
        return jnp.where(reliable, jnp.concatenate([now[None], before]), otherwise)

    return dataclasses.replace(
        past,
        offsets=rows(jnp.zeros_like(q[0]), q - state.q, past.offsets),
        v=rows(state.v, v, past.v),
        x=rows(state.x, x, past.x),
        points=jnp.where(reliable, points, past.points).astype(jnp.int32),
    )


def _backwards(system: AbstractSystem, state: State, h: Array, points: int, substeps: int) -> tuple[Array, Array, Array]:
    """(q, v, x) at t - h, ..., t - (points - 1) h."""
    kept, small = state.memory.kept_rows, -h / substeps

    def rates(t, y):
        q, v, x = y
        if system.blocks() is not None:
            forces, rows = total_force(system, q, v, t, x), -kept * constraint_curvature(system, q, v, t)
            return v, solve_saddle(cast("AbstractMechanism", system), q, t, kept, forces, rows)[0], state_rate(system, x, q, v, t)
        matrix = saddle_matrix(system.mass(q), constraint_jacobian(system, q, t), kept)
        return v, accelerations(system, q, v, t, x, kept, matrix)[0], state_rate(system, x, q, v, t)

    def moved(y, rate, by):
        return jax.tree.map(lambda a, b: a + by * b, y, rate)

    def advance(y, i):
        def stage(carry, coefficients):
            slope, total = carry
            by, weight = coefficients
            slope = rates(state.t + (i + by) * small, moved(y, slope, by * small))
            return (slope, moved(total, slope, weight * small)), None

        begin = (jax.tree.map(jnp.zeros_like, y), y)
        (_, y), _ = jax.lax.scan(stage, begin, (nodes, weights))
        return y, y

    # The classical method of order 4; a scan over its stages holds the equations once.
    nodes, weights = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6
    _, ys = jax.lax.scan(advance, (state.q, state.v, state.x), jnp.arange((points - 1) * substeps))
    return jax.tree.map(lambda rows: rows[substeps - 1 :: substeps], ys)
