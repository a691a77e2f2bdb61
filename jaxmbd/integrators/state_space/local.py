"""A system in local coordinates: motions m along and about each body's own axes, from where the bodies are now.

    q = move(origin, m),    m = 0 at the origin

A turn is a vector, axis times angle: a body that turns evenly draws a straight line, and bodies that turn together draw one straight line in all
of their coordinates. In Euler parameters both are curves. Linearly implicit methods pay for curves: what ties two bodies stiffly is linear in
a step only as far as their motion is.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...system.equations import AbstractSystem, constraint, constraint_force, constraint_rate
from ...system.state import State


class LocalSystem(AbstractSystem):
    """What the state-space form needs of a system in the motions m: its `base` keeps the equations, `unfold`, `push` and `pull` lead to it.

    The rows of Phi stay, although those that are nothing but the coordinates' own manifold hold wherever a motion leads.
    """

    system: AbstractSystem
    origin: Float[Array, "q"]
    """the configuration from which motions count"""

    def __init__(self, system: AbstractSystem, origin: Array):
        self.system, self.origin = system, origin

    @property
    def q0(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return jnp.zeros(len(self.system.motion_lengths()))

    @property
    def v0(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.q0

    @property
    def base(self):
        return self.system

    def _place(self, q: Array) -> Array:
        # Without the barrier XLA computes the place again in every kernel that needs it: half as much again to compile and to run.
        return jax.lax.optimization_barrier(self.system.move(self.origin, q))

    def unfold(self, q, v, a):
        (place, rate), (_, bend) = jax.jvp(lambda q, v: jax.jvp(self._place, (q,), (v,)), (q, v), (v, a))
        return place, rate, bend

    def push(self, q, columns):
        return jax.vmap(lambda u: jax.jvp(self._place, (q,), (u,))[1], in_axes=1, out_axes=1)(columns)

    def pull(self, q, columns):
        return jax.vmap(lambda u: jax.vjp(self._place, q)[1](u)[0], in_axes=1, out_axes=1)(columns)

    def mass(self, q):
        raise NotImplementedError("Ask `base` at the place that `unfold` leads to.")

    def force(self, q, v, t, *rest):
        raise NotImplementedError("Ask `base` at the place that `unfold` leads to.")

    def constraint(self, q, t):
        return constraint(self.system, self._place(q), t)

    def sizes(self, q):
        place = self._place(q)
        return jnp.where(np.asarray(self.coordinate_lengths(), bool), jnp.abs(self.system.to_motion(place, place)), 1.0)

    def largest_turn(self, q: Array) -> Float[Array, ""]:
        """rad, the largest angle that a body has turned by from the origin."""
        bodies = np.asarray(self.system.coordinate_bodies(), int)[np.asarray(self.system.motion_coordinates(), int)]
        turns = np.where(self.coordinate_lengths(), 0.0, np.arange(1 + bodies.max())[:, None] == bodies)
        return jnp.sqrt(jnp.max(turns @ q**2))

    # --- structure --------------------------------------------------------------------------------------------------------------------

    def coordinate_lengths(self):
        return self.system.motion_lengths()

    def row_lengths(self):
        return self.system.row_lengths()

    def freedoms(self):
        return self.system.freedoms()

    def coupling(self):
        pattern = self.system.coupling()
        if pattern is None:
            return None
        n, columns = len(self.system.coordinate_lengths()), np.asarray(self.system.motion_coordinates(), int)
        return pattern[np.concatenate([columns, np.arange(n, len(pattern))])][:, columns]

    def recall(self, memory):
        return dataclasses.replace(self, system=self.system.recall(memory))

    # --- in and out -------------------------------------------------------------------------------------------------------------------

    def enter(self, state: State) -> State:
        """The state at the origin, seen from there. Along straight lines from there, coordinates accelerate across their manifold only."""
        rate, bend = (self.system.to_motion(self.origin, u) for u in (state.v, state.acceleration))
        return dataclasses.replace(state, q=self.q0, v=rate, acceleration=bend)

    def leave(self, state: State) -> State:
        """A state in motions as one in the system's coordinates, on their manifold to rounding."""
        q, v, a = self.unfold(state.q, state.v, state.acceleration)
        q, v = self.system.normalize(q, v)
        # Across the manifold neither forces nor inertia act, which come from wrenches; the other rows may, which are written for any q. Each
        # row of the manifold has a slope of one there.
        count = state.multipliers.shape[0]
        others = np.arange(count) < count - self.system.own_rows()
        pull = constraint_force(self.system, q, state.t, jnp.where(others, state.multipliers, 0.0))
        multipliers = jnp.where(others, state.multipliers, constraint_rate(self.system, q, -pull, state.t))
        return dataclasses.replace(state, q=q, v=v, acceleration=a, multipliers=multipliers)

    def unknown(self, index: Int[Array, ""]) -> Int[Array, ""]:
        """An entry of (m, multipliers, x) as one of the system's (q, multipliers, x)."""
        places = np.asarray(self.system.motion_coordinates(), np.int32)
        n, m = len(self.system.coordinate_lengths()), len(places)
        return jnp.where(index < m, jnp.asarray(places)[jnp.minimum(index, m - 1)], index + n - m).astype(index.dtype)
