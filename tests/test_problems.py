"""Every ready-made problem runs, and moves as its closed form says.

Compiling takes longer than running: what one compiled problem can show stands in one test.
"""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from jaxmbd.problems import PROBLEMS

# A run satisfies constraints to 1e-10 m at every step; closed-form kinematics solve the loop equations exactly. Near
# the ends of a rocker's swing an offset in the loop is magnified a few times: 1e-8 leaves room for that.
LOOP = 1e-8


def run(model, t1, tolerance=1e-5, alpha=-0.3):
    """Runs a model, and sees that it starts as it is written and that its joints hold."""
    solution = mbd.simulate(model, t1, integrator=mbd.HHT(tolerance=tolerance, alpha=alpha))
    assert np.max(solution.constraint_violation()) < 1e-9
    for body in model.bodies:
        # Consistent initial values: the projection onto the constraints moves them by rounding errors only.
        np.testing.assert_allclose(solution.position(body.name)[0], body.position, atol=1e-12)
        np.testing.assert_allclose(solution.velocity(body.name)[0], body.velocity, atol=1e-12)
    return solution


def energy_closes(solution, share):
    """Whether what nothing has supplied is less than a share of the energy that is turned over."""
    turned = np.max(solution.energy().kinetic) + sum(np.max(np.abs(work.supplied)) for work in solution.work().values())
    return np.max(np.abs(solution.observe("energy.error"))) < share * turned


def test_the_registry_names_functions_of_the_module():
    for name, problem in PROBLEMS.items():
        assert problem.function is getattr(mbd.problems, name.replace("-", "_"))
        assert problem.t1 > 0
        assert "\n" not in problem.description
        assert isinstance(problem.function(), mbd.Model | mbd.AbstractSystem)


def test_spring_of_the_pendulum_brings_it_to_rest():
    solution = run(mbd.problems.pendulum(), 4.0)
    # The spring's free angle, -1.57, is straight down to 1e-3 rad. With the inertia I = 4 kg m^2 about the hinge,
    # motion decays as exp(-c t / (2 I)), c = 15 N m s/rad: to 6e-4 of 1.57 rad after 4 s.
    np.testing.assert_allclose(solution.position("rod")[-1], (0.0, -1.0, 0.0), atol=3e-3)


def test_slider_crank_follows_its_closed_form():
    solution = run(mbd.problems.slider_crank(), 0.5)
    t, crank, length, speed = np.asarray(solution.ts), 0.1, 0.3, 4 * np.pi
    angle = speed * t
    reach = np.sqrt(length**2 - (crank * np.sin(angle)) ** 2)
    lean = np.arcsin(crank * np.sin(angle) / length)
    np.testing.assert_allclose(solution.orientation("crank"), angle, atol=LOOP)
    np.testing.assert_allclose(solution.position("piston")[:, 0], crank * np.cos(angle) + reach, atol=LOOP)
    np.testing.assert_allclose(solution.position("piston")[:, 1], 0.0, atol=LOOP)
    np.testing.assert_allclose(solution.orientation("rod"), -lean, atol=LOOP)
    # Constraints hold for positions. Velocities are of second order only: local errors of 1e-5 m in steps of 3 ms make
    # some 1e-3 m/s beside 1.3 m/s.
    rate = -crank * speed * np.sin(angle) * (1 + crank * np.cos(angle) / reach)
    np.testing.assert_allclose(solution.velocity("piston")[:, 0], rate, atol=5e-3)
    assert energy_closes(solution, 2e-3)


def fourth_joint(angle, crank=0.2, coupler=0.5, rocker=0.4, base=0.5):
    """Ends of the coupler for a crank angle: the second is the upper intersection of two circles."""
    pin = crank * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    across = np.array([base, 0.0]) - pin
    distance = np.linalg.norm(across, axis=-1)[:, None]
    along = (coupler**2 - rocker**2 + distance**2) / (2 * distance)
    normal = np.stack([-across[:, 1], across[:, 0]], axis=-1) / distance
    return pin, pin + along * across / distance + np.sqrt(coupler**2 - along**2) * normal


