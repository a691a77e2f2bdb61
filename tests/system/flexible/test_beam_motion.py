"""Beams that move: objectivity, conservation, frequencies, the rigid limit, damping, stiffening by rotation; and what is said to bad input."""

import warnings
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import jaxmbd as mbd

STEEL = mbd.Material(210e9, 0.3, 7850.0)
THIN = mbd.Section.rectangle(STEEL, 0.002, 0.02)
LENGTH = 1.0


def rotation(rng):
    p = rng.normal(size=4)
    p /= np.linalg.norm(p)
    w, u = p[0], p[1:]
    cross = np.array([[0, -u[2], u[1]], [u[2], 0, -u[0]], [-u[1], u[0], 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def random_poses(segment_system, rng):
    """Frames of both nodes, bent by about 1 rad and moved, with velocities."""
    frames = segment_system.frames(segment_system.q0, segment_system.v0)
    turned = np.stack([np.asarray(frames.rotation[0]), rotation(np.random.default_rng(3)), np.eye(3)])
    rotations = [turned[0], turned[0] @ np.array([[0.6, -0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]])]
    make = lambda i: mbd.Frame(  # noqa: E731
        frames.position[i] + 0.1 * rng.normal(size=3),
        jnp.asarray(rotations[i]),
        jnp.asarray(rng.normal(size=3)),
        jnp.asarray(rng.normal(size=3)),
    )
    return make(0), make(1)


def test_energy_and_loads_do_not_know_where_the_whole_stands():
    rng = np.random.default_rng(0)
    section = mbd.Section(2e4, 30.0, 1.0, lateral_bending_stiffness=50.0, torsional_stiffness=20.0)
    beam = mbd.Beam("beam", (0.1, 0.2, 0.3), (0.6, 0.3, 0.1), section, 1, up=(0, 0, 1), damping=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        system = mbd.Model([beam]).build()
    group, local, initial = system.force_groups[0], system.geometry.forces[0], system.frames(system.q0, system.v0)
    arrays = lambda tree: jax.tree.map(lambda leaf: leaf[0] if hasattr(leaf, "shape") else leaf, tree)  # noqa: E731
    segment, local = arrays(group.element), arrays(local)
    a, b = random_poses(system, rng)
    R, shift, spin, drift = rotation(rng), rng.normal(size=3), rng.normal(size=3), rng.normal(size=3)

    def carried(frame):
        """As seen from a frame that is turned, moved, and moving as a rigid body."""
        position = R @ frame.position + shift
        velocity = R @ frame.velocity + drift + jnp.cross(spin, position)
        return mbd.Frame(position, R @ frame.rotation, velocity, R @ frame.angular_velocity + spin)

    none = jnp.zeros(0)
    elastic = eqx.tree_at(lambda s: s.damping, segment, jnp.zeros(()))

    def moved(frame, s):
        w = frame.angular_velocity
        cross = jnp.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
        return mbd.Frame(frame.position + s * frame.velocity, frame.rotation + s * cross @ frame.rotation, frame.velocity, w)

    def bent(motion):
        """Energy after a motion of the second node, from the straight beam."""
        still = tuple(mbd.Frame(initial.position[i], initial.rotation[i], jnp.zeros(3), jnp.zeros(3)) for i in (0, 1))
        second = eqx.tree_at(lambda f: (f.velocity, f.angular_velocity), still[1], (motion[:3], motion[3:]))
        return elastic.potential(local, (still[0], moved(second, 1.0)), none)

    @jax.jit
    def everything():
        pairs = (a, b), (carried(a), carried(b))
        wrenches = [segment.wrench(local, frames, none, jnp.zeros(()), none) for frames in pairs]
        wrench = elastic.wrench(local, (a, b), none, jnp.zeros(()), none)
        power = sum(wrench.force[i] @ f.velocity + wrench.torque[i] @ f.angular_velocity for i, f in enumerate((a, b)))
        rate = jax.grad(lambda s: elastic.potential(local, (moved(a, s), moved(b, s)), none))(0.0)
        third = jax.jacfwd(jax.jacfwd(jax.grad(bent)))(jnp.zeros(6))
        return wrenches, [segment.potential(local, frames, none) for frames in pairs], power, rate, third

    (here, there), (energy, same), power, rate, third = everything()
    size = float(jnp.max(jnp.abs(here.torque)))
    np.testing.assert_allclose(there.force, here.force @ R.T, atol=1e-10 * size)
    np.testing.assert_allclose(there.torque, here.torque @ R.T, atol=1e-10 * size)
    np.testing.assert_allclose(same, energy, rtol=1e-11)
    np.testing.assert_allclose(power, -rate, rtol=1e-10)  # the wrench is the energy's slope along any motion of the nodes
    assert np.all(np.isfinite(third))  # where nothing is bent


# --- small motions ------------------------------------------------------------------------------------------------------------------------


def betas(function, count):
    xs = np.linspace(0.5, 25.0, 2000)
    values = function(xs)
    return np.array([brentq(function, a, b) for a, b, u, w in zip(xs, xs[1:], values, values[1:], strict=False) if u * w < 0][:count])


BOUNDARIES = {
    "clamped": (betas(lambda x: np.cos(x) + 1 / np.cosh(x), 6), 0.004),
    "supported": (np.pi * np.arange(1, 7), 0.005),
    "free": (betas(lambda x: np.cos(x) - 1 / np.cosh(x), 6), 0.01),
}


@pytest.mark.parametrize("held", [pytest.param(h, marks=pytest.mark.slow if h == "free" else ()) for h in BOUNDARIES])
def test_six_frequencies_are_those_of_the_continuum(held):
    beam = mbd.Beam("beam", (0.0, 0.0), (LENGTH, 0.0), THIN, 16)
    joints = {
        "clamped": [mbd.Fixed("clamp", mbd.ground, beam.start)],
        "supported": [
            mbd.Revolute("left", mbd.ground, beam.start, (0.0, 0.0)),
            mbd.Inplane("right", mbd.ground, beam.end, (LENGTH, 0.0), axis=(0.0, 1.0)),
        ],
        "free": [],
    }[held]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it floats
        system = mbd.Model([beam], joints).build()
    found = mbd.eigenvalues(system, at_rest(system)).frequencies
    expected, allowed = BOUNDARIES[held]
    expected = expected**2 / (2 * np.pi) * np.sqrt(THIN.bending_stiffness / THIN.mass_per_length) / LENGTH**2
    np.testing.assert_allclose(found[found > 0.5][::2][:6], expected, rtol=allowed)


def at_rest(system):
    """The initial configuration as a state, where nothing pulls."""
    return mbd.pose(system, {})


class Centrifugal(mbd.AbstractField):
    """What a frame that turns about the origin adds to bodies at rest in it."""

    name: str = eqx.field(static=True)
    speed: jax.Array
    parameters: ClassVar = {"speed": mbd.parameters.scalar("rad/s")}

    def __init__(self, speed):
        self.name, self.speed = "spin", jnp.asarray(speed, float)

    def force(self, mass, frame, t):
        return mass * self.speed**2 * frame.position * jnp.array([1.0, 1.0, 0.0])


@pytest.mark.slow
def test_a_rotating_beam_is_stiffened_as_published():
    """First frequency across the plane of rotation, in units of sqrt(EI / m L^4), at speeds in the same unit: Wright, Smith, Thresher and Wang
    (1982). In the plane its square is less by that of the speed."""
    unit = float(np.sqrt(THIN.bending_stiffness / THIN.mass_per_length)) / LENGTH**2
    beam = mbd.Beam("beam", (0.0, 0.0), (LENGTH, 0.0), THIN, 16)
    system = mbd.Model([beam], [mbd.Fixed("clamp", mbd.ground, beam.start)], [Centrifugal(0.0)]).build()
    for speed, published in ((0.0, 3.5160), (1.0, 3.6816), (2.0, 4.1373), (3.0, 4.7973), (4.0, 5.5850), (6.0, 7.3604), (12.0, 13.1702)):
        turning = system.set({"spin.speed": speed * unit})
        found = mbd.eigenvalues(turning, mbd.equilibrium(turning)).frequencies[0] * 2 * np.pi / unit
        np.testing.assert_allclose(found, np.sqrt(published**2 - speed**2), rtol=3e-3)


# --- motions ------------------------------------------------------------------------------------------------------------------------------


def momenta(run):
    """(linear, angular about the origin) at all rows."""
    system = run.system
    linear, angular = 0.0, 0.0
    for name in system.body_names:
        mass, J = float(system.get(f"{name}.mass")), np.asarray(system.get(f"{name}.inertia"))
        x, v, w = (np.asarray(a) for a in (run.position(name), run.velocity(name), run.angular_velocity(name)))
        R = np.asarray(run.rotation(name))
        linear = linear + mass * v
        angular = angular + mass * np.cross(x, v) + np.einsum("tij,jk,tlk,tl->ti", R, J, R, w)
    return linear, angular


def test_a_beam_in_free_flight_keeps_energy_and_momenta():
    """It tumbles, and its end moves across it at first. What HHT loses of the energy is its own, within its tolerance."""
    section = mbd.Section(2e3, 2.0, 0.5, lateral_bending_stiffness=3.0, torsional_stiffness=2.0)
    beam = mbd.Beam("beam", (0.0, 0.0, 0.0), (1.0, 0.0, 0.0), section, 3, velocity=(0.1, 0.2, 0.3), angular_velocity=(1.0, 5.0, 8.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = mbd.Model([beam]).build()
    free = free.set({"beam[3].velocity": free.get("beam[3].velocity") + np.array([0.0, 0.0, 2.0])})
    run = mbd.simulate(free, 0.1, integrator=mbd.HHT(1e-6))
    linear, angular = momenta(run)
    np.testing.assert_allclose(linear, np.broadcast_to(linear[0], linear.shape), atol=1e-9)
    np.testing.assert_allclose(angular, np.broadcast_to(angular[0], angular.shape), atol=2e-4 * np.linalg.norm(angular[0]))
    energy = np.asarray(run.energy().total)
    stored = np.asarray(run.observe("beam.potential"))
    assert np.max(stored) > 0.005 * energy[0]
    assert np.max(np.abs(energy - energy[0])) < 1e-3 * energy[0]


# --- input --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.Beam("b", (0, 0), (1, 0), THIN, 0), "beam 'b' needs a whole number of elements"),
        (lambda: mbd.Beam("b", (0, 0), (0, 0), THIN, 2), "beam 'b': its element 0, from .* has no length"),
        (lambda: mbd.Beam("b", (0, 0), (1, 0, 0), THIN), "start has 2 components, end 3"),
        (lambda: mbd.Beam("b", (0, 0, 0), (1, 0, 0), THIN, up=(1, 0, 0)), "points along its element 0"),
        (lambda: mbd.Beam("b", (0, 0), (1, 0), STEEL), "section must be an mbd.Section"),
        (lambda: mbd.Beam("b", (0, 0), (1, 0), THIN, damping=-1.0), "damping of beam 'b' must not be negative"),
        (lambda: mbd.Beam.along("b", [(0, 0, 0)], THIN), "at least two points"),
        (lambda: mbd.Beam.along("b", [(0, 0), (1, 0), (1, 0)], THIN), "its element 1, from .* has no length"),
        (lambda: mbd.Section.tube(STEEL, 0.01, 0.02), "thickness 0.02 m of its wall is larger than its radius"),
        (lambda: mbd.Section.circle(mbd.Material(210e9), 0.01), "needs its density"),
        (lambda: mbd.Section(-1.0, 1.0, 1.0), "axial_stiffness of the section must be positive"),
        (lambda: mbd.Fixed("weld", mbd.ground, mbd.Beam("b", (0, 0), (1, 0), THIN)), "name a node: beam.start"),
        (lambda: mbd.Model([mbd.Beam("b", (0, 0), (1, 0), THIN), mbd.PlanarBody("b", 1.0, 1.0)]), "'b' is used twice"),
    ],
)
def test_bad_input_is_refused_by_name(make, message, annotations_unchecked):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("factor", [1e-9, 1e18])
def test_a_modulus_in_other_units_is_doubted(factor):
    section = mbd.Section.circle(mbd.Material(210e9 * factor, 0.3, 7850.0), 0.005)
    with pytest.warns(UserWarning, match="beam 'b': clamped at one end it would swing at .* Check the units"):
        mbd.Beam("b", (0, 0, 0), (1, 0, 0), section)


def test_sections_have_the_moments_of_handbooks():
    G = 210e9 / 2.6
    square, strip = mbd.Section.rectangle(STEEL, 0.01, 0.01), mbd.Section.rectangle(STEEL, 0.1, 0.001)
    np.testing.assert_allclose(square.torsional_stiffness, 0.1405770 * 0.01**4 * G, rtol=1e-6)
    np.testing.assert_allclose(strip.torsional_stiffness, 0.1 * 0.001**3 / 3 * (1 - 0.63 * 0.01) * G, rtol=1e-4)
    np.testing.assert_allclose(strip.bending_stiffness / strip.lateral_bending_stiffness, 1e4, rtol=1e-12)
    solid, thin = mbd.Section.circle(STEEL, 0.01), mbd.Section.tube(STEEL, 0.01, 1e-6)
    np.testing.assert_allclose(solid.bending_stiffness, 210e9 * np.pi / 4 * 0.01**4, rtol=1e-12)
    np.testing.assert_allclose(solid.shear_stiffness / (G * np.pi * 0.01**2), 6 * 1.3 / (7 + 6 * 0.3), rtol=1e-12)  # Cowper
    np.testing.assert_allclose(thin.bending_stiffness, 210e9 * np.pi * 0.01**3 * 1e-6, rtol=1e-3)
    np.testing.assert_allclose(solid.mass_per_length, 7850.0 * np.pi * 0.01**2, rtol=1e-12)
    np.testing.assert_allclose(solid.torsional_stiffness, G * np.pi / 2 * 0.01**4, rtol=1e-12)
