"""Spheres and boxes that touch, push and slide."""

import numpy as np

from ..system.bodies.point_mass import PointMass
from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.contact.friction import Coulomb, LuGre
from ..system.contact.groups import Plane, Sphere, contacts
from ..system.contact.hertz import HertzPoint, Material
from ..system.contact.laws import Hertz, HuntCrossley, LinearContact
from ..system.contact.solids import BoxPlane
from ..system.contact.spheres import SphereSphere
from ..system.elements import ground
from ..system.forces.gravity import Gravity
from ..system.joints.distance import Distance

_GRAVITY = 9.81
_STEEL = Material(206e9, 0.3, 7850.0)


def newton_cradle(balls: int = 5, lifted: int = 1, angle: float = 0.2, gap: float = 0.0) -> Model:
    """Newton's cradle: steel balls of 20 mm diameter side by side, each on two strings 200 mm below the ceiling; some are lifted.

    The strings of a ball, 30 degrees apart, leave it one degree of freedom. Contacts are Hertz's, without loss. Balls that touch at rest
    (gap = 0) do *not* do what the toy is known for: an impulse takes a finite time to pass through an elastic contact, and goes through the
    row as a wave a few balls long. Of one ball's speed v, the last of five gets 0.989 v, its neighbour 0.127 v, and the other three go back
    at 0.014 to 0.071 v. With a gap of some depths of contact (10 micrometres) two balls at a time collide, and only the last one moves.

    Names: ball[0] ... ball[n-1] (lifted ones first), string[0] ... two a ball, contact[0] ... between neighbours, gravity.
    """
    radius, length, half = 0.01, 0.2, np.pi / 12
    if not (isinstance(balls, int) and isinstance(lifted, int) and 0 < lifted < balls):
        raise ValueError(f"newton_cradle: lift at least one ball and fewer than all, got {lifted!r} of {balls!r}.")
    mass = 4.0 / 3.0 * np.pi * radius**3 * 7850.0
    bodies, strings, neighbours = [], [], []
    law = Hertz(HertzPoint.spheres(radius, radius, _STEEL))
    for i in range(balls):
        x, swing = i * (2 * radius + gap), angle if i < lifted else 0.0
        at = (x - length * np.sin(swing), 0.0, -length * np.cos(swing))
        ball = PointMass(f"ball[{i}]", mass, at)
        for j, side in enumerate((-1.0, 1.0)):
            strings.append(Distance(f"string[{2 * i + j}]", ground, ball, (x, side * length * np.tan(half), 0.0), at))
        if bodies:
            neighbours.append(SphereSphere(f"contact[{i - 1}]", bodies[-1], ball, radius, radius, law))
        bodies.append(ball)
    return Model(bodies, strings, [*neighbours, Gravity((0.0, 0.0, -_GRAVITY))])


def box_on_plane(angle: float = 0.3, static: float = 0.4, kinetic: float = 0.3, friction: str = "lugre") -> Model:
    """A block of 0.2 x 0.1 x 0.1 m, 2 kg, on a plane that is inclined by an angle [rad], at rest in the depth of its own weight.

    Each of its corners has a spring of 100 kN/m and a dashpot of 200 N s/m. With LuGre friction ("lugre") it sticks on slopes up to
    atan(static), and slides down with g (sin - kinetic cos) on steeper ones. It is let go at t = 0 with slack bristles: this sudden load may
    break it loose between atan(kinetic) and atan(static). Regularised Coulomb friction ("coulomb") lets it creep while it should stick.

    Names: block, plane (the contact, with loads for each of the eight corners: `plane.friction.static`, ...), gravity.
    """
    laws = {
        "lugre": lambda: LuGre(bristle_stiffness=1e4, static=static, kinetic=kinetic, stribeck_velocity=5e-3, bristle_damping=50.0),
        "coulomb": lambda: Coulomb(kinetic, static, stribeck_velocity=5e-3, regularisation=2e-4),
    }
    if friction not in laws:
        raise ValueError(f"box_on_plane: friction must be 'lugre' or 'coulomb', got {friction!r}.")
    mass, stiffness, sizes = 2.0, 1e5, np.array([0.2, 0.1, 0.1])
    normal = np.array([np.sin(angle), 0.0, np.cos(angle)])
    sink = mass * _GRAVITY * np.cos(angle) / (4 * stiffness)
    # The block's axes: down the slope, across, and along the normal.
    axes = np.stack([[np.cos(angle), 0.0, -np.sin(angle)], [0.0, 1.0, 0.0], normal], axis=1)
    inertia = mass / 12 * (np.sum(sizes**2) - sizes**2)
    block = RigidBody("block", mass, inertia, (0.5 * sizes[2] - sink) * normal, axes)
    plane = BoxPlane("plane", block, ground, sizes, np.zeros(3), normal, LinearContact(stiffness, 200.0), laws[friction]())
    return Model([block], forces=[plane, Gravity((0.0, 0.0, -_GRAVITY))])


def spheres_in_box(spheres: int = 27, friction: float = 0.3) -> Model:
    """So many spheres of 20 mm diameter fall into a box and onto each other.

    They start in a cubic array, jittered, some millimetres apart, with no speed; the box has four walls and a floor, no lid. Every pair
    may touch: n (n - 1) / 2 of them, and 5 n with the walls, stacked in two elements. Hunt and Crossley's law with 1 MN/m^1.5 (soft spheres,
    so that steps of 40 microseconds serve) and 5 s/m (a restitution near 0.5 at 0.3 m/s); friction is regularised at 10 mm/s. Nothing
    resists rolling.

    Names: ball[0] ..., spheres (the group of all pairs), walls (the group of spheres against walls and floor), gravity.
    """
    radius, pitch = 0.01, 0.024
    if not (isinstance(spheres, int) and spheres >= 2):
        raise ValueError(f"spheres_in_box: give two spheres at least, got {spheres!r}.")
    side = int(np.ceil(round(spheres ** (1 / 3), 9)))
    jitter = np.random.default_rng(0).uniform(-1e-3, 1e-3, (spheres, 3))
    cells = np.array([(i % side, i // side % side, i // side**2) for i in range(spheres)])
    mass = 4.0 / 3.0 * np.pi * radius**3 * 2500.0
    inertia = 0.4 * mass * radius**2 * np.ones(3)
    bodies = [
        RigidBody(f"ball[{i}]", mass, inertia, (cell + 0.5) * pitch + shift)
        for i, (cell, shift) in enumerate(zip(cells, jitter, strict=True))
    ]
    width = side * pitch
    walls = [Plane(ground, (0.0, 0.0, 0.0), normal) for normal in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))]
    walls += [Plane(ground, (width, width, 0.0), normal) for normal in ((-1.0, 0.0, 0.0), (0.0, -1.0, 0.0))]
    shapes = [Sphere(body, radius) for body in bodies]
    law, dry = HuntCrossley(1e6, 5.0), Coulomb(friction, regularisation=1e-2)
    forces = [*contacts("spheres", shapes, law=law, friction=dry), *contacts("walls", shapes, walls, law=law, friction=dry)]
    return Model(bodies, forces=[*forces, Gravity((0.0, 0.0, -_GRAVITY))])
