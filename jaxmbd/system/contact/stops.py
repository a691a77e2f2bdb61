"""Stops of joints, and springs along a slide."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..elements import Axis, filled_in
from ..forces.base import AbstractForce
from ..frames import Frame, Wrench, embed, pair_wrench
from ..observable import FOLLOWED_ANGLE, TRAVEL, Observable, only
from ..parameters import Order, Parameter, nonzero_vector, not_negative, scalar, vector
from .laws import AbstractContactLaw


class JointStop(AbstractForce):
    """Keeps the angle (rad) or the travel (m) of b against a above `lower` and below `upper`, by a law of contact that pushes beyond them and
    never pulls.

    Both count from the initial configuration, angles over full turns; a limit that is left out is none. The law is one of contact,
    `mbd.LinearContact(stiffness, damping)`, its depth in rad or m: its force, in N m or N, is zero at the limit and has finite derivatives
    there. A joint must keep the axis common to both bodies.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    """m, ground frame, initial configuration"""
    axis: Float[Numbers, "*stack a"] | None
    lower: Float[Numbers, "*stack"] | None
    upper: Float[Numbers, "*stack"] | None
    law: AbstractContactLaw
    coordinate: str = eqx.field(static=True)
    stiff: bool = eqx.field(static=True)
    angle_count: ClassVar[int] = 1
    has_switches: ClassVar[bool] = True
    parameters: ClassVar[dict[str, Parameter]] = {
        "point": vector("m"),
        "axis": nonzero_vector(),
        "lower": scalar("rad or m")._replace(optional=True),
        "upper": scalar("rad or m")._replace(optional=True),
    }
    orders: ClassVar[tuple[Order, ...]] = (Order("lower", "upper", "there must be room between the stops"),)
    observables: ClassVar[dict[str, Observable]] = {
        **only(FOLLOWED_ANGLE, lambda stop: stop.coordinate == "angle"),
        **only(TRAVEL, lambda stop: stop.coordinate == "travel"),
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        point: Any,
        axis: Any = None,
        lower: Any = None,
        upper: Any = None,
        law: Any = None,
        *,
        coordinate: str = "angle",
        stiff: bool = False,
    ):
        self.read_element(name, (a, b), point=point, axis=axis, lower=lower, upper=upper)
        if not isinstance(law, AbstractContactLaw):
            raise ValueError(f"{self.label}: law must be a contact law such as mbd.LinearContact(stiffness, damping), got {law!r}.")
        self.law, self.coordinate, self.stiff = law, coordinate, stiff
        self._check_coordinate()

    def check(self, planar):
        self._check_coordinate()

    def _check_coordinate(self) -> None:
        if self.coordinate not in ("angle", "travel"):
            raise ValueError(f"{self.label}: coordinate must be 'angle' or 'travel', got {self.coordinate!r}.")

    def turns_about_z(self):
        return self.coordinate == "angle"

    def local(self, frames):
        return Axis.between(frames[0], frames[1], embed(self.point), embed(filled_in(self.axis)))

    def wrapped_angles(self, local, frames):
        return local.angle(*frames)[None]

    def _depths(self, value: Array) -> list[tuple[float, Array]]:
        """(sign of the push, depth) of each stop"""
        found = [] if self.lower is None else [(1.0, self.lower - value)]
        return found if self.upper is None else [*found, (-1.0, value - self.upper)]

    def _value(self, local: Axis, frames: tuple[Frame, ...], angles: Array) -> Array:
        return angles[0] if self.coordinate == "angle" else local.travel(*frames)

    def _rate(self, local: Axis, frames: tuple[Frame, ...]) -> Array:
        return local.angle_rate(*frames) if self.coordinate == "angle" else local.component_rates(*frames)[0]

    def switches(self, local: Axis, frames: tuple[Frame, ...], angles: Array) -> Float[Array, "n"]:
        """Of the law, at both limits."""
        rate, depths = self._rate(local, frames), self._depths(self._value(local, frames, angles))
        return jnp.concatenate([jnp.zeros(0), *(self.law.switches(depth, -sign * rate) for sign, depth in depths)])

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        turns, rate = self.coordinate == "angle", self._rate(local, frames)
        push = sum(
            (sign * self.law.force(depth, -sign * rate) for sign, depth in self._depths(self._value(local, frames, angles))), jnp.zeros(())
        )
        return _along(local, a, b, push, turns)

    def potential(self, local, frames, angles):
        return sum((self.law.energy(depth) for _, depth in self._depths(self._value(local, frames, angles))), jnp.zeros(()))


def _along(local: Axis, a: Frame, b: Frame, push: Array, turns: bool) -> Wrench:
    """A force or torque on b along the axis of a, and its opposite on a."""
    load, none = push * local.direction(a), jnp.zeros(3)
    return pair_wrench(a, b, b.position, none, load) if turns else pair_wrench(a, b, b.point(local.point_b), load, none)


class SlideSpringDamper(AbstractForce):
    """A spring and damper along an axis of a: the force on b is -(stiffness (travel - free_travel) + damping travel'), the travel of b against a
    counted from the initial configuration. What `TorsionSpringDamper` is for a hinge."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    """m, ground frame, initial configuration"""
    axis: Float[Numbers, "*stack d"]
    stiffness: Float[Numbers, "*stack"]
    """N/m"""
    damping: Float[Numbers, "*stack"]
    """N s/m"""
    free_travel: Float[Numbers, "*stack"]
    """m"""
    stiff: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {
        "point": vector("m"),
        "axis": nonzero_vector()._replace(optional=False),
        "stiffness": not_negative("N/m"),
        "damping": not_negative("N s/m"),
        "free_travel": scalar("m"),
    }
    observables: ClassVar[dict[str, Observable]] = TRAVEL

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        point: Any,
        axis: Any,
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        free_travel: Any = 0.0,
        *,
        stiff: bool = False,
    ):
        self.read_element(name, (a, b), point=point, axis=axis, stiffness=stiffness, damping=damping, free_travel=free_travel)
        self.stiff = stiff

    def local(self, frames):
        return Axis.between(frames[0], frames[1], embed(self.point), embed(self.axis))

    def wrench(self, local, frames, angles, t, x):
        resistance = self.stiffness * (local.travel(*frames) - self.free_travel) + self.damping * local.component_rates(*frames)[0]
        return _along(local, frames[0], frames[1], -resistance, turns=False)

    def potential(self, local, frames, angles):
        return 0.5 * self.stiffness * (local.travel(*frames) - self.free_travel) ** 2
