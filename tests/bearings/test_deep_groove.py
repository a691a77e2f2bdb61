"""The deep-groove ball bearing against textbooks: Hertz, Stribeck, epicyclic rolling, balance of forces and momentum.

One quasi-static start and one short run with prescribed rings serve most tests: compiling is what takes time.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ellipe, ellipk

import jaxmbd as mbd
from jaxmbd.bearings import geometry

Z, D_BALL, D_PITCH, LOAD = 9, 12.7e-3, 65e-3, 1000.0
UP = np.array([0.0, 0.0, 1.0])
OFFSET = (30e-6, -20e-6, 10e-6)
"""m, of the cage: one pocket touches first"""
END, STEP = 1.2e-3, 2e-6
"""s; the cage, 1 % slow in pockets of 0.1 mm, is caught after 0.6 ms"""


@pytest.fixture(scope="module")
def bearing() -> mbd.bearings.DeepGroove:
    return mbd.bearings.DeepGroove(rings="prescribed", cage_speed_ratio=0.99, cage_offset=OFFSET)


@pytest.fixture(scope="module")
def start(bearing) -> mbd.bearings.Start:
    return bearing.start()


@pytest.fixture(scope="module")
def run(bearing, start) -> mbd.Solution:
    return mbd.simulate(bearing.system(start), END, integrator=mbd.Verlet(), step=STEP)


@pytest.fixture(scope="module")
def report(bearing, run) -> mbd.bearings.Report:
    return bearing.report(run)


# --- numbers that follow from dimensions ----------------------------------------------------------------------------------------------------


def hertz_stiffness(curvatures: tuple[float, float, float, float], modulus: float) -> float:
    """F / depth^1.5 by Harris' route: F(rho), the axis ratio, delta*, with scipy's elliptic integrals."""
    total = sum(curvatures)
    first, second = curvatures[0] - curvatures[1], curvatures[2] - curvatures[3]
    difference = abs(first + second) / total

    def mismatch(ratio):
        m = 1 - 1 / ratio**2
        K, E = ellipk(m), ellipe(m)
        return ((ratio**2 + 1) * E - 2 * K) / ((ratio**2 - 1) * E) - difference

    ratio = brentq(mismatch, 1.001, 1e3)
    m = 1 - 1 / ratio**2
    star = 2 * ellipk(m) / np.pi * (np.pi / (2 * ratio**2 * ellipe(m))) ** (1 / 3)
    # depth = star (3 F / (2 total E*))^(2/3) total / 2
    return (2 / (star * total)) ** 1.5 * 2 * total * modulus / 3


def test_stiffness_of_balls_on_rings_is_that_of_harris(bearing):
    modulus = 206e9 / (1 - 0.3**2) / 2
    gamma = D_BALL * np.cos(bearing.free_contact_angle) / D_PITCH
    ball, groove = 2 / D_BALL, -1 / (0.52 * D_BALL)
    for ring, rolling, known in (("inner", gamma / (1 - gamma), 3.21e10), ("outer", -gamma / (1 + gamma), 3.39e10)):
        expected = hertz_stiffness((ball, ball, groove, ball * rolling), modulus)
        np.testing.assert_allclose(bearing.hertz(ring).stiffness, expected, rtol=1e-9)
        np.testing.assert_allclose(expected, known, rtol=2e-3)  # an earlier study, three digits


def test_the_free_contact_angle_takes_up_the_clearance(bearing):
    np.testing.assert_allclose(np.degrees(bearing.free_contact_angle), 8.05, atol=0.01)
    # At that angle a ball touches both grooves, one ring shifted along the axis: the groove centres are 0.04 d apart.
    across = bearing.groove_circle("inner") - bearing.groove_circle("outer")
    np.testing.assert_allclose(across / np.cos(bearing.free_contact_angle), 0.04 * D_BALL, rtol=1e-12)


@pytest.mark.parametrize("clearance", [0.0, -1e-6])
def test_a_bearing_without_clearance_has_derivatives(bearing, clearance):
    """The angle has a pole there, its cosine, which curvatures depend on, has not."""
    tight = bearing.replace(clearance=clearance, allow_interference=True)
    assert tight.free_contact_angle == 0

    def stiffness(conformity):
        return tight.replace(conformity_inner=conformity).hertz("inner").stiffness

    differences = (stiffness(0.52 + 1e-5) - stiffness(0.52 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(stiffness)(0.52), differences, rtol=1e-6)
    by_clearance = jax.grad(lambda c: tight.replace(clearance=c).hertz("outer").stiffness + tight.replace(clearance=c).free_contact_angle)
    assert np.isfinite(by_clearance(clearance))


@pytest.mark.parametrize("ring", ["inner", "outer"])
def test_inertia_of_a_grooved_ring_is_that_of_its_section(bearing, ring):
    """Sums over a grid of the section. The groove's inertia about its own centroid is left out of the formula: 1 %."""
    from jaxmbd.bearings.assembly import ring_inertia

    low, high = (22.5e-3, float(bearing.land("inner"))) if ring == "inner" else (float(bearing.land("outer")), 42.5e-3)
    r, z = np.meshgrid(np.linspace(low, high, 1201), np.linspace(-9.5e-3, 9.5e-3, 1201), indexing="ij")
    solid = np.hypot(r - float(bearing.groove_circle(ring)), z) > 0.52 * D_BALL
    weight = 7800 * 2 * np.pi * r * solid * (high - low) * 19e-3 / r.size
    found = ring_inertia(bearing, ring)
    np.testing.assert_allclose(found.mass, np.sum(weight), rtol=2e-3)
    np.testing.assert_allclose(found.axial, np.sum(weight * r**2), rtol=1e-2)
    np.testing.assert_allclose(found.transverse, np.sum(weight * (0.5 * r**2 + z**2)), rtol=3e-2)


