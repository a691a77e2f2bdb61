"""The fastest motions of a system, by which explicit methods must choose their steps.

Two looks are taken at a state. One at the linearised equations there: the eigenvalues largest in magnitude, by Arnoldi's iteration with
directional derivatives, so that a large system costs some forty evaluations and no matrix. The other at every contact by itself, open ones
too, at the load that it may expect. Forces that become stiff elsewhere are not seen.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._compiling import compiled_in_haste
from ..contact.base import AbstractContact
from ..contact.friction import Sliding
from ..contact.touch import Touch
from ..equations import (
    AbstractSystem,
    acceleration_a,
    acceleration_b,
    constraint_curvature,
    constraint_jacobian,
    count_rows,
    saddle_matrix,
    state_rate,
    total_force,
)
from ..frames import Frame
from ..mechanism import AbstractMechanism
from ..rotations import cross, dot
from ..stacked.groups import map_elements
from ..state import State

_DIRECTIONS = 40
"""of Arnoldi's iteration"""
_SHALLOWEST, _DEEPEST = 1e-12, 1e2
"""m, depths among which that of an impact is looked for"""
_HALVINGS = 40


class KrylovSpace(eqx.Module):
    """Linearised equations in a small basis. Times are in units of h, so that eigenvalues are h lambda."""

    matrix: Float[Array, "m m"]
    basis: Float[Array, "m s"]
    """rows, over (q, h v, x)"""


class Stiffness(eqx.Module):
    """What a contact does to the bodies it pushes, over their inertia."""

    normal: Float[Array, "..."]
    """1/s^2, slope of the force by depth at the deepest point of an impact"""
    normal_damping: Float[Array, "..."]
    """1/s, its slope by the rate of depth there"""
    tangential: Float[Array, "..."]
    """1/s^2, of bristles"""
    friction: Float[Array, "..."]
    """1/s, slope of friction by slip, at rest"""


@compiled_in_haste
def fastest(system: AbstractSystem, state: State, h: Array, explicit_only: bool) -> tuple[KrylovSpace, dict[int, Stiffness]]:
    """The fastest motions of a system at a consistent state, and, by number of force group, those of contacts.

    `explicit_only`: of family A alone, on the bodies that family B does not hold.
    """
    system = system.recall(state.memory)
    free = np.ones(state.q.shape[0], bool)
    if explicit_only and len(system.stiff_coordinates()) < free.size:
        free[np.asarray(system.stiff_coordinates(), int)] = False
    modes = _modes(system, state, h, explicit_only, free)
    # A body on joints with multipliers moves less easily than it would by itself.
    if not isinstance(system, AbstractMechanism) or count_rows(system) > system.own_rows():
        return modes, {}
    return modes, _contacts(system, state, explicit_only, free)


def _modes(system: AbstractSystem, state: State, h: Array, explicit_only: bool, free: np.ndarray) -> KrylovSpace:
    n, k = state.q.shape[0], state.x.shape[0]
    kept = state.memory.kept_rows

    def acceleration(q, v, x):
        if count_rows(system) == system.own_rows():
            q, v = system.normalize(q, v)
            a = acceleration_a(system, q, v, state.t, x)
            return a if explicit_only or not system.stiff_coordinates() else a + acceleration_b(system, q, v, state.t, x)
        right = jnp.concatenate([total_force(system, q, v, state.t, x), -kept * constraint_curvature(system, q, v, state.t)])
        return jnp.linalg.solve(saddle_matrix(system.mass(q), constraint_jacobian(system, q, state.t), kept), right)[:n]

    def rates(y):
        q, v, x = y[:n], y[n : 2 * n] / h, y[2 * n :]
        return jnp.concatenate([h * v, h**2 * acceleration(q, v, x), h * state_rate(system, x, q, v, state.t)])

    y, moves = jnp.concatenate([state.q, h * state.v, state.x]), np.concatenate([free, free, np.ones(k, bool)])
    start = np.random.default_rng(0).standard_normal(2 * n + k) * moves
    count = min(_DIRECTIONS, int(np.sum(moves)))

    def extend(basis, i):
        new = jnp.where(moves, jax.jvp(rates, (y,), (basis[i],))[1], 0.0)
        column = jnp.zeros(count)
        for _ in range(2):  # once more, for orthogonality
            part = basis @ new
            new, column = new - part @ basis, column + part
        size = jnp.sqrt(jnp.sum(new**2))
        # Nothing new: the basis is complete, what follows is zero.
        found = size > 1e-12 * jnp.sqrt(jnp.sum(column**2) + size**2)
        new = jnp.where(found, new / jnp.where(found, size, 1.0), 0.0)
        column = column.at[i + 1].set(jnp.where(found, size, 0.0), mode="drop")
        return basis.at[i + 1].set(new, mode="drop"), column

    basis = jnp.zeros((count, 2 * n + k)).at[0].set(start / np.linalg.norm(start))
    basis, columns = jax.lax.scan(extend, basis, jnp.arange(count))
    return KrylovSpace(columns.T, basis)


