"""Saved runs, read again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from .archive import Archive
from .solution import Solution
from .system.building.model import Model
from .system.equations import AbstractSystem
from .system.files.model_files import from_model_data


def load(path: str | Path, model: Model | AbstractSystem | None = None, *, classes: Iterable[type] = ()) -> Solution:
    """The solution that `solution.save(path)` has written, "x.npz" or "x.nc", with all numbers to the last bit.

    The system is rebuilt from the model in the file, as `mbd.load_model` does, with the numbers that it had in the run (`classes`: your own,
    that it uses); the solution then plots, observes, and has a `final` state to go on from. A model with functions, and equations without
    bodies, are no data and not in the file: give the model or system itself. The file holds the end of a run, but not what its
    integrator carried along: a run that goes on from there begins its method anew.
    """
    archive = Archive(path)
    system = _system(archive, model, tuple(classes))
    about = archive.about
    states = archive.state("states")
    if (n := system.q0.shape[-1]) != states.q.shape[1]:
        raise ValueError(f"{archive.path} is of another model than the one given: it has {states.q.shape[1]} coordinates, not {n}.")
    put = lambda value: None if value is None else jax.device_put(value)  # noqa: E731
    return Solution(
        system,
        states,
        jax.tree.map(jnp.asarray, archive.state("final")),
        about["stats"],
        archive.result,
        jnp.asarray(about["blame"], jnp.int32),
        put(archive.array("steps")),
        put(archive.array("orders")),
        put(archive.array("tried")),
        event=jnp.asarray(about["event"], jnp.int32),
        events=tuple(about["events"]),
        settings=tuple(about["settings"]),
    )


def _system(archive: Archive, model: Any, classes: tuple[type, ...]) -> AbstractSystem:
    if isinstance(model, Model | AbstractSystem):
        return model.build() if isinstance(model, Model) else model
    if model is not None:
        raise ValueError(f"model must be an mbd.Model or an mbd.AbstractSystem, got {model!r}.")
    data = archive.about["model"]
    if data is None:
        raise ValueError(f"{archive.path} holds no model ({archive.about['no_model']}): give it, mbd.load(path, model).")
    parts = from_model_data(data, f"the model in {archive.path}", classes)
    return Model(*parts[:3], scenery=parts.scenery).build()
