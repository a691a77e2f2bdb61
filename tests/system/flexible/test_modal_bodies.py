"""Bodies that deform in modes: rigid limit, conservation, points where elements attach, closed forms of a cantilever, derivatives, messages."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd import fem
from jaxmbd.system.rotations import rotation_matrix, to_body

LENGTH, MODULUS, DENSITY, WALL = 1.0, 210e9, 7850.0, 0.002


def frame(wall=WALL, modulus=MODULUS):
    """Two tubes at an angle, with a mass at the end."""
    nodes = {"a": (0, 0, 0), "b": (1, 0, 0), "c": (1, 0.6, 0.2)}
    section = {"t": fem.Tube(0.02, wall)}
    return fem.SpaceFrame(
        nodes, [("a", "b", "t"), ("b", "c", "t")], section, elastic_modulus=modulus, element_length=0.2, masses={"c": 0.3}
    )


@functools.cache
def reduced():
    return fem.craig_bampton(frame(), ("a", "c"), 4)


@functools.cache
def tube():
    straight = fem.SpaceFrame({"a": (0, 0, 0), "b": (LENGTH, 0, 0)}, [("a", "b", "t")], {"t": fem.Tube(0.02, WALL)}, element_length=0.1)
    return fem.craig_bampton(straight, ("a", "b"), 4)


def coordinates(body, seed, bend=0.01):
    """Of a body that turns, moves and is deformed."""
    rng = np.random.default_rng(seed)
    p = rng.normal(size=4)
    n = body.modes.count
    q = np.concatenate([rng.normal(size=3), p / np.linalg.norm(p), bend * rng.normal(size=n)])
    return body.normalize(jnp.asarray(q), jnp.asarray(rng.normal(size=7 + n)))


def test_without_deformation_it_is_the_rigid_body_of_the_same_mass_and_inertia():
    body = mbd.ModalBody("body", reduced())
    rigid = mbd.RigidBody("rigid", reduced().mass, reduced().inertia)
    q, v = coordinates(body, 1, bend=0.0)
    v = v.at[7:].set(0.0)
    np.testing.assert_allclose(body.mass_matrix(q)[:7, :7], rigid.mass_matrix(q[:7]), atol=1e-12)
    np.testing.assert_allclose(body.velocity_force(q, v)[:7], rigid.velocity_force(q[:7], v[:7]), atol=1e-11)
    np.testing.assert_allclose(body.generalize(q, v[:3], v[3:6])[:7], rigid.generalize(q[:7], v[:3], v[3:6]), atol=1e-13)


def test_a_stiff_one_tumbles_as_the_rigid_body_does():
    start = {"velocity": (1, 0, 0), "angular_velocity": (3.0, 8.0, -2.0)}
    body = mbd.ModalBody("body", reduced(), stiffness_factor=1e7, **start)
    # Started where the centrifugal forces leave it, so that nothing rings.
    rest = np.linalg.solve(1e7 * reduced().modal_stiffness, body.velocity_force(*body.initial())[7:])
    body = mbd.ModalBody("body", reduced(), stiffness_factor=1e7, deflection=rest, **start)
    rigid = mbd.RigidBody("body", reduced().mass, reduced().inertia, position=reduced().centre, **start)
    ends = []
    for one in (body, rigid):
        with pytest.warns(UserWarning, match="no joint or force acts"):
            system = mbd.Model([one]).build()
        ends.append(mbd.simulate(system, 0.2, integrator=mbd.HHT(1e-10), step=1e-3).q[-1, :7])
    np.testing.assert_allclose(*ends, atol=1e-8)


def test_mass_matrix_product_and_solution_agree_with_the_kinetic_energy_of_the_lumps():
    body = mbd.ModalBody("body", reduced())
    q, v = coordinates(body, 2)
    mass = body.mass_matrix(q)
    np.testing.assert_allclose(mass @ v, body.mass_product(q, v), atol=1e-12)
    force = body.mass_product(q, v + body.own_acceleration(q, v))
    np.testing.assert_allclose(body.mass_product(q, body.solve_mass(q, force)), force, atol=1e-10)
    # Lagrange's equations of the kinetic energy: d/dt (M v) - dT/dq is the inertia force.
    moved = lambda q: body.mass_product(q, v)  # noqa: E731
    quadratic = jax.jvp(moved, (q,), (v,))[1] - jax.grad(lambda q: 0.5 * v @ body.mass_product(q, v))(q)
    off = quadratic + body.velocity_force(q, v)
    off = off.at[3:7].add(-q[3:7] * (q[3:7] @ off[3:7]))  # along Euler parameters their own row answers
    np.testing.assert_allclose(off, 0.0, atol=1e-10)


def test_points_move_with_their_modes_and_forces_there_work_on_these():
    body = mbd.ModalBody("body", reduced())
    q, v = coordinates(body, 3, bend=0.1)
    still = jnp.zeros_like(v)
    places, rates = jax.jvp(lambda q: body.points(q, still), (q,), (v,))
    seen = body.points(q, v)
    np.testing.assert_allclose(seen.velocity, rates.position, atol=1e-12)
    turning = rates.rotation @ places.rotation.swapaxes(1, 2)
    np.testing.assert_allclose(seen.angular_velocity, np.stack([turning[:, 2, 1], turning[:, 0, 2], turning[:, 1, 0]], 1), atol=1e-12)
    rng = np.random.default_rng(4)
    force, torque = rng.normal(size=(2, 2, 3))
    power = np.sum(force * seen.velocity) + np.sum(torque * seen.angular_velocity)
    assert body.generalize_points(q, jnp.asarray(force), jnp.asarray(torque)) @ v == pytest.approx(power)


def test_energy_momentum_and_angular_momentum_are_conserved_in_free_flight():
    modes = reduced()
    bend = 0.02 * np.random.default_rng(1).normal(size=modes.count) * (modes.frequencies[0] / modes.frequencies) ** 2
    body = mbd.ModalBody("body", modes, (0.1, 0.2, 0.3), velocity=(1, 0.2, 0.3), angular_velocity=(5, 7, -3), deflection=bend)
    with pytest.warns(UserWarning, match="no joint or force acts"):
        system = mbd.Model([body]).build()
    run = mbd.simulate(system, 0.01, integrator=mbd.BDF(1e-8))
    energy = run.energy()
    assert np.ptp(energy.potential) > 0.02 * energy.total[0]
    np.testing.assert_allclose(energy.total, energy.total[0], rtol=1e-6)
    assert abs(run.observe("energy.error")[-1]) < 1e-6 * energy.total[0]

    def momenta(q, v):
        pushed = body.mass_product(q, v)
        spin = rotation_matrix(q[3:7]) @ (0.5 * to_body(q[3:7], pushed[3:7]))
        return pushed[:3], spin + jnp.cross(q[:3], pushed[:3])

    for momentum in jax.vmap(momenta)(run.q, run.v):
        np.testing.assert_allclose(momentum, jnp.broadcast_to(momentum[0], momentum.shape), atol=1e-7)


def cantilever(body, **load):
    clamp = mbd.Fixed("clamp", mbd.ground, body.at("a"))
    return mbd.Model([body], [clamp], [mbd.PointForce("load", body.at("b"), body.at("b").position, (0, 0, -10.0)), *load.values()])


def test_a_clamped_tube_bends_and_swings_as_beam_theory_says():
    body = mbd.ModalBody("tube", tube(), damping=0.01)
    system = cantilever(body, weight=mbd.Gravity((0, 0, -9.81))).build()
    area, second = (float(part) for part in fem.Tube(0.02, WALL).measures())
    rest = mbd.equilibrium(system)
    shear = 0.5 * MODULUS / 2.6 * area
    line = DENSITY * area * 9.81
    expected = 10 * (1 / (3 * MODULUS * second) + 1 / shear) + line * (1 / (8 * MODULUS * second) + 1 / (2 * shear))
    at_rest = mbd.simulate(system, 1e-4, initial=rest, integrator=mbd.HHT(), step=1e-4)
    assert -float(at_rest.position("tube@b")[0, 2]) == pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(at_rest.reaction("clamp").force[0], (0, 0, 10 + line), atol=1e-6)
    # The wall at the clamp carries the bending moment.
    worst = at_rest.hot_spots("tube", 3)
    assert worst[0].label == "a-b at 0.00"
    assert worst[0].stress == pytest.approx((10 * LENGTH + 0.5 * line) * 0.01 / second, rel=1e-2)  # weight within elements is not seen
    assert worst[0].stress > worst[1].stress > worst[2].stress
    assert at_rest.stress("tube").shape == (2, 2 * 8 * 10)
    swings = 2 * np.pi * mbd.eigenvalues(system, rest).frequencies
    first = 1.875104**2 * np.sqrt(MODULUS * second / (DENSITY * area)) / LENGTH**2
    assert np.abs(swings / first - 1).min() < 5e-3


def tip(wall, modulus):
    """Height of the free end of a clamped angle a moment after it was let go, and the largest stress then."""
    modes = fem.project(frame(wall, modulus), reduced())
    body = mbd.ModalBody("body", modes, damping=0.02)
    model = mbd.Model([body], [mbd.Fixed("clamp", mbd.ground, body.at("a"))], [mbd.Gravity((0, 0, -9.81))])
    run = mbd.simulate(model, 4e-3, integrator=mbd.HHT(1e-8), step=2e-4, saveat=mbd.SaveAt(t1=True), max_steps=32)
    return jnp.stack([run.position("body@c")[-1, 2] - 0.2, 1e-9 * jnp.max(run.stress("body")[-1])])


def test_a_run_has_derivatives_by_thickness_and_modulus():
    inside = jax.jit(lambda changes: tip(WALL * (1 + changes[0]), MODULUS * (1 + changes[1])))
    slopes = jax.jit(jax.jacfwd(inside))(jnp.zeros(2))
    for column, change in enumerate(1e-4 * jnp.eye(2)):
        np.testing.assert_allclose(slopes[:, column], (inside(change) - inside(-change)) / 2e-4, rtol=1e-4)


@pytest.mark.slow
def test_designs_run_side_by_side():
    walls = WALL * jnp.linspace(0.8, 1.2, 32)
    together = jax.jit(jax.vmap(tip, (0, None)))(walls, MODULUS)
    for i in (0, 13, 31):
        np.testing.assert_allclose(together[i], jax.jit(tip)(walls[i], MODULUS), rtol=1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mbd.ModalBody("body", reduced()).at("d"), "unknown interface point 'd'"),
        (lambda: mbd.ModalBody("body", reduced(), damping=-1.0), "damping of body 'body' must not be negative"),
        (lambda: mbd.ModalBody("body", reduced(), deflection=(1.0, 2.0)), "deflection of body 'body': expected"),
        (lambda: mbd.ModalBody("body", skewed("bends")), "not orthogonal to rigid rotations"),
        (lambda: mbd.ModalBody("body", skewed("modal_mass")), "modal_mass of body 'body' must be symmetric and positive definite"),
    ],
)
def test_bad_input_is_refused_with_a_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_modes_must_be_those_of_finite_elements(annotations_unchecked):
    with pytest.raises(ValueError, match="must be made by"):
        mbd.ModalBody("body", 3)


def skewed(field):
    modes = reduced()
    if field == "bends":
        return dataclasses.replace(modes, bends=modes.bends + 0.1)
    return dataclasses.replace(modes, modal_mass=-modes.modal_mass)


def test_a_model_with_modes_is_data(tmp_path):
    body = mbd.ModalBody("tube", tube(), damping=0.02, deflection=np.linspace(0.0, 1e-3, tube().count))
    loaded = mbd.load_model(mbd.Model([body], [], []).save(tmp_path / "x.json")).bodies[0]
    for field in ("damping", "deflection", "position"):
        np.testing.assert_array_equal(getattr(loaded, field), getattr(body, field))
    np.testing.assert_array_equal(loaded.modes.frequencies, body.modes.frequencies)
