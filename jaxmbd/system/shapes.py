"""What bodies look like: shapes for pictures, which the equations never see.

A shape is data in its body's axes, from the centre of mass, in m. `RigidBody(..., shape=mbd.shapes.Box((1, 2, 0.5)))` takes one or a list of
them; a model's `scenery` takes shapes in the ground's axes. A shape of your own is a frozen dataclass with `surface()`:

```python
@dataclasses.dataclass(frozen=True, kw_only=True)
class Pyramid(mbd.shapes.AbstractShape):
    height: float

    def surface(self):
        corners = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0], [0, 0, self.height]], float)
        return mbd.shapes.Surface.flat(corners, np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [0, 3, 2], [0, 2, 1]]))
```
"""

import abc
import dataclasses
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

Point = tuple[float, float, float]
_AROUND = 40
"""Corners of what is round."""


class Surface(NamedTuple):
    """Triangles."""

    vertices: np.ndarray
    """(n, 3), m"""
    normals: np.ndarray
    """(n, 3), unit vectors out of the body"""
    triangles: np.ndarray
    """(m, 3), counterclockwise as seen from outside"""
    shades: np.ndarray
    """(n,), how bright, 1 as the colour says"""

    @staticmethod
    def smooth(vertices: np.ndarray, normals: np.ndarray, triangles: np.ndarray, shade: float = 1.0) -> "Surface":
        return Surface(vertices, normals, triangles, np.full(len(vertices), shade))

    @staticmethod
    def flat(corners: np.ndarray, triangles: np.ndarray) -> "Surface":
        """With sharp edges: every triangle has corners of its own."""
        own = np.asarray(corners, float)[triangles]
        across = np.cross(own[:, 1] - own[:, 0], own[:, 2] - own[:, 0])
        lengths = np.linalg.norm(across, axis=1, keepdims=True)
        normals = np.repeat(across / np.where(lengths > 0, lengths, 1.0), 3, axis=0)
        return Surface.smooth(own.reshape(-1, 3), normals, np.arange(3 * len(own)).reshape(-1, 3))

    @staticmethod
    def joined(parts: "Iterable[Surface]") -> "Surface":
        parts = list(parts)
        starts = np.cumsum([0, *(len(part.vertices) for part in parts[:-1])])
        return Surface(
            np.concatenate([part.vertices for part in parts]),
            np.concatenate([part.normals for part in parts]),
            np.concatenate([part.triangles + start for part, start in zip(parts, starts, strict=True)]),
            np.concatenate([part.shades for part in parts]),
        )

    def moved(self, rotation: np.ndarray, position: Any) -> "Surface":
        return self._replace(vertices=self.vertices @ rotation.T + np.asarray(position), normals=self.normals @ rotation.T)


class Skin(NamedTuple):
    """A surface that deforms: patterns of displacements are added to its vertices, each with a weight that changes in time.

    Modes are patterns whose weights are their coordinates; whatever else deforms is told by `snapshots`.
    """

    surface: Surface
    """as it is where all weights are zero, in the axes of its body's frame"""
    patterns: np.ndarray
    """(patterns, n, 3), m"""
    weights: np.ndarray
    """(rows, patterns)"""
    colors: np.ndarray | None = None
    """(n, 3), linear red, green and blue of 0 to 1, where all weights are zero"""
    color_patterns: np.ndarray | None = None
    """(patterns, n, 3), what patterns add to them"""

    @staticmethod
    def snapshots(vertices: Any, triangles: Any, values: Any = None, most: int = 48) -> "Skin":
        """From where its vertices (rows, n, 3) are [m] and, for colours from blue by green to red, a scalar (rows, n) such as a stress.

        Of many rows some are kept, and players go evenly from one to the next.
        """
        vertices, triangles = np.asarray(vertices, float), np.asarray(triangles).astype(int)
        rows = len(vertices)
        kept = np.unique(np.linspace(0, rows - 1, min(rows, most)).round().astype(int))
        weights = (
            np.stack([np.interp(np.arange(rows), kept, one) for one in np.eye(len(kept))[1:]], axis=1) if rows > 1 else np.zeros((1, 0))
        )
        shown = vertices[kept]
        surface = _rounded_off(shown[0], triangles)
        if values is None:
            return Skin(surface, shown[1:] - shown[0], weights)
        given = np.asarray(values, float)
        low, high = given.min(), given.max()
        share = (given[kept] - low) / (high - low if high > low else 1.0)
        colors = np.stack([np.interp(share, *_SCALE[:, [0, i]].T) for i in (1, 2, 3)], axis=-1)
        return Skin(surface, shown[1:] - shown[0], weights, colors[0], colors[1:] - colors[0])


