"""Runs as labelled tables: xarray datasets with units, pandas data frames."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import rows
from .system.system import System

if TYPE_CHECKING:
    import pandas
    import xarray

    from .solution import Solution


def to_xarray(solution: "Solution", observe: str | Sequence[str] | None = None) -> "xarray.Dataset":
    try:
        import xarray
    except ImportError:
        raise ImportError('to_xarray needs xarray: pip install "jaxmbd[data]"') from None
    if observe is None and isinstance(solution.system, System):
        variables, coordinates = _motion(solution, solution.system)
        chosen = [f"energy.{part}" for part in ("kinetic", "potential", "total")]
    else:
        variables, coordinates = {}, {}
        chosen = names(solution, observe)
    for name, values in solution.observe(chosen).items():
        array = np.asarray(values)
        variables[name] = ("time" if array.ndim else (), array, {"units": solution.system.observable_unit(name)})
    coordinates["time"] = ("time", np.asarray(solution.ts), {"units": "s"})
    about = {"result": solution.message} | {f"stats.{name}": int(value) for name, value in solution.stats.items()}
    return xarray.Dataset(variables, coordinates, about)


def to_dataframe(solution: "Solution", observe: str | Sequence[str] | None = None) -> "pandas.DataFrame":
    try:
        import pandas
    except ImportError:
        raise ImportError('to_dataframe needs pandas: pip install "jaxmbd[data]"') from None
    chosen = names(solution, observe)
    columns = {name: np.asarray(values) for name, values in solution.observe(chosen).items()}
    for name, values in columns.items():
        if values.ndim == 0:
            raise ValueError(f"{name!r} is one number for the whole run, not a column: leave the reducer out.")
    frame = pandas.DataFrame(columns, index=pandas.Index(np.asarray(solution.ts), name="time"))
    frame.attrs["units"] = {"time": "s"} | {name: solution.system.observable_unit(name) for name in chosen}
    return frame


def names(solution: "Solution", observe: str | Sequence[str] | None) -> list[str]:
    """Those given; by default where bodies are, how joints stand, the total energy; of equations all coordinates."""
    if observe is not None:
        return [observe] if isinstance(observe, str) else list(observe)
    system = solution.system
    if not isinstance(system, System):
        return [name for name, (table, *_) in system.owners().items() if not name for name in table] + ["energy.total"]
    found = []
    for owner, (table, *_) in system.owners().items():
        wanted = ("x", "y", "z", "angle", "e0", "e1", "e2", "e3") if owner in system.body_names else ()
        if owner in system.row_slices():
            wanted = ("angle", "angle1", "angle2", "travel", "travel1", "travel2")
        found += [f"{owner}.{name}" for name in wanted if name in table]
    return [*found, "energy.total"]


def _motion(solution: "Solution", system: System) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of all bodies, along named dimensions. Point masses have no orientation (NaN)."""
    planar, bodies = system.planar, list(system.body_names)
    d, frames = 2 if planar else 3, solution._rowwise(rows.frames)
    position, velocity, spin = (np.array(part)[:, : len(bodies)] for part in (frames.position, frames.velocity, frames.angular_velocity))
    vector = ("time", "body", "axis")
    variables: dict[str, Any] = {
        "position": (vector, position[..., :d], {"units": "m"}),
        "velocity": (vector, velocity[..., :d], {"units": "m/s"}),
    }
    coordinates: dict[str, Any] = {"body": bodies, "axis": list("xyz"[:d])}
    turns = np.full((len(position), len(bodies), 1 if planar else 4), np.nan)
    for name, (group, _, where) in system.body_slices().items():
        width = where.stop - where.start - d  # of deforming bodies more follows
        if group.body.has_orientation and width >= turns.shape[2]:
            turns[:, bodies.index(name)] = np.asarray(solution.q)[:, where.start + d : where.start + d + turns.shape[2]]
        elif not group.body.has_orientation:
            spin[:, bodies.index(name)] = np.nan
    if planar:
        variables["angle"] = (vector[:2], turns[..., 0], {"units": "rad"})
        variables["angular_velocity"] = (vector[:2], spin[..., 2], {"units": "rad/s"})
    else:
        variables["rotation"] = (
            (*vector, "body_axis"),
            np.asarray(frames.rotation)[:, : len(bodies)],
            {"units": "1", "long_name": "matrix that turns the body's axes into the ground's"},
        )
        variables["orientation"] = (
            (*vector[:2], "parameter"),
            turns,
            {"units": "1", "long_name": "Euler parameters; NaN of bodies without"},
        )
        variables["angular_velocity"] = (vector, spin, {"units": "rad/s"})
        coordinates |= {"parameter": ["e0", "e1", "e2", "e3"], "body_axis": list("xyz")}
    return variables, coordinates
