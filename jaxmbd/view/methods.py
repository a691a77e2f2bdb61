"""Work and precision of methods, side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .figures import finish, name_lines, new_figure

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

_MARKERS = "os^vDPX*"


def plot_work_precision(data: "xarray.Dataset", path: str | Path | None = None, *, work: str = "seconds") -> "Figure":
    """Work against error, double logarithmic, a line for each method: what `mbd.work_precision` found. `work` is one of its counts, "seconds",
    "force_evaluations", "steps", ... Down and left is better. Runs that failed are left out."""
    known = [str(name) for name in data.data_vars if name not in ("error", "result")]
    if work not in known:
        raise ValueError(f"work must be one of {', '.join(map(repr, known))}, got {work!r}.")
    figure = new_figure(path, (7.5, 5.5))
    axes: Any = figure.subplots()
    for i, name in enumerate(data["integrator"].values):
        one = data.sel(integrator=name)
        error, cost = one["error"].values, one[work].values
        good = np.isfinite(error) & (error > 0) & (cost > 0)
        axes.loglog(error[good], cost[good], marker=_MARKERS[i % len(_MARKERS)], label=str(name))
    axes.set_xlabel(f"error of {data['error'].attrs['of']} [{data['error'].attrs['units']}]")
    unit = data[work].attrs.get("units", "")
    axes.set_ylabel(f"{work.replace('_', ' ')} [{unit}]" if unit else work.replace("_", " "))
    axes.grid(alpha=0.3, which="both")
    name_lines(axes)
    return finish(figure, path)
