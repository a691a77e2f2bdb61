"""Random mechanisms, planar and in space: trees and closed loops of all joints, with springs, dampers, bushings, contacts, drives.

A `Structure` is what is joined to what: all that a program is compiled for. Its numbers are drawn anew as often as one likes:

    structure = random_structure(seed)
    drawn = structure.draw(number)  # a model, and in which units it was drawn

Everything is drawn in units of its own (a length, a mass, a time, each over decades), with numbers near one in these units. Bodies are placed
first and joints go through points and along axes that both bodies share there, so that every loop closes exactly. Velocities are drawn
too; a run begins with the nearest ones that fit.
"""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import jaxmbd as mbd

GROUND = -1
_IN_SPACE = {"Spherical": 3, "Revolute": 5, "Translational": 5, "Cylindrical": 4, "Universal": 4, "Fixed": 6, "Planar": 3, "Inline": 2}
_IN_SPACE |= {"Inplane": 1, "Parallel": 2, "Perpendicular": 1, "Distance": 1, "Screw": 5}
_IN_PLANE = {"Revolute": 2, "Spherical": 2, "Translational": 2, "Fixed": 3, "Inline": 1, "Inplane": 1, "Perpendicular": 1, "Distance": 1}
ROWS: dict[bool, dict[str, int]] = {False: _IN_SPACE, True: _IN_PLANE}
"""Whether planar; by the kind of a joint between two bodies, how many freedoms it takes."""
FOR_POINTS = ("Spherical", "Inline", "Inplane", "Distance")
"""Joints whose second body may be a point mass."""
TURNING, TRAVELLING = ("Revolute", "Cylindrical"), ("Translational", "Cylindrical")
ON_FLOOR = {False: ("SpherePlane", "BoxPlane", "CapsulePlane", "EllipsoidPlane", "CoinPlane"), True: ("DiscLine",)}
SIDE_BY_SIDE = {False: "SphereSphere", True: "DiscDisc"}
LOSSLESS_LAWS, LOSSY_LAWS = ("LinearContact", "Hertz"), ("LinearContact", "HuntCrossley", "LankaraniNikravesh", "HertzLine")


class Swing(eqx.Module):
    """amplitude (1 - cos(rate t)): begins at zero, at rest."""

    amplitude: Array
    rate: Array
    """rad/s"""

    def __call__(self, t: Array) -> Array:
        return self.amplitude * (1.0 - jnp.cos(self.rate * t))


