"""Pairs in space: what must be true of any of them. One compiled program a pair serves all its tests."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

STEEL = mbd.Material(206e9, 0.3)
LAW = mbd.HuntCrossley(mbd.HertzPoint((100.0, 100.0), (20.0, -90.0), STEEL), 0.3)
FRICTION = {
    "dry": mbd.Coulomb(0.3, 0.4, 0.1, 0.02, viscous=0.01),
    "bristles": mbd.LuGre(1e3, 0.3, 0.2, 0.1),
    "oil": mbd.LubricatedTraction(0.05),
}
Z, TILTED = np.array([0.0, 0.0, 1.0]), np.array([0.3, -0.2, 0.9])
CASES = [
    *((name, "dry") for name in ("plane", "sphere", "inner ring", "cylindrical pocket", "spherical pocket", "box", "capsule")),
    ("outer ring", "oil"),
    ("guidance", "bristles"),
    ("ellipsoid", "dry"),
    ("flat coin", "bristles"),
]
DEPTH = 1e-5
"""m, of the pairs that overlap"""

SEMI_AXES = np.array([0.01, 0.02, 0.015])
# Body a starts at the origin, b at B.
B = np.array([0.02, -0.01, -0.03])


def make(name: str, friction: str):
    """A pair that just touches (to rounding) when a is where it starts, and the direction that pushes a in."""
    options = {"law": LAW, "friction": FRICTION[friction]}
    up, radial = TILTED / np.linalg.norm(TILTED), np.array([0.6, 0.8, 0.0])
    inward = np.cos(0.3) * radial + np.sin(0.3) * Z  # contact angle 0.3
    corner = np.array([-0.01, 0.01, -0.01])  # of a box of 20 mm: the lowest, as TILTED is
    pair, push = {
        "plane": lambda: (mbd.SpherePlane("plane", "a", "b", 0.01, -0.01 * up, TILTED, **options), -up),
        "sphere": lambda: (mbd.SphereSphere("sphere", "a", "b", 0.01, 0.02, centre_b=-0.03 * up, **options), -up),
        "inner ring": lambda: (
            mbd.SphereGroove("inner", "a", "b", 0.01, 0.0104, 0.03, Z, side="outside", point=-0.03 * radial + 4e-4 * inward, **options),
            -inward,
        ),
        "outer ring": lambda: (
            mbd.SphereGroove("outer", "a", "b", 0.01, 0.0104, 0.03, Z, side="inside", point=-0.03 * radial - 4e-4 * inward, **options),
            inward,
        ),
        "cylindrical pocket": lambda: (
            mbd.CylindricalPocket("pocket", "a", "b", 0.01, 0.0103, 0.05 * Z - 3e-4 * radial, Z, **options),
            radial,
        ),
        "spherical pocket": lambda: (mbd.SphericalPocket("pocket", "a", "b", 0.01, 0.0103, -3e-4 * up, **options), up),
        "guidance": lambda: (mbd.CylinderCylinder("land", "a", "b", 0.02, 0.0204, 0.01, Z, point=-4e-4 * radial, **options), radial),
        "box": lambda: (mbd.BoxPlane("box", "a", "b", np.full(3, 0.02), corner, TILTED, **options), -up),
        "capsule": lambda: (
            mbd.CapsulePlane("capsule", "a", "b", 0.01 * Z, -0.02 * Z, 0.005, -0.02 * Z - 0.005 * up, TILTED, **options),
            -up,
        ),
        "ellipsoid": lambda: (
            mbd.EllipsoidPlane("ellipsoid", "a", "b", SEMI_AXES, -np.linalg.norm(SEMI_AXES * up) * up, TILTED, **options),
            -up,
        ),
        "flat coin": lambda: (
            mbd.CoinPlane("coin", "a", "b", 0.02, TILTED, -(0.002 + 1e-4) * up, TILTED, edge_radius=0.002, crown=1e-4, **options),
            -up,
        ),
    }[name]()
    return jax.tree.map(jnp.asarray, pair), push


BODY = mbd.RigidBody("body", 1.0, (1.0, 1.0, 1.0))


def frames(q, v):
    return tuple(BODY.frame(q[i], v[i]) for i in range(2))


def coordinates(shift):
    """a at a shift, b at B."""
    q = np.zeros((2, 7))
    q[0, :3], q[1, :3], q[:, 3] = shift, B, 1.0
    return q


def rates(seed):
    """Random velocities; of Euler parameters (1, 0, 0, 0) the first does not move."""
    v = np.random.default_rng(seed).normal(size=(2, 7))
    v[:, :3] *= 0.1
    v[:, 3] = 0.0
    return v


WEIGHTS = jnp.cos(jnp.arange(50.0))


@eqx.filter_jit
def evaluate(pair, q, v, x):
    """Everything there is to know, for rows of q and v."""

    def outputs(pair, q, v, x):
        local, seen = pair.local(frames(coordinates(np.zeros(3)), np.zeros((2, 7)))), frames(q, v)
        touch = pair.touch(local, seen)
        wrench = pair.wrench(local, seen, jnp.zeros(0), jnp.zeros(()), x)
        rate = pair.state_rate(local, seen, jnp.zeros(0), jnp.zeros(()), x)
        energy = pair.potential(local, seen, jnp.zeros(0))
        weighed = jnp.concatenate([wrench.force.ravel(), wrench.torque.ravel(), 1e3 * rate, energy[None]])
        return weighed @ WEIGHTS[: weighed.size], (touch, pair.loads(touch, seen, x), wrench, seen)

    def at(q, v):
        (value, seen), gradient = jax.value_and_grad(outputs, (0, 1, 2, 3), has_aux=True)(pair, q, v, x)

        def spot(q):
            touch = pair.touch(pair.local(frames(coordinates(np.zeros(3)), np.zeros((2, 7)))), frames(q, v))
            return touch.depth, touch.point

        return value, gradient, seen, jax.jvp(spot, (q,), (v,))[1]

    return jax.vmap(at)(q, v)


@pytest.fixture(scope="module", params=CASES, ids=[" ".join(case) for case in CASES])
def case(request):
    """Rows: in contact and moving (two), touching at rest, in contact at rest, open and moving."""
    pair, push = make(*request.param)
    q = np.stack([coordinates(shift * push) for shift in (DEPTH, DEPTH, 0.0, DEPTH, -DEPTH)])
    v = np.stack([rates(1), rates(2), np.zeros((2, 7)), np.zeros((2, 7)), rates(3)])
    x = jnp.asarray(np.full(pair.initial_state().shape, 1e-5))
    return request.param, pair, push, (q, v, x), evaluate(pair, q, v, x)


def at_points(body, points):
    """Velocities of a body's points; pairs with several spots have one axis more."""
    spread = (slice(None),) + (None,) * (points.ndim - 2)
    arm = points - np.asarray(body.position)[spread]
    return np.asarray(body.velocity)[spread] + np.cross(np.asarray(body.angular_velocity)[spread], arm)


