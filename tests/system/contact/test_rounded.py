"""Ellipsoids and coins on planes against their surfaces, closed forms of their motion and energy; a pair of one's own."""

import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbd as mbd

G = 9.81
ORIGIN, Z = np.zeros(3), np.array([0.0, 0.0, 1.0])
SEMI_AXES = np.array([0.05, 0.03, 0.02])
AXIS = np.array([0.6, 0.0, 0.8])
OFF_CENTRE = np.array([0.01, -0.02, 0.005])
LAW = mbd.LinearContact(1e4)


def ellipsoid(b="b", **options):
    return mbd.EllipsoidPlane("ellipsoid", "a", b, SEMI_AXES, ORIGIN, Z, LAW, centre=OFF_CENTRE, **options)


def coin(b="b", **options):
    return mbd.CoinPlane("coin", "a", b, 0.05, AXIS, ORIGIN, Z, LAW, centre=OFF_CENTRE, **{"edge_radius": 0.01, "crown": 2e-3} | options)


def frame(rotation, position, velocity=ORIGIN, angular_velocity=ORIGIN):
    return mbd.Frame(*(jnp.asarray(u) for u in (position, rotation, velocity, angular_velocity)))


@eqx.filter_jit
def moving(pair, a, b):
    """The touch of a pair that was made with both bodies at the origin, and the derivatives of depth and spot along the bodies' motion."""
    still = frame(np.eye(3), ORIGIN)
    local = pair.local((still, still))

    def touch(positions, rotations):
        seen = [mbd.Frame(p, R, f.velocity, f.angular_velocity) for p, R, f in zip(positions, rotations, (a, b), strict=True)]
        return pair.touch(local, tuple(seen))

    spin = lambda f: jnp.cross(f.angular_velocity[None], f.rotation.T).T  # noqa: E731
    at, along = ((a.position, b.position), (a.rotation, b.rotation)), ((a.velocity, b.velocity), (spin(a), spin(b)))
    return jax.jvp(touch, at, along)


def random_frame(rng):
    return frame(Rotation.random(random_state=rng).as_matrix(), rng.normal(size=3), rng.normal(size=3), rng.normal(size=3))


