"""Joints that hold velocities: rolling without slip, and an edge that does not move sideways."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame, embed
from ..parameters import Parameter, is_traced, nonzero_vector, positive, vector
from ..rotations import dot, triad, unit
from .base import AbstractJoint, Penalty


class _Edge(eqx.Module):
    point_b: Float[Numbers, "*stack 3"]
    across: Float[Numbers, "*stack 3"]
    """unit vector in b"""


class KnifeEdge(AbstractJoint):
    """A point of b does not move in one direction that is fixed in b, as seen from a: the edge of a skate, a wheel without width.

        mbd.KnifeEdge("skate", mbd.ground, sledge, point=(0, 0), axis=(0, 1))

    The axis is the direction across the edge. It holds a velocity, no position: the constraint is nonholonomic, HHT and BDF can solve for its
    multiplier. In space nothing else is held; put the body on its plane by other joints.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    """m"""
    axis: Float[Numbers, "*stack d"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "axis": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = ()
    planar_rows: ClassVar[tuple[int, ...] | None] = ()
    velocity_rows: ClassVar[int] = 1

    def __init__(self, name: str, a: Any, b: Any, point: Any, axis: Any):
        self.read_joint(name, (a, b), None, point=point, axis=axis)

    def local(self, frames):
        return _Edge(frames[1].local_point(embed(self.point)), frames[1].local_direction(unit(embed(self.axis))))

    def rows(self, local, frames, angles, t):
        return jnp.zeros(0)

    def velocities(self, local, frames, t):
        a, b = frames
        slip = b.point_velocity(local.point_b) - a.velocity_at(b.point(local.point_b))
        return dot(b.direction(local.across), slip)[None]


class _Disc(eqx.Module):
    point_a: Float[Numbers, "*stack 3"]
    directions: Float[Numbers, "*stack 3 3"]
    """rows: unit vectors in a, the first normal to the plane"""
    point_b: Float[Numbers, "*stack 3"]
    axis: Float[Numbers, "*stack 3"]
    """unit vector in b"""


class RollingDisc(AbstractJoint):
    """The rim of a thin disc on b rolls on a plane of a without slip: a coin, a wheel, a hoop.

        mbd.RollingDisc("rim", mbd.ground, coin, radius=0.02, axis=(1, 0, 0), point=(0, 0, 0), normal=(0, 0, 1))

    The disc has its centre at `centre`, b's centre of mass unless given, and turns about `axis` of b. One row holds the rim at the plane through
    `point`, on the side to which `normal` points; two hold the velocity of the point of the disc that touches. The reaction counts there:
    `"rim.fx"`, `"rim.fy"`, `"rim.fz"` are what the plane does to the disc (it may also pull). Nonholonomic: HHT and BDF can solve for its
    multipliers. A disc that lies flat has no lowest point: there the constraint is singular.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    radius: Float[Numbers, "*stack"]
    """m"""
    axis: Float[Numbers, "*stack 3"]
    point: Float[Numbers, "*stack 3"]
    """m"""
    normal: Float[Numbers, "*stack 3"]
    centre: Float[Numbers, "*stack 3"] | None
    """m; None: b's centre of mass"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {
        "radius": positive("m"),
        "axis": nonzero_vector(),
        "point": vector("m", 3),
        "normal": nonzero_vector(),
        "centre": vector("m", 3)._replace(optional=True),
    }
    row_lengths: ClassVar[tuple[bool, ...]] = (True,)
    planar_rows: ClassVar[tuple[int, ...] | None] = None
    velocity_rows: ClassVar[int] = 2

    def __init__(self, name: str, a: Any, b: Any, radius: Any, axis: Any, point: Any, normal: Any, *, centre: Any = None):
        self.read_joint(name, (a, b), None, radius=radius, axis=axis, point=point, normal=normal, centre=centre)

    def check(self, planar):
        if not is_traced(self.axis, self.normal):
            cosine = self.axis @ self.normal / np.linalg.norm(self.axis) / np.linalg.norm(self.normal)
            if abs(cosine) > 1 - 1e-6:
                raise ValueError(f"{self.label}: the disc lies flat on its plane, where no point of its rim is the lowest: tilt its axis.")

    def local(self, frames):
        a, b = frames
        centre = b.position if self.centre is None else embed(self.centre)
        directions = jnp.stack([a.local_direction(u) for u in triad(self.normal)])
        return _Disc(a.local_point(self.point), directions, b.local_point(centre), b.local_direction(unit(self.axis)))

    def _down(self, local: _Disc, frames: tuple[Frame, ...]) -> Float[Array, "3"]:
        """From the centre of the disc to the point of its rim that touches [m]."""
        a, b = frames
        normal, axis = a.direction(local.directions[0]), b.direction(local.axis)
        falling = normal - dot(normal, axis) * axis
        return -self.radius * unit(falling)

    def rows(self, local, frames, angles, t):
        a, b = frames
        lowest = b.point(local.point_b) + self._down(local, frames)
        return dot(a.direction(local.directions[0]), lowest - a.point(local.point_a))[None]

    def velocities(self, local, frames, t):
        a, b = frames
        lowest = b.point(local.point_b) + self._down(local, frames)
        slip = b.velocity_at(lowest) - a.velocity_at(lowest)
        return jnp.stack([dot(a.direction(u), slip) for u in (local.directions[1], local.directions[2])])

    def reference_point(self, local, frames):
        return frames[1].point(local.point_b) + self._down(local, frames)
