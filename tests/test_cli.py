"""The command line, in process: what it prints, what it writes, how it fails."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.cli import _parser, main
from jaxmbd.commands.shared import build
from jaxmbd.problems import PROBLEMS

# All runs share one structure (the planar pendulum), so that only the first one compiles.
PENDULUM = ["run", "pendulum", "--option", "spatial=false", "--t1", "0.2"]


@pytest.fixture(scope="module")
def run_in(tmp_path_factory):
    """Runs the pendulum with further arguments; returns the exit code and the directory of the results."""

    def run(*arguments):
        directory = tmp_path_factory.mktemp("results")
        return main([*PENDULUM, "--out", str(directory), *arguments]), directory

    return run


def test_list_shows_every_problem_and_its_options(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines]
    assert names == list(PROBLEMS)
    chain = lines[names.index("chain")]
    assert "n=8" in chain
    assert "spatial=true" in chain
    assert "stiffness=2e+07" in lines[names.index("hmmwv")]


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "jaxmbd.cli", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"jaxmbd {mbd.__version__}"


def test_run_prints_a_table_and_writes_results_and_plot(run_in, capsys):
    code, directory = run_in()
    printed = capsys.readouterr()
    assert code == 0
    assert printed.err == ""
    rows = (
        "steps",
        "rejections",
        "Newton iterations",
        "Jacobians",
        "compile time",
        "run time",
        "energy change",
        "work",
        "numerical energy error",
    )
    for row in (*rows, "constraint violation", "result: the run reached its end."):
        assert row in printed.out
    assert (directory / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in directory.iterdir()) == ["plot.png", "results.npz"]
    with np.load(directory / "results.npz") as results:
        rows = results["ts"].shape[0]
        assert rows == results["stats.steps"] + 1
        assert results["ts"][-1] == 0.2
        assert results["q"].shape == results["v"].shape == (rows, 3)
        assert results["multipliers"].shape == (rows, 2)
        np.testing.assert_array_equal(results["rod.position"], results["q"][:, :2])
        np.testing.assert_array_equal(results["rod.velocity"], results["v"][:, :2])
        np.testing.assert_array_equal(results["rod.orientation"], results["q"][:, 2])
        assert str(results["message"]) == "the run reached its end."


def test_view_writes_a_page_and_opens_it(run_in, capsys, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    code, directory = run_in("--view")
    assert code == 0
    page = directory / "animation.html"
    assert f"and {page}" in capsys.readouterr().out
    assert opened == [page.resolve().as_uri()]
    assert "<title>pendulum</title>" in page.read_text(encoding="utf-8")


def test_set_changes_parameters_numbers_and_vectors(run_in):
    # Without gravity and with the free angle at the start, nothing moves.
    code, directory = run_in("--set", "gravity.acceleration=0,0", "spring.free_angle=0", "--set", "rod.mass=2")
    assert code == 0
    with np.load(directory / "results.npz") as results:
        np.testing.assert_array_equal(results["rod.position"] - [1.0, 0.0], 0.0)


def test_a_failing_run_writes_what_it_has_and_says_why(run_in, capsys):
    # No step is small enough for a spring whose torque overflows.
    code, directory = run_in("--set", "spring.stiffness=1e300")
    printed = capsys.readouterr()
    assert code == 1
    assert printed.err.startswith("jaxmbd: failed: something is not finite after t = 0 s")
    assert re.search(r"steps +0 ", printed.out)
    with np.load(directory / "results.npz") as results:
        assert results["ts"].shape[0] == results["stats.steps"] + 1
    assert (directory / "plot.png").exists()


def test_a_problem_may_bound_the_steps(run_in, capsys, monkeypatch):
    monkeypatch.setitem(PROBLEMS, "pendulum", PROBLEMS["pendulum"]._replace(max_step=1e-3))
    code, directory = run_in("--tolerance", "1")
    assert code == 0
    assert "steps of at most 0.001 s, t = 0" in capsys.readouterr().out
    with np.load(directory / "results.npz") as results:
        np.testing.assert_allclose(np.max(results["steps"]), 1e-3, rtol=1e-12)


def test_warnings_are_one_line_each(run_in, capsys):
    code, _ = run_in("--integrator", "trapezoidal", "--step", "0.01")
    printed = capsys.readouterr()
    assert code == 0
    assert "steps of 0.01 s" in printed.out
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("jaxmbd: warning: ")
    assert "trapezoidal rule, which is unstable on constraints" in printed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "double-pendulm"], "unknown problem 'double-pendulm'. Did you mean 'double-pendulum'?"),
        ([*PENDULUM, "--set", "spring.stifness=3"], "Did you mean 'spring.stiffness'?"),
        ([*PENDULUM, "--set", "spring.stiffness"], "--set 'spring.stiffness' does not read NAME=VALUE."),
        ([*PENDULUM, "--set", "spring.stiffness=stiff"], "expected a number or comma-separated numbers, got 'stiff'"),
        ([*PENDULUM, "--set", "rod.mass=-1"], "mass of body 'rod' must be positive"),
        ([*PENDULUM, "--set", "gravity.acceleration=0,0,-9.81"], "acceleration of force 'gravity': expected an array"),
        ([*PENDULUM, "--tolerance", "-1"], "tolerance of HHT must be positive"),
        ([*PENDULUM, "--tolerance", "small"], "argument --tolerance: invalid float value: 'small'"),
        ([*PENDULUM, "--t1", "-1"], "time runs forward"),
        ([*PENDULUM, "--step", "0"], "--step must be a positive number of seconds"),
        ([*PENDULUM, "--integrator", "euler"], "argument --integrator: invalid choice: 'euler'"),
        ([*PENDULUM, "--option", "spatil=true"], "unknown option 'spatil'. Did you mean 'spatial'?"),
        ([*PENDULUM, "--option", "spatial=maybe"], "--option spatial must be true or false"),
        (["run", "chain", "--option", "n=many"], "--option n must be a number like 8"),
        (["run", "chain", "--option", "n=0"], "a chain needs a whole number n of links"),
        (["fly"], "invalid choice: 'fly'"),
        ([], "required: COMMAND"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("jaxmbd: error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err


def test_a_directory_that_cannot_be_written_is_an_error(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert main([*PENDULUM, "--out", str(tmp_path / "file" / "results")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("jaxmbd: error: cannot write to ")
    assert printed.count("\n") == 1


def test_help_names_every_flag(capsys):
    with pytest.raises(SystemExit) as end:
        main(["run", "--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    for flag in ("--integrator", "--tolerance", "--t1", "--step", "--set", "--option", "--out", "--view", "--no-cache"):
        assert flag in printed


# --- what is installed ------------------------------------------------------------------------------------------------


def test_info_tells_versions_devices_extras_and_cache(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("jaxmbd.caching._directory", lambda: str(tmp_path))
    (tmp_path / "a-cache").write_bytes(b"0" * 2_000_000)
    known = {"jax": "0.10.0", "xarray": "1", "pandas": None}
    monkeypatch.setattr("jaxmbd.commands.info.version_of", lambda name: known.get(name, "2.3"))
    wanted = ["xarray; extra == 'data'", "pandas>=2 ; extra == 'data'", "jaxmbd[data]; extra == 'test'", "diffrax; extra == 'diffrax'"]
    monkeypatch.setattr("jaxmbd.commands.info.requires", lambda name: wanted)
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^jax +0\.10\.0$", printed, re.M)
    assert re.search(r"^devices +cpu:0", printed, re.M)
    assert re.search(r'^extra data +missing pandas: pip install "jaxmbd\[data\]"$', printed, re.M)
    assert re.search(r"^extra diffrax +installed$", printed, re.M)
    assert re.search(rf"^cache +{re.escape(str(tmp_path))}, 2\.0 MB in 1 programs$", printed, re.M)


def test_help_has_examples_that_are_understood(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip().startswith("jaxmbd ")]
    commands = [re.split(r" {3,}", line)[0].split()[1:] for line in lines if "COMMAND" not in line]
    assert len(commands) == 6
    for arguments in commands:
        _parser().parse_args(arguments)


def test_a_missing_extra_is_one_line_that_says_what_to_install(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "xarray", None)
    assert (
        main(["sweep", "pendulum", "--vary", "rod.mass=1:2:2", "--observe", "peak:rod.y", "--no-cache", "--store", str(tmp_path / "s")])
        == 2
    )
    told = capsys.readouterr().err.strip().splitlines()
    assert told[-1].startswith("jaxmbd: error: ")
    assert 'pip install "jaxmbd[sweep]"' in told[-1]


# --- README ---------------------------------------------------------------------------------------------------------

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def test_readme_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)
    assert (tmp_path / "pendulum.png").exists()
    assert namespace["heights"].shape == (64,)
    assert dict(namespace["data"].sizes) == {"spring.stiffness": 8, "rod.mass": 3}
    assert not namespace["data"]["result"].any()
    assert (tmp_path / "sweep.png").exists()
    # The spring's slope, by the gradient and by the neighbours of 400 N m/rad in the batch, 6 N m/rad apart: steps are
    # chosen anew for each, so that neighbours differ by the error of the method too, 1e-5 m or more.
    stiffnesses, heights = namespace["stiffnesses"], namespace["heights"]
    slope = np.interp(400.0, stiffnesses[1:-1], (heights[2:] - heights[:-2]) / (stiffnesses[2:] - stiffnesses[:-2]))
    np.testing.assert_allclose(namespace["by_stiffness"], slope, rtol=0.1, atol=1e-5)


def test_readme_commands_exist():
    """What the README tells to type is understood, down to the names of parameters."""
    commands = [line.split() for block in blocks("sh") for line in block.splitlines() if line.startswith("jaxmbd ")]
    assert len(commands) >= 4
    for _, *arguments in commands:
        if "--help" not in arguments:
            options = _parser().parse_args(arguments)
            if arguments[0] in ("run", "sweep"):
                build(options, PROBLEMS[options.name])
    assert '<!-- test-command -->\n```sh\npip install ".[test]" && pytest -n 2 --dist loadfile\n```' in README
