"""Which rows of a large, sparse Jacobian follow from others.

The rows of a body's own coordinates are kept whatever happens; they are perpendicular to each other, and their part of all other rows is taken
away first. What is left is scaled to unit length, and its Gram matrix factorised as L D L^T in an order with little fill: D_i is the square of
the part of row i outside the span of the rows before it. A little is added to the diagonal, so that the factors survive the zero of a row that
follows from others.
"""

from typing import Any

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import splu

from ..blocks.structure import Structure
from ..redundancy import RANK_TOLERANCE

_RIDGE = 1e-14
_SUSPECT = 1e-6


def independent_rows(jacobian: Any, own: np.ndarray) -> np.ndarray:
    """1 for rows that span the row space, 0 for the rest; `own` are numbers of rows that are kept."""
    kept = np.ones(jacobian.shape[0])
    others = np.setdiff1d(np.arange(jacobian.shape[0]), own)
    if others.size == 0:
        return kept
    lengths = np.sqrt(np.maximum(np.asarray(jacobian.multiply(jacobian).sum(axis=1)).ravel(), 1e-300))
    unit: Any = sparse.csr_array(sparse.diags_array(1.0 / lengths) @ jacobian)
    rows, fixed = unit[others], unit[own]
    rows = sparse.csr_array(rows - (rows @ fixed.T) @ fixed)
    gram = sparse.csc_array(rows @ rows.T + _RIDGE * sparse.eye_array(others.size))
    factors = splu(gram, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    left = factors.U.diagonal()[factors.perm_c]
    # Long combinations leave much of what was added: whether suspects follow from the rest is seen from what is left of them themselves.
    suspects, rest = np.flatnonzero(left < _SUSPECT), np.flatnonzero(left >= _SUSPECT)
    apart = (rows[suspects] - combinations(rows, rest, suspects).T @ rows[rest]) if suspects.size else np.zeros((0, jacobian.shape[1]))
    for i, suspect in enumerate(suspects):
        row = apart[i].copy()
        size = np.linalg.norm(row)
        if size < RANK_TOLERANCE:
            kept[others[suspect]] = 0.0
        else:
            apart -= np.outer(apart @ row, row) / size**2
    return kept


def combinations(jacobian: Any, basis: np.ndarray, dropped: np.ndarray) -> np.ndarray:
    """Weights (basis, dropped) with which independent rows of a matrix, dense or sparse, combine to dropped ones."""
    if dropped.size == 0:
        return np.zeros((basis.size, 0))
    if isinstance(jacobian, np.ndarray):
        return np.linalg.lstsq(jacobian[basis].T, jacobian[dropped].T, rcond=None)[0]
    rows = jacobian[basis]
    factors = splu(sparse.csc_array(rows @ rows.T))
    right = (rows @ jacobian[dropped].T).toarray()
    found = factors.solve(right)
    return found + factors.solve(right - rows @ (rows.T @ found))


def constraint_rows(structure: Structure, blocks: np.ndarray, m: int, n: int) -> sparse.csr_array:
    """Phi_q (m, n) out of a matrix of blocks."""
    algebra = structure.algebra
    node_rows, node_columns = np.asarray(algebra.rows), np.asarray(algebra.columns)
    numbers, places = np.asarray(structure.rows_of_nodes)[node_rows], np.asarray(algebra.index)[node_columns]
    i, j = np.broadcast_arrays(numbers[:, :, None], places[:, None, :])
    wanted = (i < m) & (j < n) & (blocks != 0)
    return sparse.csr_array((blocks[wanted], (i[wanted], j[wanted])), shape=(m, n))
