"""Plots of a solution: where things are, whatever has a name, phase portraits."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..system.system import System
from .figures import column, draw, few, finish, name_lines, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ..solution import Solution

_CHIEF = (
    *("x", "y", "z", "angle", "angle1", "angle2", "travel", "travel1", "travel2", "length", "gap"),
    *("vx", "vy", "vz", "wx", "wy", "wz", "rate", "rate1", "rate2", "travel_rate", "slip_speed"),
    *("normal_force", "friction_force", "force", "torque", "power", "potential"),
)
"""What is shown of a body, joint or force that is named as a whole."""


def plot(solution: "Solution", path: str | Path | None = None, *, observe: str | Sequence[str] | None = None) -> "Figure":
    """Where the bodies are, or what `observe` names, the energy and the step size, against time.

    Names are those of observables, "hinge.angle", ["spring.force", "rod.vy"], or of a body, joint or force as a whole, "rod".
    Of many bodies a few are chosen, evenly along the list. Without a path the figure is one of pyplot's, so that
    `plt.show()` and notebooks show it; with a path it is written there instead (the suffix says the format) and
    pyplot is left alone.
    """
    one_run(solution, "plot")
    figure = new_figure(path)
    panels = _motion(solution) if observe is None else _observed(solution, observe)
    grid = figure.add_gridspec(1, 2)
    left: Any = grid[0].subgridspec(len(panels), 1).subplots(sharex=True, squeeze=False)
    right: Any = grid[1].subgridspec(2, 1).subplots(sharex=True, squeeze=False)
    left, right = left[:, 0], right[:, 0]
    _draw_panels(left, solution, panels, named=observe is not None)
    draw(right[0], np.asarray(solution.ts), solution.energy()._asdict(), "energy [J]")
    draw_steps(right[1], solution)
    for axes in (*left, *right):
        axes.grid(alpha=0.3)
    for axes in (left[-1], right[-1]):
        axes.set_xlabel("time [s]")
    return finish(figure, path)


def plot_observed(solution: "Solution", observe: str | Sequence[str] | None = None, path: str | Path | None = None) -> "Figure":
    """Only what `observe` names, as of `plot`: one panel for each unit."""
    one_run(solution, "plot")
    panels = _motion(solution) if observe is None else _observed(solution, observe)
    figure = new_figure(path, (9, 1.2 + 1.9 * max(len(panels), 2)))
    _draw_panels(column(figure, len(panels)), solution, panels, named=observe is not None)
    return finish(figure, path)


def plot_phase(
    solution: "Solution", observe: str | Sequence[str], path: str | Path | None = None, *, against: str | Sequence[str] = ()
) -> "Figure":
    """Phase portraits: each of what `observe` names across, its rate upwards, or what `against` names. A dot is the start, a cross the end."""
    one_run(solution, "plot_phase")
    names, others = ([given] if isinstance(given, str) else list(given) for given in (observe, against))
    others = others or [_rate(solution, name) for name in names]
    if len(others) != len(names):
        raise ValueError(f"plot_phase: {len(names)} names, but {len(others)} to draw them against: give one for each.")
    values = _rows(solution, [*names, *others])
    figure = new_figure(path, (4.8 * len(names), 4.2))
    panels: Any = figure.subplots(1, len(names), squeeze=False)
    for axes, name, other in zip(panels[0], names, others, strict=True):
        x, y = values[name], values[other]
        axes.plot(x, y)
        axes.plot(x[:1], y[:1], "o", color="C0", label="start")
        axes.plot(x[-1:], y[-1:], "x", color="C3", label="end")
        axes.set_xlabel(label(solution, name))
        axes.set_ylabel(label(solution, other))
        axes.grid(alpha=0.3)
        name_lines(axes)
    return finish(figure, path)


def one_run(solution: "Solution", what: str) -> None:
    if solution.ts.ndim != 1:
        raise ValueError(f"{what} shows one run: take one lane of a batch, jax.tree.map(lambda leaf: leaf[i], solution).")


def label(solution: "Solution", name: str) -> str:
    """With its unit."""
    return f"{name} [{solution.system.observable_unit(name)}]"


def _rate(solution: "Solution", name: str) -> str:
    owner, dot, quantity = name.rpartition(".")
    table = dict(solution.system.owners().get(owner, ({},))[0]) if name in solution.observable_names() else {}
    if quantity in table and table[quantity].rate:
        return f"{owner}{dot}{table[quantity].rate}"
    solution.system.observable_unit(name)  # an error if it means nothing
    raise ValueError(f"{name!r} has no rate that is an observable: say what to draw it against, against=...")


def _draw_panels(panels: Any, solution: "Solution", lines: dict[str, dict[str, np.ndarray]], named: bool) -> None:
    times = np.asarray(solution.ts)
    for axes, (unit, some) in zip(panels, lines.items(), strict=True):
        for name, values in some.items():
            axes.plot(times, values, label=name)
        axes.set_ylabel(unit)
        if named:
            name_lines(axes)
    if not named:
        shown, there = len(panels[0].lines), _count(solution)
        name_lines(panels[0], title=f"{shown} of {there}" if shown < there else "")


def _motion(solution: "Solution") -> dict[str, dict[str, np.ndarray]]:
    """By axis label, the lines of one panel: position components that move, or a user's own coordinates."""
    system = solution.system
    if not isinstance(system, System):
        q = np.asarray(solution.q)
        return {"coordinates": {f"q[{i}]": q[:, i] for i in few(q.shape[1])}}
    names = [system.body_names[i] for i in few(len(system.body_names))]
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


def _observed(solution: "Solution", observe: str | Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
    """One panel for each unit."""
    panels: dict[str, dict[str, np.ndarray]] = {}
    names = [each for name in ([observe] if isinstance(observe, str) else observe) for each in _expanded(solution, name)]
    for name, values in _rows(solution, names).items():
        panels.setdefault(f"[{solution.system.observable_unit(name)}]", {})[name] = values
    return panels


def _expanded(solution: "Solution", name: str) -> list[str]:
    """Of a body, joint or force as a whole its chief quantities."""
    owners = solution.system.owners()
    if name not in owners:
        return [name]
    table = owners[name].table
    return [f"{name}.{one}" for one in _CHIEF if one in table] or [f"{name}.{one}" for one in table]


def _rows(solution: "Solution", names: list[str]) -> dict[str, np.ndarray]:
    """Values that are one number a row."""
    found = {name: np.asarray(values) for name, values in solution.observe(list(dict.fromkeys(names))).items()}
    for name, values in found.items():
        if values.ndim == 0:
            raise ValueError(f"{name!r} is one number for the whole run, not a curve: leave the reducer out.")
    return found


def _count(solution: "Solution") -> int:
    system = solution.system
    return len(system.body_names) if isinstance(system, System) else solution.q.shape[1]


def step_edges(solution: "Solution") -> np.ndarray:
    """s, where accepted steps begin and end."""
    assert solution.steps is not None
    sizes = np.asarray(solution.steps)
    return float(solution.final.t) - np.append(np.cumsum(sizes[::-1])[::-1], 0.0)


def draw_steps(axes: "Axes", solution: "Solution") -> None:
    """Each step size over the time that the step spans, also if only a few states were saved."""
    axes.set_ylabel("step size [s]")
    if solution.steps is None:
        axes.text(0.5, 0.5, "not recorded", ha="center", va="center", transform=axes.transAxes)
        return
    sizes = np.asarray(solution.steps)
    axes.stairs(sizes, step_edges(solution), baseline=None)
    if sizes.size:
        axes.set_yscale("log")
