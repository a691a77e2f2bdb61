"""A tree of links, and the model it stands for."""

import dataclasses
import warnings
from collections import Counter
from typing import Any

import numpy as np

from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.contact.laws import LinearContact
from ..system.contact.stops import JointStop, SlideSpringDamper
from ..system.elements import ground
from ..system.forces.gravity import Gravity
from ..system.forces.springs import Bushing, TorsionSpringDamper
from ..system.joints.one_axis import Cylindrical, Fixed, Planar, Revolute, Spherical, Translational
from ..system.joints.two_axes import Universal
from ..system.shapes import AbstractShape
from .places import Place

_REST = 1e3
"""Stops give way by a thousandth of the whole size under the whole weight."""


@dataclasses.dataclass
class Joint:
    """One freedom of a link against its parent, or a ball with three."""

    name: str
    kind: str
    """hinge, slide, ball"""
    axis: np.ndarray
    """in the link"""
    point: np.ndarray
    """m, in the link"""
    lower: float | None = None
    upper: float | None = None
    stiffness: float = 0.0
    damping: float = 0.0
    free: float = 0.0
    armature: float = 0.0


@dataclasses.dataclass
class Link:
    name: str
    place: Place
    """in the parent"""
    parent: "Link | None" = None
    joints: list[Joint] = dataclasses.field(default_factory=list)
    floating: bool = False
    mass: float = 0.0
    centre: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    """m, of mass, in the link"""
    inertia: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((3, 3)))
    """kg m^2, about the centre of mass, in the link's axes"""
    looks: list[Any] = dataclasses.field(default_factory=list)
    """functions of a Place that give a shape"""