def test_depth_and_normal_are_those_of_the_geometry_and_rates_their_derivatives(case):
    (_, friction), _, push, _, (_, _, (touch, loads, _, (a, b)), (depth_rate, spot_rate)) = case
    depth, normal, point = (np.asarray(u) for u in (touch.depth, touch.normal, touch.point))
    expected = np.array([DEPTH, DEPTH, 0.0, DEPTH, -DEPTH])
    # Lengths of centimetres, their differences to rounding.
    np.testing.assert_allclose(depth if depth.ndim == 1 else depth.max(1), expected, atol=1e-15)
    closed = normal[:2]
    np.testing.assert_allclose(closed, np.broadcast_to(-push, closed.shape), atol=1e-12)
    np.testing.assert_allclose(touch.rate, depth_rate, rtol=1e-9, atol=1e-12)
    relative = at_points(a, point) - at_points(b, point)
    tangential = lambda u: u - normal * np.sum(normal * u, -1, keepdims=True)  # noqa: E731
    np.testing.assert_allclose(loads.slip, tangential(relative), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(loads.slip, axis=-1), loads.slip_speed, rtol=1e-12)
    spin = np.asarray(a.angular_velocity - b.angular_velocity)
    np.testing.assert_allclose(loads.spin, np.einsum("r...i,ri->r...", normal, spin), rtol=1e-12)
    # Entrainment: mean surface velocity relative to the spot, whose velocity is here the derivative of the point.
    entrained = tangential(0.5 * (at_points(a, point) + at_points(b, point)) - np.asarray(spot_rate))
    found = np.asarray(touch.entrainment)
    if friction == "bristles":
        found = np.einsum("...kj,...k->...j", np.asarray(touch.tangents), found)
    # The point is in the middle of the overlap, the spot's speed that of one surface: they differ by depth over play, 3e-2.
    np.testing.assert_allclose(found, entrained, atol=4e-2 * np.abs(entrained).max())


