"""Points, pins and bars against pulleys, sprockets and wheels: geometry against brute force, forces against energies, derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmbd as mbd

LAW = mbd.SmoothContact(1e6, 0.3, 5e-5)
CENTRE, AXIS = np.array([0.3, -0.2, 0.1]), np.array([0.6, 0.0, 0.8])
ACROSS = np.array([0.8, 0.0, -0.6])
RADIUS, HEIGHT, TEETH = 0.3, 0.04, 9
FLANGES = {"axis": AXIS, "flange_radius": 0.05, "half_width": 0.02}


def pulley(spatial, **options):
    if not spatial:
        return mbd.PointPulley("pair", "a", "b", (0.1, 0.05), CENTRE[:2], RADIUS, LAW, **options)
    return mbd.PointPulley("pair", "a", "b", (0.1, 0.05, 0.0), CENTRE, RADIUS, LAW, **FLANGES, **options)


def sprocket(spatial, **options):
    numbers = RADIUS, HEIGHT, TEETH
    if not spatial:
        return mbd.PinSprocket("pair", "a", "b", (0.1, 0.05), CENTRE[:2], *numbers, (1.0, -0.2), LAW, **options)
    return mbd.PinSprocket("pair", "a", "b", (0.1, 0.05, 0.0), CENTRE, *numbers, CENTRE + ACROSS, LAW, **FLANGES, **options)


def bar(spatial, **options):
    if not spatial:
        return mbd.BarWheel("pair", "a", "b", (-0.1, 0.05), (0.1, 0.07), CENTRE[:2], RADIUS, LAW, **options)
    return mbd.BarWheel("pair", "a", "b", (-0.1, 0.05, 0.0), (0.1, 0.07, 0.03), CENTRE, RADIUS, LAW, **FLANGES, **options)


PAIRS = [pulley, sprocket, bar]
both = pytest.mark.parametrize("spatial", [False, True], ids=["planar", "spatial"])
each = pytest.mark.parametrize("make", PAIRS)


def frame(rotation, position, velocity=np.zeros(3), angular_velocity=np.zeros(3)):
    return mbd.Frame(*(jnp.asarray(u) for u in (position, rotation, velocity, angular_velocity)))


STILL = frame(np.eye(3), np.zeros(3))


def random_frame(rng, spatial):
    if spatial:
        return frame(Rotation.random(random_state=rng).as_matrix(), *rng.normal(size=(3, 3)))
    turn = Rotation.from_rotvec([0.0, 0.0, rng.uniform(0, 6)]).as_matrix()
    return frame(turn, *(rng.normal(size=(2, 3)) * (1, 1, 0)), rng.normal(size=3) * (0, 0, 1))


@eqx.filter_jit
def touched(pair, a, b):
    """The touch, and how depth and spot change as the bodies move."""
    local = pair.local((STILL, STILL))

    def touch(positions, rotations):
        return pair.touch(
            local, tuple(mbd.Frame(p, R, f.velocity, f.angular_velocity) for p, R, f in zip(positions, rotations, (a, b), strict=True))
        )

    spin = lambda f: jnp.cross(f.angular_velocity[None], f.rotation.T).T  # noqa: E731
    return jax.jvp(touch, ((a.position, b.position), (a.rotation, b.rotation)), ((a.velocity, b.velocity), (spin(a), spin(b))))


def at_surface(make, spatial, rng, depth):
    """A pair, and frames at which it overlaps by about a depth."""
    pair, b = jax.tree.map(jnp.asarray, make(spatial)), random_frame(rng, spatial)
    a = random_frame(rng, spatial)
    for _ in range(60):  # along the normal; far from the surface -g / |grad g| is not the distance
        touch, _ = touched(pair, a, b)
        shift = (depth - touch.depth) * -touch.normal
        if not spatial:
            shift = shift * jnp.array([1.0, 1.0, 0.0])
        a = eqx.tree_at(lambda a: a.position, a, a.position + 0.5 * shift)
    return pair, a, b


def profile(make, spatial, y, alpha):
    radius = np.full_like(alpha, RADIUS)
    if make is sprocket:
        radius = radius + 0.5 * HEIGHT * (1 - np.cos(TEETH * alpha))
    return radius + (0.5 * np.maximum(np.abs(y) - 0.02, 0.0) ** 2 / 0.05 if spatial else 0.0)


def surface(make, spatial, near):
    """Points of the surface in the second body's axes, dense near a place (alpha, y); and the base that they are in."""
    base = np.stack([ACROSS, np.cross(AXIS, ACROSS), AXIS]) if spatial else np.eye(3)
    if not spatial and make is sprocket:
        gap = np.array([1.0, -0.2, 0.0]) - CENTRE * (1, 1, 0)
        gap /= np.linalg.norm(gap)
        base = np.stack([gap, np.cross([0, 0, 1.0], gap), [0, 0, 1.0]])
    alpha, y = near
    alphas = alpha + np.linspace(-0.02, 0.02, 801)
    ys = y + np.linspace(-0.01, 0.01, 401) if spatial else np.zeros(1)
    alphas, ys = np.meshgrid(alphas, ys)
    radii = profile(make, spatial, ys, alphas)
    local = np.stack([radii * np.cos(alphas), radii * np.sin(alphas), ys], axis=-1).reshape(-1, 3)
    return local @ base, base


