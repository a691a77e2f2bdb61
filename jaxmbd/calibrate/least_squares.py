"""Least squares by Levenberg and Marquardt, for unknowns that all experiments share and some that each has for itself.

    | A       B_1   B_2  ... |  | du   |     | b   |
    | B_1^T   C_1            |  | dw_1 |  =  | c_1 |         eliminated block by block: as many equations as shared unknowns remain
    | B_2^T         C_2      |  | dw_2 |     | c_2 |

optimistix's method knows neither blocks nor bounds, nor runs that fail, nor a pause; hence a loop of our own, on the host: an iteration is one
call of a compiled program, and dwarfs the algebra here.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LOSSES = ("squares", "huber", "student")
_HUBER = 1.345
"""standard deviations; 95 % as efficient as squares where noise is Gaussian"""
_STUDENT = 4.0
"""degrees of freedom"""
_STALLED = 1e10
"""damping at which nobody hopes for a step"""
_NOISE = 1e-4
"""part of the cost that may come from steps of an integrator that are chosen anew"""


class Point(NamedTuple):
    """Where a search is: unknowns, and what the model says there. Lists go over groups of experiments."""

    u: np.ndarray
    own: list[np.ndarray]
    """(experiments, own unknowns)"""
    errors: list[np.ndarray]
    """(experiments, channels, rows), model less measurement, zero where there is none"""
    slopes: list[np.ndarray]
    """(experiments, channels, rows, shared and own unknowns)"""
    failed: list[np.ndarray]
    """(experiments): codes of runs, zero if they succeeded"""

    @property
    def ok(self) -> bool:
        return not any(np.any(codes) for codes in self.failed)


class Data(NamedTuple):
    """What does not change during a search."""

    present: list[np.ndarray]
    """(experiments, channels, rows)"""
    noise: list[np.ndarray]
    """(experiments, channels): known standard deviations, NaN where they are to be estimated"""
    bounds: tuple[np.ndarray, np.ndarray]
    own_bounds: list[tuple[np.ndarray, np.ndarray]]
    prior: tuple[np.ndarray, np.ndarray]
    """(mean, 1 / standard deviation)"""
    own_prior: list[tuple[np.ndarray, np.ndarray]]
    loss: str
    scales: np.ndarray
    """of channels, how much they vary"""


class Normal(NamedTuple):
    """Normal equations."""

    a: np.ndarray
    b: np.ndarray
    cross: list[np.ndarray]
    """B, (experiments, shared, own)"""
    c: list[np.ndarray]
    right: list[np.ndarray]
    """c on the right, (experiments, own)"""


def weights(loss: str, s: np.ndarray) -> np.ndarray:
    """rho'(s) / s of residuals in standard deviations."""
    if loss == "huber":
        return np.minimum(1.0, _HUBER / np.maximum(np.abs(s), 1e-300))
    return (_STUDENT + 1) / (_STUDENT + s**2) if loss == "student" else np.ones_like(s)


def rho(loss: str, s: np.ndarray) -> np.ndarray:
    if loss == "huber":
        return np.where(np.abs(s) <= _HUBER, 0.5 * s**2, _HUBER * (np.abs(s) - 0.5 * _HUBER))
    return 0.5 * (_STUDENT + 1) * np.log1p(s**2 / _STUDENT) if loss == "student" else 0.5 * s**2


def sigmas(data: Data, levels: np.ndarray) -> list[np.ndarray]:
    """Standard deviations (experiments, channels, 1), where unknown by channel."""
    return [np.where(np.isnan(known), levels[None], known)[..., None] for known in data.noise]


def cost(data: Data, point: Point, levels: np.ndarray) -> float:
    """Half the sum of squares, in standard deviations, or of what the loss makes of them, priors included."""
    if not point.ok:
        return float("inf")
    total = 0.0
    for errors, present, sigma in zip(point.errors, data.present, sigmas(data, levels), strict=True):
        total += float(np.sum(present * rho(data.loss, errors / sigma)))
    total += 0.5 * float(np.sum((data.prior[1] * (point.u - data.prior[0])) ** 2))
    for own, (mean, weight) in zip(point.own, data.own_prior, strict=True):
        total += 0.5 * float(np.sum((weight * (own - mean)) ** 2))
    return total if np.isfinite(total) else float("inf")


