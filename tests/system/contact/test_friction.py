"""Friction laws against their closed forms, without a mechanism around them."""

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


def test_stick_slip_of_canudas_de_wit():
    """1 kg, pulled by a spring of 2 N/m whose end moves at 0.1 m/s, with the published parameters of the 1995 paper (a normal force of 1 N).

    It sticks until the spring pulls with 1.5 N, after 7.5 s; slides, against 1 N and 0.4 N s/m, until it stops again; and so on. Sliding is
    a damped oscillation, solved apart.
    """
    law = mbd.LuGre(1e5, static=1.5, kinetic=1.0, stribeck_velocity=1e-3, bristle_damping=np.sqrt(1e5), viscous=0.4)

    def mass(t, y):
        coefficient, rate = along_one_direction(law, y[1], y[2])
        return [y[1], 2.0 * (0.1 * t - y[0]) - coefficient, rate]

    run = solve_ivp(mass, (0.0, 20.0), np.zeros(3), method="LSODA", rtol=1e-6, atol=[1e-9, 1e-9, 1e-12], max_step=0.1)
    t, (position, speed, _) = run.t, run.y
    slips = speed > 1e-2
    starts, ends = t[1:][slips[1:] & ~slips[:-1]], t[1:][~slips[1:] & slips[:-1]]
    # The spring's pull at which it breaks away: mu_s, a little less as the bristles creep before.
    np.testing.assert_allclose(starts[0], 7.5, rtol=0.02)
    # Sliding in closed form: extension y of the spring, y'' + 0.4 y' + 2 y = 1 + 0.4 * 0.1 from 0.75 m, at rest; until 0.1 - y' = 0 again.
    root, rest = complex(-0.2, np.sqrt(2 - 0.2**2)), 0.52
    late = np.linspace(0.05, 6.0, 20000)
    amplitude = (0.75 - rest) - 1j * (0.1 + 0.2 * (0.75 - rest)) / root.imag
    y, y_rate = (np.real(amplitude * root**k * np.exp(root * late)) for k in (0, 1))
    stop = np.argmax(y_rate > 0.1)
    duration, left = late[stop], y[stop] + rest
    np.testing.assert_allclose(ends[0] - starts[0], duration, rtol=0.05)
    jump = 0.1 * duration + 0.75 - left
    np.testing.assert_allclose(np.interp(ends[0] + 0.2, t, position), jump, rtol=0.05)
    # It sticks again until the spring has recovered from `left` to 0.75 m at 0.1 m/s.
    np.testing.assert_allclose(starts[1] - ends[0], (0.75 - left) / 0.1, rtol=0.05)


# --- regularised Coulomb friction -----------------------------------------------------------------------------------------------------------

POINT = mbd.HertzPoint((157.5, 157.5), (-151.4, 38.2), mbd.Material(206e9, 0.3))
DRY, OIL = mbd.Coulomb(0.1, 0.15, 0.5, 0.01, viscous=0.02), mbd.LubricatedTraction(0.02)


@eqx.filter_jit
def traction(law, slip, spin, entrainment, force, depth=None):
    """(coefficient, spinning coefficient) for one contact of the point above."""
    force = jnp.asarray(force, float)
    depth = POINT.depth(force) if depth is None else depth
    sliding = mbd.Sliding(slip, depth, jnp.asarray(spin), entrainment, force, POINT.ellipse)
    return law.coefficient(sliding, jnp.zeros(0)), law.spinning(sliding, jnp.zeros(0)), law.film(sliding)


def test_coulomb_friction_has_stribecks_curve_and_its_slope_at_rest():
    along = np.array([0.6, 0.0, -0.8])
    for speed in (1e-4, 0.01, 0.3, 5.0):
        expected = (0.1 + 0.05 * np.exp(-((speed / 0.5) ** 2))) * speed / np.hypot(speed, 0.01) + 0.02 * speed
        found, _, film = traction(DRY, speed * along, 0.0, np.zeros(3), 100.0)
        np.testing.assert_allclose(found, expected * along, rtol=1e-12)
        assert film is None
    # The peak of the curve lies below mu_s by sqrt(2 mu_s (mu_s - mu_k)) v_r / v_s, to first order in v_r / v_s = 0.02.
    speeds = np.linspace(1e-3, 0.3, 3000)
    law = mbd.Coulomb(0.1, 0.15, 0.5, 0.01)
    curve = eqx.filter_jit(jax.vmap(lambda v: law.coefficient(mbd.Sliding(v[None], CLOSED), jnp.zeros(0))[0]))(speeds)
    np.testing.assert_allclose(0.15 - curve.max(), np.sqrt(2 * 0.15 * 0.05) * 0.02, rtol=0.05)


