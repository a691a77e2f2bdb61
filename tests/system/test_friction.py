"""The LuGre law against its closed forms, without a mechanism around it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

CLOSED, OPEN = jnp.array(1e-6), jnp.array(-1e-6)
"""depths [m] of contacts"""


def stribeck(**changes):
    values = {"bristle_stiffness": 1e5, "static": 0.4, "kinetic": 0.25, "stribeck_velocity": 2e-3, "exponent": 1.5, "viscous": 0.02}
    return mbd.LuGre(**(values | changes))


@eqx.filter_jit
def evaluate(law, slip, z, depth):
    """(coefficient, z') for rows of slip and z."""
    sliding = lambda v, d: mbd.Sliding(v, d)  # noqa: E731
    return jax.vmap(lambda v, z, d: (law.coefficient(sliding(v, d), z), law.rate(sliding(v, d), z)))(slip, z, depth)


def along_one_direction(law, slip, z):
    coefficient, rate = evaluate(law, jnp.asarray([[slip]]), jnp.asarray([[z]]), CLOSED[None])
    return float(coefficient[0, 0]), float(rate[0, 0])


def limit(speed):
    """g(v) of `stribeck()`."""
    return 0.25 + 0.15 * np.exp(-((speed / 2e-3) ** 1.5))


def test_steady_sliding_has_the_stribeck_coefficient():
    for speed in (1e-5, 1e-3, 4e-3, 0.5, -4e-3, -0.5):
        steady = np.sign(speed) * limit(abs(speed)) / 1e5
        coefficient, rate = along_one_direction(stribeck(), speed, steady)
        np.testing.assert_allclose(rate, 0.0, atol=1e-12 * abs(speed))
        np.testing.assert_allclose(coefficient, np.sign(speed) * limit(abs(speed)) + 0.02 * speed, rtol=1e-12)


def test_bristles_hold_like_a_spring_before_they_give_way():
    """Over a displacement x without reversal and with a constant limit, mu(x) = mu (1 - exp(-sigma_0 x / mu)) whatever the velocity."""
    law = mbd.LuGre(bristle_stiffness=1e5, static=0.3)
    velocity = lambda t: 1e-4 * np.sin(t) ** 2  # noqa: E731
    run = solve_ivp(lambda t, z: along_one_direction(law, velocity(t), z[0])[1], (0.0, 0.6), [0.0], rtol=1e-9, atol=1e-16)
    moved = 1e-4 * (0.5 * run.t - 0.25 * np.sin(2 * run.t))
    expected = 0.3 * (1.0 - np.exp(-1e5 * moved / 0.3))
    np.testing.assert_allclose(1e5 * run.y[0], expected, rtol=1e-6, atol=1e-9)
    # At first the stiffness is sigma_0 a unit of normal force: 1 % of the limit reached, 0.5 % of the stiffness lost.
    early = (expected > 1e-4) & (expected < 3e-3)
    assert np.sum(early) > 3
    np.testing.assert_allclose(1e5 * run.y[0][early] / moved[early], 1e5, rtol=6e-3)


@pytest.fixture(scope="module")
def pushed():
    """Displacement and speed of a block of 2 kg under 20 N, pushed by loads that rise to 0.8 and 1.5 times the limit."""
    law = mbd.LuGre(bristle_stiffness=1e5, static=0.3, bristle_damping=100.0)
    runs = {}
    for name, share in (("below", 0.8), ("above", 1.5)):

        def block(t, y, share=share):
            coefficient, rate = along_one_direction(law, y[1], y[2])
            return [y[1], (share * 6.0 * min(t / 0.1, 1.0) - 20.0 * coefficient) / 2.0, rate]

        runs[name] = solve_ivp(block, (0.0, 0.3), np.zeros(3), method="LSODA", rtol=1e-7, atol=[1e-12, 1e-9, 1e-12])
    return runs


def test_a_block_sticks_under_a_load_below_the_limit(pushed):
    """It creeps by the presliding displacement, -mu / sigma_0 ln(1 - load / limit), and stays there."""
    position, speed, z = pushed["below"].y
    # On its bristles the block swings with a period of 6 ms; where the load stops rising, after 100 ms, it overshoots a little.
    np.testing.assert_allclose(position[-1], -3e-6 * np.log(1.0 - 0.8), rtol=0.05)
    np.testing.assert_allclose(z[-1], 0.8 * 3e-6, rtol=1e-5)
    assert abs(speed[-1]) < 1e-9


def test_a_block_slides_under_a_load_above_the_limit(pushed):
    t, (_, speed, z) = pushed["above"].t, pushed["above"].y
    late = t > 0.15
    acceleration = np.polyfit(t[late], speed[late], 1)[0]
    np.testing.assert_allclose(acceleration, 0.5 * 6.0 / 2.0, rtol=1e-4)
    np.testing.assert_allclose(z[-1], 3e-6, rtol=1e-6)


def test_bristles_never_deflect_beyond_the_static_limit():
    """At |z| = mu_s / sigma_0, wherever the body slides, the deflection does not grow; in two directions too."""
    rng = np.random.default_rng(2)
    for directions in (1, 2):
        slip = rng.normal(size=(200, directions)) * 10.0 ** rng.uniform(-6, 1, size=(200, 1))
        z = rng.normal(size=(200, directions))
        z *= 0.4 / 1e5 / np.linalg.norm(z, axis=1, keepdims=True)
        _, rate = evaluate(stribeck(), slip, z, jnp.full(200, CLOSED))
        assert np.all(np.sum(rate * z, axis=1) <= 1e-12 * np.linalg.norm(slip, axis=1) * 4e-6)


def test_bristles_of_an_open_contact_fade():
    law, z = stribeck(), jnp.asarray([[2e-6], [-2e-6], [0.0]])
    _, rate = evaluate(law, jnp.asarray([[0.0], [0.5], [0.5]]), z, jnp.full(3, OPEN))
    pace = 1e5 * np.array([[2e-3], [0.502], [0.502]]) / limit(np.array([[0.0], [0.5], [0.5]]))
    np.testing.assert_allclose(rate, -pace * z, rtol=1e-12)


def test_derivatives_are_finite_at_rest_and_at_any_speed():
    @eqx.filter_jit
    def derivatives(law, slip, z):
        """of all outputs by all inputs, forward and reverse, over all rows"""

        def outputs(law, slip, z):
            closed, away = mbd.Sliding(slip, CLOSED), mbd.Sliding(slip, OPEN)
            return law.coefficient(closed, z), law.rate(closed, z), law.rate(away, z)

        each = jax.vmap(lambda v, z: (jax.jacfwd(outputs, (0, 1, 2))(law, v, z), jax.jacrev(outputs, (0, 1, 2))(law, v, z)))
        return each(slip, z)

    speeds = np.array([0.0, 1e-300, 1e-12, 2e-3, 1.0, 1e5, 1e150])
    slip = np.concatenate([speeds[:, None] * [1.0, 0.0], speeds[:, None] * [-0.6, 0.8]])
    for exponent, z in ((0.5, 0.0), (0.5, 2e-6), (1.0, 2e-6), (2.0, 0.0)):
        law = jax.tree.map(jnp.asarray, stribeck(exponent=exponent, bristle_damping=10.0))
        forward, reverse = derivatives(law, slip, np.full_like(slip, z))
        for one, other in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
            assert np.all(np.isfinite(one))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.max(np.abs(one), initial=1e-300))


