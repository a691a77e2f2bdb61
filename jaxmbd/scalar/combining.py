"""Primitives that combine entries of one array: sums and products, the largest and its place, running sums, orders of few."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .folding import Algebra
from .graph import Entry, Value

LONGEST_SORT = 32
"""entries: a network of comparisons grows with their square"""


def total(algebra: Algebra, terms: Sequence[Entry], combine: Callable[[Entry, Entry], Entry]) -> Entry:
    """Pair by pair: fewer operations wait for each other than in a chain, and sums round less."""
    terms = list(terms)
    while len(terms) > 1:
        pairs = [combine(one, other) for one, other in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[len(terms) - len(terms) % 2 :]
    return terms[0]


def reduction(name: str, of_none: Callable[[Any], Any]):
    """A rule for sums and the like; `of_none` gives the number of no terms, by dtype."""

    def rule(algebra, values, params, avals):
        rows = _rows(values[0], params["axes"])
        out = np.empty(rows.shape[0], object)
        for i, row in enumerate(rows):
            out[i] = total(algebra, row, getattr(algebra, name)) if len(row) else avals[0].dtype.type(of_none(avals[0].dtype))
        return [out.reshape(avals[0].shape)]

    return rule


def best_place(better: Callable[[Algebra, Entry, Entry], Entry]):
    """A rule for the place of the first of the best entries, of the first NaN if there is one. `better` says whether the first entry keeps
    its rank against the second."""

    def rule(algebra, values, params, avals):
        dtype = np.dtype(params["index_dtype"])
        rows = _rows(values[0], params["axes"])
        out = np.empty(rows.shape[0], object)
        for i, row in enumerate(rows):
            best, place = row[0], dtype.type(0)
            for j, entry in enumerate(row[1:], 1):
                keeps = algebra.either(better(algebra, best, entry), algebra.is_nan(best))
                best, place = algebra.select(keeps, best, entry), algebra.select(keeps, place, dtype.type(j))
            out[i] = place
        return [out.reshape(avals[0].shape)]

    return rule


def running(name: str):
    """A rule for running sums and the like."""

    def rule(algebra, values, params, avals):
        array = np.flip(values[0], params["axis"]) if params["reverse"] else values[0]
        rows = np.moveaxis(array, params["axis"], -1).copy()
        for place in np.ndindex(rows.shape[:-1]):
            for j in range(1, rows.shape[-1]):
                rows[(*place, j)] = getattr(algebra, name)(rows[(*place, j - 1)], rows[(*place, j)])
        out = np.moveaxis(rows, -1, params["axis"])
        return [np.flip(out, params["axis"]) if params["reverse"] else out]

    return rule


def dot_general(algebra, values, params, avals):
    (sum_a, sum_b), (batch_a, batch_b) = params["dimension_numbers"]
    a, b = _matrices(values[0], batch_a, sum_a), _matrices(values[1], batch_b, sum_b)
    out = np.empty((a.shape[0], a.shape[1], b.shape[1]), object)
    zero = avals[0].dtype.type(0)
    for i, j, k in np.ndindex(out.shape):
        terms = [algebra.multiply(x, y) for x, y in zip(a[i, j], b[i, k], strict=True)]
        out[i, j, k] = total(algebra, terms, algebra.add) if terms else zero
    return [out.reshape(avals[0].shape)]


def sort(algebra, values, params, avals):
    """Neighbours change places if they are in the wrong order: what is equal stays as it was."""
    dim, keys = params["dimension"], params["num_keys"]
    lines = [np.moveaxis(value, dim, -1).copy() for value in values]
    length = lines[0].shape[-1]
    for place in np.ndindex(lines[0].shape[:-1]):
        for rounds in range(length - 1, 0, -1):
            for j in range(rounds):
                one, other = (*place, j), (*place, j + 1)
                swap = _precedes(algebra, [(line[other], line[one]) for line in lines[:keys]])
                for line in lines:
                    line[one], line[other] = algebra.select(swap, line[other], line[one]), algebra.select(swap, line[one], line[other])
    return [np.moveaxis(line, -1, dim) for line in lines]


def _precedes(algebra: Algebra, pairs: Sequence[tuple[Entry, Entry]]) -> Entry:
    """Whether the first of each pair comes before the second, by the first pair that differs; NaN comes last."""
    (one, other), *rest = pairs
    before = algebra.less(one, other)
    if one.dtype.kind == "f":
        before = algebra.either(before, algebra.both(algebra.is_nan(other), algebra.opposite(algebra.is_nan(one))))
    if not rest:
        return before
    equal = algebra.equal(one, other)
    if one.dtype.kind == "f":
        equal = algebra.either(equal, algebra.both(algebra.is_nan(one), algebra.is_nan(other)))
    return algebra.either(before, algebra.both(equal, _precedes(algebra, rest)))


def _rows(value: Value, axes: Sequence[int]) -> Value:
    """What is reduced, last; all other dimensions as one."""
    kept = [dim for dim in range(value.ndim) if dim not in axes]
    rows = int(np.prod([value.shape[dim] for dim in kept]))
    return value.transpose([*kept, *axes]).reshape(rows, int(np.prod([value.shape[dim] for dim in axes])))


def _matrices(value: Value, batch: Sequence[int], summed: Sequence[int]) -> Value:
    free = [dim for dim in range(value.ndim) if dim not in (*batch, *summed)]
    sizes = [int(np.prod([value.shape[dim] for dim in dims])) for dims in (batch, free, summed)]
    return value.transpose([*batch, *free, *summed]).reshape(sizes)


def _lowest(dtype: Any) -> Any:
    return False if dtype.kind == "b" else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return True if dtype.kind == "b" else np.inf if dtype.kind == "f" else np.iinfo(dtype).max


COMBINING = {
    "reduce_sum": reduction("add", lambda dtype: 0),
    "reduce_prod": reduction("multiply", lambda dtype: 1),
    "reduce_max": reduction("maximum", _lowest),
    "reduce_min": reduction("minimum", _highest),
    "reduce_and": reduction("both", lambda dtype: True if dtype.kind == "b" else -1),
    "reduce_or": reduction("either", lambda dtype: 0),
    "argmax": best_place(lambda algebra, one, other: algebra.at_least(one, other)),
    "argmin": best_place(lambda algebra, one, other: algebra.at_least(other, one)),
    "cumsum": running("add"),
    "cumprod": running("multiply"),
    "cummax": running("maximum"),
    "cummin": running("minimum"),
    "dot_general": dot_general,
    "sort": sort,
}
"""By the name of the primitive: (algebra, values, params, avals of the outputs) -> values."""
