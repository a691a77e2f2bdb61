"""What precision costs: one problem, several methods, several tolerances."""

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .integrators.base import AbstractIntegrator
from .running.saving import SaveAt
from .simulate import simulate
from .system.building.model import Model
from .system.equations import AbstractSystem

if TYPE_CHECKING:
    import xarray

_COUNTS = ("steps", "rejected", "newton_iterations", "jacobians", "force_evaluations")


def work_precision(
    model: Model | AbstractSystem,
    t1: float,
    integrators: Mapping[str, Any] | Sequence[Any],
    tolerances: Sequence[float],
    *,
    observe: str,
    reference: float | None = None,
    **options: Any,
) -> "xarray.Dataset":
    """The error of one observable at the end, and what it cost, for every method and tolerance: `mbd.view.plot_work_precision` draws it.

    - `integrators`: classes or functions that make a method of a tolerance, `[mbd.HHT, mbd.BDF]`, or a dict by name:
      `{"RN": lambda tolerance: mbd.RosenbrockNystrom(tolerance, tolerance)}`.
    - `observe`: what is compared at t1, "rod.y".
    - `reference`: its exact value; None: what the last method gives at a hundredth of the smallest tolerance.
    - `options`: further ones of `simulate`, such as `max_step`.

    Each run is done twice, so that its `seconds` are without compiling. A run that fails has the error NaN.
    """
    try:
        import xarray
    except ImportError:
        raise ImportError('work_precision needs xarray: pip install "jaxmbd[data]"') from None
    system = model.build() if isinstance(model, Model) else model
    unit = system.observable_unit(observe)
    methods = dict(integrators) if isinstance(integrators, Mapping) else {maker.__name__: maker for maker in integrators}
    sizes = np.asarray(sorted(tolerances, reverse=True), float)
    if not methods or not sizes.size or not np.all(sizes > 0):
        raise ValueError("work_precision needs at least one integrator and positive tolerances.")

    def run(name: str, tolerance: float) -> Any:
        return simulate(system, t1, integrator=_made(name, methods[name], tolerance), saveat=SaveAt(t1=True), throw=False, **options)

    if reference is None:
        exact = run(list(methods)[-1], 0.01 * sizes[-1])
        reference = float(exact.raise_if_failed().observe(observe)[-1])
    shape = (len(methods), sizes.size)
    found = {name: np.full(shape, np.nan) for name in ("error", "seconds", *_COUNTS)}
    for i, name in enumerate(methods):
        for j, tolerance in enumerate(sizes):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if j else "default")  # said once
                jax.block_until_ready(run(name, tolerance).states)
            begin = time.perf_counter()
            jax.block_until_ready((done := run(name, tolerance)).states)
            found["seconds"][i, j] = time.perf_counter() - begin
            for count in _COUNTS:
                found[count][i, j] = float(done.stats[count])
            if bool(done.succeeded):
                found["error"][i, j] = abs(float(done.observe(observe)[-1]) - reference)
    variables: dict[str, Any] = {name: (("integrator", "tolerance"), values) for name, values in found.items()}
    data = xarray.Dataset(variables, {"integrator": list(methods), "tolerance": sizes}, {"reference": reference})
    data["error"].attrs |= {"units": unit, "of": f"{observe} at {t1:g} s"}
    data["seconds"].attrs["units"] = "s"
    return data


def _made(name: str, maker: Any, tolerance: float) -> AbstractIntegrator:
    method = maker(tolerance)
    if not isinstance(method, AbstractIntegrator):
        raise ValueError(f"{name!r} must make an integrator of a tolerance, such as mbd.HHT, got {method!r}.")
    return method
