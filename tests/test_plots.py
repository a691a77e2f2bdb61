"""Pictures that take one call: what is in them, with labels and units. They were looked at, too."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import jaxmbd as mbd


@pytest.fixture(scope="module")
def run():
    """A disc on a spring that falls on a line and rubs there."""
    disc = mbd.PlanarBody("disc", 1.0, 0.005, (0.0, 0.102), velocity=(0.5, 0.0))
    law, friction = mbd.LinearContact(1e4, 10.0), mbd.Coulomb(0.2)
    floor = mbd.DiscLine("floor", disc, mbd.ground, (0.0, 0.102), 0.1, (0.0, 0.0), (0.0, 1.0), law, friction)
    spring = mbd.SpringDamper("spring", mbd.ground, disc, (-1.0, 0.102), (0.0, 0.102), 50.0, 1.0)
    return mbd.simulate(mbd.Model([disc], [], [mbd.Gravity((0.0, -9.81)), floor, spring]), 0.05, integrator=mbd.BDF())


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def lines(figure):
    """Values by axis label and name."""
    return {(axes.get_ylabel(), line.get_label()): np.asarray(line.get_ydata()) for axes in figure.axes for line in axes.lines}


def test_a_name_is_an_observable_or_an_owner(run, tmp_path):
    seen = lines(run.plot("disc"))
    np.testing.assert_array_equal(seen["[m]", "disc.y"], run.position("disc")[:, 1])
    assert {("[rad]", "disc.angle"), ("[m/s]", "disc.vx"), ("[rad/s]", "disc.wz")} <= set(seen)
    assert set(lines(run.plot("spring.force", "disc.vx"))) == {("[N]", "spring.force"), ("[m/s]", "disc.vx")}
    assert ("x [m]", "disc") in lines(run.plot())
    path = tmp_path / "x.png"
    run.plot("disc", path=path)
    assert path.stat().st_size > 5000
    with pytest.raises(ValueError, match=r"Did you mean 'vx'"):
        run.plot("disc.vxx")
    with pytest.raises(ValueError, match="leave the reducer out"):
        run.plot("peak:disc.y")


def test_the_balance_of_energy_closes(run):
    seen = lines(run.plot("energy"))
    parts = sum(values for (label, name), values in seen.items() if label == "supplied [J]" and name in ("floor", "spring"))
    change = seen["supplied [J]", "change of the total"]
    assert change[-1] < -1e-3
    np.testing.assert_allclose(parts, change, atol=1e-3 * np.max(np.abs(change)))
    assert ("energy [J]", "kinetic") in seen


def test_steps_orders_and_violation(run):
    figure = run.plot("steps")
    assert [axes.get_ylabel() for axes in figure.axes] == ["step size [s]", "order", "constraint violation\n[m or rad]"]
    assert f"{run.stats['steps']} steps" in figure.axes[0].get_title(loc="left")


def test_a_contact(run):
    seen = lines(run.plot("floor"))
    loads = run.contact("floor")
    np.testing.assert_array_equal(seen["gap [m]", "gap"], loads.gap)
    np.testing.assert_array_equal(seen["force [N]", "normal"], loads.normal_force)
    np.testing.assert_array_equal(seen["power [W]", "on the first body"], np.asarray(loads.power)[:, 0])


def test_phase_portraits(run):
    figure = mbd.view.plot_phase(run, "disc.x")
    axes = figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("disc.x [m]", "disc.vx [m/s]")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), run.position("disc")[:, 0])
    with pytest.raises(ValueError, match=r"'spring\.force' has no rate that is an observable"):
        mbd.view.plot_phase(run, "spring.force")
    with pytest.raises(ValueError, match="1 names, but 2"):
        mbd.view.plot_phase(run, "disc.x", against=["disc.y", "disc.vx"])


def test_work_and_precision():
    """A free fall: trapezoidal steps are exact, one method is enough to see what is reported."""
    model = mbd.Model([mbd.PointMass("ball", 1.0, (0.0, 0.0))], forces=[mbd.Gravity((0.0, -9.81))])
    data = mbd.work_precision(model, 1.0, [mbd.DormandPrince], [1e-4, 1e-3], observe="ball.y", reference=-0.5 * 9.81 + 1e-3)
    np.testing.assert_allclose(data["error"], 1e-3, rtol=1e-6)
    assert data["error"].attrs == {"units": "m", "of": "ball.y at 1 s"}
    assert list(data["tolerance"].values) == [1e-3, 1e-4]
    axes = mbd.view.plot_work_precision(data, work="force_evaluations").axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("error of ball.y at 1 s [m]", "force evaluations")
    with pytest.raises(ValueError, match="work must be one of 'seconds'"):
        mbd.view.plot_work_precision(data, work="money")
    with pytest.raises(ValueError, match="must make an integrator of a tolerance"):
        mbd.work_precision(model, 1.0, {"none": lambda tolerance: 3}, [1e-3], observe="ball.y", reference=0.0)
