"""What data say of parameters: covariance, and combinations that they do not determine, in words."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .least_squares import Data, Point, normal_equations, sigmas, weights
from .unknowns import Unknown

_UNKNOWN = 0.5
"""A combination is called undetermined if its standard deviation, relative to the parameters themselves, is larger than this."""

_ROUNDING = 1e-16
"""Information that is less than this part of the largest is none."""


class Information(NamedTuple):
    """About the shared unknowns, in the coordinates of the search."""

    covariance: Float[np.ndarray, "unknowns unknowns"]
    """with priors; infinite variances where nothing is known"""
    own: list[np.ndarray]
    """standard deviations of each experiment's own unknowns"""
    undetermined: tuple[str, ...]
    """sentences"""


def root(data: Data, point: Point, levels: np.ndarray, priors: bool) -> Float[np.ndarray, "rows unknowns"]:
    """A square root R of the information R^T R about shared unknowns, when each experiment's own may be anything. Differences of squares would
    leave rounding errors where there is no information."""
    shared, parts = point.u.size, [np.diag(data.prior[1])] if priors else []
    for slopes, errors, present, sigma, (_, own_weight) in zip(
        point.slopes, point.errors, data.present, sigmas(data, levels), data.own_prior, strict=True
    ):
        scale = np.sqrt(present * weights(data.loss, errors / sigma)) / sigma
        for one, factor, prior in zip(slopes, scale, own_weight, strict=True):
            rows = (one * factor[..., None]).reshape(-1, one.shape[-1])
            if priors and prior.size:
                rows = np.concatenate([rows, np.pad(np.diag(prior), ((0, 0), (shared, 0)))])
            common, own = rows[:, :shared], rows[:, shared:]
            if own.shape[1]:
                basis, values, _ = np.linalg.svd(own / np.maximum(np.linalg.norm(own, axis=0), 1e-300), full_matrices=False)
                basis = basis[:, values > 1e-10 * max(float(values[0]), 1e-300)]
                for _ in range(2):  # once more, for what rounding left
                    common = common - basis @ (basis.T @ common)
            parts.append(_triangle(common))
    return _triangle(np.concatenate([np.zeros((shared, shared)), *parts]))


def _triangle(rows: np.ndarray) -> np.ndarray:
    """R of rows = Q R."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


def inform(data: Data, point: Point, levels: np.ndarray, unknowns: list[Unknown], rescale: np.ndarray) -> Information:
    """`rescale` turns a unit of relative change into one of the search's coordinates."""
    normal = normal_equations(data, point, levels)
    stuck = (point.u <= data.bounds[0]) | (point.u >= data.bounds[1])
    covariance = _inverse(root(data, point, levels, priors=True), rescale, ~stuck)
    own = []
    for cross, c in zip(normal.cross, normal.c, strict=True):
        if c.shape[1] == 0:
            own.append(np.zeros(c.shape[:2]))
            continue
        inverse = np.linalg.pinv(c, rcond=1e-13, hermitian=True)
        known = np.where(np.isfinite(covariance), covariance, 0.0)
        spread = np.einsum("eop,esp->eos", inverse, cross)
        own.append(np.sqrt(np.diagonal(inverse + np.einsum("eos,st,ept->eop", spread, known, spread), axis1=1, axis2=2)))
    return Information(covariance, own, tuple(_undetermined(root(data, point, levels, priors=False), unknowns, rescale, point.u, stuck)))


def follow(data: Data, point: Point, levels: np.ndarray, place: int, change: float) -> tuple[np.ndarray, list[np.ndarray]]:
    """One shared unknown moved, and all others where they then fit best, as far as the derivatives here tell."""
    half = root(data, point, levels, priors=True)
    others = np.arange(point.u.size) != place
    du = np.full(point.u.size, change)
    du[others] = -np.linalg.lstsq(half[:, others], half[:, place] * change, rcond=1e-10)[0]
    normal = normal_equations(data, point, levels)
    own = []
    for mine, bounds, cross, c in zip(point.own, data.own_bounds, normal.cross, normal.c, strict=True):
        moved = np.einsum("eop,esp,s->eo", np.linalg.pinv(c, rcond=1e-13, hermitian=True), cross, du) if c.shape[1] else 0.0
        own.append(np.clip(mine - moved, *bounds))
    return np.clip(point.u + du, *data.bounds), own