def test_spinning_is_resisted_by_the_moment_of_hertz_pressure():
    """3/8 mu N a E(m); for a circle 3 pi/16 mu N a. The integral of mu p r over the ellipse, here by quadrature, is the reference."""
    force = 400.0
    a, b = (float(u) for u in POINT.semi_axes(force))
    radius, angle = np.polynomial.legendre.leggauss(200), np.linspace(0.0, 2 * np.pi, 400, endpoint=False)
    r = 0.5 * (radius[0] + 1)[:, None]
    pressure = 1.5 * force / (np.pi * a * b) * np.sqrt(1 - r**2)
    arm = r * np.hypot(a * np.cos(angle), b * np.sin(angle))
    moment = np.sum(0.5 * radius[1][:, None] * pressure * arm * r) * a * b * 2 * np.pi / 400 / force
    _, found, _ = traction(mbd.Coulomb(1.0, regularisation=1e-9), np.zeros(3), 100.0, np.zeros(3), force)
    np.testing.assert_allclose(found, moment, rtol=1e-5)
    _, slow, _ = traction(mbd.Coulomb(1.0, regularisation=1.0), np.zeros(3), 1e-3, np.zeros(3), force)
    np.testing.assert_allclose(slow, moment * 1e-3 * a, rtol=1e-5)


# --- lubricated traction -------------------------------------------------------------------------------------------------------------------


def test_film_thickness_is_hamrock_and_dowsons():
    """For the inner race of a 6209 at 12 m/s and 400 N, by hand from the dimensionless groups."""
    force, speed, modulus = 400.0, 12.0, 206e9 / (1 - 0.3**2)  # E' = 2 E*
    rx, ratio = 1 / (157.5 + 38.2), float(POINT.ellipse.major / POINT.ellipse.minor)
    U, G, W = 0.02 * speed / (modulus * rx), 2e-8 * modulus, force / (modulus * rx**2)
    central = rx * 2.69 * U**0.67 * G**0.53 * W**-0.067 * (1 - 0.61 * np.exp(-0.73 * ratio))
    least = rx * 3.63 * U**0.68 * G**0.49 * W**-0.073 * (1 - np.exp(-0.68 * ratio))
    assert 0.2e-6 < least < central < 2e-6  # what bearings of this size have
    film = traction(OIL, np.array([0.1, 0.0, 0.0]), 0.0, np.array([0.0, speed, 0.0]), force)[2]
    np.testing.assert_allclose(film, central, rtol=1e-9)
    sliding = mbd.Sliding(jnp.zeros(3), POINT.depth(force), jnp.zeros(()), jnp.array([0.0, speed, 0.0]), jnp.asarray(force), POINT.ellipse)
    np.testing.assert_allclose(OIL.minimum_film(sliding), least, rtol=1e-9)


def test_traction_is_viscous_at_low_slip_and_limited_at_high_slip():
    light, speed = 0.02, np.array([0.0, 12.0, 0.0])  # a pressure at which the oil still flows
    law = mbd.LubricatedTraction(0.02, creep=0.0, regularisation=1e-9, roughness=1e-9)
    low, high = (traction(law, slip * np.array([1.0, 0.0, 0.0]), 0.0, speed, light) for slip in (1e-6, 1e6))
    pressure = light / (np.pi * np.prod([float(u) for u in POINT.semi_axes(light)]))
    shear = 0.02 * np.exp(2e-8 * pressure) * 1e-6 / float(low[2])
    np.testing.assert_allclose(low[0][0], shear / pressure, rtol=1e-6)
    np.testing.assert_allclose(high[0][0], 0.05, rtol=1e-6)
    # Without entrainment there is no film, and asperities carry the load.
    np.testing.assert_allclose(traction(OIL, np.array([5.0, 0.0, 0.0]), 0.0, np.zeros(3), 400.0)[0][0], 0.12, rtol=1e-3)


def test_friction_without_memory_has_finite_derivatives_at_rest_and_in_open_contacts():
    @eqx.filter_jit
    def derivatives(law, *state):
        def pull(law, slip, spin, entrainment, force, depth):
            sliding = mbd.Sliding(slip, depth, spin, entrainment, force, POINT.ellipse)
            x = jnp.zeros(0)
            return jnp.append(force * law.coefficient(sliding, x), force * law.spinning(sliding, x))

        return jax.vmap(lambda *state: jax.jacrev(pull, range(6))(law, *state))(*state)

    slip = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1e-12, 0.0, 0.0], [1e3, 0.0, 0.0], [0.1, 0.0, 0.0], [0.1, 0.2, 0.0]])
    spin, entrainment = np.array([0.0, 1.0, 0.0, 1e4, 0.0, 3.0]), slip[::-1]
    force, depth = np.array([0.0, 400.0, 1e-9, 1e5, 0.0, 0.0]), np.array([0.0, 5e-6, 1e-15, 1e-3, -1e-3, 1e-300])
    for law in (DRY, OIL):
        found = derivatives(jax.tree.map(jnp.asarray, law), slip, spin, entrainment, force, depth)
        assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.Coulomb(-0.1), "kinetic of the Coulomb friction law must not be negative"),
        (lambda: mbd.Coulomb(0.3, 0.2), "the Coulomb friction law: static = 0.2 must not be smaller than kinetic = 0.3; exchange them"),
        (lambda: mbd.Coulomb(0.3, regularisation=0.0), "regularisation of the Coulomb friction law must be positive"),
        (lambda: mbd.LubricatedTraction(0.0), "viscosity of the LubricatedTraction law must be positive"),
    ],
)
def test_bad_numbers_of_laws_without_memory_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


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
