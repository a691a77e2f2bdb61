"""Where frames stand, as numpy sees it."""

from typing import NamedTuple

import numpy as np


class Place(NamedTuple):
    """A frame in another one."""

    rotation: np.ndarray
    position: np.ndarray

    @staticmethod
    def origin() -> "Place":
        return Place(np.eye(3), np.zeros(3))

    def then(self, other: "Place") -> "Place":
        """A frame that is given in this one, in what this one is given in."""
        return Place(self.rotation @ other.rotation, self.point(other.position))

    def point(self, local: np.ndarray) -> np.ndarray:
        return self.position + self.rotation @ local


def about(axis: int, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    matrix = np.eye(3)
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    matrix[i, i] = matrix[j, j] = c
    matrix[i, j], matrix[j, i] = -s, s
    return matrix


def fixed_angles(angles: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw about the axes that do not turn along."""
    return about(2, angles[2]) @ about(1, angles[1]) @ about(0, angles[0])


def euler(angles: np.ndarray, sequence: str) -> np.ndarray:
    """Small letters: axes that turn along; capitals: those that do not."""
    matrix = np.eye(3)
    for letter, angle in zip(sequence, angles, strict=True):
        turn = about("xyz".index(letter.lower()), float(angle))
        matrix = matrix @ turn if letter.islower() else turn @ matrix
    return matrix


def axis_angle(axis: np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def quaternion(q: np.ndarray) -> np.ndarray:
    """Scalar first."""
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def z_to(direction: np.ndarray) -> np.ndarray:
    """The shortest turn of the z axis into a direction."""
    z = direction / np.linalg.norm(direction)
    axis, sine = np.array([-z[1], z[0], 0.0]), np.hypot(z[0], z[1])
    if sine < 1e-12:
        return np.eye(3) if z[2] > 0 else np.diag([1.0, -1.0, -1.0])
    return axis_angle(axis, float(np.arctan2(sine, z[2])))
