"""The bushing that favours neither body: energy, momentum, symmetry, the plane and space, derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbd as mbd

STIFFNESS, DAMPING = np.array([900.0, 400.0, 300.0, 5.0, 8.0, 6.0]), np.array([3.0, 2.0, 1.0, 0.1, 0.3, 0.2])
STILL = mbd.Frame(jnp.zeros(3), jnp.eye(3), jnp.zeros(3), jnp.zeros(3))


def bushing(a="a", b="b", damping=DAMPING):
    return jax.tree.map(jnp.asarray, mbd.SymmetricBushing("link", a, b, (0.1, 0.02, 0.03), (-0.2, 0.01, 0.0), STIFFNESS, damping))


@eqx.filter_jit
def load(element, local, a, b):
    wrench = element.wrench(local, (a, b), jnp.zeros(0), jnp.zeros(()), jnp.zeros(0))
    return wrench, element.potential(local, (a, b), jnp.zeros(0))


def moved(frame, way, eps):
    """A frame after a small displacement and turn (6 numbers)."""
    turn = Rotation.from_rotvec(eps * way[3:]).as_matrix()
    return eqx.tree_at(lambda f: (f.position, f.rotation), frame, (frame.position + eps * way[:3], jnp.asarray(turn) @ frame.rotation))


def pose(rng, angle):
    axis = rng.normal(size=3)
    turn = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()
    return mbd.Frame(*(jnp.asarray(u) for u in (rng.normal(size=3), turn, np.zeros(3), np.zeros(3))))


@pytest.mark.parametrize("angle", [0.0, 1e-3, 0.0099, 0.0101, 1.0, 2.8])
def test_the_load_is_the_slope_of_the_energy_and_momentum_is_kept(angle):
    """At any turn, and on both sides of where the series take over (0.01 rad)."""
    rng, element = np.random.default_rng(2), bushing()
    local = element.local((STILL, STILL))
    a = pose(rng, 2.0)
    b = pose(rng, angle)
    b = eqx.tree_at(lambda b: b.rotation, b, a.rotation @ b.rotation)
    wrench, _ = load(element, local, a, b)
    assert np.linalg.norm(wrench.force[0]) > 100
    np.testing.assert_allclose(wrench.force[0], -wrench.force[1], rtol=1e-12)
    turning = wrench.torque + np.stack([np.cross(f.position, w) for f, w in zip((a, b), wrench.force, strict=True)])
    np.testing.assert_allclose(turning[0], -turning[1], rtol=1e-10, atol=1e-9)
    for i in range(2):
        way, eps = rng.normal(size=6), 1e-5
        frames = [[moved(f, way, s * eps) if i == j else f for j, f in enumerate((a, b))] for s in (1, -1)]
        slope = (load(element, local, *frames[0])[1] - load(element, local, *frames[1])[1]) / (2 * eps)
        np.testing.assert_allclose(-(wrench.force[i] @ way[:3] + wrench.torque[i] @ way[3:]), slope, rtol=1e-6, atol=1e-6)


def test_dampers_never_give_and_do_not_feel_a_rigid_motion():
    rng, element = np.random.default_rng(3), bushing(damping=100 * DAMPING)
    local = element.local((STILL, STILL))
    a, b = pose(rng, 2.0), pose(rng, 1.0)
    rest, _ = load(element, local, a, b)
    spin, speed = rng.normal(size=3), rng.normal(size=3)
    carried = [mbd.Frame(f.position, f.rotation, jnp.asarray(speed + np.cross(spin, f.position)), jnp.asarray(spin)) for f in (a, b)]
    np.testing.assert_allclose(load(element, local, *carried)[0].force, rest.force, rtol=1e-9)
    np.testing.assert_allclose(load(element, local, *carried)[0].torque, rest.torque, rtol=1e-9, atol=1e-9)
    for _ in range(5):
        free = [mbd.Frame(f.position, f.rotation, jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=3))) for f in (a, b)]
        wrench, _ = load(element, local, *free)
        lost = [
            (w - r) @ v
            for f, *pairs in zip(free, wrench.force, rest.force, wrench.torque, rest.torque, strict=True)
            for w, r, v in ((*pairs[:2], f.velocity), (*pairs[2:], f.angular_velocity))
        ]
        assert sum(lost) < 0


def test_neither_body_is_favoured_and_the_plane_is_a_part_of_space():
    """Exchanged bodies feel the exchanged load; a planar model has the forces of its spatial twin."""
    rng, element = np.random.default_rng(5), bushing(damping=0 * DAMPING)
    other = jax.tree.map(jnp.asarray, mbd.SymmetricBushing("link", "b", "a", element.point2, element.point1, STIFFNESS))
    a, b = pose(rng, 0.0), pose(rng, 0.7)
    here, there = load(element, element.local((STILL, STILL)), a, b)[0], load(other, other.local((STILL, STILL)), b, a)[0]
    np.testing.assert_allclose(here.force, there.force[::-1], rtol=1e-10)
    np.testing.assert_allclose(here.torque, there.torque[::-1], rtol=1e-10, atol=1e-9)

    def forces(spatial):
        point = lambda x, y: (x, y, 0.0) if spatial else (x, y)  # noqa: E731
        bodies = [
            mbd.RigidBody(name, 1.0, (1.0, 1.0, 1.0), point(*at), (np.cos(turn / 2), 0, 0, np.sin(turn / 2)))
            if spatial
            else mbd.PlanarBody(name, 1.0, 1.0, at, turn)
            for name, at, turn in (("a", (0.0, 0.0), 0.3), ("b", (0.4, 0.1), 0.9))
        ]
        link = mbd.SymmetricBushing("link", "a", "b", point(0.1, 0.02), point(0.3, 0.05), STIFFNESS)
        system = mbd.Model(bodies, forces=[link]).build()
        frames = system.frames(system.q0, system.v0)
        return system._wrenches(frames, 0.0, jnp.zeros(0), None, lambda element: True)

    plane, space = forces(False), forces(True)
    np.testing.assert_allclose(plane.force, space.force, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(plane.torque, space.torque, rtol=1e-10, atol=1e-10)


def test_derivatives_are_exact_where_nothing_is_deflected():
    """The stiffness of a relaxed bushing is what was given."""
    element = jax.tree.map(jnp.asarray, mbd.SymmetricBushing("link", "a", "b", (0.1, 0, 0), (0.1, 0, 0), STIFFNESS))
    local = element.local((STILL, STILL))

    def force(way):
        turn = jnp.eye(3) + jnp.cross(way[3:][None], jnp.eye(3)).T  # to first order
        about = jnp.array([0.1, 0.0, 0.0])
        b = mbd.Frame(about - turn @ about + way[:3], turn, jnp.zeros(3), jnp.zeros(3))
        wrench, _ = load(element, local, STILL, b)
        return jnp.concatenate([wrench.force[1], wrench.torque[1] - jnp.cross(about - b.position, wrench.force[1])])

    np.testing.assert_allclose(jax.jit(jax.jacfwd(force))(jnp.zeros(6)), -np.diag(STIFFNESS), atol=1e-9)
