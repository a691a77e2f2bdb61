"""Tops."""

import numpy as np

from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.elements import ground
from ..system.forces.gravity import Gravity
from ..system.joints.one_axis import Spherical
from .rods import STANDARD_GRAVITY


def spinning_top() -> Model:
    """A heavy symmetric top in steady, slow precession at 30 degrees to the vertical.

    A disc of 1 kg, radius 0.1 m, thickness 0.02 m, on a massless axle whose tip, 0.1 m from the disc's centre, rests
    in a spherical joint at the origin; gravity 9.81 m/s^2 along -z. The angular velocity has the component w3 = 60
    rad/s along the axle; the precession rate W about the vertical is the smaller root of

        I1 cos(theta) W^2 - I3 w3 W + m g l = 0,

    I1 and I3 the moments of inertia about the tip, across and along the axle. Names: top, tip, gravity.
    """
    mass, radius, thickness, arm = 1.0, 0.1, 0.02, 0.1
    theta, spin = np.pi / 6, 60.0
    along = 0.5 * mass * radius**2
    across = mass * (3 * radius**2 + thickness**2) / 12
    about_tip = across + mass * arm**2
    precession = precession_rate(about_tip, along, spin, theta, mass * STANDARD_GRAVITY * arm)
    # The axle, the body's z axis, starts in the x-z plane, turned by theta about y.
    axle = np.array([np.sin(theta), 0.0, np.cos(theta)])
    vertical = np.array([0.0, 0.0, 1.0])
    # Precession about the vertical, and about the axle what is missing to w3.
    angular_velocity = precession * vertical + (spin - precession * np.cos(theta)) * axle
    position = arm * axle
    top = RigidBody(
        "top",
        mass,
        inertia=(across, across, along),
        position=position,
        orientation=(np.cos(theta / 2), 0.0, np.sin(theta / 2), 0.0),
        velocity=np.cross(angular_velocity, position),
        angular_velocity=angular_velocity,
    )
    return Model([top], [Spherical("tip", ground, top, (0.0, 0.0, 0.0))], [Gravity((0.0, 0.0, -STANDARD_GRAVITY))])


def precession_rate(across: float, along: float, spin: float, theta: float, torque: float) -> float:
    """The slow steady precession [rad/s] of a symmetric top.

    `across`, `along`: moments of inertia about the fixed point [kg m^2]; `spin`: component of the angular velocity
    along the axle [rad/s]; `theta`: angle of the axle to the vertical [rad]; `torque`: m g l [N m].
    """
    momentum = along * spin
    discriminant = momentum**2 - 4 * across * np.cos(theta) * torque
    if discriminant < 0:
        raise ValueError("the top spins too slowly for steady precession.")
    # The smaller root in the form that also holds for theta = 90 degrees.
    return float(2 * torque / (momentum + np.sqrt(discriminant)))
