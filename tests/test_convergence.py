"""Adaptive integrators on the ready-made problems: the error follows the tolerance."""

import itertools

import numpy as np
import pytest

import jaxmbd as mbd

from .registry import INTEGRATORS

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)

# Planar variants where the problem offers them: they compile faster, and the spatial twins are compared with them elsewhere.
PROBLEMS = {
    "pendulum": (mbd.problems.pendulum, {"spatial": False}),
    "four-bar": (mbd.problems.four_bar, {}),
    "slider-crank": (mbd.problems.slider_crank, {}),
    "spinning-top": (mbd.problems.spinning_top, {}),
    "chain": (mbd.problems.chain, {"n": 4, "spatial": False}),
}


def check(errors):
    """Log-log slope of the error against the tolerance at least 0.5 (theory: 2/3), no point above twice its looser neighbour."""
    slope = np.polyfit(np.log(TOLERANCES), np.log(errors), 1)[0]
    assert slope >= 0.5, f"slope {slope:.2f} of errors {errors}"
    assert all(tight <= 2 * loose for loose, tight in itertools.pairwise(errors)), errors


# The slider-crank is driven: the state-space form leaves nothing to integrate.
CASES = [(p, i) for p in PROBLEMS for i in INTEGRATORS if (p, i) != ("slider-crank", "rosenbrock-nystrom")]


@pytest.mark.parametrize(("problem", "name"), CASES)
def test_error_follows_the_tolerance(problem, name):
    (function, options), integrator = PROBLEMS[problem], INTEGRATORS[name]
    system = function(**options).build()
    times = np.linspace(0.0, 1.0, 21)
    reference = mbd.simulate(system, 1.0, integrator=integrator(tolerance=1e-10), saveat=times).q
    runs = [mbd.simulate(system, 1.0, integrator=integrator(tolerance=t), saveat=times) for t in TOLERANCES]
    check([float(np.max(np.abs(run.q - reference))) for run in runs])


TIMES = np.linspace(0.0, 2.0, 41)


@pytest.fixture(scope="module")
def double_pendulum_angles():
    return mbd.problems.DoublePendulumInAngles().reference(TIMES)


@pytest.fixture(scope="module")
def double_pendulum():
    return mbd.problems.double_pendulum().build()


def test_double_pendulum_against_an_independent_program(double_pendulum, double_pendulum_angles):
    """At most 5 tolerance^(2/3) in the angles (measured 3.5 to 3.9), against minimal coordinates and another integrator."""
    errors = []
    for tolerance in TOLERANCES:
        run = mbd.simulate(double_pendulum, 2.0, integrator=mbd.HHT(tolerance=tolerance), saveat=TIMES)
        angles = np.stack([run.orientation("rod1"), run.orientation("rod2")], axis=1)
        errors.append(np.max(np.abs(angles - double_pendulum_angles)))
        assert errors[-1] < 5 * tolerance ** (2 / 3)
        assert np.max(mbd.simulate(double_pendulum, 2.0, integrator=mbd.HHT(tolerance=tolerance)).constraint_violation()) < 1e-9
    check(errors)


def test_bdf_on_the_stiff_double_pendulum(double_pendulum, double_pendulum_angles):
    """The error follows the tolerance (measured slope 0.83), with orders that rise as it is tightened."""
    errors, orders = [], []
    for tolerance in TOLERANCES:
        run = mbd.simulate(double_pendulum, 2.0, integrator=mbd.BDF(tolerance=tolerance), saveat=TIMES)
        angles = np.stack([run.orientation("rod1"), run.orientation("rod2")], axis=1)
        errors.append(np.max(np.abs(angles - double_pendulum_angles)))
        orders.append(np.mean(run.orders))
    check(errors)
    assert orders[-1] > orders[0]