def _inverse(half: np.ndarray, rescale: np.ndarray, free: np.ndarray) -> np.ndarray:
    """In units of relative change, where directions without information show; their variances are infinite."""
    count = half.shape[1]
    covariance = np.zeros((count, count))
    if not np.any(free):
        return covariance
    places = np.flatnonzero(free)
    values, vectors = _squares(half, rescale, places)
    known = values > _ROUNDING * max(float(values[-1]), 0.0)
    found = (vectors[:, known] / values[known]) @ vectors[:, known].T
    lost = np.any(np.abs(vectors[:, ~known]) > 1e-6, axis=1)
    found[lost] = found[:, lost] = 0.0
    found[lost, lost] = np.inf
    covariance[np.ix_(places, places)] = found
    outer = rescale[:, None] * rescale[None, :]
    return np.where(np.isinf(covariance), np.inf, covariance * outer)


def _squares(half: np.ndarray, rescale: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Information along its principal directions, from the least on, and these, for relative changes."""
    _, values, directions = np.linalg.svd((half * rescale)[:, places])
    return values[::-1] ** 2, directions[::-1].T


def _undetermined(half: np.ndarray, unknowns: list[Unknown], rescale: np.ndarray, u: np.ndarray, stuck: np.ndarray) -> list[str]:
    told = [f"{unknowns[i].name} is at its bound, {unknowns[i].shown(u[i]):.4g} {unknowns[i].unit}".rstrip() for i in np.flatnonzero(stuck)]
    places = np.flatnonzero(~stuck)
    if places.size == 0:
        return [sentence + "." for sentence in told]
    values, vectors = _squares(half, rescale, places)
    few = values < max(1.0 / _UNKNOWN**2, _ROUNDING * float(values[-1]))
    loose = vectors[:, few]
    if loose.shape[1]:
        widths = 1.0 / np.sqrt(np.maximum(np.where(values[few] > _ROUNDING * values[-1], values[few], 0.0), 1e-300))
        names = [unknowns[i].name for i in places]
        logs = np.array([unknowns[i].log for i in places])
        told += [_in_words(direction, names, logs, width) for direction, width in zip(_simple(loose).T, widths, strict=True)]
    return [sentence + "." for sentence in told]


def _simple(directions: np.ndarray) -> np.ndarray:
    """The same space, by directions with as many zeros as may be: elimination with pivots."""
    rows = directions.T.copy()
    used: list[int] = []
    for i in range(rows.shape[0]):
        open_ = [j for j in range(rows.shape[1]) if j not in used]
        pivot = max(open_, key=lambda j, i=i: abs(rows[i, j]))
        rows[i] /= rows[i, pivot]
        for k in range(rows.shape[0]):
            if k != i:
                rows[k] -= rows[k, pivot] * rows[i]
        used.append(pivot)
    return rows.T


def _in_words(direction: np.ndarray, names: list[str], logs: np.ndarray, width: float) -> str:
    direction = direction / direction[np.argmax(np.abs(direction))]
    parts = [i for i in range(len(names)) if abs(direction[i]) > 0.03]
    loose = "is not determined" if width > 1e3 else f"is known to a factor of {np.exp(min(width, 5.0)):.2g} at best"
    if len(parts) == 1:
        return f"{names[parts[0]]} {loose}: the data fit with any of its values" if width > 1e3 else f"{names[parts[0]]} {loose}"
    weights = direction[parts]
    listed = " : ".join(names[i] for i in parts)
    if np.all(np.abs(weights - 1.0) < 0.05):
        return (
            f"{listed} keep{'s' if len(parts) == 2 else ''} its ratio; the common scale is free"
            if len(parts) == 2
            else (f"{listed} keep their ratios; the common scale is free")
        )
    if len(parts) == 2 and abs(weights[0] + weights[1]) < 0.05:
        return f"only the product of {names[parts[0]]} and {names[parts[1]]} is determined, not the two"
    changes = ", ".join(f"{names[i]} {100 * 0.01 * w:+.2g} %" for i, w in zip(parts, weights, strict=True))
    return f"a combination is free: changed together by {changes}, they leave the fit as it is"
