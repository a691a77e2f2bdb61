"""Adaptive integrators on the ready-made problems: the error follows the tolerance."""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd

from .registry import GRAVITY, INTEGRATORS

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


@pytest.mark.parametrize("integrator", INTEGRATORS.values(), ids=INTEGRATORS.keys())
@pytest.mark.parametrize("problem", PROBLEMS)
def test_error_follows_the_tolerance(problem, integrator):
    function, options = PROBLEMS[problem]
    system = function(**options).build()
    times = np.linspace(0.0, 1.0, 21)
    reference = mbd.simulate(system, 1.0, integrator=integrator(tolerance=1e-10), saveat=times).q
    runs = [mbd.simulate(system, 1.0, integrator=integrator(tolerance=t), saveat=times) for t in TOLERANCES]
    check([float(np.max(np.abs(run.q - reference))) for run in runs])


def double_pendulum_angles(ts):
    """The two angles of the stiff double pendulum from its equations in minimal coordinates, by scipy's Radau at 1e-12."""
    m1, m2, l1, l2, k1, k2, c1, c2 = 3.0, 0.3, 1.0, 1.5, 400.0, 3e5, 15.0, 5e4
    inertia1, inertia2 = m1 * (2 * l1) ** 2 / 12, m2 * (2 * l2) ** 2 / 12

    def rate(t, s):
        (a, b), (va, vb) = s[:2], s[2:]
        coupling, turning = 2 * m2 * l1 * l2 * np.cos(a - b), 2 * m2 * l1 * l2 * np.sin(a - b)
        torque1 = -k1 * (a - 1.5 * np.pi) - c1 * va
        torque2 = -k2 * (b - a) - c2 * (vb - va)
        mass = [[inertia1 + m1 * l1**2 + 4 * m2 * l1**2, coupling], [coupling, inertia2 + m2 * l2**2]]
        force = [
            -turning * vb**2 - GRAVITY * (m1 + 2 * m2) * l1 * np.cos(a) + torque1 - torque2,
            turning * va**2 - GRAVITY * m2 * l2 * np.cos(b) + torque2,
        ]
        return [va, vb, *np.linalg.solve(mass, force)]

    start = [2 * np.pi, 23 * np.pi / 12, 0.0, 10.0]
    run = solve_ivp(rate, (0.0, float(ts[-1])), start, method="Radau", rtol=1e-12, atol=1e-12, dense_output=True)
    return run.sol(ts)[:2].T


@pytest.fixture(scope="module")
def double_pendulum():
    return mbd.problems.double_pendulum().build()


def test_double_pendulum_against_an_independent_program(double_pendulum):
    """At most 5 tolerance^(2/3) in the angles (measured 3.5 to 3.9), against minimal coordinates and another integrator."""
    times = np.linspace(0.0, 2.0, 41)
    expected = double_pendulum_angles(times)
    errors = []
    for tolerance in TOLERANCES:
        run = mbd.simulate(double_pendulum, 2.0, integrator=mbd.HHT(tolerance=tolerance), saveat=times)
        angles = np.stack([run.orientation("rod1"), run.orientation("rod2")], axis=1)
        errors.append(np.max(np.abs(angles - expected)))
        assert errors[-1] < 5 * tolerance ** (2 / 3)
        assert np.max(mbd.simulate(double_pendulum, 2.0, integrator=mbd.HHT(tolerance=tolerance)).constraint_violation()) < 1e-9
    check(errors)


def test_bdf_on_the_stiff_double_pendulum(double_pendulum):
    """The error follows the tolerance (measured slope 0.83), with orders that rise as it is tightened."""
    times = np.linspace(0.0, 2.0, 41)
    expected = double_pendulum_angles(times)
    errors, orders = [], []
    for tolerance in TOLERANCES:
        run = mbd.simulate(double_pendulum, 2.0, integrator=mbd.BDF(tolerance=tolerance), saveat=times)
        angles = np.stack([run.orientation("rod1"), run.orientation("rod2")], axis=1)
        errors.append(np.max(np.abs(angles - expected)))
        orders.append(np.mean(run.orders))
    check(errors)
    assert orders[-1] > orders[0]
