"""Joints that tie coordinates to each other or to time: gears, rack and pinion, screw, motion.

They measure angles over full turns, which are no function of q: the state remembers the last accepted angle.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..checking import expect, shape_of, warn
from ..elements import Axis, filled_in, ground
from ..frames import Frame, embed
from ..observable import FOLLOWED_ANGLE, GEAR, RACK, TRAVEL, Observable, only
from ..parameters import Parameter, is_traced, nonzero_vector, scalar, vector
from .base import AbstractJoint, Penalty
from .one_axis import Cylindrical, cylinder_rows

_BEGINS = 1e-2
"""rad or m, by which a motion may begin beside the initial configuration."""


class Motion(AbstractJoint):
    """Drives one relative coordinate of b against a: coordinate(t) = function(t).

    `coordinate` is "angle" (rad, about the axis, over full turns) or "travel" (m, along the axis at the point); both count from the
    initial configuration. Phi_t and Phi_tt come from differentiating the function, which must be written with jax.numpy.
    In a planar model the axis of an angle is z and need not be given.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"] | None
    """m; only travel needs it"""
    axis: Float[Numbers, "*stack a"] | None
    function: Callable[[Array], Array]
    """of time [s]; a plain function, or a Module whose leaves are parameters"""
    coordinate: str = eqx.field(static=True)
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {
        "point": vector("m")._replace(optional=True),
        "axis": nonzero_vector(),
    }
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    angle_count: ClassVar[int] = 1
    driven: ClassVar[bool] = True
    observables: ClassVar[dict[str, Observable]] = {
        **only(FOLLOWED_ANGLE, lambda motion: motion.coordinate == "angle"),
        **only(TRAVEL, lambda motion: motion.coordinate == "travel"),
    }
    row_lengths: ClassVar[tuple[bool, ...]] = (False,)

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        point: Any = None,
        axis: Any = None,
        function: Callable[[Array], Array] | None = None,
        *,
        coordinate: str = "angle",
        penalty: Penalty | None = None,
    ):
        owner = f"joint {name!r}"
        if not callable(function):
            raise ValueError(f"{owner}: give function=..., a function of time [s], got {function!r}.")
        self.read_joint(name, (a, b), penalty, point=point, axis=axis)
        self.function, self.coordinate = function, coordinate
        self._check_coordinate()

    def are_lengths(self):
        return (self.coordinate == "travel",)

    def _check_coordinate(self) -> None:
        if self.coordinate not in ("angle", "travel"):
            raise ValueError(f"{self.label}: coordinate must be 'angle' or 'travel', got {self.coordinate!r}.")

    def check(self, planar):
        self._check_coordinate()
        expect(self.label, "function(t)", shape_of(self.label, self.function, np.zeros(())), "one number", (), (1,))
        self._check_beginning()

    def _check_beginning(self) -> None:
        begin = self.function(jnp.zeros(()))
        if not is_traced(begin) and abs(value := float(np.reshape(begin, ()))) > _BEGINS:
            unit = "m" if self.coordinate == "travel" else "rad"
            warn(
                f"{self.label}: its function is {value:.6g} {unit} at t = 0, but its coordinate counts from the initial configuration and "
                f"is zero there; {self.misfit()}. Place the bodies where the motion begins, or subtract function(0)."
            )

    def turns_about_z(self):
        return self.coordinate != "travel"

    def local(self, frames):
        point = frames[1].position if self.point is None else embed(self.point)
        return Axis.between(frames[0], frames[1], point, embed(filled_in(self.axis)))

    def wrapped_angles(self, local, frames):
        return local.angle(*frames)[None]

    def rows(self, local, frames, angles, t):
        if self.coordinate == "travel":
            return jnp.reshape(local.travel(*frames) - self.function(t), (1,))
        # Full turns are taken from the target: added to the angle they would round it, the more the further it has turned, and a stiff
        # penalty would multiply that, differently in every iteration.
        wrapped = local.angle(*frames)
        turns = jnp.round(jax.lax.stop_gradient(angles[0] - wrapped) / (2 * jnp.pi))
        return jnp.reshape(wrapped - (self.function(t) - 2 * jnp.pi * turns), (1,))


class _Pair(eqx.Module):
    first: Axis
    second: Axis
    point_b: Float[Numbers, "*stack 3"]
    """reference of the reaction torque, in the second body"""


def _carried_axes(frames: tuple[Frame, ...], axis_a: Array, axis_b: Array) -> _Pair:
    """The axes of two bodies, both measured against a third that carries them."""
    a, b, carrier = frames
    first = Axis.between(carrier, a, a.position, embed(axis_a))
    second = Axis.between(carrier, b, b.position, embed(axis_b))
    return _Pair(first, second, second.point_b)


