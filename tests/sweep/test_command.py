"""`jaxmbd sweep` and its pictures."""

import numpy as np
import pytest
import xarray

import jaxmbd as mbd
from jaxmbd.cli import main
from jaxmbd.commands.sweep import _read_vary

SWEEP = ["sweep", "bouncing-ball", "--t1", "0.01", "--step", "1e-3", "--no-cache"]


def grid(*sizes):
    """Of made-up numbers, one of them missing."""
    names = [f"spring.p{i}" for i in range(len(sizes))]
    values = np.arange(float(np.prod(sizes))).reshape(sizes)
    values.flat[1] = np.nan
    coordinates = {name: (name, np.geomspace(1.0, 10.0, size), {"units": "N/m"}) for name, size in zip(names, sizes, strict=True)}
    return xarray.Dataset({"peak:x": (names, values, {"units": "m"}), "result": (names, np.zeros(sizes, int))}, coordinates)


def test_one_parameter_is_a_line_and_two_are_a_heat_map(tmp_path):
    (line,) = mbd.view.plot_sweep(grid(5), tmp_path / "line.png").axes
    assert (line.get_xlabel(), line.get_ylabel(), line.get_xscale()) == ("spring.p0 [N/m]", "peak:x [m]", "log")
    heat, bar = mbd.view.plot_sweep(grid(5, 3), tmp_path / "map.png").axes
    assert (heat.get_xlabel(), heat.get_ylabel(), bar.get_ylabel()) == ("spring.p0 [N/m]", "spring.p1 [N/m]", "peak:x [m]")
    assert len(heat.lines[0].get_xdata()) == 1  # the run without a number is crossed
    heat.figure.draw_without_rendering()
    assert [label.get_text() for label in heat.get_xticklabels() if 1 <= label.get_position()[0] <= 10] == ["1", "2", "5", "10"]
    assert (tmp_path / "line.png").exists()
    assert (tmp_path / "map.png").exists()


def test_what_cannot_be_drawn_is_told(tmp_path):
    with pytest.raises(ValueError, match="grids of one or two parameters"):
        mbd.view.plot_sweep(grid(2, 2, 2), tmp_path / "cube.png")
    with pytest.raises(ValueError, match="'peak:y' is not one number for each run of this sweep; there is 'peak:x'"):
        mbd.view.plot_sweep(grid(3), tmp_path / "line.png", observe="peak:y")


def test_values_are_read_evenly_in_ratios_and_as_lists():
    np.testing.assert_allclose(_read_vary("a.b=1:3:3")[1], [1, 2, 3])
    np.testing.assert_allclose(_read_vary("a.b=1:100:3:log")[1], [1, 10, 100])
    assert _read_vary("a.b=5,7")[0] == "a.b"
    np.testing.assert_allclose(_read_vary("a.b=5,7")[1], [5, 7])


def test_the_command_runs_resumes_and_writes(tmp_path, capsys):
    command = [*SWEEP, "--vary", "ball.mass=1:4:3:log", "--vary", "cont*.stiffness=1e3,2e3", "--observe", "final:ball.vy"]
    command += ["--store", str(tmp_path / "sweep.zarr"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert first.startswith(
        "bouncing-ball: 6 runs, 0 failed\n  final:ball.vy: -0.0981 to -0.0981 m/s\nwrote "
    )  # it still falls: 9.81 m/s^2 for 0.01 s
    assert main(command) == 0
    assert capsys.readouterr().out == first
    with np.load(tmp_path / "out" / "sweep.npz") as results:
        np.testing.assert_allclose(results["ball.mass"], [1, 2, 4])
        assert results["final:ball.vy"].shape == (3, 2)
    assert (tmp_path / "out" / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "ball.mas=1:2:3", "--observe", "final:ball.vy"], "Did you mean 'ball.mass'?"),
        (["--vary", "ball*.mas=1:2:3", "--observe", "final:ball.vy"], "Did you mean 'ball.mass'?"),
        (["--vary", "ball.mass=1:2", "--observe", "final:ball.vy"], "--vary 'ball.mass=1:2' does not read NAME=FROM:TO:COUNT"),
        (["--vary", "ball.mass=-1:2:3:log", "--observe", "final:ball.vy"], "with positive bounds"),
        (["--vary", "ball.mass=1:2:3", "--observe", "ball.vy"], "'ball.vy' is a number for each time"),
        (["--vary", "ball.mass=-1,1", "--observe", "final:ball.vy"], "run 0 of the sweep, ball.mass = -1"),
        (["--vary", "ball.mass=1:2:3"], "required: --observe"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments, message, capsys, tmp_path):
    assert main([*SWEEP, "--out", str(tmp_path), *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("jaxmbd: error: ")
    assert printed.count("\n") == 1
    assert message in printed
