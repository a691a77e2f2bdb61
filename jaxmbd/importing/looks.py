"""Geometries as shapes for pictures, and files of meshes."""

from pathlib import Path
from typing import Any

import numpy as np

from ..system.shapes import AbstractShape, Box, Capsule, Cylinder, Ellipsoid, Mesh, Plane, Sphere
from .places import Place

_Z = np.array([0.0, 0.0, 1.0])


def shape(kind: str, sizes: np.ndarray, place: Place, **colors: Any) -> AbstractShape:
    """Of a box (edges), sphere (radius), cylinder or capsule (radius, length along z), ellipsoid (three semi-axes), plane (two edges)."""
    at, axes = place.position, place.rotation
    if kind == "box":
        return Box(sizes, at, axes, **colors)
    if kind == "sphere":
        return Sphere(sizes[0], at, **colors)
    if kind in ("cylinder", "capsule"):
        half = 0.5 * sizes[1] * (axes @ _Z)
        return (Cylinder if kind == "cylinder" else Capsule)(at - half, at + half, sizes[0], **colors)
    if kind == "plane":
        return Plane(at, axes @ _Z, sizes if np.all(sizes > 0) else (), **colors)
    surface = Ellipsoid(sizes).surface()
    return mesh(surface.vertices, surface.triangles, place, normals=surface.normals @ axes.T, **colors)


def mesh(vertices: np.ndarray, triangles: np.ndarray, place: Place, normals: Any = (), **colors: Any) -> AbstractShape:
    return Mesh(np.asarray(vertices) @ place.rotation.T + place.position, triangles, normals, **colors)


def color(rgba: np.ndarray) -> dict[str, Any]:
    """As fields of a shape."""
    r, g, b = (round(255 * float(np.clip(part, 0, 1))) for part in rgba[:3])
    return {"color": f"#{r:02x}{g:02x}{b:02x}", "opacity": float(np.clip(rgba[3], 0.05, 1.0)) if len(rgba) > 3 else 1.0}


def read_mesh(path: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """(vertices [m], triangles) of an STL or OBJ file; None if it cannot be read."""
    try:
        if path.suffix.lower() == ".obj":
            return _read_obj(path.read_text(encoding="utf-8", errors="replace"))
        if path.suffix.lower() == ".stl":
            return _read_stl(path.read_bytes())
    except (OSError, ValueError, IndexError):
        return None
    return None


def _read_obj(text: str) -> tuple[np.ndarray, np.ndarray]:
    vertices, triangles = [], []
    for words in map(str.split, text.splitlines()):
        if words[:1] == ["v"]:
            vertices.append([float(part) for part in words[1:4]])
        elif words[:1] == ["f"]:
            numbers = [int(part.partition("/")[0]) for part in words[1:]]
            corners = [number - 1 if number > 0 else len(vertices) + number for number in numbers]
            triangles += [[corners[0], corners[i], corners[i + 1]] for i in range(1, len(corners) - 1)]
    return np.array(vertices, float).reshape(-1, 3), np.array(triangles, int).reshape(-1, 3)


def _read_stl(data: bytes) -> tuple[np.ndarray, np.ndarray]:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if len(data) == 84 + 50 * count:
        record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
        corners = np.frombuffer(data, record, count, 84)["corners"].astype(float)
    else:
        lines = [line.split() for line in data.decode("utf-8", errors="replace").splitlines()]
        corners = np.array([[float(part) for part in words[1:4]] for words in lines if words[:1] == ["vertex"]]).reshape(-1, 3, 3)
    vertices, triangles = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return vertices, triangles.reshape(-1, 3)
