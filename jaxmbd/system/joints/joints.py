"""Joints between two bodies: what they stop is a row of Phi(q, t) = 0.

In a planar model the same joints keep only the rows that have a meaning there (`planar_rows`). The rows of a joint are lengths or
cosines of right angles; `row_lengths` says which.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..elements import AbstractElement, Axis
from ..frames import Frame, embed
from ..observable import ANGLE, CARDAN, IN_PLANE, JOINT, TRAVEL, Observable
from ..parameters import Parameter, following, nonzero_vector, not_negative, positive, read_fields, vector
from ..rotations import cross, fused_dot


class Penalty(eqx.Module):
    """Holds a joint by a stiff spring and damper on each of its rows instead of a multiplier: a force of family B.

    Rows that are lengths use stiffness [N/m] and damping [N s/m], rows that are angles rotational_stiffness [N m/rad] and
    rotational_damping [N m s/rad], by default the same numbers, also after those were set anew. Reactions follow from the deflection:
    their relative error is that of the deflection, far larger than that of positions.
    """

    stiffness: Float[Array, ""]
    damping: Float[Array, ""]
    rotational_stiffness: Float[Array, ""] | None
    """None: the number of `stiffness`"""
    rotational_damping: Float[Array, ""] | None
    """None: the number of `damping`"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "stiffness": positive("N/m"),
        "damping": not_negative("N s/m"),
        "rotational_stiffness": following("stiffness", positive("N m/rad")),
        "rotational_damping": following("damping", not_negative("N m s/rad")),
    }

    def __init__(self, stiffness: Any, damping: Any, rotational_stiffness: Any = None, rotational_damping: Any = None):
        read_fields(
            self,
            "a joint's penalty",
            self.parameters,
            stiffness=stiffness,
            damping=damping,
            rotational_stiffness=rotational_stiffness,
            rotational_damping=rotational_damping,
        )

    def coefficients(self, length: bool) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """(stiffness, damping) of a row that is a length, or of one that is an angle."""
        stiffness = self.stiffness if length or self.rotational_stiffness is None else self.rotational_stiffness
        damping = self.damping if length or self.rotational_damping is None else self.rotational_damping
        return stiffness, damping


class AbstractJoint(AbstractElement):
    """A joint. `rows` must be zero at the initial configuration unless a length or a function of time says otherwise."""

    penalty: eqx.AbstractVar[Penalty | None]
    row_lengths: eqx.AbstractClassVar[tuple[bool, ...]]
    planar_rows: eqx.AbstractClassVar[tuple[int, ...] | None]
    """Which rows remain in a planar model; None: the joint has no planar meaning."""

    kind: ClassVar[str] = "joint"
    driven: ClassVar[bool] = False
    """Whether rows depend on time, so that the joint works."""
    observables: ClassVar[dict[str, Observable]] = JOINT

    def _read(self, name: str, bodies: tuple[Any, ...], penalty: Penalty | None, **values: Any) -> None:
        self._read_element(name, bodies, **values)
        if not (penalty is None or isinstance(penalty, Penalty)):
            raise ValueError(f"{self.label}: penalty must be an mbd.Penalty, got {penalty!r}.")
        self.penalty = penalty

    def lengths(self) -> tuple[bool, ...]:
        """Which rows are lengths; the others are cosines or angles."""
        return self.row_lengths

    def rows(self, local: Any, frames: tuple[Frame, ...], angles: Array, t: Array) -> Array:
        """What the joint keeps at zero. `angles` are those of `wrapped_angles`, followed over full turns."""
        raise NotImplementedError

    def separation(self, local: Any, a: Frame, b: Frame) -> Float[Array, "3"]:
        """From the point on a to the point on b: zero with a multiplier, in whatever axes. A penalty leaves some, and its damper sees it in
        the axes of a: in the ground's it would brake bodies that turn as one, by a torque that comes from nowhere."""
        offset = b.point(local.point_b) - a.point(local.point_a)
        return offset if self.penalty is None else a.local_direction(offset)

    def reference_point(self, local: Any, frames: tuple[Frame, ...]) -> Float[Array, "3"]:
        """The point of space about which the reaction torque on the last body counts."""
        return frames[1].point(local.point_b)


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
    point: Float[Array, "d"]
    """m, ground frame, initial configuration"""
    axis: Float[Array, "d"]
    """direction, ground frame, initial configuration; a planar model needs none where only z is meant"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "axis": nonzero_vector()}

    def __init__(self, name: str, a: Any, b: Any, point: Any, axis: Any = None, *, penalty: Penalty | None = None):
        self._read(name, (a, b), penalty, point=point, axis=axis)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], embed(self.point), embed(self.axis))


class Revolute(AbstractAxisJoint):
    """Leaves the rotation about the axis. Planar: the point is shared."""

    observables: ClassVar[dict[str, Observable]] = ANGLE
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True, False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0, 1)
    __init__ = AbstractAxisJoint.__init__

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
    axis: Float[Array, "d"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"axis": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = (False, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = None

    def __init__(self, name: str, a: Any, b: Any, axis: Any, *, penalty: Penalty | None = None):
        self._read(name, (a, b), penalty, axis=axis)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], frames[1].position, embed(self.axis))

    def rows(self, local, frames, angles, t):
        return _parallel_rows(local, *frames)


class Spherical(AbstractJoint):
    """The point is shared; all rotations are free."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Array, "d"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m")}
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0, 1)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, name: str, a: Any, b: Any, point: Any, *, penalty: Penalty | None = None):
        self._read(name, (a, b), penalty, point=point)

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
        self._read(name, (a, b), penalty)

    def local(self, frames):
        return Axis.between(frames[0], frames[1], frames[1].position, jnp.array([0.0, 0.0, 1.0]))

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([self.separation(local, *frames), _parallel_rows(local, *frames), _no_spin_row(local, *frames)])