def test_epicyclic_speeds_roll_without_sliding():
    """Both rings turn; at the contact points of a ball the surfaces have one velocity."""
    angle, inner, outer = 0.3, 900.0, -200.0
    orbit, spin = geometry.epicyclic(D_BALL, D_PITCH, angle, inner, outer)
    line = np.array([np.cos(angle), 0.0, np.sin(angle)])
    omega = spin * np.array([-np.sin(angle), 0.0, np.cos(angle)]) + orbit * UP
    centre = np.array([D_PITCH / 2, 0.0, 0.0])
    for side, speed in ((-1, inner), (1, outer)):
        arm = side * D_BALL / 2 * line
        of_ball = np.cross(orbit * UP, centre) + np.cross(omega, arm)
        of_ring = np.cross(speed * UP, centre + arm)
        np.testing.assert_allclose(of_ball, of_ring, atol=1e-9)


# --- the quasi-static start -----------------------------------------------------------------------------------------------------------------


def test_the_start_is_a_state_of_rest_in_the_balls_own_frames(run, start):
    """Accelerations are those of a steady motion round the axis: to 1e-8 of the centripetal one."""
    system, a = run.system, np.asarray(run.acceleration)[0]
    centripetal = start.orbit**2 * D_PITCH / 2
    for i in range(Z):
        where = system.body_slices()[f"ball[{i}]"][2]
        p, linear, turning = system.q0[where][3:], a[where][:3], a[where][3:]
        expected = -(start.orbit**2) * start.ball_position[i] * np.array([1, 1, 0])
        np.testing.assert_allclose(linear, expected, atol=1e-8 * centripetal)
        # p = (1, 0, 0, 0) at the start: omega' = 2 (p''_1, p''_2, p''_3)
        np.testing.assert_allclose(p, [1, 0, 0, 0], atol=1e-15)
        steady = start.orbit * np.cross(UP, start.ball_spin[i])
        np.testing.assert_allclose(2 * turning[1:], steady, atol=1e-7 * np.linalg.norm(steady))
    ring = system.body_slices()["inner"][2]
    np.testing.assert_allclose(a[ring], 0.0, atol=1e-8 * centripetal)


def meridional(race, report, run, row) -> np.ndarray:
    """Traction on each ball along the meridian: positive turns towards +z."""
    place = np.stack([np.asarray(run.position(f"ball[{i}]"))[row] for i in range(Z)])
    out = place * [1, 1, 0] / np.linalg.norm(place[:, :2], axis=1)[:, None]
    angle = np.asarray(race.contact_angle)[row][:, None]
    along = -np.sin(angle) * out + np.cos(angle) * UP
    return np.sum(np.asarray(race.traction)[row] * along, axis=1)


