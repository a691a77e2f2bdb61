"""Euler parameters and rotation vectors against scipy, and derivatives where formulas have a zero over zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from jaxmbd.system import rotations

from .numpy_mechanics import hat, unit

ROUNDING = 1e-14


@pytest.fixture(scope="module")
def parameters() -> np.ndarray:
    return unit(np.random.default_rng(2).normal(size=(20, 4)))


def scipy_matrix(p) -> np.ndarray:
    return Rotation.from_quat(np.roll(p, -1, axis=-1)).as_matrix()


def test_euler_parameters_give_the_rotation_matrix(parameters):
    np.testing.assert_allclose(jax.vmap(rotations.rotation_matrix)(parameters), scipy_matrix(parameters), atol=ROUNDING)


def test_rate_matrices_give_the_angular_velocity_in_both_axes(parameters):
    """A' = hat(w) A = A hat(w_body) for any rate of p that keeps its length."""
    for p in parameters[:5]:
        rate = np.cross(p[1:], [0.3, -0.4, 0.5])
        rate = np.array([0.7, *rate]) - p * (p @ [0.7, *rate])
        A, A_rate = jax.jvp(rotations.rotation_matrix, (jnp.asarray(p),), (jnp.asarray(rate),))
        w, w_body = 2 * rotations.ground_rates(p) @ rate, 2 * rotations.body_rates(p) @ rate
        np.testing.assert_allclose(A_rate, hat(w) @ A, atol=10 * ROUNDING)
        np.testing.assert_allclose(A_rate, A @ hat(w_body), atol=10 * ROUNDING)
        np.testing.assert_allclose(rotations.ground_rates(p) @ rotations.ground_rates(p).T, np.eye(3), atol=ROUNDING)


def test_cross_product_and_plane_rotation():
    u, w = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.7, -1.1])
    np.testing.assert_allclose(rotations.cross(u, w), np.cross(u, w), atol=ROUNDING)
    turn = Rotation.from_euler("z", 0.7).as_matrix()
    np.testing.assert_allclose(rotations.planar_rotation(jnp.asarray(0.7)), turn, atol=ROUNDING)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-5, 2e-4, 0.1, 1.0, 3.0, np.pi - 1e-3])
def test_a_rotation_vector_is_axis_times_angle(angle):
    """Near half a turn the sine loses digits: 1e-16 over 1e-3."""
    vector = angle * unit([1.0, -0.5, 2.0])
    A = Rotation.from_rotvec(vector).as_matrix()
    np.testing.assert_allclose(rotations.rotation_vector(A), vector, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-6, 0.99e-4, 1.01e-4, 0.3])
def test_a_small_rotation_has_the_derivative_of_its_axis(angle):
    """About any small rotation, a further turn d about its own axis adds d; at zero, about every axis."""
    t = unit([1.0, -0.5, 2.0])

    def vector(d):
        matrix = jnp.asarray(Rotation.from_rotvec(angle * t).as_matrix())
        p = jnp.concatenate([jnp.cos(d / 2)[None], jnp.sin(d / 2) * t])
        return rotations.rotation_vector(rotations.rotation_matrix(p) @ matrix)

    np.testing.assert_allclose(jax.jit(jax.jacfwd(vector))(0.0), t, atol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.jacrev(vector))(0.0), t, atol=1e-8)


@pytest.mark.parametrize("axis", [(0, 0, 1), (0, 0, -2), (1, 0, 0), (0, -3, 0), (1, 1, 1), (0.1, 0, 0.99), (1e-9, 0, 1)])
def test_a_triad_is_right_handed_and_starts_with_the_axis(axis):
    t, n, k = (np.asarray(u) for u in rotations.triad(jnp.asarray(axis, float)))
    np.testing.assert_allclose(t, unit(axis), atol=ROUNDING)
    np.testing.assert_allclose(np.stack([t, n, k]) @ np.stack([t, n, k]).T, np.eye(3), atol=ROUNDING)
    np.testing.assert_allclose(np.cross(t, n), k, atol=ROUNDING)
    assert np.all(np.isfinite(_triad_derivative(jnp.asarray(axis, float))))


@jax.jit
def _triad_derivative(axis):
    return jax.jacfwd(lambda u: jnp.stack(rotations.triad(u)))(axis)


def test_a_triad_of_an_axis_in_the_plane_keeps_to_the_plane():
    _, n, k = rotations.triad(jnp.array([0.6, -0.8, 0.0]))
    np.testing.assert_allclose(n, [0.8, 0.6, 0.0], atol=ROUNDING)
    np.testing.assert_allclose(k, [0.0, 0.0, 1.0], atol=ROUNDING)


def test_every_rotation_matrix_has_euler_parameters(parameters):
    half_turns = [Rotation.from_rotvec(np.pi * unit(u)).as_matrix() for u in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, -2, 3))]
    for A in [np.eye(3), *half_turns, *scipy_matrix(parameters)]:
        p = rotations.quaternion_from_matrix(A)
        np.testing.assert_allclose(scipy_matrix(p), A, atol=1e-14)
        assert p[0] >= 0
