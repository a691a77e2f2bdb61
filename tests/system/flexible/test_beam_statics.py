"""Beams at rest: closed forms of small and large deflections, published values, derivatives.

All loads of one mechanism share one compiled search.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_bvp

import jaxmbd as mbd
from jaxmbd.observe import observe

ELEMENTS = 16
BENDING = 100.0
"""N m^2, of a beam of 1 m"""


def cantilever(points, section, up=None):
    """A beam that is clamped at its first point; "tip" and "moment" load the last."""
    beam = mbd.Beam.along("beam", points, section, up=up)
    still = (0.0,) * len(points[0])
    forces = [mbd.PointForce("tip", beam.end, points[-1], still), mbd.Torque("moment", beam.end, 0.0 if len(still) == 2 else still)]
    return mbd.Model([beam], [mbd.Fixed("clamp", mbd.ground, beam.start)], forces).build()


def end_of(system, state):
    """m, of the end of the beam."""
    names = [f"beam.end.{axis}" for axis in ("xy" if system.planar else "xyz")]
    found = observe(system, jax.tree.map(lambda leaf: leaf[None], state), names)
    return jnp.stack([found[name][0] for name in names])


@pytest.fixture(scope="module")
def straight():
    along = np.linspace(0.0, 1.0, ELEMENTS + 1)
    return cantilever(np.stack([along, 0 * along], axis=1), mbd.Section(1e8, BENDING, 1.0))


def bent(system, **loads):
    return np.asarray(end_of(system, mbd.equilibrium(system.set({f"{name}.value": jnp.asarray(load) for name, load in loads.items()}))))


def elastica(load):
    """The end of an inextensible beam under a load across it: theta'' = -P / EI cos(theta), clamped and free of moment."""
    s = np.linspace(0.0, 1.0, 60)
    run = solve_bvp(
        lambda _, y: [y[1], -load / BENDING * np.cos(y[0]), np.cos(y[0]), np.sin(y[0])],
        lambda a, b: np.array([a[0], b[1], a[2], a[3]]),
        s,
        np.array([s, 0 * s, 0.5 * s, 0.8 * s]),
        tol=1e-9,
    )
    return run.y[2:, -1]


def test_a_small_load_bends_it_as_linear_theory_says(straight):
    # The shear flexibility that replaces an element's own makes the nodes exact; what is left is of the square of the slope, 5e-5.
    load, shear = 0.01, 5 / 6 / 2.6 * 1e8
    np.testing.assert_allclose(bent(straight, tip=(0.0, load))[1], load / (3 * BENDING) + load / shear, rtol=1e-7)
    np.testing.assert_allclose(bent(straight, tip=(load, 0.0))[0] - 1.0, load / 1e8, rtol=1e-4)


@pytest.mark.parametrize("load", [100.0, 1000.0])
def test_a_large_load_bends_it_to_the_elastica(straight, load):
    """EI / L^2 and ten times that, by which the end moves by 0.98 of the length. The error of 16 elements falls with their square."""
    np.testing.assert_allclose(bent(straight, tip=(0.0, load)), elastica(load), atol=6e-4 * 0.81)


def test_a_moment_rolls_it_up_to_a_circle(straight):
    moment = 2 * np.pi * BENDING
    np.testing.assert_allclose(bent(straight, moment=moment), 0.0, atol=1e-12)
    # Half of it: a polygon of which each side turns by pi / 16, and closes to the diameter as a polygon does.
    half = bent(straight, moment=0.5 * moment)
    np.testing.assert_allclose(half, [0.0, 2 / np.pi], atol=2e-3)
    np.testing.assert_allclose(half[1], 1 / (ELEMENTS * np.sin(0.5 * np.pi / ELEMENTS)), rtol=1e-9)


def test_too_strong_a_moment_is_an_error_that_names_a_segment(straight):
    with pytest.raises(RuntimeError, match=r"beam\[\d+-\d+\]'.* turn"):
        bent(straight, moment=3.1 * ELEMENTS * BENDING)


def test_the_45_degree_bend_meets_published_values():
    """Bathe and Bolourchi (1979), an arc of 100 in, loaded out of its plane: a section of 1 x 1, E = 1e7, nu = 0. GJ is that of the polar
    moment, E/2 (1/12 + 1/12), as Simo and Vu-Quoc (1986) have it."""
    angle = np.linspace(0.0, np.pi / 4, 9)
    points = 100.0 * np.stack([1 - np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    section = mbd.Section(1e7, 1e7 / 12, 1.0, shear_stiffness=5e6, torsional_stiffness=1e7 / 12)
    with pytest.warns(UserWarning, match="Check the units"):  # inches, and a mass of no matter
        system = cantilever(points, section, up=(0, 0, 1))
    for load, published in (
        (300.0, [(22.33, 58.84, 40.08), (22.5, 59.2, 39.5)]),
        (600.0, [(15.79, 47.23, 53.37), (15.9, 47.2, 53.4)]),
    ):
        found = bent(system, tip=(0.0, 0.0, load))
        for simo_and_bathe, allowed in zip(published, (0.005, 0.005 if load == 600.0 else 0.02), strict=True):
            travelled = np.linalg.norm(np.array(simo_and_bathe) - points[-1])
            assert np.linalg.norm(found - simo_and_bathe) < allowed * travelled


def deflection(numbers):
    """m, by 10 N at the end of a tube in space: modulus [Pa], wall [m], length [m]."""
    modulus, wall, length = numbers
    section = mbd.Section.tube(mbd.Material(modulus, 0.3, 2700.0), 0.01, wall)
    beam = mbd.Beam("beam", (0.0, 0.0), jnp.stack([length, 0.0 * length]), section, 3)
    load = mbd.PointForce("tip", beam.end, jnp.stack([length, 0.0 * length]), (0.0, -10.0))
    system = mbd.Model([beam], [mbd.Fixed("clamp", mbd.ground, beam.start)], [load]).build()
    return -end_of(system, mbd.equilibrium(system, throw=False))[1]


def test_derivatives_by_modulus_thickness_and_length_and_batches():
    base = np.array([70e9, 0.001, 1.0])
    steps = 1e-4 * np.diag(base)
    walls = np.stack([np.full(32 - 6, 70e9), np.linspace(0.0005, 0.009, 32 - 6), np.ones(32 - 6)], axis=1)
    rows = np.concatenate([base + steps, base - steps, walls])
    values = jax.jit(jax.vmap(deflection))(rows)
    with_slopes = jax.jit(jax.value_and_grad(deflection))
    value, slopes = with_slopes(jnp.asarray(base))
    np.testing.assert_allclose(slopes, (values[:3] - values[3:6]) / np.diag(2 * steps), rtol=1e-6)
    inner = 0.01 - walls[:, 1]
    second_moment = np.pi / 4 * (0.01**4 - inner**4)
    np.testing.assert_allclose(values[6:], 10.0 / (3 * 70e9 * second_moment), rtol=5e-3)
    np.testing.assert_allclose(value, 0.5 * (values[:3] + values[3:6]), rtol=1e-6)
    np.testing.assert_allclose(values[6 + 2], with_slopes(jnp.asarray(walls[2]))[0], rtol=1e-11)
