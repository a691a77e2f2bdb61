"""Everything that a calibration refuses, with the sentence that says what to do."""

import numpy as np
import pytest

import jaxmbd as mbd

TABLE = {"t": [0.0, 0.1, 0.2], "hinge.angle": [0.0, 0.1, 0.2]}


@pytest.fixture(scope="module")
def system():
    rod = mbd.PlanarBody("rod", 0.15, 1e-3, position=(0.15, 0.0))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0))
    return mbd.Model([rod], [hinge], [mbd.Gravity((0, -9.81))]).build()


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (TABLE | {"hinge.angle": [0.0, np.nan, 0.2]}, {}, r"column 'hinge.angle' is not finite in row 1 .* leave these rows out"),
        (TABLE | {"t": [0.0, 0.2, 0.1]}, {}, r"times must increase, row 2 \(0.1 s\) does not: sort the rows"),
        (TABLE | {"t": [0.0, 0.1, 0.1]}, {}, "times must increase, row 2"),
        ({"hinge.angle": [0.0, 0.1]}, {}, "has no column 't' of times: say which it is, time='...'"),
        (TABLE, {"time": "T"}, "unknown column of times 'T'"),
        (TABLE, {"channels": {"angel": "hinge.angle"}}, r"unknown column 'angel'.*Did you mean 'hinge.angle'"),
        (TABLE, {"channels": []}, "has no channels beside the times"),
        (TABLE | {"hinge.angle": [[0.0], [0.1], [0.2]]}, {}, r"must be one number a row, got an array of shape \(3, 1\)"),
        (TABLE | {"hinge.angle": [0.0, 0.1]}, {}, "channel 'hinge.angle' has 2 values for 3 times"),
        (TABLE | {"hinge.angle": ["a", "b", "c"]}, {}, "must hold numbers"),
        (TABLE, {"t0": 0.05}, r"its first sample, at 0 s, is before the start of the run, t0 = 0.05 s"),
        (TABLE, {"noise": -1.0}, "must be a positive standard deviation"),
        (TABLE, {"noise": {"hinge.angl": 1.0}}, "unknown channel 'hinge.angl'. Did you mean 'hinge.angle'"),
        (TABLE, {"inputs": {"motor": [1, 2]}}, "the input of 'motor' must be an mbd.Signal"),
        ({"t": [0.0], "hinge.angle": [0.0]}, {}, "has 1 rows: a run needs two times at least"),
        ([1, 2, 3], {}, "a dictionary of columns, a data frame, or the path of a CSV or npz file"),
        ("nowhere.csv", {}, "there is no file 'nowhere.csv'"),
    ],
)
def test_measurements(data, options, message):
    with pytest.raises(ValueError, match=message):
        mbd.Experiment(data, **options)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("t,angle\n0,1\n0.1,2\n", {"channels": {"angl": "hinge.angle"}}, "unknown column 'angl'. Did you mean 'angle'"),
        ("t,angle\n0,1\n0.1\n", {}, "line 3: 1 values for 2 columns"),
        ("t,angle\n0,one\n", {}, "line 2: 'one' in column 'angle' is not a number"),
        ("t,angle\n0,\n0.1,2\n", {}, "column 'angle' is not finite in row 0"),
        ("t,angle\n", {}, "has no rows below its names"),
    ],
)
def test_files(tmp_path, text, options, message):
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        mbd.Experiment(path, **options)


