"""A body as joints and forces see it: a moving frame in space.

Every kind of body, point, planar or spatial, shows the same face, so that one law serves them all.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._numbers import Numbers
from .rotations import cross, dot, product, products


class Frame(eqx.Module):
    """Position and orientation of a body's centre-of-mass frame and their rates, in the ground's axes. Of one body, or of a stack of them."""

    position: Float[Numbers, "*stack 3"]
    """m"""
    rotation: Float[Numbers, "*stack 3 3"]
    """body axes to ground axes"""
    velocity: Float[Numbers, "*stack 3"]
    """m/s"""
    angular_velocity: Float[Numbers, "*stack 3"]
    """rad/s"""

    def point(self, s: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
        """Where the body-fixed point s stands."""
        return self.position + product(self.rotation, s)

    def point_velocity(self, s: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
        return self.velocity + cross(self.angular_velocity, product(self.rotation, s))

    def velocity_at(self, p: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
        """The velocity of that point of the body which stands at p just now."""
        return self.velocity + cross(self.angular_velocity, p - self.position)

    def direction(self, u: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
        """A body-fixed direction in the ground's axes."""
        return product(self.rotation, u)

    def directions(self, rows: Float[Numbers, "n 3"]) -> Float[Numbers, "n 3"]:
        """Several at once."""
        return products(rows, self.rotation)

    def local_point(self, p: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
        """The body-fixed coordinates of a point of space."""
        return product(self.rotation.T, p - self.position)

    def local_direction(self, u: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
        return product(self.rotation.T, u)


class Wrench(eqx.Module):
    """Forces and torques on the bodies of one element, in the ground's axes, torques about the centres of mass."""

    force: Float[Numbers, "bodies 3"]
    torque: Float[Numbers, "bodies 3"]


class JointReaction(eqx.Module):
    """What a joint does to its second body, in the ground's axes; the opposite acts on the first."""

    force: Float[Numbers, "3"]
    """N"""
    torque: Float[Numbers, "3"]
    """N m, about the joint's point"""
    point: Float[Numbers, "3"]
    """m, the joint's point on the second body"""


def ground_frame() -> Frame:
    return Frame(jnp.zeros(3), jnp.asarray(np.eye(3)), jnp.zeros(3), jnp.zeros(3))


def embed(u: Float[Numbers, "n"]) -> Float[Numbers, "3"]:
    """A planar vector in space."""
    return u if u.shape == (3,) else jnp.concatenate([u, jnp.zeros(1, u.dtype)])


def force_at(frame: Frame, point: Float[Numbers, "3"], force: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
    """The torque about the centre of mass of a force that acts at a point of space."""
    return cross(point - frame.position, force)


def pair_wrench(a: Frame, b: Frame, point: Float[Numbers, "3"], force: Float[Numbers, "3"], torque: Float[Numbers, "3"]) -> Wrench:
    """Force and torque on b at a point of space, and their exact opposites on a at the same point."""
    return Wrench(
        jnp.stack([-force, force]),
        jnp.stack([-torque - force_at(a, point, force), torque + force_at(b, point, force)]),
    )


def norm(u: Float[Numbers, "n"]) -> Float[Numbers, ""]:
    """|u|, with derivative zero where u is zero."""
    square = dot(u, u)
    zero = square <= 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, square)))
