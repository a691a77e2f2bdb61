"""Shared by all tests: compile fast rather than fast code, and jaxmbd before anything else, so that float64 is on."""

import gc
import os

# Most of the time goes into compiling, little into running. What depends on how users' compilers round or fuse runs in processes of its own
# without these flags: `test_lanes.py`, `scalar/test_fences.py`, `test_fusing.py`.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")

import jax
import jaxtyping
import pytest

# Every call and every Module that is made in these rooms is checked against its annotations, shapes as well as types; costs 3 % of the time.
CHECKED = ("control", "integrators", "problems", "running", "simulate", "solvers", "system")
jaxtyping.install_import_hook([f"jaxmbd.{room}" for room in CHECKED], "beartype.beartype")

import jaxmbd  # noqa: E402, F401

gc.set_threshold(100_000, 50, 1000)  # tracing makes a million small objects that stay: looking through them is a sixth of its time


@pytest.fixture
def annotations_unchecked():
    """For tests of what is said to those who give what annotations forbid, and who check none."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Every compiled program keeps its memory maps, of which a process may have 65530 on Linux: the whole suite in two processes needs more."""
    yield
    jax.clear_caches()
    gc.collect()
