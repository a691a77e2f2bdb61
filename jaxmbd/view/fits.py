"""Pictures and a report of a calibration, and of sensitivities."""

import base64
import html
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .figures import finish, name_lines, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..calibrate.fit import Channel, Fit

_MOST_PANELS = 6


def plot_fit(fit: "Fit", path: str | Path | None = None, *, most: int = _MOST_PANELS) -> "Figure":
    """Measured against simulated, residuals, the history of the search, estimates with their intervals, and the correlation of these.

    Of many channels and experiments the `most` with the largest errors are shown.
    """
    chosen = _worst(fit, most)
    height = 1.7 * max(len(chosen), 3) + 0.6
    figure = new_figure(path, (13, height))
    grid = figure.add_gridspec(1, 3, width_ratios=(2, 1.4, 1.4))
    left = grid[0].subgridspec(len(chosen), 1)
    middle = grid[1].subgridspec(len(chosen), 1)
    right = grid[2].subgridspec(3, 1)
    for row, one in enumerate(chosen):
        _draw_channel(figure.add_subplot(left[row]), one, last=row == len(chosen) - 1)
        _draw_residuals(figure.add_subplot(middle[row]), one, last=row == len(chosen) - 1)
    _draw_history(figure.add_subplot(right[0]), fit)
    _draw_estimates(figure.add_subplot(right[1]), fit)
    _draw_correlation(figure, figure.add_subplot(right[2]), fit)
    return finish(figure, path)


def _worst(fit: "Fit", most: int) -> "list[Channel]":
    """Channels in their order, those with the largest error relative to their noise if they are too many."""
    order = np.argsort([-one.rms / one.noise for one in fit.channels], kind="stable")[:most]
    return [fit.channels[i] for i in sorted(order)]


def _draw_channel(axes: Any, one: "Channel", last: bool) -> None:
    axes.plot(one.ts, one.measured, ".", ms=5, color="0.65", label="measured")
    axes.plot(one.ts, one.simulated, lw=1.0, color="C1" if one.validation else "C0", label="simulated")
    axes.set_title(f"{one.column}, {one.experiment}{' (left out)' if one.validation else ''}", fontsize=9)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="upper right")
    axes.tick_params(labelsize=8)
    if last:
        axes.set_xlabel("time [s]")


def _draw_residuals(axes: Any, one: "Channel", last: bool) -> None:
    axes.axhspan(-1.96 * one.noise, 1.96 * one.noise, color="0.9")
    axes.plot(one.ts, one.residuals, ".", ms=2, color="C1" if one.validation else "C0")
    axes.set_title(f"residuals, rms {one.rms:.3g} (grey: 95 % of noise {one.noise:.3g})", fontsize=9)
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)
    if last:
        axes.set_xlabel("time [s]")


def _draw_history(axes: Any, fit: "Fit") -> None:
    costs = np.array([row["misfit"] for row in fit.history])
    axes.semilogy(np.arange(costs.size), np.maximum(costs, 1e-300), ".-")
    axes.set_title("rms error / spread of channels", fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)


def _draw_estimates(axes: Any, fit: "Fit") -> None:
    """Relative to the estimates, so that one axis serves all."""
    for row, one in enumerate(fit.estimates):
        if not one.determined:
            axes.plot([0.0], [row], "x", color="C3")
            axes.annotate(" not determined", (0.0, row), fontsize=7, va="center")
            continue
        size = abs(one.value) or 1.0
        reach = [[100 * (one.value - one.low) / size], [100 * (one.high - one.value) / size]]
        axes.errorbar([0.0], [row], xerr=np.abs(reach), fmt="o", ms=4, capsize=3, color="C0")
    axes.set_yticks(range(len(fit.estimates)), [f"{one.name} = {one.value:.4g}" for one in fit.estimates], fontsize=7)
    axes.set_ylim(len(fit.estimates) - 0.5, -0.5)
    axes.set_title("95 % intervals, % of the estimate", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)


