"""Measurements: tables of times and channels, and how each experiment began and was driven."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..system.forces.signal import Signal
from ..system.parameters import unknown
from .unknowns import Free


class Sensor(NamedTuple):
    """What stands between a quantity and its channel: measured(t) = gain * quantity(t - delay) + bias. Each is a number, or `mbd.Free(...)`
    to be found, one for all experiments."""

    gain: Any = 1.0
    bias: Any = 0.0
    """in the channel's unit"""
    delay: Any = 0.0
    """s; samples that would be older than the start of the run are compared with its start"""


class Experiment:
    """Measurements of one run of a mechanism.

    - `data`: a dictionary of columns, a data frame, or the path of a CSV (one line of names) or npz file. One column has the times [s].
    - `channels`: which columns to compare with what, `{"encoder_1": "hinge.angle", "sum": function}`; an observable (`observable_names()`), or a
      function of the solution that gives a number for each of its rows. A list of names, or None for all columns, if the columns are called
      like observables.
    - `time`: the column of times, "t" unless given; "ts" and "time" are found, too.
    - `noise`: standard deviation of the channels' noise, in their units: one number for all, or by channel. None, or a channel that is left
      out: estimated together with the parameters.
    - `initial`: positions and rates at the start by name, as for `mbd.pose`: numbers, (value, standard deviation) of a measured one, which is
      then fitted within its noise, or `mbd.Free`. Without, the run starts as the model does.
    - `values`: parameters that are known to be different in this experiment, by name.
    - `inputs`: measured inputs by the name of the element that they drive, `{"motor": mbd.Signal(ts, torque)}`; the model has a `Signal` there.
    - `t0`: when the run starts [s], if not at the first sample.
    """

    name: str
    ts: np.ndarray
    columns: dict[str, np.ndarray]
    observe: dict[str, Any]
    noise: dict[str, float]
    initial: dict[str, Any]
    values: dict[str, Any]
    inputs: dict[str, Signal]
    t0: float

    def __init__(
        self,
        data: Any,
        channels: Mapping[str, Any] | Sequence[str] | None = None,
        *,
        name: str = "",
        time: str | None = None,
        noise: Any = None,
        initial: Mapping[str, Any] | None = None,
        values: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Signal] | None = None,
        t0: float | None = None,
    ):
        source, table = _read_table(data)
        self.name = name or source or "experiment"
        clock = _time_column(self.name, table, time)
        if channels is None:
            channels = [column for column in table if column != clock]
        wanted = dict(channels) if isinstance(channels, Mapping) else {column: column for column in channels}
        if not wanted:
            raise ValueError(f"{self.name!r} has no channels beside the times: there is nothing to compare a run with.")
        for column in wanted:
            if column not in table:
                raise ValueError(f"{self.name!r}: {unknown('column', column, table)}")
        self.ts = _numbers(self.name, clock, table[clock])
        self.columns = {column: _numbers(self.name, column, table[column]) for column in wanted}
        self._check_rows()
        self.observe = wanted
        self.noise = self._read_noise(noise)
        self.initial, self.values = dict(initial or {}), dict(values or {})
        self.inputs = dict(inputs or {})
        for element, signal in self.inputs.items():
            if not isinstance(signal, Signal):
                raise ValueError(f"{self.name!r}: the input of {element!r} must be an mbd.Signal(ts, values), got {type(signal).__name__}.")
        self.t0 = float(self.ts[0]) if t0 is None else float(t0)
        if self.ts[0] < self.t0:
            raise ValueError(
                f"{self.name!r}: its first sample, at {self.ts[0]:g} s, is before the start of the run, t0 = {self.t0:g} s: leave out samples, "
                "or start earlier."
            )

    def _check_rows(self) -> None:
        if self.ts.size < 2:
            raise ValueError(f"{self.name!r} has {self.ts.size} rows: a run needs two times at least.")
        late = np.flatnonzero(~(np.diff(self.ts) > 0))
        if late.size:
            row = int(late[0]) + 1
            raise ValueError(
                f"{self.name!r}: times must increase, row {row} ({self.ts[row]:g} s) does not: sort the rows, and drop doubles."
            )
        for column, values in self.columns.items():
            if values.shape != self.ts.shape:
                raise ValueError(f"{self.name!r}: channel {column!r} has {values.size} values for {self.ts.size} times.")

    def _read_noise(self, noise: Any) -> dict[str, float]:
        if noise is None:
            return {}
        levels: dict[str, Any] = dict(noise) if isinstance(noise, Mapping) else dict.fromkeys(self.columns, noise)
        for column, level in levels.items():
            if column not in self.columns:
                raise ValueError(f"noise of {self.name!r}: {unknown('channel', column, self.columns)}")
            if not float(level) > 0:
                raise ValueError(f"noise of channel {column!r} of {self.name!r} must be a positive standard deviation, got {level!r}.")
        return {column: float(level) for column, level in levels.items()}

    def __repr__(self) -> str:
        return f"Experiment({self.name!r}: {self.ts.size} rows from {self.ts[0]:g} to {self.ts[-1]:g} s of {', '.join(self.columns)})"

    def part(self, begin: float, end: float, *, initial: Mapping[str, Any] | None = None, name: str = "") -> "Experiment":
        """The rows from begin to end [s]; another initial state, if it starts later."""
        rows = (self.ts >= begin - 1e-12) & (self.ts <= end + 1e-12)
        if np.sum(rows) < 2:
            raise ValueError(f"{self.name!r} has {np.sum(rows)} rows from {begin:g} to {end:g} s: a run needs two at least.")
        table = {"t": self.ts[rows], **{column: values[rows] for column, values in self.columns.items()}}
        later = self.ts[rows][0] > self.ts[0]
        return Experiment(
            table,
            self.observe,
            name=name or f"{self.name} from {begin:.4g} s",
            time="t",
            noise=self.noise or None,
            initial=self.initial if initial is None and not later else initial,
            values=self.values,
            inputs=self.inputs,
            t0=None if later else self.t0,
        )

    def windows(self, duration: float, initial: Mapping[str, tuple[str, str, float, float]] | None = None) -> "list[Experiment]":
        """Multiple shooting: consecutive parts of so many seconds, each with a state of its own to be found.

        By default every channel that is an angle or a place is also an initial value, with its rate, both free, started from a parabola
        through the first samples. Grow the windows from fit to fit (`calibrate(..., begin=fit)`) where whole runs lead nowhere.
        `initial` says it otherwise: {"hinge.angle": ("encoder", "hinge.rate", 1e-3, 0.1)}, channel, name of the rate, and standard deviations
        of value and rate beforehand.
        """
        edges = np.arange(self.ts[0], self.ts[-1] - 0.5 * duration, duration)
        found = []
        for begin in edges:
            end = self.ts[-1] if begin == edges[-1] else begin + duration
            part = self.part(begin, end, name=f"{self.name} from {begin:.4g} s")
            part.initial = part._begun(initial)
            found.append(part)
        return found

    def _begun(self, initial: Mapping[str, tuple[str, str, float, float]] | None) -> dict[str, Any]:
        """Free initial values from the first samples."""
        if initial is None:
            named = {seen: column for column, seen in self.observe.items() if isinstance(seen, str)}
            rates = {"angle": "rate", "x": "vx", "y": "vy", "z": "vz", "length": "rate", "travel": "travel_rate"}
            initial = {}
            for seen, column in named.items():
                owner, _, quantity = seen.rpartition(".")
                if quantity in rates:
                    rate = "wz" if f"{owner}.wz" in named else rates[quantity]
                    initial[seen] = (column, f"{owner}.{rate}", np.inf, np.inf)
        few = slice(0, min(self.ts.size, 9))
        found: dict[str, Any] = {}
        for name, (column, rate, width, rate_width) in initial.items():
            times, values = self.ts[few] - self.t0, self.columns[column][few]
            line = np.polyfit(times, values, min(2, times.size - 1))
            for one, value, spread in ((name, line[-1], width), (rate, line[-2], rate_width)):
                found[one] = _free(float(value), spread)
        return found


