"""Pairs in space: what must be true of any of them, and what each one's geometry says."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

STEEL = mbd.Material(206e9, 0.3)
POINT = mbd.HertzPoint((100.0, 100.0), (20.0, -90.0), STEEL)
LAW = mbd.HuntCrossley(POINT, 0.3)
DRY, BRISTLES, OIL = mbd.Coulomb(0.3, 0.4, 0.1, 0.02, viscous=0.01), mbd.LuGre(1e3, 0.3, 0.2, 0.1), mbd.LubricatedTraction(0.05)
Z, TILTED = np.array([0.0, 0.0, 1.0]), np.array([0.3, -0.2, 0.9])

# Body a starts at the origin, b at B. Shifts of a by some hundredths of a millimetre along the normal open and close the pairs.
B = np.array([0.02, -0.01, -0.03])


def pairs(friction) -> dict[str, tuple[mbd.AbstractContact, np.ndarray]]:
    """By name: a pair that just touches (to rounding) when a is where it starts, and the direction that pushes a in."""
    up = TILTED / np.linalg.norm(TILTED)
    options = {"law": LAW, "friction": friction}
    radial = np.array([0.6, 0.8, 0.0])
    inward = np.cos(0.3) * radial + np.sin(0.3) * Z  # contact angle 0.3
    groove = lambda sign: 0.03 * radial + sign * 0.0004 * inward  # noqa: E731
    found = {
        "plane": (mbd.SpherePlane("plane", "a", "b", 0.01, -0.01 * up, TILTED, **options), -up),
        "sphere": (mbd.SphereSphere("sphere", "a", "b", 0.01, 0.02, centre_b=-0.03 * up, **options), -up),
        "inner ring": (
            mbd.SphereGroove("inner", "a", "b", 0.01, 0.0104, 0.03, Z, side="outside", point=-groove(-1.0), **options),
            -inward,
        ),
        "outer ring": (
            mbd.SphereGroove("outer", "a", "b", 0.01, 0.0104, 0.03, Z, side="inside", point=-groove(1.0), **options),
            inward,
        ),
        "cylindrical pocket": (
            mbd.CylindricalPocket("pocket", "a", "b", 0.01, 0.0103, 0.05 * Z - 0.0003 * radial, Z, **options),
            radial,
        ),
        "spherical pocket": (mbd.SphericalPocket("pocket", "a", "b", 0.01, 0.0103, -0.0003 * up, **options), up),
        "guidance": (mbd.CylinderCylinder("land", "a", "b", 0.02, 0.0204, 0.01, Z, point=-0.0004 * radial, **options), radial),
    }
    return {name: (jax.tree.map(jnp.asarray, pair), push) for name, (pair, push) in found.items()}


NAMES = list(pairs(None))
BODY = mbd.RigidBody("body", 1.0, (1.0, 1.0, 1.0))


def frames(q, v):
    return tuple(BODY.frame(q[i], v[i]) for i in range(2))


def coordinates(shift=np.zeros(3), turn=0.0):
    """a at the shift, b at B, both turned a little."""
    q = np.zeros((2, 7))
    q[0, :3], q[1, :3] = shift, B
    q[:, 3] = 1.0
    q[:, 4:] = turn * np.array([[0.3, -0.2, 0.4], [0.1, 0.5, -0.3]])
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    return q


def rates(q, seed=0, speed=1.0):
    """Random velocities, tangent to the Euler parameters' sphere."""
    v = speed * np.random.default_rng(seed).normal(size=(2, 7))
    v[:, :3] *= 0.1
    p = q[:, 3:]
    v[:, 3:] -= p * np.sum(p * v[:, 3:], axis=1, keepdims=True)
    return v


def geometry(pair):
    return pair.local(frames(jnp.asarray(coordinates()), jnp.zeros((2, 7))))


@eqx.filter_jit
def evaluate(pair, q, v, x):
    """(touch, loads, wrench, rates of depth and of the spot by q' = v) for rows of q, v."""

    def at(q, v):
        local = geometry(pair)
        seen = frames(q, v)
        touch = pair.touch(local, seen)
        spot = lambda q: (pair.touch(local, frames(q, v)).depth, pair.touch(local, frames(q, v)).point)  # noqa: E731
        _, moved = jax.jvp(spot, (q,), (v,))
        wrench = pair.wrench(local, seen, jnp.zeros(0), jnp.zeros(()), x)
        return touch, pair.loads(touch, seen, x), wrench, moved, seen

    return jax.vmap(at)(q, v)


def state(pair):
    return jnp.full(pair.initial_state().shape, 1e-5)


