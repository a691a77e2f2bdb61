"""Matrices of blocks as an algebra of plain vectors."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..algebra import AbstractAlgebra
from ..scaling import Scaling
from .analysis import Blocks, Plan, Table
from .numeric import Factors, factorize, no_factors, solve

_MOST_CORRECTIONS = 40


class BlockAlgebra(AbstractAlgebra):
    """A matrix is an array (slots, b, b) of blocks. Nodes that are smaller than b have ones on the rest of their diagonal."""

    plan: Plan
    rows: Int[Table, "slots"]
    """nodes whose equations the blocks are part of"""
    columns: Int[Table, "slots"]
    index: Int[Table, "nodes b"]
    """where the entries of the nodes stand in a vector; its length for those that nothing stands for"""
    back: Int[Table, "n"]
    """where the entries of a vector stand in the nodes, these as one array"""
    lead: int = eqx.field(static=True)
    """so many first rows and columns of a pivot are regular by themselves"""

    @staticmethod
    def of(plan: Plan, where: Blocks, index: np.ndarray, unknowns: int, lead: int) -> "BlockAlgebra":
        """`index` has `unknowns` where nothing stands for an entry."""
        back = np.zeros(unknowns + 1, np.int32)
        back[index.ravel()] = np.arange(index.size)
        return BlockAlgebra(plan, where.rows, where.columns, index.astype(np.int32), back[:-1], lead)

    @property
    def size(self) -> int:
        """Of a block."""
        return self.index.shape[1]

    def to_nodes(self, vector: Float[Array, "n"], fill: float = 0.0) -> Float[Array, "nodes b"]:
        return jnp.concatenate([vector, jnp.full(1, fill, vector.dtype)])[self.index]

    def from_nodes(self, nodes: Float[Array, "nodes b"]) -> Float[Array, "n"]:
        return nodes.ravel()[self.back]

    def factorize(self, matrix: Float[Array, "slots b b"]) -> Factors:
        return factorize(self.plan, matrix, self.lead)

    def solve(self, factors, right):
        return self.from_nodes(solve(self.plan, factors, self.to_nodes(right)))

    def solve_transposed(self, factors: Factors, right: Float[Array, "n"]) -> Float[Array, "n"]:
        """matrix^-T right."""
        return self.from_nodes(solve(self.plan, factors, self.to_nodes(right), transposed=True))

    def no_factors(self, unknowns):
        return no_factors(self.plan, self.size)

    def scaled(self, matrix: Float[Array, "slots b b"], scaling: Scaling) -> Float[Array, "slots b b"]:
        rows, columns = self.to_nodes(scaling.rows, 1.0), self.to_nodes(scaling.columns, 1.0)
        return matrix / rows[self.rows][:, :, None] * columns[self.columns][:, None, :]

    def solve_once(self, matrix, right, product):
        factors = self.factorize(jax.lax.stop_gradient(matrix))
        return solve_by_corrections(product, right, lambda r: self.solve(factors, r), lambda r: self.solve_transposed(factors, r))


def solve_by_corrections(
    product: Callable[[Array], Array],
    right: Float[Array, "n"],
    nearly: Callable[[Array], Array],
    nearly_transposed: Callable[[Array], Array],
) -> Float[Array, "n"]:
    """matrix^-1 right of a matrix that is known by its products, and nearly by its inverse; differentiable to any order, by such solves."""
    return jax.lax.custom_linear_solve(
        product,
        right,
        solve=lambda multiply, b: _corrected(multiply, nearly, b),
        transpose_solve=lambda multiply, b: _corrected(multiply, nearly_transposed, b),
    )


def _corrected(multiply: Callable[[Array], Array], nearly: Callable[[Array], Array], right: Array) -> Array:
    """Until rounding is all that corrections are made of: they shrink no more."""

    def proceed(carry):
        _, _, going, k = carry
        return going & (k < _MOST_CORRECTIONS)

    def correct(carry):
        x, last, _, k = carry
        step = nearly(right - multiply(x))
        size = jnp.max(jnp.abs(step), initial=0.0)
        better = size < 0.5 * last
        return jnp.where(better, x + step, x), size, better & (size > 0), k + 1

    first = nearly(right)
    x, *_ = jax.lax.while_loop(proceed, correct, (first, jnp.max(jnp.abs(first), initial=0.0), jnp.array(True), 0))
    return x
