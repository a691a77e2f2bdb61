"""Rods that move in the x-y plane, as planar bodies or as their spatial twins."""

from typing import Any

import numpy as np

from ..system.bodies.planar import PlanarBody
from ..system.bodies.rigid import RigidBody
from ..system.forces.gravity import Gravity
from ..system.joints.one_axis import Revolute

STANDARD_GRAVITY = 9.81
"""m/s^2"""


def rod(
    name: str,
    mass: float,
    length: float,
    start: Any,
    angle: float,
    *,
    angular_velocity: float = 0.0,
    start_velocity: Any = (0.0, 0.0),
    spatial: bool = False,
) -> PlanarBody | RigidBody:
    """A uniform slender rod of a length [m] that begins at start [m] and points at an angle [rad] to the x axis.

    It turns at angular_velocity [rad/s] about z, its start moves at start_velocity [m/s]. In space it is a cylinder
    with a radius of a twentieth of its length (a motion in the plane does not depend on that).
    """
    half = 0.5 * length * np.array([np.cos(angle), np.sin(angle)])
    position = np.asarray(start) + half
    velocity = np.asarray(start_velocity) + angular_velocity * np.array([-half[1], half[0]])
    inertia = mass * length**2 / 12
    if not spatial:
        return PlanarBody(name, mass, inertia, position, angle, velocity, angular_velocity)
    radius = length / 20
    return RigidBody(
        name,
        mass,
        inertia=(0.5 * mass * radius**2, inertia, inertia),
        position=(*position, 0.0),
        orientation=(np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)),
        velocity=(*velocity, 0.0),
        angular_velocity=(0.0, 0.0, angular_velocity),
    )


def hinge(name: str, a: Any, b: Any, point: Any, spatial: bool = False) -> Revolute:
    """A revolute joint about z at a point of the x-y plane [m]."""
    if spatial:
        return Revolute(name, a, b, (*point, 0.0), axis=(0, 0, 1))
    return Revolute(name, a, b, point)


def gravity(spatial: bool) -> Gravity:
    """Along -y."""
    return Gravity((0.0, -STANDARD_GRAVITY, 0.0) if spatial else (0.0, -STANDARD_GRAVITY))
