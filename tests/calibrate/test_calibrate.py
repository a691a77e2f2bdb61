"""Calibration on made data: the truth is found, intervals mean what they say, what is not determined is told."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.calibrate.calibrating import Problem
from jaxmbd.calibrate.information import root
from jaxmbd.calibrate.least_squares import normal_equations, rho, weights

NOISE = 1e-3
TRUTH = {"rod.inertia": 1e-3, "damper.damping": 2e-4, "drag.coefficient": 0.02}
START = {"rod.inertia": 2e-3, "damper.damping": 5e-4, "drag.coefficient": 0.05}
FREE = {"rod.inertia": (1e-4, 1e-2, "log"), "damper.damping": (0.0, 1e-2), "drag.coefficient": (0.0, 1.0)}


def pendulum(values=None):
    rod = mbd.PlanarBody("rod", 0.15, 1e-3, position=(0.15, 0.0))
    damper = mbd.TorsionSpringDamper("damper", mbd.ground, rod, stiffness=0.0, damping=2e-4)
    drag = mbd.AirDrag("drag", rod, (0, 0), (0.25, 0), 0.02)
    hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0))
    return mbd.Model([rod], [hinge], [mbd.Gravity((0, -9.81)), damper, drag]).build().set(values or {})


def swing(name, angle, rate, duration, seed, **options):
    """Measured from a finer run by another method; the start is known with an error."""
    random, ts = np.random.default_rng(seed), np.linspace(0.0, duration, int(100 * duration) + 1)
    truth = pendulum(TRUTH)
    initial = mbd.pose(truth, {"hinge.angle": angle, "hinge.rate": rate})
    run = mbd.simulate(truth, duration, initial=initial, integrator=mbd.RosenbrockNystrom(1e-9, 1e-9), saveat=ts)
    table = {"t": ts, "encoder": np.asarray(run.observe("hinge.angle")) + NOISE * random.standard_normal(ts.size)}
    begin = {"hinge.angle": (angle + 0.01, 0.1), "hinge.rate": (rate + 0.1, 0.5)}
    return mbd.Experiment(table, {"encoder": "hinge.angle"}, name=name, initial=begin, **options)


@pytest.fixture(scope="module")
def swings():
    return [swing("small", 0.5, 1.0, 3.0, 1), swing("large", -2.5, 0.0, 2.0, 2), swing("over", 1.0, 4.0, 2.5, 3)]


@pytest.fixture(scope="module")
def fit(swings):
    return mbd.calibrate(pendulum(START), swings[:2], FREE, integrator=mbd.HHT(1e-6), grow=(0.2, 1.0), validation=swings[2], progress=False)


def test_the_truth_lies_in_the_intervals(fit):
    assert fit.converged
    for name, value in TRUTH.items():
        low, high = fit.interval(name)
        assert low < value < high
        assert high - low < 0.1 * value
    np.testing.assert_allclose(fit.system.get("rod.inertia"), fit.values["rod.inertia"])
    assert fit.undetermined == ()


def test_noise_is_estimated_and_experiments_left_out_are_predicted(fit):
    np.testing.assert_allclose([fit.rms()["encoder"], fit.rms(validation=True)["encoder"]], NOISE, rtol=0.1)
    np.testing.assert_allclose([one.noise for one in fit.channels], NOISE, rtol=0.1)
    assert [one.experiment for one in fit.channels if one.validation] == ["over"]
    assert not fit.doubts()  # white noise: residuals do not follow each other


def test_initial_states_are_found(fit):
    np.testing.assert_allclose(fit.initial["small"]["hinge.angle"], 0.5, atol=5 * NOISE)
    np.testing.assert_allclose(fit.initial["large"]["hinge.rate"], 0.0, atol=0.02)


def test_a_fit_is_saved_and_read(fit, tmp_path):
    path = fit.save(tmp_path / "pendulum")
    again = mbd.load_fit(path, pendulum(START))
    assert str(again) == str(fit)
    np.testing.assert_array_equal(again.system.get("damper.damping"), fit.system.get("damper.damping"))
    with np.load(path) as file:
        assert json.loads(str(file["told"]))["format"] == 1
    with pytest.raises(ValueError, match="needs the experiments"):
        again.profile("rod.inertia")


def test_a_report_is_one_file_with_pictures(fit, tmp_path):
    text = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "rod.inertia" in text
    assert "data:image/png;base64," in text
    assert "http" not in text  # nothing is fetched
    assert "<table>" in fit._repr_html_()


def test_the_profile_agrees_with_the_interval_where_the_problem_is_nearly_linear(fit):
    profile = fit.profile("drag.coefficient", points=5)
    assert np.argmin(profile["cost"]) == 2
    np.testing.assert_allclose(profile["interval"], fit.interval("drag.coefficient"), rtol=0.02)


def test_what_free_swings_cannot_tell_is_told(swings):
    """Forces in proportion to masses: only ratios are determined, whatever scale the model has."""
    free = {
        "rod.mass": (0.01, 10.0, "log"),
        "rod.inertia": (1e-4, 0.1, "log"),
        "damper.damping": (1e-6, 1e-2, "log"),
        "drag.coefficient": (1e-4, 1, "log"),
    }
    fit = mbd.calibrate(pendulum(TRUTH), swings[:2], free, integrator=mbd.HHT(1e-6), progress=False)
    assert fit.undetermined == ("rod.mass : rod.inertia : damper.damping : drag.coefficient keep their ratios; the common scale is free.",)
    assert not any(one.determined for one in fit.estimates)
    assert "not determined by the data" in str(fit)
    low, high = fit.profile("rod.mass", points=3)["interval"]
    assert (low, high) == (0.0, np.inf)


@pytest.fixture(scope="module")
def problem(swings):
    """With everything that may be unknown: parameters, initial values, a sensor; and a tie."""
    free = {"J": mbd.Free(1e-4, 1e-2, start=2e-3), "rod.inertia": lambda p: p["J"] - 2e-4, "damper.damping": (0.0, 1e-2)}
    sensors = {"encoder": mbd.Sensor(gain=mbd.Free(0.5, 2.0), bias=mbd.Free(-1, 1), delay=mbd.Free(0.0, 0.1, start=0.013))}
    options = {"integrator": mbd.HHT(1e-6), "kernels": "array"}
    return Problem(pendulum(START), [swings[0].part(0, 0.8), swings[1].part(0, 0.5)], free, sensors, options, "squares")


def test_derivatives_are_those_of_the_channels(problem):
    """Against central differences at replayed smoothness: tolerances are tight enough for 1e-4."""
    point = problem.first_point(None)
    (group,) = problem.groups
    assert [one.name for one in problem.unknowns] == ["J", "damper.damping", "encoder:gain", "encoder:bias", "encoder:delay"]
    for place, step in enumerate([1e-6, 1e-6, 1e-4, 1e-4, 1e-4]):
        ahead, behind = (problem.evaluate(point.u + sign * step * np.eye(5)[place], point.own) for sign in (1, -1))
        expected = (ahead.errors[0] - behind.errors[0]) / (2 * step)
        scale = np.max(np.abs(expected))
        rows = np.asarray(group.batch.ts)[:, None] > 0.05  # earlier samples are those of the start, whatever the delay
        np.testing.assert_allclose(np.where(rows, point.slopes[0][..., place] - expected, 0.0) / scale, 0.0, atol=2e-3)


def test_the_root_of_the_information_is_that_of_the_normal_equations(problem):
    point = problem.first_point(None)
    levels = problem._first_levels(point)
    normal = normal_equations(problem.data, point, levels)
    half = root(problem.data, point, levels, priors=True)
    expected = normal.a - sum(np.einsum("eso,eop,etp->st", b, np.linalg.inv(c), b) for b, c in zip(normal.cross, normal.c, strict=True))
    np.testing.assert_allclose(half.T @ half, expected, rtol=1e-6, atol=1e-9 * np.max(expected))


@pytest.mark.parametrize("loss", ["squares", "huber", "student"])
def test_weights_are_slopes_of_losses(loss):
    s = np.linspace(-5, 5, 41)
    slope = jax.vmap(jax.grad(lambda x: {"squares": 0.5 * x**2, "student": 2.5 * jnp.log1p(x**2 / 4)}.get(loss, 0.0) + 0.0 * x))(s)
    if loss == "huber":
        slope = np.clip(s, -1.345, 1.345)
    np.testing.assert_allclose(weights(loss, s) * s, slope, atol=1e-12)
    np.testing.assert_allclose(np.gradient(rho(loss, s), s)[1:-1], np.asarray(slope)[1:-1], atol=0.05)


def test_outliers_do_not_move_a_robust_fit(swings):
    spoiled = swings[0].part(0.0, 1.0)
    spoiled.columns["encoder"][::7] += 0.3
    free = {"drag.coefficient": (0.0, 1.0), "rod.inertia": (1e-4, 1e-2, "log")}
    options = {"integrator": mbd.HHT(1e-6), "kernels": "array"}
    problem, by_loss = Problem(pendulum(TRUTH), [spoiled], free, {}, options, "squares"), {}
    for loss in ("squares", "student"):
        problem.data = problem.data._replace(loss=loss)
        by_loss[loss] = problem.fit(problem.best_of(problem.first_point(None), 1, 20, 1e-6, lambda row: None), [])
    error = {loss: abs(one.values["rod.inertia"] / TRUTH["rod.inertia"] - 1) for loss, one in by_loss.items()}
    assert error["student"] < 0.2 * error["squares"]


def test_a_run_that_fails_on_the_way_is_avoided():
    """The bound of steps lets slow runs pass and fast ones fail: the search turns around, and never returns a NaN."""
    ball = mbd.PointMass("ball", 1.0, (0.0, 1.0))
    spring = mbd.SpringDamper("spring", mbd.ground, ball, (0, 0), (0, 1), stiffness=100.0, damping=0.0, free_length=0.9)
    system = mbd.Model([ball], [], [spring]).build()
    ts = np.linspace(0.0, 0.5, 51)
    truth = mbd.simulate(system.set({"spring.stiffness": 150.0}), 0.5, integrator=mbd.HHT(1e-6), saveat=ts)
    data = mbd.Experiment({"t": ts, "ball.y": np.asarray(truth.observe("ball.y"))}, noise=1e-5)
    steps = int(truth.stats["steps"]) + 5
    free = {"spring.stiffness": mbd.Free(1.0, 1e6, start=60.0)}
    fit = mbd.calibrate(system, data, free, integrator=mbd.HHT(1e-6), max_steps=steps, progress=False)
    np.testing.assert_allclose(fit.values["spring.stiffness"], 150.0, rtol=1e-3)
    with pytest.raises(ValueError, match=r"the run of 'experiment' with the first values fails: .*max_steps"):
        mbd.calibrate(system, data, {"spring.stiffness": mbd.Free(1.0, 1e6, start=9e4)}, max_steps=steps, progress=False)


def test_measured_inputs_drive_experiments(swings):
    """Each experiment has samples of its own, of another number than the model's."""
    rod = mbd.PlanarBody("rod", 0.15, 1e-3, position=(0.15, 0.0))
    motor = mbd.Torque("motor", rod, mbd.Signal([0.0, 1.0, 2.0], [0.0, 0.0, 0.0]))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0))
    system = mbd.Model([rod], [hinge], [motor]).build()
    inertia = 1e-3 + 0.15 * 0.15**2
    experiments = []
    for n, size in ((5, 0.01), (9, -0.02)):
        ts, grid = np.linspace(0, 1, 21), np.linspace(0, 1, n)
        angle = size / inertia * ts**3 / 6  # of a torque that grows evenly
        signal = mbd.Signal(grid, size * grid)
        experiments.append(mbd.Experiment({"t": ts, "hinge.angle": angle}, noise=1e-6, inputs={"motor": signal}, name=f"{n}"))
    free = {"rod.inertia": mbd.Free(1e-5, 1e-1, start=5e-3)}
    fit = mbd.calibrate(system, experiments, free, integrator=mbd.HHT(1e-8), progress=False)
    np.testing.assert_allclose(fit.values["rod.inertia"], 1e-3, rtol=1e-3)
    experiments[0].inputs = {"moter": signal}
    with pytest.raises(ValueError, match=r"unknown element with a Signal 'moter'. Did you mean 'motor'"):
        mbd.calibrate(system, experiments[0], free, progress=False)


def test_inertias_stay_physical():
    """However far the search goes, no principal moment exceeds the sum of the others."""
    body = mbd.RigidBody("body", 1.0, (0.010, 0.012, 0.020))
    problem = Problem(
        mbd.Model([body], [], [mbd.Gravity((0, 0, 0))]).build(),
        [mbd.Experiment({"t": [0.0, 0.1], "body.x": [0.0, 0.0]})],
        {"body.inertia": mbd.Inertia()},
        {},
        {},
        "squares",
    )
    np.testing.assert_allclose(problem.shared.values(jnp.zeros(6))["body.inertia"], np.diag([0.010, 0.012, 0.020]), rtol=1e-12)
    random = np.random.default_rng(0)
    for _ in range(20):
        low, high = problem.data.bounds
        inertia = np.asarray(problem.shared.values(jnp.asarray(random.uniform(low, high) * 0.5))["body.inertia"])
        moments = np.linalg.eigvalsh(inertia)
        assert moments[2] <= moments[0] + moments[1] + 1e-12
