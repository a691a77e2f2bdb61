"""Pairs of shapes in space: spheres and planes."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame
from ..parameters import Parameter, nonzero_vector, positive, vector
from ..rotations import unit
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .touch import OnFace, SideBySide

POINT = vector("m", 3)
CENTRE = vector("m", 3)._replace(optional=True)
DIRECTION = nonzero_vector(3)


def local_centre(frame: Frame, centre: Array | None) -> Array:
    """A centre in its body's own frame; None: the centre of mass."""
    return jnp.zeros(3) if centre is None else frame.local_point(centre)


class SpherePlane(AbstractContact):
    """A sphere of body a on a plane of body b, the face of all that lies behind it. Spatial models.

    Centre, point and normal are given in the ground's frame at the initial configuration. The normal points out of b, to the side where
    the sphere is free. Forces act at the sphere's nearest point to the plane. The sphere's body may be a point mass: it does not roll.
    """

    radius: Float[Numbers, "*stack"]
    """m"""
    point: Float[Numbers, "*stack 3"]
    """m, on the plane; moves with b"""
    normal: Float[Numbers, "*stack 3"]
    """direction, out of b"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, of the sphere; moves with a; None: the body's centre of mass"""
    dimension: ClassVar[int] = 3
    point_like: ClassVar[tuple[int, ...]] = (0,)
    parameters: ClassVar[dict[str, Parameter]] = {"radius": positive("m"), "point": POINT, "normal": DIRECTION, "centre": CENTRE}

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"radius": radius, "point": point, "normal": normal, "centre": centre}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        return OnFace(local_centre(a, self.centre), b.local_point(self.point), b.local_direction(unit(self.normal)))

    def touch(self, local, frames):
        return self.touch_at(frames, *local.spot(frames, self.radius))


class SphereSphere(AbstractContact):
    """A sphere of body a against a sphere of body b, side by side. Spatial models.

    Centres are given in the ground's frame at the initial configuration. Forces act at the middle of the overlap. Spheres whose centres
    coincide have no normal: they do not push, and derivatives are finite. The bodies may be point masses: those do not roll.
    """

    radius_a: Float[Numbers, "*stack"]
    """m"""
    radius_b: Float[Numbers, "*stack"]
    """m"""
    centre_a: Float[Numbers, "*stack 3"] | None
    """m, moves with a; None: the body's centre of mass"""
    centre_b: Float[Numbers, "*stack 3"] | None
    """m, moves with b; None: the body's centre of mass"""
    dimension: ClassVar[int] = 3
    point_like: ClassVar[tuple[int, ...]] = (0, 1)
    parameters: ClassVar[dict[str, Parameter]] = {
        "radius_a": positive("m"),
        "radius_b": positive("m"),
        "centre_a": CENTRE,
        "centre_b": CENTRE,
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius_a: Any,
        radius_b: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre_a: Any = None,
        centre_b: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        spheres = {"radius_a": radius_a, "radius_b": radius_b, "centre_a": centre_a, "centre_b": centre_b}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **spheres)

    def size(self):
        return jnp.minimum(self.radius_a, self.radius_b)

    def local(self, frames):
        a, b = frames
        return SideBySide(local_centre(a, self.centre_a), local_centre(b, self.centre_b))

    def touch(self, local, frames):
        return self.touch_at(frames, *local.spot(frames, self.radius_a, self.radius_b))
