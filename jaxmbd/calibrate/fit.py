"""What a calibration gives back."""

import dataclasses
import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..system.building.model import Model
from ..system.parameters import unknown
from ..system.system import System
from .experiments import read_experiments

FORMAT = 1


@dataclasses.dataclass
class Estimate:
    """One number that was found."""

    name: str
    value: float
    low: float
    """of the 95 % interval"""
    high: float
    unit: str
    start: float
    log: bool = False

    @property
    def determined(self) -> bool:
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


@dataclasses.dataclass
class Channel:
    """Measured and simulated, of one channel of one experiment."""

    experiment: str
    column: str
    ts: np.ndarray
    measured: np.ndarray
    simulated: np.ndarray
    noise: float
    """standard deviation, given or estimated"""
    validation: bool = False

    @property
    def residuals(self) -> np.ndarray:
        return self.measured - self.simulated

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.residuals**2)))

    @property
    def follows(self) -> float:
        """Correlation of a residual with the next: near 0 for noise, near 1 where the model misses something."""
        r = self.residuals - np.mean(self.residuals)
        return float(np.sum(r[1:] * r[:-1]) / max(float(np.sum(r**2)), 1e-300))


@dataclasses.dataclass
class Fit:
    """Found parameters, how well they are known, and how well the model follows the measurements.

    `fit.values["spring.stiffness"]`, `fit.interval("spring.stiffness")`, `fit.system`, ready to simulate; `print(fit)` shows all of it.
    """

    estimates: list[Estimate]
    initial: dict[str, dict[str, float]]
    """by experiment, the initial values that were found"""
    channels: list[Channel]
    correlation: np.ndarray
    """of the estimates, in the order of `names`; NaN of one that is not determined"""
    undetermined: tuple[str, ...]
    """what the data do not determine, in sentences"""
    history: list[dict[str, float]]
    evaluations: int
    """calls of the program that runs all experiments, with derivatives"""
    failed_runs: int
    """on the way, of trial steps that were not taken"""
    result: str
    """converged, or why the search ended"""
    settings: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    """parameters of the model as they are now, ties included"""
    system: System | None = None
    """with the values that were found; None after `load_fit` without a model"""
    u: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))
    """the estimates in the search's own coordinates"""
    _profile: Callable[..., Any] | None = dataclasses.field(default=None, repr=False)
    _compare: Callable[..., Any] | None = dataclasses.field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.estimates]

    @property
    def values(self) -> dict[str, float]:
        return {one.name: one.value for one in self.estimates}

    @property
    def converged(self) -> bool:
        return self.result == "converged"

    def __getitem__(self, name: str) -> Estimate:
        for one in self.estimates:
            if one.name == name:
                return one
        raise KeyError(unknown("estimate", name, self.names))

    def interval(self, name: str) -> tuple[float, float]:
        """Of 95 %, from the derivatives at the fit."""
        return self[name].low, self[name].high

    def rms(self, validation: bool = False) -> dict[str, float]:
        """By channel, over all experiments that were fitted, or over those that were left out."""
        found: dict[str, list[np.ndarray]] = {}
        for one in self.channels:
            if one.validation == validation:
                found.setdefault(one.column, []).append(one.residuals)
        return {column: float(np.sqrt(np.mean(np.concatenate(parts) ** 2))) for column, parts in found.items()}

    def profile(self, name: str, points: int = 9) -> dict[str, np.ndarray]:
        """Profile likelihood: the smallest cost for values of one parameter around its estimate, all others fitted anew.

        `value` and `cost` (less the smallest); where it passes 1.92 is the 95 % `interval`, which may be lopsided, or open (infinite).
        """
        if self._profile is None:
            raise ValueError(
                "a profile needs the experiments: a fit that was loaded has none. Call calibrate(..., begin=fit, iterations=0)."
            )
        return self._profile(self[name].name, points)

    def compare(self, experiments: Any, window: float | None = None) -> list[Channel]:
        """Measured and predicted channels of other experiments, with what was found. Initial values that are to be found are so from the first
        `window` seconds of each; None: from all of it."""
        if self._compare is None:
            raise ValueError(
                "a comparison needs the model and the sensors: a fit that was loaded has none. Call calibrate(..., begin=fit)."
            )
        return self._compare(read_experiments(experiments), window)

    # --- words and pictures -------------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        width = max([len(name) for name in self.names] + [9])
        lines = [f"{self.result}: {self.evaluations} evaluations, {len(self.history) - 1} steps, {self.failed_runs} failed runs"]
        lines.append(f"  {'parameter':{width}}  {'value':>12}  {'95 % interval':^27}  unit")
        for one in self.estimates:
            between = f"{one.low:12.5g} ... {one.high:<12.5g}" if one.determined else "not determined by the data "
            lines.append(f"  {one.name:{width}}  {one.value:12.6g}  {between:27}  {one.unit}".rstrip())
        for title, validation in (("fitted", False), ("left out", True)):
            parts = [f"{column} {value:.4g}" for column, value in self.rms(validation).items()]
            if parts:
                lines.append(f"  rms error of channels, {title}: " + ", ".join(parts))
        return "\n".join([*lines, *(f"  note: {sentence}" for sentence in (*self.undetermined, *self.doubts()))])

    __repr__ = __str__

    def doubts(self) -> list[str]:
        """What should keep a reader from believing the intervals."""
        worst: dict[str, float] = {}
        for one in self.channels:
            if not one.validation and one.ts.size > 20:
                worst.setdefault(one.column, 0.0)
                worst[one.column] = max(worst[one.column], one.follows)
        return [
            f"residuals of {column} follow each other (correlation {value:.2f} from row to row): the model misses something, or noise is not "
            "white, and the intervals are too narrow."
            for column, value in worst.items()
            if value > 0.5
        ]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(one.name)}</td><td>{one.value:.6g}</td>"
            + (f"<td>{one.low:.5g} &hellip; {one.high:.5g}</td>" if one.determined else "<td>not determined</td>")
            + f"<td>{html.escape(one.unit)}</td></tr>"
            for one in self.estimates
        )
        notes = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in (*self.undetermined, *self.doubts()))
        head = "<tr><th>parameter</th><th>value</th><th>95 % interval</th><th>unit</th></tr>"
        return f"<p>{html.escape(str(self).splitlines()[0])}</p><table>{head}{rows}</table><ul>{notes}</ul>"

    def plot(self, path: str | Path | None = None, **options: Any) -> Any:
        """Measured against simulated, residuals, history, estimates and their correlation; a matplotlib figure, written to the path if given."""
        from ..view.fits import plot_fit

        return plot_fit(self, path, **options)

    def report(self, path: str | Path) -> Path:
        """One HTML file with all of it, pictures included."""
        from ..view.fits import write_report

        return write_report(self, path)

    # --- files --------------------------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """As an npz file; `mbd.load_fit(path, model)` reads it."""
        path = Path(path).with_suffix(".npz")
        channels = [(one.experiment, one.column, one.noise, one.validation) for one in self.channels]
        told = {
            "format": FORMAT,
            "estimates": [dataclasses.asdict(one) for one in self.estimates],
            "initial": self.initial,
            "channels": channels,
            "undetermined": list(self.undetermined),
            "history": self.history,
            "evaluations": self.evaluations,
            "failed_runs": self.failed_runs,
            "result": self.result,
        }
        arrays = {
            f"channel {i} {part}": getattr(one, part) for i, one in enumerate(self.channels) for part in ("ts", "measured", "simulated")
        }
        settings = {f"parameter {name}": value for name, value in self.settings.items()}
        np.savez_compressed(path, **{"told": json.dumps(told), "correlation": self.correlation, "u": self.u, **arrays, **settings})  # pyright: ignore[reportArgumentType]
        return path


