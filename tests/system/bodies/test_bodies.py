"""Free bodies and point masses: conservation, closed forms, and two ways to say the same inertia or orientation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

from ..numpy_mechanics import moving, quaternion_about, rotation_about, rotation_from_quaternion

GRAVITY = np.array([0.5, -1.0, -9.81])
MOMENTS = np.array([0.1, 0.2, 0.28])
SPIN = np.array([0.02, 6.0, 0.01])
"""about the middle axis, slightly off: it tumbles"""
TURN = rotation_about((1.0, -2.0, 0.5), 1.3)
END = 4.0
"""s, long enough for the middle axis to turn over"""


@pytest.fixture(scope="module")
def system() -> mbd.System:
    """Side by side: a tumbling body in several descriptions, a stone, a spherical pendulum."""
    middle = mbd.RigidBody("tumbling", 1.0, MOMENTS, (0, 0, 0), angular_velocity=SPIN)
    turned = {"position": (1, 0, 0), "velocity": (1, 2, 3), "angular_velocity": TURN @ SPIN}
    bodies = [
        middle,
        mbd.RigidBody("full inertia", 2.0, TURN @ np.diag(MOMENTS) @ TURN.T, **turned),
        mbd.RigidBody("matrix", 2.0, MOMENTS, orientation=TURN, **turned),
        mbd.RigidBody("quaternion", 2.0, MOMENTS, orientation=3 * quaternion_about((1.0, -2.0, 0.5), 1.3), **turned),
        mbd.PointMass("stone", 3.0, (0.0, 1.0, 2.0), (4.0, 0.0, 1.0)),
        mbd.PointMass("bob", 1.5, (0.8, 0.0, 0.0), (0.0, 1.0, 0.0)),
    ]
    rod = mbd.Distance("rod", mbd.ground, bodies[-1], (0.0, 0.0, 0.6), (0.8, 0.0, 0.0))
    with pytest.warns(UserWarning, match="no joint and no force but gravity acts on body 'tumbling', 'full inertia'"):
        return mbd.Model(bodies, [rod], [mbd.Gravity(GRAVITY)]).build()


@pytest.fixture(scope="module")
def runs(system) -> list[mbd.Solution]:
    """The same run with steps of 2 ms and 1 ms."""
    return [mbd.simulate(system, t1=END, step=h, integrator=mbd.HHT()) for h in (2e-3, 1e-3)]


def drift(solution) -> tuple[float, float]:
    """Largest relative change of kinetic energy and of angular momentum in ground axes."""
    body = moving(solution, "tumbling")
    in_body = np.einsum("tji,tj->ti", body.A, body.spin)
    energy = 0.5 * np.sum(MOMENTS * in_body**2, axis=1)
    momentum = np.einsum("tij,tj->ti", body.A, MOMENTS * in_body)
    change = np.linalg.norm(momentum - momentum[0], axis=1)
    return np.max(np.abs(energy / energy[0] - 1)), np.max(change) / np.linalg.norm(momentum[0])


def test_a_tumbling_body_turns_over(runs):
    body = moving(runs[1], "tumbling")
    assert np.min(np.einsum("ti,ti->t", body.A @ [0.0, 1.0, 0.0], np.broadcast_to(SPIN, body.spin.shape))) < -5.0


def test_energy_and_angular_momentum_are_kept_to_integration_accuracy(runs):
    """HHT is of second order and damps: at 6 rad/s and 1 ms drifts stay below 1e-3, and half the step leaves a quarter."""
    coarse, fine = (np.array(drift(run)) for run in runs)
    assert np.all(fine < 1e-3)
    np.testing.assert_allclose(np.log2(coarse / fine), 2.0, atol=0.3)


def test_a_full_inertia_is_a_turned_principal_one(runs):
    """Body axes that are turned against each other by a constant rotation: the same motion of the same body."""
    full, principal = moving(runs[1], "full inertia"), moving(runs[1], "matrix")
    np.testing.assert_allclose(full.A @ TURN, principal.A, atol=1e-8)
    np.testing.assert_allclose(full.r, principal.r, atol=1e-12)


def test_a_rotation_matrix_and_a_quaternion_of_any_length_are_one_orientation(runs):
    given, same = moving(runs[1], "matrix"), moving(runs[1], "quaternion")
    np.testing.assert_allclose(given.A[0], TURN, atol=1e-14)
    np.testing.assert_allclose(given.A, same.A, atol=1e-8)


def test_turning_the_whole_experiment_turns_its_result(runs):
    plain, turned = moving(runs[1], "tumbling"), moving(runs[1], "matrix")
    np.testing.assert_allclose(TURN @ plain.A, turned.A, atol=1e-7)


def test_a_stone_falls_in_a_parabola(runs):
    t = np.asarray(runs[0].ts)[:, None]
    expected = np.array([0.0, 1.0, 2.0]) + np.array([4.0, 0.0, 1.0]) * t + 0.5 * GRAVITY * t**2
    np.testing.assert_allclose(runs[0].position("stone"), expected, atol=1e-10)
    np.testing.assert_allclose(runs[0].velocity("stone"), np.array([4.0, 0.0, 1.0]) + GRAVITY * t, atol=1e-10)


def pendulum_rate(gravity):
    """A point on a sphere: r'' = g + tension along r."""

    def rate(t, y):
        r, v = np.split(y, 2)
        return np.concatenate([v, gravity - r * (gravity @ r + v @ v) / (r @ r)])

    return rate


def test_a_point_mass_on_a_rod_is_a_spherical_pendulum(runs):
    """Against its differential equation at 1e-10. Second order, 2 ms and 1 ms: errors of 1e-4, a quarter at half the step."""
    pivot, start, velocity = np.array([0.0, 0.0, 0.6]), np.array([0.8, 0.0, 0.0]), np.array([0.0, 1.0, 0.0])
    reference = solve_ivp(pendulum_rate(GRAVITY), (0, END), [*(start - pivot), *velocity], rtol=1e-10, atol=1e-12)
    errors = [np.linalg.norm(np.asarray(run.position("bob"))[-1] - pivot - reference.y[:3, -1]) for run in runs]
    assert errors[1] < 1e-3
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=0.3)
    length = np.linalg.norm(np.asarray(runs[1].position("bob")) - pivot, axis=1)
    np.testing.assert_allclose(length, 1.0, atol=1e-9)


def test_the_pull_of_the_rod_is_the_centripetal_force(runs):
    """Newton's law for the bob at every saved time; steps of one size are solved to rounding."""
    body, force = moving_point(runs[1], "bob"), np.asarray(runs[1].reaction("rod").force)
    np.testing.assert_allclose(1.5 * (body[2] - GRAVITY), force, atol=1e-6)


