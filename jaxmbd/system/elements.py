"""What joints and forces have in common: a name, the bodies they act between, numbers in the user's frame.

An element's life has two stages. A person gives points and axes in the ground's frame at the initial configuration; these stay leaves, so
derivatives reach geometry. `local` carries them once, before the time loop, into the bodies' own frames; `rows` (joints) and `wrench`
(forces) then work on moving frames only.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._numbers import Numbers
from .bodies.base import AbstractBody, Attachment
from .frames import Frame
from .observable import Observable
from .parameters import Parameter, read_fields, read_name
from .rotations import cross, fused_dot, product, products, triad


class Ground(eqx.Module):
    """The frame that does not move."""

    name: str = eqx.field(static=True, default="ground")


ground = Ground()


class AbstractElement(eqx.Module):
    """A joint or a force between the bodies that `bodies` names."""

    name: eqx.AbstractVar[str]
    bodies: eqx.AbstractVar[tuple[str, ...]]
    parameters: eqx.AbstractClassVar[dict[str, Parameter]]
    angle_count: ClassVar[int] = 0
    """How many relative angles the element follows over full turns."""

    kind: ClassVar[str] = "element"
    point_like: ClassVar[tuple[int, ...]] = ()
    """Which of its bodies may be point masses, that have no orientation."""
    observables: ClassVar[dict[str, Observable]] = {}
    """What a run can be asked of it by name, besides what its parents list."""

    def read_element(self, name: str, bodies: tuple[Any, ...], **values: Any) -> None:
        """The part of a constructor that all elements share: names and checked numbers (None stays None)."""
        self.name = read_name(self.kind, name)
        self.bodies = tuple(body_name(self.label, body) for body in bodies)
        read_fields(self, self.label, self.parameters, **values)

    @property
    def label(self) -> str:
        """What messages call it, e.g. "joint 'hinge'"."""
        return f"{self.kind} {self.name!r}"

    def check(self, planar: bool) -> None:
        """Refuses, or warns of, points, axes and functions of a user that make no sense, alone or together."""

    def turns_about_z(self) -> bool:
        """Whether its axis is one of rotation: z in a planar model, where it need not be given."""
        return False

    def local(self, frames: tuple[Frame, ...]) -> Any:
        """Geometry in the bodies' own frames, from the frames at the initial configuration; () unless the element has some."""
        return ()

    def wrapped_angles(self, local: Any, frames: tuple[Frame, ...]) -> Float[Numbers, "angles"]:
        """The relative angles as far as the configuration tells them, i.e. up to full turns."""
        return jnp.zeros(0)


class BodyName(str):
    """The name of a body that remembers the body it was taken from, so that a model can tell whether it is its own."""

    body: AbstractBody

    def __new__(cls, body: AbstractBody | Attachment) -> "BodyName":
        name = super().__new__(cls, body.name)
        name.body = body.body if isinstance(body, Attachment) else body
        return name

    def __reduce__(self):
        return str, (str(self),)  # a copy of an element knows its bodies by name


def body_name(owner: str, body: Any) -> str:
    if isinstance(body, AbstractBody | Attachment):
        return BodyName(body)
    if isinstance(body, Ground):
        return body.name
    if isinstance(body, str):
        return body
    hint = " Of a beam, name a node: beam.start, beam.end, beam.nodes[3]." if hasattr(body, "nodes") else ""
    raise ValueError(f"{owner}: expected a body, mbd.ground or a body's name, got {body!r}.{hint}")


def unwrap(wrapped: Float[Numbers, "*n"], last: Float[Numbers, "*n"]) -> Float[Numbers, "*n"]:
    """The angle that equals `wrapped` up to full turns and lies within half a turn of the last accepted one."""
    turns = jnp.round((last - wrapped) / (2 * jnp.pi))
    return wrapped + 2 * jnp.pi * jax.lax.stop_gradient(turns)


def filled_in(axis: Numbers | None) -> Numbers:
    """An axis that may be left out where only z is meant: the model that is built knows it."""
    assert axis is not None
    return axis


class Axis(eqx.Module):
    """An axis fixed in body a and, coinciding at the start, in body b: what angle and travel are measured with."""

    point_a: Float[Numbers, "*stack 3"]
    point_b: Float[Numbers, "*stack 3"]
    triad_a: Float[Numbers, "*stack 3 3"]
    """rows: unit vectors in a, the first along the axis"""
    triad_b: Float[Numbers, "*stack 3 3"]
    """the same in b, with which they coincide at the start"""

    @staticmethod
    def between(a: Frame, b: Frame, point: Float[Numbers, "3"], axis: Float[Numbers, "3"]) -> "Axis":
        directions = triad(axis)
        return Axis(
            a.local_point(point),
            b.local_point(point),
            jnp.stack([a.local_direction(u) for u in directions]),
            jnp.stack([b.local_direction(u) for u in directions]),
        )

    def direction(self, a: Frame) -> Float[Numbers, "3"]:
        """The axis in the ground's axes."""
        return a.direction(self.triad_a[0])

    def cosines(self, a: Frame, b: Frame) -> Float[Numbers, "3 3"]:
        """Of the angles between the unit vectors of a (rows) and those of b (columns): the identity at the start."""
        return products(a.directions(self.triad_a), b.directions(self.triad_b))

    def angle(self, a: Frame, b: Frame) -> Float[Numbers, ""]:
        """Rotation of b against a about the axis since the start, up to full turns."""
        _, cosine, sine = product(a.directions(self.triad_a), b.direction(self.triad_b[1]))
        lost = sine**2 + cosine**2 < 1e-20  # b's second vector points along the axis: there is no angle, and no derivative
        return jnp.arctan2(jnp.where(lost, 0.0, sine), jnp.where(lost, 1.0, cosine))

    def angle_rate(self, a: Frame, b: Frame) -> Float[Numbers, ""]:
        return fused_dot(self.direction(a), b.angular_velocity - a.angular_velocity)

    def offset(self, a: Frame, b: Frame) -> Float[Numbers, "3"]:
        """From the point on a to the point on b, in the ground's axes."""
        return b.point(self.point_b) - a.point(self.point_a)

    def components(self, a: Frame, b: Frame) -> Float[Numbers, "3"]:
        """The offset along the unit vectors of a."""
        return product(a.directions(self.triad_a), self.offset(a, b))

    def component_rates(self, a: Frame, b: Frame) -> Float[Numbers, "3"]:
        """Their derivatives by time."""
        drift = b.point_velocity(self.point_b) - a.point_velocity(self.point_a)
        return product(a.directions(self.triad_a), drift - cross(a.angular_velocity, self.offset(a, b)))

    def travel(self, a: Frame, b: Frame) -> Float[Numbers, ""]:
        """Displacement of b against a along the axis since the start."""
        return fused_dot(self.direction(a), self.offset(a, b))
