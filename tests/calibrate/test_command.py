"""`jaxmbd calibrate`, as a user types it."""

import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.cli import main

FIT = ["--fit", "spring.stiffness=100:1000:log", "--fit", "spring.damping=0:50"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A swing of the problem `pendulum` with another spring, to 1e-3 rad."""
    ts = np.linspace(0.0, 0.6, 61)
    truth = mbd.problems.pendulum(spatial=False).build().set({"spring.stiffness": 300.0, "spring.damping": 10.0})
    run = mbd.simulate(truth, 0.6, saveat=ts, integrator=mbd.HHT(1e-6))
    noise = 1e-3 * np.random.default_rng(0).standard_normal(ts.size)
    path = tmp_path_factory.mktemp("data") / "swing.csv"
    np.savetxt(path, np.stack([ts, run.observe("hinge.angle") + noise], axis=1), delimiter=",", header="t,encoder", comments="")
    return path


def test_it_prints_and_writes(file, tmp_path, capsys):
    command = ["calibrate", "pendulum", "--option", "spatial=false", "--data", str(file), "--channel", "encoder=hinge.angle", *FIT]
    assert main([*command, "--out", str(tmp_path), "--tolerance", "1e-6", "--no-cache"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("pendulum: converged")
    assert f"wrote {tmp_path / 'fit.npz'} and {tmp_path / 'report.html'}" in printed
    fit = mbd.load_fit(tmp_path / "fit.npz")
    for name, value in (("spring.stiffness", 300.0), ("spring.damping", 10.0)):
        low, high = fit.interval(name)
        assert abs(fit.values[name] - value) < high - low  # four standard deviations
    assert "<h1>Calibration</h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fit", "spring.stiffness=100"], "does not read NAME=LOW:HIGH"),
        (["--fit", "spring.stifness=100:500"], "unknown parameter 'spring.stifness'. Did you mean 'spring.stiffness'"),
        ([*FIT, "--channel", "angle=hinge.angle"], "unknown column 'angle'"),
        ([*FIT, "--channel", "encoder=hinge.angel"], "Did you mean 'angle'"),
        ([*FIT, "--channel", "encoder=hinge.angle", "--t1", "1"], "runs as long as its measurements"),
        ([*FIT, "--initial", "hinge.angle=high"], "--initial hinge.angle: expected a number, got 'high'"),
    ],
)
def test_what_makes_no_sense(file, tmp_path, capsys, words, message):
    assert main(["calibrate", "pendulum", "--data", str(file), "--out", str(tmp_path), "--no-cache", *words]) == 2
    assert message in capsys.readouterr().err
