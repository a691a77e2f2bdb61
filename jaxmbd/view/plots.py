"""Plots of a solution. matplotlib is imported when the first one is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..solution import Solution
from ..system.system import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_LINES = 6
"""More lines than this cannot be told apart: a few are chosen."""


def plot(solution: Solution, path: str | Path | None = None, *, observe: str | Sequence[str] | None = None) -> "Figure":
    """Where the bodies are, or what `observe` names ("hinge.angle", ["spring.force", "rod.vy"]), the energy and the step size, against time.

    Of many bodies a few are chosen, evenly along the list. Without a path the figure is one of pyplot's, so that
    `plt.show()` and notebooks show it; with a path it is written there instead (the suffix says the format) and
    pyplot is left alone.
    """
    if solution.ts.ndim != 1:
        raise ValueError("plot shows one run: take one lane of a batch, jax.tree.map(lambda leaf: leaf[i], solution).")
    figure = _new_figure(on_screen=path is None)
    panels = _motion(solution) if observe is None else _observed(solution, [observe] if isinstance(observe, str) else list(observe))
    grid = figure.add_gridspec(1, 2)
    left: Any = grid[0].subgridspec(len(panels), 1).subplots(sharex=True, squeeze=False)
    right: Any = grid[1].subgridspec(2, 1).subplots(sharex=True, squeeze=False)
    left, right = left[:, 0], right[:, 0]
    times = np.asarray(solution.ts)
    for axes, (label, lines) in zip(left, panels.items(), strict=True):
        for name, values in lines.items():
            axes.plot(times, values, label=name)
        axes.set_ylabel(label)
    if observe is None:
        shown, there = len(left[0].lines), _count(solution)
        _name_lines(left[0], title=f"{shown} of {there}" if shown < there else "")
    else:
        for axes in left:
            _name_lines(axes)
    _draw_energy(right[0], solution)
    _draw_steps(right[1], solution)
    for axes in (*left, *right):
        axes.grid(alpha=0.3)
    for axes in (left[-1], right[-1]):
        axes.set_xlabel("time [s]")
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _new_figure(on_screen: bool) -> "Figure":
    options: dict[str, Any] = {"figsize": (11, 6), "layout": "constrained"}
    if on_screen:
        import matplotlib.pyplot as plt

        return plt.figure(**options)
    from matplotlib.figure import Figure

    return Figure(**options)  # draws to files without a backend


def _motion(solution: Solution) -> dict[str, dict[str, np.ndarray]]:
    """By axis label, the lines of one panel: position components that move, or a user's own coordinates."""
    system = solution.system
    if not isinstance(system, System):
        q = np.asarray(solution.q)
        return {"coordinates": {f"q[{i}]": q[:, i] for i in _few(q.shape[1])}}
    names = [system.body_names[i] for i in _few(len(system.body_names))]
    positions = {name: np.asarray(solution.position(name)) for name in names}
    every = np.stack(list(positions.values()))
    ranges = np.ptp(every, axis=1).max(axis=0)
    moving = ranges > 1e-3 * ranges.max()  # the others would be noise beside them
    if not moving.any():
        moving[:] = True
    return {
        f"{letter} [m]": {name: position[:, i] for name, position in positions.items()}
        for i, letter in enumerate("xyz"[: every.shape[2]])
        if moving[i]
    }


def _observed(solution: Solution, names: list[str]) -> dict[str, dict[str, np.ndarray]]:
    """One panel for each unit."""
    panels: dict[str, dict[str, np.ndarray]] = {}
    for name, values in solution.observe(names).items():
        if values.ndim == 0:
            raise ValueError(f"{name!r} is one number for the whole run, not a curve: leave the reducer out.")
        panels.setdefault(f"[{solution.system.observable_unit(name)}]", {})[name] = np.asarray(values)
    return panels


def _count(solution: Solution) -> int:
    system = solution.system
    return len(system.body_names) if isinstance(system, System) else solution.q.shape[1]


def _few(count: int) -> list[int]:
    """Up to six of `count` places, first and last among them."""
    return sorted({round(place) for place in np.linspace(0, count - 1, min(count, _MOST_LINES))})


def _name_lines(axes: "Axes", title: str = "") -> None:
    """A legend above the panel, where it hides nothing."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3, "frameon": False}
    axes.legend(title=title, fontsize="small", title_fontsize="small", **place)


def _draw_energy(axes: "Axes", solution: Solution) -> None:
    times, energy = np.asarray(solution.ts), solution.energy()
    for name, values in energy._asdict().items():
        axes.plot(times, np.asarray(values), label=name)
    axes.set_ylabel("energy [J]")
    _name_lines(axes)


def _draw_steps(axes: "Axes", solution: Solution) -> None:
    """Each step size over the time that the step spans, also if only a few states were saved."""
    axes.set_ylabel("step size [s]")
    if solution.steps is None:
        axes.text(0.5, 0.5, "not recorded", ha="center", va="center", transform=axes.transAxes)
        return
    sizes = np.asarray(solution.steps)
    edges = float(solution.final.t) - np.append(np.cumsum(sizes[::-1])[::-1], 0.0)
    axes.stairs(sizes, edges, baseline=None)
    if sizes.size:
        axes.set_yscale("log")