def load_fit(path: str | Path, model: Model | System | None = None) -> Fit:
    """A fit that was saved. With the model, `fit.system` has the values that were found."""
    path = Path(path) if Path(path).suffix else Path(path).with_suffix(".npz")
    with np.load(path) as file:
        if "told" not in file.files or json.loads(str(file["told"])).get("format") != FORMAT:
            raise ValueError(f"{path.name} is no fit that this version of jaxmbd has saved.")
        told = json.loads(str(file["told"]))
        channels = [
            Channel(experiment, column, *(file[f"channel {i} {part}"] for part in ("ts", "measured", "simulated")), noise, validation)  # pyright: ignore[reportCallIssue]
            for i, (experiment, column, noise, validation) in enumerate(told["channels"])
        ]
        settings = {name.removeprefix("parameter "): file[name] for name in file.files if name.startswith("parameter ")}
        correlation, u = file["correlation"], file["u"]
    system = model.build() if isinstance(model, Model) else model
    if system is not None:
        system = system.set(settings)
    return Fit(
        [Estimate(**one) for one in told["estimates"]],
        told["initial"],
        channels,
        correlation,
        tuple(told["undetermined"]),
        told["history"],
        told["evaluations"],
        told["failed_runs"],
        told["result"],
        settings,
        system,
        u,
    )
