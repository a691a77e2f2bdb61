"""Closed loops of equal chords round circles: belts and tracks as they start, and how their parts are laid out in the x-y plane."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..system.bodies.planar import PlanarBody
from ..system.bodies.rigid import RigidBody


class Circle(NamedTuple):
    """What a loop runs round clockwise: its inside lies to the right of the way."""

    centre: np.ndarray
    """m"""
    radius: float
    """m, of the corners of the loop"""
    name: str
    backside: bool = False
    """touched from outside of the loop, which turns counterclockwise there"""


class Path:
    """The shortest line round circles in the order of travel: arcs and the tangents between them, from the beginning of the first arc."""

    def __init__(self, circles: Sequence[Circle]):
        reach = np.array([-c.radius if c.backside else c.radius for c in circles])
        centres = np.array([c.centre for c in circles])
        spans = np.roll(centres, -1, axis=0) - centres
        distances = np.hypot(*spans.T)
        sines = (reach - np.roll(reach, -1)) / distances
        if np.any(np.abs(sines) >= 1):
            raise ValueError(f"the circles of the loop round {', '.join(c.name for c in circles)} lie in each other.")
        away = np.arctan2(spans[:, 1], spans[:, 0]) - np.arcsin(sines)
        """direction of the tangent that leaves each circle"""
        come = np.roll(away, 1)
        self.wraps = np.where(reach > 0, come - away, away - come) % (2 * np.pi)
        """rad, of each arc"""
        for circle, wrap in zip(circles, self.wraps, strict=True):
            if wrap > np.radians(300):
                raise ValueError(f"the loop does not touch {circle.name!r}: move it, or leave it out.")
        self.centres, self.reach, self.begins = centres, reach, come
        straight = distances * np.sqrt(1 - sines**2)
        self.starts = np.concatenate([[0.0], np.cumsum(np.stack([np.abs(reach) * self.wraps, straight], axis=1).ravel())])
        self.length = float(self.starts[-1])

    def at(self, way: float) -> tuple[np.ndarray, np.ndarray]:
        """(point, direction of travel) after a way [m]; round and round."""
        way = way % self.length
        piece = min(int(np.searchsorted(self.starts, way, side="right")) - 1, 2 * len(self.reach) - 1)
        i, rest = piece // 2, way - self.starts[piece]
        reach = self.reach[i]
        turned = rest if piece % 2 == 0 else abs(reach) * self.wraps[i]
        angle = self.begins[i] - turned / reach
        along = np.array([np.cos(angle), np.sin(angle)])
        point = self.centres[i] + reach * np.array([-along[1], along[0]])
        return (point if piece % 2 == 0 else point + rest * along), along

    def spans(self) -> np.ndarray:
        """(n, 2), m: the middles of the straight parts, each after the circle of its number."""
        return np.array([self.at(0.5 * (self.starts[2 * i + 1] + self.starts[2 * i + 2]))[0] for i in range(len(self.reach))])

    def walk(self, chord: float, count: int) -> tuple[np.ndarray, float]:
        """(corners of a line of `count` equal chords [m], its last point left out, and how far it overshoots the beginning [m])."""
        points, way = [], 0.0
        for _ in range(count):
            here, _ = self.at(way)
            points.append(here)
            guess = way + chord
            for _ in range(50):  # Newton's method; a chord is nearly as long as its arc
                there, along = self.at(guess)
                gap = there - here
                distance = np.hypot(*gap)
                change = (chord - distance) / (along @ gap / distance)
                guess += change
                if abs(change) < 1e-15:
                    break
            way = guess
        return np.array(points), way - self.length


class Chords(NamedTuple):
    """Pieces of a loop, from corner to corner."""

    corners: np.ndarray
    """(n, 2), m; the piece i goes from corner i to corner i + 1"""
    angles: np.ndarray
    """rad, of the pieces, without jumps: they fall by a full turn round the loop"""

    @staticmethod
    def between(corners: np.ndarray) -> "Chords":
        steps = np.roll(corners, -1, axis=0) - corners
        return Chords(corners, np.unwrap(np.arctan2(steps[:, 1], steps[:, 0])))

    @property
    def middles(self) -> np.ndarray:
        return 0.5 * (self.corners + np.roll(self.corners, -1, axis=0))

    def end(self, i: int) -> np.ndarray:
        return self.corners[(i + 1) % len(self.corners)]


def close(overshoot: Callable[[float], float], low: float, high: float, what: str) -> float:
    """The value between two bounds for which a loop closes, to rounding."""
    from scipy.optimize import brentq

    values = overshoot(low), overshoot(high)
    if values[0] * values[1] > 0:
        raise ValueError(
            f"no {what} between {low:.4g} and {high:.4g} closes the loop: it would overshoot by {values[0]:.3g} or {values[1]:.3g} m."
        )
    return float(brentq(overshoot, low, high, xtol=1e-15, rtol=1e-15))  # pyright: ignore[reportArgumentType]


class Layout(NamedTuple):
    """Bodies and points that lie in the x-y plane, for a planar model or its spatial twin."""

    spatial: bool

    @property
    def axis(self) -> tuple[float, float, float] | None:
        """The direction out of the plane, as joints and contacts ask for it."""
        return (0.0, 0.0, 1.0) if self.spatial else None

    def point(self, point: Any, z: float = 0.0) -> np.ndarray:
        return np.array([*point, z]) if self.spatial else np.asarray(point, dtype=float)

    def body(self, name: str, mass: float, inertia: Sequence[float], position: Any, angle: float = 0.0, *, shape: Any = None) -> Any:
        """At rest; `inertia` [kg m^2] about its x, y and z axes, the last of which is the plane's."""
        if not self.spatial:
            return PlanarBody(name, mass, inertia[2], position, angle, shape=shape)
        turned = (np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2))
        return RigidBody(name, mass, tuple(inertia), (*position, 0.0), turned, shape=shape)


def disc_inertia(mass: float, radius: float, width: float, about_axis: float | None = None) -> tuple[float, float, float]:
    """kg m^2, of a disc with its axis along z; about that axis 0.5 mass radius^2 unless given."""
    polar = 0.5 * mass * radius**2 if about_axis is None else about_axis
    across = 0.5 * polar + mass * width**2 / 12
    return across, across, polar


def box_inertia(mass: float, sizes: Sequence[float]) -> tuple[float, float, float]:
    """kg m^2, of a box with these edges [m]."""
    x, y, z = (size**2 for size in sizes)
    return mass * (y + z) / 12, mass * (x + z) / 12, mass * (x + y) / 12