def moving_point(solution, name) -> list[np.ndarray]:
    where = solution.system.body_slices()[name][2]
    return [np.asarray(u)[:, where] for u in (solution.q, solution.v, solution.acceleration)]


def test_mass_matrix_and_kinetic_energy(system):
    q, v = system.q0, system.v0
    mass = np.asarray(jax.jit(lambda q: system.mass(q))(q))
    np.testing.assert_allclose(mass @ v, jax.jit(lambda q, v: system.mass_product(q, v))(q, v), atol=1e-12)
    spinning = 0.5 * SPIN @ (MOMENTS * SPIN)
    points = 0.5 * 3.0 * 17.0 + 0.5 * 1.5 * 1.0
    np.testing.assert_allclose(0.5 * v @ system.mass_product(q, v), 4 * spinning + 3 * 0.5 * 2.0 * 14.0 + points, rtol=1e-12)
    assert np.linalg.matrix_rank(mass) == mass.shape[0] - 4  # Euler parameters: no inertia along p


def test_normalize_brings_euler_parameters_back(system):
    q, v = system.normalize(1.01 * system.q0, system.v0 + 0.1 * system.q0)
    where = system.body_slices()["matrix"][2]
    p, rate = np.asarray(q)[where][3:], np.asarray(v)[where][3:]
    np.testing.assert_allclose([p @ p, p @ rate], [1.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(rotation_from_quaternion(p), TURN, atol=1e-14)


@pytest.fixture(scope="module")
def planar() -> mbd.Solution:
    bodies = [
        mbd.PointMass("stone", 3.0, (0.0, 1.0), (4.0, 0.0)),
        mbd.PointMass("bob", 1.5, (1.0, 0.0)),
        mbd.PlanarBody("plate", 2.0, 0.5, (1.0, 2.0), 0.4, (1.0, -1.0), 5.0),
    ]
    rod = mbd.Distance("rod", mbd.ground, bodies[1], (0.0, 0.0), (1.0, 0.0))
    with pytest.warns(UserWarning, match="body 'stone', 'plate'"):
        return mbd.simulate(mbd.Model(bodies, [rod], [mbd.Gravity((0.0, -9.81))]), t1=1.5, step=1e-3)


def test_planar_bodies_fall_freely(planar):
    t = np.asarray(planar.ts)
    fall = np.stack([0 * t, -0.5 * 9.81 * t**2], axis=1)
    stone = fall + np.outer(t, [4.0, 0.0]) + np.array([0.0, 1.0])
    plate = fall + np.outer(t, [1.0, -1.0]) + np.array([1.0, 2.0])
    np.testing.assert_allclose(planar.position("stone"), stone, atol=1e-10)
    np.testing.assert_allclose(planar.position("plate"), plate, atol=1e-10)
    np.testing.assert_allclose(planar.orientation("plate"), 0.4 + 5.0 * t, atol=1e-10)


def test_a_planar_point_mass_on_a_rod_is_a_pendulum(planar):
    reference = solve_ivp(lambda t, y: [y[1], -9.81 * np.cos(y[0])], (0, 1.5), [0.0, 0.0], rtol=1e-11, atol=1e-12, t_eval=planar.ts)
    expected = np.stack([np.cos(reference.y[0]), np.sin(reference.y[0])], axis=1)
    np.testing.assert_allclose(planar.position("bob"), expected, atol=1e-4)  # second order at 1 ms


def test_a_point_mass_has_no_orientation(planar):
    with pytest.raises(ValueError, match="body 'bob' is a point mass: it has no orientation"):
        planar.orientation("bob")


def test_a_body_may_be_made_from_traced_numbers():
    """Mass and inertia may be differentiated through a body's constructor."""

    def energy(mass, moments):
        body = mbd.RigidBody("b", mass, moments, velocity=(1.0, 0.0, 0.0), angular_velocity=(0.0, 2.0, 0.0))
        q, v = body.initial()
        return 0.5 * v @ body.mass_product(q, v)

    of_mass, of_moments = jax.jit(jax.grad(energy, argnums=(0, 1)))(2.0, jnp.array([0.3, 0.3, 0.3]))
    np.testing.assert_allclose(of_mass, 0.5)
    np.testing.assert_allclose(of_moments, [0.0, 2.0, 0.0], atol=1e-15)