_SCALE = np.array([[0.0, 0.03, 0.1, 0.6], [0.33, 0.05, 0.5, 0.5], [0.6, 0.3, 0.6, 0.1], [0.8, 0.9, 0.5, 0.05], [1.0, 0.75, 0.03, 0.03]])
"""Shares, and the linear red, green and blue that they are painted with."""


def _rounded_off(vertices: np.ndarray, triangles: np.ndarray) -> Surface:
    """With the mean normals of the triangles round each vertex."""
    corners = vertices[triangles]
    normals = np.zeros_like(vertices)
    for i in range(3):
        np.add.at(normals, triangles[:, i], np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return Surface.smooth(vertices, np.where(lengths > 0, normals / np.where(lengths > 0, lengths, 1.0), (0.0, 0.0, 1.0)), triangles)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AbstractShape(abc.ABC):
    """A shape with its colour."""

    color: str | None = None
    """"#rrggbb"; None: one is chosen, the same for all shapes of a body"""
    opacity: float = 1.0
    metallic: float = 0.0
    """0: paint, 1: bare metal"""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if field.name not in ("color", "axes") and not isinstance(getattr(self, field.name), str):
                object.__setattr__(self, field.name, _numbers(self, field.name, getattr(self, field.name)))
        if self.color is not None and not re.fullmatch("#[0-9a-fA-F]{6}", self.color):
            raise ValueError(f"color of a {type(self).__name__} must read like '#3b6fb6', got {self.color!r}.")
        if not 0 < self.opacity <= 1:
            raise ValueError(f"opacity of a {type(self).__name__} must be above 0 and at most 1, got {self.opacity:g}.")

    @abc.abstractmethod
    def surface(self) -> Surface:
        """In the body's axes, from its centre of mass."""


def _numbers(shape: AbstractShape, field: str, value: Any) -> Any:
    """As floats and tuples of floats: a shape can be compared and hashed. Those that are called sizes, radii, lengths must be positive."""
    try:
        array = np.asarray(value, float)
    except (TypeError, ValueError):
        raise ValueError(f"{field} of a {type(shape).__name__}: expected numbers [m], got {value!r}.") from None
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{field} of a {type(shape).__name__} is not finite: got {value!r}.")
    if re.search("radius|sizes|semi_axes|thickness|width", field) and not np.all(array >= 0):
        raise ValueError(f"{field} of a {type(shape).__name__} must not be negative: got {value!r}.")
    return _tuples(array)


def _tuples(array: Any) -> Any:
    return float(array) if array.ndim == 0 else tuple(_tuples(row) for row in array)


def read_shapes(owner: str, given: Any) -> tuple[AbstractShape, ...]:
    """One shape, several, or none."""
    shapes = (
        () if given is None else (given,) if isinstance(given, AbstractShape) else tuple(given) if isinstance(given, Iterable) else given
    )
    if not isinstance(shapes, tuple) or not all(isinstance(shape, AbstractShape) for shape in shapes):
        raise ValueError(f"{owner}: expected a shape such as mbd.shapes.Box((1, 1, 1)), or a list of them, got {given!r}.")
    return shapes


# --- shapes -------------------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Box(AbstractShape):
    """A box; its edges are along the body's axes unless `axes` gives three others."""

    sizes: Any
    """m, lengths of the edges"""
    at: Any = (0.0, 0.0, 0.0)
    """m, its middle"""
    axes: Any = None
    """a rotation matrix, columns along the edges"""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "axes", None if self.axes is None else _tuples(np.asarray(self.axes, float)))

    def surface(self):
        corners = 0.5 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * self.sizes
        faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
        triangles = np.array([t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))])
        return Surface.flat(corners, triangles).moved(np.eye(3) if self.axes is None else np.array(self.axes), self.at)


