"""Every ready-made problem runs, and moves as its closed form says."""

import warnings

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems import PROBLEMS
from jaxmbd.problems.tops import precession_rate


# A run satisfies constraints to 1e-10 of a metre at every step; closed-form kinematics solve the loop equations exactly, and near the
# ends of a rocker's swing an offset of the loop is magnified a few times. 1e-8 m leaves room for that.
LOOP = 1e-8


def run(model, t1, tolerance=1e-5, alpha=-0.3):
    solution = mbd.simulate(model, t1, integrator=mbd.HHT(tolerance=tolerance, alpha=alpha))
    assert np.max(solution.constraint_violation()) < 1e-9
    return solution


@pytest.fixture(scope="module")
def four_bar():
    return run(mbd.problems.four_bar(), 1.0)


@pytest.fixture(scope="module")
def double_pendulum():
    return run(mbd.problems.double_pendulum(), 1.0)


def test_the_registry_names_functions_of_the_module():
    for name, problem in PROBLEMS.items():
        assert problem.function is getattr(mbd.problems, name.replace("-", "_"))
        assert problem.t1 > 0
        assert "\n" not in problem.description
        assert problem.function.__doc__


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_starts_consistently(name):
    """No warnings, and initial values that satisfy the constraints as they are: what is written in the docstring is what runs."""
    problem = PROBLEMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = problem.function()
        assert isinstance(model, mbd.Model)
        system = model.build()
    assert np.max(np.abs(system.constraint(system.q0, 0.0))) < 1e-14


def test_spring_of_the_pendulum_brings_it_to_rest():
    solution = run(mbd.problems.pendulum(spatial=False), 4.0)
    # The spring's free angle, -1.57, is straight down to 1e-3 rad. The slowest motion decays as exp(-c t / (2 I)), I = 4 kg m^2,
    # c = 15 N m s/rad: to 6e-4 of 1.57 rad after 4 s.
    np.testing.assert_allclose(solution.orientation("rod")[-1], -1.57, atol=2e-3)
    np.testing.assert_allclose(solution.position("rod")[-1], (0.0, -1.0), atol=3e-3)


def test_slider_crank_follows_its_closed_form():
    solution = run(mbd.problems.slider_crank(), 0.5)
    t, crank, length, speed = np.asarray(solution.ts), 0.1, 0.3, 4 * np.pi
    angle = speed * t
    reach = np.sqrt(length**2 - (crank * np.sin(angle)) ** 2)
    np.testing.assert_allclose(solution.orientation("crank"), angle, atol=LOOP)
    np.testing.assert_allclose(solution.position("piston")[:, 0], crank * np.cos(angle) + reach, atol=LOOP)
    np.testing.assert_allclose(solution.position("piston")[:, 1], 0.0, atol=LOOP)
    np.testing.assert_allclose(solution.orientation("rod"), -np.arcsin(crank * np.sin(angle) / length), atol=LOOP / 0.1)
    # Constraints hold at position level. The velocity is an approximation of second order, whose error per step the tolerance bounds
    # to 1e-5 m over steps of some 3 ms, so it is of the order of 1e-3 m/s beside 1.3 m/s.
    rate = -crank * speed * np.sin(angle) * (1 + crank * np.cos(angle) / reach)
    np.testing.assert_allclose(solution.velocity("piston")[:, 0], rate, atol=5e-3)


def fourth_joint(angle, crank=0.2, coupler=0.5, rocker=0.4, base=0.5):
    """Joint of coupler and rocker for a crank angle: the upper intersection of two circles."""
    pin = crank * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    across = np.array([base, 0.0]) - pin
    distance = np.linalg.norm(across, axis=-1)[:, None]
    along = (coupler**2 - rocker**2 + distance**2) / (2 * distance)
    normal = np.stack([-across[:, 1], across[:, 0]], axis=-1) / distance
    return pin, pin + along * across / distance + np.sqrt(coupler**2 - along**2) * normal


def test_four_bar_follows_its_closed_form(four_bar):
    angle = np.asarray(four_bar.orientation("crank"))
    assert angle[-1] > 2 * np.pi  # past all positions of the crank
    pin, joint = fourth_joint(angle)
    np.testing.assert_allclose(four_bar.position("crank"), 0.5 * pin, atol=LOOP)
    np.testing.assert_allclose(four_bar.position("coupler"), 0.5 * (pin + joint), atol=LOOP)
    np.testing.assert_allclose(four_bar.position("rocker"), 0.5 * (joint + [0.5, 0.0]), atol=LOOP)
    np.testing.assert_allclose(
        four_bar.orientation("rocker"), np.arctan2(joint[:, 1], joint[:, 0] - 0.5), atol=LOOP / 0.1
    )


