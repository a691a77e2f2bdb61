"""Rigid-body kinematics and Newton-Euler in plain numpy: a second opinion on what the package computes.

Everything starts from the saved coordinates; no formula is shared with jaxmbd.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from scipy.linalg import expm

from jaxmbd.system.observing.reactions import joint_reaction


def unit(u) -> np.ndarray:
    u = np.asarray(u, dtype=float)
    return u / np.linalg.norm(u, axis=-1, keepdims=True)


def rotation_from_quaternion(p) -> np.ndarray:
    """Rodrigues' formula for one quaternion or rows of them, scalar first."""
    p = np.asarray(p, dtype=float)
    s, u = p[..., 0, None, None], p[..., 1:]
    eye = np.eye(3)
    return (s**2 - np.sum(u**2, axis=-1)[..., None, None]) * eye + 2 * u[..., :, None] * u[..., None, :] + 2 * s * hat(u)


def rotation_about(axis, angle) -> np.ndarray:
    t, angle = unit(axis), np.asarray(angle)[..., None, None]
    return np.eye(3) + np.sin(angle) * hat(t) + (1 - np.cos(angle)) * hat(t) @ hat(t)


def quaternion_about(axis, angle) -> np.ndarray:
    return np.concatenate([[np.cos(angle / 2)], np.sin(angle / 2) * unit(axis)])


def hat(u) -> np.ndarray:
    """The matrix of u x."""
    x, y, z = np.moveaxis(np.asarray(u, dtype=float), -1, 0)
    o = np.zeros_like(x)
    return np.stack([np.stack([o, -z, y], -1), np.stack([z, o, -x], -1), np.stack([-y, x, o], -1)], -2)


def twice_rate(p, rate) -> np.ndarray:
    """The vector part of 2 p' p*: the angular velocity in ground axes, and from p'' the angular acceleration."""
    p, rate = np.asarray(p), np.asarray(rate)
    s, u, ds, du = p[..., :1], p[..., 1:], rate[..., :1], rate[..., 1:]
    return 2 * (s * du - ds * u + np.cross(u, du))


class Moving(NamedTuple):
    """One body over all saved rows, in ground axes."""

    r: np.ndarray
    A: np.ndarray
    velocity: np.ndarray
    spin: np.ndarray
    acceleration: np.ndarray
    spin_rate: np.ndarray

    def point(self, local) -> np.ndarray:
        return self.r + self.A @ local

    def point_velocity(self, local) -> np.ndarray:
        return self.velocity + np.cross(self.spin, self.A @ local)

    def local(self, point) -> np.ndarray:
        """Body coordinates of a point given in the ground frame at the first row."""
        return self.A[0].T @ (np.asarray(point, dtype=float) - self.r[0])


def moving(solution, name: str) -> Moving:
    where = solution.system.body_slices()[name][2]
    q, v, a = (np.asarray(part)[:, where] for part in (solution.q, solution.v, solution.acceleration))
    if q.shape[1] == 7:
        p, rate = q[:, 3:], v[:, 3:]
        return Moving(q[:, :3], rotation_from_quaternion(p), v[:, :3], twice_rate(p, rate), a[:, :3], twice_rate(p, a[:, 3:]))
    flat = lambda u: np.concatenate([u[:, :2], np.zeros((len(u), 1))], axis=1)  # noqa: E731
    about_z = lambda u: np.stack([0 * u, 0 * u, u], axis=1)  # noqa: E731
    turn = rotation_about((0, 0, 1), q[:, 2])
    return Moving(flat(q), turn, flat(v), about_z(v[:, 2]), flat(a), about_z(a[:, 2]))


def resting(rows: int) -> Moving:
    """The ground as a body."""
    zero = np.zeros((rows, 3))
    return Moving(zero, np.broadcast_to(np.eye(3), (rows, 3, 3)), zero, zero, zero, zero)


def inertial_load(body: Moving, mass, inertia) -> tuple[np.ndarray, np.ndarray]:
    """m a and J w' + w x J w about the centre of mass: what all forces together must give."""
    J = body.A @ np.asarray(inertia, dtype=float) @ np.swapaxes(body.A, -1, -2)
    turn = np.einsum("tij,tj->ti", J, body.spin_rate) + np.cross(body.spin, np.einsum("tij,tj->ti", J, body.spin))
    return mass * body.acceleration, turn


class Load(NamedTuple):
    """Force, and torque about the centre of mass, rows by 3."""

    force: np.ndarray
    torque: np.ndarray

    def __add__(self, other):
        return Load(self.force + other.force, self.torque + other.torque)

    def __sub__(self, other):
        return Load(self.force - other.force, self.torque - other.torque)


def at(body: Moving, point: np.ndarray, force: np.ndarray, torque: Any = 0.0) -> Load:
    """A force at a point of space and a torque, as a load on the body."""
    return Load(force + 0 * body.r, np.cross(point - body.r, force) + torque)


def spring(a: Moving, b: Moving, point1, point2, stiffness, damping, free_length=None) -> Load:
    """What a spring-damper does to b."""
    p1, p2 = a.point(a.local(point1)), b.point(b.local(point2))
    d = p2 - p1
    length = np.linalg.norm(d, axis=1, keepdims=True)
    rate = np.sum(d * (b.point_velocity(b.local(point2)) - a.point_velocity(a.local(point1))), axis=1, keepdims=True) / length
    free = length[0] if free_length is None else free_length
    return at(b, p2, -(stiffness * (length - free) + damping * rate) * d / length)


class Relative(NamedTuple):
    """Motion of b against a since the start, in axes that are fixed in a and start along the ground's."""

    offset: np.ndarray
    """of the point of b from the point of a"""
    turn: np.ndarray
    """rotation matrices; they take directions of b at the start to where they are"""
    axes: np.ndarray
    """from these axes to the ground's"""

    def angle(self, axis) -> np.ndarray:
        """Angle about the axis, over full turns as long as a row does not skip half a turn."""
        t = unit(axis)
        n = unit(np.cross(t, [0.3, -0.5, 0.8]))
        moved = self.turn @ n
        return np.unwrap(np.arctan2(moved @ np.cross(t, n), moved @ n))


def relative(a: Moving, b: Moving, point) -> Relative:
    axes = a.A @ a.A[0].T
    back = np.swapaxes(axes, -1, -2)
    d = b.point(b.local(point)) - a.point(a.local(point))
    return Relative(np.einsum("tij,tj->ti", back, d), back @ b.A @ b.A[0].T, axes)


@eqx.filter_jit
def _reactions(system, states, names: tuple[str, ...]):
    def one(state):
        seen = system.recall(state.memory)
        return {name: joint_reaction(seen, name, state) for name in names}

    return jax.vmap(one)(states)


def all_reactions(solution, names) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What `solution.reaction` gives, for many joints with one compilation."""
    found = _reactions(solution.system, solution.states, tuple(names))
    return {name: (np.asarray(force), np.asarray(torque)) for name, (force, torque) in found.items()}


def torque_of_moment(turn, moment) -> np.ndarray:
    """The torque that works moment . d(turn) on a rotation vector. A rotation d changes it by J^-1 d, where J is the integral of the rotations
    from none to the whole."""
    whole = expm(np.block([[hat(turn), np.eye(3)], [np.zeros((3, 6))]]))
    return np.linalg.solve(whole[:3, 3:].T, moment)
