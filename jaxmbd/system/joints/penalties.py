"""What a joint does that is held by a penalty: from its rows and their derivatives by displacements and rotations of its bodies."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Number
from ..elements import unwrap
from ..frames import Frame, Wrench
from ..rotations import cross
from .base import AbstractJoint, Penalty


def row_coefficients(penalty: Penalty, lengths: tuple[bool, ...]) -> tuple[Float[Array, "rows"], Float[Array, "rows"]]:
    """Stiffness and damping of every row."""
    stiffness, damping = zip(*(penalty.coefficients(length) for length in lengths), strict=True)
    return jnp.stack(stiffness), jnp.stack(damping)


def penalty_wrench(
    joint: AbstractJoint,
    local: Any,
    frames: tuple[Frame, ...],
    angles: Array,
    t: Number,
    kept: tuple[int, ...] | None,
    moving: tuple[int, ...],
) -> tuple[Float[Array, "rows"], Wrench]:
    """(k Phi + c Phi', which stands in for the multipliers; what the joint does to those of its bodies that are moving) of the rows kept.

    A frame with the rotation A moves by position' = velocity, A' = skew(w) A. With C the derivative of a row by A, the torque is the sum
    of A_i x C_i over the columns: no coordinates are involved, and nothing has to be scattered.
    """
    assert joint.penalty is not None

    def rows(positions: tuple[Array, ...], rotations: tuple[Array, ...], t: Number) -> Array:
        seen = list(frames)
        for i, position, rotation in zip(moving, positions, rotations, strict=True):
            seen[i] = dataclasses.replace(frames[i], position=position, rotation=rotation)
        values = joint.rows(local, tuple(seen), unwrap(joint.wrapped_angles(local, tuple(seen)), angles), t)
        return values if kept is None else jnp.stack([values[i] for i in kept])

    own = tuple(frames[i] for i in moving)
    place = tuple(frame.position for frame in own), tuple(frame.rotation for frame in own), t
    spins = tuple(jnp.stack([cross(frame.angular_velocity, axis) for axis in frame.rotation.T], axis=1) for frame in own)
    values, push = jax.linearize(rows, *place)
    rates = push(tuple(frame.velocity for frame in own), spins, jnp.ones_like(t))
    lengths = joint.are_lengths()
    stiffness, damping = row_coefficients(joint.penalty, lengths if kept is None else tuple(lengths[i] for i in kept))
    multipliers = stiffness * values + damping * rates
    forces, slopes, _ = jax.linear_transpose(push, *place)(multipliers)
    torques = [
        sum(cross(axis, slope) for axis, slope in zip(frame.rotation.T, by_rotation.T, strict=True))
        for frame, by_rotation in zip(own, slopes, strict=True)
    ]
    return multipliers, Wrench(-jnp.stack(forces), -jnp.stack(torques))
