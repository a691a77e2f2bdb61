"""Which runs a sweep makes: a table with one row for each."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._compiling import compiled_in_haste
from ..system import naming
from ..system.faults.validity import expectations, first_unusable
from ..system.parameters import unknown
from ..system.system import System

RUN = "run"
"""The dimension of designs that are no grid."""


class LatinHypercube(eqx.Module):
    """So many runs between bounds (`parameters={"spring.stiffness": (100.0, 1000.0), ...}`), of which each parameter has one in every interval
    of 1/runs of its range. Those in `log` are spread evenly in their logarithm. A seed gives the same runs every time."""

    runs: int
    seed: int = 0
    log: tuple[str, ...] = ()

    def points(self, count: int) -> np.ndarray:
        """One row a run, from 0 to 1."""
        random = np.random.default_rng(self.seed)
        places = np.stack([random.permutation(self.runs) for _ in range(count)], axis=1)
        return (places + random.random((self.runs, count))) / self.runs


class Sobol(eqx.Module):
    """So many runs between bounds, by Sobol's sequence (scrambled): they fill the box evenly, best if their number is a power of two. Arguments
    as of `LatinHypercube`."""

    runs: int
    seed: int = 0
    log: tuple[str, ...] = ()

    def points(self, count: int) -> np.ndarray:
        """One row a run, from 0 to 1."""
        from scipy.stats import qmc

        power = max(self.runs - 1, 0).bit_length()  # the sequence is balanced over powers of two only
        sequence = qmc.Sobol(count, seed=self.seed)  # pyright: ignore[reportCallIssue]  # its name in older scipy, known to newer ones too
        return sequence.random_base2(power)[: self.runs]


class Table(NamedTuple):
    """The runs, one a row."""

    columns: dict[str, np.ndarray]
    """by parameter: (runs, ...)"""
    axes: dict[str, np.ndarray] | None
    """of a grid, its values by parameter; the first varies slowest. None: the runs stand in a row."""

    @property
    def runs(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def dimensions(self) -> dict[str, int]:
        """Names and lengths, whose product is the number of runs."""
        return {RUN: self.runs} if self.axes is None else {name: len(values) for name, values in self.axes.items()}


def read_design(system: System, parameters: Any, design: Any) -> Table:
    """The arguments `parameters` and `design` of `sweep`, checked down to the range of every value."""
    columns = _columns(system, parameters, design)
    axes = None
    if isinstance(design, LatinHypercube | Sobol):
        columns = _sampled(columns, design)
    elif isinstance(design, str) and design == "grid":
        for name, values in columns.items():
            if values.ndim > 1:
                raise ValueError(f"{name!r} has several components, which have no place on an axis of a grid: use design='zip'.")
            if len(set(values.tolist())) < len(values):
                raise ValueError(f"{name!r} has a value twice: on an axis of a grid each has one place.")
        axes = columns
        mesh = np.meshgrid(*columns.values(), indexing="ij")
        columns = {name: values.reshape(-1) for name, values in zip(columns, mesh, strict=True)}
    elif len(lengths := {name: len(values) for name, values in columns.items()}) > 1 and len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(f"the columns of the table have different lengths: {told}. Give each run a value of each, or take design='grid'.")
    table = Table(columns, axes)
    if table.runs == 0:
        raise ValueError("the sweep has no runs: give every parameter a value at least.")
    _check_values(system, table)
    return table


def _columns(system: System, parameters: Any, design: Any) -> dict[str, np.ndarray]:
    """By parameter what was given for it, as arrays of the right shape."""
    if isinstance(design, str) and design not in ("grid", "zip"):
        raise ValueError(f"{unknown('design', design, ('grid', 'zip'))} Or give a table, mbd.LatinHypercube(runs) or mbd.Sobol(runs).")
    if isinstance(design, str | LatinHypercube | Sobol):
        if not isinstance(parameters, Mapping):
            raise ValueError(f"parameters must be a dictionary from names to values, got {type(parameters).__name__}.")
        given = dict(parameters)
    else:
        given = _of_table(parameters, design)
    if not given:
        raise ValueError("sweep needs a parameter to vary: parameters={'spring.stiffness': [100.0, 200.0]}.")
    found, givers = {}, {}
    for name, values in given.items():
        own = _default(system, name)
        try:
            found[name] = np.asarray(values, dtype=own.dtype)
        except (TypeError, ValueError):
            raise ValueError(f"the values of {name!r} must be numbers, one for each run, got {values!r}.") from None
        if found[name].shape[1:] != own.shape or found[name].ndim == 0:
            wanted = "one number" if own.shape == () else f"an array of shape {own.shape}"
            raise ValueError(f"{name!r} must have {wanted} for each run, got an array of shape {found[name].shape}.")
        for place in _places(system, name):
            if (other := givers.setdefault(place, name)) != name:
                raise ValueError(f"{name!r} is another name of a parameter that {other!r} gives too: give it once.")
    return found


def meant(system: System, name: str) -> list[str]:
    """The parameters that a name with a star stands for, "tyre_*.stiffness", which all get the same value; else the name itself."""
    if "*" not in name:
        return [name]
    pattern, known = re.compile(".*".join(map(re.escape, name.split("*")))), system.parameter_names()
    found = [one for one in known if pattern.fullmatch(one)]
    if not found:
        raise ValueError(unknown("parameter", name, known))
    return found


def spread(system: System, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parameters that are meant."""
    return {one: value for name, value in values.items() for one in meant(system, name)}


