"""Static equilibrium: positions, multipliers and differential states in which nothing wants to move.

    Phi_q^T lambda - Q(q, 0, t, x, lambda) = 0        Phi(q, t) = 0        g(x, q, 0, t) = 0

Newton's method alone finds any stationary point, unstable ones included, fails where the stiffness is singular (a
pendulum at right angles to gravity), and drifts off along motions that nothing resists. So the search follows the
sluggish motion M q' = Q - Phi_q^T lambda, x' = g that a mechanism in honey would make, by implicit Euler steps in
pseudo-time (pseudo-transient continuation, Kelley and Keyes 1998):

    [ K + M / s    Phi_q^T      -Q_x         ] [ dq      ]   [ Q - Phi_q^T lambda ]
    [ Phi_q           0           0          ] [ dlambda ] = [ -Phi               ]
    [  -g_q           0     I / sqrt(s) - g_x ] [ dx      ]   [ g                  ]

A small pace s [s^2] goes down the slope, a large one is Newton's method. M / s keeps the matrix regular where motions
are neutral, and then nothing moves along them. s is bounded by the most negative curvature, so that unstable equilibria
repel. Each step is solved by Newton's method with a new derivative every time: stiff springs make curved valleys, and a
step that is linearised once leaves them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..._precision import attainable
from ..._raising import raise_if
from ..balance import find_multipliers
from ..building.model import Model
from ..equations import (
    AbstractSystem,
    constraint,
    constraint_force,
    constraint_jacobian,
    initial_states,
    refuse_implicit_states,
    refuse_velocity_rows,
    saddle_matrix,
    state_rate,
    total_force,
)
from ..faults.blame import overturned
from ..faults.validity import expectations, first_unusable
from ..initial import first_memory, keep_rows, project_position
from ..naming import find_coordinates
from ..parameters import is_traced
from ..redundancy import choose_rows
from ..state import Memory, State

_MAX_ITERATIONS = 500
_FIRST_PACE = 1e-2
"""s^2"""
_FASTEST_PACE = 1e6
"""s^2. Motions slower than about 1e-3 rad/s count as neutral; rounding errors of accelerations move them by this much."""
_NEGLIGIBLE = attainable(1e-8)
"""A step this small (of 1 + |q|) at full pace ends the search; its own error is of second order."""
_LARGEST_TURN = 0.4
"""rad or Euler parameter, in a step: angles over full turns must be followed."""
_MAX_CORRECTIONS = 8
_CONTRACTION = 0.1
"""A correction smaller than this part of the step ends the step."""


def equilibrium(
    model: Model | AbstractSystem,
    t: Any = None,
    initial: State | None = None,
    held: Sequence[str | int] = (),
    throw: bool = True,
) -> State:
    """A state of rest in static equilibrium, near the initial configuration and downhill from it.

    It is a stable one, unless the search begins exactly at one that is not.

    - `model`: a Model, a built System, or a user's own AbstractSystem.
    - `t`: the time [s] at which loads and motions are frozen; that of `initial`, or 0, unless given.
    - `initial`: where the search begins; the model's own initial configuration unless given.
    - `held`: coordinates that stay where they are: "body.x", "body.y", "body.z" [m], "body.angle" [rad] of a planar
      body, "body.e0" to "body.e3" of a rigid body (its Euler parameters: near the orientation (1, 0, 0, 0), e3 holds the
      yaw), or a place in q.
    - `throw`: raise if there is none. With False the state is where the search ended; its acceleration is zero if that
      is an equilibrium, and NaN if a traced parameter that matters is out of its range. A program then makes no calls to the host.

    The state has v = 0, no acceleration, and the static reactions as multipliers; `simulate(model, initial=state)`
    starts from it. Velocities of the model and rates of its motions play no part.

    Directions that nothing resists (x, y and yaw of a vehicle) are left as they are, up to rounding and the little that
    settling moves them; hold them to keep them exactly. Where a held coordinate is not neutral, the support that holds
    it does not show in the state.

    Derivatives follow from the implicit function theorem, forward and reverse, under jit and vmap. Along neutral
    directions that are not held they are zero.
    """
    system = model.build() if isinstance(model, Model) else model
    if not isinstance(system, AbstractSystem):
        raise ValueError(f"model must be an mbd.Model or an mbd.AbstractSystem, got {type(model).__name__}.")
    refuse_velocity_rows(system, "equilibrium")
    refuse_implicit_states(system, "equilibrium")
    if t is None:
        t = 0.0 if initial is None else initial.t
    state, found = _solve(system, jnp.asarray(t, dtype=float), initial, find_coordinates(system, held, "held"))
    if not throw:
        return state
    if is_traced(found):
        unusable = first_unusable(system)
        messages = ["no static equilibrium was found: something has no support, or the start is too far off.", *expectations(system)]
        return raise_if(state, ~found | (unusable >= 0), unusable + 1, messages)
    if not bool(np.all(found)):
        raise RuntimeError(_failure(system, state))
    return state


def _failure(system: AbstractSystem, state: State) -> str:
    unbalanced, violation = (np.asarray(value) for value in _imbalance(system, state))
    message = f"no static equilibrium was found in {_MAX_ITERATIONS} iterations: "
    if turn := overturned(system, state):
        return message + turn
    if not (np.all(np.isfinite(state.q)) and np.all(np.isfinite(unbalanced))):
        return message + "the search ran into infinite or undefined forces. Start nearer to the equilibrium."
    worst = int(np.argmax(np.abs(unbalanced)))
    return (
        f"{message}a force of {np.abs(unbalanced[worst]):.3g} N (or N m) remains on {system.describe_unknown(worst)}, "
        f"which would accelerate at {np.max(np.abs(state.acceleration)):.3g} m/s^2 (or rad/s^2); constraints are "
        f"violated by {np.max(violation, initial=0.0):.3g}. Something may have no support: add a spring or a joint, hold "
        "a coordinate with held=..., or start nearer."
    )


@eqx.filter_jit
def _imbalance(system: AbstractSystem, state: State) -> tuple[Array, Array]:
    system = system.prepare().recall(state.memory)
    force = total_force(system, state.q, jnp.zeros_like(state.q), state.t, state.x, state.multipliers)
    pull = constraint_force(system, state.q, state.t, state.multipliers)
    return force - pull, jnp.abs(constraint(system, state.q, state.t))


# --- the equations ---------------------------------------------------------------------------------------------------


class _Problem(eqx.Module):
    """The equations of rest for z = (q, multipliers of constraints and holds, x), and where the search begins."""

    system: AbstractSystem
    t: Array
    q: Array
    x: Array
    held: tuple[int, ...] = eqx.field(static=True)

    def recall(self, memory: Memory) -> "_Problem":
        return eqx.tree_at(lambda p: p.system, self, self.system.recall(memory))

    def rows(self, q: Array) -> Array:
        index = np.asarray(self.held, dtype=int)
        return jnp.concatenate([constraint(self.system, q, self.t), q[index] - self.q[index]])

    def jacobian(self, q: Array) -> Array:
        holds = np.eye(q.shape[0])[list(self.held)]
        return jnp.concatenate([constraint_jacobian(self.system, q, self.t), holds])

    def keep(self, q: Array, kept: Array) -> Array:
        """Holds give way to joints that fix the same coordinate: the joints' multipliers are the whole reactions."""
        m = kept.shape[0] - len(self.held)
        joints = keep_rows(self.system, q, self.t, kept[:m])
        if not self.held:
            return joints
        essential = jnp.concatenate([joints, jnp.zeros(len(self.held))])
        return jnp.concatenate([joints, choose_rows(self.jacobian(q), essential, kept)[m:]])

    def force(self, q: Array, x: Array, multipliers: Array) -> Array:
        """Holds are no joints: their multipliers, the last ones, do not count."""
        return total_force(self.system, q, jnp.zeros_like(q), self.t, x, multipliers[: multipliers.shape[0] - len(self.held)])

    def residual(self, z: Array, kept: Array) -> Array:
        q, multipliers, x = self.split(z)
        rows, pull_back = jax.vjp(self.rows, q)
        return jnp.concatenate(
            [
                pull_back(kept * multipliers)[0] - self.force(q, x, kept * multipliers),
                kept * rows + (1.0 - kept) * multipliers,
                -state_rate(self.system, x, q, jnp.zeros_like(q), self.t),
            ]
        )

    def split(self, z: Array) -> tuple[Array, Array, Array]:
        n, k = self.q.shape[0], self.x.shape[0]
        # An empty part is not cut off: XLA stumbles over an empty end of a concatenation while it reads a program, without a word, and in a
        # process with a single core it then knows none of the LAPACK calls that follow.
        m = z.shape[0] - n - k
        return z[:n], z[n : n + m] if m else jnp.zeros(0), z[n + m :] if k else jnp.zeros(0)

    def accelerate(self, q: Array, x: Array, kept: Array) -> tuple[Array, Array]:
        """What the accelerations from rest would be, and the multipliers that go with them."""
        n, matrix = q.shape[0], saddle_matrix(self.system.mass(q), self.jacobian(q), kept)

        def respond(multipliers: Array) -> Array:
            return jnp.linalg.solve(matrix, jnp.concatenate([self.force(q, x, kept * multipliers), jnp.zeros_like(kept)]))

        multipliers = jnp.zeros_like(kept)
        if self.system.multiplier_forces():
            multipliers, _ = find_multipliers(lambda pull: pull - respond(pull)[n:], multipliers)
        solution = respond(multipliers)
        return solution[:n], solution[n:]

    def inertia(self, q: Array, pace: Array) -> Array:
        """What pseudo-time adds to the derivative of the residual."""
        rows = len(self.held) + constraint(self.system, q, self.t).shape[0]
        return jax.scipy.linalg.block_diag(self.system.mass(q) / pace, jnp.zeros((rows, rows)), jnp.eye(self.x.shape[0]) / jnp.sqrt(pace))