def surface(pair) -> np.ndarray:
    """Many points of the surface in the body's axes."""
    u = np.random.default_rng(7).normal(size=(200_000, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    if isinstance(pair, mbd.EllipsoidPlane):
        return OFF_CENTRE + SEMI_AXES * u
    # An ellipsoid about the axis, most of whose points are at the rim, and on each of them a sphere: its outermost point is along the normal.
    u += (2e-3 / 0.04 - 1.0) * np.outer(u @ AXIS, AXIS)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    across, up = u - np.outer(u @ AXIS, AXIS), np.outer(u @ AXIS, AXIS)
    normals = across / 0.04 + up / 2e-3
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return OFF_CENTRE + 0.04 * across + 2e-3 * up + 0.01 * normals


@pytest.mark.parametrize("make", [ellipsoid, coin])
def test_the_spot_is_the_lowest_point_and_its_motion_the_derivative_of_the_geometry(make):
    rng, pair = np.random.default_rng(5), jax.tree.map(jnp.asarray, make())
    points = surface(pair)
    for _ in range(6):
        a, b = random_frame(rng), random_frame(rng)
        touch, rate = moving(pair, a, b)
        normal = np.asarray(b.rotation)[:, 2]
        heights = (points @ np.asarray(a.rotation).T + a.position - b.position) @ normal
        # The nearest of so many points is off by about the square of their spacing, 1e-5 of a radius of 5 cm.
        np.testing.assert_allclose(touch.depth, -heights.min(), atol=2e-6)
        np.testing.assert_allclose((touch.point - b.position) @ normal, -touch.depth, atol=1e-14)
        np.testing.assert_allclose(touch.rate, rate.depth, rtol=1e-10, atol=1e-12)
        tangential = lambda u, n=normal: u - (u @ n) * n  # noqa: E731
        mean = 0.5 * (a.velocity_at(touch.point) + b.velocity_at(touch.point))
        np.testing.assert_allclose(touch.entrainment, tangential(np.asarray(mean - rate.point)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("axis", range(3))
def test_an_ellipsoid_rests_at_the_height_of_its_semi_axis(axis):
    """On each of its six ends the normal force is through the centre, so that nothing turns it."""
    for side in (1, -1):
        turned = Rotation.align_vectors([side * Z], [np.eye(3)[axis]])[0].as_matrix()
        pair = mbd.EllipsoidPlane("ellipsoid", "a", "b", SEMI_AXES, ORIGIN, Z, LAW)
        touch, _ = moving(jax.tree.map(jnp.asarray, pair), frame(turned, SEMI_AXES[axis] * Z), frame(np.eye(3), ORIGIN))
        np.testing.assert_allclose([touch.depth, *touch.point[:2]], 0.0, atol=1e-9)  # align_vectors is that exact


@pytest.mark.parametrize("make", [ellipsoid, coin])
def test_forces_are_the_slope_of_the_energy(make):
    """Force and moment about the centre of mass, of an elastic law without friction, at any orientation: what rocks a rattleback."""
    rng = np.random.default_rng(3)
    body = mbd.RigidBody("a", 0.3, (1e-4, 2e-4, 2.5e-4), (0.0, 0.0, 0.01), Rotation.random(random_state=rng).as_matrix())
    system = mbd.Model([body], forces=[make(mbd.ground, allow_overlap=True)]).build()

    @eqx.filter_jit
    def both(system, q):
        return system.force(q, jnp.zeros(7), 0.0), -jax.grad(system.potential_energy)(q, 0.0)

    for _ in range(3):
        q = np.concatenate([rng.normal(size=2), [0.01], Rotation.random(random_state=rng).as_quat()])
        force, slope = (np.array(u) for u in both(system, q))
        assert np.abs(force).max() > 1.0
        # Of the slope by Euler parameters the part along them has no meaning.
        slope[3:] -= q[3:] * (q[3:] @ slope[3:])
        np.testing.assert_allclose(force, slope, rtol=1e-9, atol=1e-9 * np.abs(force).max())


def test_a_coin_that_spins_down_precesses_as_eulers_disc():
    """Tilted by w, its centre at rest and its spot without slip, a thin disc of radius R goes round at W = sqrt(4 g / (R sin w)).

    Its centre does not accelerate, so friction has nothing to do; its axis turns about the vertical. With an elastic law energy is kept.
    """
    mass, radius, tilt, stiffness = 0.2, 0.05, 0.35, 2e5
    rate = np.sqrt(4 * G / (radius * np.sin(tilt)))
    axis = np.array([-np.sin(tilt), 0.0, np.cos(tilt)])
    down = np.array([-np.cos(tilt), 0.0, -np.sin(tilt)])  # from the centre to the rim's lowest point
    height = radius * np.sin(tilt) - mass * G / stiffness
    spin = -rate * np.sin(tilt) * down  # axis' = rate Z x axis
    turned = np.stack([-down, np.cross(axis, -down), axis], axis=1)
    disc = mbd.RigidBody("disc", mass, mass * radius**2 * np.array([0.25, 0.25, 0.5]), (0, 0, height), turned, angular_velocity=spin)
    np.testing.assert_allclose(np.cross(spin, axis), rate * np.cross(Z, axis), atol=1e-12)
    table = mbd.CoinPlane("table", disc, mbd.ground, radius, axis, ORIGIN, Z, mbd.LinearContact(stiffness), mbd.Coulomb(0.3))
    end = 0.5 * np.pi / rate
    run = mbd.simulate(mbd.Model([disc], forces=[mbd.Gravity((0, 0, -G)), table]), end, integrator=mbd.Verlet(), step=end / 2000)
    w, x, y, z = np.asarray(run.orientation("disc")[-1])
    quarter = Rotation.from_quat([x, y, z, w]).apply(Z)
    # A crown of 1e-3 R lifts the rim's lowest point by 4e-6; steps are 3e-3 of the period of the contact.
    np.testing.assert_allclose(quarter, Rotation.from_rotvec(0.5 * np.pi * Z).apply(axis), atol=1e-4)
    np.testing.assert_allclose(run.position("disc"), np.broadcast_to([0, 0, height], (len(run.ts), 3)), atol=1e-5)
    assert np.max(run.contact("table").slip_speed) < 1e-3 * rate * radius
    energy = np.asarray(run.energy().total)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-5)


def test_a_lying_coin_wobbles_about_rest_with_finite_derivatives():
    """sqrt(load s^2 / (crown J)), from the slope of the moment by the tilt; every derivative at zero tilt is finite."""
    mass, radius, edge, crown = 0.2, 0.05, 0.01, 1e-3
    depth = mass * G / 1e4
    body = mbd.RigidBody("a", mass, (1e-4, 1e-4, 2e-4), (0.0, 0.0, edge + crown - depth))
    table = mbd.CoinPlane("table", body, mbd.ground, radius, Z, ORIGIN, Z, LAW, mbd.LuGre(1e4, 0.3), edge_radius=edge, crown=crown)
    system = mbd.Model([body], forces=[mbd.Gravity((0, 0, -G)), table]).build()

    @eqx.filter_jit
    def slopes(system):
        force = lambda system, q, v, x: system.force(q, v, 0.0, x)  # noqa: E731
        return force(system, system.q0, system.v0, system.x0), eqx.filter_jacrev(
            lambda args: force(*args),
        )((system, system.q0, system.v0, system.x0))

    force, by = slopes(system)
    np.testing.assert_allclose(force, 0.0, atol=1e-9)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(by))
    # Euler parameter e1 is half the angle about x; its generalised force is twice the moment.
    stiffness = -np.asarray(by[1])[4, 4] / 4
    s = radius - edge
    # The lowest point wanders over the body by s^2 / crown a radian, and back with the body by crown.
    np.testing.assert_allclose(stiffness, mass * G * (s**2 / crown - crown), rtol=1e-6)


def test_rounded_shapes_are_among_the_groups():
    floor = mbd.Plane(mbd.ground, ORIGIN, Z)
    shapes = [mbd.Ellipsoid("a", SEMI_AXES, OFF_CENTRE), mbd.Coin("b", 0.05, AXIS, edge_radius=0.01)]
    first, second = mbd.contacts("on floor", shapes, [floor], law=LAW)
    assert isinstance(first, mbd.EllipsoidPlane)
    np.testing.assert_array_equal(first.semi_axes, SEMI_AXES)
    assert isinstance(second, mbd.CoinPlane)
    assert (float(second.edge_radius), second.crown) == (0.01, None)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: coin(edge_radius=0.05), "force 'coin': radius = 0.05 must be larger than edge_radius = 0.05; a coin that is all rim"),
        (lambda: coin(crown=0.0), "crown of force 'coin' must be positive: a flat face has no lowest point: got 0"),
        (
            lambda: mbd.EllipsoidPlane("egg", "a", "b", (0.1, 0.2), ORIGIN, Z, LAW),
            r"semi_axes of force 'egg': expected an array of shape \(3,\) \[m\]",
        ),
    ],
)
def test_bad_input_is_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- a pair of one's own ------------------------------------------------------------------------------------------------------------------


