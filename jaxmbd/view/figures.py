"""What all pictures share: where they go, how lines are named. matplotlib is imported when the first one is drawn."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 6
"""More lines than this cannot be told apart: a few are chosen."""


def new_figure(path: Any, size: tuple[float, float] = (11, 6)) -> "Figure":
    """One of pyplot's, so that `plt.show()` and notebooks show it; with a path one that is only drawn there, and pyplot is left alone."""
    options: dict[str, Any] = {"figsize": size, "layout": "constrained"}
    if path is None:
        import matplotlib.pyplot as plt

        return plt.figure(**options)
    from matplotlib.figure import Figure

    return Figure(**options)  # draws to files without a backend


def finish(figure: "Figure", path: Any) -> "Figure":
    """Written to the path, if there is one; its suffix says the format."""
    if path is not None:
        figure.savefig(Path(path) if isinstance(path, str) else path, dpi=150)
    return figure


def column(figure: "Figure", count: int) -> "list[Axes]":
    """Panels one above the other, with one time axis."""
    panels: Any = figure.subplots(count, 1, sharex=True, squeeze=False)
    panels[-1, 0].set_xlabel("time [s]")
    for axes in panels[:, 0]:
        axes.grid(alpha=0.3)
    return list(panels[:, 0])


def name_lines(axes: "Axes", title: str = "") -> None:
    """A legend above the panel, where it hides nothing."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3, "frameon": False, "borderaxespad": 0.1}
    axes.legend(title=title, fontsize="small", title_fontsize="small", **place)


def draw(axes: "Axes", times: np.ndarray, lines: dict[str, Any], label: str) -> None:
    """Named lines over time."""
    for name, values in lines.items():
        axes.plot(times, np.asarray(values), label=name)
    axes.set_ylabel(label)
    name_lines(axes)


def few(count: int) -> list[int]:
    """Up to six of `count` places, first and last among them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, MOST_LINES))})


def largest(lines: dict[str, np.ndarray], rest: str = "others") -> dict[str, np.ndarray]:
    """Those that matter most, in their order, and the sum of the rest."""
    sizes = {name: float(np.max(np.abs(values), initial=0.0)) for name, values in lines.items()}
    kept = sorted(lines, key=lambda name: -sizes[name])[: MOST_LINES if len(lines) <= MOST_LINES else MOST_LINES - 1]
    found = {name: values for name, values in lines.items() if name in kept}
    left: Iterable[np.ndarray] = [values for name, values in lines.items() if name not in kept]
    return found | ({rest: np.sum(list(left), axis=0)} if len(found) < len(lines) else {})
