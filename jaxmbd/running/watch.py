"""Looks for a motion that explodes."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..system.equations import AbstractSystem
from ..system.state import State

_LAST_DIGITS = 1e-12
_ONSET = 100.0
_EXPLOSION = 1e6
_LIGHT = 299_792_458.0
"""m/s"""
_FASTEST_TURN = 1e12
"""rad/s"""


class Watch(eqx.Module):
    """What the speeds of a run were so far.

    A step that is too large for its method makes the fastest motion turn around in every step, faster each time. A motion that is resolved
    does not turn around within a step, and where one does (an impact, a start) it is not faster than ever before, time and again. So the
    factors add up by which |v| exceeds all that the run has seen, in steps with v_{n+1} . v_n < 0: together they may reach a million.
    A single step counts for a hundred at most, for at the onset of a force it may be any number; and speeds by which positions change in
    their last digits only are no speeds. Nor may any body move faster than light, or turn by more than 1e12 rad/s.
    """

    fastest: Float[Array, ""]
    """|v|, the largest so far"""
    growth: Float[Array, ""]
    """logarithm of what it has grown by in steps that turned around"""

    @staticmethod
    def begin(state: State, h: Array) -> "Watch":
        """At the start, speed is also what the first step h will make of accelerations."""
        return Watch(jnp.sqrt(jnp.maximum(jnp.sum(state.v**2), jnp.sum((h * state.acceleration) ** 2))), jnp.zeros(()))

    def look(self, system: AbstractSystem, old: State, new: State) -> tuple["Watch", Bool[Array, ""]]:
        """The watch after a step, and whether the motion has exploded."""
        h = new.t - old.t
        unseen = _LAST_DIGITS * (1.0 + jnp.max(jnp.abs(new.q), initial=0.0)) / jnp.where(h > 0, h, 1.0)
        known = jnp.maximum(self.fastest, unseen)
        speed = jnp.sqrt(jnp.sum(new.v**2))
        turned = (jnp.sum(old.v * new.v) < 0) & (speed > known)
        growth = self.growth + jnp.where(turned, jnp.log(jnp.clip(speed / known, 1.0, _ONSET)), 0.0)
        limits = np.where(system.coordinate_lengths(), _LIGHT, _FASTEST_TURN)
        exploded = (growth > np.log(_EXPLOSION)) | jnp.any(jnp.abs(new.v) > limits)
        return Watch(jnp.maximum(self.fastest, speed), growth), exploded