def test_axial_balance_and_contact_angles_under_load(report, run):
    """N sin(a) + T cos(a) = F / Z on each ring. Without T the balance is off by 2.5 %: that is gyroscopic traction."""
    for race, sign in ((report.inner, 1), (report.outer, -1)):
        N, angle, T = np.asarray(race.load)[0], np.asarray(race.contact_angle)[0], sign * meridional(race, report, run, 0)
        np.testing.assert_allclose(N * np.sin(angle) + T * np.cos(angle), LOAD / Z, rtol=5e-3)
    np.testing.assert_allclose(np.degrees(report.inner.contact_angle[0]), 15.2, atol=0.1)
    np.testing.assert_allclose(np.degrees(report.outer.contact_angle[0]), 13.5, atol=0.1)
    np.testing.assert_allclose(report.inner.load[0], 415, rtol=2e-3)
    np.testing.assert_allclose(report.outer.load[0], 463, rtol=2e-3)


def test_centrifugal_force_is_the_difference_between_the_races(report, run, start):
    mass = np.pi / 6 * D_BALL**3 * 7800
    radius = np.linalg.norm(start.ball_position[0, :2])
    radial = 0.0
    for race, sign in ((report.outer, 1), (report.inner, -1)):
        angle, T = np.asarray(race.contact_angle)[0], meridional(race, report, run, 0)
        radial = radial + sign * np.asarray(race.load)[0] * np.cos(angle) + T * np.sin(angle)
    np.testing.assert_allclose(radial, mass * start.orbit**2 * radius, rtol=5e-3)


def test_balls_orbit_and_spin_as_pure_rolling_says(bearing, report):
    np.testing.assert_allclose(report.orbit[0], report.epicyclic_orbit[0], rtol=2e-3)
    angle = np.mean([report.inner.contact_angle[0, 0], report.outer.contact_angle[0, 0]])
    # The ball also pivots a little about the contact line, and gyroscopically: spin within half a percent.
    np.testing.assert_allclose(report.ball_spin[0], abs(bearing.epicyclic(angle).spin), rtol=5e-3)


def test_at_standstill_the_contact_angle_is_harris(bearing):
    """F / (Z sin a) = K (A (cos a0 / cos a - 1))^1.5 on both rings alike, without speed."""
    still = bearing.replace(inner_speed=0.0, cage_offset=(0, 0, 0)).start()
    K = sum(float(bearing.hertz(ring).stiffness) ** (-2 / 3) for ring in ("inner", "outer")) ** -1.5
    free, A = float(bearing.free_contact_angle), 0.04 * D_BALL
    angle = brentq(lambda a: K * (A * (np.cos(free) / np.cos(a) - 1)) ** 1.5 * np.sin(a) - LOAD / Z, free, 1.0)
    radius, height = still.ball_position[0, 0], still.ball_position[0, 2]
    found = np.arctan2(height, radius - bearing.groove_circle("outer"))
    np.testing.assert_allclose(found, angle, rtol=1e-6)
    np.testing.assert_allclose(still.orbit, 0.0, atol=1e-9)


def test_friction_torque_is_of_the_size_of_catalogues(bearing, report):
    """SKF's estimate M = 0.5 x 0.0015 x F x bore; in a steady state the rings feel opposite torques, and the drive pays for all friction."""
    estimate = 0.5 * 0.0015 * LOAD * 45e-3
    torque = -float(report.inner.torque[0])
    assert estimate / 3 < torque < estimate * 3
    np.testing.assert_allclose(report.outer.torque[0], torque, rtol=1e-6)
    np.testing.assert_allclose(report.friction_power[0], torque * bearing.inner_speed, rtol=1e-6)


# --- a run ----------------------------------------------------------------------------------------------------------------------------------


def test_the_cage_is_caught_by_the_balls(report):
    assert np.max(report.pocket_force) > 1.0
    before, after = np.asarray(report.cage_speed)[[0, -1]] / float(report.orbit[0, 0])
    np.testing.assert_allclose(before, 0.99, rtol=1e-9)
    assert 0.995 < after < 1.01


