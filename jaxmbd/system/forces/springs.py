"""Springs and dampers between two bodies: along a line, about an axis, in all directions."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..checking import expect, shape_of
from ..elements import Axis, filled_in
from ..frames import Frame, embed, norm, pair_wrench
from ..observable import SPRING, TORSION, Observable
from ..parameters import Parameter, is_traced, nonzero_vector, not_negative, scalar, vector
from ..rotations import cross, fused_dot, rotation_vector, torque_of_moment
from .base import AbstractForce


def _check_actuator(label: str, coordinate: str, actuator: Callable[[Array, Array, Array], Array] | None) -> None:
    if actuator is not None:
        t = np.zeros(())
        expect(label, f"actuator({coordinate}, rate, t)", shape_of(label, actuator, t, t, t), "one number", (), (1,))


class _Spring(eqx.Module):
    point_a: Float[Numbers, "*stack 3"]
    point_b: Float[Numbers, "*stack 3"]
    free_length: Float[Numbers, "*stack"]


class SpringDamper(AbstractForce):
    """Translational spring-damper-actuator (TSDA) between point1 of a and point2 of b.

    The pull between the points is stiffness (l - free_length) + damping l' + actuator(l, l', t). At zero length it has no direction and the
    force is zero, with a finite derivative.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point1: Float[Numbers, "*stack d"]
    point2: Float[Numbers, "*stack d"]
    stiffness: Float[Numbers, "*stack"]
    """N/m"""
    damping: Float[Numbers, "*stack"]
    """N s/m"""
    free_length: Float[Numbers, "*stack"] | None
    """m; None: the initial length"""
    actuator: Callable[[Array, Array, Array], Array] | None
    """of (length [m], rate [m/s], time [s]), adds to the pull [N]"""
    stiff: bool = eqx.field(static=True)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)
    parameters: ClassVar[dict[str, Parameter]] = {
        "point1": vector("m"),
        "point2": vector("m"),
        "stiffness": not_negative("N/m"),
        "damping": not_negative("N s/m"),
        "free_length": not_negative("m")._replace(optional=True),
    }
    observables: ClassVar[dict[str, Observable]] = SPRING

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        point1: Any,
        point2: Any,
        stiffness: Any,
        damping: Any = 0.0,
        free_length: Any = None,
        actuator: Callable[[Array, Array, Array], Array] | None = None,
        *,
        stiff: bool = False,
    ):
        self.read_element(
            name,
            (a, b),
            point1=point1,
            point2=point2,
            stiffness=stiffness,
            damping=damping,
            free_length=free_length,
        )
        self.actuator, self.stiff = actuator, stiff

    def check(self, planar):
        _check_actuator(self.label, "length", self.actuator)

    def local(self, frames):
        p1, p2 = embed(self.point1), embed(self.point2)
        length = norm(p2 - p1) if self.free_length is None else self.free_length
        return _Spring(frames[0].local_point(p1), frames[1].local_point(p2), length)

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        p1, p2 = a.point(local.point_a), b.point(local.point_b)
        d = p2 - p1
        length = norm(d)
        toward = d / jnp.where(length > 0, length, 1.0)
        rate = fused_dot(toward, b.point_velocity(local.point_b) - a.point_velocity(local.point_a))
        # stiffness * length * toward is stiffness * d: written so, a spring of no free length has its exact derivative at zero length too.
        pull = self.damping * rate - self.stiffness * local.free_length
        if self.actuator is not None:
            pull = pull + self.actuator(length, rate, t)
        return pair_wrench(a, b, p2, -self.stiffness * d - pull * toward, jnp.zeros(3))

    def potential(self, local, frames, angles):
        a, b = frames
        stretch = norm(b.point(local.point_b) - a.point(local.point_a)) - local.free_length
        return 0.5 * self.stiffness * stretch**2