def estimated(data: Data, point: Point, levels: np.ndarray) -> np.ndarray:
    """Standard deviations of channels, from what remains."""
    squares, counts = np.zeros_like(levels), np.zeros_like(levels)
    for errors, present, known, sigma in zip(point.errors, data.present, data.noise, sigmas(data, levels), strict=True):
        open_ = present * np.isnan(known)[..., None]
        squares += np.sum(open_ * weights(data.loss, errors / sigma) * errors**2, axis=(0, 2))
        counts += np.sum(open_, axis=(0, 2))
    floor = 1e-12 * np.max(np.sqrt(squares / np.maximum(counts, 1.0)), initial=1e-300)
    return np.where(counts > 0, np.maximum(np.sqrt(squares / np.maximum(counts, 1.0)), floor), levels)


def normal_equations(data: Data, point: Point, levels: np.ndarray, priors: bool = True) -> Normal:
    shared = point.u.size
    a, b = np.zeros((shared, shared)), np.zeros(shared)
    cross, c, right = [], [], []
    for errors, slopes, present, sigma in zip(point.errors, point.slopes, data.present, sigmas(data, levels), strict=True):
        weight = present * weights(data.loss, errors / sigma) / sigma**2
        count = errors.shape[0]
        flat = slopes.reshape(count, -1, slopes.shape[-1])
        weighted = flat * weight.reshape(count, -1, 1)
        products = np.matmul(np.swapaxes(weighted, 1, 2), flat)
        pull = np.einsum("erk,er->ek", weighted, errors.reshape(count, -1))
        a += np.sum(products[:, :shared, :shared], axis=0)
        b -= np.sum(pull[:, :shared], axis=0)
        cross.append(products[:, :shared, shared:])
        c.append(products[:, shared:, shared:])
        right.append(-pull[:, shared:])
    if priors:
        a += np.diag(data.prior[1] ** 2)
        b -= data.prior[1] ** 2 * (point.u - data.prior[0])
        for i, (own, (mean, weight)) in enumerate(zip(point.own, data.own_prior, strict=True)):
            c[i] = c[i] + weight[:, :, None] ** 2 * np.eye(own.shape[1])
            right[i] = right[i] - weight**2 * (own - mean)
    return Normal(a, b, cross, c, right)


def _held(at: np.ndarray, bounds: tuple[np.ndarray, np.ndarray], downhill: np.ndarray) -> np.ndarray:
    """Those at a bound that would leave it outwards."""
    low, high = bounds
    return ((at <= low) & (downhill < 0)) | ((at >= high) & (downhill > 0))


