"""Linear equations in scalars: eliminated in an order that is chosen while tracing, so that zeros stay what they are.

The order is chosen by the pattern alone: few operations, and pivots that can be expected to be large. Whether they are shows when the program
runs. Where one is much smaller than other entries of its column, the equations are solved again on whole arrays, with pivots by size.
"""

from collections.abc import Sequence
from typing import Any

import equinox.internal as eqxi
import numpy as np

from ..solvers import linear
from . import control
from .emitting import Program, nodes_of_whole
from .folding import Algebra
from .graph import Call, Entry, Value, is_known

_LEAST_PIVOT = 1e-3
"""of the largest entry in its column"""


class _WithPivots(Call):
    """The same on whole arrays."""

    def __init__(self, matrix: Value, right: Value, dtype: Any):
        self.matrix, self.right, self.dtype = matrix, right, dtype

    def find_needs(self):
        for value in (self.matrix, self.right):
            yield from nodes_of_whole(value)

    def emit(self, program: Program) -> list[Any]:
        return [linear.eliminate(program.whole(self.matrix, self.dtype), program.whole(self.right, self.dtype))]


def inverse(algebra: Algebra, values: Sequence[Value], alone: bool) -> list[Value] | None:
    """A rule for `linear.small_inverse`; None if it does not serve."""
    (matrix,) = values
    identity = np.empty(matrix.shape, object)
    for i, j in np.ndindex(matrix.shape):
        identity[i, j] = matrix[0, 0].dtype.type(i == j)
    return solve(algebra, (matrix, identity), alone)


def solve(algebra: Algebra, values: Sequence[Value], alone: bool) -> list[Value] | None:
    """A rule for `linear.small_solve`: the matrix and columns on the right; None if it does not serve."""
    matrix, right = values
    order = _order(matrix) if len(matrix) else None
    if order is None:
        return None
    found, good = _eliminated(algebra, matrix, right, order)
    if is_known(good):
        return [found] if good else None
    poor = algebra.opposite(good)
    anywhere = poor if alone else algebra.apply(eqxi.unvmap_any_p, {}, (poor,), bool)
    graph, dtype = algebra.graph, matrix[0, 0].dtype

    def with_pivots() -> list[Value]:
        call = _WithPivots(matrix, right, dtype)
        graph.count(right.size)
        again = graph.apart(graph.results(call, [np.empty(right.shape, dtype)])[0])
        return [again if alone else _each(lambda one, other: algebra.select(poor, one, other), again, found)]

    return control.switch(graph, algebra.as_index(anywhere), [lambda: [found], with_pivots])


def _order(matrix: Value) -> list[tuple[int, int]] | None:
    """Places of pivots, row and column: the next one is that which fills in least (Markowitz).

    A symmetric pattern is that of a mass matrix, or of equations of motion with constraints: masses come first, on the diagonal, and then what
    they leave there for the constraints. In any other, known numbers come first: what is known to be one never becomes small.
    """
    n = len(matrix)
    there = np.array([[not (is_known(entry) and entry == 0) for entry in row] for row in matrix])
    known = np.array([[is_known(entry) for entry in row] for row in matrix]) & there
    symmetric = bool(np.all(there == there.T))
    rows, columns = np.ones(n, bool), np.ones(n, bool)
    diagonal = np.eye(n, dtype=bool)
    order = []
    for _ in range(n):
        free = there & rows[:, None] & columns
        if not free.any():
            return None
        fill = np.outer(free.sum(axis=1) - 1, free.sum(axis=0) - 1)
        rank = (~diagonal if symmetric else ~known) * 10**6 + fill * 10 + (0 if symmetric else ~diagonal)
        i, j = np.unravel_index(np.argmin(np.where(free, rank, 10**9)), free.shape)
        order.append((int(i), int(j)))
        rows[i] = columns[j] = False
        touched = np.outer(free[:, j] & rows, free[i] & columns)
        there |= touched
        known &= ~touched
    return order


def _eliminated(algebra: Algebra, matrix: Value, right: Value, order: list[tuple[int, int]]) -> tuple[Value, Entry]:
    """The solution, and whether no pivot was too small."""
    matrix, right = matrix.copy(), right.copy()
    one = matrix[0, 0].dtype.type(1)
    left = [i for i, _ in order]
    over: list[Entry] = []
    good: Entry = np.True_
    for step, (i, j) in enumerate(order):
        below = [k for k in left[step + 1 :] if not _is_zero(matrix[k, j])]
        columns = [c for _, c in order[step + 1 :] if not _is_zero(matrix[i, c])]
        good = algebra.both(good, _is_large(algebra, matrix[i, j], [matrix[k, j] for k in below]))
        over.append(algebra.divide(one, matrix[i, j]))
        for k in below:
            factor = algebra.multiply(matrix[k, j], over[-1])
            for c in columns:
                matrix[k, c] = algebra.subtract(matrix[k, c], algebra.multiply(factor, matrix[i, c]))
            for c in range(right.shape[1]):
                right[k, c] = algebra.subtract(right[k, c], algebra.multiply(factor, right[i, c]))
    solution = np.empty(right.shape, object)
    for step in reversed(range(len(order))):
        i, j = order[step]
        known = [c for _, c in order[step + 1 :] if not _is_zero(matrix[i, c])]
        for c in range(right.shape[1]):
            rest = right[i, c]
            for k in known:
                rest = algebra.subtract(rest, algebra.multiply(matrix[i, k], solution[k, c]))
            solution[j, c] = algebra.multiply(rest, over[step])
    return solution, good


def _is_zero(entry: Entry) -> bool:
    return is_known(entry) and bool(entry == 0)


def _is_large(algebra: Algebra, pivot: Entry, others: list[Entry]) -> Entry:
    """NaN is not."""
    size = algebra.size(pivot)
    least = size.dtype.type(_LEAST_PIVOT)
    found = algebra.less(size.dtype.type(0), size)
    for other in others:
        found = algebra.both(found, algebra.at_least(size, algebra.multiply(least, algebra.size(other))))
    return found


def _each(function: Any, *values: Value) -> Value:
    out = np.empty(values[0].shape, object)
    for place in np.ndindex(out.shape):
        out[place] = function(*(value[place] for value in values))
    return out


RULES = {linear.SMALL_INVERSE: inverse, linear.SMALL_SOLVE: solve}
"""By the name of the compiled function: (algebra, values, alone) -> values, or None to take it as it is."""
