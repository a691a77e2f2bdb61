"""What benchmarks put beside the library is the same mechanism: equations by hand, C++ by hand."""

import shutil

import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from benchmarks import peers


def test_equations_by_hand_are_those_of_the_problem():
    system = mbd.problems.DoublePendulumInAngles()
    for state in (peers.START, (0.3, -1.2, 2.0, -3.0)):
        q, v = jnp.array(state[:2]), jnp.array(state[2:])
        force = system.force(q, v, 0.0) + system.stiff_force(q, v, 0.0)
        wanted = [*v, *np.linalg.solve(system.mass(q), force)]
        np.testing.assert_allclose(peers.rate(state, 400.0), wanted, rtol=1e-11)
    softer, stiffer = (peers.rate((0.0, 0.0, 0.0, 0.0), stiffness)[0:4] for stiffness in (300.0, 400.0))
    assert stiffer[2] > softer[2]  # the first spring pulls towards 270 degrees


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler here")
def test_cpp_by_hand_runs_the_same_variations():
    runs = peers.run_cpp(2, 2)
    assert runs.seconds > 0
    # Local errors of 1e-4 in some hundred steps, most of which the springs damp away: 3.5e-4 is what the library's own method has.
    assert peers.farthest(peers.stiffnesses(2).tolist(), runs.ends) < 1e-3