def damped_step(data: Data, point: Point, normal: Normal, damping: float, fixed: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """(du, dw), each diagonal enlarged by a share of itself. Unknowns stay within their bounds, and those that are fixed where they are."""
    a, b, reduced = normal.a + damping * np.diag(_positive(np.diagonal(normal.a))), normal.b, []
    for own, bounds, cross, c, right in zip(point.own, data.own_bounds, normal.cross, normal.c, normal.right, strict=True):
        if own.shape[1] == 0:
            reduced.append(None)
            continue
        still = _held(own, bounds, right)
        c = c * ~(still[:, :, None] | still[:, None, :])
        diagonal = np.where(still, 1.0, _positive((1.0 + damping) * np.diagonal(c, axis1=1, axis2=2)))
        c = c + (diagonal - np.diagonal(c, axis1=1, axis2=2))[:, :, None] * np.eye(own.shape[1])
        cross = cross * ~still[:, None, :]
        right = np.where(still, 0.0, right)
        solved = np.linalg.solve(c, np.concatenate([np.swapaxes(cross, 1, 2), right[:, :, None]], axis=2))
        a = a - np.sum(np.matmul(cross, solved[:, :, :-1]), axis=0)
        b = b - np.einsum("eso,eo->s", cross, solved[:, :, -1])
        reduced.append(solved)
    du = _within(a, b, data.bounds[0] - point.u, data.bounds[1] - point.u, fixed)
    dw = []
    for own, solved in zip(point.own, reduced, strict=True):
        dw.append(np.zeros_like(own) if solved is None else solved[:, :, -1] - solved[:, :, :-1] @ du)
    return du, dw


def _within(a: np.ndarray, b: np.ndarray, low: np.ndarray, high: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """The x with a x = b, except for those that would leave their bounds: these stop there, and the others make the best of it."""
    x, open_ = np.zeros_like(b), ~fixed
    while np.any(open_):
        scale = 1.0 / np.sqrt(_positive(np.diagonal(a)[open_]))
        matrix = a[np.ix_(open_, open_)] * scale[:, None] * scale[None, :]
        x[open_] = scale * np.linalg.lstsq(matrix, scale * (b[open_] - a[np.ix_(open_, ~open_)] @ x[~open_]), rcond=1e-14)[0]
        beyond = open_ & ((x < low) | (x > high))
        if not np.any(beyond):
            break
        x[beyond] = np.clip(x, low, high)[beyond]
        open_ = open_ & ~beyond
    return x


def _positive(diagonal: np.ndarray) -> np.ndarray:
    return np.where(diagonal > 0, diagonal, 1e-30)


class Search(NamedTuple):
    """How a search ended."""

    point: Point
    levels: np.ndarray
    cost: float
    history: list[dict[str, float]]
    evaluations: int
    failed_runs: int
    result: str


def search(
    evaluate: Callable[[np.ndarray, list[np.ndarray]], Point],
    data: Data,
    point: Point,
    *,
    levels: np.ndarray,
    iterations: int,
    tolerance: float,
    fixed: np.ndarray | None = None,
    longest: np.ndarray,
    tell: Callable[[dict[str, float]], None] = lambda row: None,
) -> Search:
    """From a point whose runs succeeded, to where no step makes the cost smaller. `longest`: of a step, by shared unknown."""
    fixed = np.zeros(point.u.size, bool) if fixed is None else fixed
    levels = estimated(data, point, levels)
    now, damping, evaluations, failed = cost(data, point, levels), 1e-3, 1, 0
    history = [_row(data, point, now, damping)]
    tell(history[-1])
    result = "stopped after as many iterations as were allowed"
    try:
        for _ in range(iterations):
            normal = normal_equations(data, point, levels)
            better = None
            while better is None and damping < _STALLED:
                u, own, foreseen = _try(data, point, normal, damping, fixed, longest)
                if foreseen <= tolerance * max(now, 1e-300) and damping <= 1.0:
                    break
                trial = evaluate(u, own)
                evaluations += 1
                failed += sum(int(np.count_nonzero(codes)) for codes in trial.failed)
                new = cost(data, trial, levels)
                gain = (now - new) / foreseen if foreseen > 0 and np.isfinite(new) else -1.0
                if new < now:
                    better = trial
                    damping = max(damping * (0.1 if gain > 0.75 else 1.0 if gain > 0.25 else 3.0), 1e-12)
                else:
                    damping *= 5.0
            if better is None:
                *_, promised = _try(data, point, normal, 1e-3, fixed, longest)
                if promised > _NOISE * now:
                    result = "stalled: no step makes the misfit smaller, though derivatives promise it; tighten the tolerances of the runs"
                else:
                    result = "converged"
                break
            changed = estimated(data, better, levels)
            settled = np.all(np.abs(changed - levels) <= 1e-3 * levels)
            point, before = better, now
            levels, now = changed, cost(data, better, changed)
            history.append(_row(data, point, now, damping))
            tell(history[-1])
            if settled and abs(before - new) <= tolerance * max(before, 1e-300):
                result = "converged"
                break
    except KeyboardInterrupt:
        result = "interrupted"
    return Search(point, levels, now, history, evaluations, failed, result)


def _try(
    data: Data, point: Point, normal: Normal, damping: float, fixed: np.ndarray, longest: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray], float]:
    """(u, own, decrease of the cost in the quadratic model)"""
    du, dw = damped_step(data, point, normal, damping, fixed)
    share = np.min(longest / np.maximum(np.abs(du), 1e-300), initial=1.0)
    u = np.clip(point.u + share * du, *data.bounds)
    own = [np.clip(w + share * part, *bounds) for w, part, bounds in zip(point.own, dw, data.own_bounds, strict=True)]
    return u, own, _foreseen(normal, u - point.u, [b - a for a, b in zip(point.own, own, strict=True)])


def _foreseen(normal: Normal, du: np.ndarray, dw: list[np.ndarray]) -> float:
    """The decrease of the cost in the quadratic model."""
    linear, quadratic = normal.b @ du, du @ normal.a @ du
    for own, cross, c, right in zip(dw, normal.cross, normal.c, normal.right, strict=True):
        linear += np.sum(right * own)
        quadratic += np.einsum("eo,eop,ep->", own, c, own) + 2 * np.einsum("s,eso,eo->", du, cross, own)
    return float(linear - 0.5 * quadratic)


def _row(data: Data, point: Point, now: float, damping: float) -> dict[str, float]:
    """What is told of a step. The misfit is relative to how much channels vary: noise levels, which are estimated anew, are not in it."""
    squares = sum(
        float(np.sum(present * (errors / data.scales[None, :, None]) ** 2))
        for errors, present in zip(point.errors, data.present, strict=True)
    )
    count = sum(float(np.sum(present)) for present in data.present)
    return {"cost": now, "misfit": float(np.sqrt(squares / max(count, 1.0))), "damping": damping}
