"""Smooth convex bodies on planes: ellipsoids and coins. Spatial models.

Both are an ellipsoid with a sphere rolled around it. With m the plane's normal in the body's axes, B the matrix whose principal values are the
squared semi-axes, and r the sphere's radius, the surface reaches sqrt(m.B m) + r from the centre towards the plane, and its lowest point is

    x = -B m / sqrt(m.B m) - r m

A body of that reach touches along m at x, so the rate of the depth is that of the bodies' velocities at x, exactly.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame
from ..parameters import Order, Parameter, not_negative, positive
from ..rotations import cross, dot, product, unit
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .spheres import CENTRE, DIRECTION, POINT, local_centre

_CROWN = 1e-3
"""of a coin's radius"""


class _Rounded(eqx.Module):
    centre: Float[Numbers, "*stack 3"]
    """in a"""
    squares: Float[Numbers, "*stack 3 3"]
    """B, m^2, in a"""
    point: Float[Numbers, "*stack 3"]
    """in b"""
    normal: Float[Numbers, "*stack 3"]
    """unit vector in b"""

    def spot(self, frames: tuple[Frame, ...], rounding: Any) -> tuple[Array, Array, Array, Array]:
        """(point, normal, depth, travel) of their touch, at the lowest point."""
        a, b = frames
        centre, normal = a.point(self.centre), b.direction(self.normal)
        m = a.local_direction(normal)
        arm = product(self.squares, m)
        reach = jnp.sqrt(dot(m, arm))
        lowest = centre - a.direction(arm / reach) - rounding * normal
        depth = reach + rounding - dot(normal, centre - b.point(self.point))
        # The spot moves with the body a and, as the body turns, over its surface.
        turn = a.local_direction(cross(b.angular_velocity - a.angular_velocity, normal))
        swing = product(self.squares, turn)
        over_surface = (swing - dot(m, swing) / reach**2 * arm) / reach + rounding * turn
        travel = a.velocity_at(lowest) - b.velocity_at(lowest) - a.direction(over_surface)
        return lowest, normal, depth, travel


class EllipsoidPlane(AbstractContact):
    """An ellipsoid of body a on a plane of body b, the face of all that lies behind it. Spatial models.

    Its semi-axes are along the axes of its body; a body whose principal axes of inertia are others is a rattleback. Forces act at the
    ellipsoid's lowest point. The law knows one stiffness: a `HertzPoint` is that of the curvatures it was made from, wherever the spot is.
    """

    semi_axes: Float[Numbers, "*stack 3"]
    """m, along the body's axes"""
    point: Float[Numbers, "*stack 3"]
    """m, on the plane; moves with b"""
    normal: Float[Numbers, "*stack 3"]
    """direction, out of b"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, of the ellipsoid; moves with a; None: the body's centre of mass"""
    dimension: ClassVar[int] = 3
    parameters: ClassVar[dict[str, Parameter]] = {
        "semi_axes": positive("m")._replace(shapes=((3,),)),
        "point": POINT,
        "normal": DIRECTION,
        "centre": CENTRE,
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        semi_axes: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        centre: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"semi_axes": semi_axes, "point": point, "normal": normal, "centre": centre}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def size(self):
        return jnp.min(self.semi_axes)

    def local(self, frames):
        a, b = frames
        squares = jnp.diag(self.semi_axes**2)
        return _Rounded(local_centre(a, self.centre), squares, b.local_point(self.point), b.local_direction(unit(self.normal)))

    def touch(self, local, frames):
        return self.touch_at(frames, *local.spot(frames, 0.0))


class CoinPlane(AbstractContact):
    """A coin (a round disc) of body a on a plane of body b, the face of all that lies behind it. Spatial models.

    The coin has its axis in a, an outermost `radius`, and a rim rounded by `edge_radius`: a torus, closed by its faces. Forces act at its lowest
    point. A coin that lies flat touches everywhere at once; so that there is one lowest point, which moves smoothly, its faces are domed by
    `crown`, higher in the middle than at the rim: with s = radius - edge_radius, the coin is the ellipsoid of semi-axes (s, s, crown) with
    a sphere of edge_radius rolled around it. Lying flat, its centre is edge_radius + crown above the plane.

    Tilted by the angle w the lowest point is s sin(w) / sqrt(sin(w)^2 + (crown/s)^2 cos(w)^2) off the axis: nearly at the rim from ten times
    crown / s on, where the reach is half a percent more than that of a sharp rim, and linear in w below crown / s. So a coin at rest, with
    the moment of inertia J about its diameter, wobbles at the angular frequency sqrt(load s^2 / (crown J)), which explicit methods have to
    resolve; a larger crown is softer.
    """

    radius: Float[Numbers, "*stack"]
    """m, outermost"""
    axis: Float[Numbers, "*stack 3"]
    """direction, of the coin; moves with a"""
    edge_radius: Float[Numbers, "*stack"]
    """m, of the rim's section; smaller than the radius"""
    crown: Float[Numbers, "*stack"] | None
    """m, height of the middle of a face over its rim; None: a thousandth of the radius of the face"""
    point: Float[Numbers, "*stack 3"]
    """m, on the plane; moves with b"""
    normal: Float[Numbers, "*stack 3"]
    """direction, out of b"""
    centre: Float[Numbers, "*stack 3"] | None
    """m, of the coin; moves with a; None: the body's centre of mass"""
    dimension: ClassVar[int] = 3
    parameters: ClassVar[dict[str, Parameter]] = {
        "radius": positive("m"),
        "axis": DIRECTION,
        "edge_radius": not_negative("m"),
        "crown": positive("m", "must be positive: a flat face has no lowest point")._replace(optional=True),
        "point": POINT,
        "normal": DIRECTION,
        "centre": CENTRE,
    }
    orders: ClassVar[tuple[Order, ...]] = (Order("edge_radius", "radius", "a coin that is all rim is a sphere: use SpherePlane"),)

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        radius: Any,
        axis: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        edge_radius: Any = 0.0,
        crown: Any = None,
        centre: Any = None,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"radius": radius, "axis": axis, "edge_radius": edge_radius, "crown": crown}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes, point=point, normal=normal, centre=centre)

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        axis, face = a.local_direction(unit(self.axis)), self.radius - self.edge_radius
        crown = _CROWN * face if self.crown is None else self.crown
        squares = face**2 * jnp.eye(3) + (crown**2 - face**2) * axis[:, None] * axis
        return _Rounded(local_centre(a, self.centre), squares, b.local_point(self.point), b.local_direction(unit(self.normal)))

    def touch(self, local, frames):
        return self.touch_at(frames, *local.spot(frames, self.edge_radius))
