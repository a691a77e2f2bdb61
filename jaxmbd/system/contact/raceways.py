"""Pairs of a rolling bearing: balls in grooves and in the pockets of a cage, and cages guided by rings. Spatial models.

All are hollows: the first body moves inside a surface of the second and is pushed back from it. With o the point of the surface's centre line
nearest to the first body's centre c, and e = c - o, the depth is |e| less the play, and the push is along -e.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame
from ..parameters import Order, Parameter, positive
from ..rotations import dot, unit
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .spheres import CENTRE, DIRECTION, POINT, local_centre
from .touch import Touch, direction, over


class _InHollow(eqx.Module):
    centre: Float[Numbers, "*stack 3"]
    """in a"""
    point: Float[Numbers, "*stack 3"]
    """in b"""
    axis: Float[Numbers, "*stack 3"]
    """unit vector in b"""


def _fits_in(hollow: str) -> Order:
    return Order("radius", hollow, "the clearance, their difference, must be positive")


def _compared_size(radius: Array, play: Array) -> Array:
    """Of a pair with play: misplaced by the whole of it, the bodies overlap by more than 1 % of this."""
    return jnp.minimum(radius, 100.0 * play)


class SphereGroove(AbstractContact):
    """A ball (body a) in the groove of a ring (body b): the hollow of a torus about the ring's axis.

    The groove's section is a circle of `groove_radius`, its centre on a circle of `pitch_radius` about the axis. `side` says which half of the
    torus is there: "outside" is a groove on the outside of an inner ring, that holds a ball towards the axis; "inside" is one on the inside of
    an outer ring. The contact angle follows: in the plane through axis and ball the ball is pushed along the line from its centre to the
    section's centre. A ball that touches both rings at contact angle zero has its centre at the radius
    pitch_radius - (groove_radius - radius) at the outside, pitch_radius + (groove_radius - radius) at the inside.
    """

    radius: Float[Numbers, "*stack"]
    """m, of the ball"""
    groove_radius: Float[Numbers, "*stack"]
    """m, of the groove's section; larger than that of the ball"""
    pitch_radius: Float[Numbers, "*stack"]
    """m, from the axis to the centres of the sections"""
    axis: Float[Numbers, "*stack 3"]
    """direction, of the ring"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, of the ball; None: its centre of mass"""
    point: Float[Numbers, "*stack 3"] | None
    """m, on the ring's axis in the middle plane of the groove; None: the ring's centre of mass"""
    towards: Float[Numbers, "*stack"]
    """1: inside, the groove holds the ball against going outward; -1: outside. A number, so that both rings' contacts are one stack"""
    dimension: ClassVar[int] = 3
    parameters: ClassVar[dict[str, Parameter]] = {
        "radius": positive("m"),
        "groove_radius": positive("m"),
        "pitch_radius": positive("m"),
        "axis": DIRECTION,
        "centre": CENTRE,
        "point": CENTRE,
        "towards": Parameter("1", valid=lambda side: abs(side) == 1, requirement="must be 1 (inside) or -1 (outside)"),
    }
    orders: ClassVar[tuple[Order, ...]] = (
        _fits_in("groove_radius"),
        Order("groove_radius", "pitch_radius", "the groove must lie round the axis"),
    )

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius: Any,
        groove_radius: Any,
        pitch_radius: Any,
        axis: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        side: str,
        centre: Any = None,
        point: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"radius": radius, "groove_radius": groove_radius, "pitch_radius": pitch_radius}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes, axis=axis, centre=centre, point=point)
        if side not in ("inside", "outside"):
            raise ValueError(f"{self.label}: side must be 'outside' (of an inner ring) or 'inside' (of an outer ring), got {side!r}.")
        self.towards = jnp.asarray(1.0 if side == "inside" else -1.0)

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        return _InHollow(local_centre(a, self.centre), local_centre(b, self.point), b.local_direction(unit(self.axis)))

    def touch(self, local, frames):
        a, b = frames
        centre, axis = a.point(local.centre), b.direction(local.axis)
        offset = centre - b.point(local.point)
        height = dot(axis, offset)
        radial, distance = direction(offset - height * axis)
        rise = distance - self.pitch_radius
        out, eccentricity = direction(rise * radial + height * axis)
        depth = jnp.where(self.towards * rise > 0, eccentricity, 0.0) - (self.groove_radius - self.radius)
        arm = self.radius - 0.5 * depth
        # As the ring sees it the spot goes round the axis with the ball, and along the groove's section faster than the ball.
        seen = a.velocity_at(centre) - b.velocity_at(centre)
        meridional = dot(seen, radial) * radial + dot(seen, axis) * axis
        round_ = over((distance + arm * dot(out, radial)) * (seen - meridional), distance)
        travel = round_ + over(self.groove_radius * (meridional - dot(out, meridional) * out), eccentricity)
        return self.touch_at(frames, centre + arm * out, -out, depth, travel)


_POCKET = {
    "radius": positive("m"),
    "pocket_radius": positive("m"),
    "point": POINT,
    "centre": CENTRE,
}


