"""Forces: what acts on bodies without stopping a motion outright.

Each element returns the wrench on its bodies. Elements with `stiff=True` belong to family B (cheap and stiff), the others to family A;
only the splitting integrator looks at the difference. A field acts on every body by itself, and belongs to family A.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Number
from ..elements import AbstractElement
from ..frames import Frame, Wrench
from ..joints.base import AbstractJoint
from ..observable import FORCE, STORE, WORKER, Observable


class AbstractForce(AbstractElement):
    """A force element between its bodies."""

    stiff: eqx.AbstractVar[bool]
    kind: ClassVar[str] = "force"
    is_contact: ClassVar[bool] = False
    """Whether its power counts as contact power."""
    has_switches: ClassVar[bool] = False
    """Whether `switches(local, frames, angles)` tells where its law has kinks."""
    shares_axis: ClassVar[bool] = False
    """Whether its geometry is that of its joint, an `Axis`."""
    asks_reactions: ClassVar[bool] = True
    """Whether `wrench` gets the reactions of `reaction_joints`."""
    observables: ClassVar[dict[str, Observable]] = FORCE

    def reaction_joints(self) -> tuple[str, ...]:
        """The joints whose reactions `wrench` gets as further arguments, each a `JointReaction`."""
        return ()

    def fits(self, joint: AbstractJoint) -> bool:
        """Whether it can depend on the reaction of such a joint."""
        return True

    def initial_state(self) -> Array:
        """The differential states that the element owns, at the start."""
        return jnp.zeros(0)

    @abc.abstractmethod
    def wrench(self, local: Any, frames: tuple[Frame, ...], angles: Array, t: Number, x: Array) -> Wrench:
        """Forces and torques on the bodies; x are the element's own differential states."""

    def state_rate(self, local: Any, frames: tuple[Frame, ...], angles: Array, t: Number, x: Array) -> Array:
        """x'."""
        return jnp.zeros_like(x)

    def potential(self, local: Any, frames: tuple[Frame, ...], angles: Array) -> Array:
        """The energy that the element stores [J]; zero if it stores none."""
        return jnp.zeros(())


class AbstractField(AbstractElement):
    """A force on every body, whatever there is."""

    bodies: tuple[str, ...] = eqx.field(static=True, default=(), init=False)
    kind: ClassVar[str] = "force"
    observables: ClassVar[dict[str, Observable]] = WORKER | STORE

    @abc.abstractmethod
    def force(self, mass: Float[Array, ""], frame: Frame, t: Number) -> Float[Array, "3"]:
        """On the centre of mass of a body [N], in the ground's axes."""

    def potential(self, mass: Float[Array, ""], frame: Frame) -> Float[Array, ""]:
        """The energy that a body has in the field [J]; zero if it has none."""
        return jnp.zeros(())

    def renamed(self, name: str) -> "AbstractField":
        copy = object.__new__(type(self))
        for field, value in (vars(self) | {"name": name}).items():
            object.__setattr__(copy, field, value)
        return copy
