"""Plots of a sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .figures import finish, name_lines, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STATISTICS = ("result", "time_reached", "steps", "rejected")


def plot_sweep(data: "xarray.Dataset", path: str | Path | None = None, *, observe: str | Sequence[str] | None = None) -> "Figure":
    """What was observed in a sweep over a grid of one parameter, as lines, or of two, as heat maps; one panel for each observable of `observe`,
    by default all that are one number a run. Runs that failed are gaps, crossed in a heat map. Parameters whose values grow by a constant
    ratio have a logarithmic axis. The path is as of `plot`."""
    dimensions = [str(name) for name in data["result"].dims]
    if len(dimensions) > 2 or dimensions == ["run"]:
        raise ValueError(f"plot_sweep shows grids of one or two parameters, this sweep has the dimensions {', '.join(dimensions)}.")
    scalars = [str(name) for name in data.data_vars if name not in _STATISTICS and data[name].dims == data["result"].dims]
    names = scalars if observe is None else [observe] if isinstance(observe, str) else list(observe)
    for name in names:
        if name not in scalars:
            raise ValueError(f"{name!r} is not one number for each run of this sweep; there is {', '.join(map(repr, scalars)) or 'none'}.")
    figure = new_figure(path)
    columns = int(np.ceil(np.sqrt(len(names))))
    panels: Any = figure.subplots(-(-len(names) // columns), columns, squeeze=False)
    for axes, name in zip(panels.flat, names, strict=False):
        (_draw_line if len(dimensions) == 1 else _draw_map)(axes, data, name)
    for axes in panels.flat[len(names) :]:
        axes.remove()
    return finish(figure, path)


def _draw_line(axes: "Axes", data: Any, name: str) -> None:
    (parameter,) = data["result"].dims
    axes.plot(data[parameter].values, data[name].values, marker="." if data[parameter].size <= 50 else None)
    axes.set_ylabel(_label(data, name))
    _dress(axes, "x", data, parameter)
    axes.grid(alpha=0.3)


def _draw_map(axes: "Axes", data: Any, name: str) -> None:
    """The second parameter upwards: the first is the one that was named first."""
    across, up = data["result"].dims
    sorted_data = data.sortby([across, up])
    x, y, values = sorted_data[across].values, sorted_data[up].values, sorted_data[name].values.T
    mesh = axes.pcolormesh(_edges(x), _edges(y), np.ma.masked_invalid(values), shading="flat")
    axes.figure.colorbar(mesh, ax=axes, label=_label(data, name))
    rows, columns = np.nonzero(~np.isfinite(values))
    if rows.size:
        axes.plot(x[columns], y[rows], "x", color="tab:red", markersize=4, label="failed")
        name_lines(axes)
    _dress(axes, "x", data, across)
    _dress(axes, "y", data, up)


def _label(data: Any, name: str) -> str:
    unit = data[name].attrs.get("units", "")
    return f"{name} [{unit}]" if unit else name


def _dress(axes: "Axes", letter: str, data: Any, parameter: str) -> None:
    getattr(axes, f"set_{letter}label")(_label(data, parameter))
    if _is_geometric(np.sort(data[parameter].values)):
        from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

        getattr(axes, f"set_{letter}scale")("log")
        axis, (low, high) = getattr(axes, f"{letter}axis"), getattr(axes, f"get_{letter}lim")()
        if high < 1000 * low:  # few powers of ten: numbers between them, as they are
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_locator(NullLocator())
        axis.set_minor_formatter(NullFormatter())


def _is_geometric(values: np.ndarray) -> bool:
    if len(values) < 3 or values[0] <= 0:
        return False
    return bool(np.allclose(np.diff(np.log(values)), np.log(values[1] / values[0]), rtol=1e-6))


def _edges(values: np.ndarray) -> np.ndarray:
    """Of the cells around values: half way to the neighbours, on the axis as it is drawn."""
    if _is_geometric(values):
        return np.exp(_edges(np.log(values)))
    if len(values) == 1:
        return np.array([values[0] - 0.5, values[0] + 0.5])
    middle = 0.5 * (values[1:] + values[:-1])
    return np.concatenate([[2 * values[0] - middle[0]], middle, [2 * values[-1] - middle[-1]]])