def test_files_of_all_kinds_are_read(tmp_path):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text("t;angle\n0;1\n0.5;2\n", encoding="utf-8")
    np.savez(tmp_path / "b.npz", t=[0.0, 0.5], angle=[1.0, 2.0])
    frame = pandas.DataFrame({"t": [0.0, 0.5], "angle": [1.0, 2.0]})
    for data in (tmp_path / "a.csv", tmp_path / "b.npz", frame):
        one = mbd.Experiment(data, {"angle": "hinge.angle"})
        np.testing.assert_array_equal(one.columns["angle"], [1.0, 2.0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rod.masss": (0.1, 1.0)}, "unknown parameter 'rod.masss'. Did you mean 'rod.mass'"),
        ({"rod.mass": (1.0, 2.0)}, r"'rod.mass' starts at 0.15, outside of its bounds 1 ... 2: widen them, or say where to begin"),
        ({"rod.mass": (2.0, 1.0)}, "its lower bound 2 must be less than its upper bound 1"),
        ({"rod.mass": (-1.0, 2.0)}, r"its lower bound -1 is out of range: rod.mass must be positive"),
        ({"rod.mass": 3.0}, r"give its bounds \(low, high\)"),
        ({"rod.position": (-1.0, 1.0, "log")}, "searched in its logarithm: its bounds, start and prior must be positive"),
        ({"rod.mass": mbd.Free(prior=(0.15, 0.0))}, "the standard deviation of its prior must be positive"),
        ({"rod.mass": mbd.Free([0.1, 0.1], 1.0)}, r"has shape \(\): start, bounds and prior must be numbers"),
        ({"rod.inertia": mbd.Inertia()}, "mbd.Inertia is for the 3 x 3 inertia of a RigidBody"),
        ({"rod.mass": (0.1, 1.0), "rod.inertia": "rod.mas"}, "unknown parameter of this calibration 'rod.mas'"),
        ({"J": (0.1, 1.0)}, "A number of your own that ties use needs"),
        ({"rod.mass": (0.1, 1.0), "rod.*ss": (0.1, 1.0)}, "both give 'rod.mass': give it once"),
        ({}, "calibrate needs parameters to find"),
        ({"rod.mass": lambda p: 1.0}, "only ties and no parameter to find"),
    ],
)
def test_parameters(system, parameters, message):
    with pytest.raises(ValueError, match=message):
        mbd.calibrate(system, mbd.Experiment(TABLE), parameters, progress=False)


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"channels": {"hinge.angle": "hinge.angel"}}, {}, "unknown observable 'angel'. Did you mean 'angle'"),
        ({"channels": {"hinge.angle": "peak:hinge.angle"}}, {}, "is one number for a run, a channel has one a row"),
        ({"channels": {"hinge.angle": lambda run: run.q}}, {}, r"must give one number a row, shape \(3,\), got \(3, 3\)"),
        ({"initial": {"hinge.angel": 1.0}}, {}, "unknown observable 'angel'"),
        ({"initial": {"hinge.fx": 1.0}}, {}, "only positions and their rates can be asked for"),
        ({"initial": {"hinge.angle": "high"}}, {}, r"give a number, \(value, standard deviation\) of a measured one, or mbd.Free"),
        ({"initial": {"hinge.angle": mbd.Free()}}, {}, r"give mbd.Free\(..., start=...\), nobody else knows where to begin"),
        ({}, {"sensors": {"hinge": mbd.Sensor()}}, "unknown channel 'hinge'. Did you mean 'hinge.angle'"),
        ({}, {"loss": "square"}, "unknown loss 'square'. Did you mean 'squares'"),
        ({}, {"starts": 4}, "'rod.mass' has none: give it two"),
    ],
)
def test_settings(system, changes, options, message):
    with pytest.raises(ValueError, match=message):
        mbd.calibrate(system, mbd.Experiment(TABLE, **changes), {"rod.mass": mbd.Free(0.01)}, progress=False, **options)


def test_fewer_data_than_unknowns(system):
    with pytest.raises(ValueError, match="4 numbers are to be found from 3 samples: give more data, fewer parameters, or priors"):
        mbd.calibrate(
            system, mbd.Experiment(TABLE), {"rod.position": mbd.Free(), "rod.mass": (0.1, 1), "rod.inertia": (0, 1)}, progress=False
        )


def test_what_is_no_argument_of_a_run(system):
    with pytest.raises(TypeError, match=r"unknown argument 'stepp'. Did you mean 'step'"):
        mbd.calibrate(system, mbd.Experiment(TABLE), {"rod.mass": (0.1, 1.0)}, stepp=1e-3)
