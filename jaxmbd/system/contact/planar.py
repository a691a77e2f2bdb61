"""Pairs of shapes in the plane: discs and lines."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import embed
from ..parameters import Parameter, nonzero_vector, positive, vector
from ..rotations import unit
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .touch import OnFace, SideBySide


class DiscLine(AbstractContact):
    """A disc of body a on a straight line of body b, the edge of all that lies behind it. Planar models.

    Centre, point and normal are given in the ground's frame at the initial configuration. The normal points out of b, to the side where the
    disc is free. Forces act at the disc's nearest point to the line.
    """

    centre: Float[Numbers, "*stack 2"]
    """m, of the disc; moves with a"""
    radius: Float[Numbers, "*stack"]
    """m"""
    point: Float[Numbers, "*stack 2"]
    """m, on the line; moves with b"""
    normal: Float[Numbers, "*stack 2"]
    """direction, out of b"""
    dimension: ClassVar[int] = 2
    point_like: ClassVar[tuple[int, ...]] = (0,)
    parameters: ClassVar[dict[str, Parameter]] = {
        "centre": vector("m", 2),
        "radius": positive("m"),
        "point": vector("m", 2),
        "normal": nonzero_vector(2),
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        centre: Any,
        radius: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, centre=centre, radius=radius, point=point, normal=normal)

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        normal = b.local_direction(embed(unit(self.normal)))
        return OnFace(a.local_point(embed(self.centre)), b.local_point(embed(self.point)), normal)

    def touch(self, local, frames):
        return self.touch_at(frames, *local.spot(frames, self.radius))


class DiscDisc(AbstractContact):
    """A disc of body a against a disc of body b, side by side. Planar models.

    Centres are given in the ground's frame at the initial configuration. Forces act at the middle of the overlap. Discs whose centres coincide
    have no normal: they do not push, and derivatives are finite.
    """

    centre_a: Float[Numbers, "*stack 2"]
    """m, moves with a"""
    radius_a: Float[Numbers, "*stack"]
    """m"""
    centre_b: Float[Numbers, "*stack 2"]
    """m, moves with b"""
    radius_b: Float[Numbers, "*stack"]
    """m"""
    dimension: ClassVar[int] = 2
    point_like: ClassVar[tuple[int, ...]] = (0, 1)
    parameters: ClassVar[dict[str, Parameter]] = {
        "centre_a": vector("m", 2),
        "radius_a": positive("m"),
        "centre_b": vector("m", 2),
        "radius_b": positive("m"),
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        centre_a: Any,
        radius_a: Any,
        centre_b: Any,
        radius_b: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        discs = {"centre_a": centre_a, "radius_a": radius_a, "centre_b": centre_b, "radius_b": radius_b}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **discs)

    def size(self):
        return jnp.minimum(self.radius_a, self.radius_b)

    def local(self, frames):
        a, b = frames
        return SideBySide(a.local_point(embed(self.centre_a)), b.local_point(embed(self.centre_b)))

    def touch(self, local, frames):
        return self.touch_at(frames, *local.spot(frames, self.radius_a, self.radius_b))
