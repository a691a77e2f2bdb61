"""`optimize`: parameters that make a number of a run small, for design instead of measurement."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.stats import qmc
from tqdm import tqdm

from ..integrators.base import AbstractIntegrator
from ..running.derivatives import Forward
from ..running.options import expect_type
from ..simulate import simulate
from ..sweep.designs import spread
from ..sweep.program import read_job
from ..system.building.model import Model
from ..system.system import System
from .unknowns import read_parameters


@dataclasses.dataclass
class Optimum:
    """The best design that was found, and the way there."""

    values: dict[str, float]
    objective: float
    start: float
    """the objective of the model as it was given; NaN if its run failed"""
    history: np.ndarray
    """(iterations, lanes), the objective of each descent; NaN where a run failed"""
    evaluations: int
    """runs with derivatives"""
    failed_runs: int
    system: System
    """with the values that were found"""

    def __str__(self) -> str:
        found = ", ".join(f"{name} = {value:.6g}" for name, value in self.values.items())
        return f"{self.start:.6g} -> {self.objective:.6g} with {found} ({self.evaluations} runs, {self.failed_runs} failed)"


def optimize(
    model: Model | System,
    parameters: Mapping[str, Any],
    objective: str | Callable[[Any], Any],
    t1: float,
    *,
    starts: int = 32,
    lanes: int = 4,
    iterations: int = 60,
    optimizer: optax.GradientTransformation | None = None,
    integrator: AbstractIntegrator | None = None,
    saveat: Any = None,
    progress: bool = True,
    **options: Any,
) -> Optimum:
    """Makes a number of a run as small as it gets between bounds: gradient descent from the best of many starts, all lanes as one batch.

    - `parameters`: as of `calibrate`, with two bounds each, (low, high) or (low, high, "log"), ties included.
    - `objective`: the name of an observable that is one number, "peak:rod.y", or a function of the solution that gives one.
    - `starts`: points between the bounds, evenly by Sobol's sequence, the model's own values first; the best `lanes` of them descend.
    - `optimizer`: of optax, for coordinates from 0 to 1 between the bounds; None: Adam, with a rate that falls from 0.05 to nothing.
    - further arguments are those of `simulate`.

    A run that fails counts as worse than any other, and its lane goes back to where it was best.
    """
    system = model.build() if isinstance(model, Model) else model
    expect_type("model", system, System, "an mbd.Model or the System that it builds: an optimisation needs parameters with names")
    unknowns = read_parameters(system, parameters)
    low, high = unknowns.bounds
    for one, a, b in zip(unknowns.each, low, high, strict=True):
        if not np.isfinite(a + b):
            raise ValueError(f"{one.name!r} has no bounds: starts lie between two, (low, high).")
    job = read_job(system, t1, objective, saveat, {"max_steps": 1_000_000, "integrator": integrator, **options, "adjoint": Forward()})
    fall = optax.cosine_decay_schedule(0.05, max(iterations, 1))
    descent = optax.adam(fall) if optimizer is None else optimizer

    def value(share: jax.Array) -> tuple[jax.Array, jax.Array]:
        named = {name: part for name, part in unknowns.values(jnp.asarray(low + (high - low) * share)).items() if "." in name}
        run = simulate(job.system.set(spread(job.system, named)), job.t1, throw=False, **job.options)
        seen = list(job.seen(run).values())
        if len(seen) != 1 or seen[0].ndim > 0:
            raise ValueError("the objective must be one number: 'peak:rod.y', or a function that gives one.")
        return seen[0], seen[0]

    @jax.jit
    @jax.vmap
    def evaluate(share: jax.Array) -> tuple[jax.Array, jax.Array]:
        slope, found = jax.jacfwd(value, has_aux=True)(share)
        fine = jnp.isfinite(found) & jnp.all(jnp.isfinite(slope))
        return jnp.where(fine, found, jnp.nan), jnp.where(fine, slope, 0.0)

    own = (unknowns.start - low) / (high - low)
    places = qmc.Sobol(low.size, seed=0).random_base2(max(starts - 1, 1).bit_length())[: max(starts - 1, 0)]  # pyright: ignore[reportCallIssue]
    points = np.concatenate([own[None], places])
    filled = np.concatenate([points, np.repeat(points[-1:], -len(points) % lanes, axis=0)])
    costs = np.concatenate([np.asarray(evaluate(part)[0]) for part in np.split(filled, len(filled) // lanes)])[: len(points)]
    if not np.any(np.isfinite(costs)):
        raise ValueError(f"all {len(points)} runs failed: simulate(model, {t1:g}) tells why; take other bounds, or help the integrator.")
    order = [i for i in np.argsort(np.where(np.isfinite(costs), costs, np.inf)) if np.isfinite(costs[i])]
    share = jnp.asarray(points[[order[k % len(order)] for k in range(lanes)]])
    state = jax.vmap(descent.init)(share)
    best, least = np.asarray(share).copy(), np.full(lanes, np.inf)
    history, failed = [], int(np.sum(~np.isfinite(costs)))
    try:
        for _ in tqdm(range(iterations), desc="optimize", unit="step", disable=not progress):
            found, slope = evaluate(share)
            now = np.asarray(found)
            history.append(now)
            failed += int(np.sum(~np.isfinite(now)))
            better = now < least
            best[better], least[better] = np.asarray(share)[better], now[better]
            # Lanes may differ by orders of magnitude.
            size = jnp.linalg.norm(slope, axis=1, keepdims=True)
            step, state = jax.vmap(descent.update)(slope / jnp.where(size > 0, size, 1.0), state, share)
            moved = jnp.asarray(optax.apply_updates(share, step))
            share = jnp.clip(jnp.where(~jnp.isfinite(found)[:, None], best, moved), 0.0, 1.0)
    except KeyboardInterrupt:
        pass
    if not history:
        best, least = np.asarray(share), np.asarray(evaluate(share)[0])
    lane = int(np.nanargmin(least))
    u = low + (high - low) * best[lane]
    named = {name: np.asarray(part) for name, part in unknowns.values(jnp.asarray(u)).items() if "." in name}
    values, evaluations = unknowns.shown(u), len(filled) + lanes * len(history)
    found_system = system.set(spread(system, named))
    return Optimum(values, float(least[lane]), float(costs[0]), np.array(history), evaluations, failed, found_system)