@dataclasses.dataclass(frozen=True)
class Ellipsoid(AbstractShape):
    """Its eight octants are shaded in turn, so that one sees it roll."""

    semi_axes: Any
    """m, along the body's axes; a `Sphere` has one number"""
    at: Any = (0.0, 0.0, 0.0)
    """m, its middle"""

    def surface(self):
        semi, n = np.asarray(self.semi_axes, float), 9
        a, b = np.meshgrid(np.linspace(0, np.pi / 2, n), np.linspace(0, np.pi / 2, n), indexing="ij")
        octant = np.stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)], axis=-1).reshape(-1, 3)
        i, j = (grid.ravel() for grid in np.meshgrid(np.arange(n - 1), np.arange(n - 1), indexing="ij"))
        corner = i * n + j
        right, up, across = corner + 1, corner + n, corner + n + 1
        triangles = np.concatenate([np.stack([corner, right, across], 1), np.stack([corner, across, up], 1)])
        parts = []
        for signs in np.array([[x, y, z] for x in (1, -1) for y in (1, -1) for z in (1, -1)]):
            unit, outwards = octant * signs, np.prod(signs)
            normals = unit / semi
            normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
            parts.append(Surface.smooth(unit * semi, normals, triangles[:, :: int(outwards)], 1.0 if outwards > 0 else 0.72))
        return Surface.joined(parts).moved(np.eye(3), self.at)


@dataclasses.dataclass(frozen=True)
class Sphere(AbstractShape):
    radius: float
    """m"""
    at: Any = (0.0, 0.0, 0.0)
    """m, its middle"""

    def surface(self):
        return Ellipsoid((self.radius,) * 3, self.at).surface()