def test_derivatives_are_those_of_finite_differences():
    law = jax.tree.map(jnp.asarray, stribeck(bristle_damping=10.0))

    @eqx.filter_jit
    def outputs(law, slip, z):
        closed, away = mbd.Sliding(slip, CLOSED), mbd.Sliding(slip, OPEN)
        return jnp.concatenate([law.coefficient(closed, z), law.rate(closed, z), law.rate(away, z)])

    slip, z = jnp.array([1.5e-3, -0.7e-3]), jnp.array([1e-6, 2e-6])
    leaves, structure = jax.tree.flatten((law, slip, z))
    tangents = [0.1 * leaf for leaf in leaves]
    _, exact = jax.jvp(lambda *leaves: outputs(*jax.tree.unflatten(structure, leaves)), tuple(leaves), tuple(tangents))
    ends = [
        outputs(*jax.tree.unflatten(structure, [leaf + s * 1e-5 * d for leaf, d in zip(leaves, tangents, strict=True)])) for s in (1, -1)
    ]
    np.testing.assert_allclose(exact, (ends[0] - ends[1]) / 2e-5, rtol=1e-8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bristle_stiffness": 0.0}, "bristle_stiffness of the LuGre friction law must be positive: got 0"),
        ({"static": -0.3}, "static of the LuGre friction law must be positive"),
        ({"kinetic": 0.5}, "static = 0.4 must not be smaller than kinetic = 0.5; exchange them"),
        ({"stribeck_velocity": 0.0}, "stribeck_velocity .* must be positive"),
        ({"exponent": np.nan}, "exponent .* is not finite"),
        ({"viscous": -1.0}, "viscous .* must not be negative"),
    ],
)
def test_bad_numbers_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        stribeck(**changes)
