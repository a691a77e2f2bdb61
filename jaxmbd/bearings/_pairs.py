from typing import Any, ClassVar

import equinox as eqx

from ..system.contact import AbstractContact, direction, dot, spatial_touch
from ..system.parameters import positive
from ..system.spatial_contacts import DIRECTION, POINT


class SphereGroove(AbstractContact):
    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    radius: Any
    centre: Any
    axis: Any
    pitch_radius: Any
    groove_radius: Any
    law: Any
    friction: Any
    stiff: bool = eqx.field(static=True)
    allow_overlap: bool = eqx.field(static=True)
    dimension: ClassVar[int] = 3
    parameters: ClassVar = {
        "radius": positive("m"),
        "centre": POINT,
        "axis": DIRECTION,
        "pitch_radius": positive("m"),
        "groove_radius": positive("m"),
    }

    def __init__(self, name, a, b, radius, centre, axis, pitch_radius, groove_radius, law, friction=None):
        self._read_contact(
            name,
            (a, b),
            law,
            friction,
            False,
            False,
            radius=radius,
            centre=centre,
            axis=axis,
            pitch_radius=pitch_radius,
            groove_radius=groove_radius,
        )

    def size(self):
        return self.radius

    def local(self, frames):
        a, b = frames
        return (b.local_point(self.centre), b.local_direction(self.axis))

    def touch(self, local, frames):
        a, b = frames
        o, k = b.point(local[0]), b.direction(local[1])
        c = a.position - o
        e, _ = direction(c - dot(c, k) * k)
        w, dist = direction(c - self.pitch_radius * e)
        return spatial_touch(
            self.friction,
            frames,
            a.position + self.radius * w,
            -w,
            dist + self.radius - self.groove_radius,
            a.velocity - b.velocity_at(a.position),
        )


class SpherePocket(AbstractContact):
    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    radius: Any
    point: Any
    pocket_radius: Any
    law: Any
    friction: Any
    stiff: bool = eqx.field(static=True)
    allow_overlap: bool = eqx.field(static=True)
    dimension: ClassVar[int] = 3
    parameters: ClassVar = {"radius": positive("m"), "point": POINT, "pocket_radius": positive("m")}

    def __init__(self, name, a, b, radius, point, pocket_radius, law, friction=None):
        self._read_contact(name, (a, b), law, friction, False, False, radius=radius, point=point, pocket_radius=pocket_radius)

    def size(self):
        return self.radius

    def local(self, frames):
        return frames[1].local_point(self.point)

    def touch(self, local, frames):
        a, b = frames
        w, dist = direction(a.position - b.point(local))
        return spatial_touch(
            self.friction,
            frames,
            a.position + self.radius * w,
            -w,
            dist + self.radius - self.pocket_radius,
            a.velocity - b.velocity_at(a.position),
        )
