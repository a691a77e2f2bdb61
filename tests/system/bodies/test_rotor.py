"""Rotors: what is driven turns evenly, what is held stays, what is free obeys Newton."""

import jax
import numpy as np
import pytest

import jaxmbd as mbd

MASS, STIFFNESS, SPEED, PULL = 0.5, 200.0, 30.0, 3.0
AXIS = np.array([0.0, 3.0, 4.0])
"""length 5"""


def model(speed=SPEED) -> mbd.Model:
    """A rotor that is free along z, on a spring along z, pulled askew off its axis."""
    rotor = mbd.Rotor("rotor", MASS, 0.01, AXIS, speed, angle=0.2, free="z")
    return mbd.Model(
        [rotor],
        [],
        [
            mbd.SpringDamper("spring", mbd.ground, rotor, (0, 0, -1.0), (0, 0, 0), STIFFNESS, free_length=1.0),
            mbd.PointForce("pull", rotor, (0.1, 0.2, 0.0), (40.0, -7.0, PULL)),
        ],
    )


@pytest.fixture(scope="module")
def run() -> mbd.Solution:
    return mbd.simulate(model(), 0.3, step=1e-3, integrator=mbd.Trapezoidal())


def test_a_driven_rotor_turns_evenly_whatever_acts_on_it(run):
    np.testing.assert_allclose(run.orientation("rotor"), 0.2 + SPEED * run.ts, rtol=1e-12)
    np.testing.assert_allclose(run.angular_velocity("rotor")[-1], SPEED * AXIS / 5, rtol=1e-12)


def test_held_translations_stay_and_free_ones_swing(run):
    """z = F/k (1 - cos(w t)); the trapezoidal rule is late by t (w h)^2 / 12, 2e-4 of a swing here."""
    swing = PULL / STIFFNESS * (1 - np.cos(np.sqrt(STIFFNESS / MASS) * run.ts))
    np.testing.assert_allclose(run.position("rotor")[:, :2], 0.0, atol=1e-15)
    np.testing.assert_allclose(run.position("rotor")[:, 2], swing, atol=5e-4 * PULL / STIFFNESS)


def test_its_frame_turns_as_its_angular_velocity_says(run):
    system = model().build()
    rotate = jax.jacfwd(lambda q: system.frames(q, system.v0).rotation[0])(system.q0)[..., 3]
    frame = system.frames(system.q0, system.v0)
    spin = rotate @ np.asarray(frame.rotation[0]).T  # the skew matrix of the unit axis
    np.testing.assert_allclose([spin[2, 1], spin[0, 2], spin[1, 0]], AXIS / 5, atol=1e-14)
    np.testing.assert_allclose(frame.rotation[0] @ frame.rotation[0].T, np.eye(3), atol=1e-14)


def test_mass_and_its_inverse_agree():
    system = model().build()
    force = np.arange(1.0, 5.0)
    moved = system.solve_mass(system.q0, force)
    np.testing.assert_allclose(system.mass(system.q0) @ moved, force)
    np.testing.assert_allclose(system.mass_product(system.q0, moved), force)
    assert system.coordinate_names() == ("rotor.x", "rotor.y", "rotor.z", "rotor.angle")
    assert system.constraint(system.q0, 0.0).shape == (0,)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"free": "zx"}, "free of body 'r' must name translations in order"),
        ({"axis": (0, 0, 0)}, "axis of body 'r' has zero length"),
        ({"mass": 0.0}, "mass of body 'r' must be positive"),
    ],
)
def test_bad_input_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        mbd.Rotor("r", **({"mass": 1.0, "inertia": 1.0} | wrong))