# --- contacts ---------------------------------------------------------------------------------------------------------------------------------


def _contacts(system: AbstractMechanism, state: State, explicit_only: bool, free: np.ndarray) -> dict[int, Stiffness]:
    frames = system.frames(state.q, state.v)
    easy = _mobilities(system, state.q, state.v, free)
    masses, pulls = system.masses(), system.field_forces(frames, state.t)
    falling = jnp.max(jnp.sqrt(jnp.sum(pulls**2, axis=1)) / masses)
    found = {}
    for number, (group, local) in enumerate(zip(system.force_groups, system.geometry.forces, strict=True)):
        if isinstance(group.element, AbstractContact) and not (explicit_only and group.stiff):
            own = local, group.frames(frames), easy[np.asarray(group.bodies)]
            found[number] = map_elements(lambda e, local, f, m: _pair(e, local, f, m, falling), group.element, *own)
    return found


def _mobilities(system: AbstractMechanism, q: Array, v: Array, free: np.ndarray) -> Float[Array, "frames 6 6"]:
    """By body, and for the ground: (acceleration, angular acceleration) by (force, torque)."""

    def one(body, q, v, free):
        def push(wrench):
            a = free * body.solve_mass(q, body.generalize(q, wrench[:3], wrench[3:]))
            moved = jax.jvp(lambda v: body.frame(q, v), (v,), (a,))[1]
            return jnp.concatenate([moved.velocity, moved.angular_velocity])

        return jax.vmap(push, out_axes=1)(jnp.eye(6))

    parts = system._by_body(one, q, v, jnp.asarray(free, float))
    return jnp.concatenate([*parts, jnp.zeros((1, 6, 6))])


def _pair(contact: AbstractContact, local: Any, frames: tuple[Frame, ...], easy: Float[Array, "2 6 6"], falling: Array) -> Stiffness:
    touch = contact.touch(local, frames)
    spot = lambda touch: _spot(contact, touch, frames, easy, falling)  # noqa: E731
    return spot(touch) if contact.spots == 1 else jax.tree.map(lambda leaf: jnp.max(leaf), jax.vmap(spot)(touch))


def _spot(contact: AbstractContact, touch: Touch, frames: tuple[Frame, ...], easy: Array, falling: Array) -> Stiffness:
    def mobility(direction: Float[Array, "3"]) -> Array:
        """1/kg, of the two surfaces against each other."""
        along = [jnp.concatenate([direction, cross(touch.point - frame.position, direction)]) for frame in frames]
        return sum((w @ m @ w for w, m in zip(along, easy, strict=True)), jnp.zeros(()))

    law, w = contact.law, mobility(touch.normal)
    mass = 1.0 / jnp.where(w > 0, w, jnp.inf)
    # At the deepest point all that the bodies had, their fall included, is elastic energy.
    speed, gap = jnp.maximum(touch.rate, 0.0), jnp.maximum(-touch.depth, 0.0)

    def halve(_, bounds):
        low, high = bounds
        middle = jnp.sqrt(low * high)
        deep = law.energy(middle) > mass * (0.5 * speed**2 + falling * (gap + middle))
        return jnp.where(deep, low, middle), jnp.where(deep, middle, high)

    _, depth = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.asarray(_SHALLOWEST), jnp.asarray(_DEEPEST)))
    depth = jnp.maximum(depth, touch.depth)
    stiffness, damping = jax.grad(law.force, (0, 1))(depth, jnp.zeros(()))
    nothing = jnp.zeros(())
    if contact.friction is None:
        return Stiffness(w * stiffness, w * damping, nothing, nothing)

    friction, load = contact.friction, jnp.maximum(law.force(touch.depth, touch.rate), mass * falling)
    # One tangent direction for all: the longest of the rows, which in space are those of a projector.
    row = touch.tangents[jnp.argmax(jnp.sum(touch.tangents**2, axis=1))]
    along = row / jnp.sqrt(jnp.sum(row**2))
    slip, x = dot(touch.tangents, along), friction.initial_state(touch.slip.shape[0])

    def pull(speed: Array, bend: Array) -> tuple[Array, Array]:
        sliding = Sliding(speed * slip, depth, nothing, touch.entrainment, load, law.spot)
        return dot(friction.coefficient(sliding, x + bend), slip), friction.rate(sliding, x)

    slope, rate = jax.jvp(lambda s: pull(s, jnp.zeros_like(x)), (nothing,), (jnp.ones(()),))[1]
    hold = jax.jvp(lambda b: pull(nothing, b)[0], (jnp.zeros_like(x),), (rate,))[1] if x.shape[0] > 0 else nothing
    eases = load * mobility(along)
    return Stiffness(w * stiffness, w * damping, eases * hold, eases * slope)
