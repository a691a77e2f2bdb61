"""A lane of a batch is nobody's business but its own, to the last bit: with the compiler settings that users have.

`conftest.py` switches optimisation off, where such a test would prove nothing; so these run in a process of their own, without XLA_FLAGS.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]

LANES = """
import sys

import jax
import numpy as np

import jaxmbd as mbd

METHODS = {
    "hht": mbd.HHT(1e-5),
    "bdf": mbd.BDF(1e-5),
    "rosenbrock-nystrom": mbd.RosenbrockNystrom(1e-4, 1e-4),
    "dormand-prince": mbd.DormandPrince(1e-4, 1e-4),
}
name = sys.argv[1]
slowest, fastest = (10.0, 1e3) if name == "dormand-prince" else (1e4, 1e6)  # N m s/rad: what an explicit method can bear, and stiff dampers
system = mbd.problems.double_pendulum().build()


def lane(damping):
    changed = system.set({"spring2.damping": damping})
    options = {"saveat": mbd.SaveAt(t1=True), "max_steps": 1024, "kernels": "scalar", "throw": False}
    run = mbd.simulate(changed, 0.2, integrator=METHODS[name], **options)
    return run.final.q, run.final.v, run.final.multipliers, run.stats, run.result == mbd.RESULTS.successful


end = jax.jit(jax.vmap(lane))


def assert_same(some, others, what):
    equal = jax.tree.map(lambda a, b: np.array_equal(np.asarray(a), np.asarray(b)), some, others)
    assert all(jax.tree.leaves(equal)), f"{what}: {equal}"


rows = lambda tree, chosen: jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], tree)
dampings = np.geomspace(slowest, fastest, 7)
batch = end(dampings)
assert np.all(batch[-1]) and len(set(np.asarray(batch[3]["steps"]).tolist())) > 1  # lanes that have something to confuse
order = np.array([4, 0, 6, 2, 5, 1, 3])
assert_same(end(dampings[order]), rows(batch, order), "other places")
failing = np.where(np.arange(7) == 3, np.nan, dampings)
others = np.delete(np.arange(7), 3)
with_failure = end(failing)
assert not with_failure[-1][3]
assert_same(rows(with_failure, others), rows(batch, others), "a neighbour that fails")
few, first = end(dampings[:2]), rows(batch, slice(2))
one, third = jax.jit(lane)(dampings[3]), rows(batch, 3)
for found, expected, what in ((few, first, "a batch of two"), (one, third, "a single run")):
    assert_same(found[3]["steps"], expected[3]["steps"], what)
    # Newton's remainder is what rounding decides in HHT. BDF's and Rosenbrock's are the same to the last bit or two.
    tolerance = 2e-8 if name == "hht" else 1e-10
    for part, others in zip(found[:3], expected[:3]):
        np.testing.assert_allclose(part, others, rtol=tolerance, atol=tolerance, err_msg=what)
"""


@pytest.mark.parametrize(
    "method", ["hht", *(pytest.param(m, marks=pytest.mark.slow) for m in ("bdf", "rosenbrock-nystrom", "dormand-prince"))]
)
def test_a_lane_does_not_depend_on_its_neighbours(method):
    """Of the stiff double pendulum: other places, a neighbour that fails, and all bits are the same. Another width is another program, and so is
    a single run: LLVM contracts other products and sums to one rounding. They take the same steps."""
    settings = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"} | {"PYTHONPATH": str(HERE)}
    done = subprocess.run([sys.executable, "-c", LANES, method], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
