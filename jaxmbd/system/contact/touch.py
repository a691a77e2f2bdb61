"""Where and how bodies touch, and what pairs of shapes have in common."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Number, Numbers
from ..frames import Frame, norm
from ..rotations import cross, dot
from .friction import AbstractFriction


class Touch(eqx.Module):
    """Where and how two bodies touch, in the ground's axes.

    In the plane there is one tangent. In space no basis of the tangent plane is chosen, for none is smooth everywhere: the tangents are the
    rows of the projector onto that plane, and slip is a vector of three components in the ground's axes. For friction laws with memory the rows
    stand in the second body's axes, so that what the law remembers turns with that body.
    """

    point: Float[Numbers, "*stack 3"]
    """m, where the forces act"""
    normal: Float[Numbers, "*stack 3"]
    """unit vector along which a is pushed"""
    tangents: Float[Numbers, "*stack k 3"]
    """span the tangent space"""
    depth: Float[Numbers, "*stack"]
    """m, of the overlap; negative: a gap"""
    rate: Float[Numbers, "*stack"]
    """m/s, of the depth"""
    slip: Float[Numbers, "*stack k"]
    """m/s, of a over b, along the tangents"""
    spin: Float[Numbers, "*stack"]
    """rad/s, of a against b about the normal"""
    entrainment: Float[Numbers, "*stack k"]
    """m/s, mean velocity of the surfaces relative to the moving spot, along the tangents"""

    @staticmethod
    def between(a: Frame, b: Frame, point: Array, normal: Array, tangents: Array, depth: Array, travel: Array) -> "Touch":
        """`travel` [m/s] is the velocity of the spot as b sees it, in the ground's axes."""
        # The surfaces' normal velocities are those of any points on the normal, so that the rate belongs to the depth exactly.
        relative = a.velocity_at(point) - b.velocity_at(point)
        # As b sees it, its own surface rests and that of a moves with the relative velocity.
        entrainment = 0.5 * relative - travel
        spin = dot(normal, a.angular_velocity - b.angular_velocity)
        return Touch(point, normal, tangents, depth, -dot(normal, relative), dot(tangents, relative), spin, dot(tangents, entrainment))


class OnFace(eqx.Module):
    """A round shape of a on a straight face of b, in their own frames."""

    centre: Float[Numbers, "*stack 3"]
    """in a"""
    point: Float[Numbers, "*stack 3"]
    """in b"""
    normal: Float[Numbers, "*stack 3"]
    """unit vector in b"""

    def spot(self, frames: tuple[Frame, ...], radius: Number) -> tuple[Array, Array, Array, Array]:
        """(point, normal, depth, travel) of their touch, at the round shape's nearest point to the face."""
        a, b = frames
        centre, normal = a.point(self.centre), b.direction(self.normal)
        depth = radius - dot(normal, centre - b.point(self.point))
        travel = a.velocity_at(centre) - b.velocity_at(centre)
        return centre - radius * normal, normal, depth, travel


class SideBySide(eqx.Module):
    """Two round shapes, in their own frames."""

    centre_a: Float[Numbers, "*stack 3"]
    """in a"""
    centre_b: Float[Numbers, "*stack 3"]
    """in b"""

    def spot(self, frames: tuple[Frame, ...], radius_a: Array, radius_b: Array) -> tuple[Array, Array, Array, Array]:
        """(point, normal, depth, travel) of their touch, in the middle of the overlap."""
        a, b = frames
        centre_a, centre_b = a.point(self.centre_a), b.point(self.centre_b)
        normal, distance = direction(centre_a - centre_b)
        depth = radius_a + radius_b - distance
        arm = radius_b - 0.5 * depth
        travel = over(arm * (a.velocity_at(centre_a) - b.velocity_at(centre_a)), distance)
        return centre_b + arm * normal, normal, depth, travel


_UP = np.array([0.0, 0.0, 1.0])


def planar_touch(frames: tuple[Frame, ...], point: Array, normal: Array, depth: Array, travel: Array) -> Touch:
    """A touch in the plane: the tangent is the normal turned by +90 degrees."""
    a, b = frames
    return Touch.between(a, b, point, normal, cross(jnp.asarray(_UP), normal)[None], depth, travel)


def spatial_touch(
    friction: AbstractFriction | None, frames: tuple[Frame, ...], point: Array, normal: Array, depth: Array, travel: Array
) -> Touch:
    """A touch in space. `travel` may have a part along the normal, which does not count."""
    a, b = frames
    if friction is not None and friction.memory:
        # R_b^T (I - n n^T)
        tangents = b.rotation.T - dot(b.rotation.T, normal)[:, None] * normal
        return Touch.between(a, b, point, normal, tangents, depth, travel)
    relative = a.velocity_at(point) - b.velocity_at(point)
    along = dot(normal, relative)
    entrainment = 0.5 * relative - travel
    return Touch(
        point,
        normal,
        jnp.asarray(np.eye(3)) - normal[:, None] * normal,
        depth,
        -along,
        relative - along * normal,
        dot(normal, a.angular_velocity - b.angular_velocity),
        entrainment - dot(normal, entrainment) * normal,
    )


def direction(u: Array) -> tuple[Array, Array]:
    """(unit vector, length) of a vector; where it is zero the direction is zero too, and derivatives are finite."""
    length = norm(u)
    return u / jnp.where(length > 0, length, 1.0), length


def over(numerator: Array, length: Array) -> Array:
    """numerator / length, zero where the length is."""
    return jnp.where(length > 0, numerator, 0.0) / jnp.where(length > 0, length, 1.0)
