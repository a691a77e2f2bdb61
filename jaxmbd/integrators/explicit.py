"""Explicit methods on the state-space form: what the implicit ones are measured against, and good ones for smooth, soft mechanisms."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .._numbers import Numbers
from ..solvers.linear import solve_once
from ..system.equations import AbstractSystem, largest_contact_power
from ..system.state import State
from .base import StepInfo, Work
from .state_space.base import AbstractStateSpace, evaluate_after, read_method
from .state_space.partition import Partition, Tangent, tangent
from .state_space.reduction import Point

_STAGES = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1 / 5, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
    ]
)
"""Dormand and Prince (1980), order 5: the last stage is the result of the step."""
_ERROR = np.array([71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40])
"""Weights of order 5 minus those of the embedded method of order 4."""


class ChosenCoordinates(eqx.Module):
    """What a one-step method hands from step to step."""

    partition: Partition


class Tangents(eqx.Module):
    """Tangents that come with evaluations: searches for dependent positions begin with their factors."""

    here: Tangent
    """where the next step begins"""
    there: Tangent
    """where the last attempt ended"""

    @staticmethod
    def at(system: AbstractSystem, state: State, partition: Partition) -> "Tangents":
        here = tangent(system.recall(state.memory), state.memory, partition, state.q, state.t)
        return jax.lax.stop_gradient(Tangents(here, here))

    def accept(self, old: Partition, new: Partition) -> "Tangents":
        changed = jnp.any(old.independent != new.independent)
        # Factors for other coordinates are of no use: what is not finite asks for new ones.
        matrix = jnp.where(changed, jnp.inf, self.there.factors.matrix)
        there = eqx.tree_at(lambda t: (t.partition, t.factors.matrix), self.there, (new, matrix))
        return Tangents(there, there)


def _predict(state: State, t: Array) -> Float[Array, "q"]:
    """Positions a little later, to begin a search with."""
    ahead = t - state.t
    return state.q + ahead * state.v + 0.5 * ahead**2 * state.acceleration


def _eigenvalues(k: float, c: float) -> np.ndarray:
    """Of q'' = -k q - c q' as a first-order system."""
    return np.roots([1.0, c, k])


