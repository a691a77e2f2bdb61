"""Loads: forces and torques on a single body that a person prescribes, as constants or as functions of time and of the body."""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Number, Numbers
from ..checking import expect, shape_of
from ..frames import Frame, Wrench, embed, force_at, ground_frame
from ..parameters import Parameter, read, vector
from .base import AbstractForce


class AbstractLoad(AbstractForce):
    """A constant or a function of (t) or (frame, t) on one body."""

    value: eqx.AbstractVar[Any]
    body_axes: eqx.AbstractVar[bool]
    of_frame: eqx.AbstractVar[bool]

    def given(self, frame: Frame, t: Number) -> Array:
        """As the user writes it."""
        if not callable(self.value):
            return jnp.asarray(self.value, dtype=float)
        return jnp.asarray(self.value(frame, t) if self.of_frame else self.value(t), dtype=float)

    def _shape(self) -> tuple[int, ...]:
        return shape_of(self.label, self.given, ground_frame(), np.zeros(()))

    def _vector(self, frame: Frame, t: Number) -> Float[Array, "3"]:
        """In the ground's axes; a single number is a torque about z."""
        u = self.given(frame, t)
        u = jnp.concatenate([jnp.zeros(2), u.reshape(1)]) if u.shape in ((), (1,)) else embed(u)
        return frame.direction(u) if self.body_axes else u


class PointForce(AbstractLoad):
    """A force on one body at a point of it: a constant vector [N] or a function, in the ground's or the body's axes.

    A function is one of time, `function(t)`, or, if it asks for two arguments, of the body and time, `function(frame, t)`: `frame` is the
    body's `mbd.Frame`, with position [m], rotation, velocity [m/s] and angular_velocity [rad/s] of its centre of mass. It has three
    components in a planar model too, where a force may have two or three, the last without effect. Drag, a follower load, a controller are
    functions of the body:

        mbd.PointForce("drag", body, body.position, lambda frame, t: -0.3 * frame.velocity)

    A function may be an equinox Module: its array leaves are parameters then, named 'element.leaf'.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    """m, ground frame, initial configuration; moves with the body"""
    value: Any
    """N"""
    body_axes: bool = eqx.field(static=True)
    of_frame: bool = eqx.field(static=True)
    """whether it is a function of the body's frame and time"""
    stiff: bool = eqx.field(static=True)
    point_like: ClassVar[tuple[int, ...]] = (0,)
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "value": vector("N")}

    def __init__(self, name: str, body: Any, point: Any, value_or_function: Any, *, axes: str = "ground", stiff: bool = False):
        self.read_element(name, (body,), point=point)
        self.value, self.of_frame = _read_load(self.label, self.parameters["value"], value_or_function)
        self.body_axes, self.stiff = _read_axes(self.label, axes), stiff

    def check(self, planar):
        count = 2 if planar else 3
        allowed = ((2,), (3,)) if planar and self.of_frame else ((count,),)
        expect(self.label, "the force", self._shape(), f"a vector of {count} components", *allowed)

    def local(self, frames):
        return frames[0].local_point(embed(self.point))

    def wrench(self, local, frames, angles, t, x):
        (body,) = frames
        force = self._vector(body, t)
        return Wrench(force[None], force_at(body, body.point(local), force)[None])


class Torque(AbstractLoad):
    """A torque on one body: a constant vector [N m] (a number in a planar model) or a function of (t) or (frame, t), as of `PointForce`."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    value: Any
    """N m"""
    body_axes: bool = eqx.field(static=True)
    of_frame: bool = eqx.field(static=True)
    """whether it is a function of the body's frame and time"""
    stiff: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {"value": Parameter("N m", shapes=((), (3,)))}

    def __init__(self, name: str, body: Any, value_or_function: Any, *, axes: str = "ground", stiff: bool = False):
        self.read_element(name, (body,))
        self.value, self.of_frame = _read_load(self.label, self.parameters["value"], value_or_function)
        self.body_axes, self.stiff = _read_axes(self.label, axes), stiff

    def check(self, planar):
        if planar:
            expect(self.label, "the torque", self._shape(), "one number (about z)", (), (1,))
        else:
            expect(self.label, "the torque", self._shape(), "a vector of 3 components", (3,))

    def wrench(self, local, frames, angles, t, x):
        torque = self._vector(frames[0], t)
        return Wrench(jnp.zeros((1, 3)), torque[None])


def _read_load(owner: str, spec: Parameter, value: Any) -> tuple[Any, bool]:
    """(the value, whether it is a function of the body's frame and time)"""
    if not callable(value):
        return read(owner, "value", spec, value), False
    count = _required_arguments(value)
    if count > 2:
        raise ValueError(f"{owner}: its function must be one of (t) or of (frame, t), this one asks for {count} arguments.")
    return value, count == 2


def _required_arguments(function: Callable[..., Any]) -> int:
    """Those that are given by their place and have no default."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1  # a function of C has no signature: it was one of time
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in given)


def _read_axes(owner: str, axes: str) -> bool:
    if axes not in ("ground", "body"):
        raise ValueError(f"{owner}: axes must be 'ground' or 'body', got {axes!r}.")
    return axes == "body"
