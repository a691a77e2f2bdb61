"""What data say of parameters: covariance, and combinations that they do not determine, in words."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .least_squares import Data, Normal, Point, normal_equations
from .unknowns import Unknown

_UNKNOWN = 0.5
"""A combination is called undetermined if its standard deviation, relative to the parameters themselves, is larger than this."""


class Information(NamedTuple):
    """About the shared unknowns, in the coordinates of the search."""

    covariance: Float[np.ndarray, "unknowns unknowns"]
    """with priors; infinite variances where nothing is known"""
    own: list[np.ndarray]
    """standard deviations of each experiment's own unknowns"""
    undetermined: tuple[str, ...]
    """sentences"""


def reduced(normal: Normal) -> np.ndarray:
    """The information about shared unknowns when each experiment's own may be anything."""
    a = normal.a.copy()
    for cross, c in zip(normal.cross, normal.c, strict=True):
        if c.shape[1]:
            inverse = np.linalg.pinv(c, rcond=1e-13, hermitian=True)
            a -= np.einsum("eso,eop,etp->st", cross, inverse, cross)
    return 0.5 * (a + a.T)


def inform(data: Data, point: Point, levels: np.ndarray, unknowns: list[Unknown], rescale: np.ndarray) -> Information:
    """`rescale` turns a unit of relative change into one of the search's coordinates."""
    with_priors = reduced(normal := normal_equations(data, point, levels))
    alone = reduced(normal_equations(data, point, levels, priors=False))
    stuck = (point.u <= data.bounds[0]) | (point.u >= data.bounds[1])
    covariance = _inverse(with_priors, rescale, ~stuck)
    own = []
    for cross, c in zip(normal.cross, normal.c, strict=True):
        if c.shape[1] == 0:
            own.append(np.zeros(c.shape[:2]))
            continue
        inverse = np.linalg.pinv(c, rcond=1e-13, hermitian=True)
        known = np.where(np.isfinite(covariance), covariance, 0.0)
        spread = np.einsum("eop,esp->eos", inverse, cross)
        own.append(np.sqrt(np.diagonal(inverse + np.einsum("eos,st,ept->eop", spread, known, spread), axis1=1, axis2=2)))
    return Information(covariance, own, tuple(_undetermined(alone, unknowns, rescale, point.u, stuck)))


def _inverse(information: np.ndarray, rescale: np.ndarray, free: np.ndarray) -> np.ndarray:
    """In units of relative change, where directions without information show; their variances are infinite."""
    count = information.shape[0]
    covariance = np.zeros((count, count))
    if not np.any(free):
        return covariance
    places = np.flatnonzero(free)
    scaled = (information * rescale[:, None] * rescale[None, :])[np.ix_(places, places)]
    values, vectors = np.linalg.eigh(scaled)
    known = values > 1e-12 * max(float(values[-1]), 0.0)
    found = (vectors[:, known] / values[known]) @ vectors[:, known].T
    lost = np.any(np.abs(vectors[:, ~known]) > 1e-6, axis=1)
    found[lost] = found[:, lost] = 0.0
    found[lost, lost] = np.inf
    covariance[np.ix_(places, places)] = found
    outer = rescale[:, None] * rescale[None, :]
    return np.where(np.isinf(covariance), np.inf, covariance * outer)


def _undetermined(information: np.ndarray, unknowns: list[Unknown], rescale: np.ndarray, u: np.ndarray, stuck: np.ndarray) -> list[str]:
    told = [f"{unknowns[i].name} is at its bound, {unknowns[i].shown(u[i]):.4g} {unknowns[i].unit}".rstrip() for i in np.flatnonzero(stuck)]
    places = np.flatnonzero(~stuck)
    if places.size == 0:
        return [sentence + "." for sentence in told]
    scaled = (information * rescale[:, None] * rescale[None, :])[np.ix_(places, places)]
    values, vectors = np.linalg.eigh(scaled)
    loose = vectors[:, values < 1.0 / _UNKNOWN**2]
    if loose.shape[1]:
        widths = 1.0 / np.sqrt(np.maximum(values[values < 1.0 / _UNKNOWN**2], 1e-300))
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
        return f"{listed} keep{'s' if len(parts) == 2 else ''} its ratio; the common scale is free" if len(parts) == 2 else (
            f"{listed} keep their ratios; the common scale is free"
        )
    if len(parts) == 2 and abs(weights[0] + weights[1]) < 0.05:
        return f"only the product of {names[parts[0]]} and {names[parts[1]]} is determined, not the two"
    changes = ", ".join(f"{names[i]} {100 * 0.01 * w:+.2g} %" for i, w in zip(parts, weights, strict=True))
    return f"a combination is free: changed together by {changes}, they leave the fit as it is"
