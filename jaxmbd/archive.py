"""Runs on disk: all numbers of a solution to the last bit, and the model that they belong to.

A file is data: arrays, and a text of JSON that says what is no array, with the model as `Model.save` writes it. "x.npz" is numpy's format, read
without pickle; "x.nc" is netCDF (of version 3, by scipy), which holds besides what `to_xarray` gives, so that other programs read it.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .results import RESULTS
from .system.files.data import NotData
from .system.files.model_files import as_data
from .system.files.parts import parts_of
from .system.state import Memory, State
from .system.system import System
from .tables import to_xarray

if TYPE_CHECKING:
    from .solution import Solution

_FORMAT, _VERSION = "jaxmbd solution", 1
_STATE = ("t", "q", "v", "x", "multipliers", "acceleration", "state_rate")
_DIMENSIONS = {
    "q": "coordinate",
    "v": "coordinate",
    "acceleration": "coordinate",
    "x": "state",
    "state_rate": "state",
    "multipliers": "row",
    "angles": "angle",
    "kept_rows": "row",
}
_TEXT = "about"
"""the array, or attribute, that holds the text"""


def write(solution: "Solution", path: str | Path) -> Path:
    path = Path(path)
    if path.suffix not in (".npz", ".nc"):
        raise ValueError(f"solutions are saved as .npz or .nc, got {str(path)!r}.")
    if solution.ts.ndim != 1:
        raise ValueError("a batch of runs: save one lane after the other, jax.tree.map(lambda leaf: leaf[i], solution).save(...).")
    arrays, text = _arrays(solution), json.dumps(_about(solution), allow_nan=False)
    if path.suffix == ".npz":
        np.savez_compressed(path, allow_pickle=False, **{_TEXT: np.array(text)}, **arrays)
        return path
    data = to_xarray(solution)
    for name, array in arrays.items():
        if array.size:
            data[name] = (_dimensions(name, array), array)
    data.attrs |= {_TEXT: text, "empty": json.dumps({name: list(array.shape) for name, array in arrays.items() if not array.size})}
    data.to_netcdf(path, engine="scipy")
    return path


def _dimensions(name: str, array: np.ndarray) -> tuple[str, ...]:
    kind, _, field = name.partition(".")
    first = () if kind == "final" or array.ndim == 0 else ("time" if kind == "states" else "step",)
    return first + ((f"{_DIMENSIONS[field]}_number",) if array.ndim > len(first) else ())


def _arrays(solution: "Solution") -> dict[str, np.ndarray]:
    found: dict[str, Any] = {}
    for name, state in (("states", solution.states), ("final", solution.final)):
        found |= {f"{name}.{field}": getattr(state, field) for field in _STATE}
        found |= {f"{name}.{field}": value for field, value in vars(state.memory).items()}
    found |= {name: getattr(solution, name) for name in ("steps", "orders", "tried") if getattr(solution, name) is not None}
    return {name: np.asarray(value) for name, value in found.items()}


def _about(solution: "Solution") -> dict[str, Any]:
    model, missing = None, "it is one of equations, which are code"
    if isinstance(solution.system, System):
        try:
            model, missing = as_data(parts_of(solution.system)), ""
        except NotData as error:
            missing = str(error)
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "result": _names()[int(jax.device_get(solution.result._value))],
        "blame": int(solution.blame),
        "event": int(solution.event),
        "events": list(solution.events),
        "settings": list(solution.settings),
        "stats": {name: int(value) for name, value in solution.stats.items()},
        "message": solution.message,
        "model": model,
        "no_model": missing,
    }


def _names() -> list[str]:
    """Of results, in the order of their numbers: sentences may change."""
    return list(RESULTS._name_to_item)


class Archive:
    """What a file holds."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._arrays, text = _read(self.path)
        try:
            self.about: dict[str, Any] = json.loads(text)
        except ValueError:
            self.about = {}
        if self.about.get("format") != _FORMAT:
            raise ValueError(f"{self.path} is no saved solution: write one with solution.save({self.path.name!r}).")
        if self.about["version"] != _VERSION:
            raise ValueError(f"{self.path} is of version {self.about['version']!r} of the format; this jaxmbd reads version {_VERSION}.")

    def state(self, name: str) -> State:
        """Without what a method carried along: another run from here begins it anew."""

        def get(field: str) -> Any:
            return self._arrays[f"{name}.{field}"]

        return State(**{field: get(field) for field in _STATE}, memory=Memory(get("angles"), get("kept_rows")))

    def array(self, name: str) -> np.ndarray | None:
        return self._arrays.get(name)

    @property
    def result(self) -> RESULTS:
        return getattr(RESULTS, self.about["result"])


def _read(path: Path) -> tuple[dict[str, np.ndarray], str]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            if _TEXT not in file:
                return {}, ""
            return {name: file[name] for name in file.files if name != _TEXT}, str(file[_TEXT])
    if path.suffix != ".nc":
        raise ValueError(f"solutions are loaded from .npz or .nc, got {str(path)!r}.")
    try:
        import xarray
    except ImportError:
        raise ImportError('to load netCDF needs xarray: pip install "jaxmbd[data]"') from None
    with xarray.open_dataset(path, engine="scipy", decode_times=False) as data:
        found = {str(name): np.array(data[name].values) for name in data.data_vars}
        found |= {name: np.zeros(shape) for name, shape in json.loads(data.attrs.get("empty", "{}")).items()}
        return found, data.attrs.get(_TEXT, "")
