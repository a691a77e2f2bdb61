"""Joints that are described by a point and an axis, or by one of them."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..elements import Axis, filled_in
from ..frames import Frame, embed
from ..observable import ANGLE, IN_PLANE, TRAVEL, Observable
from ..parameters import Parameter, nonzero_vector, vector
from .base import AbstractJoint, Penalty


def _parallel_rows(local: Axis, a: Frame, b: Frame) -> Float[Array, "2"]:
    """Zero when the axes of a and b are parallel."""
    return local.cosines(a, b)[0, 1:]


def _no_spin_row(local: Axis, a: Frame, b: Frame) -> Float[Array, "1"]:
    """Zero when b does not turn against a about the axis."""
    return local.cosines(a, b)[1, 2:]


def cylinder_rows(local: Axis, a: Frame, b: Frame) -> Float[Array, "4"]:
    """Zero when b's axis lies on a's."""
    return jnp.concatenate([local.components(a, b)[1:], _parallel_rows(local, a, b)])


class AbstractAxisJoint(AbstractJoint):
    """A joint that is described by a point and an axis: `Kind(name, a, b, point, axis)`.

    Children name this constructor as their own: type checkers would otherwise make one up from the fields.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    """m, ground frame, initial configuration"""
    axis: Float[Numbers, "*stack a"] | None
    """direction, ground frame, initial configuration; a planar model needs none where only z is meant"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "axis": nonzero_vector()}

    def __init__(self, name: str, a: Any, b: Any, point: Any, axis: Any = None, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, point=point, axis=axis)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], embed(self.point), embed(filled_in(self.axis)))


class Revolute(AbstractAxisJoint):
    """Leaves the rotation about the axis. Planar: the point is shared."""

    observables: ClassVar[dict[str, Observable]] = ANGLE
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True, False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0, 1)
    __init__ = AbstractAxisJoint.__init__

    def turns_about_z(self):
        return True

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([self.separation(local, *frames), _parallel_rows(local, *frames)])


class Cylindrical(AbstractAxisJoint):
    """Leaves rotation about and displacement along the axis."""

    observables: ClassVar[dict[str, Observable]] = ANGLE | TRAVEL
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = None
    __init__ = AbstractAxisJoint.__init__

    def rows(self, local, frames, angles, t):
        return cylinder_rows(local, *frames)


class Translational(AbstractAxisJoint):
    """Leaves the displacement along the axis."""

    observables: ClassVar[dict[str, Observable]] = TRAVEL
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, False, False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0, 2)
    __init__ = AbstractAxisJoint.__init__

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([cylinder_rows(local, *frames), _no_spin_row(local, *frames)])


class Planar(AbstractAxisJoint):
    """Leaves displacement in the plane through the point with the axis as its normal, and rotation about the axis."""

    observables: ClassVar[dict[str, Observable]] = ANGLE | IN_PLANE
    row_lengths: ClassVar[tuple[bool, ...]] = (True, False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = None
    __init__ = AbstractAxisJoint.__init__

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([local.travel(*frames)[None], _parallel_rows(local, *frames)])


class Inline(AbstractAxisJoint):
    """The point of b stays on the line that is fixed in a; b turns freely."""

    observables: ClassVar[dict[str, Observable]] = TRAVEL
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    point_like: ClassVar[tuple[int, ...]] = (1,)
    __init__ = AbstractAxisJoint.__init__

    def rows(self, local, frames, angles, t):
        return local.components(*frames)[1:]


class Inplane(AbstractAxisJoint):
    """The point of b stays in the plane of a whose normal is the axis; b turns freely."""

    row_lengths: ClassVar[tuple[bool, ...]] = (True,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    point_like: ClassVar[tuple[int, ...]] = (1,)
    __init__ = AbstractAxisJoint.__init__

    def rows(self, local, frames, angles, t):
        return local.travel(*frames)[None]


class Parallel(AbstractJoint):
    """Keeps the axis of b parallel to that of a; points are free."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis: Float[Numbers, "*stack a"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"axis": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = (False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = None

    def __init__(self, name: str, a: Any, b: Any, axis: Any, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, axis=axis)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], frames[1].position, embed(self.axis))

    def rows(self, local, frames, angles, t):
        return _parallel_rows(local, *frames)


class Spherical(AbstractJoint):
    """The point is shared; all rotations are free."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m")}
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0, 1)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, name: str, a: Any, b: Any, point: Any, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty, point=point)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], embed(self.point), jnp.array([0.0, 0.0, 1.0]))

    def rows(self, local, frames, angles, t):
        return self.separation(local, *frames)


class Fixed(AbstractJoint):
    """Welds b to a."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {}
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True, False, False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0, 1, 5)

    def __init__(self, name: str, a: Any, b: Any, *, penalty: Penalty | None = None):
        self.read_joint(name, (a, b), penalty)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], frames[1].position, jnp.array([0.0, 0.0, 1.0]))

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([self.separation(local, *frames), _parallel_rows(local, *frames), _no_spin_row(local, *frames)])
