"""A sweep on two workers, of which one is killed while it works."""

import os
import signal
import threading
import time

import dask.distributed as distributed
import pytest

import jaxmbd as mbd

from .mechanism import OBSERVE, OPTIONS, STIFFNESSES, T1, system

ARGUMENTS = {"observe": OBSERVE, "chunk": 2, "progress": False, **OPTIONS}


def kill_one(client, processes):
    """As soon as all have something to do."""
    while not all(client.processing().values()):
        time.sleep(0.02)
    os.kill(next(iter(processes.values())), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_chunks_of_a_lost_worker_are_run_again(found):
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        killer = threading.Thread(target=kill_one, args=(client, client.run(os.getpid)), daemon=True)
        killer.start()
        data = mbd.sweep(system(), {"spring.stiffness": STIFFNESSES}, T1, client=client, **ARGUMENTS)
        killer.join(timeout=1)
        assert not killer.is_alive()
    for name, values in found.items():
        assert data[name].values.tolist() == values.tolist()


def test_a_client_of_something_else_is_refused():
    with pytest.raises(ValueError, match=r"client must be a dask.distributed.Client, got str"):
        mbd.sweep(system(), {"mass.mass": [1.0]}, T1, client="here", **ARGUMENTS)
