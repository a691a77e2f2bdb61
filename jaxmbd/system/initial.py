"""A consistent start: positions, velocities, accelerations and multipliers that satisfy the equations and each other."""

from typing import TYPE_CHECKING, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._precision import attainable
from ..solvers.linear import solve_once
from ..solvers.roots import AbstractEquations, implicit_root
from .balance import balanced_start
from .blocks.start import nearest_position, nearest_velocity, solve_saddle
from .equations import (
    AbstractSystem,
    constraint,
    constraint_and_force,
    constraint_curvature,
    constraint_jacobian,
    constraint_rate,
    count_rows,
    holds_positions,
    initial_states,
    saddle_matrix,
    state_rate,
    total_force,
)
from .redundancy import choose_rows
from .state import Memory, State

if TYPE_CHECKING:
    from .mechanism import AbstractMechanism


class Violation(eqx.Module):
    """How far each constraint row is from holding, after the projection. Nonzero only for rows that contradict others."""

    position: Float[Array, "rows"]
    velocity: Float[Array, "rows"]
    balanced: Bool[Array, ""]
    """whether there are multipliers that fit forces which depend on them"""

    def small(self, tolerance: float) -> Array:
        return jnp.maximum(jnp.max(self.position, initial=0.0), jnp.max(self.velocity, initial=0.0)) < tolerance


def keep_rows(system: AbstractSystem, q: Array, t: Array, kept: Array) -> Array:
    """Updates the choice of constraint rows; all of them unless the system is known to have redundant ones."""
    if (structure := system.blocks()) is not None:
        return jnp.asarray(structure.kept)  # chosen at build
    if not system.may_be_redundant():
        return kept
    essential = jnp.asarray(system.essential_rows(), dtype=float)
    return choose_rows(constraint_jacobian(system, q, t), essential, kept)


def with_known_rows(system: AbstractSystem, state: State) -> State:
    """The same state; that all rows are kept, if it is certain, is then known when a program is traced."""
    if system.may_be_redundant():
        return state
    return eqx.tree_at(lambda s: s.memory.kept_rows, state, jnp.ones(state.memory.kept_rows.shape))


def remember(system: AbstractSystem, q: Array, t: Array, memory: Memory) -> Memory:
    """The memory after a step to (q, t) was accepted."""
    system = system.recall(memory)
    return Memory(system.angles(q), keep_rows(system, q, t, memory.kept_rows))


_NEGLIGIBLE = attainable(1e-12)
_MAX_ITERATIONS = 50


class _Nearest(AbstractEquations):
    """W (moved - q) + Phi_q^T mu = 0 and Phi = 0 (kept rows), for z = (moved, mu)."""

    system: AbstractSystem
    q: Float[Array, "q"]
    t: Float[Array, ""]
    kept: Float[Array, "rows"]
    weight: Float[Array, "q q"]

    def residual(self, z):
        n = self.q.shape[0]
        moved, pull = z[:n], z[n:]
        rows, force = constraint_and_force(self.system, moved, self.t, self.kept * pull)
        return jnp.concatenate([self.weight @ (moved - self.q) + force, self.kept * rows + (1.0 - self.kept) * pull])


def project_position(system: AbstractSystem, q: Array, t: Array, kept: Array) -> tuple[Array, Array]:
    """The q nearest to the given one, in the metric of the mass matrix, that satisfies the kept rows of Phi; and whether it was found.

    The iteration drops the curvature of Phi from the derivative of the equations, the implicit derivative of the result does not.
    """
    if system.blocks() is not None:
        return nearest_position(cast("AbstractMechanism", system), q, t, kept, _NEGLIGIBLE)
    n, kept = q.shape[0], kept * holds_positions(system)
    weight = projection_metric(system.mass(q), constraint_jacobian(system, q, t), kept)

    def search(nearest: _Nearest):
        system, q, t, kept, weight = nearest.system, nearest.q, nearest.t, nearest.kept, nearest.weight

        def proceed(carry):
            _, change, k = carry
            return (change > _NEGLIGIBLE) & (k < _MAX_ITERATIONS)

        def iterate(carry):
            z, _, k = carry
            moved = z[:n]
            right = jnp.concatenate([weight @ (q - moved), -kept * constraint(system, moved, t)])
            matrix = saddle_matrix(weight, constraint_jacobian(system, moved, t), kept)
            step = solve_once(matrix, right)
            change = jnp.max(jnp.abs(step[:n]) / (1.0 + jnp.abs(moved)), initial=0.0)
            return jnp.concatenate([moved + step[:n], step[n:]]), change, k + 1

        start = jnp.concatenate([q, jnp.zeros_like(kept)])
        z, change, _ = jax.lax.while_loop(proceed, iterate, (start, jnp.array(jnp.inf), 0))
        return z, jnp.isfinite(change) & (change <= _NEGLIGIBLE)

    z, converged = implicit_root(_Nearest(system, q, t, kept, weight), search)
    return z[:n], converged


def projection_metric(mass: Array, jacobian: Array, kept: Array) -> Array:
    """M + c Phi_q^T Phi_q. M may be singular (Euler parameters); where the linearised constraints fix Phi_q dq, the second term is constant,
    so nearest points are those of M."""
    held = kept[:, None] * jacobian
    return mass + jnp.mean(jnp.diagonal(mass)) * held.T @ held


def first_memory(system: AbstractSystem) -> Memory:
    return Memory(system.first_angles(), jnp.ones(count_rows(system)))


def start(system: AbstractSystem, t: Array, q: Array, v: Array, x: Array, memory: Memory) -> tuple[State, Violation, Array]:
    """A consistent state near (q, v), what remains violated, and whether the positions could be assembled.

    Velocities are the nearest, in the metric of the mass matrix, that satisfy Phi_q v + Phi_t = 0 and A v + b = 0; accelerations and multipliers
    follow from the equations of motion and the derivatives of these by time.
    """
    system = system.recall(memory)
    n = q.shape[0]
    kept = keep_rows(system, q, t, memory.kept_rows)
    q, assembled = project_position(system, q, t, kept)
    kept = keep_rows(system, q, t, kept)
    if system.blocks() is not None:
        mechanism = cast("AbstractMechanism", system)
        v = nearest_velocity(mechanism, q, v, t, kept)
        forces, rows = total_force(system, q, v, t, x), -kept * constraint_curvature(system, q, v, t)
        a, multipliers = solve_saddle(mechanism, q, t, kept, forces, rows)
        balanced, rate = jnp.array(True), state_rate(system, x, q, v, t)
    else:
        mass, jacobian = system.mass(q), constraint_jacobian(system, q, t)
        weight = projection_metric(mass, jacobian, kept)
        drive = constraint_rate(system, q, jnp.zeros_like(v), t)
        v = solve_once(saddle_matrix(weight, jacobian, kept), jnp.concatenate([weight @ v, -kept * drive]))[:n]
        a, multipliers, x, rate, balanced = balanced_start(system, q, v, t, x, kept, saddle_matrix(mass, jacobian, kept))
    violation = Violation(jnp.abs(constraint(system, q, t)), jnp.abs(constraint_rate(system, q, v, t)), balanced)
    memory = Memory(system.angles(q), kept)
    state = State(t, q, v, x, multipliers, a, rate, memory)
    return state, violation, assembled


def initial_state(system: AbstractSystem, t: Array) -> tuple[State, Violation, Array]:
    """`start` from the system's own q0, v0, x0."""
    return start(system, t, system.q0, system.v0, initial_states(system), first_memory(system))