class Builder:
    """Collects bodies, joints and forces from links, parents first."""

    def __init__(self, what: str, gravity: Any, stop: LinearContact | None):
        self.what, self.gravity, self.stop = what, np.asarray(gravity, float), stop
        self.bodies: list[RigidBody] = []
        self.joints: list[Any] = []
        self.forces: list[Any] = []
        self.scenery: list[AbstractShape] = []
        self.left_out: Counter[str] = Counter()
        self._names: set[str] = {ground.name, "energy", "gravity"}
        self._worlds: dict[int, tuple[Place, str, Place]] = {}
        """by link: where it stands, the body that it belongs to, and where that one stands"""

    def name(self, wanted: str, kind: str) -> str:
        """A name that no other body, joint or force has, without dots."""
        plain = wanted.replace(".", "_")
        plain = plain or kind
        found, number = plain, 2
        if found in self._names:
            found = f"{plain}_{kind}"
        while found in self._names:
            found, number = f"{plain}_{kind}_{number}", number + 1
        if found != wanted and wanted:
            self.left_out[f"the name of {kind} {wanted!r} (it is {found!r} here)"] += 1
        self._names.add(found)
        return found

    def build(self, links: list[Link], unread: Counter[str]) -> Model:
        size = self._size(links)
        for link in links:
            self._add(link, size)
        if not self.bodies:
            raise ValueError(f"{self.what}: nothing moves in it: no link with a mass has a joint, and none floats.")
        left_out = self.left_out + unread
        if left_out:
            told = ", ".join(f"{what} ({count} times)" if count > 1 else what for what, count in left_out.items())
            warnings.warn(f"{self.what}: not supported, and left out: {told}.", stacklevel=3)
        forces = [Gravity(self.gravity), *self.forces] if np.any(self.gravity) else self.forces
        return Model(self.bodies, self.joints, forces, scenery=self.scenery)

    def _size(self, links: list[Link]) -> tuple[float, float]:
        """(kg, m) of all that moves: what stops are measured with."""
        worlds: dict[int, np.ndarray] = {}
        places: dict[int, Place] = {}
        for link in links:
            above = Place.origin() if link.parent is None else places[id(link.parent)]
            places[id(link)] = above.then(link.place)
            worlds[id(link)] = places[id(link)].point(link.centre)
        points = np.array([*worlds.values(), *(place.position for place in places.values())])
        return sum(link.mass for link in links), max(float(np.max(np.ptp(points, axis=0))), 1e-2)

    def _add(self, link: Link, size: tuple[float, float]) -> None:
        above, body, body_place = (Place.origin(), ground.name, Place.origin()) if link.parent is None else self._worlds[id(link.parent)]
        world = above.then(link.place)
        rests = not link.joints and not link.floating
        if rests and (body == ground.name or link.mass == 0):  # a part of its parent
            self._worlds[id(link)] = (world, body, body_place)
            self._look(link, world, body, body_place)
            return
        if link.mass <= 0:
            raise ValueError(
                f"{self.what}: link {link.name!r} moves, but has no mass: give it a mass and an inertia, or fix it to its parent."
            )
        own = self.name(link.name, "body")
        centre = Place(world.rotation, world.point(link.centre))
        inertia = link.inertia
        for joint in link.joints:
            if joint.armature and joint.kind == "hinge" and len(link.joints) == 1 and body == ground.name:
                # Turning about a fixed axis, it feels an armature as inertia about that axis.
                axis = joint.axis / np.linalg.norm(joint.axis)
                inertia = inertia + joint.armature * np.outer(axis, axis)
            elif joint.armature:
                self.left_out[f"armature of joint {joint.name!r}"] += 1
        shapes = [make(Place(np.eye(3), -link.centre)) for make in link.looks]
        try:
            made = RigidBody(own, link.mass, 0.5 * (inertia + inertia.T), centre.position, centre.rotation, shape=shapes)
        except ValueError as error:
            raise ValueError(f"{self.what}: {error}") from None
        self.bodies.append(made)
        self._worlds[id(link)] = (world, own, centre)
        if rests:
            self.joints.append(Fixed(self.name(f"{link.name}_weld", "joint"), body, own))
        elif not link.floating:
            self._connect(link, world, body, own, size)

    def _look(self, link: Link, world: Place, body: str, body_place: Place) -> None:
        """The shapes of a link that is a part of another body."""
        if body == ground.name:
            self.scenery += [make(world) for make in link.looks]
            return
        inside = Place(body_place.rotation.T @ world.rotation, body_place.rotation.T @ (world.position - body_place.position))
        place = next(i for i, one in enumerate(self.bodies) if one.name == body)
        shapes = (*self.bodies[place].shape, *(make(inside) for make in link.looks))
        old = self.bodies[place]
        self.bodies[place] = RigidBody(old.name, old.mass, old.inertia, old.position, old.orientation, shape=shapes)

    def _connect(self, link: Link, world: Place, a: str, b: str, size: tuple[float, float]) -> None:
        kinds = "".join(joint.kind[0] for joint in link.joints)
        axes = [world.rotation @ joint.axis / np.linalg.norm(joint.axis) for joint in link.joints]
        points = [world.point(joint.point) for joint in link.joints]
        name = self.name(link.joints[0].name or f"{link.name}_joint", "joint")
        crossed = all(abs(axes[i] @ axes[j]) < 1e-6 for i in range(len(axes)) for j in range(i))
        hinges = [point for point, kind in zip(points, kinds, strict=True) if kind == "h"]
        meet = all(np.linalg.norm(point - hinges[0]) < 1e-9 for point in hinges)
        if kinds == "h":
            self.joints.append(Revolute(name, a, b, points[0], axes[0]))
        elif kinds == "s":
            self.joints.append(Translational(name, a, b, points[0], axes[0]))
        elif kinds == "b" or (kinds == "hhh" and crossed and meet):
            self.joints.append(Spherical(name, a, b, points[0]))
        elif kinds == "hh" and crossed and meet:
            self.joints.append(Universal(name, a, b, points[0], *axes))
        elif sorted(kinds) == ["h", "s"] and abs(axes[0] @ axes[1]) > 1 - 1e-9:
            self.joints.append(Cylindrical(name, a, b, hinges[0], axes[kinds.index("h")]))
        elif sorted(kinds) == ["h", "s", "s"] and crossed:
            self.joints.append(Planar(name, a, b, hinges[0], axes[kinds.index("h")]))
        elif kinds not in ("sssb", "ssshhh"):
            told = ", ".join(f"{joint.name!r} ({joint.kind})" for joint in link.joints)
            raise ValueError(
                f"{self.what}: the joints {told} of link {link.name!r} together are none of the joints there are. Put a small link with a mass "
                "between them."
            )
        if len(link.joints) > 1:
            for joint in link.joints:
                told = [field for field in ("lower", "upper") if getattr(joint, field) is not None]
                told += [field for field in ("stiffness", "damping") if getattr(joint, field)]
                if told:
                    self.left_out[f"{', '.join(told)} of joint {joint.name!r}, one of several of its link"] += 1
            return
        self._load(link.joints[0], name, a, b, points[0], axes[0], size)

    def _load(self, joint: Joint, name: str, a: str, b: str, point: np.ndarray, axis: np.ndarray, size: tuple[float, float]) -> None:
        """Springs, dampers and stops of a joint."""
        k, c = joint.stiffness, joint.damping
        spring = f"{name}_spring"
        if (k or c) and joint.kind == "hinge":
            self.forces.append(TorsionSpringDamper(self.name(spring, "force"), a, b, axis, k, c, joint.free))
        elif (k or c) and joint.kind == "slide":
            self.forces.append(SlideSpringDamper(self.name(spring, "force"), a, b, point, axis, k, c, joint.free))
        elif k or c:
            rows = lambda value: np.array([0.0, 0.0, 0.0, value, value, value])  # noqa: E731
            self.forces.append(Bushing(self.name(spring, "force"), a, b, point, rows(k), rows(c), stiff=False))
        if joint.lower is None and joint.upper is None:
            return
        if joint.kind == "ball":
            self.left_out[f"range of joint {joint.name!r}, a ball"] += 1
            return
        turns = joint.kind == "hinge"
        law = self.stop or _stop(*size, float(np.linalg.norm(self.gravity)) or 9.81, turns)
        coordinate = "angle" if turns else "travel"
        low, high = (-np.inf if joint.lower is None else joint.lower), (np.inf if joint.upper is None else joint.upper)
        if not low <= 0 <= high:
            warnings.warn(
                f"{self.what}: joint {joint.name!r} starts at 0, outside of its range {low:g} ... {high:g}, where its stop pushes: start within "
                f"it, simulate(..., initial=mbd.pose(system, {{'{name}.{coordinate}': ...}})).",
                stacklevel=5,
            )
        stop = JointStop(self.name(f"{name}_stop", "force"), a, b, point, axis, joint.lower, joint.upper, law, coordinate=coordinate)
        self.forces.append(stop)


def _stop(mass: float, length: float, g: float, turns: bool) -> LinearContact:
    """Half critically damped for the whole mass."""
    k, m = (_REST * mass * g * length, mass * length**2) if turns else (_REST * mass * g / length, mass)
    return LinearContact(k, float(np.sqrt(k * m)))