@dataclasses.dataclass(frozen=True)
class Link:
    """An element of some kind between two bodies, by their numbers."""

    kind: str
    a: int
    b: int
    carrier: int = GROUND


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A model, and the units in which its numbers are near one."""

    model: mbd.Model
    length: float
    """m"""
    mass: float
    """kg"""
    time: float
    """s"""


@dataclasses.dataclass(frozen=True)
class Structure:
    """What is joined to what, and by which kinds of elements."""

    seed: int
    planar: bool
    points: tuple[bool, ...]
    """of every body, whether it is a point mass"""
    joints: tuple[Link, ...]
    """those of the tree, in the order of the bodies that they add; then those that close loops, gears and motions"""
    forces: tuple[Link, ...]
    gravity: bool
    parallel_axes: bool
    """all axes of joints have one direction: in space, loops have redundant rows"""
    lossless: bool
    stiff: bool
    penalty: bool
    """joints are held by penalties"""
    law: str
    friction: str

    @property
    def floating(self) -> bool:
        """Whether nothing but gravity acts from outside: momenta are known then."""
        return not any(GROUND in (link.a, link.b) or link.kind in ("PointForce", "Torque") for link in (*self.joints, *self.forces))

    @property
    def driven(self) -> bool:
        return any(link.kind in ("Motion", "PointForce", "Torque") for link in (*self.joints, *self.forces))

    @property
    def contacts(self) -> bool:
        return bool(self.law)

    def __str__(self) -> str:
        words = ["planar" if self.planar else "spatial", "floating" if self.floating else "grounded"]
        words += [word for word in ("lossless", "stiff", "penalty", "parallel_axes") if getattr(self, word)]
        words += [" ".join(f"{link.kind}({link.a},{link.b})" for link in (*self.joints, *self.forces))]
        return " ".join([*words, self.law, self.friction, "gravity" * self.gravity]).strip()

    def draw(self, number: int) -> Drawn:
        return _Draw(self, np.random.default_rng((self.seed, 1, number))).model()


# --- structures ---------------------------------------------------------------------------------------------------------------------------


def random_structure(seed: int, **given: Any) -> Structure:
    """What is `given` (fields of `Structure` that are flags: planar, lossless, stiff, penalty; or floating, contacts) is not left to chance."""
    rng = np.random.default_rng((seed, 0))
    chance = lambda name, share: bool(given.get(name, rng.random() < share))  # noqa: E731
    planar, floating, lossless = chance("planar", 0.5), chance("floating", 0.25), chance("lossless", 0.5)
    penalty, contacts = chance("penalty", 0.2), chance("contacts", 0.3)
    stiff = chance("stiff", 0.25) and not lossless
    parallel_axes = not planar and rng.random() < 0.1
    tree = _Tree(rng, planar, floating, parallel_axes)
    for _ in range(rng.integers(3, 5) if parallel_axes else rng.integers(1, 5)):
        tree.grow()
    if rng.random() < 0.2:
        tree.add_gear()
    for _ in range(rng.integers(0, 6)):
        tree.close_loop()
    if not lossless and not floating and rng.random() < 0.7:
        tree.drive()
    forces = tree.contacts(floating) if contacts else []
    law = str(rng.choice(LOSSLESS_LAWS if lossless else LOSSY_LAWS)) if forces else ""
    friction = "" if lossless or not forces else str(rng.choice(["", "Coulomb", "Coulomb", "LuGre"]))
    forces += [link for _ in range(rng.integers(0, 4)) if (link := tree.force(floating, lossless))]
    gravity = bool(rng.random() < (0.5 if floating else 0.8))
    joints = (*tree.joints, *tree.closing)
    return Structure(
        seed, planar, tuple(tree.points), joints, tuple(forces), gravity, parallel_axes, lossless, stiff, penalty, law, friction
    )


class _Tree:
    """A structure while it grows: counts what joints leave to move."""

    def __init__(self, rng: np.random.Generator, planar: bool, floating: bool, parallel_axes: bool):
        self.rng, self.planar, self.floating = rng, planar, floating
        self.kinds = ["Revolute"] if parallel_axes else list(ROWS[planar])
        self.rows = ROWS[planar] | ({"Revolute": 2} if parallel_axes else {})
        """that take a freedom from a loop"""
        self.whole = 3 if planar else 6
        self.points: list[bool] = []
        self.joints: list[Link] = []
        self.closing: list[Link] = []
        self.parent: list[int] = []
        self.freedoms: list[int] = []
        """of each body against its parent, those that loops and drives have not taken"""

    def oriented(self) -> list[int]:
        return [body for body, point in enumerate(self.points) if not point]

    def grow(self, kind: str | None = None, parent: int | None = None) -> None:
        body, rng = len(self.points), self.rng
        point = kind is None and body > 0 and rng.random() < 0.12
        if parent is None:
            candidates = self.oriented() + ([] if self.floating else [GROUND])
            # Mostly chains: they move more than brooms.
            parent = int(rng.choice(candidates)) if candidates and rng.random() < 0.4 else (self.oriented() or [GROUND])[-1]
        self.points.append(point)
        self.parent.append(parent)
        if self.floating and body == 0:
            self.freedoms.append(self.whole)
            return
        kinds = [k for k in self.kinds if k in FOR_POINTS] if point else self.kinds
        kind = kind or str(rng.choice(kinds or ["Distance"]))
        self.joints.append(Link(kind, parent, body))
        own = self.whole - (0 if not point else (1 if self.planar else 3))
        self.freedoms.append(own - ROWS[self.planar][kind])

    def add_gear(self) -> None:
        """Two bodies with bearings on a third, or on the ground, geared to each other."""
        parent = int(self.rng.choice(self.oriented()))
        first, second = len(self.points), len(self.points) + 1
        rack = self.rng.random() < 0.4
        self.grow("Revolute", parent)
        self.grow("Translational" if rack else "Revolute", parent)
        self.freedoms[first] = self.freedoms[second] = 0  # nothing but the gear moves them
        self.closing.append(Link("RackAndPinion" if rack else "Gear", first, second, parent))

    def _path(self, body: int) -> list[int]:
        found = []
        while body != GROUND:
            found.append(body)
            body = self.parent[body]
        return found

    def close_loop(self) -> None:
        """A further joint that takes fewer freedoms than the joints on the way between its bodies leave."""
        bodies = self.oriented() + ([] if self.floating else [GROUND])
        if len(bodies) < 2:
            return
        a, b = (int(body) for body in self.rng.choice(bodies, 2, replace=False))
        a, b = (b, a) if b == GROUND else (a, b)
        between = sorted(set(self._path(a)) ^ set(self._path(b)))
        if self.floating:
            between = [body for body in between if body != 0]
        free = sum(self.freedoms[body] for body in between)
        kinds = [kind for kind in self.kinds if self.rows[kind] < free]
        if not kinds or any(self.freedoms[body] == 0 for body in between):
            return
        kind = str(self.rng.choice(kinds))
        self.closing.append(Link(kind, a, b))
        for body in between:
            self.freedoms[body] = 0  # one loop for each joint: no two loops ask for the same freedom

    def drive(self) -> None:
        """A motion, where a joint leaves it and something else may still move."""
        able = [link for link in self.joints if link.kind in (*TURNING, *TRAVELLING) and self.freedoms[link.b] > 0]
        if able and sum(self.freedoms) > 1:
            link = able[self.rng.integers(len(able))]
            self.freedoms[link.b] -= 1
            self.closing.append(Link("Motion", link.a, link.b))

    def force(self, floating: bool, lossless: bool) -> Link | None:
        kinds = ["SpringDamper", "SpringDamper", "TorsionSpringDamper", "Bushing"]
        kinds += [] if lossless or floating else ["PointForce", "Torque"]
        kind = str(self.rng.choice(kinds))
        bodies = list(range(len(self.points))) if kind == "SpringDamper" else self.oriented()
        b = int(self.rng.choice(bodies))
        if kind in ("PointForce", "Torque"):
            return Link(kind, b, b)
        others = [body for body in bodies if body != b] + ([] if floating else [GROUND])
        if kind == "TorsionSpringDamper" and not self.planar:  # its angle has a meaning where a joint guides it
            others = [link.a for link in self.joints if link.b == b and link.kind in TURNING]
        return Link(kind, int(self.rng.choice(others)), b) if others else None

    def contacts(self, floating: bool) -> list[Link]:
        bodies, rng = self.oriented(), self.rng
        found = [] if floating else [Link(str(rng.choice(ON_FLOOR[self.planar])), b, GROUND) for b in bodies if rng.random() < 0.6][:2]
        if len(bodies) > 1 and (floating or rng.random() < 0.3):
            a, b = (int(body) for body in rng.choice(bodies, 2, replace=False))
            found.append(Link(SIDE_BY_SIDE[self.planar], a, b))
        return found


# --- numbers ------------------------------------------------------------------------------------------------------------------------------


class _Draw:
    """Numbers for a structure."""

    def __init__(self, structure: Structure, rng: np.random.Generator):
        self.of, self.rng = structure, rng
        self.d = 2 if structure.planar else 3
        self.length, self.mass, self.time = (float(10.0 ** rng.uniform(*decades)) for decades in ((-2, 1), (-3, 3), (-2, 1)))
        self.speed, self.force = self.length / self.time, self.mass * self.length / self.time**2
        self.stiffness, self.damping = self.mass / self.time**2, self.mass / self.time
        self.resting = structure.penalty or rng.random() < 0.3  # penalties do not fit velocities to joints: they would ring
        self.axis = self.direction()
        self.axes: dict[int, np.ndarray] = {}
        """by body, the axis of the joint of the tree that guides it"""
        self.positions = self._place()
        self.sizes = rng.uniform(0.1, 0.25, len(structure.points))

    def decades(self, low: float, high: float) -> float:
        return float(10.0 ** self.rng.uniform(low, high))

    def direction(self) -> np.ndarray:
        u = self.rng.normal(size=self.d)
        return u / np.linalg.norm(u)

    def across(self, axis: np.ndarray) -> np.ndarray:
        """A direction perpendicular to an axis."""
        u = np.cross(axis, self.direction()) if self.d == 3 else np.array([-axis[1], axis[0]])
        return u / np.linalg.norm(u)

    def _place(self) -> list[np.ndarray]:
        """Positions of bodies, of each at some distance from the body that it is joined to, and of the ground as the last."""
        parents = {link.b: link.a for link in reversed(self.of.joints)}  # of several joints the first, that of the tree
        positions = [np.zeros(self.d) for _ in (*self.of.points, GROUND)]
        for body in range(len(self.of.points)):
            positions[body] = positions[parents.get(body, GROUND)] + self.rng.uniform(0.4, 1.2) * self.direction()
        return positions

    def model(self) -> Drawn:
        bodies = [self.body(number) for number in range(len(self.of.points))]
        joints = [self.joint(i, link) for i, link in enumerate(self.of.joints)]
        forces = [self.element(i, link) for i, link in enumerate(self.of.forces)]
        if self.of.gravity:
            forces.append(mbd.Gravity(-self.length / self.time**2 * np.eye(self.d)[-1]))
        return Drawn(mbd.Model(bodies, joints, forces), self.length, self.mass, self.time)

    def body(self, number: int) -> Any:
        rng, mass = self.rng, self.mass * self.decades(-0.7, 0.5)
        position = self.length * self.positions[number]
        moving = 0.0 if self.resting else 1.0
        velocity, spin = (moving * u for u in (self.speed * rng.normal(size=self.d), 1.5 * rng.normal(size=3) / self.time))
        if self.of.points[number]:
            return mbd.PointMass(f"body{number}", mass, position, velocity)
        sides = rng.uniform(0.3, 1.0, 3) * self.length
        if self.of.planar:
            return mbd.PlanarBody(f"body{number}", mass, mass * sides[0] ** 2 / 6, position, rng.uniform(-np.pi, np.pi), velocity, spin[2])
        turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        inertia = turn @ np.diag(mass / 12 * (np.sum(sides**2) - sides**2)) @ turn.T
        return mbd.RigidBody(f"body{number}", mass, 0.5 * (inertia + inertia.T), position, rng.normal(size=4), velocity, spin)

    def name(self, body: int) -> Any:
        return mbd.ground if body == GROUND else f"body{body}"

    def near(self, body: int) -> np.ndarray:
        """A point of a body: that of a point mass itself."""
        if body != GROUND and self.of.points[body]:
            return self.length * self.positions[body]
        return self.length * (self.positions[body] + self.rng.uniform(0.05, 0.3) * self.direction())

    def apart(self, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Points of two bodies that do not coincide."""
        while True:
            ends = self.near(a), self.near(b)
            if np.linalg.norm(ends[1] - ends[0]) > 0.2 * self.length:
                return ends

    # --- joints -------------------------------------------------------------------------------------------------------------------------

    def joint(self, number: int, link: Link) -> Any:
        kind, a, b = getattr(mbd, link.kind), self.name(link.a), self.name(link.b)
        name, penalty = f"joint{number}", self.penalty()
        axis = self.axis if self.of.parallel_axes else self.direction()
        if link.kind in ("Gear", "RackAndPinion", "Motion"):
            return self.drive(name, link, penalty)
        if link.kind == "Distance":
            return kind(name, a, b, *self.apart(link.a, link.b), penalty=penalty)
        if link.kind == "Fixed":
            return kind(name, a, b, penalty=penalty)
        if link.kind == "Parallel":
            return kind(name, a, b, axis, penalty=penalty)
        if link.kind == "Perpendicular":
            return kind(name, a, b, axis, self.across(axis), penalty=penalty)
        point = self.between(link)
        if link.kind == "Spherical":
            return kind(name, a, b, point, penalty=penalty)
        if link.kind == "Universal":
            return kind(name, a, b, point, axis, self.across(axis), penalty=penalty)
        if link.kind == "Screw":
            return kind(name, a, b, point, axis, self.length * self.decades(-1, 0.5), penalty=penalty)
        self.axes.setdefault(link.b, axis)
        return kind(name, a, b, point, None if self.of.planar and link.kind == "Revolute" else axis, penalty=penalty)

    def between(self, link: Link) -> np.ndarray:
        if link.b != GROUND and self.of.points[link.b]:
            return self.near(link.b)
        first, second = self.positions[link.a], self.positions[link.b]
        return self.length * (first + self.rng.uniform(0.2, 0.8) * (second - first) + 0.2 * self.direction())

    def penalty(self) -> mbd.Penalty | None:
        if not self.of.penalty:
            return None
        stiffness = self.decades(2.5, 4.0)
        damping = 0.0 if self.of.lossless else 0.2 * np.sqrt(stiffness)
        turning = self.length**2
        return mbd.Penalty(*(u * v for v in (1.0, turning) for u in (self.stiffness * stiffness, self.damping * damping)))

    def drive(self, name: str, link: Link, penalty: Any) -> Any:
        a, b, carrier, rng = self.name(link.a), self.name(link.b), self.name(link.carrier), self.rng
        axis = self.axes.get(link.b)
        if link.kind == "Motion":
            kind = next(other.kind for other in self.of.joints if other.b == link.b)
            angle = kind in TURNING
            swing = Swing(np.asarray(rng.uniform(0.1, 0.5) * (1.0 if angle else self.length)), np.asarray(rng.uniform(0.5, 4) / self.time))
            axis = None if self.of.planar and angle else axis
            coordinate = "angle" if angle else "travel"
            return mbd.Motion(name, a, b, self.between(link), axis, swing, coordinate=coordinate, penalty=penalty)
        ratio = rng.choice([-1, 1]) * self.decades(-0.5, 0.5)
        turning = None if self.of.planar else self.axes[link.a]
        if link.kind == "Gear":
            return mbd.Gear(name, a, b, turning, None if self.of.planar else axis, ratio, carrier=carrier, penalty=penalty)
        return mbd.RackAndPinion(name, a, b, turning, axis, 0.3 * ratio * self.length, carrier=carrier, penalty=penalty)

    # --- forces -------------------------------------------------------------------------------------------------------------------------

    def element(self, number: int, link: Link) -> Any:
        if link.kind in (*ON_FLOOR[self.of.planar], SIDE_BY_SIDE[self.of.planar]):
            return self.contact(f"contact{number}", link)
        a, b, rng, name = self.name(link.a), self.name(link.b), self.rng, f"force{number}"
        k = self.decades(2, 5) if self.of.stiff else self.decades(-1, 1.3)
        c = 0.0 if self.of.lossless else self.decades(-1, 0.5) * (np.sqrt(k) if self.of.stiff else 0.3)
        k, c, turning = k * self.stiffness, c * self.damping, self.length**2
        if link.kind == "SpringDamper":
            ends = self.apart(link.a, link.b)
            return mbd.SpringDamper(name, a, b, *ends, k, c, rng.uniform(0.7, 1.3) * np.linalg.norm(ends[1] - ends[0]))
        if link.kind == "TorsionSpringDamper":
            axis = None if self.of.planar else self.axes.get(link.b)
            return mbd.TorsionSpringDamper(name, a, b, axis, k * turning, c * turning, rng.uniform(-0.5, 0.5))
        if link.kind == "Bushing":
            # Stiff enough against turning that nothing here turns it by half a turn, where its rotation vector jumps.
            stiffness, damping = (
                np.concatenate([u * rng.uniform(0.5, 2.0, 3), w * rng.uniform(0.5, 2.0, 3)])
                for u, w in ((k, 50 * k * turning), (c, c * turning))
            )
            stiffness[3:] = np.maximum(stiffness[3:], 300.0 * self.stiffness * turning)
            return mbd.Bushing(name, a, b, self.between(link), stiffness, damping)
        rate = np.asarray(rng.uniform(0.5, 4.0) / self.time)
        if link.kind == "PointForce":
            return mbd.PointForce(name, a, self.near(link.a), Swing(self.force * self.direction(), rate))
        torque = 0.2 * self.force * self.length * (rng.normal(size=3) if self.d == 3 else np.asarray(rng.normal()))
        return mbd.Torque(name, a, Swing(torque, rate))

    def contact(self, name: str, link: Link) -> Any:
        kind, b, size, law = getattr(mbd, link.kind), self.name(link.b), self.length * self.sizes[link.a], self.law()
        a, centre, friction = self.name(link.a), self.length * self.positions[link.a], self.friction()
        if link.kind in SIDE_BY_SIDE.values():
            other = self.length * self.positions[link.b]
            # They leave a gap of a tenth of their distance.
            radius = 0.45 * np.linalg.norm(other - centre)
            if link.kind == "SphereSphere":
                return kind(name, a, b, radius, radius, law, friction)
            return kind(name, a, b, centre, radius, other, radius, law, friction)
        up = np.eye(self.d)[-1]
        lowest = min(position[-1] for position in self.positions) - 0.5
        floor = self.length * lowest * up
        if link.kind == "DiscLine":
            return kind(name, a, b, centre, size, floor, up, law, friction)
        if link.kind == "SpherePlane":
            return kind(name, a, b, size, floor, up, law, friction)
        if link.kind == "CapsulePlane":
            along = size * self.direction()
            return kind(name, a, b, centre - along, centre + along, 0.6 * size, floor, up, law, friction)
        if link.kind == "CoinPlane":
            return kind(name, a, b, size, self.direction(), floor, up, law, friction, edge_radius=0.3 * size, crown=0.1 * size)
        return kind(name, a, b, size * self.rng.uniform(0.5, 1.0, 3), floor, up, law, friction)

    def law(self) -> Any:
        kind, k = getattr(mbd, self.of.law), self.decades(2, 4) * self.stiffness
        damping = 0.0 if self.of.lossless else self.decades(-2, -0.5)
        if self.of.law == "LinearContact":
            return kind(k, damping * np.sqrt(k * self.mass))
        if self.of.law == "Hertz":
            return kind(k / self.length**0.5)
        if self.of.law == "HuntCrossley":
            return kind(k / self.length**0.5, damping / self.speed)
        if self.of.law == "LankaraniNikravesh":
            return kind(k / self.length**0.5, self.rng.uniform(0.3, 0.95), self.speed)
        return kind(k / self.length ** (1 / 9), damping / self.speed)

    def friction(self) -> Any:
        kinetic = self.rng.uniform(0.05, 0.6)
        if self.of.friction == "Coulomb":
            return mbd.Coulomb(kinetic, 1.2 * kinetic, 0.1 * self.speed, 0.03 * self.speed)
        if self.of.friction == "LuGre":
            return mbd.LuGre(100.0 / self.length, 1.2 * kinetic, kinetic, 0.1 * self.speed, bristle_damping=1.0 / self.speed)
        return None
