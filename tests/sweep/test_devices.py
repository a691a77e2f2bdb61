"""Several devices share the lanes of a chunk: each has its own loop, the result is the same."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

SHARDED = """
import jax
import numpy as np
from jaxmbd.sweep.chunks import Chunks, choose_program, run_chunks, threads
from tests.sweep.mechanism import TOO_STIFF, STIFFNESSES, columns, job

assert jax.local_device_count() == 2 and threads() == 1
values = STIFFNESSES.copy()
values[6] = TOO_STIFF
program = choose_program(job(), columns(values), 7)
assert program.program.width == 8  # as many on one device as on the other
assert len(program.program.lanes.device_set) == 2
assert "all-reduce" not in program.call.as_text()  # no device waits for the other
found = run_chunks(Chunks(program, columns(values)))
assert found["result"][6] > 1
np.savez("found.npz", **found)
"""


def test_lanes_are_spread_over_all_local_devices(tmp_path, found):
    root = Path(__file__).parents[2]
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2"
    environment = {**os.environ, "PYTHONPATH": str(root), "XLA_FLAGS": flags}
    subprocess.run([sys.executable, "-c", SHARDED], env=environment, cwd=tmp_path, check=True)
    with np.load(tmp_path / "found.npz") as spread:
        for name, values in found.items():
            np.testing.assert_array_equal(np.delete(spread[name], 6), np.delete(values, 6))
