"""What a solution answers with. Arrays have one row a saved time; vectors are in the ground's axes, of two components in a planar model, where a
torque is one number, about z."""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float


class Energy(NamedTuple):
    kinetic: Float[Array, "rows"]
    """J"""
    potential: Float[Array, "rows"]
    """J"""
    total: Float[Array, "rows"]
    """J"""


class ElementWork(NamedTuple):
    """What an element has done since the first row."""

    total: Float[Array, "rows"]
    """J, done on the bodies: supplied - stored"""
    stored: Float[Array, "rows"]
    """J, the change of its potential energy"""
    supplied: Float[Array, "rows"]
    """J, what it has brought into the mechanism; negative: dissipated"""


class PointMotion(NamedTuple):
    """A point that is fixed to a body."""

    position: Float[Array, "rows d"]
    """m"""
    velocity: Float[Array, "rows d"]
    """m/s"""
    acceleration: Float[Array, "rows d"]
    """m/s^2"""


class Reaction(eqx.Module):
    """What a joint does to its second body, about the joint's point. `force, torque = ...` unpacks it."""

    force: Float[Array, "rows d"]
    """N"""
    torque: Float[Array, "rows ..."]
    """N m"""
    unique: bool = eqx.field(static=True)
    """False: the joint is part of a redundant loop, other reactions would give the same motion"""

    def __iter__(self) -> Iterator[Array]:
        return iter((self.force, self.torque))


class JointMotion(eqx.Module):
    """How a joint's second body moves against its first, from the initial configuration on; None where the joint has no such freedom.

    Angles count full turns. Two columns: both angles of a Universal joint or a Gear, both directions of a Planar joint.
    """

    angle: Float[Array, "rows ..."] | None
    """rad"""
    rate: Float[Array, "rows ..."] | None
    """rad/s"""
    travel: Float[Array, "rows ..."] | None
    """m"""
    travel_rate: Float[Array, "rows ..."] | None
    """m/s"""


class Load(eqx.Module):
    """What a force element does to each of its bodies; of springs and torsion springs also how far they are stretched or turned."""

    force: Float[Array, "rows bodies d"]
    """N"""
    torque: Float[Array, "rows bodies ..."]
    """N m, about the bodies' centres of mass"""
    tension: Float[Array, "rows"] | None
    """N, the pull between the points of a spring; N m, the torque with which a torsion spring resists a positive angle"""
    length: Float[Array, "rows"] | None
    """m, of a spring"""
    angle: Float[Array, "rows"] | None
    """rad, of a torsion spring"""
    rate: Float[Array, "rows"] | None
    """m/s or rad/s, of length or angle"""
    bodies: tuple[str, ...] = eqx.field(static=True)