@dataclasses.dataclass(frozen=True)
class Revolved(AbstractShape):
    """A closed outline, turned about an axis: rings with grooves, wheels."""

    outline: Any
    """m, corners (radius, height along the axis), once round"""
    axis: Any = (0.0, 0.0, 1.0)
    at: Any = (0.0, 0.0, 0.0)
    """m, on the axis, at height zero"""
    sectors: float | int = 0.0
    """into how many sectors of two shades it is divided, so that one sees it turn; an even number"""

    def surface(self):
        outline = np.asarray(self.outline, float)
        area = 0.5 * np.sum(outline[:, 0] * np.roll(outline[:, 1], -1) - np.roll(outline[:, 0], -1) * outline[:, 1])
        outline = outline if area > 0 else outline[::-1]
        around = max(_AROUND, int(self.sectors))
        if self.sectors:
            around = int(self.sectors) * -(-around // int(self.sectors))
        starts, ends = outline, np.roll(outline, -1, axis=0)
        tangents = ends - starts
        lengths = np.linalg.norm(tangents, axis=1)
        keep = lengths > 1e-9 * max(lengths.max(), 1e-300)
        starts, ends, tangents = starts[keep], ends[keep], tangents[keep] / lengths[keep, None]
        out = np.stack([tangents[:, 1], -tangents[:, 0]], axis=1)
        first, last = _rounded_normals(out)
        angles = 2 * np.pi * np.arange(around + 1) / around
        cosine, sine = np.cos(angles), np.sin(angles)
        vertices, normals, triangles, shades = [], [], [], []
        for p, n in ((starts, first), (ends, last)):
            vertices.append(np.stack([p[:, None, 0] * cosine, p[:, None, 0] * sine, p[:, None, 1] + 0 * sine], axis=-1))
            normals.append(np.stack([n[:, None, 0] * cosine, n[:, None, 0] * sine, n[:, None, 1] + 0 * sine], axis=-1))
        # A vertex for each edge of the outline, end of the edge, and side of the angle, so that shades change sharply.
        grid = np.stack(vertices, axis=1), np.stack(normals, axis=1)
        cells = np.arange(around)
        corner = [g[:, :, cells] for g in grid], [g[:, :, cells + 1] for g in grid]
        vertices = np.stack([corner[0][0], corner[1][0]], axis=3).reshape(-1, 3)
        normals = np.stack([corner[0][1], corner[1][1]], axis=3).reshape(-1, 3)
        edges = len(starts)
        index = np.arange(edges * 2 * around * 2).reshape(edges, 2, around, 2)
        a, b, c, d = (index[:, i, :, j].ravel() for i, j in ((0, 0), (0, 1), (1, 1), (1, 0)))
        triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
        dark = (cells * int(self.sectors) // around % 2).astype(bool) if self.sectors else np.zeros(around, bool)
        shades = np.broadcast_to(np.where(dark, 0.72, 1.0)[None, None, :, None], (edges, 2, around, 2)).ravel().copy()
        return Surface(vertices, normals, triangles, shades).moved(_along(self.axis), self.at)


def _rounded_normals(out: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At the first and last corner of every edge: shared with the neighbour where the outline bends by less than 40 degrees."""
    before, after = np.roll(out, 1, axis=0), np.roll(out, -1, axis=0)

    def shared(other):
        bent = np.sum(out * other, axis=1) < np.cos(np.radians(40))
        mean = np.where(bent[:, None], out, out + other)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    return shared(before), shared(after)


def _along(axis: Any) -> np.ndarray:
    """A rotation matrix whose third column is the axis."""
    third = np.asarray(axis, float)
    third = third / np.linalg.norm(third)
    other = np.eye(3)[np.argmin(np.abs(third))]
    first = np.cross(other, third)
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(third, first), third], axis=1)


@dataclasses.dataclass(frozen=True)
class Disc(AbstractShape):
    """A round disc of some thickness."""

    radius: float
    """m"""
    thickness: float
    """m"""
    axis: Any = (0.0, 0.0, 1.0)
    at: Any = (0.0, 0.0, 0.0)
    """m, its middle"""
    sectors: float | int = 4.0
    """into how many sectors of two shades it is divided, so that one sees it turn"""

    def surface(self):
        r, h = self.radius, 0.5 * self.thickness
        b = 0.15 * min(r, h)  # a bevel catches light
        outline = [(0, -h), (r - b, -h), (r, -h + b), (r, h - b), (r - b, h), (0, h)]
        return Revolved(outline, self.axis, self.at, self.sectors).surface()


@dataclasses.dataclass(frozen=True)
class Ring(AbstractShape):
    """A hollow cylinder."""

    inner_radius: float
    """m"""
    outer_radius: float
    """m"""
    width: float
    """m, along the axis"""
    axis: Any = (0.0, 0.0, 1.0)
    at: Any = (0.0, 0.0, 0.0)
    """m, its middle"""
    sectors: float | int = 0.0
    """into how many sectors of two shades it is divided, so that one sees it turn"""

    def surface(self):
        i, o, h = self.inner_radius, self.outer_radius, 0.5 * self.width
        return Revolved([(i, -h), (o, -h), (o, h), (i, h)], self.axis, self.at, self.sectors).surface()


@dataclasses.dataclass(frozen=True)
class Cylinder(AbstractShape):
    """A round bar from one point to another."""

    end1: Any
    """m"""
    end2: Any
    """m"""
    radius: float
    """m"""

    def surface(self):
        axis, middle = np.subtract(self.end2, self.end1), 0.5 * np.add(self.end1, self.end2)
        return Disc(self.radius, float(np.linalg.norm(axis)), axis, middle, 0.0).surface()


@dataclasses.dataclass(frozen=True)
class Capsule(AbstractShape):
    """A round bar with round ends; the points are the centres of these."""

    end1: Any
    """m"""
    end2: Any
    """m"""
    radius: float
    """m"""

    def surface(self):
        axis = np.subtract(self.end2, self.end1)
        length = float(np.linalg.norm(axis))
        turn = np.linspace(-np.pi / 2, 0, 8)
        lower = self.radius * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        upper = lower[::-1] * (1, -1) + (0, length)
        return Revolved(np.concatenate([lower, upper]), axis if length > 0 else (0, 0, 1), self.end1).surface()


@dataclasses.dataclass(frozen=True)
class Plane(AbstractShape):
    """A rectangle of the plane through a point; without sizes, as large as the scene."""

    point: Any = (0.0, 0.0, 0.0)
    """m, its middle"""
    normal: Any = (0.0, 0.0, 1.0)
    sizes: Any = ()
    """m, two edges"""

    def surface(self):
        a, b = 0.5 * np.asarray(self.sizes if len(self.sizes) == 2 else (1.0, 1.0))
        corners = np.array([[-a, -b, 0], [a, -b, 0], [a, b, 0], [-a, b, 0]])
        return Surface.flat(corners, np.array([[0, 1, 2], [0, 2, 3]])).moved(_along(self.normal), self.point)


@dataclasses.dataclass(frozen=True)
class Mesh(AbstractShape):
    """Triangles of your own, with sharp edges unless normals are given."""

    vertices: Any
    """m, (n, 3)"""
    triangles: Any
    """(m, 3), numbers of vertices, counterclockwise as seen from outside"""
    normals: Any = ()
    """(n, 3)"""

    def surface(self):
        vertices, triangles = np.asarray(self.vertices, float).reshape(-1, 3), np.asarray(self.triangles).astype(int).reshape(-1, 3)
        if triangles.size and not 0 <= triangles.min() <= triangles.max() < len(vertices):
            raise ValueError(f"triangles of a Mesh must number its {len(vertices)} vertices, from 0 on.")
        if len(self.normals):
            return Surface.smooth(vertices, np.asarray(self.normals, float), triangles)
        return Surface.flat(vertices, triangles)
