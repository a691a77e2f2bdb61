"""Points and bars of one body against what turns on an axis of another: pulleys, wheels with flanges, sprockets. In the plane and in space.

All are surfaces rho = r(alpha, y) in the cylinder coordinates of the second body: rho from the axis, alpha about it, y along it. What is inside,
g = rho - r < 0, overlaps by the depth -g / |grad g|: the distance from the surface up to terms of second order, known without a search.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame, embed
from ..parameters import Parameter, is_traced, nonzero_vector, not_negative, positive, vector
from ..rotations import cross, dot, unit
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .touch import direction, over

_AXIS = nonzero_vector(3)._replace(optional=True)
_FLANGED: dict[str, Parameter] = {
    "centre": vector("m"),
    "axis": _AXIS,
    "flange_radius": positive("m")._replace(optional=True),
    "half_width": not_negative("m"),
}


class _Hub(eqx.Module):
    """The axis of b, in its own frame."""

    centre: Float[Numbers, "*stack 3"]
    axis: Float[Numbers, "*stack 3"]


class _Cylinder(eqx.Module):
    """Where a point stands about the axis."""

    axis: Float[Numbers, "3"]
    radial: Float[Numbers, "3"]
    """unit vector from the axis to the point; zero on the axis"""
    rho: Float[Numbers, ""]
    """m, distance from the axis"""
    y: Float[Numbers, ""]
    """m, along the axis"""

    def spot(self, radius: Array, around: Array | None, along: Array | None) -> tuple[Array, Array]:
        """(normal, depth), given r, dr / (rho dalpha) and dr / dy there; None: zero."""
        if around is None and along is None:
            return self.radial, radius - self.rho
        slope, square = self.radial, jnp.ones(())
        if around is not None:
            slope, square = slope - around * cross(self.axis, self.radial), square + around**2
        if along is not None:
            slope, square = slope - along * self.axis, square + along**2
        steepness = jnp.sqrt(square)
        return slope / steepness, (radius - self.rho) / steepness


class AbstractTurned(AbstractContact):
    """A pair whose second body turns about an axis. Its points have two components in a planar model, where the axis is z."""

    centre: eqx.AbstractVar[Float[Numbers, "*stack d"]]
    axis: eqx.AbstractVar[Float[Numbers, "*stack 3"] | None]
    flange_radius: eqx.AbstractVar[Float[Numbers, "*stack"] | None]
    half_width: eqx.AbstractVar[Float[Numbers, "*stack"]]

    @property
    def dimension(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.centre.shape[-1]

    def turns_about_z(self):
        return True

    def check(self, planar):
        if planar and self.flange_radius is not None:
            raise ValueError(f"{self.label}: flanges have no meaning in a planar model; leave flange_radius out.")
        if self.flange_radius is None and not is_traced(self.half_width) and np.any(np.asarray(self.half_width) > 0):
            raise ValueError(f"{self.label}: half_width says where flanges begin; give flange_radius [m] too, or leave it out.")

    def hub(self, b: Frame) -> _Hub:
        axis = jnp.array([0.0, 0.0, 1.0]) if self.axis is None else unit(self.axis)
        return _Hub(b.local_point(embed(self.centre)), b.local_direction(axis))

    def about(self, hub: _Hub, b: Frame, point: Array) -> _Cylinder:
        axis, offset = b.direction(hub.axis), point - b.point(hub.centre)
        if self.dimension == 2:
            radial, rho = direction(offset)
            return _Cylinder(axis, radial, rho, jnp.zeros(()))
        y = dot(axis, offset)
        radial, rho = direction(offset - y * axis)
        return _Cylinder(axis, radial, rho, y)

    def flange(self, y: Array) -> tuple[Array, Array | None]:
        """How far the surface rises at y [m], and its slope there; None: there are no flanges."""
        if self.flange_radius is None:
            return jnp.zeros(()), None
        beyond = jnp.where(jnp.abs(y) > self.half_width, jnp.abs(y) - self.half_width, 0.0)
        return 0.5 * beyond**2 / self.flange_radius, jnp.sign(y) * beyond / self.flange_radius


class PointPulley(AbstractTurned):
    """A point of body a on the rim of body b: a piece of a belt on its pulley, a wheel on a drum. Planar and spatial models.

    Points are given in the ground's frame at the initial configuration. Forces act at the point, so that its own body is not turned by friction;
    for a round piece give its centre and add its radius to the pulley's. In space the rim is a cylinder about `axis`, without end, or one with
    flanges: beyond `half_width` from the plane through `centre` it rises as a fillet of `flange_radius` does, by y^2 / (2 flange_radius), which
    guides the point back.
    """

    point: Float[Numbers, "*stack d"]
    """m, moves with a"""
    centre: Float[Numbers, "*stack d"]
    """m, of the pulley; moves with b"""
    radius: Float[Numbers, "*stack"]
    """m, of the pulley"""
    axis: Float[Numbers, "*stack 3"] | None
    """direction; None in a planar model"""
    flange_radius: Float[Numbers, "*stack"] | None
    """m; None: no flanges"""
    half_width: Float[Numbers, "*stack"]
    """m"""
    point_like: ClassVar[tuple[int, ...]] = (0,)
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "radius": positive("m"), **_FLANGED}

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        point: Any,
        centre: Any,
        radius: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        axis: Any = None,
        flange_radius: Any = None,
        half_width: Any = 0.0,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {
            "point": point,
            "centre": centre,
            "radius": radius,
            "axis": axis,
            "flange_radius": flange_radius,
            "half_width": half_width,
        }
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes)

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        return a.local_point(embed(self.point)), self.hub(b)

    def touch(self, local, frames):
        (a, b), (own, hub) = frames, local
        point = a.point(own)
        place = self.about(hub, b, point)
        rise, along = self.flange(place.y)
        normal, depth = place.spot(self.radius + rise, None, along)
        return self.touch_at(frames, point, normal, depth, a.velocity_at(point) - b.velocity_at(point))


class PinSprocket(AbstractTurned):
    """A pin of body a, a point or the middle of a line along the axis, in the teeth of body b. Planar and spatial models.

    The profile is the locus that the pin's CENTRE may not enter, so the pin's own radius is in it already:

        r_c(alpha) = radius + height (1 - cos(teeth alpha)) / 2

    alpha about `axis` from `gap`, a point of the ground's frame in whose direction there is a gap of the teeth at the start. It is smooth and
    periodic: no tooth has to be chosen. The flanks are steepest, height teeth / (2 radius), half way up. Forces act at the pin's centre: a bush
    that turns freely on its pin passes on no moment. Flanges in space as of `PointPulley`.
    """

    pin: Float[Numbers, "*stack d"]
    """m, moves with a"""
    centre: Float[Numbers, "*stack d"]
    """m, of the sprocket; moves with b"""
    radius: Float[Numbers, "*stack"]
    """m, of a pin's centre in a gap, as a rule the pitch radius"""
    height: Float[Numbers, "*stack"]
    """m, of the tips above that"""
    teeth: Float[Numbers, "*stack"]
    gap: Float[Numbers, "*stack d"]
    """m"""
    axis: Float[Numbers, "*stack 3"] | None
    """direction; None in a planar model"""
    flange_radius: Float[Numbers, "*stack"] | None
    """m; None: no flanges"""
    half_width: Float[Numbers, "*stack"]
    """m"""
    point_like: ClassVar[tuple[int, ...]] = (0,)
    parameters: ClassVar[dict[str, Parameter]] = {
        "pin": vector("m"),
        "radius": positive("m"),
        "height": positive("m"),
        "teeth": Parameter("1", valid=lambda n: (n >= 1) & (n == np.round(n)), requirement="must be a whole number, at least 1"),
        "gap": vector("m"),
        **_FLANGED,
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        pin: Any,
        centre: Any,
        radius: Any,
        height: Any,
        teeth: Any,
        gap: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        axis: Any = None,
        flange_radius: Any = None,
        half_width: Any = 0.0,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"pin": pin, "centre": centre, "radius": radius, "height": height, "teeth": teeth, "gap": gap}
        flanges = {"axis": axis, "flange_radius": flange_radius, "half_width": half_width}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes, **flanges)

    def check(self, planar):
        super().check(planar)
        if not is_traced(self.gap, self.centre) and np.allclose(self.gap, self.centre):
            raise ValueError(f"{self.label}: gap must be a point beside the centre, in whose direction there is a gap between two teeth.")

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        hub, gap = self.hub(b), b.local_point(embed(self.gap))
        toward = gap - hub.centre
        toward = toward - dot(toward, hub.axis) * hub.axis
        return a.local_point(embed(self.pin)), hub, unit(toward)

    def touch(self, local, frames):
        (a, b), (own, hub, gap) = frames, local
        point = a.point(own)
        place = self.about(hub, b, point)
        toward = b.direction(gap)
        cosine, sine = dot(place.radial, toward), dot(place.radial, cross(place.axis, toward))
        nowhere = place.rho <= 0  # on the axis there is no angle, but finite derivatives
        turn = self.teeth * jnp.arctan2(jnp.where(nowhere, 0.0, sine), jnp.where(nowhere, 1.0, cosine))
        rise, along = self.flange(place.y)
        around = over(0.5 * self.height * self.teeth * jnp.sin(turn), place.rho)
        normal, depth = place.spot(self.radius + 0.5 * self.height * (1.0 - jnp.cos(turn)) + rise, around, along)
        return self.touch_at(frames, point, normal, depth, a.velocity_at(point) - b.velocity_at(point))