@eqx.filter_jit
def _solve(system: AbstractSystem, t: Array, initial: State | None, held: tuple[int, ...]) -> tuple[State, Bool[Array, ""]]:
    system = system.prepare()
    if initial is None:
        q, x, memory = system.q0, initial_states(system), first_memory(system)
    else:
        q, x, memory = initial.q, initial.x, initial.memory
    problem = _Problem(system, t, q, x, held)
    # Neither the search nor what it remembers has a derivative.
    arrays, rest = eqx.partition((problem, memory), eqx.is_array)
    fixed, memory = eqx.combine(jax.lax.stop_gradient(arrays), rest)
    z, acceleration, memory, kept, fastest, found = _search(fixed, memory)
    problem = problem.recall(memory)
    inertia = fixed.inertia(fixed.split(z)[0], fastest)

    def tangent_solve(linear_map: Callable[[Array], Array], right: Array) -> Array:
        """Neutral directions make the matrix singular; with some inertia it is not, and refinement takes that out again."""
        matrix = jax.vmap(linear_map, out_axes=1)(jnp.eye(right.shape[0]))
        factors = jax.scipy.linalg.lu_factor(matrix + inertia)
        solution = jax.scipy.linalg.lu_solve(factors, right)
        for _ in range(2):
            solution = solution + jax.scipy.linalg.lu_solve(factors, right - matrix @ solution)
        return solution

    z = jax.lax.custom_root(lambda z: problem.residual(z, kept), z, lambda _, z: z, tangent_solve)
    q, multipliers, x = problem.split(z)
    state = State(
        t,
        q,
        jnp.zeros_like(q),
        x,
        multipliers[: memory.kept_rows.shape[0]],
        jnp.where(found, 0.0, acceleration),
        jnp.zeros_like(x),
        memory,
    )
    return state, found