class DormandPrince(AbstractStateSpace):
    """The Runge-Kutta pair 5(4) of Dormand and Prince on the state-space form, for mechanisms without stiff springs.

    - `rtol`, `atol`: allowed local error of independent coordinates and of their rates (m, rad, m/s, rad/s).
    - `independent`: as for `RosenbrockNystrom`.

    ```bibtex
    @article{dormand1980family,
      title={A family of embedded {Runge-Kutta} formulae},
      author={Dormand, J. R. and Prince, P. J.},
      journal={Journal of Computational and Applied Mathematics},
      volume={6}, pages={19--26}, year={1980}
    }
    ```
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    independent: tuple[str | int, ...] | None = eqx.field(static=True)
    order: ClassVar[int] = 4
    caution: ClassVar[float] = 20.0
    name: ClassVar[str] = "dormand-prince"
    reports_power: ClassVar[bool] = True

    def __init__(self, rtol: Any = 1e-6, atol: Any = 1e-6, independent: Sequence[str | int] | None = None):
        read_method(self, rtol, atol, independent)

    def amplification(self, h, k, c):
        z, stages = h * _eigenvalues(k, c), np.ones((7, 2), complex)
        for i in range(1, 7):
            stages[i] = 1.0 + z * (_STAGES[i, :i] @ stages[:i])
        return float(np.max(np.abs(stages[-1])))

    def init(self, system: AbstractSystem, state: State) -> tuple[State, Tangents]:
        partition = self.first_partition(system, state)
        return dataclasses.replace(state, method=ChosenCoordinates(partition)), Tangents.at(system, state, partition)

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        del known
        system, partition = system.recall(state.memory), state.method.partition
        chosen, d = partition.independent, partition.independent.shape[0]
        start = jnp.concatenate([state.q[chosen], state.v[chosen], state.x])
        here = (Tangents.at(system, state, partition) if scratch is None else scratch).here

        def rate(point: Point) -> Array:
            return jnp.concatenate([point.v[chosen], point.acceleration[chosen], point.state_rate])

        def stage(carry, row):
            last, rates = carry
            i, weights = row
            t = state.t + h * jnp.sum(weights)
            moved = start + h * weights @ rates[:-1]
            point = evaluate_after(system, state, last, t, moved[:d], moved[d : 2 * d], moved[2 * d :], _predict(state, t))
            power = largest_contact_power(system, point.q, point.v, t, point.x)
            return (point, rates.at[i].set(rate(point))), power

        first = Point.of_state(state, here)
        rates = jnp.zeros((7, start.shape[0])).at[0].set(rate(first))
        (end, rates), powers = jax.lax.scan(stage, (first, rates), (jnp.arange(1, 7), jnp.asarray(_STAGES[1:])))
        error = h * _ERROR @ rates
        errors = self.errors(system, state, end, partition, error[:d], error[d : 2 * d], error[2 * d :])
        info = self.judge(state, end, here, errors, _work(end, 6), jax.lax.stop_gradient(jnp.max(powers)))
        return end.to_state(state.memory, ChosenCoordinates(self.next_partition(system, end))), Tangents(here, end.tangent), info

    def accept(self, state: State, new: State, scratch: Tangents) -> Tangents:
        return scratch.accept(state.method.partition, new.method.partition)


def _work(end: Point, evaluations: int) -> Work:
    count = jnp.asarray(evaluations, jnp.int32)
    return Work(end.iterations, jnp.zeros((), jnp.int32), end.jacobians + evaluations, count, count, count)


# --- Adams ----------------------------------------------------------------------------------------------------------------------------------

_POINTS = 4


class PastRates(eqx.Module):
    """Rates at the last steps, the newest first. They are of all coordinates, so that another partition can go on with them."""

    partition: Partition
    times: Float[Numbers, "*runs 4"]
    velocities: Float[Numbers, "*runs 4 q"]
    accelerations: Float[Numbers, "*runs 4 q"]
    state_rates: Float[Numbers, "*runs 4 x"]
    count: Int[Numbers, "*runs"]
    """how many rows are filled"""

    @staticmethod
    def begin(state: State, partition: Partition) -> "PastRates":
        first = lambda row: jnp.zeros((_POINTS, *row.shape)).at[0].set(row)  # noqa: E731
        return PastRates(
            partition, first(state.t), first(state.v), first(state.acceleration), first(state.state_rate), jnp.ones((), jnp.int32)
        )

    def push(self, end: Point, partition: Partition) -> "PastRates":
        shift = lambda rows, row: jnp.concatenate([row[None], rows[:-1]])  # noqa: E731
        return PastRates(
            partition,
            shift(self.times, end.t),
            shift(self.velocities, end.v),
            shift(self.accelerations, end.acceleration),
            shift(self.state_rates, end.state_rate),
            jnp.minimum(self.count + 1, _POINTS),
        )

    def rates(self) -> Float[Array, "4 s"]:
        chosen = self.partition.independent
        return jnp.concatenate([self.velocities[:, chosen], self.accelerations[:, chosen], self.state_rates], axis=1)


def _quadrature(nodes: Float[Array, "points"], used: Array) -> tuple[Float[Array, "points"], Float[Array, ""]]:
    """Weights w with sum w_j f(node_j) = integral of f from 0 to 1 for polynomials, and the error for the next power over its factorial.

    Nodes that are not `used` get no weight; the used ones come first.
    """
    powers = jnp.arange(nodes.shape[0])
    k = jnp.sum(used)
    lines = (used[:, None] & used[None, :]).astype(nodes.dtype) * nodes[None, :] ** powers[:, None]
    lines = lines + jnp.diag(1.0 - used)
    weights = solve_once(lines, jnp.where(used, 1.0 / (powers + 1.0), 0.0))
    next_power = k.astype(nodes.dtype)
    missed = 1.0 / (next_power + 1.0) - weights @ jnp.where(used, nodes**k, 0.0)
    return weights, missed


class AdamsPECE(AbstractStateSpace):
    """Adams-Bashforth-Moulton of order 4 in PECE mode with variable steps, on the state-space form: the explicit baseline.

    Two evaluations a step. Predictor and corrector are of order 4, their difference estimates the error (Milne). It starts with order 1 and
    gains one order a step. A stiff spring limits the step to about 1.3 over its largest eigenvalue, whatever the tolerance. The
    arguments are those of `DormandPrince`.

    ```bibtex
    @book{hairer1993solving,
      title={Solving Ordinary Differential Equations {I}: Nonstiff Problems},
      author={Hairer, E. and N{\\o}rsett, S. P. and Wanner, G.},
      note={section III.5}, year={1993}
    }
    ```
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    independent: tuple[str | int, ...] | None = eqx.field(static=True)
    order: ClassVar[int] = 4
    growth: ClassVar[float] = 2.0
    name: ClassVar[str] = "adams-pece"

    def __init__(self, rtol: Any = 1e-6, atol: Any = 1e-6, independent: Sequence[str | int] | None = None):
        read_method(self, rtol, atol, independent)

    def amplification(self, h, k, c):
        """With equal steps and a full history."""

        def radius(z: complex | float) -> float:
            now = np.eye(4)[0]
            predicted = now + z * np.array([55, -59, 37, -9]) / 24
            corrected = now + z * (9 * predicted + np.array([19, -5, 1, 0])) / 24
            return float(np.max(np.abs(np.linalg.eigvals(np.stack([corrected, *np.eye(4)[:3]])))))

        return max(radius(h * value) for value in _eigenvalues(k, c))

    def init(self, system: AbstractSystem, state: State) -> tuple[State, Tangents]:
        partition = self.first_partition(system, state)
        return dataclasses.replace(state, method=PastRates.begin(state, partition)), Tangents.at(system, state, partition)

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        del known
        system, history = system.recall(state.memory), state.method
        partition: Partition = history.partition
        chosen, d = partition.independent, partition.independent.shape[0]
        start = jnp.concatenate([state.q[chosen], state.v[chosen], state.x])
        here = (Tangents.at(system, state, partition) if scratch is None else scratch).here
        t = state.t + h
        used = jnp.arange(_POINTS) < history.count
        # Without a full history, nodes that do not count must still be different numbers.
        past = jnp.where(used, (history.times - state.t) / h, -jnp.arange(_POINTS, dtype=h.dtype))
        explicit, missed_explicit = _quadrature(past, used)
        implicit, missed_implicit = _quadrature(jnp.concatenate([jnp.ones(1), past[:-1]]), used)
        # Both rows weigh (the predicted rate, the past rates).
        weights = jnp.stack([jnp.append(0.0, explicit), jnp.append(implicit, 0.0)])

        def evaluate_row(carry, row):
            last, rate = carry
            moved = start + h * row @ jnp.concatenate([rate[None], history.rates()])
            point = evaluate_after(system, state, last, t, moved[:d], moved[d : 2 * d], moved[2 * d :], _predict(state, t))
            return (point, jnp.concatenate([point.v[chosen], point.acceleration[chosen], point.state_rate])), moved

        first = Point.of_state(state, here), jnp.zeros_like(start)
        (end, _), (predicted, corrected) = jax.lax.scan(evaluate_row, first, weights)
        error = (corrected - predicted) * missed_implicit / (missed_explicit - missed_implicit)
        errors = self.errors(system, state, end, partition, error[:d], error[d : 2 * d], error[2 * d :])
        info = self.judge(state, end, here, errors, _work(end, 2))
        return end.to_state(state.memory, history.push(end, self.next_partition(system, end))), Tangents(here, end.tangent), info

    def accept(self, state: State, new: State, scratch: Tangents) -> Tangents:
        return scratch.accept(state.method.partition, new.method.partition)
