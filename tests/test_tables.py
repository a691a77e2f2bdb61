"""Runs as tables and files: names, units, and the same numbers."""

import jax
import numpy as np
import pytest

import jaxmbd as mbd

xarray = pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def run():
    return mbd.simulate(mbd.problems.pendulum(), 0.05, integrator=mbd.HHT(1e-4))


def test_a_dataset_has_named_coordinates_and_units(run):
    data = run.to_xarray()
    np.testing.assert_array_equal(data["position"].sel(body="rod", axis="y"), run.position("rod")[:, 1])
    np.testing.assert_array_equal(data["rotation"].sel(body="rod"), run.rotation("rod"))
    np.testing.assert_array_equal(data["orientation"].sel(body="rod"), run.orientation("rod"))
    np.testing.assert_array_equal(data["angular_velocity"].sel(body="rod"), run.angular_velocity("rod"))
    np.testing.assert_array_equal(data["time"], run.ts)
    assert {name: data[name].attrs["units"] for name in ("time", "velocity", "energy.total")} == {
        "time": "s",
        "velocity": "m/s",
        "energy.total": "J",
    }
    assert data.attrs["result"] == run.message
    assert data.attrs["stats.steps"] == run.stats["steps"]
    some = run.to_xarray(["hinge.angle", "peak:rod.y"])
    assert some["hinge.angle"].dims == ("time",)
    assert some["peak:rod.y"].dims == ()


def test_a_frame_has_columns_with_units(run):
    frame = run.to_dataframe(["hinge.angle", "spring.torque"])
    assert frame.index.name == "time"
    assert frame.attrs["units"] == {"time": "s", "hinge.angle": "rad", "spring.torque": "N m"}
    np.testing.assert_array_equal(frame["hinge.angle"], run.observe("hinge.angle"))
    assert {"rod.x", "rod.e0", "hinge.angle", "energy.total"} <= set(run.to_dataframe())
    with pytest.raises(ValueError, match="one number for the whole run, not a column"):
        run.to_dataframe("peak:rod.y")


@pytest.mark.parametrize("name", ["x.npz", "x.nc"])
def test_a_saved_run_comes_back(run, name, tmp_path):
    loaded = mbd.load(run.save(tmp_path / name))
    for part in ("states", "final", "steps", "tried", "result", "blame", "event"):
        mine, other = getattr(run, part), getattr(loaded, part)
        if part in ("states", "final"):
            mine, other = (jax.tree.leaves((s.t, s.q, s.v, s.x, s.multipliers, s.acceleration, s.memory)) for s in (mine, other))
        for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(other), strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)
    assert loaded.stats == {key: int(value) for key, value in run.stats.items()}
    assert loaded.message == run.message
    np.testing.assert_array_equal(loaded.position("rod"), run.position("rod"))
    assert loaded.system.parameter_names() == run.system.parameter_names()


def test_other_programs_read_it(run, tmp_path):
    with xarray.open_dataset(run.save(tmp_path / "x.nc"), engine="scipy") as data:
        np.testing.assert_array_equal(data["position"].sel(body="rod"), run.position("rod"))
    with np.load(run.save(tmp_path / "x.npz"), allow_pickle=False) as file:
        np.testing.assert_array_equal(file["states.q"], run.q)


def test_a_run_goes_on_from_its_file(run, tmp_path):
    loaded = mbd.load(run.save(tmp_path / "x.npz"))
    on, wanted = (mbd.simulate(one.system, 0.06, initial=one.final, integrator=mbd.HHT(1e-4)) for one in (loaded, run))
    assert on.ts[0] == 0.05
    np.testing.assert_allclose(on.q[-1], wanted.q[-1], atol=1e-6)


def test_what_a_file_cannot_hold_is_said(tmp_path):
    ball = mbd.PointMass("ball", 1.0, (0.0, 0.0))
    model = mbd.Model([ball], forces=[mbd.PointForce("wind", ball, (0, 0), lambda t: np.zeros(2))])
    run = mbd.simulate(model, 0.2, integrator=mbd.Verlet(), step=0.1)
    path = run.save(tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"holds no model \(value of force 'wind' is a function.*mbd.load\(path, model\)"):
        mbd.load(path)
    np.testing.assert_array_equal(mbd.load(path, model).position("ball"), run.position("ball"))
    with pytest.raises(ValueError, match="of another model than the one given: it has 2 coordinates, not 7"):
        mbd.load(path, mbd.problems.pendulum())
    with pytest.raises(ValueError, match=r"saved as \.npz or \.nc"):
        run.save(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"loaded from \.npz or \.nc"):
        mbd.load(tmp_path / "x.csv")
    np.savez(tmp_path / "y.npz", a=np.zeros(1))
    with pytest.raises(ValueError, match="is no saved solution"):
        mbd.load(tmp_path / "y.npz")


# --- in words -----------------------------------------------------------------------------------------------------------------------------


def test_models_systems_and_runs_are_told_in_words(run):
    model = mbd.problems.stiff_impact()
    for text in (repr(model), model._repr_html_()):
        for word in ("planar, 3 bodies, 4 joints, 3 forces", "cam - impactor", "Translational", "LuGre", "0.64", "5e+04 N/m"):
            assert word in text
    assert "degrees of freedom   2" in repr(model.build())
    assert "the run reached its end." in repr(run)
    assert f"steps              {run.stats['steps']}" in repr(run)
    assert run._repr_html_().count("<tr>") == 8


def test_long_tables_are_shortened():
    told = repr(mbd.problems.chain(n=40))
    assert "... and 29 more" in told
    assert "hinge40" in told
    assert told.count("\n") < 40


def test_names_are_escaped_in_html():
    model = mbd.Model([mbd.PointMass("<b>", 1.0, (0.0, 0.0))])
    assert "&lt;b&gt;" in model._repr_html_()


def test_what_is_traced_has_no_numbers():
    system, told = mbd.problems.pendulum().build(), []
    jax.eval_shape(lambda mass: told.append(repr(system.set({"rod.mass": mass}))), 1.0)
    assert "rod   RigidBody  ?" in told[0]


def test_points_have_places_and_no_orientation():
    ball = mbd.PointMass("ball", 1.0, (0.0, 0.0, 1.0))
    run = mbd.simulate(mbd.Model([ball], [], [mbd.Gravity((0, 0, -9.81))]), 0.05, integrator=mbd.Verlet(), step=0.01)
    data = run.to_xarray()
    np.testing.assert_array_equal(data["position"].sel(body="ball"), run.position("ball"))
    assert np.all(np.isnan(data["orientation"]))
    assert np.all(np.isnan(data["angular_velocity"]))
