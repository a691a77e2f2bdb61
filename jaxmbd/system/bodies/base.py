"""What all bodies have in common.

A body is a small Module whose leaves are its physical numbers. The same class, with its leaves stacked along a first axis, is what the
system evaluates by vmap. Coordinates q and rates v = q' of one body:

    PointMass    (x, y) or (x, y, z)
    PlanarBody   (x, y, angle)
    RigidBody    (x, y, z, e0, e1, e2, e3), with the row (e.e - 1) / 2 = 0 among the constraints
    ModalBody    the same, and modal coordinates after them

A body that deforms has points that elements attach to as to bodies: each is a frame of its own, which follows from the body's coordinates.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame
from ..observable import BODY, Observable
from ..parameters import Parameter, read_fields, read_name
from ..shapes import AbstractShape, Skin, read_shapes


class AbstractBody(eqx.Module):
    """One body. The methods see a single body; the system maps them over all bodies of the kind."""

    name: eqx.AbstractVar[str]
    mass: eqx.AbstractVar[Float[Numbers, "*stack"]]
    parameters: eqx.AbstractClassVar[dict[str, Parameter]]
    has_orientation: eqx.AbstractClassVar[bool]
    shape: eqx.AbstractVar[tuple[AbstractShape, ...]]
    """What pictures show, in the body's axes; the equations never see it. Empty: something that fits joints, contacts and inertia."""
    driven: ClassVar[bool] = False
    """Whether something unseen answers forces on it, and so works."""
    deforms: ClassVar[bool] = False
    """Whether it has forces within and energy stored by them."""
    observables: ClassVar[dict[str, Observable]] = BODY
    """What a run can be asked of it by name, besides what its parents list."""

    def read_body(self, name: str, shape: Any = None, **values: Any) -> None:
        """The part of a constructor that all bodies share: name, looks and checked numbers."""
        self.name = read_name("body", name)
        self.shape = read_shapes(f"shape of body {name!r}", shape)
        read_fields(self, f"body {name!r}", self.parameters, **values)

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """2 for a body of a planar model, 3 for one of a spatial model."""

    @abc.abstractmethod
    def initial(self) -> tuple[Array, Array]:
        """(q, v) at the start."""

    def skin(self, q: np.ndarray) -> Skin | None:
        """Of a body that deforms, what pictures show where no shape is given: from rows of its own coordinates, in the axes of `frame`. None: it
        keeps its shape."""
        return None

    @abc.abstractmethod
    def are_lengths(self) -> tuple[bool, ...]:
        """Which coordinates are lengths (the others are angles or Euler parameters)."""

    def coordinate_names(self) -> tuple[str, ...]:
        """What a person calls the coordinates."""
        lengths = self.are_lengths()
        turns = lengths.count(False)
        return (*"xyz"[: lengths.count(True)], *(["angle"] if turns == 1 else [f"e{i}" for i in range(turns)]))

    @abc.abstractmethod
    def frame(self, q: Array, v: Array) -> Frame:
        """The body as joints and forces see it."""

    def point_names(self) -> tuple[str, ...]:
        """The points of a body that deforms where something may attach."""
        return ()

    def points(self, q: Array, v: Array) -> Frame:
        """These points as joints and forces see them, stacked."""
        raise NotImplementedError  # asked of those that name points

    def generalize_points(self, q: Array, force: Float[Array, "points 3"], torque: Float[Array, "points 3"]) -> Array:
        """Forces and torques at these points as a force on the coordinates."""
        raise NotImplementedError

    @abc.abstractmethod
    def mass_matrix(self, q: Array) -> Array:
        """M of this body."""

    @abc.abstractmethod
    def mass_product(self, q: Array, a: Array) -> Array:
        """M a, without M."""

    @abc.abstractmethod
    def solve_mass(self, q: Array, force: Array) -> Array:
        """The a with M a = force; where M is singular, the one along which `constraint` allows to move."""

    def own_acceleration(self, q: Array, v: Array) -> Array:
        """What `constraint` alone adds to the acceleration of a moving body, so that its second derivative is zero too."""
        return jnp.zeros_like(q)

    def motion_lengths(self) -> tuple[bool, ...]:
        """Which entries of `to_motion` are lengths."""
        return self.are_lengths()

    def to_motion(self, q: Array, rates: Array) -> Array:
        """Rates of the coordinates, first or second ones, as rates along and about the body's own axes, whatever coordinates describe its
        orientation. Forces that turn with the body have constant slopes there."""
        return rates

    def from_motion(self, q: Array, motion: Array) -> Array:
        """The rates that `to_motion` turns into this."""
        return motion

    def move(self, q: Array, motion: Array) -> Array:
        """Where the body is after a motion from q on, along and about the axes that it has there; a turn is axis times angle."""
        return q + self.from_motion(q, motion)

    @abc.abstractmethod
    def velocity_force(self, q: Array, v: Array) -> Array:
        """The generalised force that is quadratic in the velocity, on the right-hand side."""

    def internal_force(self, q: Array, v: Array) -> Array:
        """Of a body that deforms: what its stiffness and damping do to the coordinates."""
        return jnp.zeros_like(q)

    def stored_energy(self, q: Array) -> Array:
        """Of a body that deforms: what its stiffness stores [J]."""
        return jnp.zeros(())

    @abc.abstractmethod
    def generalize(self, q: Array, force: Array, torque: Array) -> Array:
        """A force and a torque about the centre of mass as a force on the coordinates."""

    def constraint(self, q: Array) -> Array:
        """What the coordinates themselves must satisfy."""
        return jnp.zeros(0, q.dtype)

    def normalize(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The nearest (q, v) that satisfies `constraint` and its rate."""
        return q, v


class Attachment:
    """A point of a body that deforms, which elements take as a body."""

    def __init__(self, body: AbstractBody, point: str, position: Any):
        self.body, self.point, self.position = body, point, position
        """position: m, in the ground's axes, of the undeformed body as it starts"""

    @property
    def name(self) -> str:
        return point_name(self.body.name, self.point)

    def __repr__(self) -> str:
        return f"{self.body.name}.at({self.point!r})"


def point_name(body: str, point: str) -> str:
    """What a point of a body is called: "frame@mount"."""
    return f"{body}@{point}"
