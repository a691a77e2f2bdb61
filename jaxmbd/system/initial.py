"""A consistent start: positions, velocities, accelerations and multipliers that satisfy the equations and each other."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..solvers.newton import exact_newton
from .equations import (
    AbstractSystem,
    constraint_curvature,
    constraint_force,
    constraint_jacobian,
    constraint_rate,
    count_rows,
    initial_states,
    saddle_matrix,
    total_force,
)
from .redundancy import choose_rows
from .state import Memory, State


class Violation(eqx.Module):
    """How far each constraint row is from holding, after the projection. Nonzero only for rows that contradict others."""

    position: Float[Array, "rows"]
    velocity: Float[Array, "rows"]


def keep_rows(system: AbstractSystem, q: Array, t: Array, kept: Array) -> Array:
    """Updates the choice of constraint rows; all of them unless the system is known to have redundant ones."""
    if not system.may_be_redundant():
        return kept
    essential = jnp.asarray(system.essential_rows(), dtype=float)
    return choose_rows(constraint_jacobian(system, q, t), essential, kept)


def remember(system: AbstractSystem, q: Array, t: Array, memory: Memory) -> Memory:
    """The memory after a step to (q, t) was accepted."""
    system = system.recall(memory)
    return Memory(system.angles(q), keep_rows(system, q, t, memory.kept_rows))


def project_position(system: AbstractSystem, q: Array, t: Array, kept: Array) -> tuple[Array, Array]:
    """The q nearest to the given one, in the metric of the mass matrix, that satisfies the kept rows; and whether it was found.

    M may be singular (Euler parameters), so the metric is M + c Phi_q^T Phi_q: on the corrections that the linearised constraints ask for the
    second term is constant, so the nearest point is the same.
    """
    weight = _metric(system, q, t, kept)

    def residual(z):
        moved, pull = z[: q.shape[0]], z[q.shape[0] :]
        stationary = weight @ (moved - q) + constraint_force(system, moved, t, kept * pull)
        return jnp.concatenate([stationary, kept * system.constraint(moved, t) + (1.0 - kept) * pull])

    z, converged = exact_newton(residual, jnp.concatenate([q, jnp.zeros_like(kept)]))
    return z[: q.shape[0]], converged


def project_velocity(system: AbstractSystem, q: Array, v: Array, t: Array, kept: Array) -> Array:
    """The v nearest to the given one, in the metric of the mass matrix, that satisfies Phi_q v + Phi_t = 0."""
    weight = _metric(system, q, t, kept)
    jacobian = constraint_jacobian(system, q, t)
    drive = constraint_rate(system, q, jnp.zeros_like(v), t)
    right = jnp.concatenate([weight @ v, -kept * drive])
    return jnp.linalg.solve(saddle_matrix(weight, jacobian, kept), right)[: q.shape[0]]


def solve_acceleration(
    system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, kept: Array
) -> tuple[Array, Array]:
    """Accelerations and multipliers from the equations of motion and Phi'' = 0."""
    jacobian = constraint_jacobian(system, q, t)
    right = jnp.concatenate([total_force(system, q, v, t, x), -kept * constraint_curvature(system, q, v, t)])
    z = jnp.linalg.solve(saddle_matrix(system.mass(q), jacobian, kept), right)
    return z[: q.shape[0]], z[q.shape[0] :]


def first_memory(system: AbstractSystem) -> Memory:
    return Memory(jnp.zeros_like(system.angles(system.q0)), jnp.ones(count_rows(system)))


def start(
    system: AbstractSystem, t: Array, q: Array, v: Array, x: Array, memory: Memory
) -> tuple[State, Violation, Array]:
    """A consistent state near (q, v), what remains violated, and whether the positions could be assembled."""
    system = system.recall(memory)
    kept = keep_rows(system, q, t, memory.kept_rows)
    q, assembled = project_position(system, q, t, kept)
    kept = keep_rows(system, q, t, kept)
    v = project_velocity(system, q, v, t, kept)
    acceleration, multipliers = solve_acceleration(system, q, v, t, x, kept)
    violation = Violation(jnp.abs(system.constraint(q, t)), jnp.abs(constraint_rate(system, q, v, t)))
    memory = Memory(system.angles(q), kept)
    state = State(t, q, v, x, multipliers, acceleration, system.state_rate(x, q, v, t), memory)
    return state, violation, assembled


def initial_state(system: AbstractSystem, t: Array) -> tuple[State, Violation, Array]:
    """`start` from the system's own q0, v0, x0."""
    return start(system, t, system.q0, system.v0, initial_states(system), first_memory(system))


def _metric(system: AbstractSystem, q: Array, t: Array, kept: Array) -> Array:
    mass = system.mass(q)
    held = kept[:, None] * constraint_jacobian(system, q, t)
    return mass + jnp.mean(jnp.diagonal(mass)) * held.T @ held
