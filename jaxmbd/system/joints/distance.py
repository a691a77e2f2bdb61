"""A massless rod between two points."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..checking import warn
from ..frames import embed
from ..parameters import Parameter, is_traced, positive, vector
from ..rotations import fused_dot
from .base import AbstractJoint, Penalty

_ELSEWHERE = 0.1
"""Share of a rod's length that assembling may have to close before it is taken for a slip; small differences may be meant."""


class _Link(eqx.Module):
    point_a: Float[Numbers, "*stack 3"]
    point_b: Float[Numbers, "*stack 3"]
    length: Float[Numbers, "*stack"]


class Distance(AbstractJoint):
    """A massless rod between point1 of a and point2 of b. Its length is the initial distance unless given."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point1: Float[Numbers, "*stack d"]
    point2: Float[Numbers, "*stack d"]
    length: Float[Numbers, "*stack"] | None
    """m"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {
        "point1": vector("m"),
        "point2": vector("m"),
        "length": positive("m", "must be positive (points that coincide are a Spherical joint)")._replace(optional=True),
    }
    row_lengths: ClassVar[tuple[bool, ...]] = (True,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, name: str, a: Any, b: Any, point1: Any, point2: Any, length: Any = None, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, point1=point1, point2=point2, length=length)

    def check(self, planar):
        if is_traced(self.point1, self.point2):
            return
        distance = np.linalg.norm(self.point2 - self.point1)
        if distance < 1e-12 * (1.0 + np.abs(self.point1).max()):
            raise ValueError(f"{self.label} has zero length: its points coincide. Use a Spherical (or Revolute) joint.")
        if self.length is not None and not is_traced(self.length) and abs(distance - self.length) > _ELSEWHERE * self.length:
            warn(
                f"{self.label}: its length is {self.length:.6g} m, but its points are {distance:.6g} m apart at the initial "
                f"configuration; {self.misfit()}. Place the bodies at that distance, or leave the length out."
            )

    def local(self, frames):
        p1, p2 = embed(self.point1), embed(self.point2)
        d = p2 - p1
        length = jnp.sqrt(d @ d) if self.length is None else self.length
        return _Link(frames[0].local_point(p1), frames[1].local_point(p2), length)

    def rows(self, local, frames, angles, t):
        a, b = frames
        d = b.point(local.point_b) - a.point(local.point_a)
        return 0.5 * (fused_dot(d, d) - local.length**2)[None] / local.length