class Gear(AbstractJoint):
    """Couples two rotations: angle of b = ratio * angle of a, each about its own axis against the carrier (the ground unless given).

    Two external spur gears of radii r_a, r_b have ratio -r_a / r_b. The bodies' bearings are joints of their own.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis_a: Float[Numbers, "*stack a"] | None
    axis_b: Float[Numbers, "*stack b"] | None
    ratio: Float[Numbers, "*stack"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"axis_a": nonzero_vector(), "axis_b": nonzero_vector(), "ratio": scalar("1")}
    row_lengths: ClassVar[tuple[bool, ...]] = (False,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    angle_count: ClassVar[int] = 2
    observables: ClassVar[dict[str, Observable]] = GEAR

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        axis_a: Any = None,
        axis_b: Any = None,
        ratio: Any = 1.0,
        *,
        carrier: Any = ground,
        penalty: Penalty | None = None,
    ):
        self.read_joint(name, (a, b, carrier), penalty, axis_a=axis_a, axis_b=axis_b, ratio=ratio)

    def turns_about_z(self):
        return True

    def local(self, frames):
        return _carried_axes(frames, filled_in(self.axis_a), filled_in(self.axis_b))

    def wrapped_angles(self, local, frames):
        a, b, carrier = frames
        return jnp.stack([local.first.angle(carrier, a), local.second.angle(carrier, b)])

    def rows(self, local, frames, angles, t):
        return (angles[1] - self.ratio * angles[0])[None]


class RackAndPinion(AbstractJoint):
    """Couples a rotation to a displacement: travel of the rack b along `direction` = radius * angle of the pinion a about `axis`.

    Both against the carrier (the ground unless given). The sign of the rolling is that of the radius.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis: Float[Numbers, "*stack a"] | None
    direction: Float[Numbers, "*stack d"]
    radius: Float[Numbers, "*stack"]
    """m"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"axis": nonzero_vector(), "direction": nonzero_vector(), "radius": scalar("m")}
    row_lengths: ClassVar[tuple[bool, ...]] = (True,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    angle_count: ClassVar[int] = 1
    observables: ClassVar[dict[str, Observable]] = RACK

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        axis: Any = None,
        direction: Any = None,
        radius: Any = None,
        *,
        carrier: Any = ground,
        penalty: Penalty | None = None,
    ):
        owner = f"joint {name!r}"
        if direction is None or radius is None:
            raise ValueError(f"{owner}: give the rack's direction and the pinion's radius [m].")
        self.read_joint(name, (a, b, carrier), penalty, axis=axis, direction=direction, radius=radius)

    def turns_about_z(self):
        return True

    def local(self, frames):
        return _carried_axes(frames, filled_in(self.axis), self.direction)

    def wrapped_angles(self, local, frames):
        a, _, carrier = frames
        return local.first.angle(carrier, a)[None]

    def rows(self, local, frames, angles, t):
        _, b, carrier = frames
        return (local.second.travel(carrier, b) - self.radius * angles[0])[None]


class Screw(AbstractJoint):
    """A nut on a thread: b moves along the axis by `pitch` metres a full turn."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack 3"]
    axis: Float[Numbers, "*stack 3"]
    pitch: Float[Numbers, "*stack"]
    """m a turn"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "axis": nonzero_vector(), "pitch": scalar("m")}
    row_lengths: ClassVar[tuple[bool, ...]] = (*Cylindrical.row_lengths, True)
    planar_rows: ClassVar[tuple[int, ...] | None] = None
    angle_count: ClassVar[int] = 1
    observables: ClassVar[dict[str, Observable]] = FOLLOWED_ANGLE | TRAVEL

    def __init__(self, name: str, a: Any, b: Any, point: Any, axis: Any, pitch: Any, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, point=point, axis=axis, pitch=pitch)

    def check(self, planar):
        if not is_traced(self.pitch) and self.pitch == 0:
            raise ValueError(f"{self.label} has zero pitch: use a Revolute joint.")

    def local(self, frames):
        return Axis.between(frames[0], frames[1], embed(self.point), embed(self.axis))

    def wrapped_angles(self, local, frames):
        return local.angle(*frames)[None]

    def rows(self, local, frames, angles, t):
        held = cylinder_rows(local, *frames)
        thread = local.travel(*frames) - self.pitch * angles[0] / (2 * jnp.pi)
        return jnp.concatenate([held, thread[None]])
