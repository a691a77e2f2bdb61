"""A rigid body in the plane."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import Frame, embed
from ..observable import PLANAR_ANGLE, TURNING, Observable
from ..parameters import Parameter, positive, scalar, vector
from ..rotations import (
    planar_rotation,
    product,
)
from ..shapes import AbstractShape
from .base import AbstractBody


class PlanarBody(AbstractBody):
    """A rigid body in the x-y plane; `position` is its centre of mass."""

    name: str = eqx.field(static=True)
    mass: Float[Numbers, "*stack"]
    """kg"""
    inertia: Float[Numbers, "*stack"]
    """kg m^2, about the centre of mass"""
    position: Float[Numbers, "*stack 2"]
    """m, initial"""
    angle: Float[Numbers, "*stack"]
    """rad, initial"""
    velocity: Float[Numbers, "*stack 2"]
    """m/s, initial"""
    angular_velocity: Float[Numbers, "*stack"]
    """rad/s, initial"""
    shape: tuple[AbstractShape, ...] = eqx.field(static=True)
    """what pictures show, in the body's axes: `mbd.shapes.Box(...)` or a list; empty: derived from joints, contacts and inertia"""
    has_orientation: ClassVar[bool] = True
    observables: ClassVar[dict[str, Observable]] = PLANAR_ANGLE | TURNING
    parameters: ClassVar[dict[str, Parameter]] = {
        "mass": positive("kg"),
        "inertia": positive("kg m^2"),
        "position": vector("m", 2),
        "angle": scalar("rad"),
        "velocity": vector("m/s", 2),
        "angular_velocity": scalar("rad/s"),
    }

    def __init__(
        self,
        name: str,
        mass: Any,
        inertia: Any,
        position: Any = (0.0, 0.0),
        angle: Any = 0.0,
        velocity: Any = (0.0, 0.0),
        angular_velocity: Any = 0.0,
        *,
        shape: Any = None,
    ):
        self.read_body(
            name,
            shape,
            mass=mass,
            inertia=inertia,
            position=position,
            angle=angle,
            velocity=velocity,
            angular_velocity=angular_velocity,
        )

    @property
    def dimension(self):
        return 2

    def initial(self):
        return (
            jnp.concatenate([self.position, self.angle[None]]),
            jnp.concatenate([self.velocity, self.angular_velocity[None]]),
        )

    def are_lengths(self):
        return (True, True, False)

    def frame(self, q, v):
        spin = jnp.concatenate([jnp.zeros(2, v.dtype), v[2:]])
        return Frame(embed(q[:2]), planar_rotation(q[2]), embed(v[:2]), spin)

    def mass_matrix(self, q):
        return jnp.diag(jnp.stack([self.mass, self.mass, self.inertia]))

    def mass_product(self, q, a):
        return jnp.concatenate([self.mass * a[:2], self.inertia * a[2:]])

    def solve_mass(self, q, force):
        return jnp.concatenate([force[:2] / self.mass, force[2:] / self.inertia])

    def to_motion(self, q, rates):
        return product(planar_rotation(q[2]).T, rates)

    def from_motion(self, q, motion):
        return product(planar_rotation(q[2]), motion)

    def velocity_force(self, q, v):
        return jnp.zeros_like(q)

    def generalize(self, q, force, torque):
        return jnp.concatenate([force[:2], torque[2:]])
