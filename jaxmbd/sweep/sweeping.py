"""`sweep`, as users ask for it."""

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import results
from ..integrators.base import AbstractIntegrator
from ..running.options import expect_type
from ..simulate import simulate
from ..system.building.model import Model
from ..system.parameters import unknown
from ..system.system import System
from .chunks import Chunks, Progress, choose_program, run_chunks
from .cluster import remote_program
from .designs import RUN, Table, read_design, unit
from .program import STATISTICS, Job, read_job
from .store import begun, open_store

if TYPE_CHECKING:
    import dask.distributed as distributed
    import xarray

_OWN = ("model", "t1", "integrator", "saveat", "progress", "adjoint", "throw")
_OPTIONS = tuple(name for name in inspect.signature(simulate).parameters if name not in _OWN)
"""arguments of `simulate` that a sweep hands on"""
_MOST_STEPS = 1_000_000


def sweep(
    model: Model | System,
    parameters: Any,
    t1: float,
    *,
    observe: Any,
    integrator: AbstractIntegrator | None = None,
    design: Any = "grid",
    saveat: Any = None,
    chunk: int | None = None,
    store: str | Path | None = None,
    progress: bool = True,
    client: "distributed.Client | None" = None,
    **options: Any,
) -> "xarray.Dataset":
    """Runs a mechanism with many values of its parameters, from 0 to t1 [s], and gives an `xarray.Dataset`: a variable for each observable,
    with its unit, and for each run `result`, `time_reached` [s], `steps` and `rejected`.

    - `parameters`: values by name, `{"spring.stiffness": [100.0, 200.0], "rod.mass": np.linspace(1, 5, 20)}`. A star stands for any letters:
      "tyre_*.stiffness" gives all tyres the same value.
    - `design`: "grid" for all combinations, with a dimension for each parameter; "zip" for one run a row of the values;
      `mbd.LatinHypercube(runs)` or `mbd.Sobol(runs)`, for which parameters have bounds (low, high); or a table itself, a data frame or
      dictionary of columns, or an array with one row a run, of which `parameters` lists the names of columns. All but "grid" have the one
      dimension "run", and the values as coordinates.
    - `observe`: names of observables (`system.observable_names()`), "peak:rod.y" or "final:hinge.angle" for one number a run, "rod.y" for one
      at each of the times `saveat` [s], on the dimension "time"; or functions of the solution that give such a number, or a dictionary of
      them. Only what is observed is kept. Reducers and functions look at the times `saveat`, or, without, at 257 times from start to end;
      `final:` needs the end only.
    - `chunk`: runs at once, in one compiled program that serves all chunks. By default from the memory there is and a short measurement.
    - `store`: a folder, such as "sweep.zarr", that keeps every chunk as soon as it is done. Called again with the same arguments, after a crash
      or a kill at whatever moment, the sweep goes on where it was, and its result is the same bit for bit. A damaged chunk is run again. A
      folder of another sweep, or of another version of jaxmbd or JAX, is refused. `xarray.open_zarr` opens it, one row a run.
    - `progress`: shows how many runs are done, their rate, and the time that is left.
    - `client`: a `dask.distributed.Client`, whose workers run the chunks, each on its own devices with a program that it compiles once. Chunks
      of a worker that is lost are run by others.
    - further arguments are those of `simulate`: t0, initial, step, until, first_step, min_step, max_step, controller, kernels, max_steps.

    A run that fails has its code in `result` (0 for success; `flag_meanings` has the sentences), and NaN for what it did not reach; all
    others are what they would be without it, bit for bit. A value out of its parameter's range is an error before anything runs.
    """
    xarray = _needs_xarray()
    system = model.build() if isinstance(model, Model) else model
    expect_type("model", system, System, "an mbd.Model or the System that it builds: a sweep needs parameters with names")
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"sweep: {unknown('argument', name, _OPTIONS)}")
    table = read_design(system, parameters, design)
    job = read_job(system, t1, observe, saveat, {"max_steps": _MOST_STEPS, "integrator": integrator, **options})
    kept = None if store is None else begun(store)
    if kept is not None:
        kept.expect(job, table)
    width = chunk if kept is None else kept.chunk(chunk)
    with Progress(progress, table.runs) as bar:
        if client is None:
            program = choose_program(job, table.columns, width, begun=kept is not None)
        else:
            program = remote_program(client, job, table.columns, width)
        disk = None if store is None else open_store(store, kept, job, table, program.program)
        bar.compiled()
        found = run_chunks(Chunks(program, table.columns), bar, disk)
    return _dataset(xarray, job, table, found)


def _needs_xarray() -> Any:
    try:
        import threadpoolctl  # noqa: F401  # needed later: what is missing is told before anything is compiled
        import xarray
    except ImportError:
        raise ImportError('sweep needs xarray, zarr and threadpoolctl: pip install "jaxmbd[sweep]"') from None
    return xarray


def _dataset(xarray: Any, job: Job, table: Table, found: dict[str, np.ndarray]) -> "xarray.Dataset":
    """Named dimensions around what was found, one row a run."""
    shape, dimensions = tuple(table.dimensions.values()), tuple(table.dimensions)
    units = {name: {"units": unit(job.system, name)} for name in table.columns}
    coordinates: dict[str, Any]
    if table.axes is not None:
        coordinates = {name: (name, values, units[name]) for name, values in table.axes.items()}
    else:
        coordinates = {
            name: ((RUN, *(f"{name}.{axis}" for axis in "ij"[: values.ndim - 1])), values, units[name])
            for name, values in table.columns.items()
        }
    if job.times is not None:
        coordinates["time"] = ("time", job.times, {"units": "s"})
    attributes: dict[str, dict[str, Any]] = {name: {"units": unit} for name, unit in job.units().items()} | {
        name: {"long_name": text} for name, text in STATISTICS.items()
    }
    sentences = results.sentences()
    attributes["result"] |= {"flag_values": list(range(len(sentences))), "flag_meanings": sentences}
    order = [*(name for name in job.observe if isinstance(name, str)), *(name for name in found if name not in STATISTICS), *STATISTICS]
    variables = {
        name: ((*dimensions, *("time",)[: values.ndim - 1]), values.reshape(*shape, *values.shape[1:]), attributes.get(name, {}))
        for name, values in ((name, found[name]) for name in dict.fromkeys(order))
    }
    return xarray.Dataset(variables, coordinates)