def test_the_pair_of_the_guide_pushes_as_the_pocket_that_is_there():
    """The example of `AbstractContact`, word for word: a ball in a bowl is one in a spherical pocket."""
    found = re.search(r"```python\n(.*?)```", mbd.AbstractContact.__doc__ or "", re.DOTALL)
    assert found
    written: dict = {}
    exec("\n".join(line.removeprefix("    ") for line in found[1].splitlines()), written)
    law, friction = mbd.Hertz(1e7), mbd.Coulomb(0.3)
    given = (0.01, 0.012, (0.0, 0.0, 0.0021))
    forces = []
    for pair in (written["BallInBowl"], mbd.SphericalPocket):
        at, spin = (1e-3, 5e-4, 4e-4), (3.0, 2.0, 1.0)
        ball = mbd.RigidBody("ball", 1.0, (1e-4,) * 3, at, velocity=(0.1, -0.2, 0.3), angular_velocity=spin)
        system = mbd.Model([ball], forces=[pair("bowl", ball, mbd.ground, *given, law, friction)]).build()
        forces.append(eqx.filter_jit(lambda s: s.force(s.q0, s.v0, 0.0))(system))
        assert float(system.get("bowl.radius")) == 0.01
    assert np.abs(forces[0][:3]).max() > 0.1
    np.testing.assert_allclose(*forces, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match=r"bowl_radius of force 'bowl' must be positive: got -0\.1"):
        written["BallInBowl"]("bowl", "ball", mbd.ground, 0.01, -0.1, ORIGIN, law)
