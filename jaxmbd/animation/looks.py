"""What bodies look like that do not say so: from their contacts, joints and inertia."""

from collections import defaultdict
from typing import Any

import numpy as np

from ..system import shapes
from ..system.contact.base import AbstractContact
from ..system.contact.planar import DiscDisc, DiscLine
from ..system.contact.raceways import AbstractPocket, CylinderCylinder, SphereGroove
from ..system.contact.rounded import CoinPlane, EllipsoidPlane
from ..system.contact.solids import BoxPlane, CapsulePlane
from ..system.contact.spheres import SpherePlane, SphereSphere
from ..system.forces.springs import Bushing, SpringDamper
from ..system.joints.distance import Distance
from ..system.joints.one_axis import AbstractAxisJoint, Fixed, Revolute, Spherical
from ..system.joints.two_axes import Universal
from ..system.stacked.groups import pick
from ..system.system import System

Shapes = list[shapes.AbstractShape]
UP = np.array([0.0, 0.0, 1.0])
METAL = "#b9bec6"
DARK = "#4a4f57"
_HELD = (Revolute, Spherical, Universal, Fixed, Bushing)
"""What holds a point of both of its bodies; other joints slide along the first one"""


def vector(values: Any) -> np.ndarray:
    return np.asarray(values, float)


