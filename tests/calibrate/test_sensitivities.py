"""Derivatives as a table, and designs that they lead to."""

import jax
import numpy as np
import pytest

import jaxmbd as mbd

OBSERVE = ["peak:ball.y", "final:ball.vy"]


def oscillator():
    """A mass of 2 kg on a spring of 50 N/m, let go 0.1 m below its rest: closed forms for everything."""
    ball = mbd.PointMass("ball", 2.0, (0.0, 0.9))
    spring = mbd.SpringDamper("spring", mbd.ground, ball, (0, 0), (0, 0.9), stiffness=50.0, damping=0.0, free_length=1.0)
    return mbd.Model([ball], [], [spring]).build()


@pytest.fixture(scope="module")
def table():
    names = ["spring.stiffness", "ball.mass", "ball.position", "spring.free_length"]
    return mbd.sensitivities(oscillator(), names, 1.0, observe=OBSERVE, integrator=mbd.HHT(1e-7))


def test_sensitivities_are_those_of_the_closed_form(table):
    """y = l + (y0 - l) cos w t, w^2 = k / m."""
    k, m, away = 50.0, 2.0, -0.1
    w, rate = np.sqrt(k / m), -away * np.sqrt(k / m) * np.sin(np.sqrt(k / m))
    by_w = -away * (np.sin(w) + w * np.cos(w))
    derivative = table["d(final:ball.vy)"].sel(parameter=["spring.stiffness", "ball.mass", "ball.position[1]"]).values
    np.testing.assert_allclose(table["final:ball.vy"], rate, rtol=2e-3)
    np.testing.assert_allclose(derivative[:2], [by_w * w / (2 * k), -by_w * w / (2 * m)], rtol=5e-3)
    # The end of the spring is given in space: moved with the ball, the free length stays.
    np.testing.assert_allclose(table["peak:ball.y"], 1.1, rtol=1e-4)
    np.testing.assert_allclose(table["relative(final:ball.vy)"].sel(parameter="ball.mass"), derivative[1] * m / rate, rtol=5e-3)
    assert table["parameter_unit"].sel(parameter="spring.stiffness") == "N/m"
    assert not table["failed"]


def test_sensitivities_of_lanes(table):
    lanes = mbd.sensitivities(
        oscillator(), {"spring.stiffness": [50.0, 80.0], "ball.mass": [2.0, 2.0]}, 1.0, observe=OBSERVE, integrator=mbd.HHT(1e-7)
    )
    assert lanes["d(final:ball.vy)"].shape == (2, 2)
    expected = table["d(final:ball.vy)"].sel(parameter=["spring.stiffness", "ball.mass"])
    np.testing.assert_allclose(lanes["d(final:ball.vy)"][0], expected, rtol=1e-6)


def test_bars_of_sensitivities(table, tmp_path):
    mbd.view.plot_sensitivities(table, tmp_path / "bars.png", most=4)
    assert (tmp_path / "bars.png").stat().st_size > 5_000
    with pytest.raises(ValueError, match="no sensitivities of single numbers"):
        mbd.view.plot_sensitivities(table.drop_vars([name for name in table if name.startswith("relative")]))


def test_a_design_is_found_between_bounds():
    """The swing that is at rest after one second: w = 2 pi or pi; ties hold on the way."""
    free = {"spring.stiffness": (30.0, 100.0, "log"), "ball.mass": lambda p: 0.04 * p["spring.stiffness"] ** 0.5 + 2.0 - 0.04 * 50**0.5}
    objective = lambda run: run.velocity("ball")[-1, 1] ** 2  # noqa: E731
    found = mbd.optimize(oscillator(), free, objective, 1.0, starts=4, lanes=2, iterations=30, integrator=mbd.HHT(1e-6), progress=False)
    assert found.objective < 1e-5 < found.start
    k = found.values["spring.stiffness"]
    mass = found.system.get("ball.mass")
    np.testing.assert_allclose(mass, 0.04 * k**0.5 + 2.0 - 0.04 * 50**0.5)
    np.testing.assert_allclose(np.sqrt(k / mass) / np.pi, np.round(np.sqrt(k / mass) / np.pi), atol=0.02)
    assert str(found).startswith(f"{found.start:.6g} -> {found.objective:.6g}")
    assert found.failed_runs == 0


def test_what_cannot_be_optimised():
    with pytest.raises(ValueError, match=r"'ball.mass' has no bounds"):
        mbd.optimize(oscillator(), {"ball.mass": mbd.Free(0.1)}, "final:ball.y", 1.0)
    with pytest.raises(ValueError, match="the objective must be one number"):
        mbd.optimize(oscillator(), {"ball.mass": (0.1, 9.0)}, lambda run: {"a": run.ts[0], "b": run.ts[0]}, 1.0, progress=False)
    with pytest.raises(ValueError, match=r"unknown parameter 'ball.mas'"):
        mbd.sensitivities(oscillator(), ["ball.mas"], 1.0, observe="final:ball.y")
    assert jax.config.jax_enable_x64