def test_four_bar_follows_its_closed_form_in_the_plane_and_in_space():
    planar = run(mbd.problems.four_bar(), 1.0)
    spatial_model = mbd.problems.four_bar(spatial=True)
    with pytest.warns(UserWarning, match="redundant constraints: 3 row"):
        spatial_model.build()
    spatial = run(spatial_model, 1.0)
    for solution in (planar, spatial):
        middle = np.asarray(solution.position("crank"))
        angle = np.unwrap(np.arctan2(middle[:, 1], middle[:, 0]))
        assert angle[-1] > 2 * np.pi  # the crank has been everywhere
        pin, joint = fourth_joint(angle)
        np.testing.assert_allclose(middle[:, :2], 0.5 * pin, atol=LOOP)
        np.testing.assert_allclose(solution.position("coupler")[:, :2], 0.5 * (pin + joint), atol=LOOP)
        np.testing.assert_allclose(solution.position("rocker")[:, :2], 0.5 * (joint + np.array([0.5, 0])), atol=LOOP)
        # Numerical damping at the default tolerance costs some 1 % of the energy in 3 turns.
        energy = solution.energy().total
        assert abs(energy[-1] - energy[0]) < 0.02 * energy[0]
    np.testing.assert_allclose(planar.orientation("crank")[-1], angle[-1], atol=0.05)
    np.testing.assert_allclose(spatial.position("coupler")[:, 2], 0.0, atol=LOOP)


