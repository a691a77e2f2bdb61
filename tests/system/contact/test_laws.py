"""Normal laws against their closed forms; elastic contact against closed forms, published tables and scipy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.special import ellipe, ellipkm1

import jaxmbd as mbd
from jaxmbd.system.contact.hertz import elliptic

STEEL = mbd.Material(206e9, 0.3)
POINT = mbd.HertzPoint.spheres(0.01, 0.02, STEEL)
LAWS = {
    "linear": mbd.LinearContact(2e9, 5e3),
    "adhesive": mbd.LinearContact(2e9, 5e3, adhesive=True),
    "hertz": mbd.Hertz(3e10),
    "hertz of a geometry": mbd.Hertz(POINT),
    "hunt-crossley": mbd.HuntCrossley(3e10, 0.3),
    "hunt-crossley, exponent": mbd.HuntCrossley(3e8, 0.3, 1.2),
    "lankarani-nikravesh": mbd.LankaraniNikravesh(3e10, 0.8, 0.5),
    "line": mbd.HertzLine(1e9, 0.2),
}


@pytest.fixture(scope="module")
def evaluated():
    """By law: depth, rate, (force, energy), forward and reverse derivatives by law, depth and rate."""
    depth, rate = (u.ravel() for u in np.meshgrid([-1e9, -1e-6, 0.0, 1e-300, 1e-12, 1e-6, 1.0, 1e9], [-1e3, -1e-12, 0.0, 1e-12, 1e3]))

    @eqx.filter_jit
    def evaluate(laws):
        def output(law, d, r):
            return jnp.stack([law.force(d, r), law.energy(d)])

        def at(law, d, r):
            return output(law, d, r), jax.jacfwd(output, (0, 1, 2))(law, d, r), jax.jacrev(output, (0, 1, 2))(law, d, r)

        return {name: jax.vmap(lambda d, r, law=law: at(law, d, r))(depth, rate) for name, law in laws.items()}

    return depth, rate, evaluate(jax.tree.map(jnp.asarray, LAWS))


@pytest.mark.parametrize("name", LAWS)
def test_laws_and_derivatives_are_finite_at_any_depth(evaluated, name):
    depth, rate, results = evaluated
    values, forward, reverse = results[name]
    for one, other in zip(jax.tree.leaves(forward), jax.tree.leaves(reverse), strict=True):
        assert np.all(np.isfinite(one))
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-300)
    force = values[:, 0]
    assert np.all(np.isfinite(values))
    assert np.all(force >= 0) == (not LAWS[name].pulls)
    assert np.all(values[depth <= 0] == 0)
    by_depth = forward[1]
    assert np.all(by_depth[depth < 0] == 0)
    # The energy is the integral of the force at rest.
    still = (rate == 0) & (depth > 1e-200)
    np.testing.assert_allclose(by_depth[still, 1], force[still], rtol=1e-9)


def test_forces_are_those_of_the_formulas(evaluated):
    depth, rate, results = evaluated
    over = np.maximum(depth, 0.0)
    loss = lambda c: np.maximum(1.0 + c * rate, 0.0)  # noqa: E731
    expected = {
        "linear": np.clip(2e9 * over + 5e3 * rate, 0.0, 4e9 * over),
        "adhesive": np.where(depth > 0, 2e9 * over + 5e3 * rate, 0.0),
        "hertz": 3e10 * over**1.5,
        "hertz of a geometry": float(POINT.stiffness) * over**1.5,
        "hunt-crossley": 3e10 * over**1.5 * loss(0.3),
        "hunt-crossley, exponent": 3e8 * over**1.2 * loss(0.3),
        "lankarani-nikravesh": 3e10 * over**1.5 * loss(0.75 * (1 - 0.8**2) / 0.5),
        "line": 1e9 * over ** (10 / 9) * loss(0.2),
    }
    for name, force in expected.items():
        np.testing.assert_allclose(results[name][0][:, 0], force, rtol=1e-9)


# --- restitution --------------------------------------------------------------------------------------------------------------------------


def restitution(law, speed, mass=0.01):
    """w / v of a mass that meets the law at a speed v: separates from the depth where the force ends."""
    force = eqx.filter_jit(law.force)
    off = lambda t, y: y[0] if t > 0 else 1.0  # noqa: E731
    off.terminal, off.direction = True, -1
    scale = [1e-6, speed]
    rates = lambda t, y: [y[1] * scale[1] / scale[0], -float(force(y[0] * scale[0], y[1] * scale[1])) / mass / scale[1]]  # noqa: E731
    run = solve_ivp(rates, (0.0, 1.0), [1e-12, 1.0], events=off, rtol=1e-9, atol=1e-12, first_step=1e-9)
    return -run.y[1, -1]


def closed_form(c, speed):
    """c v - ln(1 + c v) = -c w - ln(1 - c w), for w."""
    loss = lambda v: c * v - np.log1p(c * v)  # noqa: E731
    return brentq(lambda w: loss(speed) - loss(-w), 0.0, min(speed, (1 - 1e-12) / c), xtol=1e-14) / speed


@pytest.mark.parametrize(("damping", "speed"), [(0.2, 0.5), (2.0, 1.0)])
def test_restitution_of_hunt_and_crossley_is_the_closed_form(damping, speed):
    """Whatever the exponent; to first order it is 1 - 2/3 c v."""
    expected = closed_form(damping, speed)
    for exponent in (None, 1.2):
        np.testing.assert_allclose(restitution(mbd.HuntCrossley(1e9, damping, exponent), speed), expected, rtol=1e-5)
    np.testing.assert_allclose(closed_form(1e-3, 1.0), 1 - 2e-3 / 3, rtol=1e-6)


@pytest.mark.parametrize("zeta", [0.05, 0.5])
def test_restitution_of_an_adhesive_dashpot_is_that_of_half_a_damped_period(zeta):
    """A damped oscillator from zero depth to zero depth, whatever the speed."""
    law = mbd.LinearContact(1e9, 2 * zeta * np.sqrt(1e9 * 0.01), adhesive=True)
    np.testing.assert_allclose(restitution(law, 0.3), np.exp(-np.pi * zeta / np.sqrt(1 - zeta**2)), rtol=1e-5)


@pytest.mark.parametrize("e", [0.95, 0.6])
def test_restitution_of_lankarani_and_nikravesh(e):
    """Exactly that of its damping; and its own parameter e to first order in 1 - e."""
    found = restitution(mbd.LankaraniNikravesh(1e9, e, 0.4), 0.4)
    np.testing.assert_allclose(found, closed_form(0.75 * (1 - e**2) / 0.4, 0.4), rtol=1e-5)
    assert abs(found - e) < 1.5 * (1 - e) ** 2


# --- elliptical contact -------------------------------------------------------------------------------------------------------------------


def test_elliptic_integrals_are_those_of_scipy():
    complement = np.array([1.0, 0.9999999, 0.5, 1e-2, 1e-6, 1e-12])
    K, D = jax.jit(elliptic)(jnp.asarray(complement))
    np.testing.assert_allclose(K, ellipkm1(complement), rtol=1e-14)
    # (K - E)/m cancels near m = 0 in scipy: the last digits there are its own.
    m = 1 - complement[1:]
    np.testing.assert_allclose(D[1:], (ellipkm1(complement[1:]) - ellipe(m)) / m, rtol=1e-14 + 1e-15 / m.min())
    np.testing.assert_allclose(D[0], np.pi / 4, rtol=1e-15)


def test_spheres_have_hertz_closed_form():
    modulus, radius = 206e9 / (2 * (1 - 0.3**2)), 1 / (1 / 0.01 + 1 / 0.02)
    point, force = mbd.HertzPoint.spheres(0.01, 0.02, STEEL), 500.0
    np.testing.assert_allclose(point.stiffness, 4 / 3 * modulus * np.sqrt(radius), rtol=1e-13)
    a = (3 * force * radius / (4 * modulus)) ** (1 / 3)
    np.testing.assert_allclose(point.semi_axes(force), [a, a], rtol=1e-12)
    np.testing.assert_allclose(point.max_pressure(force), 3 * force / (2 * np.pi * a**2), rtol=1e-12)
    np.testing.assert_allclose(point.depth(force), a**2 / radius, rtol=1e-12)
    # Other materials: half as stiff against a rigid body of the same shape.
    rigid = mbd.HertzPoint.spheres(0.01, 0.02, STEEL, mbd.Material(1e30))
    np.testing.assert_allclose(rigid.stiffness, 2 * point.stiffness, rtol=1e-12)
    # Nothing is undefined without a load.
    for function in (point.depth, point.max_pressure):
        assert function(0.0) == 0
        assert jax.grad(function)(0.0) == 0
    with pytest.raises(ValueError, match="the Hertz contact: radius_b must not be zero"):
        mbd.HertzPoint.spheres(0.01, 0.0, STEEL)


# Dimensionless semi-axes and approach by the curvature difference F(rho): Hertz's numbers as tabulated in Harris, "Rolling Bearing Analysis",
# rounded there to four digits.
HARRIS = np.array(
    [
        # F(rho), a*, b*, delta*
        [0.0, 1.0, 1.0, 1.0],
        [0.1075, 1.0760, 0.9318, 0.9974],
        [0.3204, 1.2623, 0.8114, 0.9761],
        [0.4795, 1.4556, 0.7278, 0.9429],
        [0.5916, 1.6440, 0.6687, 0.9077],
        [0.6716, 1.8258, 0.6245, 0.8733],
        [0.7332, 2.0110, 0.5881, 0.8394],
        [0.7948, 2.2650, 0.5480, 0.7961],
        [0.83495, 2.4940, 0.5186, 0.7602],
        [0.87366, 2.8000, 0.4863, 0.7169],
        [0.90999, 3.2330, 0.4499, 0.6636],
    ]
)


def test_ellipses_are_those_of_the_published_table():
    """a = a* c, b = b* c with c = (3 F / (2 E* sum rho))^(1/3), delta = delta* c^2 sum rho / 2."""
    modulus, force, total = 206e9 / (2 * (1 - 0.3**2)), 100.0, 300.0
    size = (3 * force / (2 * modulus * total)) ** (1 / 3)
    for difference, *expected in HARRIS:
        point = mbd.HertzPoint((0.5 * total * (1 + difference), 0.5 * total * (1 - difference)), (0.0, 0.0), STEEL)
        a, b = point.semi_axes(force)
        found = [a / size, b / size, point.depth(force) / (0.5 * size**2 * total)]
        np.testing.assert_allclose(found, expected, rtol=4e-4)


def test_a_6209_has_the_known_stiffness():
    """12.7 mm balls on a pitch diameter of 65 mm in grooves of conformity 0.52: 3.21e10 and 3.39e10 N/m^1.5."""
    ball, groove = 1 / 6.35e-3, -1 / (0.52 * 12.7e-3)
    inner = mbd.HertzPoint((ball, ball), (groove, 1 / (32.5e-3 - 6.35e-3)), STEEL)
    outer = mbd.HertzPoint((ball, ball), (groove, -1 / (32.5e-3 + 6.35e-3)), STEEL)
    np.testing.assert_allclose([inner.stiffness, outer.stiffness], [3.21e10, 3.39e10], rtol=2e-3)
    # The planes' order does not matter, and a quarter turn of one body's planes is an exchange of its curvatures.
    other = mbd.HertzPoint((ball, ball), (1 / (32.5e-3 - 6.35e-3), groove), STEEL, angle=np.pi / 2)
    np.testing.assert_allclose(other.stiffness, inner.stiffness, rtol=1e-12)


def test_the_shape_solves_its_equation_and_derivatives_are_exact():
    def numbers(curvatures, modulus):
        point = mbd.HertzPoint(curvatures[:2], curvatures[2:], mbd.Material(modulus))
        return jnp.stack([1e-9 * point.stiffness, point.ellipse.major, point.ellipse.minor, point.ellipse.second_kind])

    traced = jax.jit(jax.vmap(lambda c: (numbers(c, 2e11), jax.jacfwd(numbers, (0, 1))(c, 2e11))))
    curvatures = np.array([[157.5, 157.5, -151.4, 38.0], [157.5, 157.5, 100.0, 100.0], [300.0, 0.0, 0.0, 0.01], [10.0, 30.0, 5.0, 1.0]])
    values, (by_curvature, by_modulus) = traced(curvatures)
    assert all(np.all(np.isfinite(u)) for u in (values, by_curvature, by_modulus))
    for row, c, slope in zip(values, curvatures, by_curvature, strict=True):
        np.testing.assert_allclose(row, numbers(c, 2e11), rtol=1e-11)  # traced and concrete
        complement = (row[2] / row[1]) ** 2
        K, E = ellipkm1(complement), ellipe(1 - complement)
        np.testing.assert_allclose(row[3], E, rtol=1e-12)
        if complement < 0.999:
            first, second = c[0] + c[2], c[1] + c[3]
            ratio = max(first, second) / min(first, second)
            np.testing.assert_allclose((E / complement - K) / (K - E), ratio, rtol=1e-10)
            # One direction is enough for all four numbers: central differences of an analytic function.
            step = 1e-4 * c * np.array([1.0, 0.5, -0.2, -0.3])
            difference = (numbers(c + step, 2e11) - numbers(c - step, 2e11)) / 2
            np.testing.assert_allclose(slope @ step, difference, rtol=1e-5)
    np.testing.assert_allclose(by_modulus[:, 0], values[:, 0] / 2e11, rtol=1e-12)


def test_palmgren_line_stiffness_of_steel():
    """depth [mm] = 3.84e-5 F^0.9 / length^0.8 (N, mm)."""
    law, force, length = mbd.HertzLine(mbd.line_stiffness(0.01, STEEL)), 2000.0, 10.0
    depth = 3.84e-5 * force**0.9 / length**0.8 * 1e-3
    np.testing.assert_allclose(law.force(jnp.asarray(depth), jnp.zeros(())), force, rtol=5e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.Hertz(-1.0), "stiffness of the Hertz law must be positive: got -1"),
        (lambda: mbd.HuntCrossley(1e9, -0.1), "damping of the HuntCrossley law must not be negative"),
        (lambda: mbd.HuntCrossley(1e9, 0.1, 0.5), "exponent of the HuntCrossley law must be at least 1"),
        (lambda: mbd.HuntCrossley(POINT, 0.1, 1.2), "HuntCrossley law: a HertzPoint belongs to the exponent 3/2; leave the exponent out"),
        (lambda: mbd.LankaraniNikravesh(1e9, 1.2, 0.1), "restitution of the LankaraniNikravesh law must lie between 0 and 1"),
        (lambda: mbd.LankaraniNikravesh(1e9, 0.5, 0.0), "approach_speed of the LankaraniNikravesh law must be positive"),
        (lambda: mbd.HertzLine(0.0), "stiffness of the HertzLine law must be positive"),
        (lambda: mbd.Material(2e11, 0.7), "poisson_ratio of the material must lie between -1 and 0.5"),
        (lambda: mbd.HertzPoint((100.0, 100.0), (-110.0, 20.0), STEEL), "do not touch in a point.*A hollow must have a larger radius"),
        (lambda: mbd.HertzPoint((100.0, 100.0), (-90.0, 20.0), 2e11), "the Hertz contact: expected mbd.Material"),
    ],
)
@pytest.mark.usefixtures("annotations_unchecked")
def test_bad_numbers_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
