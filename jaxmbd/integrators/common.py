"""What integrators share: how errors are measured, and what happens to coordinates that no constraint row guards."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..solvers.linear import solve_once
from ..system.equations import AbstractSystem, constraint_force, constraint_jacobian, mass_product, saddle_matrix, total_force
from ..system.initial import projection_metric
from ..system.state import State
from .implicit import AbstractMotionEquations


def rms(u: Array) -> Array:
    """Root mean square; zero for an empty vector."""
    mean = jnp.sum(u**2) / max(u.shape[0], 1)
    zero = mean == 0  # not "> 0": NaN must remain NaN
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, mean)))


VELOCITY_CORRECTOR = 0.01
"""What Newton's method may leave of the tolerance in velocities. (Positions allow much less: a correction of the position by e is one of the
velocity by e / h.)"""
_ROUNDING = 2.0**-52


def velocity_rounding(largest: Array, leading: Array) -> Array:
    """What rounding leaves in velocities that are found as `leading` [1/s] times differences of positions of the size `largest`."""
    return _ROUNDING * (1.0 + jnp.max(largest)) * leading


def coordinate_weights(system: AbstractSystem, length_scale: Array, largest: Array) -> Array:
    """1 / Y of (34) in Negrut et al. (2005): the largest value so far, at least the length scale (or one radian)."""
    is_length = jnp.asarray(system.coordinate_lengths(), dtype=bool)
    return 1.0 / jnp.maximum(jnp.where(is_length, length_scale, 1.0), largest)


def along_constraints(system: AbstractSystem, state: State, velocity: Float[Array, "q"], drive: Array) -> Float[Array, "q"]:
    """The velocity nearest to the given one, in the metric of the mass matrix, for which Phi_q v = -drive at a state."""
    kept, n = state.memory.kept_rows, state.q.shape[0]
    jacobian = constraint_jacobian(system, state.q, state.t)
    weight = projection_metric(system.mass(state.q), jacobian, kept)
    right = jnp.concatenate([weight @ velocity, -kept * drive])
    return solve_once(saddle_matrix(weight, jacobian, kept), right)[:n]


def answers_to_impulses(
    equations: AbstractMotionEquations, factors: Any, new: State, velocities: Float[Array, "rows q"]
) -> Float[Array, "rows q"]:
    """What is left after two implicit steps of sudden changes of velocity: those that the impulses M `velocities` cause.

    Constraints take their part of them, and so do stiff dampers and springs. As a measure of errors of velocities that is the part that goes on:
    velocities of index-3 methods are one order less accurate across the constraints than along them wherever the step changes, which
    constraint forces absorb and no step is small enough for; a stiff damper makes of them velocities along the constraints that are gone
    soon. (One step is not enough: where it is as short as the damper is fast, BDF of order 1 went on rejecting.) `factors` are those of a
    scaled Jacobian of such a step, perhaps an earlier one.
    """
    system, scaling, places, algebra = equations.system, equations.scaling(), equations.places(), equations.algebra()
    kept = new.memory.kept_rows

    def friction(multipliers: Array) -> Array:
        return total_force(system, new.q, new.v, new.t, new.x, kept * multipliers)

    def answer(velocity: Array) -> Array:
        impulse = places.inertia * mass_product(system, new.q, velocity)

        def solve(held: Array) -> Array:
            """Changes of all unknowns if constraints take the impulse Phi_q^T held, and what they have to take besides."""
            taken = constraint_force(system, new.q, new.t, kept * held)
            if system.multiplier_forces():
                taken = taken - jax.jvp(friction, (new.multipliers,), (held,))[1]
            rows = jnp.zeros_like(scaling.rows).at[places.motion].set(impulse - taken)
            return scaling.expand(algebra.solve(factors, rows / scaling.rows))

        # Twice: the directions of constraints in old factors are not quite the present ones.
        first = solve(jnp.zeros_like(kept))[places.held] if kept.shape[0] > 0 else kept
        return solve(first)[places.moved]

    return jax.lax.fori_loop(0, 2, lambda _, left: jax.vmap(answer)(left), velocities)


def normalized(system: AbstractSystem, state: State) -> State:
    """Without constraint rows, nothing else keeps coordinates on a manifold of their own."""
    if state.multipliers.shape[0] > 0:
        return state
    q, v = system.normalize(state.q, state.v)
    return dataclasses.replace(state, q=q, v=v)
