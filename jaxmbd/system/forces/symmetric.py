"""A bushing that favours neither of its bodies."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import Frame, embed, pair_wrench
from ..parameters import Parameter, vector
from ..rotations import cross, dot, product, rotation_vector
from .base import AbstractForce

_SIX = Parameter("N/m, N m/rad", shapes=((6,),), valid=lambda k: (k >= 0).all(), requirement="must not be negative")


class _Deflection(eqx.Module):
    axes: Float[Numbers, "3 3"]
    """rows: the axes between those of the bodies, in the ground's"""
    offset: Float[Numbers, "3"]
    """m, from the point of a to that of b, in the ground's axes"""
    turn: Float[Numbers, "3"]
    """rad, rotation vector of b against a, the same in the axes of a, of b and between"""
    tangent: Float[Numbers, "3"]
    """along it, tan(|turn| / 4) long"""

    def turning(self, spin: Array) -> Array:
        """turn' = S spin for a difference `spin` of the angular velocities in the axes between.

        S is symmetric: it makes torques of moments, too.
        With f = |turn| / 2 it is f / sin f across the turn and 1 along it, by series where that is 0 / 0.
        """
        square = dot(self.turn, self.turn)
        small = square < 1e-4
        angle = jnp.sqrt(jnp.where(small, 1.0, square))
        half = 0.5 * angle
        excess = jnp.where(small, (1.0 + square * (7.0 / 240.0)) / 24.0, (half / jnp.sin(half) - 1.0) / angle**2)
        return (1.0 + excess * square) * spin - excess * dot(self.turn, spin) * self.turn


class SymmetricBushing(AbstractForce):
    """Springs and dampers between a point of a and a point of b, along and about axes half way between those of the two bodies.

    A `Bushing` measures in the axes of its first body; here neither body is favoured, as in a beam between them: pieces of a belt, a rope or a
    rod. Six numbers, (axial, two shears [N/m], torsion, two bendings [N m/rad]), along and about x, y and z of the bodies' own axes turned half
    way into each other. There is no load where the points meet and the bodies' axes are parallel, wherever they start. The turn must stay below
    half a turn. The load is the slope of the energy, deflection . stiffness deflection / 2, however far it is turned, and momentum is kept.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point1: Float[Numbers, "*stack d"]
    """m, moves with a"""
    point2: Float[Numbers, "*stack d"]
    """m, moves with b"""
    stiffness: Float[Numbers, "*stack 6"]
    damping: Float[Numbers, "*stack 6"]
    """N s/m, N m s/rad"""
    stiff: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {
        "point1": vector("m"),
        "point2": vector("m"),
        "stiffness": _SIX,
        "damping": _SIX._replace(unit="N s/m, N m s/rad"),
    }

    def __init__(
        self, name: str, a: Any, b: Any, point1: Any, point2: Any, stiffness: Any, damping: Any = np.zeros(6), *, stiff: bool = False
    ):
        self.read_element(name, (a, b), point1=point1, point2=point2, stiffness=stiffness, damping=damping)
        self.stiff = stiff

    def local(self, frames):
        return frames[0].local_point(embed(self.point1)), frames[1].local_point(embed(self.point2))

    def deflection(self, local: Any, a: Frame, b: Frame) -> _Deflection:
        turn = rotation_vector(a.rotation.T @ b.rotation)
        square = dot(turn, turn)
        small = square < 1e-4
        angle = jnp.sqrt(jnp.where(small, 1.0, square))
        share = jnp.where(small, 0.25 * (1.0 + square / 48.0 * (1.0 + square / 40.0)), jnp.tan(0.25 * angle) / angle)
        tangent = share * turn
        weight = 2.0 / (1.0 + dot(tangent, tangent))
        halfway = jnp.stack([u + weight * cross(tangent, u + cross(tangent, u)) for u in jnp.asarray(np.eye(3))])
        return _Deflection(a.directions(halfway), b.point(local[1]) - a.point(local[0]), turn, tangent)

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        found = self.deflection(local, a, b)
        axes, drift = found.axes, b.point_velocity(local[1]) - a.point_velocity(local[0])
        spin = product(axes, b.angular_velocity - a.angular_velocity)
        # The axes between turn by the mean of both bodies, less tangent x spin / 2.
        own = product(axes, 0.5 * (a.angular_velocity + b.angular_velocity)) - 0.5 * cross(found.tangent, spin)
        offset = product(axes, found.offset)
        pull = self.stiffness[:3] * offset + self.damping[:3] * (product(axes, drift) - cross(own, offset))
        moment = self.stiffness[3:] * found.turn + self.damping[3:] * found.turning(spin)
        # The power is that of pull and moment at these rates: offset x pull, on the axes between, is shared out as they follow the bodies.
        lever = cross(offset, pull)
        torque = found.turning(moment) - 0.5 * (lever - cross(lever, found.tangent))
        return pair_wrench(a, b, b.point(local[1]), -product(axes.T, pull), -product(axes.T, torque))

    def potential(self, local, frames, angles):
        found = self.deflection(local, *frames)
        load = jnp.concatenate([product(found.axes, found.offset), found.turn])
        return 0.5 * dot(self.stiffness, load**2)