def test_momentum_of_balls_and_cage_changes_by_what_the_rings_do(bearing, start, run, report):
    """Forces and torques of balls (and cage) on the rings are opposite to the rates of momentum and angular momentum of balls and cage.

    In the middle of a pocket's hit, which is internal and cancels. A run that begins there knows the accelerations of just that state.
    """
    row = int(np.argmax(np.max(np.asarray(report.pocket_force), axis=1)))
    assert report.guidance_force[row] == 0
    state = jax.tree.map(lambda leaf: leaf[row], run.states)
    there = mbd.simulate(bearing.system(start), float(state.t) + STEP, initial=state, integrator=mbd.Verlet(), step=STEP)
    system, force, turning = run.system, np.zeros(3), 0.0
    inertias = {"cage": geometry.cage_inertia(bearing.cage_mass, bearing.pitch_diameter, bearing.cage_width)}
    inertias |= {f"ball[{i}]": geometry.ball_inertia(bearing.ball_diameter, 7800.0) for i in range(Z)}
    for name, inertia in inertias.items():
        where = system.body_slices()[name][2]
        q, v, a = (np.asarray(part)[0][where] for part in (there.q, there.v, there.acceleration))
        force += inertia.mass * a[:3]
        moments = np.diag(inertia.moments)

        def momentum(p, rates, moments=moments):
            """About the body's centre, in the ground's axes."""
            e0, e = p[0], p[1:]
            G = jnp.concatenate([-e[:, None], e0 * jnp.eye(3) - jnp.cross(jnp.eye(3), e)], axis=1)
            E = jnp.concatenate([-e[:, None], e0 * jnp.eye(3) + jnp.cross(jnp.eye(3), e)], axis=1)
            return (E @ G.T) @ (moments @ (2 * G @ rates))

        _, rate = jax.jvp(momentum, (jnp.asarray(q[3:]), jnp.asarray(v[3:])), (jnp.asarray(v[3:]), jnp.asarray(a[3:])))
        turning += float(rate[2]) + inertia.mass * np.cross(q[:3], a[:3])[2]
    on_rings = np.asarray(report.inner.force + report.outer.force)[row]
    np.testing.assert_allclose(force, -on_rings, atol=1e-8 * LOAD)
    torque = float((report.inner.torque + report.outer.torque)[row])
    np.testing.assert_allclose(turning, -torque, atol=1e-7)


def test_the_report_reads_in_units(report):
    text = str(report)
    for words in ("contact angle inner", " deg", "friction torque inner", " N m", "GPa", "rad/s"):
        assert words in text


# --- other loads ----------------------------------------------------------------------------------------------------------------------------


def test_radial_loads_are_distributed_as_stribeck_says():
    """Without clearance Q(psi) = Q_max cos^1.5(psi): Q_max = F / sum cos^2.5 = 4.39 F / Z for nine balls (4.37 in the limit of many).

    With clearance fewer balls carry and Q_max rises to about 5 F / Z: Q(psi) = Q_max (1 - (1 - cos psi) / (2 eps))^1.5.
    """
    angles = 2 * np.pi * np.arange(Z) / Z
    load = 5000.0
    for clearance in (0.0, 30e-6):
        bearing = mbd.bearings.DeepGroove(clearance=clearance, radial_load=load, axial_load=0.0, inner_speed=0.0, free="xy")
        start = bearing.start()
        radius = np.linalg.norm(start.ball_position[:, :2], axis=1)
        depth = radius - float(bearing.groove_circle("outer")) - 0.02 * D_BALL
        found = float(bearing.hertz("outer").stiffness) * np.maximum(depth, 0.0) ** 1.5
        extent = 0.5 * (1 - 0.5 * clearance / start.inner_position[0])
        share = np.maximum(1 - (1 - np.cos(angles)) / (2 * extent), 0.0) ** 1.5
        most = load / np.sum(share * np.cos(angles))
        # An inner ring that moves by 40 um shifts the contact lines by 1e-3 rad.
        np.testing.assert_allclose(found, most * share, atol=3e-3 * most)
        assert (4.3 if clearance == 0 else 4.6) < most * Z / load < (4.4 if clearance == 0 else 5.5)


def test_under_combined_load_balls_orbit_at_the_angles_that_they_have(bearing):
    """Pure rolling at the mean of the contact angles on both rings, over all balls: the free contact angle would be 0.5 % slow."""
    combined = bearing.replace(radial_load=200.0)
    start = combined.start()
    out, height = np.linalg.norm(start.ball_position[:, :2], axis=1), np.asarray(start.ball_position[:, 2])
    around = np.asarray(start.ball_position[:, :2]) / out[:, None]
    outer = np.arctan2(height, out - combined.groove_circle("outer"))
    inner = np.arctan2(start.inner_position[2] - height, combined.groove_circle("inner") + around @ start.inner_position[:2] - out)
    assert np.min(inner) > 1.5 * combined.free_contact_angle
    np.testing.assert_allclose(start.orbit, combined.epicyclic(np.mean([inner, outer])).orbit, rtol=1e-3)