@pytest.mark.parametrize("friction", [DRY, BRISTLES, OIL], ids=["dry", "bristles", "oil"])
@pytest.mark.parametrize("name", NAMES)
def test_action_is_reaction_and_kinematics_are_those_of_the_geometry(name, friction):
    pair, push = pairs(friction)[name]
    q = np.stack([coordinates(1e-5 * push), coordinates(1e-5 * push)])
    v = np.stack([rates(q[0], 1), rates(q[0], 2)])
    touch, loads, wrench, (depth_rate, spot_rate), (a, b) = evaluate(pair, q, v, state(pair))
    # Both bodies are at the same place in all rows; pairs with several spots have one more axis.
    point, normal = np.asarray(touch.point), np.asarray(touch.normal)
    np.testing.assert_allclose(touch.depth, 1e-5, rtol=1e-6)
    np.testing.assert_allclose(normal, np.broadcast_to(-push, normal.shape), atol=1e-9)
    np.testing.assert_allclose(touch.rate, depth_rate, rtol=1e-9, atol=1e-12)
    force, torque = np.asarray(wrench.force), np.asarray(wrench.torque)
    np.testing.assert_allclose(force[:, 0], -force[:, 1], rtol=1e-12)
    moment = torque[:, 0] + torque[:, 1] + np.cross(a.position, force[:, 0]) + np.cross(b.position, force[:, 1])
    np.testing.assert_allclose(moment, 0.0, atol=1e-12 * np.abs(force).max())
    # Loads are what the wrench does: power on each body, and friction in the tangent plane against the slip.
    power = np.stack([np.sum(force[:, i] * f.velocity + torque[:, i] * f.angular_velocity, -1) for i, f in enumerate((a, b))], -1)
    total = np.asarray(loads.power)
    np.testing.assert_allclose(total if total.ndim == 2 else total.sum(1), power, rtol=1e-9, atol=1e-12)
    assert np.all(np.asarray(loads.normal_force) > 0)
    # Angle between friction and normal: rounding of the projection.
    np.testing.assert_allclose(np.sum(loads.friction * normal, -1), 0.0, atol=1e-12 * np.abs(force).max())
    np.testing.assert_allclose(np.sum(loads.slip * normal, -1), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(loads.slip, axis=-1), loads.slip_speed, rtol=1e-12)
    if friction is not BRISTLES:
        assert np.all(np.sum(loads.friction * loads.slip, -1) < 0)
    assert np.all(loads.spin * loads.spin_torque < 0)

    def at(body, points):
        spread = (slice(None),) + (None,) * (points.ndim - 2)
        return np.asarray(body.velocity)[spread] + np.cross(
            np.asarray(body.angular_velocity)[spread], points - np.asarray(body.position)[spread]
        )

    relative = at(a, point) - at(b, point)
    np.testing.assert_allclose(loads.slip, relative - normal * np.sum(normal * relative, -1, keepdims=True), rtol=1e-9, atol=1e-12)
    # Entrainment: mean surface velocity relative to the spot, whose velocity is here the derivative of the point.
    entrained = 0.5 * (at(a, point) + at(b, point)) - np.asarray(spot_rate)
    entrained -= normal * np.sum(normal * entrained, -1, keepdims=True)
    found = np.asarray(touch.entrainment)
    if friction is BRISTLES:
        found = np.einsum("...kj,...k->...j", np.asarray(touch.tangents), found)
    # The point is in the middle of the overlap, the spot's speed is that of one surface: depth over the smallest play or radius, 3e-2.
    np.testing.assert_allclose(found, entrained, atol=4e-2 * np.abs(entrained).max())


@pytest.mark.parametrize("friction", [DRY, BRISTLES, OIL], ids=["dry", "bristles", "oil"])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_finite_at_zero_gap_and_rest_and_right_in_contact(name, friction):
    pair, push = pairs(friction)[name]
    x = state(pair)
    weights = None

    def outputs(pair, q, v, x):
        local, seen = geometry(pair), frames(q, v)
        wrench = pair.wrench(local, seen, jnp.zeros(0), jnp.zeros(()), x)
        rate = pair.state_rate(local, seen, jnp.zeros(0), jnp.zeros(()), x)
        energy = pair.potential(local, seen, jnp.zeros(0))
        return jnp.concatenate([wrench.force.ravel(), wrench.torque.ravel(), rate, energy[None]])

    size = jax.eval_shape(outputs, pair, jnp.zeros((2, 7)), jnp.zeros((2, 7)), x).shape[0]
    weights = jnp.cos(jnp.arange(float(size)))
    leaves, structure = jax.tree.flatten((pair, jnp.zeros((2, 7)), jnp.zeros((2, 7)), x))
    rng = np.random.default_rng(3)
    directions = [rng.normal(size=leaf.shape) for leaf in leaves]

    @eqx.filter_jit
    def derivatives(pair, q, v):
        def at(q, v):
            arguments = (pair, q, v, x)
            tangents = [0.01 * d * jnp.maximum(jnp.abs(leaf), 1e-4) for d, leaf in zip(directions, jax.tree.leaves(arguments), strict=True)]
            # A length of the geometry moves by micrometres, or the contact opens.
            tangents = [1e-3 * t for t in tangents]
            tangents = jax.tree.unflatten(structure, tangents)
            _, forward = jax.jvp(outputs, arguments, tangents)
            reverse = jax.grad(lambda *args: weights @ outputs(*args), (0, 1, 2, 3))(*arguments)
            along = sum(jnp.vdot(g, t) for g, t in zip(jax.tree.leaves(reverse), jax.tree.leaves(tangents), strict=True))
            near = lambda s: outputs(*jax.tree.map(lambda u, t: u + s * t, arguments, tangents))  # noqa: E731
            return forward, reverse, along, (near(1e-3) - near(-1e-3)) / 2e-3

        return jax.vmap(at)(q, v)

    touching, overlap, gap = coordinates(), coordinates(1e-4 * push), coordinates(-1e-5 * push)
    q = np.stack([overlap, touching, overlap, gap])
    v = np.stack([rates(overlap), np.zeros((2, 7)), np.zeros((2, 7)), rates(gap)])
    forward, reverse, along, difference = derivatives(pair, q, v)
    assert all(np.all(np.isfinite(leaf)) for leaf in (*jax.tree.leaves(reverse), forward))
    scale = np.abs(forward).max(axis=1)
    np.testing.assert_allclose(along, forward @ weights, rtol=1e-8, atol=1e-8 * scale.max())
    np.testing.assert_allclose(forward[0], difference[0], rtol=1e-4, atol=1e-5 * scale[0])