# --- the search ------------------------------------------------------------------------------------------------------


class _Point(eqx.Module):
    q: Array
    x: Array
    anchor: tuple[Array, Array]
    """(q, x) where the present step begins"""
    angles: Array
    """rad, there"""
    kept: Array
    """rows of the constraints and of the holds, chosen there"""
    pace: Float[Array, ""]
    """s^2"""
    fastest: Float[Array, ""]
    """s^2. At a faster pace the inertia along neutral motions was lost in the rounding of stiff springs, and the matrix singular."""
    corrections: Int[Array, ""]
    """since the step began"""
    found: Bool[Array, ""]
    iterations: Int[Array, ""]


def _search(problem: _Problem, memory: Memory) -> tuple[Array, Array, Memory, Array, Array, Array]:
    """z at the end, the acceleration from there, what to remember, the rows that are kept, the fastest pace, and whether it is at rest."""
    system, rows = problem.system.recall(memory), memory.kept_rows.shape[0]
    joints = keep_rows(system, problem.q, problem.t, memory.kept_rows)
    q, _ = project_position(system, problem.q, problem.t, joints)
    zero = jnp.zeros((), jnp.int32)
    begin = _Point(
        q,
        problem.x,
        (q, problem.x),
        system.angles(q),
        problem.recall(memory).keep(q, jnp.concatenate([joints, jnp.ones(len(problem.held))])),
        jnp.asarray(_FIRST_PACE),
        jnp.asarray(_FASTEST_PACE),
        zero,
        jnp.array(False),
        zero,
    )

    def proceed(point: _Point):
        return ~point.found & (point.iterations < _MAX_ITERATIONS)

    end = jax.lax.while_loop(proceed, lambda point: _advance(problem, point, rows), begin)
    (q, x), memory = end.anchor, Memory(end.angles, end.kept[:rows])
    acceleration, multipliers = problem.recall(memory).accelerate(q, x, end.kept)
    return jnp.concatenate([q, multipliers, x]), acceleration, memory, end.kept, end.fastest, end.found


