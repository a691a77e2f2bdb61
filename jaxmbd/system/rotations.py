"""Rotations: Euler parameters p = (e0, e1, e2, e3), |p| = 1, and the matrices that belong to them.

A point s of the body stands at r + A(p) s; the angular velocity is 2 E(p) p' in the ground's axes and 2 G(p) p' in the body's.
"""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float

from .._numbers import Numbers

_CROSS = np.zeros((3, 3, 3))
for _i, _j, _k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
    _CROSS[_i, _j, _k], _CROSS[_i, _k, _j] = 1.0, -1.0
"""(u x w)_i = _CROSS_ijk u_j w_k"""

_GROUND = np.zeros((3, 4, 4))
_BODY = np.zeros((3, 4, 4))
for _i in range(3):
    for _tensor, _sign in ((_GROUND, 1.0), (_BODY, -1.0)):
        _tensor[_i, 0, _i + 1] = -1.0
        _tensor[_i, 1:, 0] = np.eye(3)[_i]
        _tensor[_i, 1:, 1:] = _sign * _CROSS[_i].T
"""E(p)_ij = _GROUND_ijk p_k = [-e, e0 I + skew(e)], G(p)_ij = _BODY_ijk p_k = [-e, e0 I - skew(e)]"""

_PLANE, _TURN, _UPRIGHT = np.diag([1.0, 1.0, 0.0]), _CROSS[2].T, np.diag([0.0, 0.0, 1.0])


def skew(u: Float[Numbers, "3"]) -> Float[Numbers, "3 3"]:
    """The matrix of u x."""
    return jnp.sum(_CROSS.swapaxes(1, 2) * u, axis=2)


