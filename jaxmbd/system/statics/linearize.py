"""Small motions about a state of rest: reduced mass, damping and stiffness, eigenvalues and modes.

The null space of Phi_q gives minimal coordinates y, dq = N y. With K = d/dq (M a + Phi_q^T lambda - Q), C = -dQ/dv and
the differential states x, small motions obey

    N^T M N y'' + N^T C N y' + N^T K N y = N^T Q_x dx        dx' = g_q N y + g_v N y' + g_x dx

Where forces depend on multipliers, N^T does not annihilate (Phi_q^T - Q_lambda) dlambda. L^T = N^T + N^T Q_lambda (Phi_q (Phi_q^T -
Q_lambda))^-1 Phi_q does, and stands in its place.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from ..._raising import raise_if
from ..building.model import Model
from ..equations import (
    AbstractSystem,
    constraint_force,
    constraint_jacobian,
    constraint_rate,
    mass_product,
    refuse_implicit_states,
    refuse_velocity_rows,
    state_rate,
    total_force,
)
from ..parameters import is_traced, usable
from ..state import State
from .equilibrium import equilibrium, tangent_rows

_AT_REST = 1e-6
"""m/s or rad/s; faster is motion."""


class Linearization(eqx.Module):
    """The linearised equations in minimal coordinates y, and as one first-order system."""

    mass: Float[Array, "y y"]
    """N^T M N"""
    damping: Float[Array, "y y"]
    """N^T C N"""
    stiffness: Float[Array, "y y"]
    """N^T K N; with an acceleration also what the curvature of the constraints adds"""
    basis: Float[Array, "q y"]
    """N: orthonormal columns that span the motions which the constraints leave; dq = basis @ y"""
    matrix: Float[Array, "s s"]
    """A of s' = A s with s = (y, y', dx) [1/s]"""


class Modes(eqx.Module):
    """Eigenvalues and modes of small motions, from the slowest to the fastest.

    Of a conjugate pair, the one with positive imaginary part comes first. A freedom without stiffness has the eigenvalue
    zero twice; numerically, that is about 1e-8 of the largest one.
    """

    values: Complex[np.ndarray, "s"]
    """1/s"""
    modes: Complex[np.ndarray, "q s"]
    """columns: the displacement dq (m; rad or Euler parameters), with 1 as its largest entry"""
    frequencies: Float[np.ndarray, "s"]
    """Hz, |value| / 2 pi: without the effect of damping for an oscillation"""
    damping_ratios: Float[np.ndarray, "s"]
    """-Re(value) / |value|: 0 to 1 for a damped oscillation, 1 for a decay, -1 for a growth, 0 where the value is zero"""


def linearize(system: Model | AbstractSystem, state: State, freedoms: int | None = None, throw: bool = True) -> Linearization:
    """The equations of small motions about a state of rest, such as `equilibrium` returns.

    Works under jit, grad and vmap: neither the eigenvalues of `matrix` nor their derivatives depend on the choice of
    basis. `freedoms` is the number of freedoms; only a system with redundant constraints needs it, and only under a
    transformation.

    About a state of rest that is no equilibrium, it describes the first moments of motions beside the one that starts
    there; eigenvalues then depend on the coordinates, which here are lengths along the constraint surface in q.
    A moving state raises an error: the tangent space then changes along the motion, for which there are more terms. Under a
    transformation, `throw=False` gives NaN instead, and a program that makes no calls to the host. So does a traced parameter that is out
    of its range.
    """
    system = _read_system(system)
    refuse_velocity_rows(system, "linearize")
    refuse_implicit_states(system, "linearize")
    if freedoms is None:
        freedoms = _count_freedoms(system, state)
    message = "linearize needs a state of rest (see mbd.equilibrium): the largest velocity in it is {} m/s or rad/s."
    speed = jnp.max(jnp.abs(state.v), initial=0.0)
    if is_traced(speed):
        moving = ~(speed <= _AT_REST)
        q = raise_if(state.q, moving, 0, [message.format(f"more than {_AT_REST}")]) if throw else usable(state.q, ~moving)
        state = eqx.tree_at(lambda s: s.q, state, q)
    elif not speed <= _AT_REST:
        raise ValueError(message.format(f"{float(speed):.3g}"))
    return _linearize(system, state, freedoms)


@eqx.filter_jit
def _linearize(system: AbstractSystem, state: State, freedoms: int) -> Linearization:
    system = system.prepare().recall(state.memory)
    q, t, x, a, kept = state.q, state.t, state.x, state.acceleration, state.memory.kept_rows
    n, y = q.shape[0], freedoms
    jacobian = kept[:, None] * constraint_jacobian(system, q, t)
    gram = jacobian @ jacobian.T + jnp.diag(1.0 - kept)

    def lift(rows: Array) -> Array:
        """The shortest dq with Phi_q dq = rows."""
        return jacobian.T @ jnp.linalg.solve(gram, rows)

    # The basis that the decomposition picks is a constant; projected, it follows the null space when parameters change.
    basis = tangent_rows(jax.lax.stop_gradient(jacobian), kept)[0][n - y :].T
    basis = basis - lift(jacobian @ basis)

    pulling = state.multipliers
    left = basis.T
    if system.multiplier_forces():
        slope = kept * jax.jacfwd(lambda pull: total_force(system, q, jnp.zeros(n), t, x, pull))(pulling)
        left = left + left @ slope @ jnp.linalg.solve(gram - jacobian @ slope, jacobian)

    def equations(s: Array) -> tuple[Array, Array, Array]:
        """M a + Phi_q^T lambda - Q, then g, then Phi_q a."""
        q, v, x = jnp.split(s, (n, 2 * n))
        inertia = mass_product(system, q, a) + constraint_force(system, q, t, pulling)
        force, rate = total_force(system, q, v, t, x, pulling), state_rate(system, x, q, v, t)
        return inertia - force, rate, constraint_rate(system, q, a, t)

    # One derivative of everything compiles faster than six.
    forces, rates, bends = jax.jacfwd(equations)(jnp.concatenate([q, jnp.zeros(n), x]))
    stiffness, damping, coupling = jnp.split(forces, (n, 2 * n), axis=1)
    rate_q, rate_v, rate_x = jnp.split(rates, (n, 2 * n), axis=1)
    # Neighbours accelerate along their own tangent space: Phi_q da = -(Phi_q a)_q dq.
    mass = system.mass(q)
    stiffness = stiffness @ basis - mass @ lift(kept[:, None] * bends[:, :n] @ basis)
    mass, stiffness, damping = left @ mass @ basis, left @ stiffness, left @ damping @ basis
    driven = -jnp.linalg.solve(mass, jnp.concatenate([stiffness, damping, left @ coupling], axis=1))
    matrix = jnp.concatenate(
        [
            jnp.eye(y, 2 * y + x.shape[0], k=y),
            driven,
            jnp.concatenate([rate_q @ basis, rate_v @ basis, rate_x], axis=1),
        ]
    )
    return Linearization(mass, damping, stiffness, basis, matrix)


def eigenvalues(system: Model | AbstractSystem, state: State | None = None) -> Modes:
    """Eigenvalues, frequencies, damping ratios and modes of small motions about a state of rest.

    - `system`: a Model, a built System, or a user's own AbstractSystem.
    - `state`: a state of rest; None finds the equilibrium near the initial configuration.

    Dampers and differential states count: an oscillation is a conjugate pair, a decay (of a filter, an overdamped
    motion) a real value. Computed on the host with numpy, because accelerators have no such decomposition; under jit,
    grad or vmap use `linearize` and work with its matrices.
    """
    system = _read_system(system)
    if is_traced(system, state):
        raise ValueError("eigenvalues needs concrete numbers: under jit, grad or vmap use mbd.linearize.")
    if state is None:
        state = equilibrium(system)
    linear = linearize(system, state)
    matrix, basis = np.asarray(linear.matrix), np.asarray(linear.basis)
    if not np.all(np.isfinite(matrix)):
        raise ValueError("the linearised equations are not finite: a freedom has no mass, or a force no derivative here.")
    values, vectors = np.linalg.eig(matrix)
    values = values.astype(complex)
    order = _slowest_first(values)
    values, modes = values[order], (basis @ vectors[: basis.shape[1]])[:, order].astype(complex)
    if modes.size > 0:
        largest = np.take_along_axis(modes, np.argmax(np.abs(modes), axis=0)[None], axis=0)
        modes = modes / np.where(np.abs(largest) > 1e-12, largest, 1.0)
    size = np.abs(values)
    return Modes(values, modes, size / (2 * np.pi), -np.real(values) / np.where(size > 0, size, 1.0))


def _slowest_first(values: np.ndarray) -> np.ndarray:
    """Indices by magnitude. Conjugates stay together: LAPACK returns them side by side, the positive imaginary part first."""
    heads = np.flatnonzero(np.imag(values) >= 0)
    heads = heads[np.argsort(np.abs(values[heads]), kind="stable")]
    order = [j for i in heads for j in ((i, i + 1) if np.imag(values[i]) > 0 else (i,))]
    return np.asarray(order, dtype=int)


def _read_system(model: Any) -> AbstractSystem:
    system = model.build() if isinstance(model, Model) else model
    if not isinstance(system, AbstractSystem):
        raise ValueError(f"expected an mbd.Model or an mbd.AbstractSystem, got {type(model).__name__}.")
    return system


def _count_freedoms(system: AbstractSystem, state: State) -> int:
    known = system.freedoms()
    if known is not None:
        return known
    kept = state.memory.kept_rows
    if is_traced(kept):
        raise ValueError(
            "under jit, grad or vmap the number of freedoms of a system with redundant constraints is not known: give freedoms=..."
        )
    return state.q.shape[-1] - int(np.sum(np.asarray(kept)))
