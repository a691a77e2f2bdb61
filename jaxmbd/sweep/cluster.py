"""The chunks of a sweep on the workers of a dask cluster. A worker compiles once; the chunks of one that is lost are run by others."""

import threading
from typing import Any, NamedTuple

import jax
import numpy as np

from .chunks import WIDTH, on_all, read_chunk
from .program import Compiled, Job, Program, trace

_MOST_WAITING = 256
"""chunks that are on their way at a time"""
_compiling = threading.Lock()
_programs: dict[str, Compiled] = {}
"""Of a worker: the program of the sweep that it last took part in."""


class Remote(NamedTuple):
    """A program that runs elsewhere, as `Compiled` runs here."""

    program: Program
    client: Any
    job: Job
    fingerprint: str

    @property
    def threads(self) -> int:
        """Each waits for a chunk: two for every worker, so that none has to wait for the next."""
        return min(_MOST_WAITING, 2 * len(self.client.scheduler_info(n_workers=-1)["workers"]))

    def run(self, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.client.submit(_run, self.fingerprint, self.job, columns, self.program.width, pure=False).result()


def remote_program(client: Any, job: Job, columns: dict[str, np.ndarray], chunk: Any) -> Remote:
    """Traced here, to know what it is and gives, and compiled by those that run it."""
    try:
        import dask.distributed as distributed
    except ImportError:
        raise ImportError('a sweep on a cluster needs dask: pip install "jaxmbd[cluster]"') from None
    if not isinstance(client, distributed.Client):
        raise ValueError(f"client must be a dask.distributed.Client, got {type(client).__name__}.")
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    if workers == 0:
        raise ValueError("the cluster of the client has no workers: start some.")
    runs = len(next(iter(columns.values())))
    width = min(WIDTH, -(-runs // (2 * workers))) if chunk is None else read_chunk(chunk)
    program = trace(job, columns, on_all(width, jax.local_device_count()))
    return Remote(program, client, job, program.fingerprint)


def _run(fingerprint: str, job: Job, columns: dict[str, np.ndarray], width: int) -> dict[str, np.ndarray]:
    """In a worker."""
    with _compiling:
        if fingerprint not in _programs:
            _programs.clear()
            _programs[fingerprint] = trace(job, columns, on_all(width, jax.local_device_count())).compiled()
        program = _programs[fingerprint]
    return program.run(columns)