class _TwoAxes(eqx.Module):
    point_a: Float[Array, "3"]
    point_b: Float[Array, "3"]
    axis1: Float[Array, "3"]
    """unit vector in a"""
    axis2: Float[Array, "3"]
    """unit vector in b"""
    axis2_in_a: Float[Array, "3"]
    """the same where it stood in a at the start"""
    axis1_in_b: Float[Array, "3"]

    @staticmethod
    def between(frames: tuple[Frame, ...], point: Array, axis1: Array, axis2: Array) -> "_TwoAxes":
        a, b = frames
        first, second = (u / jnp.sqrt(u @ u) for u in (embed(axis1), embed(axis2)))
        return _TwoAxes(
            a.local_point(point),
            b.local_point(point),
            a.local_direction(first),
            b.local_direction(second),
            a.local_direction(second),
            b.local_direction(first),
        )

    def cosine(self, frames: tuple[Frame, ...]) -> Array:
        a, b = frames
        return fused_dot(a.direction(self.axis1), b.direction(self.axis2))

    def angles(self, frames: tuple[Frame, ...]) -> tuple[Array, Array]:
        """Of the cross against a about the first axis, of b against the cross about the second: since the start, up to full turns."""
        a, b = frames
        seen_by_a = a.local_direction(b.direction(self.axis2))
        seen_by_b = b.local_direction(a.direction(self.axis1))
        return _turn(self.axis1, self.axis2_in_a, seen_by_a), -_turn(self.axis2, self.axis1_in_b, seen_by_b)

    def angle_rates(self, frames: tuple[Frame, ...]) -> tuple[Array, Array]:
        a, b = frames
        spin = b.angular_velocity - a.angular_velocity
        return fused_dot(a.direction(self.axis1), spin), fused_dot(b.direction(self.axis2), spin)


def _turn(axis: Array, start: Array, now: Array) -> Array:
    """The angle about an axis from a direction across it to another."""
    return jnp.arctan2(fused_dot(cross(axis, start), now), fused_dot(start, now))


class Universal(AbstractJoint):
    """Cardan joint: the point is shared, axis1 of a stays perpendicular to axis2 of b.

    `angle1` is that of the cross against a about axis1, `angle2` that of b against the cross about axis2.
    """

    observables: ClassVar[dict[str, Observable]] = CARDAN
    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Array, "3"]
    axis1: Float[Array, "3"]
    axis2: Float[Array, "3"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"point": vector("m"), "axis1": nonzero_vector(), "axis2": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = (True, True, True, False)
    planar_rows: ClassVar[tuple[int, ...] | None] = None

    def __init__(self, name: str, a: Any, b: Any, point: Any, axis1: Any, axis2: Any, *, penalty: Penalty | None = None):
        self._read(name, (a, b), penalty, point=point, axis1=axis1, axis2=axis2)

    def local(self, frames):
        return _TwoAxes.between(frames, embed(self.point), self.axis1, self.axis2)

    def rows(self, local, frames, angles, t):
        return jnp.concatenate([self.separation(local, *frames), local.cosine(frames)[None]])


class Perpendicular(AbstractJoint):
    """Keeps axis1 of a perpendicular to axis2 of b; points are free."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis1: Float[Array, "3"]
    axis2: Float[Array, "3"]
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {"axis1": nonzero_vector(), "axis2": nonzero_vector()}
    row_lengths: ClassVar[tuple[bool, ...]] = (False,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)

    def __init__(self, name: str, a: Any, b: Any, axis1: Any, axis2: Any, *, penalty: Penalty | None = None):
        self._read(name, (a, b), penalty, axis1=axis1, axis2=axis2)

    def local(self, frames):
        return _TwoAxes.between(frames, frames[1].position, self.axis1, self.axis2)

    def rows(self, local, frames, angles, t):
        return local.cosine(frames)[None]


class _Link(eqx.Module):
    point_a: Float[Array, "3"]
    point_b: Float[Array, "3"]
    length: Float[Array, ""]


class Distance(AbstractJoint):
    """A massless rod between point1 of a and point2 of b. Its length is the initial distance unless given."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point1: Float[Array, "d"]
    point2: Float[Array, "d"]
    length: Float[Array, ""] | None
    """m"""
    penalty: Penalty | None
    parameters: ClassVar[dict[str, Parameter]] = {
        "point1": vector("m"),
        "point2": vector("m"),
        "length": positive("m", "must be positive (points that coincide are a Spherical joint)")._replace(optional=True),
    }
    row_lengths: ClassVar[tuple[bool, ...]] = (True,)
    planar_rows: ClassVar[tuple[int, ...] | None] = (0,)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)

    def __init__(self, name: str, a: Any, b: Any, point1: Any, point2: Any, length: Any = None, *, penalty: Penalty | None = None):
        self._read(name, (a, b), penalty, point1=point1, point2=point2, length=length)

    def local(self, frames):
        p1, p2 = embed(self.point1), embed(self.point2)
        d = p2 - p1
        length = jnp.sqrt(d @ d) if self.length is None else self.length
        return _Link(frames[0].local_point(p1), frames[1].local_point(p2), length)

    def rows(self, local, frames, angles, t):
        a, b = frames
        d = b.point(local.point_b) - a.point(local.point_a)
        return 0.5 * (fused_dot(d, d) - local.length**2)[None] / local.length