class TorsionSpringDamper(AbstractForce):
    """Rotational spring-damper-actuator (RSDA) about an axis of a.

    The torque on b is -(stiffness (angle - free_angle) + damping angle' + actuator(angle, angle', t)); the angle of b against a counts
    from the initial configuration, over full turns. In a planar model the axis is z and need not be given. A joint must keep the axis common
    to both bodies: where it tilts, as penalties let it, the torque does a little work that is not stored.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    axis: Float[Numbers, "*stack 3"] | None
    stiffness: Float[Numbers, "*stack"]
    """N m/rad"""
    damping: Float[Numbers, "*stack"]
    """N m s/rad"""
    free_angle: Float[Numbers, "*stack"]
    """rad"""
    actuator: Callable[[Array, Array, Array], Array] | None
    """of (angle [rad], rate [rad/s], time [s]), adds to the torque that the spring resists with [N m]"""
    stiff: bool = eqx.field(static=True)
    angle_count: ClassVar[int] = 1
    parameters: ClassVar[dict[str, Parameter]] = {
        "axis": nonzero_vector(),
        "stiffness": not_negative("N m/rad"),
        "damping": not_negative("N m s/rad"),
        "free_angle": scalar("rad"),
    }
    observables: ClassVar[dict[str, Observable]] = TORSION

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        axis: Any = None,
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        free_angle: Any = 0.0,
        actuator: Callable[[Array, Array, Array], Array] | None = None,
        *,
        stiff: bool = False,
    ):
        self.read_element(name, (a, b), axis=axis, stiffness=stiffness, damping=damping, free_angle=free_angle)
        self.actuator, self.stiff = actuator, stiff

    def check(self, planar):
        _check_actuator(self.label, "angle", self.actuator)

    def turns_about_z(self):
        return True

    def local(self, frames):
        return Axis.between(frames[0], frames[1], frames[1].position, embed(filled_in(self.axis)))

    def wrapped_angles(self, local, frames):
        return local.angle(*frames)[None]

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        rate = local.angle_rate(a, b)
        resistance = self.stiffness * (angles[0] - self.free_angle) + self.damping * rate
        if self.actuator is not None:
            resistance = resistance + self.actuator(angles[0], rate, t)
        return pair_wrench(a, b, b.position, jnp.zeros(3), -resistance * local.direction(a))

    def potential(self, local, frames, angles):
        return 0.5 * self.stiffness * (angles[0] - self.free_angle) ** 2


def _six_by_six(value):
    if value.shape == (6,):
        return jnp.diag(value) if is_traced(value) else np.diag(value)
    return value


def _matrix(unit: str) -> Parameter:
    return Parameter(
        unit,
        shapes=((6, 6),),
        valid=lambda K: abs(K - K.T).max() <= 1e-9 * abs(K).max(),
        requirement="must be symmetric",
        convert=_six_by_six,
        converts=((6,),),
    )


class _BushingFrame(eqx.Module):
    point_a: Float[Numbers, "*stack 3"]
    point_b: Float[Numbers, "*stack 3"]
    axes_a: Float[Numbers, "*stack 3 3"]
    """bushing axes (those of the ground at the start) in a"""
    axes_b: Float[Numbers, "*stack 3 3"]


class Bushing(AbstractForce):
    """A 6 x 6 spring-damper: displacement and small rotation of b against a, in axes that are fixed in a and start along the ground's.

    Six numbers are a diagonal: (N/m, N/m, N/m, N m/rad, N m/rad, N m/rad). The rotation enters as its rotation vector, so it
    must stay below half a turn. The spring's load is the slope of its energy, deflection . stiffness . deflection / 2, however far it is
    turned. Of family B.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point: Float[Numbers, "*stack d"]
    stiffness: Float[Numbers, "*stack 6 6"]
    damping: Float[Numbers, "*stack 6 6"]
    stiff: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {
        "point": vector("m"),
        "stiffness": _matrix("N/m, N m/rad"),
        "damping": _matrix("N s/m, N m s/rad"),
    }

    def __init__(self, name: str, a: Any, b: Any, point: Any, stiffness: Any, damping: Any = np.zeros(6), *, stiff: bool = True):
        self.read_element(name, (a, b), point=point, stiffness=stiffness, damping=damping)
        self.stiff = stiff

    def local(self, frames):
        a, b = frames
        p = embed(self.point)
        return _BushingFrame(a.local_point(p), b.local_point(p), a.rotation.T, b.rotation.T)

    def _deflection(self, local, a: Frame, b: Frame):
        axes = a.rotation @ local.axes_a
        offset = b.point(local.point_b) - a.point(local.point_a)
        turn = rotation_vector(axes.T @ b.rotation @ local.axes_b)
        return axes, offset, jnp.concatenate([axes.T @ offset, turn])

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        axes, offset, deflection = self._deflection(local, a, b)
        drift = b.point_velocity(local.point_b) - a.point_velocity(local.point_a)
        drift = drift - cross(a.angular_velocity, offset)
        rate = jnp.concatenate([axes.T @ drift, axes.T @ (b.angular_velocity - a.angular_velocity)])
        elastic, viscous = self.stiffness @ deflection, self.damping @ rate
        torque = torque_of_moment(deflection[3:], elastic[3:]) + viscous[3:]
        return pair_wrench(a, b, b.point(local.point_b), -axes @ (elastic[:3] + viscous[:3]), -axes @ torque)

    def potential(self, local, frames, angles):
        _, _, deflection = self._deflection(local, *frames)
        return 0.5 * deflection @ self.stiffness @ deflection