def _draw_correlation(figure: "Figure", axes: Any, fit: "Fit") -> None:
    image = axes.imshow(fit.correlation, vmin=-1, vmax=1, cmap="RdBu_r")
    axes.set_facecolor("0.85")
    numbers = [str(i + 1) for i in range(len(fit.names))]
    axes.set_xticks(range(len(numbers)), numbers, fontsize=7)
    axes.set_yticks(range(len(numbers)), [f"{name} {i + 1}" for i, name in enumerate(fit.names)], fontsize=7)
    axes.set_title("correlation (grey: not determined)", fontsize=9)
    figure.colorbar(image, ax=axes)


_STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}img{max-width:100%}.note{background:#fff6dd;padding:.5em 1em;border-left:4px solid #e0a800}"""


def write_report(fit: "Fit", path: str | Path) -> Path:
    """One HTML file, with its pictures in it."""
    path = Path(path)
    rows = "".join(
        f"<tr><td>{html.escape(one.name)}</td><td>{one.value:.6g}</td><td>{_between(one)}</td><td>{one.start:.6g}</td>"
        f"<td>{html.escape(one.unit)}</td></tr>"
        for one in fit.estimates
    )
    notes = [*fit.undetermined, *fit.doubts()]
    told = f"<div class=note><ul>{''.join(f'<li>{html.escape(note)}</li>' for note in notes)}</ul></div>" if notes else ""
    errors = "".join(
        f"<tr><td>{html.escape(one.column)}</td><td>{html.escape(one.experiment)}</td><td>{one.ts.size}</td><td>{one.rms:.4g}</td>"
        f"<td>{one.noise:.4g}</td><td>{one.follows:.2f}</td><td>{'left out' if one.validation else 'fitted'}</td></tr>"
        for one in fit.channels
    )
    path.write_text(
        f"<!doctype html><meta charset=utf-8><title>Calibration</title><style>{_STYLE}</style><h1>Calibration</h1>"
        f"<p>{html.escape(fit.result)}; {fit.evaluations} evaluations of all experiments with derivatives, {len(fit.history) - 1} steps, "
        f"{fit.failed_runs} failed runs on the way.</p>{told}"
        f"<h2>Parameters</h2><table><tr><th>parameter<th>value<th>95 % interval<th>start<th>unit</tr>{rows}</table>"
        f"<h2>Pictures</h2><img alt='measured and simulated' src='data:image/png;base64,{_picture(fit)}'>"
        f"<h2>Channels</h2><table><tr><th>channel<th>experiment<th>rows<th>rms error<th>noise<th>correlation with the next row<th></tr>{errors}"
        "</table>",
        encoding="utf-8",
    )
    return path


def _between(one: Any) -> str:
    return f"{one.low:.5g} &hellip; {one.high:.5g}" if one.determined else "not determined by the data"


def _picture(fit: "Fit") -> str:
    file = io.BytesIO()
    plot_fit(fit, most=8 if len(fit.channels) > 6 else _MOST_PANELS, path=file)  # pyright: ignore[reportArgumentType]
    return base64.b64encode(file.getvalue()).decode()


def plot_sensitivities(data: Any, path: str | Path | None = None, *, most: int = 12) -> "Figure":
    """Bars of relative sensitivities, those of numbers that `mbd.sensitivities` found; of many parameters the `most` that matter most."""
    names = [name for name in data.data_vars if name.startswith("relative(") and data[name].dims == ("parameter",)]
    if not names:
        raise ValueError(
            "there are no sensitivities of single numbers of one run in this table: observe 'peak:rod.y' or 'final:hinge.angle'."
        )
    largest = np.nanmax([np.abs(data[name].values) for name in names], axis=0)
    order = np.argsort(-np.nan_to_num(largest), kind="stable")[:most]
    figure = new_figure(path, (8, 1.2 + 0.32 * len(order) * max(1, 0.6 * len(names))))
    axes = figure.subplots()
    places, height = np.arange(len(order)), 0.8 / len(names)
    for k, name in enumerate(names):
        label = name.removeprefix("relative(").removesuffix(")")
        axes.barh(places + (k - 0.5 * (len(names) - 1)) * height, data[name].values[order], height, label=label)
    axes.set_yticks(places, [str(label) for label in data["parameter"].values[order]])
    axes.invert_yaxis()
    axes.axvline(0.0, color="0.3", lw=0.8)
    axes.set_xlabel("change of the observable in % by 1 % of the parameter")
    axes.grid(alpha=0.3, axis="x")
    name_lines(axes)
    return finish(figure, path)
