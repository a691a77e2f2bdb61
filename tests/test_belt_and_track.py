"""The belt and the track: counts, starts that are closed, statics, short runs; the long ones with what the papers' drives must do are slow."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems import belts, tracks
from jaxmbd.problems.loops import Circle, Path

from .test_problems import energy_closes

PAPER = {"length_scale": 1e-3, "velocity_error": False}
"""Negrut et al. (2005) work in mm and control positions only."""


def contact_count(system):
    return sum(len(group.names) for group in system.force_groups if group.element.is_contact)


@pytest.fixture(scope="module")
def spatial_track():
    return mbd.problems.track(spatial=True).build()


@pytest.fixture(scope="module")
def planar_belt():
    return mbd.problems.belt().build()


# --- the start ------------------------------------------------------------------------------------------------------------------------


def test_a_path_is_closed_smooth_and_as_long_as_its_parts():
    circles = [
        Circle(np.array(c), r, name, back)
        for c, r, name, back in (((0, 0), 1.0, "a", False), ((0, 2), 0.3, "b", True), ((-4, 3), 0.7, "c", False))
    ]
    path = Path(circles)
    ways = np.linspace(0, path.length, 20_001)
    points, along = (np.array(u) for u in zip(*(path.at(way) for way in ways), strict=True))
    np.testing.assert_allclose(points[-1], points[0], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(np.diff(points, axis=0), axis=1).sum(), path.length, rtol=1e-6)
    np.testing.assert_allclose(np.diff(points, axis=0) / np.diff(ways)[:, None], along[:-1], atol=2e-3)
    for circle in circles:
        assert np.min(np.linalg.norm(points - circle.centre, axis=1)) == pytest.approx(circle.radius, abs=1e-6)
    with pytest.raises(ValueError, match="the loop does not touch 'b'"):
        Path([circles[0], Circle(np.array([-2.0, 1.5]), 0.3, "b"), circles[2]])


@pytest.mark.parametrize("n", [40, 100])
def test_the_belt_starts_as_a_closed_loop_of_equal_chords_under_its_preload(n):
    start = belts._start(n)
    steps = np.roll(start.chords.corners, -1, axis=0) - start.chords.corners
    np.testing.assert_allclose(np.hypot(*steps.T), 1.1 / n * 1.003, rtol=0, atol=1e-12)
    np.testing.assert_allclose(start.chords.angles[-1] + np.diff(start.chords.angles)[-1], start.chords.angles[0] - 2 * np.pi, atol=0.5)
    np.testing.assert_allclose(start.chords.angles, np.unwrap(np.arctan2(steps[:, 1], steps[:, 0])), atol=1e-12)
    if n == 100:
        # The sketch of the same drive, whose numbers these are.
        assert math.degrees(start.arm_angle) == pytest.approx(math.degrees(1.6405974373106562), abs=0.05)
        assert start.arm_torque == pytest.approx(15.769, abs=0.05)


@pytest.mark.parametrize(("n", "rollers", "carriers"), [(24, 2, 1), (46, 6, 1), (200, 37, 5)])
def test_the_track_starts_as_a_closed_loop_of_its_pitch_with_pins_in_the_gaps(n, rollers, carriers):
    start = tracks._start(n)
    steps = np.roll(start.chords.corners, -1, axis=0) - start.chords.corners
    np.testing.assert_allclose(np.hypot(*steps.T), 0.2159, rtol=0, atol=1e-12)
    assert (len(start.rollers), len(start.carriers)) == (rollers, carriers)
    if n == 46:
        assert start.idler[0] == pytest.approx(3.8148204, abs=1e-4)
    away = start.chords.corners - tracks.SPROCKET
    on = np.abs(np.hypot(*away.T) - tracks.PITCH_RADIUS) < 1e-9
    turns = np.unwrap(np.arctan2(away[on][:, 1], away[on][:, 0])) / (2 * np.pi / 21)
    assert on.sum() >= 5
    np.testing.assert_allclose(np.diff(turns), -2.0, atol=1e-9)  # a pin in every second gap


def test_the_track_has_the_counts_of_the_paper(spatial_track):
    """Negrut et al. (2005): 61 bodies, 61 degrees of freedom, 690 contacts; 366 coordinates, 305 equations, to which Euler parameters add 61."""
    assert (len(spatial_track.body_names), len(spatial_track.coordinate_lengths()), len(spatial_track.row_lengths())) == (61, 427, 366)
    assert (spatial_track.freedoms(), contact_count(spatial_track)) == (61, 690)
    kinds = [type(group.element).__name__ for group in spatial_track.joint_groups for _ in group.names]
    expected = {"Revolute": 54, "Translational": 1, "Fixed": 4, "Planar": 1, "Inline": 1, "Motion": 1}
    assert {kind: kinds.count(kind) for kind in set(kinds)} == expected
    weight = 9.81 * float(jnp.sum(spatial_track.masses()))
    assert weight == pytest.approx(177.27e3, rel=1e-4)


def test_the_belt_has_the_counts_of_the_paper(planar_belt):
    assert (len(planar_belt.body_names), len(planar_belt.coordinate_lengths()), len(planar_belt.row_lengths())) == (105, 315, 10)
    assert contact_count(planar_belt) == 400
    # Stacked by kind: nothing that is traced depends on the number of segments.
    assert len(planar_belt.force_groups) < 10


def test_what_cannot_be_wound_is_refused(annotations_unchecked):
    for problem, least in (("belt", 40), ("track", 24)):
        for n in (least - 1, 50.0, True):
            with pytest.raises(ValueError, match=f"the problem '{problem}' needs a whole number n of .*, at least {least}"):
                getattr(mbd.problems, problem)(n=n)


# --- statics --------------------------------------------------------------------------------------------------------------------------


def test_the_belt_starts_with_its_preload_almost_in_balance(planar_belt):
    """Links carry 300 N; at the ends of the arcs bending leaves some tens of N, and no torque turns a pulley."""
    system = planar_belt
    force = np.asarray(eqx.filter_jit(lambda system: system.force(system.q0, system.v0, jnp.zeros(())))(system.prepare()))
    of = dict(zip(system.coordinate_names(), force, strict=True))
    assert 10 < max(abs(of[f"segment[{i}].{c}"]) for i in range(100) for c in "xy") < 60
    np.testing.assert_allclose([of[f"{p}.angle"] for p in ("crank", "tensioner", "alternator", "pump")], 0.0, atol=1e-9)


# --- runs -----------------------------------------------------------------------------------------------------------------------------


def test_a_small_belt_begins_to_run_and_its_balance_closes():
    run = mbd.simulate(mbd.problems.belt(n=40), 1e-3, integrator=mbd.HHT(1e-5, **PAPER))
    error, total = (np.asarray(run.observe(name)) for name in ("energy.error", "energy.total"))
    assert np.max(np.abs(error)) < 1e-2 * np.max(total)  # what the stretched belt stores
    loads = run.contact("rim_crank")
    assert np.asarray(loads.gap).shape[1] == 40
    # T s / R presses each of the segments that lie on the crank, at the start.
    pressed, expected = np.asarray(loads.normal_force)[0], 300.0 * 1.1 / 40 / 0.08
    assert np.sum(np.abs(pressed - expected) < 0.02 * expected) >= 5


@pytest.mark.slow
def test_the_track_settles_on_the_ground_and_starts():
    """Its weight on the ground, five or six pins in the teeth, no tooth skipped, the frame as fast as the track within some per cent."""
    run = mbd.simulate(mbd.problems.track(), 1.6, integrator=mbd.HHT(1e-5, **PAPER), max_step=0.01)
    assert energy_closes(run, 1e-2)
    late = np.asarray(run.ts) > 1.4
    ts = np.asarray(run.ts)[late]

    def mean(values):
        return np.trapezoid(np.asarray(values)[late], ts, axis=0) / (ts[-1] - ts[0])

    ground = np.asarray(run.contact("soil").normal_force).sum(axis=1)
    assert mean(ground) == pytest.approx(177.27e3, rel=0.03)
    engaged = np.sum(np.asarray(run.contact("teeth").normal_force)[late] > 500.0, axis=1)
    assert 4.5 < np.median(engaged) < 6.5
    assert mean(run.velocity("frame")[:, 0]) == pytest.approx(0.8, rel=0.03)