def _advance(problem: _Problem, point: _Point, rows: int) -> _Point:
    """One Newton correction of an implicit Euler step, which ends, begins anew with another pace, or goes on."""
    problem = problem.recall(Memory(point.angles, point.kept[:rows]))
    q, x, kept, (anchor_q, anchor_x) = point.q, point.x, point.kept, point.anchor
    n, m = q.shape[0], kept.shape[0]
    multipliers = problem.accelerate(q, x, kept)[1]
    z = jnp.concatenate([q, multipliers, x])
    travelled = jnp.concatenate([q - anchor_q, jnp.zeros(m), x - anchor_x])
    derivative, residual = jax.jacfwd(lambda z: (problem.residual(z, kept),) * 2, has_aux=True)(z)
    limit = jnp.minimum(_pace_limit(derivative[:n, :n], problem.system.mass(q), derivative[n : n + m, :n], kept), point.fastest)
    first = point.corrections == 0
    pace = jnp.where(first, jnp.minimum(point.pace, limit), point.pace)
    inertia = problem.inertia(q, pace)
    correction = -jnp.linalg.solve(derivative + inertia, residual + inertia @ travelled)
    singular = ~jnp.all(jnp.isfinite(correction)) & jnp.all(jnp.isfinite(derivative)) & jnp.all(jnp.isfinite(residual))
    travelled = travelled + correction

    def size(step: Array) -> Array:
        dq, _, dx = problem.split(step)
        return jnp.max(jnp.abs(jnp.concatenate([dq / (1.0 + jnp.abs(q)), dx / (1.0 + jnp.abs(x))])), initial=0.0)

    small = first & (size(correction) <= _NEGLIGIBLE)
    ratio = size(correction) / jnp.maximum(size(travelled), jnp.finfo(q.dtype).tiny)
    turning = ~np.asarray(problem.system.coordinate_lengths())
    turn = jnp.max(jnp.abs(travelled[:n][turning]), initial=0.0) / _LARGEST_TURN
    failed = ~jnp.all(jnp.isfinite(correction)) | (turn > 1.0) | (point.corrections >= _MAX_CORRECTIONS)
    ended = ~failed & (small | (~first & (ratio < _CONTRACTION)))
    ease = jnp.clip(_CONTRACTION / jnp.maximum(ratio, 1e-3), 3.0, 100.0)
    faster = jnp.select([small, point.corrections <= 1, point.corrections <= 3], [100.0, ease, 3.0], 1.0)
    faster = jnp.minimum(faster, 0.8 / jnp.maximum(turn, 1e-3))
    slower = jnp.where(jnp.isfinite(turn), 0.3 / jnp.clip(turn, 1.0, 10.0), 0.03)

    dq, _, dx = problem.split(correction)
    q, x = jnp.where(failed, anchor_q, q + dq), jnp.where(failed, anchor_x, x + dx)
    anchor_q, anchor_x = jnp.where(ended, q, anchor_q), jnp.where(ended, x, anchor_x)
    return _Point(
        q,
        x,
        (anchor_q, anchor_x),
        jnp.where(ended, problem.system.angles(anchor_q), point.angles),
        jnp.where(ended, problem.keep(anchor_q, kept), kept),
        # What bounded the pace may be gone after the step: it counts for one step only.
        jnp.where(failed, slower * pace, jnp.where(ended, jnp.maximum(faster * pace, point.pace), pace)),
        jnp.where(singular, 0.1 * pace, point.fastest),
        jnp.where(ended | failed, 0, point.corrections + 1),
        ended & small & (pace >= limit),
        point.iterations + 1,
    )


def _pace_limit(stiffness: Array, mass: Array, jacobian: Array, kept: Array) -> Array:
    """Half of what makes K + M / s indefinite on the tangent space; the fastest pace if nothing does."""
    rows, free = tangent_rows(jacobian, kept)
    rows = free[:, None] * rows
    root = jnp.linalg.cholesky(rows @ mass @ rows.T + jnp.diag(1.0 - free))
    half = jax.scipy.linalg.solve_triangular(root, rows @ (stiffness + stiffness.T) @ rows.T * 0.5, lower=True)
    squares = jnp.linalg.eigvalsh(jax.scipy.linalg.solve_triangular(root, half.T, lower=True))
    worst = -jnp.min(squares, initial=0.0)
    return jnp.where(worst > 0.5 / _FASTEST_PACE, 0.5 / jnp.maximum(worst, 0.5 / _FASTEST_PACE), _FASTEST_PACE)


def tangent_rows(jacobian: Float[Array, "rows q"], kept: Float[Array, "rows"]) -> tuple[Array, Array]:
    """Orthonormal rows that span R^n, the motions that the kept constraints leave last, and 1 for those."""
    n = jacobian.shape[1]
    if jacobian.shape[0] == 0:
        return jnp.eye(n), jnp.ones(n)
    _, _, rows = jnp.linalg.svd(jacobian, full_matrices=True)
    return rows, jnp.where(jnp.arange(n) >= jnp.sum(kept), 1.0, 0.0)