# --- other parts ----------------------------------------------------------------------------------------------------------------------------


def test_a_lubricated_bearing_rolls_on_a_film(bearing):
    """20 mPa s at 10^4 rpm: a film near a micrometre, slip a few parts in 10^4 of the surfaces' 11 m/s, less torque than dry friction's."""
    oiled = bearing.replace(friction=mbd.LubricatedTraction(0.02))
    start = oiled.start()
    assert start.imbalance < 1e-8
    report = oiled.report(mbd.simulate(oiled.system(start), 1e-7, integrator=mbd.Verlet(), step=1e-7))
    for race in (report.inner, report.outer):
        assert np.all((np.asarray(race.film) > 0.5e-6) & (np.asarray(race.film) < 1.5e-6))
        assert np.all(np.asarray(race.slip) < 0.05)
    np.testing.assert_allclose(report.orbit[0], report.epicyclic_orbit[0], rtol=2e-3)
    assert 0.01 < -float(report.inner.torque[0]) < 0.1
    np.testing.assert_allclose(report.outer.torque[0], -report.inner.torque[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("parts", "offset", "touched"),
    [
        ({"pocket": "cylindrical", "guidance": "outer"}, 0.11e-3, "balls"),
        ({"pocket": "spherical", "guidance": "balls"}, 0.11e-3, "balls"),
        ({"guidance": "inner", "pocket_clearance": 0.5e-3}, 0.21e-3, "ring"),
        ({"guidance": "outer", "pocket_clearance": 0.5e-3}, 0.21e-3, "ring"),
    ],
    ids=["cylindrical", "by balls", "by the inner ring", "by the outer ring"],
)
def test_a_cage_that_is_off_by_more_than_its_play_is_pushed_back(bearing, start, parts, offset, touched):
    """10 um beyond the play along x: the force on the cage, but for friction, points back. Balls that it touches feel the opposite,
    others nothing; prescribed rings feel nothing where they are held."""
    forces = []
    for off in (0.0, offset):
        system = bearing.replace(cage_offset=(off, 0.0, 0.0), **parts).system(start)
        total = np.asarray(system.force(system.q0, system.v0, jnp.zeros(())))
        slices = {name: where for name, (_, _, where) in system.body_slices().items()}
        forces.append({name: total[slices[name]][:3] for name in slices})
    centred, pushed = forces
    np.testing.assert_allclose(centred["cage"], 0.0, atol=1e-9)
    assert -1e4 < pushed["cage"][0] < -1.0
    assert abs(pushed["cage"][1]) < 0.1 * abs(pushed["cage"][0])
    answer = sum(pushed[f"ball[{i}]"] - centred[f"ball[{i}]"] for i in range(Z))
    np.testing.assert_allclose(answer, -pushed["cage"] * (touched == "balls"), rtol=1e-6, atol=1e-6)


def test_a_law_with_states_needs_the_start_of_another(bearing, start):
    brushed = bearing.replace(friction=mbd.LuGre(1e4, 0.05))
    with pytest.raises(ValueError, match=r"does not know the states that LuGre has.*bearing\.replace\(friction=0\.05\)\.start\(\)"):
        brushed.start()
    system = brushed.system(start)
    assert np.all(np.isfinite(system.force(system.q0, system.v0, jnp.zeros(()), system.x0)))


# --- parameters -----------------------------------------------------------------------------------------------------------------------------


def test_every_number_is_a_named_parameter(bearing, start):
    system = bearing.system(start)
    stiffness = float(bearing.hertz("inner").stiffness)
    np.testing.assert_allclose(system.get("ball_inner[3].law.stiffness"), stiffness)
    changed = system.set({"ball_inner[3].law.stiffness": 2 * stiffness, "cage.mass": 0.02, "inner.speed": 500.0})
    np.testing.assert_allclose(changed.get("ball_inner[3].law.stiffness"), 2 * stiffness)
    np.testing.assert_allclose(changed.get("ball_inner[2].law.stiffness"), stiffness)
    penalty = bearing.replace(rings="penalty").system(start)
    mass = penalty.get("outer.mass")
    np.testing.assert_allclose(penalty.get("hold.stiffness"), mass * 1e14)
    np.testing.assert_allclose(penalty.get("hold.damping"), 2 * mass * 1e7)
    np.testing.assert_allclose(penalty.get("drive_inner.speed"), bearing.inner_speed)


def test_numbers_may_be_traced(bearing, start):
    """A built system is a differentiable function of the bearing's numbers: load of a ball by clearance, against differences."""
    q0, v0 = (jnp.asarray(part) for part in (bearing.system(start).q0, bearing.system(start).v0))

    def force(clearance):
        system = bearing.replace(clearance=clearance).system(start)
        return system.force(q0, v0, jnp.zeros(()))[2]  # on the inner ring, along the axis

    function = jax.jit(jax.value_and_grad(force))
    difference = (function(10.01e-6)[0] - function(9.99e-6)[0]) / 0.02e-6
    np.testing.assert_allclose(function(10e-6)[1], difference, rtol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"clearance": -5e-6}, "clearance of the bearing is negative: -5 um.*allow_interference=True"),
        ({"balls": 16}, "balls of the bearing do not fit on the pitch circle.*Take at most 15 balls"),
        ({"conformity_inner": 0.5}, "conformity_inner of the bearing must be larger than 0.5"),
        ({"pocket_clearance": -1e-5}, "pocket_clearance of the bearing must be positive, or the balls jam"),
        ({"guidance_clearance": 0.0}, "guidance_clearance of the bearing must be positive, or the cage jams"),
        ({"bore": 0.06}, "bore of the bearing leaves no inner ring"),
        ({"outside_diameter": 0.07}, "outside_diameter of the bearing leaves no outer ring"),
        ({"rings": "welded"}, "rings of the bearing must be one of 'penalty', 'prescribed'"),
        ({"free": "xy", "radial_load": 1.0}, "axial_load of the bearing acts along z, where free='xy' holds.*Leave free out"),
        ({"free": "z", "radial_load": 1.0}, "radial_load of the bearing acts along x, where free='z' holds.*such as 'xyz'"),
        ({"balls": 8.5}, "balls of the bearing must be a whole number"),
        ({"material": mbd.Material(2e11)}, "material of the bearing has no density"),
    ],
)
def test_bad_input_names_the_parameter_and_the_fix(wrong, message):
    with pytest.raises(ValueError, match=message):
        mbd.bearings.DeepGroove(**wrong)


