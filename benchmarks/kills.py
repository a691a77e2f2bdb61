"""A stored sweep that is killed with SIGKILL at random moments, twenty times, and started again each time: it ends bit for bit as one that was
left alone.

    python benchmarks/kills.py [--kills 20] [--seed 0]

A quarter of the kills come while the process starts, opens its store or compiles; the others up to two chunks' time after a chunk was
finished, so that some meet a chunk half written. What is done is counted from what is on disk.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

RUNS, CHUNK = 2000, 25
OBSERVE = ["peak:mass.x", "final:mass.vx", "final:spring.supplied"]


def sweep(store: Path | None):
    """A mass on springs of many stiffnesses, some too stiff for the steps: these runs fail, and that is kept too."""
    import jaxmbd as mbd

    mass = mbd.PointMass("mass", 1.0, position=(1.0, 0.0))
    spring = mbd.SpringDamper("spring", mbd.ground, mass, (0, 0), (1, 0), stiffness=100.0, damping=0.1, free_length=0.9)
    system = mbd.Model([mass], [], [spring, mbd.Gravity((0.0, -9.81))]).build()
    values = {"spring.stiffness": np.geomspace(10.0, 1e6, RUNS)}
    return mbd.sweep(system, values, 25.0, observe=OBSERVE, integrator=mbd.Verlet(), step=2.5e-3, chunk=CHUNK, store=store, progress=False)


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on with the sweep; what one compiled, the next finds."""
    surroundings = {
        "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    with subprocess.Popen([sys.executable, __file__, "--store", str(folder / "sweep.zarr")], env=os.environ | surroundings) as process:
        yield process


def finished(folder: Path) -> int:
    """Chunks whose checksum is on disk."""
    return sum(1 for _ in (folder / "sweep.zarr" / "checksums" / "c").glob("*/0"))


def kill_at_random(folder: Path, random: np.random.Generator, starting: float, chunk: float) -> bool:
    """Whether there was something to kill."""
    before = finished(folder)
    with started(folder) as process:
        if random.random() < 0.25:
            time.sleep(random.uniform(0.0, starting))
        else:
            while finished(folder) == before and process.poll() is None:
                time.sleep(0.001)
            time.sleep(random.uniform(0.0, 2.0 * chunk))
        process.send_signal(signal.SIGKILL)
    if process.returncode == 0:
        return False
    assert process.returncode == -signal.SIGKILL, f"the sweep failed by itself, with {process.returncode}"
    return True


def left_alone(folder: Path) -> tuple[float, float]:
    """The same sweep without kills: seconds to its first chunk, and of a chunk."""
    begin = time.perf_counter()
    with started(folder) as process:
        while finished(folder) == 0 and process.poll() is None:
            time.sleep(0.001)
        first = time.perf_counter() - begin
        if process.wait() != 0:
            raise SystemExit("the sweep failed by itself.")
    return first, (time.perf_counter() - begin - first) * CHUNK / RUNS


def report(kills: int, seed: int) -> None:
    import xarray

    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        alone, killed = Path(name) / "alone", Path(name) / "killed"
        alone.mkdir()
        killed.mkdir()
        left_alone(alone)  # compiles
        (alone / "cache").rename(killed / "cache")
        (alone / "sweep.zarr").rename(alone / "first.zarr")
        (alone / "cache").symlink_to(killed / "cache")
        starting, chunk = left_alone(alone)
        print(f"{RUNS} runs in {RUNS // CHUNK} chunks of {chunk:.3f} s; {starting:.1f} s to the first one", flush=True)
        for kill in range(kills):
            if not kill_at_random(killed, random, starting, chunk):
                raise SystemExit(f"the sweep was over after {kill} kills: make it longer.")
            print(f"  kill {kill + 1:2d}: {finished(killed)} chunks on disk", flush=True)
        with started(killed) as process:
            process.wait()
        some, others = (xarray.open_zarr(folder / "sweep.zarr", consolidated=False) for folder in (alone, killed))
        for one in some.data_vars:
            if some[one].values.tobytes() != others[one].values.tobytes():
                raise SystemExit(f"{one} differs from the sweep that was left alone.")
        failed = int((others["result"] > 1).sum())
    print(f"equal bit for bit after {kills} kills; {failed} runs failed as they must")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.store:
        sweep(options.store)
    else:
        report(options.kills, options.seed)