def _free(value: float, width: float) -> Free:
    return Free(start=value, prior=None if not np.isfinite(width) else (value, width))


def _read_table(data: Any) -> tuple[str, dict[str, np.ndarray]]:
    """(where from, columns by name)"""
    if isinstance(data, str | Path):
        path = Path(data)
        if not path.exists():
            raise ValueError(f"there is no file {str(path)!r}.")
        if path.suffix == ".npz":
            with np.load(path) as file:
                return path.stem, {name: file[name] for name in file.files}
        return path.stem, _read_csv(path)
    if hasattr(data, "columns") and hasattr(data, "to_numpy"):
        return "", {str(name): np.asarray(data[name]) for name in data.columns}
    if isinstance(data, Mapping):
        return "", {str(name): np.asarray(values) for name, values in data.items()}
    raise ValueError(
        f"measurements must be a dictionary of columns, a data frame, or the path of a CSV or npz file, got {type(data).__name__}."
    )


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        text = file.read()
    first = text.partition("\n")[0]
    mark = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(text.splitlines(), delimiter=mark) if row]
    if len(rows) < 2:
        raise ValueError(f"{path.name} has no rows below its names.")
    names = [name.strip() for name in rows[0]]
    for line, row in enumerate(rows[1:], 2):
        if len(row) != len(names):
            raise ValueError(f"{path.name}, line {line}: {len(row)} values for {len(names)} columns.")
    return {name: _column(path, name, [row[i] for row in rows[1:]]) for i, name in enumerate(names)}


def _column(path: Path, name: str, words: Iterable[str]) -> np.ndarray:
    found = []
    for line, word in enumerate(words, 2):
        try:
            found.append(float(word) if word.strip() else np.nan)
        except ValueError:
            raise ValueError(f"{path.name}, line {line}: {word!r} in column {name!r} is not a number.") from None
    return np.array(found)


def _time_column(owner: str, table: Mapping[str, Any], given: str | None) -> str:
    if given is not None:
        if given not in table:
            raise ValueError(f"{owner!r}: {unknown('column of times', given, table)}")
        return given
    for name in ("t", "ts", "time"):
        if name in table:
            return name
    raise ValueError(f"{owner!r} has no column 't' of times: say which it is, time='...', of {', '.join(map(repr, table))}.")


def _numbers(owner: str, column: str, values: Any) -> np.ndarray:
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError):
        raise ValueError(f"{owner!r}: column {column!r} must hold numbers.") from None
    if found.ndim != 1:
        raise ValueError(f"{owner!r}: column {column!r} must be one number a row, got an array of shape {found.shape}.")
    bad = np.flatnonzero(~np.isfinite(found))
    if bad.size:
        raise ValueError(f"{owner!r}: column {column!r} is not finite in row {bad[0]} ({bad.size} such rows): leave these rows out.")
    return found


def read_experiments(given: Any, argument: str = "experiments") -> list[Experiment]:
    """One, or several, of different names."""
    several = [given] if isinstance(given, Experiment) else list(given)
    if not several or not all(isinstance(one, Experiment) for one in several):
        raise ValueError(f"{argument} must be an mbd.Experiment or a list of them.")
    names: dict[str, int] = {}
    for one in several:
        names[one.name] = names.get(one.name, 0) + 1
        if names[one.name] > 1:
            one.name = f"{one.name} ({names[one.name]})"
    return several