def test_a_new_radial_load_frees_the_ring_unless_free_was_given(bearing):
    assert bearing.free == "z"
    loaded = bearing.replace(clearance=20e-6).replace(radial_load=500.0)
    assert loaded.free == "xyz"
    assert loaded.replace(radial_load=0.0).free == "z"
    assert bearing.replace(free="xyz").replace(radial_load=0.0).free == "xyz"
    with pytest.raises(ValueError, match="radial_load of the bearing acts along x"):
        bearing.replace(free="z").replace(radial_load=500.0)
    # The loads of a bearing that is an argument are traced, and stay what they are.
    inside = eqx.filter_eval_shape(lambda b: b.replace(clearance=20e-6), bearing)
    assert inside.free == "z"


def test_a_start_cannot_be_traced(bearing):
    with pytest.raises(ValueError, match="pass it on"):
        eqx.filter_eval_shape(lambda c: bearing.replace(clearance=c).system(), jnp.asarray(1e-5))


# --- what takes long to compile or to run -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_penalty_rings_and_prescribed_ones_tell_the_same(bearing, start, run):
    """SemiExplicit on penalties of 10^7 rad/s against Verlet. With the predicted velocity both are of second order: loads agree to 0.2 %."""
    penalty = bearing.replace(rings="penalty")
    other = mbd.simulate(penalty.system(start), 0.2e-3, integrator=mbd.SemiExplicit(0.5, 0.8, True), step=STEP)
    assert other.stats["a_evaluations"] == other.stats["steps"]
    row = round(0.2e-3 / STEP)
    for name in ("ball_inner[0]", "ball_outer[4]"):
        np.testing.assert_allclose(other.contact(name).normal_force[-1], run.contact(name).normal_force[row], rtol=2e-3)
    np.testing.assert_allclose(other.angular_velocity("inner")[-1], [0, 0, bearing.inner_speed], atol=1e-3)
    # F / (m w^2) is what the outer ring gives way.
    np.testing.assert_allclose(other.position("outer")[-1, 2], LOAD / (penalty.system(start).get("hold.stiffness")), rtol=5e-2)


