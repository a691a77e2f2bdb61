"""The runs of a sweep in chunks: how wide they are, and running them."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .program import Compiled, Job, threads, trace

if TYPE_CHECKING:
    from .cluster import Remote
    from .store import Store

WIDTH = 256
"""lanes on each device, unless memory or the number of runs says less or a measurement more"""
_WIDER = 4
"""the wider program that is measured beside it"""
_WORTH = 20.0
"""A second program is compiled and measured if the sweep takes so many times longer than that took for the first."""
_SHARE = 0.5
"""of the memory that is there"""


class Chunks(NamedTuple):
    """What is to be run."""

    program: "Compiled | Remote"
    columns: dict[str, np.ndarray]

    @property
    def runs(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def count(self) -> int:
        return -(-self.runs // self.program.program.width)

    def rows(self, number: int) -> slice:
        width = self.program.program.width
        return slice(number * width, min((number + 1) * width, self.runs))

    def run(self, number: int) -> dict[str, np.ndarray]:
        return self.program.run({name: values[self.rows(number)] for name, values in self.columns.items()})


def run_chunks(chunks: Chunks, bar: "Progress | None" = None, store: "Store | None" = None) -> dict[str, np.ndarray]:
    """All runs, by name of what was observed. With a store, a chunk is on disk before the thread that ran it goes on to another, and those that
    are there already are not run again."""
    shapes = chunks.program.program.shapes
    found = {name: np.empty((chunks.runs, *shape.shape[1:]), shape.dtype) for name, shape in shapes.items()}

    def finish(number: int) -> np.ndarray:
        rows = chunks.rows(number)
        part = None if store is None else store.read(number, rows)
        if part is None:
            part = chunks.run(number)
            if store is not None:
                store.write(number, rows, part)
        for name, values in part.items():
            found[name][rows] = values
        return part["result"]

    with single_threaded_algebra(), ThreadPoolExecutor(chunks.program.threads) as pool:
        try:
            for codes in pool.map(finish, range(chunks.count)):
                if bar is not None:
                    bar.show(codes)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # or an interrupt would wait for all chunks
            raise
    return found


def single_threaded_algebra() -> AbstractContextManager[Any]:
    """While chunks run, each in a thread of its own, the library that XLA calls for small matrices must not start threads too: they wait for
    each other longer than they compute, a solve with a matrix of 74 rows for milliseconds instead of 20 microseconds."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, "blas")


class Progress:
    """A bar over the runs of a sweep, with rate and time left; or nothing."""

    def __init__(self, wanted: bool, runs: int):
        self.bar, self.failed = None, 0
        if wanted:
            from tqdm.auto import tqdm

            self.bar = tqdm(total=runs, unit="run", smoothing=0.1, desc="compiling")

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_) -> None:
        if self.bar is not None:
            self.bar.close()

    def compiled(self) -> None:
        """From here on the clock counts."""
        if self.bar is not None:
            self.bar.set_description_str(refresh=False)
            self.bar.reset()

    def show(self, codes: np.ndarray) -> None:
        """Of runs that are done."""
        if self.bar is not None:
            self.failed += int(np.sum(codes > 1))  # 0 and 1: the end, or an event
            if self.failed:
                self.bar.set_postfix_str(f"{self.failed} failed", refresh=False)
            self.bar.update(len(codes))


# --- width ----------------------------------------------------------------------------------------------------------------------------------


def choose_program(job: Job, columns: dict[str, np.ndarray], chunk: Any, begun: bool = False) -> Compiled:
    """Compiled, of the width that was asked for, or that a store was begun with, or that suits memory and number of runs."""
    devices, runs = jax.local_device_count(), len(next(iter(columns.values())))
    if chunk is not None:
        program = trace(job, columns, on_all(read_chunk(chunk), devices)).compiled()
        if (fits := _fitting(program)) < program.program.width:
            remedy = "the store was begun with it, so free some, or begin anew in another with" if begun else "take"
            raise ValueError(
                f"chunk = {chunk} runs at once need {program.bytes / 1e9:.1f} GB of memory, more than there is: {remedy} chunk = {fits}, "
                "or leave it out."
            )
        return program
    width = on_all(min(WIDTH * devices, -(-runs // threads())), devices)
    begin = time.perf_counter()
    program = trace(job, columns, width).compiled()
    fits = _fitting(program)
    if fits < width:
        return trace(job, columns, on_all(fits, devices)).compiled()
    wider = on_all(_WIDER * width, devices)
    if fits < wider or runs < 2 * threads() * wider:
        return program
    needed = _seconds(program, columns)
    if needed * runs / width < _WORTH * (time.perf_counter() - begin):
        return program
    other = trace(job, columns, wider).compiled()
    return other if _seconds(other, columns) < _WIDER * needed else program


def read_chunk(chunk: Any) -> int:
    if isinstance(chunk, bool) or chunk != int(chunk) or chunk < 1:
        raise ValueError(f"chunk must be a whole number of runs, at least 1, got {chunk!r}.")
    return int(chunk)


def on_all(width: int, devices: int) -> int:
    """Two lanes or more on each device, as many on one as on the other: XLA treats an axis of one in its own way, with other roundings."""
    return max(2, -(-width // devices)) * devices


def _seconds(program: Compiled, columns: dict[str, np.ndarray]) -> float:
    with single_threaded_algebra():
        begin = time.perf_counter()
        program.run({name: values[: program.program.width] for name, values in columns.items()})
        return time.perf_counter() - begin


def _fitting(program: Compiled) -> int:
    """Lanes that memory has room for, in all chunks that run at a time."""
    there, width = free_memory(), program.program.width
    if there is None or program.bytes == 0:
        return 2**62
    return max(2, int(_SHARE * there / threads() / (program.bytes / width)))


def free_memory() -> int | None:
    """Bytes on a device; None if nobody knows."""
    told: Any = jax.local_devices()[0].memory_stats()
    if told and "bytes_limit" in told:
        return (told["bytes_limit"] - told.get("bytes_in_use", 0)) * jax.local_device_count()
    return next(_host_memory(), None)


def _host_memory() -> Iterator[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            yield from (1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except OSError:  # not Linux
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
