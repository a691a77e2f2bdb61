"""Gears, racks, screws, motions and torsion springs over several turns: angles that the coordinates alone do not know."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.system.initial import first_memory

from ..numpy_mechanics import moving, quaternion_about, relative, resting, unit

STOPPED = 1e-8
"""m or rad: constraint violations of 1e-9 times ratios and levers of a few."""
RATIO, RADIUS, PITCH = -2.5, 0.2, 0.05
CRANK, WHEEL, RACK, NUT, DRUM = (1.0, 0.4, -0.3), (0.2, -1.0, 0.7), (0.3, 0.6, 1.0), (-0.5, 0.8, 0.4), (0.1, 0.9, 0.2)
STIFFNESS, INERTIA, SPIN = 0.1, 0.08, 20.0


def speed_up(t):
    """Almost four turns in a second, from rest."""
    return 24.0 * t**2


@pytest.fixture(scope="module")
def spatial() -> dict[str, np.ndarray]:
    """Angles and travels against the ground, from positions and orientations alone."""
    crank = mbd.RigidBody("crank", 1.0, (0.02, 0.03, 0.04), (0.1, 0.0, 0.0), quaternion_about((1, 1, 0), 0.7))
    wheel = mbd.RigidBody("wheel", 1.0, (0.02, 0.03, 0.04), (0.0, 1.0, 0.2), quaternion_about((0, 1, 1), -1.1))
    rack = mbd.RigidBody("rack", 2.0, (0.02, 0.03, 0.04), (1.0, 0.0, 0.3), quaternion_about((1, 0, 2), 2.0))
    nut = mbd.RigidBody("nut", 1.0, (0.02, 0.03, 0.04), (-1.0, 0.5, 0.0), quaternion_about((1, 2, 0), 0.4))
    # Alike about all axes: an angle about a slanted axis then is the integral of its rate.
    drum = mbd.RigidBody("drum", 1.0, (INERTIA,) * 3, (0.0, 0.0, 2.0), angular_velocity=SPIN * unit(DRUM))
    ground = mbd.ground
    joints = [
        mbd.Revolute("crank bearing", ground, crank, (0.0, 0.0, 0.0), CRANK),
        mbd.Revolute("wheel bearing", ground, wheel, (0.1, 1.0, 0.2), WHEEL),
        mbd.Revolute("drum bearing", ground, drum, (0.0, 0.0, 2.0), DRUM),
        mbd.Translational("guide", ground, rack, (1.0, 0.0, 0.3), RACK),
        mbd.Screw("screw", ground, nut, (-1.0, 0.6, 0.1), NUT, PITCH),
        mbd.Gear("gear", crank, wheel, CRANK, WHEEL, RATIO),
        mbd.RackAndPinion("teeth", crank, rack, CRANK, RACK, RADIUS),
        mbd.Motion("turn crank", ground, crank, axis=CRANK, function=speed_up),
        mbd.Motion("turn nut", ground, nut, axis=NUT, function=speed_up),
    ]
    spring = mbd.TorsionSpringDamper("spiral", ground, drum, DRUM, STIFFNESS)
    model = mbd.Model([crank, wheel, rack, nut, drum], joints, [spring, mbd.Gravity((0.0, 0.0, -9.81))])
    solution = mbd.simulate(model, t1=1.0, integrator=mbd.HHT(tolerance=1e-5))
    rows = resting(len(solution.ts))
    axes = {"crank": CRANK, "wheel": WHEEL, "rack": RACK, "nut": NUT, "drum": DRUM}
    found = {"t": np.asarray(solution.ts), "violation": np.asarray(solution.constraint_violation())}
    for name, axis in axes.items():
        body = moving(solution, name)
        motion = relative(rows, body, body.r[0] if name == "rack" else (-1.0, 0.6, 0.1))
        found[f"{name} angle"], found[f"{name} travel"] = motion.angle(axis), motion.offset @ unit(axis)
    return found


def test_drivers_hold_over_several_turns(spatial):
    assert np.max(spatial["violation"]) < 1e-9


def test_a_motion_turns_a_body_several_times(spatial):
    np.testing.assert_allclose(spatial["crank angle"], speed_up(spatial["t"]), atol=STOPPED)
    assert spatial["crank angle"][-1] > 3 * 2 * np.pi


def test_a_gear_keeps_its_ratio_over_several_turns(spatial):
    np.testing.assert_allclose(spatial["wheel angle"], RATIO * spatial["crank angle"], atol=STOPPED)
    assert spatial["wheel angle"][-1] < -9 * 2 * np.pi


def test_a_rack_travels_on_over_several_turns_of_its_pinion(spatial):
    np.testing.assert_allclose(spatial["rack travel"], RADIUS * spatial["crank angle"], atol=STOPPED)


def test_a_screw_travels_by_its_pitch_every_turn(spatial):
    turns = speed_up(spatial["t"]) / (2 * np.pi)
    np.testing.assert_allclose(spatial["nut travel"], PITCH * turns, atol=STOPPED)
    np.testing.assert_allclose(spatial["nut angle"], 2 * np.pi * turns, atol=STOPPED)


def test_a_torsion_spring_counts_beyond_two_turns(spatial):
    """An oscillator with an amplitude of 18 rad: had it lost a turn, its torque would jump. Integration error 1e-3."""
    frequency = np.sqrt(STIFFNESS / INERTIA)
    np.testing.assert_allclose(spatial["drum angle"], SPIN / frequency * np.sin(frequency * spatial["t"]), atol=1e-3 * SPIN / frequency)
    assert spatial["drum angle"][-1] > 2 * 2 * np.pi


@pytest.fixture(scope="module")
def planar() -> tuple[mbd.Solution, mbd.Solution]:
    """A part of a run, and the rest continued from its last state."""
    crank = mbd.PlanarBody("crank", 1.0, 0.03, (0.1, 0.0), 0.5)
    wheel = mbd.PlanarBody("wheel", 1.0, 0.02, (1.0, 0.0), -0.3)
    rack = mbd.PlanarBody("rack", 2.0, 0.1, (0.0, 1.0))
    drum = mbd.PlanarBody("drum", 1.0, INERTIA, (2.0, 0.0), 1.0, angular_velocity=SPIN)
    joints = [
        mbd.Revolute("crank bearing", mbd.ground, crank, (0.0, 0.0)),
        mbd.Revolute("wheel bearing", mbd.ground, wheel, (1.0, 0.1)),
        mbd.Revolute("drum bearing", mbd.ground, drum, (2.0, 0.0)),
        mbd.Translational("guide", mbd.ground, rack, (0.0, 1.0), (1.0, -0.2)),
        mbd.Gear("gear", crank, wheel, ratio=RATIO),
        mbd.RackAndPinion("teeth", crank, rack, direction=(1.0, -0.2), radius=RADIUS),
        mbd.Motion("turn crank", mbd.ground, crank, function=speed_up),
    ]
    spring = mbd.TorsionSpringDamper("spiral", mbd.ground, drum, stiffness=STIFFNESS)
    system = mbd.Model([crank, wheel, rack, drum], joints, [spring]).build()
    n, m = system.q0.size, len(system.row_lengths())
    nothing, start = jnp.zeros(0), jnp.zeros(())
    state = mbd.State(start, system.q0, system.v0, nothing, jnp.zeros(m), jnp.zeros(n), nothing, first_memory(system))
    run = lambda t1, state: mbd.simulate(system, t1=t1, initial=state, integrator=mbd.HHT(tolerance=1e-5))  # noqa: E731
    first = run(0.6, state)
    return first, run(1.0, dataclasses.replace(first.final, method=None))


def test_planar_drivers_count_turns_and_go_on_counting_from_a_final_state(planar):
    for part in planar:
        t = np.asarray(part.ts)
        turned = {name: np.asarray(part.orientation(name)) for name in ("crank", "wheel", "drum")}
        np.testing.assert_allclose(turned["crank"] - 0.5, speed_up(t), atol=STOPPED)
        np.testing.assert_allclose(turned["wheel"] + 0.3, RATIO * speed_up(t), atol=STOPPED)
        travel = (np.asarray(part.position("rack")) - (0.0, 1.0)) @ unit((1.0, -0.2))
        np.testing.assert_allclose(travel, RADIUS * speed_up(t), atol=STOPPED)
        frequency = np.sqrt(STIFFNESS / INERTIA)
        wound = SPIN / frequency * np.sin(frequency * t)
        np.testing.assert_allclose(turned["drum"] - 1.0, wound, atol=1e-3 * SPIN / frequency)
    assert float(planar[1].ts[0]) == 0.6
