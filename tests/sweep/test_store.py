"""A sweep on disk: killed and resumed, damaged, refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

import jaxmbd as mbd
from jaxmbd.sweep import sweeping
from jaxmbd.sweep.chunks import Chunks, run_chunks
from jaxmbd.sweep.designs import Table
from jaxmbd.sweep.program import Compiled, trace
from jaxmbd.sweep.store import begun, open_store

from .mechanism import OBSERVE, OPTIONS, STIFFNESSES, T1, columns, job, system

TABLE = Table(columns(), None)


def stored(path, program):
    """The sweep with a store; how many chunks were run."""
    ran = []

    class Counting(Compiled):
        def run(self, given):
            ran.append(len(next(iter(given.values()))))
            return super().run(given)

    store = open_store(path, begun(path), job(), TABLE, program.program)
    return run_chunks(Chunks(Counting(*program), columns()), store=store), len(ran)


def assert_same(some, others):
    assert some.keys() == others.keys()
    for name, values in some.items():
        np.testing.assert_array_equal(values, others[name])


def test_what_is_stored_is_not_run_again(tmp_path, program, found):
    first, ran = stored(tmp_path / "sweep.zarr", program)
    assert ran == 3
    assert_same(first, found)
    again, ran = stored(tmp_path / "sweep.zarr", program)
    assert ran == 0
    assert_same(again, found)


def test_a_damaged_chunk_is_run_again(tmp_path, program, found):
    path = tmp_path / "sweep.zarr"
    stored(path, program)
    group = zarr.open_group(path)
    group["final:mass.vx"][5] += 1e-9  # a whole file with another number in the second chunk
    (path / "steps" / "c" / "2").write_bytes(b"torn")
    again, ran = stored(path, program)
    assert ran == 2
    assert_same(again, found)
    assert stored(path, program)[1] == 0


def test_a_store_of_another_sweep_is_refused(tmp_path, program):
    path = tmp_path / "sweep.zarr"
    stored(path, program)
    there = begun(path)
    assert there.chunk(None) == there.chunk(4) == 4
    assert there._replace(identity={"chunk": 2}).chunk(1) == 2  # one is made two
    with pytest.raises(ValueError, match="was begun with chunk = 4: leave chunk out"):
        there.chunk(8)
    other_values = Table(columns(STIFFNESSES + 1.0), None)
    heavier = job()._replace(system=system().set({"mass.mass": 2.0}))
    longer = job()._replace(t1=2 * T1)
    for changed, table, lowered, message in (
        (job(), other_values, program.program, "with other values of the parameters"),
        (heavier, TABLE, program.program, "with another model"),
        (job(), TABLE, trace(longer, columns(), 4), "another integrator, end time"),
    ):
        with pytest.raises(ValueError, match=message):
            open_store(path, there, changed, table, lowered)
    older = there._replace(identity={**there.identity, "versions": {"jaxmbd": "0.0.1"}})
    with pytest.raises(ValueError, match="other versions of jaxmbd or JAX"):
        open_store(path, older, job(), TABLE, program.program)


def test_a_folder_that_is_no_store_or_cannot_be_written_is_refused(tmp_path, program):
    with pytest.raises(ValueError, match="exists and holds no sweep"):
        begun(tmp_path)
    (tmp_path / "file").write_text("in the way")
    for store in (tmp_path / "file" / "sweep.zarr", tmp_path / "file" / "deep" / "sweep.zarr"):
        with pytest.raises(ValueError, match="cannot be written"):
            begun(store)
        with pytest.raises(ValueError, match="cannot be written"):
            open_store(store, None, job(), TABLE, program.program)


def test_a_store_that_cannot_serve_is_refused_before_anything_is_compiled(tmp_path, program, monkeypatch):
    path = tmp_path / "sweep.zarr"
    stored(path, program)
    monkeypatch.setattr(sweeping, "choose_program", lambda *_, **__: pytest.fail("compiled for nothing"))
    (tmp_path / "file").write_text("in the way")
    for store, message in ((path, "with other values of the parameters"), (tmp_path / "file" / "sweep.zarr", "cannot be written")):
        with pytest.raises(ValueError, match=message):
            mbd.sweep(
                system(),
                {"spring.stiffness": STIFFNESSES + 1.0},
                T1,
                observe=OBSERVE,
                design="zip",
                store=store,
                progress=False,
                **OPTIONS,
            )


# --- kills ----------------------------------------------------------------------------------------------------------------------------------

SWEEP = """
import sys
from pathlib import Path
import tests.conftest  # checks annotations as the process does that goes on: checked functions are other functions in a program's text
import jaxmbd as mbd
from jaxmbd.sweep import store
from tests.sweep.mechanism import OBSERVE, OPTIONS, STIFFNESSES, T1, system

# Slow enough to be killed in the middle of a chunk, and between what is written of it.
import time
write = store.Store.write
def slowly(self, number, rows, part):
    for name in self.names:
        self.group[name][rows] = part[name]
        time.sleep(0.1)
    write(self, number, rows, part)
    print("wrote", number, flush=True)
store.Store.write = slowly
mbd.sweep(system(), {"spring.stiffness": STIFFNESSES}, T1, observe=OBSERVE, chunk=2, store=sys.argv[1], progress=False, **OPTIONS)
"""


def start(path):
    root = Path(__file__).parents[2]
    kept = {
        "JAX_COMPILATION_CACHE_DIR": str(path.parent / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }  # for the next start
    environment = {**os.environ, **kept, "PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen([sys.executable, "-c", SWEEP, str(path)], env=environment, cwd=root, stdout=subprocess.PIPE, text=True)


def test_a_killed_sweep_goes_on_and_ends_the_same(tmp_path, found):
    path = tmp_path / "sweep.zarr"
    wrote = 0
    for kill in range(3):
        with start(path) as process:
            if kill == 0:  # as soon as there is a store
                while not path.exists():
                    time.sleep(0.01)
            else:  # while the chunks after the first new one are written
                assert process.stdout.readline().startswith("wrote")
                wrote += 1
                time.sleep(0.1 * kill)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    resumed = mbd.sweep(system(), {"spring.stiffness": STIFFNESSES}, T1, observe=OBSERVE, store=path, progress=False, **OPTIONS)
    assert_same({name: resumed[name].values for name in found}, found)
    assert wrote == 2