def test_double_pendulum_has_the_data_of_the_paper_and_moves_alike_in_space(tmp_path):
    planar = run(mbd.problems.double_pendulum(), 1.0)
    # Negrut et al. (2003), section 3.1, with the digits printed there.
    np.testing.assert_allclose(planar.position("rod1")[0], (1.0, 0.0), atol=1e-12)
    np.testing.assert_allclose(planar.position("rod2")[0], (3.4488887, -0.388228), atol=1e-6)
    np.testing.assert_allclose(planar.velocity("rod2")[0], (3.8822857, 14.4888887), atol=1e-6)
    assert energy_closes(planar, 4e-3)  # twice the error below: energy is quadratic
    spatial = run(mbd.problems.double_pendulum(spatial=True), 1.0)
    # The global error of HHT is about 4 tolerance^(2/3) = 2e-3 rad on this problem, 3.5 m from the hinge.
    for body in ("rod1", "rod2"):
        np.testing.assert_allclose(spatial.position(body)[-1, :2], planar.position(body)[-1], atol=7e-3)

    figure = mbd.view.plot(spatial, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 0
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["x [m]", "y [m]", "energy [J]", "step size [s]"]  # nothing moves along z
    assert [line.get_label() for line in figure.axes[0].lines] == ["rod1", "rod2"]


def test_top_precesses_steadily_at_its_closed_form_rate():
    solution = run(mbd.problems.spinning_top(), 1.0)
    mass, arm, tilt, spin = 1.0, 0.1, np.pi / 6, 60.0
    along, across = 0.5 * mass * 0.1**2, mass * (3 * 0.1**2 + 0.02**2) / 12 + mass * arm**2
    expected = np.min(np.roots([across * np.cos(tilt), -along * spin, mass * 9.81 * arm]))
    x, y, z = np.asarray(solution.position("top")).T
    azimuth = np.unwrap(np.arctan2(y, x))
    # Steps of 1.5 ms turn the top by 0.1 rad each; a method of second order is wrong by about the square of that over
    # 12, 1e-3, in the spin and so in the precession.
    np.testing.assert_allclose((azimuth[-1] - azimuth[0]) / solution.ts[-1], expected, rtol=2e-3)
    np.testing.assert_allclose(z, arm * np.cos(tilt), atol=2e-3 * arm)


def test_chain_hangs_together_and_keeps_its_energy():
    model = mbd.problems.chain()
    assert [body.name for body in model.bodies] == [f"link{i}" for i in range(1, 9)]
    # alpha = -0.05 damps little (alpha = 0 would be unstable). Falling turns about 1 J into motion; the local errors in
    # position, 1e-7 m a step, are worth some 1e-7 J each under the weight of 8 N.
    solution = run(model, 0.8, tolerance=1e-7, alpha=-0.05)
    energy = solution.energy()
    assert np.max(energy.kinetic) > 0.5
    assert np.max(np.abs(energy.total - energy.total[0])) < 1e-4


def test_chain_needs_a_whole_number_of_links(annotations_unchecked):
    for n in (0, 2.5, True):
        with pytest.raises(ValueError, match="whole number n of links"):
            mbd.problems.chain(n=n)


def impact_loads(t, u):
    """Cam angle and rate, depth, its rate, slip and normal force of `stiff_impact` in u = (deflection, rate, lift, rate, bristle)."""
    deflection, rate, lift, lift_rate, _ = u
    angle, speed = np.pi / 6 + np.pi / 3 * (1 - np.cos(2 * np.pi / 3 * t)), 2 * np.pi**2 / 9 * np.sin(2 * np.pi / 3 * t)
    across, along = 0.4 * speed + rate, deflection * speed
    depth = 0.05 + 0.4 * np.sin(angle) + deflection * np.cos(angle) - 0.4 - lift
    depth_rate = across * np.cos(angle) - along * np.sin(angle) - lift_rate
    slip = -across * np.sin(angle) - along * np.cos(angle) - 0.05 * speed
    elastic = 2e9 * max(depth, 0.0)
    return angle, speed, depth, depth_rate, slip, elastic + np.clip(5e3 * depth_rate, -elastic, elastic)


def impact_rates(t, u):
    """The same mechanism in two degrees of freedom, by Lagrange's equations."""
    deflection, rate, lift, lift_rate, z = u
    angle, speed, depth, _, slip, push = impact_loads(t, u)
    load = -push * np.cos(angle) + push * 1e5 * z * np.sin(angle) - 1e6 * deflection - 200.0 * rate
    carried = 0.4 * np.pi / 3 * (2 * np.pi / 3) ** 2 * np.cos(2 * np.pi / 3 * t) - deflection * speed**2
    bristle = (slip if depth > 0 else 0.0) - 1e5 * (abs(slip) + (0.0 if depth > 0 else 1e-3)) * z / 0.3
    return [rate, load / 4.0 - carried, lift_rate, (push - 5e4 * lift - 100.0 * lift_rate) / 4.0, bristle]


def test_impact_agrees_with_minimal_coordinates_and_with_momentum():
    end = 0.5105  # past the first impact, before the second
    solution = run(mbd.problems.stiff_impact(), end, tolerance=1e-7)
    t, loads = np.asarray(solution.ts), solution.contact("contact")
    force, friction = np.asarray(loads.normal_force), np.asarray(loads.friction)

    # Nothing acts across a gap; sliding friction is the limit, which the bristles keep to but for their integration.
    assert np.all(force[loads.gap >= 0] == 0.0)
    assert np.max(np.abs(friction)) > 0.29 * np.max(force)
    assert np.all(np.abs(friction) <= 0.31 * force)
    assert np.max(np.abs(solution.x)) < 1.03 * 0.3 / 1e5

    with pytest.raises(ValueError, match="unknown contact 'mount'"):
        solution.contact("mount")

    closed = np.flatnonzero(force > 0)
    first, last = closed[0], closed[-1] + 1
    assert np.all(np.diff(closed) == 1)
    approach = (solution.velocity("impactor") - solution.velocity("target"))[:, 1]
    lift = solution.velocity("target")[:, 1]
    # Normal force and friction at the limit move the impactor along its mount only: seen along the guide it has the
    # mass m / (cos (cos + mu sin)). Springs of 1 MN/m count little within 0.12 ms, dampers of 200 N s/m neither.
    angle = float(solution.orientation("cam")[first])
    mass = 1 / (np.cos(angle) * (np.cos(angle) + 0.3 * np.sin(angle)) / 4.0 + 1 / 4.0)
    restitution = -approach[last] / approach[first]
    zeta = 5e3 / (2 * np.sqrt(2e9 * mass))
    np.testing.assert_allclose(restitution, 1 - np.pi * zeta, atol=0.02)
    np.testing.assert_allclose(4.0 * (lift[last] - lift[first - 1]), (1 + restitution) * mass * approach[first], rtol=0.01)
    np.testing.assert_allclose(t[last] - t[first], np.pi * np.sqrt(mass / 2e9), rtol=0.05)
    np.testing.assert_allclose(np.max(force), approach[first] * np.sqrt(2e9 * mass), rtol=0.1)
    assert np.min(solution.steps) < 1e-3 * np.max(solution.steps)

    scales = np.array([1e-4, 1e-1, 1e-4, 1e-1, 1.0])
    exact = solve_ivp(impact_rates, (0.0, end), np.zeros(5), method="Radau", rtol=1e-7, atol=1e-7 * scales, max_step=2e-3)
    along, across = (
        np.array([np.cos(angle := impact_loads(end, exact.y[:, -1])[0]), np.sin(angle)]),
        np.array([-np.sin(angle), np.cos(angle)]),
    )
    # Of the impulse, 2 N s, the tolerance leaves about a hundredth: 4 mm/s, over the millisecond that is left 4 micrometres.
    np.testing.assert_allclose((solution.position("impactor")[-1] - 0.4 * along) @ across, exact.y[0, -1], atol=4e-6)
    np.testing.assert_allclose(solution.position("target")[-1, 1] - 0.45, exact.y[2, -1], atol=4e-6)
    np.testing.assert_allclose(lift[-1], exact.y[3, -1], atol=1e-2)
    assert energy_closes(solution, 1e-2)


def test_the_double_pendulum_has_both_starts():
    """The printed one, and the one at rest that the error tables of Negrut et al. (2003) belong to."""
    printed, resting = (mbd.problems.double_pendulum(second_rate=rate).build() for rate in (10.0, 0.0))
    np.testing.assert_allclose(printed.v0[3:], [3.8822857, 14.4888887, 10.0], rtol=1e-7)
    np.testing.assert_array_equal(resting.v0, 0.0)
