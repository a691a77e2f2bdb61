"""A rigid body in space, by Euler parameters."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import Frame
from ..observable import EULER_PARAMETERS, TURNING, Observable
from ..parameters import Parameter, is_traced, nonzero_orientation, positive, vector
from ..rotations import (
    body_rates,
    cross,
    from_body,
    from_ground,
    fused_dot,
    half_turn,
    invert_symmetric,
    product,
    read_orientation,
    rotation_matrix,
    to_body,
    to_ground,
)
from ..shapes import AbstractShape
from .base import AbstractBody


def _inertia_matrix(value):
    if value.shape == (3,):
        return jnp.diag(value) if is_traced(value) else np.diag(value)
    return value


def _physical_inertia(J):
    """Symmetric, positive definite, principal moments obey the triangle inequality (with room for rounding)."""
    np_ = jnp if is_traced(J) else np
    symmetric = np_.all(np_.abs(J - J.T) <= 1e-9 * np_.max(np_.abs(J)))
    # The moments of this matrix are (J_2 + J_3 - J_1) / 2 and its kin.
    spread = 0.5 * (1 + 1e-9) * np_.trace(J) * np.eye(3) - J
    return symmetric & _positive_definite(J) & _positive_definite(spread)


def _positive_definite(A):
    """Whether a symmetric 3 x 3 matrix is: by the pivots of its elimination, which take no call of LAPACK."""
    np_ = jnp if is_traced(A) else np
    (a, b, c), (_, d, e), (_, _, f) = 0.5 * (A + A.T)
    a = np_.where(a > 0, a, np.nan)  # what follows from a pivot that is not positive is not
    d = d - b * b / a
    d = np_.where(d > 0, d, np.nan)
    return f - c * c / a - (e - b * c / a) ** 2 / d > 0


_TRANSLATION = np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])


class RigidBody(AbstractBody):
    """A rigid body in space; `position` is its centre of mass, its axes are centred there.

    Equations of motion in Euler parameters p, with G of `rotations.body_rates`, J the inertia in body axes and w = 2 G p':

        4 G^T J G p'' + p lambda = 2 G^T (torque - w x J w)

    from Euler's equations, w' = 2 G p'' (G' p' = 0) and the virtual rotation 2 G dp. G^T J G is singular along p; together with the
    normalisation row the equations are not.
    """

    name: str = eqx.field(static=True)
    mass: Float[Numbers, "*stack"]
    """kg"""
    inertia: Float[Numbers, "*stack 3 3"]
    """kg m^2, about the centre of mass in body axes; three numbers are principal moments"""
    position: Float[Numbers, "*stack 3"]
    """m, initial"""
    orientation: Float[Numbers, "*stack 4"]
    """initial Euler parameters (e0, e1, e2, e3), scalar first; a rotation matrix is accepted too"""
    velocity: Float[Numbers, "*stack 3"]
    """m/s, initial"""
    angular_velocity: Float[Numbers, "*stack 3"]
    """rad/s, initial, in the ground's axes"""
    shape: tuple[AbstractShape, ...] = eqx.field(static=True)
    """what pictures show, in the body's axes: `mbd.shapes.Box(...)` or a list; empty: derived from joints, contacts and inertia"""
    has_orientation: ClassVar[bool] = True
    observables: ClassVar[dict[str, Observable]] = EULER_PARAMETERS | TURNING
    parameters: ClassVar[dict[str, Parameter]] = {
        "mass": positive("kg"),
        "inertia": Parameter(
            "kg m^2",
            shapes=((3, 3),),
            valid=_physical_inertia,
            requirement="is unphysical (it must be symmetric, positive definite, and no principal moment may exceed the sum of the "
            "other two)",
            convert=_inertia_matrix,
            converts=((3,),),
        ),
        "position": vector("m", 3),
        "orientation": nonzero_orientation(),
        "velocity": vector("m/s", 3),
        "angular_velocity": vector("rad/s", 3),
    }

    def __init__(
        self,
        name: str,
        mass: Any,
        inertia: Any,
        position: Any = (0.0, 0.0, 0.0),
        orientation: Any = (1.0, 0.0, 0.0, 0.0),
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
        *,
        shape: Any = None,
    ):
        self.read_body(
            name,
            shape,
            mass=mass,
            inertia=inertia,
            position=position,
            orientation=read_orientation(name, orientation),
            velocity=velocity,
            angular_velocity=angular_velocity,
        )

    @property
    def dimension(self):
        return 3

    def initial(self):
        p = self.orientation / jnp.sqrt(self.orientation @ self.orientation)
        rates = 0.5 * from_ground(p, self.angular_velocity)
        return jnp.concatenate([self.position, p]), jnp.concatenate([self.velocity, rates])

    def are_lengths(self):
        return (True,) * 3 + (False,) * 4

    def frame(self, q, v):
        r, p = q[:3], q[3:]
        return Frame(r, rotation_matrix(p), v[:3], 2.0 * to_ground(p, v[3:]))

    def mass_matrix(self, q):
        G = body_rates(q[3:])
        rotational = 4.0 * G.T @ self.inertia @ G
        return jnp.pad(rotational, ((3, 0), (3, 0))) + self.mass * _TRANSLATION

    def mass_product(self, q, a):
        p = q[3:]
        return jnp.concatenate([self.mass * a[:3], 4.0 * from_body(p, product(self.inertia, to_body(p, a[3:])))])

    def solve_mass(self, q, force):
        # G G^T = |p|^2 I: with a = G^T y the equation 4 G^T J G a = G^T u reads y = J^-1 u / (4 |p|^2).
        p = q[3:]
        turn = product(invert_symmetric(self.inertia), to_body(p, force[3:]))
        return jnp.concatenate([force[:3] / self.mass, from_body(p, turn) / (4.0 * fused_dot(p, p) ** 2)])

    def motion_lengths(self):
        return (True,) * 3 + (False,) * 3

    def to_motion(self, q, rates):
        p = q[3:]
        return jnp.concatenate([product(rotation_matrix(p).T, rates[:3]), 2.0 * to_body(p, rates[3:])])

    def from_motion(self, q, motion):
        p = q[3:]
        return jnp.concatenate([product(rotation_matrix(p), motion[:3]), 0.5 * from_body(p, motion[3:])])

    def move(self, q, motion):
        p, (cosine, sine) = q[3:], half_turn(motion[3:])
        return jnp.concatenate([q[:3] + product(rotation_matrix(p), motion[:3]), cosine * p + from_body(p, sine)])

    def own_acceleration(self, q, v):
        # p.p'' = -p'.p'
        p, rates = q[3:], v[3:]
        return jnp.concatenate([jnp.zeros(3, q.dtype), -p * fused_dot(rates, rates) / fused_dot(p, p)])

    def velocity_force(self, q, v):
        w = 2.0 * to_body(q[3:], v[3:])
        return jnp.concatenate([jnp.zeros(3, q.dtype), -2.0 * from_body(q[3:], cross(w, product(self.inertia, w)))])

    def generalize(self, q, force, torque):
        return jnp.concatenate([force, 2.0 * from_ground(q[3:], torque)])

    def constraint(self, q):
        p = q[3:]
        return 0.5 * (fused_dot(p, p) - 1.0)[None]

    def normalize(self, q, v):
        p = q[3:] / jnp.sqrt(fused_dot(q[3:], q[3:]))
        rates = v[3:] - p * fused_dot(p, v[3:])
        return jnp.concatenate([q[:3], p]), jnp.concatenate([v[:3], rates])