class Looks:
    """Shapes of bodies by their place in `body_names`.

    Joints and contacts know bodies by their place in `frame_names`: points of bodies that deform come after all bodies, the ground is the last.
    """

    def __init__(self, system: System, up: np.ndarray):
        self.system, self.up = system, up
        self.ground = len(system.frame_names)  # as elements count: bodies, their points, the ground
        self.given = dict(system.looks)
        self.attached: dict[int, list[np.ndarray]] = defaultdict(list)
        """points of joints and springs, in their bodies' axes"""
        self.hinges: list[tuple[int, int, np.ndarray, np.ndarray, np.ndarray | None]] = []
        """first and second body, point on each, axis in the second or none"""
        self.from_contacts: dict[int, Shapes] = defaultdict(list)
        self.planes: list[shapes.Plane] = []
        """on the ground, that something touches"""
        frames = system.frames(system.q0, system.v0)
        self.start, self.start_rotation = vector(frames.position), vector(frames.rotation)
        self._read_joints()
        self._read_contacts()

    def of(self, body: int, radius: float) -> Shapes:
        """`radius` [m]: of the bars of a body that has nothing to measure them by."""
        name = self.system.body_names[body]
        if self.given.get(name):
            return list(self.given[name])
        if self.from_contacts[body]:
            found = list(dict.fromkeys(self.from_contacts[body]))
            return found + self._arms(body, found, 0.25 * radius)
        return self._solid(body, radius)

    # --- reading ----------------------------------------------------------------------------------------------------------------------

    def _read_joints(self) -> None:
        groups = zip(self.system.joint_groups, self.system.geometry.joints, strict=True)
        forces = zip(self.system.force_groups, self.system.geometry.forces, strict=True)
        for group, stacked in (*groups, *forces):
            element = group.element
            if not isinstance(element, AbstractAxisJoint | Spherical | Universal | Fixed | Bushing | Distance | SpringDamper):
                continue
            for i, bodies in enumerate(group.bodies):
                local = pick(stacked, i)
                first, second = vector(local.point_a), vector(local.point_b)
                self.attached[bodies[1]].append(second)
                if isinstance(element, (*_HELD, Distance, SpringDamper)):
                    self.attached[bodies[0]].append(first)
                if isinstance(element, Revolute | Spherical | Universal):
                    axis = vector(local.triad_b[0]) if isinstance(element, Revolute) else None
                    self.hinges.append((bodies[0], bodies[1], first, second, axis))

    def _read_contacts(self) -> None:
        for group, stacked in zip(self.system.force_groups, self.system.geometry.forces, strict=True):
            if isinstance(group.element, AbstractContact):
                for i, bodies in enumerate(group.bodies):
                    own, other = _touching(pick(group.element, i), pick(stacked, i))
                    for body, shape in zip(bodies, (own, other), strict=True):
                        if isinstance(shape, shapes.Plane):
                            if body == self.ground:
                                self.planes.append(shape)
                        elif shape is not None:
                            self.from_contacts[body].append(shape)

    # --- derived ----------------------------------------------------------------------------------------------------------------------

    def _solid(self, body: int, radius: float) -> Shapes:
        group, place, _ = self.system.body_slices()[self.system.body_names[body]]
        one = pick(group.body, place)
        mass = float(one.mass)
        if not group.body.has_orientation:
            return [shapes.Sphere(min(1.5 * radius, (0.75 * mass / np.pi / 7850.0) ** (1 / 3)), metallic=0.5)]
        ends = _apart(self.attached[body])
        if self.system.planar:
            return self._flat(float(one.inertia), mass, ends, radius)
        inertia = vector(one.inertia)
        if inertia.ndim == 0:  # a rotor knows its moment about the axis only
            size = np.sqrt(2 * float(inertia) / mass)
            return [shapes.Disc(size, 0.3 * size, vector(one.axis))]
        moments, axes = np.linalg.eigh(inertia)
        if np.allclose(inertia, np.diag(np.diag(inertia))):
            moments, axes = np.diag(inertia), np.eye(3)
        solid = _like(moments, axes, mass)
        length = max((np.linalg.norm(end) for end in ends), default=0.0)
        if len(ends) >= 2 and length > 0.3 * max(_reach(solid), 1e-12) and _lightweight(solid, ends):
            return _bars(ends, max(0.05 * float(length), 0.4 * radius))
        return [solid, *self._arms(body, [solid], 0.3 * radius)]

    def _flat(self, inertia: float, mass: float, ends: list[np.ndarray], radius: float) -> Shapes:
        length = np.sqrt(12 * inertia / mass)  # of a uniform rod
        distances = [float(np.linalg.norm(end)) for end in ends]
        if len(ends) == 1 and abs(distances[0] - 0.5 * length) < 0.05 * length:
            return _bars([ends[0], -ends[0]], 0.03 * length)
        if len(ends) >= 2 and max(distances) > 0.3 * length:
            return _bars(ends, max(0.05 * max(distances), 0.9 * radius))
        size = np.sqrt(6 * inertia / mass)
        block: Shapes = [shapes.Box((size, size, size))]
        return block + [shapes.Capsule(np.zeros(3), end, 0.15 * size) for end in ends if np.linalg.norm(end) > 0.6 * size]

    def _arms(self, body: int, solids: Shapes, radius: float) -> Shapes:
        """From the middle to joints that lie outside of what there is."""
        if not self._turns(body):
            return []
        reach = min(_reach(solid) for solid in solids)
        ends = [end for end in _apart(self.attached[body]) if np.linalg.norm(end) > reach or not _covers(solids[0], end)]
        return [shapes.Capsule(np.zeros(3), end, radius) for end in ends]

    def _turns(self, body: int) -> bool:
        group, *_ = self.system.body_slices()[self.system.body_names[body]]
        return group.body.has_orientation

    # --- joints -----------------------------------------------------------------------------------------------------------------------

    def pins(self, body: int, radius: float) -> Shapes:
        """Hinges and balls that the body turns in; none on bodies that say what they look like."""
        if self.given.get(self.system.body_names[body]):
            return []
        found: Shapes = []
        for _, second, _, point, axis in self.hinges:
            if second == body:
                if axis is None:
                    found.append(shapes.Sphere(1.3 * radius, point, color=DARK))
                else:
                    half = 1.5 * radius * axis
                    found.append(shapes.Cylinder(point - half, point + half, 1.2 * radius, color=DARK))
        return found

    def supports(self, radius: float) -> Shapes:
        """Feet of what hangs on the ground: pyramids with the joint at the top."""
        found: Shapes = []
        for first, second, on_first, on_second, _ in self.hinges:
            names = (*self.system.frame_names, "ground")
            if self.ground in (first, second) and not self.given.get(names[first if second == self.ground else second]):
                point = on_first if first == self.ground else on_second
                found.append(_foot(point, self.up, 3.5 * radius))
        return found


def _foot(top: np.ndarray, up: np.ndarray, height: float) -> shapes.Mesh:
    side = np.eye(3)[np.argmin(np.abs(up))]
    other = np.cross(up, side)
    corners = [top] + [top - height * up + 0.6 * height * (a * side + b * other) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))]
    triangles = [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 1), (1, 4, 3), (1, 3, 2)]
    return shapes.Mesh(np.array(corners), np.array(triangles), color="#8d939c")


def _apart(points: list[np.ndarray]) -> list[np.ndarray]:
    """Without those that coincide with another."""
    found: list[np.ndarray] = []
    for point in points:
        if all(np.linalg.norm(point - other) > 1e-6 * (1 + np.linalg.norm(point)) for other in found):
            found.append(point)
    return found


