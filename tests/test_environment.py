"""What the surroundings of a process may change, each in a process of its own: one core, 32-bit numbers."""

import os
import subprocess
import sys

import numpy as np
import pytest


def run(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    kept = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    done = subprocess.run([sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be bound to a core here")
def test_equilibrium_is_found_in_a_process_with_one_core():
    # XLA then has a single thread to read programs with, and loses the LAPACK calls that follow an empty end of a concatenation.
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jaxmbd as mbd

mass = mbd.PointMass("mass", 2.0, (0.0, 0.0))
spring = mbd.SpringDamper("spring", mbd.ground, mass, (0.0, 1.0), (0.0, 0.0), stiffness=100.0)
print(float(mbd.equilibrium(mbd.Model([mass], [], [mbd.Gravity((0.0, -9.81)), spring])).q[1]))
"""
    assert float(run(code)) == pytest.approx(-2.0 * 9.81 / 100.0, rel=1e-8)


def test_in_32_bits_a_warning_says_what_runs_and_that_runs():
    """To four digits: a pendulum in independent coordinates and its equilibrium, an oscillator at fixed steps."""
    code = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import jaxmbd as mbd
assert any("turns 64-bit numbers off. RosenbrockNystrom" in str(w.message) for w in caught), caught

rod = mbd.PlanarBody("rod", mass=3.0, inertia=1.0, position=(1.0, 0.0))
hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0.0, 0.0))
spring = mbd.TorsionSpringDamper("spring", mbd.ground, rod, stiffness=400.0, damping=15.0, free_angle=-1.57)
pendulum = mbd.Model([rod], [hinge], [mbd.Gravity((0.0, -9.81)), spring])
print(float(mbd.simulate(pendulum, 2.0, integrator=mbd.RosenbrockNystrom(1e-4, 1e-4)).q[-1, 2]))
print(float(mbd.equilibrium(pendulum).q[2]))

mass = mbd.PointMass("mass", 1.0, (1.0, 0.0))
oscillator = mbd.Model([mass], [], [mbd.SpringDamper("spring", mbd.ground, mass, (0.0, 0.0), (1.0, 0.0), 1.0, free_length=0.0)])
print(float(mbd.simulate(oscillator, 1.0, integrator=mbd.Verlet(), step=1e-2).q[-1, 0]))
"""
    swung, rest, oscillated = map(float, run(code, JAX_ENABLE_X64="0").split())
    assert swung == pytest.approx(-1.560672, abs=1e-4)  # the same in 64 bits, and to 3e-5 with DormandPrince
    assert rest == pytest.approx(-1.5700546, abs=1e-5)
    assert oscillated == pytest.approx(np.cos(1.0), abs=1e-4)  # of second order: 1e-5
