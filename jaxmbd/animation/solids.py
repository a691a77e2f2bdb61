"""Surfaces of what no body is: arrows, springs, rods between points, walls. Of unit length along z, to be scaled."""

import numpy as np

from ..system.shapes import Box, Plane, Revolved, Surface


def arrow() -> Surface:
    """From the origin to z = 1, its head one wide."""
    return Revolved([(0, 0), (0.4, 0), (0.4, 0.7), (1.0, 0.7), (0, 1)]).surface()


def rod() -> Surface:
    return Revolved([(0, 0), (0.5, 0), (0.5, 1), (0, 1)]).surface()


def coil(turns: int = 9, around: int = 6, along: int = 16, wire: float = 0.12) -> Surface:
    """A helix of radius one from the origin to z = 1, with straight ends."""
    t = np.linspace(0.0, 1.0, turns * along + 1)
    wound = np.clip(np.minimum(t, 1 - t) / 0.04, 0.0, 1.0)  # the ends come back to the axis
    angle = 2 * np.pi * turns * t
    middle = np.stack([wound * np.cos(angle), wound * np.sin(angle), 0.1 + 0.8 * t], axis=1)
    middle = np.concatenate([[(0, 0, 0)], middle, [(0, 0, 1)]])
    angle = np.concatenate([[0.0], angle, angle[-1:]])
    out = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    side = np.array([0.0, 0.0, 1.0])
    turn = 2 * np.pi * np.arange(around) / around
    # The section stands across the helix, which goes round rather than up.
    normals = np.cos(turn)[:, None] * out[:, None] + np.sin(turn)[:, None] * side
    vertices = middle[:, None] + wire * normals * (1.0, 1.0, 0.25)
    n = len(middle)
    index = np.arange(n * around).reshape(n, around)
    a, b = index[:-1], np.roll(index, -1, axis=1)[:-1]
    c, d = index[1:], np.roll(index, -1, axis=1)[1:]
    triangles = np.concatenate([np.stack(part, axis=-1).reshape(-1, 3) for part in ((a, c, b), (b, c, d))])
    return Surface.smooth(vertices.reshape(-1, 3), normals.reshape(-1, 3), triangles)


def wall(plane: Plane, others: list[Plane], middle: np.ndarray, size: float) -> Surface:
    """Of a plane, what lies near, and in front of the other planes."""
    unit = np.asarray(plane.normal) / np.linalg.norm(plane.normal)
    near = middle - unit * ((middle - np.asarray(plane.point)) @ unit)
    corners = Plane(near, unit, (1.5 * size, 1.5 * size)).surface().vertices[[0, 1, 2, 5]]
    for other in others:
        normal = np.asarray(other.normal)
        corners = _cut(corners, (corners - np.asarray(other.point)) @ normal)
    fan = [(0, i, i + 1) for i in range(1, len(corners) - 1)]
    return Surface.flat(corners, np.array(fan, int).reshape(-1, 3))


def _cut(corners: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """What remains of a convex polygon where the heights of its corners are positive."""
    found = []
    for a, b, ha, hb in zip(corners, np.roll(corners, -1, axis=0), heights, np.roll(heights, -1), strict=True):
        if ha >= 0:
            found.append(a)
        if ha * hb < 0:
            found.append(a + (b - a) * ha / (ha - hb))
    return np.array(found).reshape(-1, 3)


def bank(point: np.ndarray, normal: np.ndarray, middle: np.ndarray, size: float) -> Surface:
    """Of a line in the plane, a slab behind it."""
    unit = normal / np.linalg.norm(normal)
    along = np.array([unit[1], -unit[0], 0.0])
    near, thickness = middle - unit * ((middle - point) @ unit), 0.04 * size
    axes = np.stack([along, unit, np.cross(along, unit)], axis=1)
    return Box((1.5 * size, thickness, 0.3 * size), near - 0.5 * thickness * unit, axes).surface()