def unit(system: System, name: str) -> str:
    return naming.unit(system, meant(system, name)[0])


def _default(system: System, name: str) -> np.ndarray:
    """The number that the model has; one that does not exist is told with the nearest that does."""
    names = meant(system, name)
    defaults = [np.asarray(system.get(one)) for one in names]
    for one, default in zip(names, defaults, strict=True):
        if default.shape != defaults[0].shape or naming.unit(system, one) != naming.unit(system, names[0]):
            raise ValueError(f"{name!r} stands for {names[0]!r} and {one!r}, which are not of one kind: they cannot have the same values.")
    return defaults[0]


def _places(system: System, name: str) -> list[Any]:
    return [naming.find(system, one)[:2] for one in meant(system, name)]


def _of_table(parameters: Any, table: Any) -> dict[str, Any]:
    """Columns of a table: of a mapping or a data frame those that `parameters` names (None: all), of an array with one row a run all."""
    if parameters is not None and (isinstance(parameters, str) or not isinstance(parameters, Sequence)):
        raise ValueError("with a table as design, parameters must be the names of its columns, or None for all.")
    if hasattr(table, "keys"):
        names = list(table.keys()) if parameters is None else list(parameters)
        for name in names:
            if name not in table:
                raise ValueError(unknown("column", name, map(str, table.keys())))
        return {name: np.asarray(table[name]) for name in names}
    rows = np.asarray(table)
    if parameters is None or rows.ndim != 2 or rows.shape[1] != len(parameters):
        columns = "names of its columns" if parameters is None else f"{len(parameters)} columns"
        raise ValueError(f"a table without names must have one row a run and {columns} as in parameters, got shape {rows.shape}.")
    return dict(zip(parameters, rows.T, strict=True))


def _sampled(bounds: dict[str, np.ndarray], design: LatinHypercube | Sobol) -> dict[str, np.ndarray]:
    if design.runs < 1:
        raise ValueError(f"{type(design).__name__} needs a number of runs, at least 1, got {design.runs}.")
    for name in design.log:
        if name not in bounds:
            raise ValueError(f"log: {unknown('parameter of this sweep', name, bounds)}")
    found = {}
    for (name, given), unit in zip(bounds.items(), design.points(len(bounds)).T, strict=True):
        if given.shape != (2,) or not np.all(np.isfinite(given)) or given[0] >= given[1]:
            raise ValueError(f"{name!r} must have bounds (low, high) in a {type(design).__name__}, low < high, got {given.tolist()}.")
        if name in design.log and given[0] <= 0:
            raise ValueError(f"{name!r} is spread in its logarithm: its lower bound must be positive, got {given[0]:g}.")
        low, high = np.log(given) if name in design.log else given
        values = low + (high - low) * unit
        found[name] = np.clip(np.exp(values) if name in design.log else values, *given)
    return found


def _check_values(system: System, table: Table) -> None:
    """Finds the first run whose numbers a model would not take."""
    first = np.asarray(_first_unusable(system, table.columns))
    if np.all(first < 0):
        return
    run = int(np.argmax(first >= 0))
    values = ", ".join(f"{name} = {np.array2string(column[run], precision=6)}" for name, column in table.columns.items())
    others = int(np.sum(first >= 0)) - 1
    more = f" ({others} more runs have such values)" if others else ""
    raise ValueError(f"run {run} of the sweep, {values}: {expectations(system)[int(first[run])]}{more}.")


@compiled_in_haste
def _first_unusable(system: System, columns: dict[str, np.ndarray]) -> Any:
    return jax.vmap(lambda values: first_unusable(system.set(spread(system, values))))(columns)
