"""How a ring is held and driven by penalties: a joint to the ground whose rows are springs and dampers."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..system.forces import AbstractForce
from ..system.frames import Wrench
from ..system.parameters import Parameter, not_negative, positive, scalar, vector
from ..system.rotations import cross, triad


class _Axes(eqx.Module):
    place: Float[Array, "3"]
    """m, where the ring started"""
    axis: Float[Array, "3"]
    normal: Float[Array, "3"]
    third: Float[Array, "3"]
    axis_b: Float[Array, "3"]
    """in the ring"""
    normal_b: Float[Array, "3"]
    """in the ring, coincides with `normal` at the start"""


class Mount(AbstractForce):
    """Holds a ring against the ground by stiff springs and dampers, and turns it at a constant speed. Of family B.

    The penalty form of a revolute joint with a drive (or of one that leaves translations free): the ring's centre is kept at its place along
    the directions that are `held`, its axis from tilting, its angle at speed times time. One element instead of two joints whose rows are differentiated:
    all rings of a bearing are evaluated at once, which matters, because an implicit method evaluates them several times a step. The restoring torque is
    stiffness times the sine of the deflection.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis: Float[Array, "3"]
    """direction of the ring's axis, in the ground's axes"""
    speed: Float[Array, ""]
    """rad/s"""
    held: Float[Array, "3"]
    """of the directions x, y, z of the ground: 1 held, 0 free"""
    stiffness: Float[Array, ""]
    """N/m"""
    damping: Float[Array, ""]
    """N s/m"""
    rotational_stiffness: Float[Array, ""]
    """N m/rad"""
    rotational_damping: Float[Array, ""]
    """N m s/rad"""
    stiff: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {
        "axis": vector("1", 3),
        "speed": scalar("rad/s"),
        "held": vector("1", 3),
        "stiffness": positive("N/m"),
        "damping": not_negative("N s/m"),
        "rotational_stiffness": positive("N m/rad"),
        "rotational_damping": not_negative("N m s/rad"),
    }

    def __init__(
        self,
        name: str,
        ring: Any,
        axis: Any,
        speed: Any,
        held: Any,
        stiffness: Any,
        damping: Any,
        rotational_stiffness: Any,
        rotational_damping: Any,
    ):
        self._read_element(
            name,
            (ring,),
            axis=axis,
            speed=speed,
            held=held,
            stiffness=stiffness,
            damping=damping,
            rotational_stiffness=rotational_stiffness,
            rotational_damping=rotational_damping,
        )
        self.stiff = True

    def local(self, frames):
        (ring,) = frames
        t, n, k = triad(self.axis)
        return _Axes(ring.position, t, n, k, ring.local_direction(t), ring.local_direction(n))

    def wrench(self, local, frames, angles, t, x):
        (ring,) = frames
        force = -self.held * (self.stiffness * (ring.position - local.place) + self.damping * ring.velocity)
        turned = self.speed * t
        target = jnp.cos(turned) * local.normal + jnp.sin(turned) * local.third
        behind = cross(ring.direction(local.normal_b), target)
        tilt = cross(ring.direction(local.axis_b), local.axis)
        deflection = tilt + jnp.sum(behind * local.axis) * local.axis
        fast = ring.angular_velocity - self.speed * local.axis
        torque = self.rotational_stiffness * deflection - self.rotational_damping * fast
        return Wrench(force[None], torque[None])

    def potential(self, local, frames, angles):
        """Without the drive, whose deflection depends on time."""
        (ring,) = frames
        tilt = cross(ring.direction(local.axis_b), local.axis)
        stretch = self.held * (ring.position - local.place)
        return 0.5 * self.stiffness * jnp.sum(stretch**2) + 0.5 * self.rotational_stiffness * jnp.sum(tilt**2)