class AbstractPocket(AbstractContact):
    """A ball (body a) in a pocket of a cage (body b)."""

    radius: Float[Numbers, "*stack"]
    """m, of the ball"""
    pocket_radius: Float[Numbers, "*stack"]
    """m, larger than that of the ball"""
    point: Float[Numbers, "*stack 3"]
    """m, centre of the pocket, or on its axis; moves with b"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, of the ball; None: its centre of mass"""
    dimension: ClassVar[int] = 3
    orders: ClassVar[tuple[Order, ...]] = (_fits_in("pocket_radius"),)

    def size(self):
        return _compared_size(self.radius, self.pocket_radius - self.radius)

    def touch(self, local, frames):
        centre = frames[0].point(local.centre)
        return _in_cylinder(self, frames, centre, local.point, local.axis, self.radius, self.pocket_radius)


class CylindricalPocket(AbstractPocket):
    """A ball (body a) in a cylindrical pocket of a cage (body b), whose axis points through the cage, as a rule radially.

    The pocket has no ends: it holds the ball across its axis and lets it move along.
    """

    axis: Float[Numbers, "*stack 3"]
    """direction, of the pocket"""
    parameters: ClassVar[dict[str, Parameter]] = {**_POCKET, "axis": DIRECTION}

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius: Any,
        pocket_radius: Any,
        point: Any,
        axis: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"radius": radius, "pocket_radius": pocket_radius, "point": point, "axis": axis, "centre": centre}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def local(self, frames):
        a, b = frames
        return _InHollow(local_centre(a, self.centre), b.local_point(self.point), b.local_direction(unit(self.axis)))


class SphericalPocket(AbstractPocket):
    """A ball (body a) in a spherical pocket of a cage (body b), larger than the ball by the clearance all round."""

    parameters: ClassVar[dict[str, Parameter]] = _POCKET

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius: Any,
        pocket_radius: Any,
        point: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"radius": radius, "pocket_radius": pocket_radius, "point": point, "centre": centre}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def local(self, frames):
        # A pocket without an axis: nothing is free to slide along it.
        a, b = frames
        return _InHollow(local_centre(a, self.centre), b.local_point(self.point), jnp.zeros(3))


class _Lands(eqx.Module):
    edges: Float[Numbers, "*stack 2 3"]
    """in a"""
    point: Float[Numbers, "*stack 3"]
    """in b"""
    axis: Float[Numbers, "*stack 3"]
    """unit vector in b"""


class CylinderCylinder(AbstractContact):
    """A cylinder of body a inside a bore of body b, nearly coaxial: a cage guided by a ring, or a ring by its cage.

    A cage in the outer ring's bore is (cage, outer ring), a cage that rides on the inner ring (inner ring, cage). The land is `width` wide and
    touches at its two edges, each with the law's force: together they resist tilting. The edges move with a. Loads have two entries, one
    for each edge.
    """

    radius: Float[Numbers, "*stack"]
    """m, of the cylinder"""
    bore_radius: Float[Numbers, "*stack"]
    """m, larger than that of the cylinder"""
    width: Float[Numbers, "*stack"]
    """m, of the land"""
    axis: Float[Numbers, "*stack 3"]
    """direction, of the bore, and of the cylinder at the start"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, middle of the land on the cylinder's axis; None: the centre of mass of a"""
    point: Float[Numbers, "*stack 3"] | None
    """m, on the bore's axis; None: the centre of mass of b"""
    dimension: ClassVar[int] = 3
    spots: ClassVar[int] = 2
    parameters: ClassVar[dict[str, Parameter]] = {
        "radius": positive("m"),
        "bore_radius": positive("m"),
        "width": positive("m"),
        "axis": DIRECTION,
        "centre": CENTRE,
        "point": CENTRE,
    }
    orders: ClassVar[tuple[Order, ...]] = (_fits_in("bore_radius"),)

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius: Any,
        bore_radius: Any,
        width: Any,
        axis: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre: Any = None,
        point: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"radius": radius, "bore_radius": bore_radius, "width": width}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes, axis=axis, centre=centre, point=point)

    def size(self):
        return _compared_size(self.radius, self.bore_radius - self.radius)

    def local(self, frames):
        a, b = frames
        axis = unit(self.axis)
        half = 0.5 * self.width * a.local_direction(axis)
        edges = local_centre(a, self.centre) + np.array([[-1.0], [1.0]]) * half
        return _Lands(edges, local_centre(b, self.point), b.local_direction(axis))

    def touch(self, local, frames):
        def edge(at):
            return _in_cylinder(self, frames, frames[0].point(at), local.point, local.axis, self.radius, self.bore_radius)

        return jax.vmap(edge)(local.edges)


def _in_cylinder(
    pair: AbstractContact,
    frames: tuple[Frame, ...],
    centre: Array,
    local_point: Array,
    local_axis: Array,
    radius: Array,
    bore_radius: Array,
) -> Touch:
    """A circle or sphere about `centre` in the bore of b about a point and an axis of b; without an axis (zero), in a hollow sphere."""
    a, b = frames
    axis = b.direction(local_axis)
    offset = centre - b.point(local_point)
    out, eccentricity = direction(offset - dot(axis, offset) * axis)
    depth = eccentricity - (bore_radius - radius)
    seen = a.velocity_at(centre) - b.velocity_at(centre)
    along = dot(axis, seen) * axis
    travel = along + over(bore_radius * (seen - along - dot(out, seen) * out), eccentricity)
    return pair.touch_at(frames, centre + (radius - 0.5 * depth) * out, -out, depth, travel)