def _bars(ends: list[np.ndarray], radius: float) -> Shapes:
    """A bar between two points, or a star of them."""
    if len(ends) == 2:
        across = np.linalg.norm(np.cross(ends[0], ends[1])) / max(np.linalg.norm(ends[1] - ends[0]), 1e-300)
        if across < 4 * radius:  # the line passes the middle
            return [shapes.Capsule(ends[0], ends[1], radius)]
    return [shapes.Capsule(np.zeros(3), end, radius) for end in ends if np.linalg.norm(end) > 0]


def _like(moments: np.ndarray, axes: np.ndarray, mass: float) -> Any:
    """The uniform sphere, disc, bar or box of this mass and these principal moments."""
    if np.ptp(moments) < 0.02 * moments.max():
        return shapes.Sphere(np.sqrt(2.5 * moments.mean() / mass))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        if abs(moments[j] - moments[k]) < 0.02 * moments.max():
            radius = np.sqrt(2 * moments[i] / mass)
            square = 12 * moments[j] / mass - 3 * radius**2
            return shapes.Disc(radius, np.sqrt(max(square, (0.05 * radius) ** 2)), axes[:, i])
    squares = 6 / mass * (moments.sum() - 2 * moments)
    sizes = np.sqrt(np.maximum(squares, 1e-3 * squares.max()))
    return shapes.Box(sizes, axes=axes if np.linalg.det(axes) > 0 else -axes)


def _reach(shape: Any) -> float:
    return float(np.linalg.norm(shape.surface().vertices, axis=1).max())


def _covers(shape: Any, point: np.ndarray) -> bool:
    """Whether a convex shape has the point within or nearly so."""
    surface = shape.surface()
    centres = surface.vertices[surface.triangles].mean(axis=1)
    normals = surface.normals[surface.triangles[:, 0]]
    return bool(np.all(np.sum((1.05 * centres - point) * normals, axis=1) > 0))


def _lightweight(solid: Any, ends: list[np.ndarray]) -> bool:
    """Whether bars between joints tell more than the solid: those joints lie at its ends or outside."""
    return 2 * sum(not _covers(solid, end) for end in ends) >= len(ends)


def _touching(contact: AbstractContact, local: Any) -> tuple[Any, Any]:
    """Shapes of a pair, in the bodies' axes."""
    match contact:
        case SpherePlane():
            return shapes.Sphere(float(contact.radius), local.centre), shapes.Plane(local.point, local.normal)
        case SphereSphere():
            return shapes.Sphere(float(contact.radius_a), local.centre_a), shapes.Sphere(float(contact.radius_b), local.centre_b)
        case BoxPlane():
            return shapes.Box(contact.sizes, vector(local.spots).mean(axis=0)), shapes.Plane(local.point, local.normal)
        case CapsulePlane():
            return _capsule(vector(local.spots), float(contact.radius)), shapes.Plane(local.point, local.normal)
        case EllipsoidPlane():
            return shapes.Ellipsoid(contact.semi_axes, local.centre), shapes.Plane(local.point, local.normal)
        case CoinPlane():
            axis = np.linalg.eigh(vector(local.squares))[1][:, 0]
            thickness = 2 * max(float(contact.edge_radius), 0.02 * float(contact.radius))
            return shapes.Disc(float(contact.radius), thickness, axis, local.centre), shapes.Plane(local.point, local.normal)
        case DiscLine():
            return _coin(float(contact.radius), local.centre), shapes.Plane(local.point, local.normal)
        case DiscDisc():
            return _coin(float(contact.radius_a), local.centre_a), _coin(float(contact.radius_b), local.centre_b)
        case SphereGroove():
            sign, groove, pitch = float(contact.towards), float(contact.groove_radius), float(contact.pitch_radius)
            near, far = sorted((pitch + sign * 0.6 * groove, pitch + sign * 1.5 * groove))
            ring = shapes.Ring(max(near, 0.1 * pitch), far, 2.4 * groove, local.axis, local.point)
            return shapes.Sphere(float(contact.radius), local.centre, metallic=0.5), ring
        case CylinderCylinder():
            width, edges = float(contact.width), vector(local.edges)
            ring = shapes.Ring(0.93 * float(contact.radius), float(contact.radius), width, edges[1] - edges[0], edges.mean(axis=0))
            return ring, None
        case AbstractPocket():
            return shapes.Sphere(float(contact.radius), local.centre, metallic=0.5), None
    return None, None


def _capsule(ends: np.ndarray, radius: float) -> shapes.Capsule:
    return shapes.Capsule(ends[0], ends[1], radius)


def _coin(radius: float, centre: Any) -> shapes.Disc:
    return shapes.Disc(radius, 0.4 * radius, UP, centre)