def test_action_is_reaction_and_loads_are_what_the_wrench_does(case):
    (_, friction), _, _, _, (_, _, (touch, loads, wrench, (a, b)), _) = case
    force, torque = np.asarray(wrench.force), np.asarray(wrench.torque)
    size = np.abs(force).max()
    np.testing.assert_allclose(force[:, 0], -force[:, 1], rtol=1e-12, atol=1e-12 * size)
    moment = torque[:, 0] + torque[:, 1] + np.cross(a.position, force[:, 0]) + np.cross(b.position, force[:, 1])
    np.testing.assert_allclose(moment, 0.0, atol=1e-12 * size)
    power = np.stack([np.sum(force[:, i] * f.velocity + torque[:, i] * f.angular_velocity, -1) for i, f in enumerate((a, b))], -1)
    total = np.asarray(loads.power)
    np.testing.assert_allclose(total if total.ndim == 2 else total.sum(1), power, rtol=1e-9, atol=1e-12 * size)
    assert np.all(force[2] == 0) or np.abs(force[2]).max() < 1e-6 * size  # touching, to rounding
    assert np.all(force[4] == 0)  # open
    np.testing.assert_allclose(np.sum(loads.friction * touch.normal, -1), 0.0, atol=1e-12 * size)
    # Every spot in contact dissipates: friction is against the slip, the torque against the spin.
    working = np.asarray(loads.normal_force) > 1e-6 * size
    assert np.all(working[:2].any())
    if friction != "bristles":
        assert np.all(np.sum(loads.friction * loads.slip, -1)[:2][working[:2]] < 0)
    assert np.all((loads.spin * loads.spin_torque)[:2][working[:2]] < 0)


def test_derivatives_are_finite_everywhere_and_right_in_contact(case):
    """At zero gap, zero slip and rest too; against central differences in contact, along one direction of motion and all parameters."""
    _, pair, _, (q, v, x), (_, gradient, _, _) = case
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))
    rng = np.random.default_rng(4)
    # By a millionth of each number: no contact opens.
    size = lambda leaf: np.where(leaf == 0, 1e-2, np.abs(leaf))  # noqa: E731
    tangent = jax.tree.map(lambda leaf: 1e-6 * rng.normal(size=leaf.shape) * size(leaf), (pair, q[0], v[0], x))
    moved = lambda s: jax.tree.map(lambda u, d: u + s * d, (pair, q[0], v[0], x), tangent)  # noqa: E731
    ends = []
    for s in (1.0, -1.0):
        p, q_s, v_s, x_s = moved(s)
        ends.append(evaluate(p, np.repeat(q_s[None], 5, 0), np.repeat(v_s[None], 5, 0), x_s)[0][0])
    slope = sum(np.vdot(g[0], t) for g, t in zip(jax.tree.leaves(gradient), jax.tree.leaves(tangent), strict=True))
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2, rtol=1e-4)


# --- bad input ----------------------------------------------------------------------------------------------------------------------------


def sphere(position, name="ball"):
    return mbd.RigidBody(name, 1.0, (1e-3,) * 3, position)


def on_floor(height, **options):
    return mbd.SpherePlane("floor", "ball", mbd.ground, 0.1, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), mbd.Hertz(1e6), **options), height