def cross(u: Float[Numbers, "3"], w: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
    return jnp.stack([u[1] * w[2] - u[2] * w[1], u[2] * w[0] - u[0] * w[2], u[0] * w[1] - u[1] * w[0]])


def dot(u: Float[Numbers, "... n"], w: Float[Numbers, "... n"]) -> Float[Numbers, "..."]:
    """u . w as a reduction: XLA computes it once for all that need it."""
    return jnp.sum(u * w, axis=-1)


def fused_dot(u: Float[Numbers, "... n"], w: Float[Numbers, "... n"]) -> Float[Numbers, "..."]:
    """u . w written out, for the reasons of `product`: where few need it, for XLA computes it again in each."""
    return _add_up(u * w)


def product(A: Float[Numbers, "m n"], u: Float[Numbers, "n"]) -> Float[Numbers, "m"]:
    """A u, the terms of each row written out.

    XLA fuses that with its surroundings, where a product of matrices is a kernel of its own; and at every call its runtime on a CPU
    allocates memory for each reduction of a program, which takes longer than a short sum.
    """
    return _add_up(A * u)


def products(rows: Float[Numbers, "m n"], others: Float[Numbers, "k n"]) -> Float[Numbers, "m k"]:
    """The dot product of each row with each of the others, written out too."""
    return _add_up(rows[:, None] * others)


def _add_up(terms: Float[Numbers, "... n"]) -> Float[Numbers, "..."]:
    parts = jax.lax.split(terms, (1,) * terms.shape[-1], axis=terms.ndim - 1)
    return jnp.squeeze(functools.reduce(operator.add, parts), -1)


def invert_symmetric(A: Float[Numbers, "3 3"]) -> Float[Numbers, "3 3"]:
    """The inverse of a symmetric 3 x 3 matrix by cofactors: no call that breaks up a compiled step."""
    cofactors = jnp.stack([cross(A[1], A[2]), cross(A[2], A[0]), cross(A[0], A[1])])
    return cofactors / fused_dot(A[0], cofactors[0])


def rotation_matrix(p: Float[Numbers, "4"]) -> Float[Numbers, "3 3"]:
    """A(p) = E G^T, body axes to ground axes."""
    # Written out: as a product with a constant tensor it takes ten times as long, most of it multiplications by zero.
    e0, e1, e2, e3 = p[0], p[1], p[2], p[3]
    s0, s1, s2, s3 = e0 * e0, e1 * e1, e2 * e2, e3 * e3
    rows = (
        (s0 + s1 - s2 - s3, 2.0 * (e1 * e2 - e0 * e3), 2.0 * (e1 * e3 + e0 * e2)),
        (2.0 * (e1 * e2 + e0 * e3), s0 - s1 + s2 - s3, 2.0 * (e2 * e3 - e0 * e1)),
        (2.0 * (e1 * e3 - e0 * e2), 2.0 * (e2 * e3 + e0 * e1), s0 - s1 - s2 + s3),
    )
    # Row by row: XLA fuses no more than eight parts of a whole, and would compile nine kernels for nine.
    return jnp.stack([jnp.stack(row) for row in rows])


def ground_rates(p: Float[Numbers, "4"]) -> Float[Numbers, "3 4"]:
    """E(p): omega in the ground's axes is 2 E p'."""
    return jnp.sum(_GROUND * p, axis=2)


def body_rates(p: Float[Numbers, "4"]) -> Float[Numbers, "3 4"]:
    """G(p): omega in the body's axes is 2 G p'."""
    return jnp.sum(_BODY * p, axis=2)


# The same as products, without the matrices.


def to_ground(p: Float[Numbers, "4"], rates: Float[Numbers, "4"]) -> Float[Numbers, "3"]:
    """E(p) u"""
    return p[0] * rates[1:] - rates[0] * p[1:] + cross(p[1:], rates[1:])


def to_body(p: Float[Numbers, "4"], rates: Float[Numbers, "4"]) -> Float[Numbers, "3"]:
    """G(p) u"""
    return p[0] * rates[1:] - rates[0] * p[1:] - cross(p[1:], rates[1:])


def from_ground(p: Float[Numbers, "4"], w: Float[Numbers, "3"]) -> Float[Numbers, "4"]:
    """E(p)^T w"""
    return jnp.concatenate([-fused_dot(p[1:], w)[None], p[0] * w - cross(p[1:], w)])


def from_body(p: Float[Numbers, "4"], w: Float[Numbers, "3"]) -> Float[Numbers, "4"]:
    """G(p)^T w"""
    return jnp.concatenate([-fused_dot(p[1:], w)[None], p[0] * w + cross(p[1:], w)])


def planar_rotation(angle: Float[Numbers, ""]) -> Float[Numbers, "3 3"]:
    """Rotation about z."""
    return jnp.cos(angle) * _PLANE + jnp.sin(angle) * _TURN + _UPRIGHT


def rotation_vector(A: Float[Numbers, "3 3"]) -> Float[Numbers, "3"]:
    """Axis times angle of a rotation by less than half a turn, smooth at zero.

    The vector part of A is sin(angle) axis, half its trace - 1 the cosine; the factor angle / sin(angle) is replaced by its series near
    zero, on the inside of the branch, so that the derivative at zero is exact.
    """
    s = -0.5 * jnp.tensordot(_CROSS, A, 2)
    sine_squared = s @ s
    cosine = 0.5 * (jnp.trace(A) - 1.0)
    small = (sine_squared < 1e-8) & (cosine > 0)
    sine = jnp.sqrt(jnp.where(small, 1.0, jnp.maximum(sine_squared, 1e-30)))  # half a turn has no direction: finite, not right
    factor = jnp.where(small, 1.0 + sine_squared / 6.0, jnp.arctan2(sine, cosine) / sine)
    return factor * s


def torque_of_moment(turn: Float[Numbers, "3"], moment: Float[Numbers, "3"]) -> Float[Numbers, "3"]:
    """The torque that does the work moment . d(turn) on a body whose rotation vector is `turn`, by less than a full turn.

    The rotation vector does not change by the rotation itself but by its part along the axis and by J^-1 of the rest: the torque is J^-T moment,
    with J^-T = 1 + turn x / 2 + c turn x turn x and c = 1 / angle^2 - 1 / (2 angle tan(angle / 2)), by its series near zero. Along the axis, and
    for small rotations, it is the moment.
    """
    square = fused_dot(turn, turn)
    small = square < 0.05
    angle = jnp.sqrt(jnp.where(small, 1.0, square))
    series = 1.0 / 12.0 + square * (1.0 / 720.0 + square * (1.0 / 30240.0 + square / 1209600.0))
    c = jnp.where(small, series, 1.0 / angle**2 - 0.5 / (angle * jnp.tan(0.5 * angle)))
    across = cross(turn, moment)
    return moment + 0.5 * across + c * cross(turn, across)


def half_turn(vector: Float[Numbers, "3"]) -> tuple[Float[Numbers, ""], Float[Numbers, "3"]]:
    """The Euler parameters of a rotation by axis times angle: cosine of half the angle, and sine of it times the axis.

    The angle is exact to its eighth power, off by 1e-5 of itself at a quarter turn; the parameters have the length one to rounding. Rational,
    by the tangent of a quarter of the angle: no branch at zero, where all derivatives are wanted.
    """
    z = fused_dot(vector, vector) / 16.0
    tangent = 0.25 * (1.0 + z * (1.0 / 3.0 + z * (2.0 / 15.0 + z * (17.0 / 315.0)))) * vector
    square = fused_dot(tangent, tangent)
    return (1.0 - square) / (1.0 + square), 2.0 / (1.0 + square) * tangent


def unit(u: Float[Numbers, "n"]) -> Float[Numbers, "n"]:
    """u over its length; directions are checked not to be zero when they are read."""
    return u / jnp.sqrt(u @ u)


def triad(axis: Float[Numbers, "3"]) -> tuple[Float[Numbers, "3"], Float[Numbers, "3"], Float[Numbers, "3"]]:
    """Right-handed unit vectors (t, n, k) with t along the axis. For an axis in the x-y plane n lies in that plane and k is z."""
    t = unit(axis)
    upright = jnp.abs(t[2]) > 0.7
    helper = jnp.where(upright, jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0]))
    n = unit(cross(helper, t))
    return t, n, cross(t, n)


def quaternion_from_matrix(A: np.ndarray) -> np.ndarray:
    """Euler parameters of a concrete rotation matrix: the eigenvector of Bar-Itzhack's symmetric matrix, which has no bad cases."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = A
    K = np.array(
        [
            [xx - yy - zz, 0, 0, 0],
            [xy + yx, yy - xx - zz, 0, 0],
            [xz + zx, yz + zy, zz - xx - yy, 0],
            [zy - yz, xz - zx, yx - xy, xx + yy + zz],
        ]
    )
    _, vectors = np.linalg.eigh(K / 3.0)
    x, y, z, w = vectors[:, -1]
    p = np.array([w, x, y, z])
    return p if w >= 0 else -p


def read_orientation(body: str, orientation: Any) -> Any:
    """Euler parameters that a person gave, perhaps as a rotation matrix."""
    if isinstance(orientation, Tracer):
        return orientation
    try:
        given = np.asarray(orientation, dtype=float)
    except (TypeError, ValueError):
        return orientation  # whatever it is: the check that all parameters pass names the body
    if given.shape == (3, 3):
        if not np.allclose(given @ given.T, np.eye(3), atol=1e-6) or np.linalg.det(given) < 0:
            raise ValueError(f"orientation of body {body!r} is not a rotation matrix (orthonormal with determinant +1).")
        return quaternion_from_matrix(given)
    return given
