"""A sweep on disk: a Zarr group with one row a run, a checksum for every chunk, and what the sweep is.

A chunk counts once its checksum is written, which is done last, and only if what is read agrees with it: files that a killed process left
behind half written, or that were damaged later, are as good as none. The group itself appears under its name when it is complete.
"""

import hashlib
import os
import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from .chunks import on_all, read_chunk
from .designs import RUN, Table
from .program import Job, Program

_MARK = "jaxmbd sweep"
"""the attribute of the group that says what the sweep is"""
_CHECKSUMS = "checksums"
_MEANING = {
    "versions": "other versions of jaxmbd or JAX",
    "platform": "another kind of device, or another number of them",
    "precision": "another precision",
    "parameters": "other parameters",
    "table": "other values of the parameters",
    "observables": "other observables",
    "model": "another model, or other numbers in it",
    "program": "another integrator, end time or other settings, or another function that observes",
}
"""By what a sweep is known, and how to say that it differs."""


class Begun(NamedTuple):
    """What a store says of itself."""

    path: Path
    group: Any
    identity: dict[str, Any]

    def chunk(self, given: int | None) -> int:
        """The width it was begun with."""
        own = self.identity["chunk"]
        if given is not None and on_all(read_chunk(given), jax.local_device_count()) != own:
            raise ValueError(
                f"the sweep in {self.path} was begun with chunk = {own}: leave chunk out to go on with it, or take another store."
            )
        return own

    def expect(self, job: Job, table: Table) -> None:
        """Refuses another sweep, as far as that is known before anything is compiled, and a folder that cannot be written."""
        self.expect_parts(_beforehand(job, table))
        _expect_writable(self.path, self.path)

    def expect_parts(self, identity: dict[str, Any]) -> None:
        for part, meaning in _MEANING.items():
            if part in identity and self.identity.get(part) != identity[part]:
                raise ValueError(
                    f"the sweep in {self.path} is another one, with {meaning}: take another folder for the store, or delete it."
                )


class Store(NamedTuple):
    """The arrays of a sweep. Different chunks may be read and written at the same time."""

    group: Any
    names: tuple[str, ...]

    def read(self, number: int, rows: slice) -> dict[str, np.ndarray] | None:
        """A chunk that is there and whole; None: it is to be run."""
        try:
            told = bytes(self.group[_CHECKSUMS][number])
            part = {name: np.asarray(self.group[name][rows]) for name in self.names}
        except Exception:  # whatever Zarr and its codecs say of a damaged file
            return None
        return part if told == _checksum(part) else None

    def write(self, number: int, rows: slice, part: dict[str, np.ndarray]) -> None:
        for name in self.names:
            self.group[name][rows] = part[name]
        self.group[_CHECKSUMS][number] = np.frombuffer(_checksum(part), np.uint8)


def begun(path: str | os.PathLike[str]) -> Begun | None:
    """The sweep that a folder holds; None: there is no such folder yet, but it can be made. One that holds something else is an error."""
    zarr, path = _needs_zarr(), Path(path)
    if not path.exists():
        _expect_writable(path.parent, path)
        return None
    try:
        group = zarr.open_group(path, mode="r+")
        identity = dict(group.attrs[_MARK])
    except Exception:  # Zarr has many ways to say that it is none of its own
        raise ValueError(f"{path} exists and holds no sweep: take another folder for the store, or delete it.") from None
    return Begun(path, group, identity)


def open_store(path: str | os.PathLike[str], found: Begun | None, job: Job, table: Table, program: Program) -> Store:
    """The store of this sweep and no other, made if there is none."""
    path, names = Path(path), tuple(program.shapes)
    if found is None:
        return Store(_create(path, _beforehand(job, table) | _of_program(program), table, program), names)
    found.expect(job, table)
    found.expect_parts(_of_program(program))
    return Store(found.group, names)


def _beforehand(job: Job, table: Table) -> dict[str, Any]:
    """What is known of a sweep before anything is compiled."""
    from .. import __version__

    leaves, structure = jax.tree.flatten(job.system)
    model = [re.sub(r"0x[0-9a-f]+", "", str(structure)).encode(), *(np.asarray(leaf).tobytes() for leaf in leaves)]
    columns = [np.ascontiguousarray(values).tobytes() for values in table.columns.values()]
    return {
        "versions": {"jaxmbd": __version__, "jax": version("jax"), "jaxlib": version("jaxlib")},
        "platform": [jax.default_backend(), jax.local_device_count()],
        "precision": str(np.asarray(jax.numpy.zeros(())).dtype),
        "parameters": list(table.columns),
        "table": [dict(table.dimensions), _hash(columns)],
        "model": _hash(model),
    }


def _of_program(program: Program) -> dict[str, Any]:
    return {"observables": list(program.shapes), "program": program.fingerprint, "chunk": program.width}


def _create(path: Path, identity: dict[str, Any], table: Table, program: Program) -> Any:
    zarr = _needs_zarr()
    unfinished = path.with_name(path.name + ".begun")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if unfinished.exists():
            shutil.rmtree(unfinished)  # of a process that was killed right here
        group = zarr.open_group(unfinished, mode="w", zarr_format=3)
        runs, width = table.runs, program.width
        for name, values in table.columns.items():
            column = group.create_array(name, data=values, dimension_names=[RUN, *(f"{name}.{axis}" for axis in "ij"[: values.ndim - 1])])
            column.attrs["parameter"] = True
        for name, shape in program.shapes.items():
            rest = shape.shape[1:]
            group.create_array(
                name, shape=(runs, *rest), chunks=(width, *rest), dtype=shape.dtype, dimension_names=[RUN, *("time",)[: len(rest)]]
            )
        count = -(-runs // width)
        group.create_array(_CHECKSUMS, shape=(count, 32), chunks=(1, 32), dtype="uint8", dimension_names=["chunk", "byte"])
        group.attrs[_MARK] = identity
        unfinished.rename(path)
    except OSError as error:
        raise ValueError(f"the store {path} cannot be written: {error.strerror or error}.") from None
    return zarr.open_group(path, mode="r+")


def _expect_writable(folder: Path, path: Path) -> None:
    """The folder of a store, or the one that it is to be made in."""
    probe = folder / ".jaxmbd-writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"the store {path} cannot be written: {error.strerror or error}.") from None


def _checksum(part: dict[str, np.ndarray]) -> bytes:
    return bytes.fromhex(_hash([np.ascontiguousarray(part[name]).tobytes() for name in sorted(part)]))


def _hash(parts: list[bytes]) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def _needs_zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError('a sweep with a store needs zarr: pip install "jaxmbd[sweep]"') from None
    return zarr