class BarWheel(AbstractTurned):
    """A straight bar of body a, finite, and a wheel of body b: a rail of a crawler shoe under its rollers. Planar and spatial models.

    The bar is the line from `end1` to `end2`, without thickness; forces act at its nearest point to the wheel's axis. Beyond an end that point
    stays at the end, where the depth and its slope go on without a jump: bars in a row pass a wheel on to each other. In space the wheel is a
    cylinder about `axis`, or one with flanges as of `PointPulley`. The wheel may be on any side of the bar.
    """

    end1: Float[Numbers, "*stack d"]
    """m, moves with a"""
    end2: Float[Numbers, "*stack d"]
    """m, moves with a"""
    centre: Float[Numbers, "*stack d"]
    """m, of the wheel; moves with b"""
    radius: Float[Numbers, "*stack"]
    """m, of the wheel"""
    axis: Float[Numbers, "*stack 3"] | None
    """direction; None in a planar model"""
    flange_radius: Float[Numbers, "*stack"] | None
    """m; None: no flanges"""
    half_width: Float[Numbers, "*stack"]
    """m"""
    parameters: ClassVar[dict[str, Parameter]] = {"end1": vector("m"), "end2": vector("m"), "radius": positive("m"), **_FLANGED}

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        end1: Any,
        end2: Any,
        centre: Any,
        radius: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        axis: Any = None,
        flange_radius: Any = None,
        half_width: Any = 0.0,
        stiff: bool = False,
        allow_overlap: bool = False,
    ):
        shapes = {"end1": end1, "end2": end2, "centre": centre, "radius": radius}
        flanges = {"axis": axis, "flange_radius": flange_radius, "half_width": half_width}
        self.read_pair(name, a, b, law, friction, stiff, allow_overlap, **shapes, **flanges)

    def check(self, planar):
        super().check(planar)
        if not is_traced(self.end1, self.end2) and np.array_equal(self.end1, self.end2):
            raise ValueError(f"{self.label}: end1 and end2 are the same point; for a point use a PointPulley.")

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        return a.local_point(embed(self.end1)), a.local_point(embed(self.end2)), self.hub(b)

    def touch(self, local, frames):
        (a, b), (end1, end2, hub) = frames, local
        first, bar = a.point(end1), a.direction(end2 - end1)
        axis = b.direction(hub.axis)
        across = bar - dot(axis, bar) * axis  # what of the bar is seen along the axis
        square = dot(across, across)
        parallel = square <= 0  # a bar along the axis is as near everywhere
        share = jnp.where(parallel, 0.5, dot(across, b.point(hub.centre) - first) / jnp.where(parallel, 1.0, square))
        inside = (share > 0.0) & (share < 1.0)
        point = first + jnp.where(share > 1.0, 1.0, jnp.where(share < 0.0, 0.0, share)) * bar
        place = self.about(hub, b, point)
        rise, along = self.flange(place.y)
        normal, depth = place.spot(self.radius + rise, None, along)
        # Inside, the spot keeps to the foot of the perpendicular, which turns with the bar; an end is a point of a.
        turning = cross(a.angular_velocity - b.angular_velocity, place.rho * place.radial)
        travel = jnp.where(inside, turning, a.velocity_at(point) - b.velocity_at(point))
        return self.touch_at(frames, point, normal, depth, travel)