@both
@each
def test_depth_is_the_distance_from_the_surface_and_its_rate_that_of_the_bodies(make, spatial):
    rng, depth = np.random.default_rng(4), 2e-4
    for _ in range(3):
        pair, a, b = at_surface(make, spatial, rng, depth)
        touch, rate = touched(pair, a, b)
        np.testing.assert_allclose(touch.depth, depth, rtol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(touch.normal), 1.0, rtol=1e-12)
        centre = CENTRE if spatial else CENTRE * (1, 1, 0)
        own = (np.asarray(touch.point) - b.position) @ np.asarray(b.rotation) - centre
        _, base = surface(make, spatial, (0.0, 0.0))
        place = base @ own
        points, _ = surface(make, spatial, (np.arctan2(place[1], place[0]), place[2]))
        distance = np.min(np.linalg.norm(points - own, axis=1))
        # -g / |grad g| is off by depth^2 times the curvature, some 70 1/m at a tooth, the nearest of the points by a micrometre.
        np.testing.assert_allclose(distance, depth, atol=4e-6)
        # The slope of |grad g| counts as the depth does against the radius of curvature.
        np.testing.assert_allclose(touch.rate, rate.depth, rtol=0.02, atol=0.02)
        if make is bar:
            ends = [a.point(jnp.asarray(end)) for end in ((-0.1, 0.05, 0.0), (0.1, 0.07, 0.03 if spatial else 0.0))]
            line = np.linspace(*map(np.asarray, ends), 2001)
            offset = line - np.asarray(b.point(jnp.asarray(centre)))
            hub = np.asarray(b.rotation) @ (AXIS if spatial else [0, 0, 1.0])
            offset -= np.outer(offset @ hub, hub)
            nearest = line[np.argmin(np.linalg.norm(offset, axis=1))]
            np.testing.assert_allclose(touch.point, nearest, atol=2e-4)


def test_a_bar_passes_its_ends_without_a_jump():
    """Depth and normal are continuous and the depth's slope too; beyond the end the depth falls as the circle leaves it."""
    pair = jax.tree.map(jnp.asarray, mbd.BarWheel("pair", "a", "b", (-0.1, 0.0), (0.1, 0.0), (0.0, 0.29), 0.3, LAW))
    depth = jax.jit(lambda x: pair.touch(pair.local((STILL, STILL)), (STILL, frame(np.eye(3), x * jnp.array([1.0, 0.0, 0.0])))).depth)
    eps = 1e-9
    for end in (-0.1, 0.1):
        inner, outer = (float(jax.grad(depth)(end + s * eps)) for s in (-1, 1))
        assert abs(inner - outer) < 1e-6
    np.testing.assert_allclose(depth(0.05), 0.01, rtol=1e-12)
    np.testing.assert_allclose(depth(0.15), 0.3 - np.hypot(0.29, 0.05), rtol=1e-12)


