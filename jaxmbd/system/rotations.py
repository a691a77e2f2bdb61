"""Rotations: Euler parameters p = (e0, e1, e2, e3), |p| = 1, and the matrices that belong to them.

A point s of the body stands at r + A(p) s; the angular velocity is 2 E(p) p' in the ground's axes and 2 G(p) p' in the body's.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def skew(u: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """The matrix of u x."""
    zero = jnp.zeros_like(u[0])
    return jnp.array([[zero, -u[2], u[1]], [u[2], zero, -u[0]], [-u[1], u[0], zero]])


def rotation_matrix(p: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """A(p), body axes to ground axes."""
    w, x, y, z = p
    return jnp.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )


def ground_rates(p: Float[Array, "4"]) -> Float[Array, "3 4"]:
    """E(p): omega in the ground's axes is 2 E p'."""
    w, x, y, z = p
    return jnp.array([[-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])


def body_rates(p: Float[Array, "4"]) -> Float[Array, "3 4"]:
    """G(p): omega in the body's axes is 2 G p'."""
    w, x, y, z = p
    return jnp.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])


def planar_rotation(angle: Float[Array, ""]) -> Float[Array, "3 3"]:
    """Rotation about z."""
    c, s, zero, one = jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle), jnp.ones_like(angle)
    return jnp.array([[c, -s, zero], [s, c, zero], [zero, zero, one]])


def rotation_vector(A: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """Axis times angle of a rotation by less than half a turn, smooth at zero.

    The vector part of A is sin(angle) axis, half its trace - 1 the cosine; the factor angle / sin(angle) is replaced by its series near
    zero, on the inside of the branch, so that the derivative at zero is exact.
    """
    s = 0.5 * jnp.array([A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]])
    sine_squared = s @ s
    cosine = 0.5 * (jnp.trace(A) - 1.0)
    small = (sine_squared < 1e-8) & (cosine > 0)
    sine = jnp.sqrt(jnp.where(small, 1.0, sine_squared))
    factor = jnp.where(small, 1.0 + sine_squared / 6.0, jnp.arctan2(sine, cosine) / sine)
    return factor * s


def unit(u: Float[Array, "n"]) -> Float[Array, "n"]:
    """u over its length; directions are checked not to be zero when they are read."""
    return u / jnp.sqrt(u @ u)


def triad(axis: Float[Array, "3"]) -> tuple[Float[Array, "3"], Float[Array, "3"], Float[Array, "3"]]:
    """Right-handed unit vectors (t, n, k) with t along the axis. For an axis in the x-y plane n lies in that plane and k is z."""
    t = unit(axis)
    upright = jnp.abs(t[2]) > 0.7
    helper = jnp.where(upright, jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0]))
    n = unit(jnp.cross(helper, t))
    return t, n, jnp.cross(t, n)


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
