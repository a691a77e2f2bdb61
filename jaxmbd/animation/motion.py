"""Where everything is at the times of the pictures, from the rows of a run."""

from typing import NamedTuple

import numpy as np

_TURN = 1.0
"""rad, the most that a body turns between two pictures; beyond half a turn nobody could tell which way"""


class Motion(NamedTuple):
    """Frames moving along rows of time; turns are unit quaternions, scalar first, without jumps of sign."""

    times: np.ndarray
    """(rows,), s"""
    positions: np.ndarray
    """(rows, bodies, 3), m"""
    velocities: np.ndarray
    turns: np.ndarray
    """(rows, bodies, 4)"""
    spins: np.ndarray
    """(rows, bodies, 3), rad/s, in the ground's axes"""

    def rotations(self) -> np.ndarray:
        """(rows, bodies, 3, 3)"""
        return matrices(self.turns)

    def points(self, body: int, local: np.ndarray) -> np.ndarray:
        """(rows, 3), where a point of a body goes."""
        return self.positions[:, body] + np.einsum("tij,j->ti", self.rotations()[:, body], local)


def picture_times(times: np.ndarray, spins: np.ndarray, duration: float, rate: float, most: int) -> np.ndarray:
    """Evenly from the first row to the last: at a rate [1/s] of playback, more of them if something turns fast, at most so many."""
    span = times[-1] - times[0]
    if span <= 0:
        return times[:1]
    fastest = np.abs(spins).max(initial=0.0) * np.sqrt(3)
    count = np.ceil(max(duration * rate, span * fastest / _TURN))
    return np.linspace(times[0], times[-1], int(np.clip(count, 1, most)) + 1)


def resample(rows: Motion, times: np.ndarray) -> Motion:
    """By cubics that meet positions and velocities of rows, and by turns about one axis from row to row."""
    if len(rows.times) == 1:
        return rows._replace(times=times, **{f: np.repeat(getattr(rows, f), len(times), axis=0) for f in rows._fields[1:]})
    left = np.clip(np.searchsorted(rows.times, times, side="right") - 1, 0, len(rows.times) - 2)
    h = (rows.times[left + 1] - rows.times[left])[:, None, None]
    s = (times - rows.times[left])[:, None, None] / np.where(h > 0, h, 1.0)
    begin, end = rows.positions[left], rows.positions[left + 1]
    slope, last = h * rows.velocities[left], h * rows.velocities[left + 1]
    chord = end - begin
    positions = begin + s * (slope + s * (3 * chord - 2 * slope - last + s * (slope + last - 2 * chord)))
    mean_spin = 0.5 * (rows.spins[left] + rows.spins[left + 1])
    turn = _turn_between(rows.turns[left], rows.turns[left + 1], h * mean_spin)
    turns = product(_exponential(s * turn), rows.turns[left])
    blend = lambda part: (1 - s) * part[left] + s * part[left + 1]  # noqa: E731
    return Motion(times, positions, blend(rows.velocities), continuous(turns), blend(rows.spins))


def _turn_between(first: np.ndarray, second: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """rad, axis times angle in the ground's axes: of those that lead from one turn to the other, the nearest to what is expected."""
    difference = product(second, first * (1, -1, -1, -1))
    difference = np.where(difference[..., :1] < 0, -difference, difference)
    sine = np.linalg.norm(difference[..., 1:], axis=-1, keepdims=True)
    angle = 2 * np.arctan2(sine, difference[..., :1])
    size = np.linalg.norm(expected, axis=-1, keepdims=True)
    axis = np.where(sine > 1e-12, difference[..., 1:] / np.where(sine > 1e-12, sine, 1.0), expected / np.where(size > 0, size, 1.0))
    along = np.sum(expected * axis, axis=-1, keepdims=True)
    return axis * (angle + 2 * np.pi * np.round((along - angle) / (2 * np.pi)))


def _exponential(turn: np.ndarray) -> np.ndarray:
    angle = np.linalg.norm(turn, axis=-1, keepdims=True)
    axis = turn / np.where(angle > 0, angle, 1.0)
    return np.concatenate([np.cos(0.5 * angle), np.sin(0.5 * angle) * axis], axis=-1)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of quaternions."""
    scalar = a[..., :1] * b[..., :1] - np.sum(a[..., 1:] * b[..., 1:], axis=-1, keepdims=True)
    vector = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + np.cross(a[..., 1:], b[..., 1:])
    return np.concatenate([scalar, vector], axis=-1)


def continuous(turns: np.ndarray) -> np.ndarray:
    """Along the first axis, each on the side of the one before: q and -q are the same turn, but pictures between them are not."""
    flips = np.sum(turns[1:] * turns[:-1], axis=-1) < 0
    signs = np.cumprod(np.where(flips, -1.0, 1.0), axis=0)
    return np.concatenate([turns[:1], turns[1:] * signs[..., None]])


def matrices(turns: np.ndarray) -> np.ndarray:
    w, x, y, z = np.moveaxis(turns, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternions(rotations: np.ndarray) -> np.ndarray:
    """Of rotation matrices (..., 3, 3): from whichever of four square roots is largest."""
    A = rotations
    trace = np.trace(A, axis1=-2, axis2=-1)
    diagonal = np.diagonal(A, axis1=-2, axis2=-1)
    squares = np.concatenate([(1 + trace)[..., None], 1 - trace[..., None] + 2 * diagonal], axis=-1)
    w, x, y, z = np.moveaxis(squares, -1, 0)
    a, b, c = (A[..., i, j] - A[..., j, i] for i, j in ((2, 1), (0, 2), (1, 0)))
    p, q, r = (A[..., i, j] + A[..., j, i] for i, j in ((1, 0), (0, 2), (2, 1)))
    candidates = np.stack([np.stack(row, axis=-1) for row in ((w, a, b, c), (a, x, p, q), (b, p, y, r), (c, q, r, z))], axis=-2)
    best = np.argmax(squares, axis=-1)[..., None, None]
    found = np.take_along_axis(candidates, best, axis=-2)[..., 0, :]
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def towards(directions: np.ndarray) -> np.ndarray:
    """Turns (rows, 4) that take the z axis into directions (rows, 3), the shortest ones; zero directions leave it."""
    length = np.linalg.norm(directions, axis=-1, keepdims=True)
    unit = np.where(length > 0, directions / np.where(length > 0, length, 1.0), (0.0, 0.0, 1.0))
    back = unit[..., 2] < -1 + 1e-12
    half = np.stack([1 + unit[..., 2], -unit[..., 1], unit[..., 0], np.zeros(unit.shape[:-1])], axis=-1)
    half = np.where(back[..., None], (0.0, 1.0, 0.0, 0.0), half)
    return continuous(half / np.linalg.norm(half, axis=-1, keepdims=True))
