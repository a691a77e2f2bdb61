"""One program for all tests: four lanes of the mechanism."""

import pytest

from jaxmbd.sweep.chunks import Chunks, run_chunks
from jaxmbd.sweep.program import trace

from .mechanism import columns, job


@pytest.fixture(scope="session")
def program():
    return trace(job(), columns(), 4).compiled()


@pytest.fixture(scope="session")
def found(program):
    """All runs without a store."""
    return run_chunks(Chunks(program, columns()))
