"""Pairs of bodies with several spots: boxes and capsules on planes. Spatial models."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import Frame
from ..parameters import Parameter, positive
from ..rotations import unit
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .spheres import CENTRE, DIRECTION, POINT, local_centre
from .touch import OnFace, Touch

_CORNERS = 0.5 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)


class _OnPlane(eqx.Module):
    spots: Float[Numbers, "*stack spots 3"]
    """in a: corners, or centres of end spheres"""
    point: Float[Numbers, "*stack 3"]
    """in b"""
    normal: Float[Numbers, "*stack 3"]
    """unit vector in b"""

    def touch(self, pair: AbstractContact, frames: tuple[Frame, ...], radius: Any) -> Touch:
        """Of spheres (points, for a radius of zero) and plane."""
        return jax.vmap(lambda at: pair.touch_at(frames, *OnFace(at, self.point, self.normal).spot(frames, radius)))(self.spots)


class BoxPlane(AbstractContact):
    """A box of body a on a plane of body b, the face of all that lies behind it. Spatial models.

    The box's edges are along the axes of its body. It touches with its eight corners, each with the law's force: flat on the plane, four of
    them share its weight. Loads have eight entries, one for each corner: (-, -, -), (-, -, +), (-, +, -), ... in the body's axes.
    """

    sizes: Float[Numbers, "*stack 3"]
    """m, lengths of the edges along the body's axes"""
    point: Float[Numbers, "*stack 3"]
    """m, on the plane; moves with b"""
    normal: Float[Numbers, "*stack 3"]
    """direction, out of b"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, of the box; moves with a; None: the body's centre of mass"""
    dimension: ClassVar[int] = 3
    spots: ClassVar[int] = 8
    parameters: ClassVar[dict[str, Parameter]] = {
        "sizes": positive("m")._replace(shapes=((3,),)),
        "point": POINT,
        "normal": DIRECTION,
        "centre": CENTRE,
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        sizes: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"sizes": sizes, "point": point, "normal": normal, "centre": centre}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def size(self):
        return 0.5 * jnp.min(self.sizes)

    def local(self, frames):
        a, b = frames
        corners = local_centre(a, self.centre) + _CORNERS * self.sizes
        return _OnPlane(corners, b.local_point(self.point), b.local_direction(unit(self.normal)))

    def touch(self, local, frames):
        return local.touch(self, frames, 0.0)


class CapsulePlane(AbstractContact):
    """A capsule (two half spheres and the cylinder between them) of body a on a plane of body b. Spatial models.

    It touches with the two spheres at its ends, each with the law's force; lying flat, they share its weight. Loads have two entries, one for
    each end.
    """

    end1: Float[Numbers, "*stack 3"]
    """m, centre of the first end's sphere; moves with a"""
    end2: Float[Numbers, "*stack 3"]
    """m, centre of the second end's sphere; moves with a"""
    radius: Float[Numbers, "*stack"]
    """m"""
    point: Float[Numbers, "*stack 3"]
    """m, on the plane; moves with b"""
    normal: Float[Numbers, "*stack 3"]
    """direction, out of b"""
    dimension: ClassVar[int] = 3
    spots: ClassVar[int] = 2
    parameters: ClassVar[dict[str, Parameter]] = {
        "end1": POINT,
        "end2": POINT,
        "radius": positive("m"),
        "point": POINT,
        "normal": DIRECTION,
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        end1: Any,
        end2: Any,
        radius: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"end1": end1, "end2": end2, "radius": radius, "point": point, "normal": normal}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        ends = jnp.stack([a.local_point(self.end1), a.local_point(self.end2)])
        return _OnPlane(ends, b.local_point(self.point), b.local_direction(unit(self.normal)))

    def touch(self, local, frames):
        return local.touch(self, frames, self.radius)
