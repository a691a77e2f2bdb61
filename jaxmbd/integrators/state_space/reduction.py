"""The state-space form: the motion of independent coordinates y alone, y'' = f(t, y, y', x), x' = g.

Given y and y', the dependent positions solve Phi = 0, the dependent velocities Phi_q v + Phi_t = 0. With dq = N dy along the constraints
and q'' = N y'' + c, where c satisfies Phi'' = 0 for y'' = 0, the equations of motion become

    N^T M N y'' = N^T (Q - M c)

and the multipliers follow from the equations of the dependent coordinates.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ...solvers import linear
from ...solvers.newton import JudgeByResidual, Recycled, newton
from ...solvers.roots import AbstractEquations, frozen, implicit_root
from ...system.equations import (
    AbstractSystem,
    constraint,
    constraint_acceleration,
    constraint_and_force,
    constraint_jacobian,
    constraint_rate,
    mass_product,
    state_rate,
    total_force,
)
from ...system.state import Memory, State
from .partition import Partition, Tangent, counting_rows, tangent

_POSITION_TOLERANCE = 1e-9
"""Error that the search may leave in a dependent position, relative to 1 + |u|. One correction with Phi_u at its end follows, which squares
it: rounding is what remains, and no search is lost to rounding noise."""


class Point(eqx.Module):
    """A consistent state, and what it says of the constraints there."""

    t: Float[Array, ""]
    q: Float[Array, "q"]
    v: Float[Array, "q"]
    x: Float[Array, "x"]
    multipliers: Float[Array, "rows"]
    acceleration: Float[Array, "q"]
    state_rate: Float[Array, "x"]
    tangent: Tangent
    """without derivative: to begin the next search with, and to judge the choice of coordinates by"""
    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    worst: Int[Array, ""]
    """the entry of q that could not be found"""

    @staticmethod
    def of_state(state: State, here: Tangent) -> "Point":
        zero = jnp.zeros((), jnp.int32)
        return Point(
            *(state.t, state.q, state.v, state.x, state.multipliers, state.acceleration, state.state_rate),
            jax.lax.stop_gradient(here),
            jnp.array(True),
            *(zero, zero, zero),
        )

    def to_state(self, memory: Memory, method: eqx.Module) -> State:
        return State(self.t, self.q, self.v, self.x, self.multipliers, self.acceleration, self.state_rate, memory, method)


def evaluate(
    system: AbstractSystem,
    memory: Memory,
    partition: Partition,
    t: Array,
    y: Float[Array, "y"],
    y_rate: Float[Array, "y"],
    x: Float[Array, "x"],
    guess: Float[Array, "q"],
    factors: linear.Factors,
) -> Point:
    """The whole state from its independent part. `guess` are positions to begin the search for dependent ones with, `factors` those of Phi_u
    somewhere near. `system` must have recalled the memory."""
    q, (converged, iterations, jacobians, worst) = _positions(system, memory, partition, t, y, guess, factors)
    here, base, still = tangent(system, memory, partition, q, t), system.base, jnp.zeros_like(q)
    q = q - jax.lax.stop_gradient(here.lift(constraint(system, q, t)[here.rows]))
    v = here.slope @ y_rate - here.lift(constraint_rate(base, *system.unfold(q, still, still)[:2], t)[here.rows])
    place, rate, bend = system.unfold(q, v, still)
    offset = -here.lift(constraint_acceleration(base, place, rate, bend, t)[here.rows])
    bend = bend + system.push(q, offset[:, None])[:, 0]
    force = total_force(base, place, rate, t, x)
    inertia, slope, _ = reduced_mass(system, here, q, place)
    right = slope.T @ (force - mass_product(base, place, bend))
    y_bend = linear.solve_differentiably(inertia, linear.factorize(jax.lax.stop_gradient(inertia)), right)
    left = system.pull(q, (force - mass_product(base, place, slope @ y_bend + bend))[:, None])[:, 0]
    multipliers = here.multipliers(left, memory.kept_rows.shape[0])
    return Point(
        *(t, q, v, x, multipliers, here.slope @ y_bend + offset, state_rate(base, x, place, rate, t)),
        jax.lax.stop_gradient(here),
        *(converged, iterations, jacobians, worst),
    )


def reduced_mass(system: AbstractSystem, here: Tangent, q: Array, place: Array) -> tuple[Float[Array, "y y"], Array, Array]:
    """N^T M N, with N in the coordinates of the system's base, which are at `place`; N, and M N."""
    slope = system.push(q, here.slope)
    product = jax.vmap(lambda column: mass_product(system.base, place, column), in_axes=1, out_axes=1)(slope)
    return slope.T @ product, slope, product


