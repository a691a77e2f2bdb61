"""What all bodies have in common.

A body is a small Module whose leaves are its physical numbers. The same class, with its leaves stacked along a first axis, is what the
system evaluates by vmap. Coordinates q and rates v = q' of one body:

    PointMass    (x, y) or (x, y, z)
    PlanarBody   (x, y, angle)
    RigidBody    (x, y, z, e0, e1, e2, e3), with the row (e.e - 1) / 2 = 0 among the constraints
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame
from ..observable import BODY, Observable
from ..parameters import Parameter, read_fields, read_name
from ..shapes import AbstractShape, read_shapes


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

    @abc.abstractmethod
    def are_lengths(self) -> tuple[bool, ...]:
        """Which coordinates are lengths (the others are angles or Euler parameters)."""

    @abc.abstractmethod
    def frame(self, q: Array, v: Array) -> Frame:
        """The body as joints and forces see it."""

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

    @abc.abstractmethod
    def generalize(self, q: Array, force: Array, torque: Array) -> Array:
        """A force and a torque about the centre of mass as a force on the coordinates."""

    def constraint(self, q: Array) -> Array:
        """What the coordinates themselves must satisfy."""
        return jnp.zeros(0, q.dtype)

    def normalize(self, q: Array, v: Array) -> tuple[Array, Array]:
        """The nearest (q, v) that satisfies `constraint` and its rate."""
        return q, v
