"""Structures as matrices: mass and stiffness from another program, with the places of their nodes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sparse


class Structure:
    """A mass and a stiffness matrix of an unsupported body, with nodes of 3 displacements, or of 3 displacements and 3 turns each.

    Matrices are arrays, sparse ones of scipy, or paths of MatrixMarket files. Entries go node by node: (x, y, z)
    or (x, y, z, turns about x, y, z). `names` gives nodes a name to be called by: one number, or several that move as one rigid piece.
    """

    def __init__(
        self, mass: Any, stiffness: Any, positions: Any, names: Mapping[str, int | Sequence[int]] | None = None, *, label: str = "structure"
    ):
        self.label = label
        self.positions = np.asarray(positions, float).reshape(-1, 3)
        self.mass, self.stiffness = _read(label, "mass", mass), _read(label, "stiffness", stiffness)
        count, size = len(self.positions), self.mass.shape[0]
        if self.stiffness.shape != self.mass.shape:
            raise ValueError(
                f"{label}: the stiffness matrix is {self.stiffness.shape}, the mass matrix {self.mass.shape}; they must agree."
            )
        if size not in (3 * count, 6 * count):
            raise ValueError(f"{label}: {count} nodes need matrices of {3 * count} or {6 * count} rows, got {size}.")
        self.freedoms = size // count
        """of a node: 3 or 6"""
        self.names = {name: np.atleast_1d(np.asarray(nodes, int)) for name, nodes in (names or {}).items()}
        for name, nodes in self.names.items():
            if not ((nodes >= 0) & (nodes < count)).all():
                raise ValueError(f"{label}: the point {name!r} is outside of the mesh: {nodes.tolist()} must be in 0 ... {count - 1}.")

    def matrices(self) -> tuple[Any, Any]:
        """(M, K)"""
        return self.mass, self.stiffness

    def products(self, columns: np.ndarray) -> tuple[Any, Any]:
        """(M, K) times columns"""
        return self.mass @ columns, self.stiffness @ columns

    def lumps(self) -> np.ndarray:
        """kg, masses of nodes: sums of rows, or, where elements make some negative, in proportion to the diagonal."""
        count, n = len(self.positions), self.freedoms
        shifts = np.tile(np.eye(n)[:, :3], (count, 1))
        sums = (self.mass @ shifts).reshape(count, n, 3)
        masses = np.trace(sums[:, :3], axis1=1, axis2=2) / 3
        if (masses >= 0).all():
            return masses
        diagonal = self.mass.diagonal().reshape(count, n)[:, :3].sum(1)
        return diagonal * (masses.sum() / diagonal.sum())

    def recovery(self) -> None:
        """Nothing is known of stresses."""
        return None


def _read(label: str, what: str, given: Any) -> Any:
    if isinstance(given, str | Path):
        given = scipy.io.mmread(given)
    matrix: Any = sparse.csr_matrix(given, dtype=float)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{label}: the {what} matrix must be square, got {matrix.shape}.")
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"{label}: the {what} matrix is not finite.")
    scale = abs(matrix).max()
    gap = abs(matrix - matrix.T).max()
    if gap > 1e-8 * scale:
        raise ValueError(
            f"{label}: the {what} matrix is not symmetric: entries differ from their mirror images by {gap / scale:.2g} of the largest. "
            "Give both halves (a MatrixMarket file of one half says 'symmetric' in its first line)."
        )
    return sparse.csr_matrix(0.5 * (matrix + matrix.T))