@pytest.mark.parametrize(
    ("height", "message"),
    [
        (
            0.09,
            "force 'floor': 'ball' and 'ground' overlap by 0.01 m at the start, 10 % of the pair's size 0.1 m.*allow_overlap",
        ),
        (-0.5, "overlap by 0.6 m at the start.*normal must point to the side where the other body is free"),
    ],
)
def test_an_interpenetrating_start_is_reported_with_pair_and_depth(height, message):
    contact, _ = on_floor(height)
    with pytest.raises(ValueError, match=message):
        mbd.Model([sphere((0.0, 0.0, height))], forces=[contact]).build()


def test_elastic_overlaps_and_those_that_are_asked_for_pass():
    floor, _ = on_floor(0.0999)
    mbd.Model([sphere((0.0, 0.0, 0.0999))], forces=[floor]).build()
    allowed, _ = on_floor(0.05, allow_overlap=True)
    system = mbd.Model([sphere((0.0, 0.0, 0.05))], forces=[allowed]).build()
    assert system.force_groups[0].names == ("floor",)


@pytest.mark.parametrize(
    ("contact", "allowed"),
    [
        # A ball may sink in by 1 % of its radius; with play, at most by as much as the play.
        (lambda: mbd.SphereGroove("pair", "ball", mbd.ground, **GROOVE), 1e-4),
        (lambda: mbd.SphericalPocket("pair", "ball", mbd.ground, 0.01, 0.01002, Z, LAW), 2e-5),
        (lambda: mbd.CylinderCylinder("pair", "ball", mbd.ground, 0.03, 0.0301, 0.01, Z, LAW, point=Z), 1e-4),
    ],
)
def test_a_misplaced_body_in_a_hollow_is_reported(contact, allowed):
    contact = contact()
    middle = 0.03 if isinstance(contact, mbd.SphereGroove) else 0.0
    play = {"groove_radius": 4e-4, "pocket_radius": 2e-5, "bore_radius": 1e-4}[contact.orders[0].larger]

    def build(depth):
        at = (middle + play + depth, 0.0, float(Z[2]) if middle == 0.0 else 0.0)
        return mbd.Model([sphere(at)], forces=[contact]).build()

    build(0.9 * allowed)
    with pytest.raises(ValueError, match="force 'pair': 'ball' and 'ground' overlap by"):
        build(1.1 * allowed)


GROOVE = {"radius": 0.01, "groove_radius": 0.0104, "pitch_radius": 0.03, "axis": Z, "law": LAW, "side": "inside"}


@pytest.mark.parametrize(
    ("contact", "message"),
    [
        (lambda: on_floor(0.0)[0].__class__("floor", "a", "b", -0.1, Z, Z, LAW), "radius of force 'floor' must be positive: got -0.1"),
        (
            lambda: mbd.SphereGroove("race", "a", "b", **GROOVE | {"groove_radius": 0.009}),
            "force 'race': groove_radius = 0.009 must be larger than radius = 0.01; the clearance",
        ),
        (lambda: mbd.SphereGroove("race", "a", "b", **GROOVE | {"side": "left"}), "force 'race': side must be 'outside'.*got 'left'"),
        (lambda: mbd.SphereGroove("race", "a", "b", **GROOVE | {"axis": np.zeros(3)}), "axis of force 'race' has zero length"),
        (
            lambda: mbd.CylindricalPocket("cage", "a", "b", 0.01, 0.009, Z, Z, LAW),
            "force 'cage': pocket_radius = 0.009 must be larger than radius",
        ),
        (
            lambda: mbd.CylinderCylinder("land", "a", "b", 0.02, 0.019, 0.01, Z, LAW),
            "force 'land': bore_radius = 0.019 must be larger than radius",
        ),
        (
            lambda: mbd.SpherePlane("oily", "a", "b", 0.01, Z, Z, mbd.Hertz(1e9), FRICTION["oil"]),
            "force 'oily': a LubricatedTraction law needs the size of the spot: make the normal law from a HertzPoint",
        ),
    ],
)
def test_bad_input_is_refused_by_name(contact, message):
    with pytest.raises(ValueError, match=message):
        contact()