def test_reactions_of_the_ring_joints_balance_the_load(bearing, start):
    """The housing carries the axial load, the drives pay for friction. Friction still changes from step to step after the start, and a penalty
    answers within one: 2 %."""
    run = mbd.simulate(bearing.replace(rings="penalty").system(start), 20e-6, integrator=mbd.SemiExplicit(0.5, 0.8), step=1e-6)
    np.testing.assert_allclose(run.reaction("hold").force[-1], [0, 0, -LOAD], atol=0.01 * LOAD)
    np.testing.assert_allclose(run.reaction("guide").force[-1], 0.0, atol=0.01 * LOAD)
    report = bearing.report(run)
    for ring, race in (("inner", report.inner), ("outer", report.outer)):
        np.testing.assert_allclose(run.reaction(f"drive_{ring}").torque[-1, 2], -race.torque[-1], rtol=2e-2)


@pytest.mark.parametrize(("free", "rows"), [("", 5), ("z", 4), ("xy", 3), ("xyz", 2)])
def test_the_guide_holds_what_is_not_free(bearing, start, free, rows):
    system = bearing.replace(rings="penalty", free=free, axial_load=1000.0 if "z" in free else 0.0).system(start)
    group, _, _ = system.row_slices()["guide"]
    assert len(system.joint_groups[group].element.are_lengths()) == rows
    shifted = system.q0.at[jnp.arange(3) + system.body_slices()["inner"][2].start].add(1e-9)
    force = system.stiff_force(shifted, system.v0, jnp.zeros(()))[system.body_slices()["inner"][2]][:3]
    expected = [0.0 if c in free else -1e-9 * float(system.get("guide.stiffness")) for c in "xyz"]
    np.testing.assert_allclose(force, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_the_mean_cage_speed_is_epicyclic(bearing, start):
    """Over 11 ms; the cage, started 1 % slow, goes from pocket hit to pocket hit."""
    run = mbd.simulate(bearing.system(start), 0.011, integrator=mbd.Verlet(), step=STEP, saveat=np.linspace(0, 0.011, 1101))
    report = bearing.report(run)
    np.testing.assert_allclose(np.mean(report.cage_speed), np.mean(report.epicyclic_orbit), rtol=1e-2)
    np.testing.assert_allclose(np.mean(report.orbit), np.mean(report.epicyclic_orbit), rtol=2e-3)
    assert abs(float(report.cage_speed[-1] / report.orbit[-1, 0]) - 1) < 5e-3


@pytest.mark.slow
def test_gradients_are_those_of_differences_over_the_same_steps(bearing, start):
    """0.12 ms with a pocket hit; benchmarks/bearing.py has the long version and SemiExplicit."""
    steps = jnp.full(60, STEP)
    off = bearing.replace(cage_offset=(90e-6, 0.0, 0.0))

    def outcome(factors):
        stiffness, damping, friction, clearance = factors
        varied = off.replace(
            stiffness_inner=stiffness * bearing.hertz("inner").stiffness,
            damping=damping * 0.2,
            cage_damping=damping * 1.0,
            friction=mbd.Coulomb(0.05 * friction, regularisation=0.1),
            clearance=clearance * bearing.clearance,
        )
        solution = mbd.simulate(varied.system(start), 60 * STEP, integrator=mbd.Verlet(), step=steps, throw=False)
        found = bearing.report(solution)
        values = jnp.stack([found.cage_speed[-1], jnp.max(found.pocket_force)])
        return values, values

    program, ones = jax.jit(jax.jacrev(outcome, has_aux=True)), np.ones(4)
    derivative, values = program(ones)
    assert values[1] > 1.0
    for i, increment in enumerate((1e-4, 1e-2, 1e-3, 1e-4)):
        apart = increment * np.eye(4)[i]
        difference = (program(ones + apart)[1] - program(ones - apart)[1]) / (2 * increment)
        np.testing.assert_allclose(derivative[:, i], difference, rtol=1e-4)
