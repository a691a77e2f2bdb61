"""How observables depend on parameters, as a labelled table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import results
from ..integrators.base import AbstractIntegrator
from ..running.derivatives import Forward
from ..simulate import simulate
from ..sweep.designs import meant, spread, unit
from ..sweep.program import read_job
from ..system.building.model import Model
from ..system.system import System

if TYPE_CHECKING:
    import xarray


def sensitivities(
    model: Model | System,
    parameters: Sequence[str] | Mapping[str, Any],
    t1: float,
    *,
    observe: Any,
    integrator: AbstractIntegrator | None = None,
    saveat: Any = None,
    **options: Any,
) -> "xarray.Dataset":
    """Derivatives of observables by parameters, exact ones of the accepted steps, in forward mode: all of them in one run.

    - `parameters`: names; a star gives several parameters one value, "tyre_*.stiffness". Or values by name, {"rod.mass": [1.0, 2.0, 4.0], ...},
      one a lane, as of a sweep with design="zip": the table then has a dimension "run".
    - `observe`: names of observables, "peak:rod.y", "final:hinge.angle", or, with `saveat=times` [s], series; or functions of the solution.
    - further arguments are those of `simulate`.

    Variables are called by observables: `data["peak:rod.y"]` has the values, `data["d(peak:rod.y)"]` the derivatives on the dimension
    "parameter", and `data["relative(peak:rod.y)"]` these in per cent of the value by per cent of the parameter. `view.plot_sensitivities`
    draws bars. Components of a vector are parameters of their own, "hinge.point[0]". A run that fails has NaN.
    """
    try:
        import xarray
    except ImportError:
        raise ImportError('sensitivities needs xarray: pip install "jaxmbd[sweep]"') from None
    system = model.build() if isinstance(model, Model) else model
    lanes = dict(parameters) if isinstance(parameters, Mapping) else None
    names = [parameters] if isinstance(parameters, str) else list(parameters)
    if not names:
        raise ValueError("sensitivities needs parameters: ['spring.stiffness'].")
    for name in names:
        if len({np.shape(system.get(one)) for one in meant(system, name)}) > 1:
            raise ValueError(f"{name!r} stands for parameters of different shapes, which cannot have one value.")
    job = read_job(system, t1, observe, saveat, {"max_steps": 1_000_000, "integrator": integrator, **options, "adjoint": Forward()})
    shapes = [np.shape(system.get(meant(system, name)[0])) for name in names]
    sizes = [int(np.prod(shape)) for shape in shapes]
    labels = [name + "".join(f"[{i}]" for i in index) for name, shape in zip(names, shapes, strict=True) for index in np.ndindex(*shape)]

    def at(flat: jax.Array) -> dict[str, jax.Array]:
        parts = jnp.split(flat, np.cumsum(sizes)[:-1])
        values = {name: part.reshape(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        run = simulate(job.system.set(spread(job.system, values)), job.t1, throw=False, **job.options)
        seen = {name: value for name, value in job.seen(run).items() if jnp.issubdtype(jnp.asarray(value).dtype, jnp.inexact)}
        return {**seen, _RESULT: results.number(run.result).astype(float)}

    def one(flat: jax.Array) -> tuple[Any, Any]:
        slopes, values = jax.jacfwd(lambda x: (lambda y: (y, y))(at(x)), has_aux=True)(flat)
        return values, slopes

    if lanes is None:
        flat = np.concatenate([np.ravel(system.get(meant(system, name)[0])) for name in names])
        values, slopes = jax.jit(one)(flat)
        lead: tuple[str, ...] = ()
    else:
        columns = [np.asarray(lanes[name], float).reshape(-1, size) for name, size in zip(names, sizes, strict=True)]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("values of parameters must be as many for each: one a lane.")
        flat = np.concatenate(columns, axis=1)
        values, slopes = jax.jit(jax.vmap(one))(flat)
        lead = ("run",)
    failed = np.asarray(values.pop(_RESULT)) > 1
    slopes.pop(_RESULT)
    data: dict[str, Any] = {"failed": (lead, failed)}
    times = job.times
    for name, value in values.items():
        value, slope = np.asarray(value), np.asarray(slopes[name])
        series = ("time",) if value.ndim > len(lead) else ()
        gone = failed.reshape(failed.shape + (1,) * len(series))
        value, slope = np.where(gone, np.nan, value), np.where(gone[..., None], np.nan, slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = slope * flat.reshape(flat.shape[:-1] + (1,) * len(series) + flat.shape[-1:]) / value[..., None]
        units = job.units().get(name, "")
        data[name] = ((*lead, *series), value, {"units": units})
        data[f"d({name})"] = ((*lead, *series, "parameter"), slope, {"units": f"{units} per unit of the parameter"})
        data[f"relative({name})"] = ((*lead, *series, "parameter"), relative, {"units": "%/%"})
    own = [unit(system, name) for name, size in zip(names, sizes, strict=True) for _ in range(size)]
    coordinates: dict[str, Any] = {"parameter": labels, "parameter_unit": ("parameter", own)}
    if lanes is not None:
        coordinates["parameter_value"] = (("run", "parameter"), flat)
    if times is not None:
        coordinates["time"] = ("time", np.asarray(times), {"units": "s"})
    return xarray.Dataset(data, coordinates)


_RESULT = "result"