class _Closing(AbstractEquations):
    """The rows that count, as equations for the dependent positions."""

    system: AbstractSystem
    memory: Memory
    partition: Partition
    rows: Int[Array, "u"]
    t: Float[Array, ""]
    y: Float[Array, "y"]

    def residual(self, z):
        return constraint(self.system, self.partition.merge(self.y, z), self.t)[self.rows]

    def jacobian(self, z):
        q = self.partition.merge(self.y, z)
        return constraint_jacobian(self.system, q, self.t)[self.rows][:, self.partition.dependent]


def _positions(system, memory, partition: Partition, t, y, guess, factors):
    """All positions from the independent ones, and how the search went."""
    rows = counting_rows(system, memory, y.shape[0])
    if rows.shape[0] == 0:
        zero = jnp.zeros((), jnp.int32)
        return partition.merge(y, guess[partition.dependent]), (jnp.array(True), zero, zero, zero)

    start, known = frozen(guess[partition.dependent]), Recycled(frozen(factors), jnp.all(jnp.isfinite(factors.matrix)), jnp.ones(()))

    def search(there: _Closing):
        allowed = _POSITION_TOLERANCE * (1.0 + jnp.abs(start))

        def size(correction):
            return jnp.max(jnp.abs(correction) / allowed)

        u, _, info = newton(there.residual, there.jacobian, start, known, size, JudgeByResidual())
        return u, (info.converged, info.iterations, info.jacobians, partition.dependent[info.worst].astype(jnp.int32))

    u, report = implicit_root(_Closing(system, memory, partition, rows, t, y), search)
    return partition.merge(y, u), report


class Jacobians(eqx.Module):
    """Derivatives of the reduced right-hand side (y'', x') =: F."""

    by_position: Float[Array, "s y"]
    """dF/dy at fixed y' and x"""
    by_rate: Float[Array, "s s"]
    """dF/d(y', x)"""
    by_time: Float[Array, "s"]


def differentiate(system: AbstractSystem, point: State | Point, here: Tangent) -> Jacobians:
    """Exact derivatives of the reduced equations at a consistent state.

    Differentiating the equations that (q, v, q'', lambda) satisfy, lambda of all rows, along motions that satisfy them too: with dq = N dy and a
    dv that keeps Phi' = 0, the equations R = M q'' + Phi_q^T lambda - Q and Phi'' change by dR and dPhi'' at fixed q'' and lambda, and

        N^T M N dy'' = -N^T (dR - M lift(dPhi''))

    This costs one directional derivative of vectors for every direction. Differentiating `evaluate` instead would differentiate Phi_q, a
    matrix, in every direction; the tests compare the two.
    """
    q, v, x, t, a = point.q, point.v, point.x, point.t, point.acceleration
    multipliers, base = point.multipliers, system.base
    n, d, k = q.shape[0], here.slope.shape[1], x.shape[0]

    def equations(q, v, x, t):
        place, rate, bend = system.unfold(q, v, a)
        _, pull = constraint_and_force(base, place, t, multipliers)
        motion = mass_product(base, place, bend) + pull - total_force(base, place, rate, t, x)
        return motion, constraint_acceleration(base, place, rate, bend, t)[here.rows], state_rate(base, x, place, rate, t)

    def rows_rate(q, v, t):
        place, rate, _ = system.unfold(q, v, jnp.zeros(n))
        return constraint_rate(base, place, rate, t)

    def follow(dq, dt):
        """The dv at fixed y' that goes with dq and dt."""
        change = jax.jvp(lambda q, t: rows_rate(q, v, t), (q, t), (dq, dt))[1]
        return -here.lift(change[here.rows])

    # Directions: y at fixed t, then t at fixed y, then y', then x.
    drift = -here.lift(rows_rate(q, jnp.zeros(n), t)[here.rows])
    dq = jnp.concatenate([here.slope.T, drift[None], jnp.zeros((d + k, n))])
    dt = jnp.zeros(2 * d + k + 1).at[d].set(1.0)
    dv = jnp.concatenate([jax.vmap(follow)(dq[: d + 1], dt[: d + 1]), here.slope.T, jnp.zeros((k, n))])
    dx = jnp.eye(2 * d + k + 1, k, k=-(2 * d + 1))
    change = jax.vmap(lambda *direction: jax.jvp(equations, (q, v, x, t), direction)[1])(dq, dv, dx, dt)
    motion, bend, rate = change
    inertia, slope, product = reduced_mass(system, here, q, system.unfold(q, v, a)[0])
    # lift(bend)^T M N, without M itself: M is symmetric.
    pushed = here.solve(bend.T).T @ system.pull(q, product)[here.partition.dependent]
    right = -(motion @ slope - pushed).T
    accelerations = linear.solve_differentiably(inertia, linear.factorize(jax.lax.stop_gradient(inertia)), right)
    whole = jnp.concatenate([accelerations, rate.T])
    return Jacobians(whole[:, :d], whole[:, d + 1 :], whole[:, d])
