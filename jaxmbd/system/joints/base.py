"""Joints between two bodies: what they stop is a row of Phi(q, t) = 0.

In a planar model the same joints keep only the rows that have a meaning there (`planar_rows`). The rows of a joint are lengths or
cosines of right angles; `row_lengths` says which.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Number, Numbers
from ..elements import AbstractElement
from ..frames import Frame
from ..observable import JOINT, Observable
from ..parameters import Parameter, following, not_negative, positive, read_fields


class Penalty(eqx.Module):
    """Holds a joint by a stiff spring and damper on each of its rows instead of a multiplier: a force of family B.

    Rows that are lengths use stiffness [N/m] and damping [N s/m], rows that are angles rotational_stiffness [N m/rad] and
    rotational_damping [N m s/rad], by default the same numbers, also after those were set anew. Reactions follow from the deflection:
    their relative error is that of the deflection, far larger than that of positions.
    """

    stiffness: Float[Numbers, "*stack"]
    damping: Float[Numbers, "*stack"]
    rotational_stiffness: Float[Numbers, "*stack"] | None
    """None: the number of `stiffness`"""
    rotational_damping: Float[Numbers, "*stack"] | None
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

    velocity_rows: ClassVar[int] = 0
    """How many velocities it keeps at zero besides, that follow from no position: `velocities`."""
    kind: ClassVar[str] = "joint"
    driven: ClassVar[bool] = False
    """Whether rows depend on time, so that the joint works."""
    observables: ClassVar[dict[str, Observable]] = JOINT

    def read_joint(self, name: str, bodies: tuple[Any, ...], penalty: Penalty | None, **values: Any) -> None:
        """The part of a constructor that all joints share: names, checked numbers, what holds it."""
        self.read_element(name, bodies, **values)
        if not (penalty is None or isinstance(penalty, Penalty)):
            raise ValueError(f"{self.label}: penalty must be an mbd.Penalty, got {penalty!r}.")
        self.penalty = penalty

    def are_lengths(self) -> tuple[bool, ...]:
        """Which rows are lengths; the others are cosines or angles."""
        return self.row_lengths

    def misfit(self) -> str:
        """What becomes of a joint that does not hold at the initial configuration."""
        return "assembling will move the bodies" if self.penalty is None else "its penalty will begin with that deflection"

    @abc.abstractmethod
    def rows(self, local: Any, frames: tuple[Frame, ...], angles: Array, t: Number) -> Array:
        """What the joint keeps at zero. `angles` are those of `wrapped_angles`, followed over full turns."""

    def velocities(self, local: Any, frames: tuple[Frame, ...], t: Number) -> Float[Array, "velocity_rows"]:
        """What the joint keeps at zero of velocities: linear in those of its bodies [m/s]."""
        return jnp.zeros(0)

    def separation(self, local: Any, a: Frame, b: Frame) -> Float[Array, "3"]:
        """From the point on a to the point on b: zero with a multiplier, in whatever axes. A penalty leaves some, and its damper sees it in
        the axes of a: in the ground's it would brake bodies that turn as one, by a torque that comes from nowhere."""
        offset = b.point(local.point_b) - a.point(local.point_a)
        return offset if self.penalty is None else a.local_direction(offset)

    def reference_point(self, local: Any, frames: tuple[Frame, ...]) -> Float[Array, "3"]:
        """The point of space about which the reaction torque on the last body counts."""
        return frames[1].point(local.point_b)
