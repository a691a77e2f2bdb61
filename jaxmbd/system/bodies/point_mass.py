"""A mass without extension."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import Frame, embed
from ..parameters import Parameter, positive, vector
from ..shapes import AbstractShape
from .base import AbstractBody


class PointMass(AbstractBody):
    """A mass without extension, in the plane or in space, as its position has two or three components."""

    name: str = eqx.field(static=True)
    mass: Float[Numbers, "*stack"]
    """kg"""
    position: Float[Numbers, "*stack d"]
    """m, initial"""
    velocity: Float[Numbers, "*stack d"]
    """m/s, initial"""
    shape: tuple[AbstractShape, ...] = eqx.field(static=True)
    """what pictures show, in the body's axes: `mbd.shapes.Box(...)` or a list; empty: derived from joints, contacts and inertia"""
    has_orientation: ClassVar[bool] = False
    parameters: ClassVar[dict[str, Parameter]] = {
        "mass": positive("kg"),
        "position": vector("m"),
        "velocity": vector("m/s"),
    }

    def __init__(self, name: str, mass: Any, position: Any, velocity: Any = None, *, shape: Any = None):
        self.read_body(name, mass=mass, position=position)
        self.read_body(name, shape, velocity=np.zeros(self.position.shape) if velocity is None else velocity)
        if self.velocity.shape != self.position.shape:
            raise ValueError(f"velocity of body {name!r} must have as many components as its position.")

    @property
    def dimension(self):
        return self.position.shape[-1]

    def initial(self):
        return self.position, self.velocity

    def are_lengths(self):
        return (True,) * self.dimension

    def frame(self, q, v):
        return Frame(embed(q), jnp.eye(3), embed(v), jnp.zeros(3))

    def mass_matrix(self, q):
        return self.mass * jnp.eye(self.dimension)

    def mass_product(self, q, a):
        return self.mass * a

    def solve_mass(self, q, force):
        return force / self.mass

    def velocity_force(self, q, v):
        return jnp.zeros_like(q)

    def generalize(self, q, force, torque):
        return force[: self.dimension]