def test_spatial_four_bar_is_redundant_and_moves_like_the_planar_one(four_bar):
    with pytest.warns(UserWarning, match="redundant constraints: 3 row"):
        system = mbd.problems.four_bar(spatial=True).build()
    # The same error norm and nearly the same steps: the difference is far below the error of either, some 1e-3 m after 1 s.
    spatial = mbd.simulate(system, 1.0)
    for body in ("crank", "coupler", "rocker"):
        np.testing.assert_allclose(spatial.position(body)[-1, :2], four_bar.position(body)[-1], atol=3e-3)
        np.testing.assert_allclose(spatial.position(body)[:, 2], 0.0, atol=LOOP)
    angle = np.unwrap(np.arctan2(*np.asarray(spatial.position("crank"))[:, 1::-1].T))
    _, joint = fourth_joint(angle)
    np.testing.assert_allclose(spatial.position("rocker")[:, :2], 0.5 * (joint + [0.5, 0.0]), atol=LOOP)


def test_planar_and_spatial_double_pendulum_move_alike(double_pendulum):
    spatial = run(mbd.problems.double_pendulum(spatial=True), 1.0)
    # The global error of HHT is about 4 tolerance^(2/3) = 2e-3 rad on this problem, 3.5 m from the hinge.
    for body in ("rod1", "rod2"):
        np.testing.assert_allclose(spatial.position(body)[-1, :2], double_pendulum.position(body)[-1], atol=5e-3)


def test_double_pendulum_has_the_data_of_the_paper(double_pendulum):
    # Negrut et al. (2003), section 3.1, with the digits printed there.
    np.testing.assert_allclose(double_pendulum.position("rod1")[0], (1.0, 0.0), atol=1e-15)
    np.testing.assert_allclose(double_pendulum.position("rod2")[0], (3.4488887, -0.388228), atol=1e-6)
    np.testing.assert_allclose(double_pendulum.velocity("rod2")[0], (3.8822857, 14.4888887), atol=1e-6)


def test_top_precesses_steadily_at_its_closed_form_rate():
    solution = run(mbd.problems.spinning_top(), 1.0)
    mass, arm, along, across = 1.0, 0.1, 0.5 * 0.1**2, (3 * 0.1**2 + 0.02**2) / 12
    expected = precession_rate(across + mass * arm**2, along, 60.0, np.pi / 6, mass * 9.81 * arm)
    residual = (across + mass * arm**2) * np.cos(np.pi / 6) * expected**2 - along * 60.0 * expected + mass * 9.81 * arm
    assert abs(residual) < 1e-12
    x, y, z = np.asarray(solution.position("top")).T
    azimuth = np.unwrap(np.arctan2(y, x))
    rate = (azimuth[-1] - azimuth[0]) / (solution.ts[-1] - solution.ts[0])
    # The spin, 60 rad/s, is resolved with 20 steps a radian: its rate is wrong by (w h)^2 / 12, 6e-4, and so is the precession.
    np.testing.assert_allclose(rate, expected, rtol=2e-3)
    np.testing.assert_allclose(z, arm * np.cos(np.pi / 6), atol=2e-3 * arm)


def test_chain_keeps_its_energy():
    # alpha = -0.05 damps little (alpha = 0 would be unstable); the hanging chain exchanges 1 J between height and motion.
    solution = run(mbd.problems.chain(n=4, spatial=False), 1.0, tolerance=1e-7, alpha=-0.05)
    energy = solution.energy()
    exchanged = np.ptp(energy.kinetic)
    assert exchanged > 0.1
    assert np.max(np.abs(energy.total - energy.total[0])) < 1e-5 * exchanged


def test_chain_has_n_links_in_space_and_rejects_other_numbers():
    model = mbd.problems.chain(n=3)
    assert [body.name for body in model.bodies] == ["link1", "link2", "link3"]
    assert not model.planar
    with pytest.raises(ValueError, match="whole number n of links"):
        mbd.problems.chain(n=0)


def test_plot_shows_motion_energy_and_steps(double_pendulum, tmp_path):
    figure = mbd.view.plot(double_pendulum, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").stat().st_size > 0
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["x [m]", "y [m]", "energy [J]", "step size [s]"]
    assert [line.get_label() for line in figure.axes[0].lines] == ["rod1", "rod2"]
