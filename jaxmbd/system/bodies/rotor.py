"""A body that turns about a fixed direction at a constant speed, whatever it takes: a driven shaft without a constraint row."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import Frame
from ..observable import ROTOR_ANGLE, TURNING, WORKER, Observable
from ..parameters import Parameter, nonzero_vector, positive, scalar, vector
from ..rotations import skew, unit
from ..shapes import AbstractShape
from .base import AbstractBody


class Rotor(AbstractBody):
    """A rigid body that turns about a fixed direction at a constant speed. Coordinates (x, y, z, angle).

    Its drive supplies the torque that the speed needs, its bearings hold its axis upright and the translations that are not `free`. Neither is
    a row of Phi: forces along what is held do nothing, so that explicit methods can run it. `free` names the translations, in the ground's
    axes, that forces do move: "", "z", "xyz", ... A held translation keeps its initial velocity, zero unless given.
    """

    name: str = eqx.field(static=True)
    mass: Float[Numbers, "*stack"]
    """kg"""
    inertia: Float[Numbers, "*stack"]
    """kg m^2, about the axis; counts in the kinetic energy only"""
    axis: Float[Numbers, "*stack 3"]
    """direction of the axis, in the ground's axes"""
    speed: Float[Numbers, "*stack"]
    """rad/s, about the axis"""
    position: Float[Numbers, "*stack 3"]
    """m, initial, of the centre of mass, which lies on the axis"""
    velocity: Float[Numbers, "*stack 3"]
    """m/s, initial"""
    angle: Float[Numbers, "*stack"]
    """rad, initial"""
    free: str = eqx.field(static=True)
    """the translations that forces move, of "xyz" """
    shape: tuple[AbstractShape, ...] = eqx.field(static=True)
    """what pictures show, in the body's axes: `mbd.shapes.Box(...)` or a list; empty: derived from joints, contacts and inertia"""
    has_orientation: ClassVar[bool] = True
    driven: ClassVar[bool] = True
    observables: ClassVar[dict[str, Observable]] = ROTOR_ANGLE | TURNING | WORKER
    parameters: ClassVar[dict[str, Parameter]] = {
        "mass": positive("kg"),
        "inertia": positive("kg m^2"),
        "axis": nonzero_vector(3),
        "speed": scalar("rad/s"),
        "position": vector("m", 3),
        "velocity": vector("m/s", 3),
        "angle": scalar("rad"),
    }

    def __init__(
        self,
        name: str,
        mass: Any,
        inertia: Any,
        axis: Any = (0.0, 0.0, 1.0),
        speed: Any = 0.0,
        position: Any = (0.0, 0.0, 0.0),
        velocity: Any = (0.0, 0.0, 0.0),
        angle: Any = 0.0,
        *,
        free: str = "",
        shape: Any = None,
    ):
        self.read_body(name, shape, mass=mass, inertia=inertia, axis=axis, speed=speed, position=position, velocity=velocity, angle=angle)
        if not isinstance(free, str) or "".join(c for c in "xyz" if c in free) != free:
            raise ValueError(f"free of body {name!r} must name translations in order, such as '', 'z' or 'xyz', got {free!r}.")
        self.free = free

    @property
    def dimension(self):
        return 3

    def initial(self):
        return jnp.append(self.position, self.angle), jnp.append(self.velocity, self.speed)

    def are_lengths(self):
        return (True, True, True, False)

    def frame(self, q, v):
        # Rodrigues: I + sin K + (1 - cos) K^2, with K the matrix of the axis' cross product
        axis = unit(self.axis)
        turn = skew(axis)
        square = axis[:, None] * axis - jnp.eye(3)
        rotation = jnp.eye(3) + jnp.sin(q[3]) * turn + (1.0 - jnp.cos(q[3])) * square
        return Frame(q[:3], rotation, v[:3], v[3] * axis)

    def mass_matrix(self, q):
        return jnp.diag(jnp.stack([self.mass, self.mass, self.mass, self.inertia]))

    def mass_product(self, q, a):
        return jnp.append(self.mass * a[:3], self.inertia * a[3])

    def solve_mass(self, q, force):
        return jnp.append(force[:3] / self.mass, force[3] / self.inertia)

    def velocity_force(self, q, v):
        return jnp.zeros_like(q)

    def generalize(self, q, force, torque):
        # What is held answers every force with its opposite.
        moves = np.array([float(c in self.free) for c in "xyz"])
        return jnp.append(moves * force, 0.0)