@both
@each
def test_derivatives_are_finite_where_geometry_has_none(make, spatial):
    """On the axis, with no slip, at zero depth; and a bar along the axis."""
    pair = jax.tree.map(jnp.asarray, make(spatial, friction=mbd.Coulomb(0.3)))
    local = pair.local((STILL, STILL))
    spot = {pulley: (0.1, 0.05, 0.0), sprocket: (0.1, 0.05, 0.0), bar: (-0.1, 0.05, 0.0)}[make]
    centre = CENTRE if spatial else CENTRE * (1, 1, 0)

    def load(shift):
        wrench = pair.wrench(local, (frame(np.eye(3), shift), STILL), jnp.zeros(0), 0.0, jnp.zeros(0))
        return jnp.concatenate([wrench.force.ravel(), wrench.torque.ravel()])

    for shift in (centre - spot, centre - spot + (RADIUS * ACROSS if spatial else (RADIUS, 0, 0))):
        values = jax.jit(jax.jacfwd(load))(jnp.asarray(shift))
        assert np.all(np.isfinite(values))


@both
@each
def test_momentum_is_kept_and_derivatives_are_those_of_differences(make, spatial):
    rng = np.random.default_rng(8)
    pair, a, b = at_surface(make, spatial, rng, 1e-4)
    friction = jax.tree.map(jnp.asarray, mbd.Coulomb(0.3, regularisation=0.1))
    pair = eqx.tree_at(lambda p: p.friction, pair, friction, is_leaf=lambda leaf: leaf is None)
    local = pair.local((STILL, STILL))

    @jax.jit
    def load(shift):
        moved = eqx.tree_at(lambda a: a.position, a, a.position + shift)
        wrench = pair.wrench(local, (moved, b), jnp.zeros(0), 0.0, jnp.zeros(0))
        turning = wrench.torque + jnp.stack([jnp.cross(moved.position, wrench.force[0]), jnp.cross(b.position, wrench.force[1])])
        return wrench.force, turning

    force, turning = load(jnp.zeros(3))
    assert np.linalg.norm(force[0]) > 10
    np.testing.assert_allclose(force[0], -force[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(turning[0], -turning[1], rtol=1e-9, atol=1e-9)
    way, eps = jnp.asarray(rng.normal(size=3) * (1, 1, spatial)), 1e-8
    _, (slope, _) = jax.jvp(load, (jnp.zeros(3),), (way,))
    difference = (load(eps * way)[0] - load(-eps * way)[0]) / (2 * eps)
    np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def test_a_pin_climbs_a_tooth_by_its_slope_and_rests_in_a_gap():
    """Turned from gap to tip the sprocket's radius grows by its height; on the flank the normal leans by height teeth / (2 rho)."""
    pair = jax.tree.map(jnp.asarray, mbd.PinSprocket("pair", "a", "b", (0.3, 0.0), (0.0, 0.0), RADIUS, HEIGHT, TEETH, (1.0, 0.0), LAW))

    def touch(angle):
        turned = Rotation.from_rotvec([0, 0, angle]).as_matrix()
        return pair.touch(pair.local((STILL, STILL)), (STILL, frame(turned, np.zeros(3))))

    np.testing.assert_allclose([touch(0.0).depth, touch(np.pi / TEETH).depth], [0.0, HEIGHT], atol=1e-15)
    flank = touch(0.5 * np.pi / TEETH)
    slope = 0.5 * HEIGHT * TEETH / RADIUS
    np.testing.assert_allclose(np.abs(flank.normal[1] / flank.normal[0]), slope, rtol=1e-12)
    np.testing.assert_allclose(flank.depth, 0.5 * HEIGHT / np.hypot(1, slope), rtol=1e-12)


def test_a_flange_guides_a_point_back():
    """In space a point beyond the half width is pushed inwards, in proportion to the slope of the fillet."""
    pair = mbd.PointPulley("pair", "a", "b", (0.3, 0, 0), (0, 0, 0), 0.3, LAW, axis=(0, 0, 1), flange_radius=0.05, half_width=0.02)
    pair = jax.tree.map(jnp.asarray, pair)
    for y, slope in ((0.0, 0.0), (0.01, 0.0), (0.03, 0.2), (-0.03, -0.2)):
        touch = pair.touch(pair.local((STILL, STILL)), (frame(np.eye(3), np.array([0, 0, y])), STILL))
        np.testing.assert_allclose(touch.normal[2] / touch.normal[0], -slope, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: mbd.PinSprocket("pair", "a", "b", (0.4, 0), (0, 0), 0.3, 0.04, 9.5, (1, 0), LAW),
            "teeth of force 'pair' must be a whole number",
        ),
        (lambda: mbd.PinSprocket("pair", "a", "b", (0.4, 0), (0, 0), 0.3, 0.04, 9, (0, 0), LAW), "gap must be a point beside the centre"),
        (lambda: mbd.BarWheel("pair", "a", "b", (0.4, 0), (0.4, 0), (0, 0), 0.3, LAW), "end1 and end2 are the same point"),
        (
            lambda: mbd.PointPulley("pair", "a", "b", (0.4, 0), (0, 0), 0.3, LAW, flange_radius=0.1),
            "flanges have no meaning in a planar model",
        ),
        (lambda: mbd.PointPulley("pair", "a", "b", (0.4, 0), (0, 0), 0.3, LAW, half_width=0.1), "half_width says where flanges begin"),
        (lambda: mbd.SmoothContact(1e6, 0.1, 0.0), "softness of the SmoothContact law must be positive"),
        (
            lambda: mbd.SymmetricBushing("pair", "a", "b", (0, 0), (0, 0), (1, 1, 1, 1, 1, -1)),
            "stiffness of force 'pair' must not be negative",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_fix(make, message):
    with pytest.raises(ValueError, match=message):
        mbd.Model([mbd.PlanarBody("a", 1, 1, (0.4, 0)), mbd.PlanarBody("b", 1, 1)], forces=[make()]).build()


# --- the law ------------------------------------------------------------------------------------------------------------------------------


def test_the_smooth_law_is_a_spring_with_a_soft_beginning_and_never_pulls():
    law = jax.tree.map(jnp.asarray, LAW)
    force, energy = jax.jit(lambda d, rate: law.force(d, rate)), jax.jit(lambda d: law.energy(d))
    for depth in (-1e-5, 0.0, 2e-5, 5e-5, 2e-4):
        slope = jax.grad(energy)(depth)
        np.testing.assert_allclose(force(depth, 0.0), slope, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(force(depth, 0.0), 1e6 * (max(depth, 0) ** 2 / 1e-4 if depth < 5e-5 else depth - 2.5e-5), rtol=1e-12)
        assert force(depth, -50.0) >= 0.0
        assert np.all(np.isfinite(jax.grad(force, argnums=(0, 1))(depth, 0.0)))


@pytest.mark.parametrize("speed", [0.5, 3.0])
def test_the_restitution_of_the_smooth_law_is_its_closed_form(speed):
    from scipy.integrate import solve_ivp
    from scipy.optimize import brentq

    def lost(t, s):
        return s[0]

    lost.terminal, lost.direction = True, -1
    law = jax.tree.map(jnp.asarray, LAW)
    rates = jax.jit(lambda s: jnp.stack([s[1], -law.force(s[0], s[1]) / 0.1]))
    run = solve_ivp(lambda t, s: rates(s), (0, 0.1), [1e-12, speed], events=lost, rtol=1e-8, atol=1e-11, max_step=1e-4)
    c = 0.3
    cube = lambda u: (1 + u**2) ** 1.5  # noqa: E731
    expected = brentq(lambda w: cube(c * w) + (c * w) ** 3 - cube(c * speed) + (c * speed) ** 3, 0, speed)
    np.testing.assert_allclose(-run.y[1, -1], expected, rtol=1e-5)
    assert abs(expected / speed - (1 - 2 / 3 * c * speed)) < (c * speed) ** 2
