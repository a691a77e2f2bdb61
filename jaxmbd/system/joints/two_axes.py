"""Joints that are described by two axes, one of each body."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame, embed
from ..observable import CARDAN, Observable
from ..parameters import Parameter, is_traced, nonzero_vector, vector
from ..rotations import cross, fused_dot
from .base import AbstractJoint, Penalty


class _TwoAxes(eqx.Module):
    point_a: Float[Numbers, "*stack 3"]
    point_b: Float[Numbers, "*stack 3"]
    axis1: Float[Numbers, "*stack 3"]
    """unit vector in a"""
    axis2: Float[Numbers, "*stack 3"]
    """unit vector in b"""
    axis2_in_a: Float[Numbers, "*stack 3"]
    """the same where it stood in a at the start"""
    axis1_in_b: Float[Numbers, "*stack 3"]

    @staticmethod
    def between(frames: tuple[Frame, ...], point: Array, axis1: Array, axis2: Array) -> "_TwoAxes":
        a, b = frames
        first, second = (u / jnp.sqrt(u @ u) for u in (embed(axis1), embed(axis2)))
        return _TwoAxes(
            a.local_point(point),
            b.local_point(point),
            a.local_direction(first),
            b.local_direction(second),
            a.local_direction(second),
            b.local_direction(first),
        )

    def cosine(self, frames: tuple[Frame, ...]) -> Array:
        a, b = frames
        return fused_dot(a.direction(self.axis1), b.direction(self.axis2))

    def angles(self, frames: tuple[Frame, ...]) -> tuple[Array, Array]:
        """Of the cross against a about the first axis, of b against the cross about the second: since the start, up to full turns."""
        a, b = frames
        seen_by_a = a.local_direction(b.direction(self.axis2))
        seen_by_b = b.local_direction(a.direction(self.axis1))
        return _turn(self.axis1, self.axis2_in_a, seen_by_a), -_turn(self.axis2, self.axis1_in_b, seen_by_b)

    def angle_rates(self, frames: tuple[Frame, ...]) -> tuple[Array, Array]:
        a, b = frames
        spin = b.angular_velocity - a.angular_velocity
        return fused_dot(a.direction(self.axis1), spin), fused_dot(b.direction(self.axis2), spin)


def _turn(axis: Array, start: Array, now: Array) -> Array:
    """The angle about an axis from a direction across it to another."""
    return jnp.arctan2(fused_dot(cross(axis, start), now), fused_dot(start, now))


def _check_perpendicular(joint: "Universal | Perpendicular") -> None:
    if not is_traced(joint.axis1, joint.axis2):
        cosine = joint.axis1 @ joint.axis2 / np.linalg.norm(joint.axis1) / np.linalg.norm(joint.axis2)
        if abs(cosine) > 1e-6:
            raise ValueError(f"{joint.label}: axis1 and axis2 must be perpendicular, their cosine is {cosine:.3g}.")


class Universal(AbstractJoint):
    """Cardan joint: the point is shared, axis1 of a stays perpendicular to axis2 of b.

    `angle1` is that of the cross against a about axis1, `angle2` that of b against the cross about axis2.
    """

    observables: ClassVar[dict[str, Observable]] = CARDAN
    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack 3"]
    axis1: Float[Numbers, "*stack 3"]
    axis2: Float[Numbers, "*stack 3"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "axis1": nonzero_vector(), "axis2": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = None

    def __init__(self, name: str, a: Any, b: Any, point: Any, axis1: Any, axis2: Any, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, point=point, axis1=axis1, axis2=axis2)

    def check(self, planar):
        _check_perpendicular(self)

    def local(self, frames):
        return _TwoAxes.between(frames, embed(self.point), self.axis1, self.axis2)

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([self.separation(local, *frames), local.cosine(frames)[None]])


class Perpendicular(AbstractJoint):
    """Keeps axis1 of a perpendicular to axis2 of b; points are free."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis1: Float[Numbers, "*stack 3"]
    axis2: Float[Numbers, "*stack 3"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"axis1": nonzero_vector(), "axis2": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = (False,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)

    def __init__(self, name: str, a: Any, b: Any, axis1: Any, axis2: Any, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, axis1=axis1, axis2=axis2)

    def check(self, planar):
        _check_perpendicular(self)

    def local(self, frames):
        return _TwoAxes.between(frames, frames[1].position, self.axis1, self.axis2)

    def rows(self, local, frames, angles, t):
        return local.cosine(frames)[None]
