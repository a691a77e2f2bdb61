"""Where the energy goes, what contacts do, how a run was stepped."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..system.observing.reactions import contact_places
from ..system.system import System
from .figures import column, draw, finish, largest, name_lines, new_figure
from .plots import draw_steps, one_run, plot_observed, step_edges

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..solution import Solution


def plot_named(solution: "Solution", names: Sequence[str], path: str | Path | None = None) -> "Figure":
    """What `solution.plot` draws."""
    whole = {"energy": plot_energy, "steps": plot_steps}
    if len(names) == 1 and names[0] in whole:
        return whole[names[0]](solution, path)
    one_run(solution, "plot")
    system = solution.system
    if len(names) == 1 and isinstance(system, System) and names[0] in contact_places(system):
        return plot_contact(solution, names[0], path)
    return plot_observed(solution, list(names) or None, path)


def plot_energy(solution: "Solution", path: str | Path | None = None) -> "Figure":
    """The balance of energy: what there is; what motors and loads supply and dampers and friction take, with the change of the total, which is
    their sum; and what is left, which is numerical. Save steps, or times as dense: work is integrated along the rows."""
    one_run(solution, "plot_energy")
    times, energy = np.asarray(solution.ts), solution.energy()
    supplied = {name: np.asarray(work.supplied) for name, work in solution.work().items()}
    change = np.asarray(energy.total) - np.asarray(energy.total)[0]
    threshold = 1e-12 * max([float(np.max(np.abs(part))) for part in (energy.kinetic, energy.potential)] + [1e-300])
    working = largest({name: values for name, values in supplied.items() if np.max(np.abs(values)) > threshold})
    figure = new_figure(path, (9, 7.5))
    panels = column(figure, 3)
    draw(panels[0], times, energy._asdict(), "energy [J]")
    for name, values in working.items():
        panels[1].plot(times, values, label=name)
    panels[1].plot(times, change, "k--", lw=1.2, label="change of the total")
    panels[1].set_ylabel("supplied [J]")
    name_lines(panels[1])
    panels[2].plot(times, change - np.sum(list(supplied.values()), axis=0), color="C3")
    panels[2].set_ylabel("numerical error [J]")
    return finish(figure, path)


def plot_steps(solution: "Solution", path: str | Path | None = None) -> "Figure":
    """Step size, order where it varies, and the largest violation of the constraints, over time."""
    one_run(solution, "plot_steps")
    has_orders = solution.orders is not None and solution.steps is not None
    violation = np.asarray(solution.constraint_violation())
    figure = new_figure(path, (9, 6.5 if has_orders else 5.0))
    panels = column(figure, 3 if has_orders else 2)
    draw_steps(panels[0], solution)
    stats = solution.stats
    panels[0].set_title(
        f"{stats['steps']} steps, {stats['rejected']} rejected, {stats['newton_iterations']} Newton iterations",
        fontsize="medium",
        loc="left",
    )
    if has_orders:
        panels[1].stairs(np.asarray(solution.orders), step_edges(solution), baseline=None)
        panels[1].set_ylabel("order")
        panels[1].locator_params(axis="y", integer=True)
    if violation.max(initial=0.0) > 0:
        panels[-1].semilogy(np.asarray(solution.ts), np.where(violation > 0, violation, np.nan), ".-", ms=3)
    else:
        panels[-1].text(0.5, 0.5, "none", ha="center", va="center", transform=panels[-1].transAxes)
    panels[-1].set_ylabel("constraint violation\n[m or rad]")
    return finish(figure, path)


def plot_contact(solution: "Solution", name: str, path: str | Path | None = None) -> "Figure":
    """Gap, normal and friction force, slip, and the power on both bodies; of a group of contacts, smallest gap, sums of forces, largest slip."""
    one_run(solution, "plot_contact")
    times, loads = np.asarray(solution.ts), solution.contact(name)
    gap, normal, slip = (np.asarray(part).reshape(times.size, -1) for part in (loads.gap, loads.normal_force, loads.slip_speed))
    friction = np.asarray(loads.friction)
    sizes = np.abs(friction) if friction.shape == np.shape(loads.gap) else np.linalg.norm(friction, axis=-1)
    power = np.asarray(loads.power).reshape(times.size, -1, 2).sum(axis=1)
    several = gap.shape[1] > 1
    figure = new_figure(path, (9, 8))
    panels = column(figure, 4)
    draw(panels[0], times, {"smallest gap" if several else "gap": gap.min(axis=1)}, "gap [m]")
    panels[0].axhline(0.0, color="0.3", lw=0.8)
    forces = {"normal": normal.sum(axis=1), "friction": sizes.reshape(times.size, -1).sum(axis=1)}
    draw(panels[1], times, forces, "force [N]" + (", sum" if several else ""))
    draw(panels[2], times, {"largest slip" if several else "slip": slip.max(axis=1)}, "slip [m/s]")
    both = {"on the first body": power[:, 0], "on the second": power[:, 1], "together": power.sum(axis=1)}
    draw(panels[3], times, both, "power [W]")
    return finish(figure, path)
