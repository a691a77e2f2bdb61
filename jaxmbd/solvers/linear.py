"""Linear solves of one size: factorise once and solve often, as Newton's iterations do, or solve once."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int

SMALL = 24
"""Up to this size a matrix is inverted, and a solve is a product that XLA fuses with its surroundings: the calls into LAPACK that a solve
with LU factors needs take longer than the arithmetic. Newton corrects what an inverse loses in accuracy."""


SIDE_BY_SIDE = 12
"""Up to this size matrices are eliminated by our own loop, a batch side by side; beyond, LAPACK wins although it works one by one (64 lanes,
CPU). A loop without calls into LAPACK can become a single kernel (`fuse_loops`)."""


class Factors(eqx.Module):
    """A factorised matrix: its inverse if it is small, its LU factors otherwise."""

    matrix: Float[Array, "n n"]
    order: Int[Array, "n"]
    """Row i of the LU factors belongs to this row of the matrix. LAPACK tells of exchanges: to make an order of them, in a loop over the rows,
    takes longer than a solve, and is done once here."""


def factorize(matrix: Float[Array, "n n"]) -> Factors:
    n = matrix.shape[0]
    if n <= SMALL:
        return Factors(small_inverse(matrix), jnp.zeros(n, jnp.int32))
    factors, _, order = jax.lax.linalg.lu(matrix)
    return Factors(factors, order)


def solve(factors: Factors, right: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    if factors.matrix.shape[0] <= SMALL:
        return _product(factors.matrix, right)
    columns = right.reshape(right.shape[0], -1)[factors.order]
    columns = _triangular(factors.matrix, columns, lower=True)
    return _triangular(factors.matrix, columns, lower=False).reshape(right.shape)


def solve_transposed(factors: Factors, right: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    if factors.matrix.shape[0] <= SMALL:
        return _product(factors.matrix.T, right)
    columns = _triangular(factors.matrix, right.reshape(right.shape[0], -1), lower=False, transpose=True)
    columns = _triangular(factors.matrix, columns, lower=True, transpose=True)
    return jnp.zeros_like(columns).at[factors.order].set(columns, unique_indices=True).reshape(right.shape)


def _triangular(factors: Float[Array, "n n"], right: Float[Array, "n k"], *, lower: bool, transpose: bool = False) -> Float[Array, "n k"]:
    """By one of two LU factors that share a matrix: the lower one has ones on its diagonal."""
    return jax.lax.linalg.triangular_solve(factors, right, left_side=True, lower=lower, unit_diagonal=lower, transpose_a=transpose)


def solve_differentiably(matrix: Float[Array, "n n"], factors: Factors, right: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """matrix^-1 right with factors of this very matrix at hand, and a residual as small as rounding leaves it. The factors carry no derivative:
    that follows from the matrix, by solves with the same factors."""
    known, factors = jax.lax.stop_gradient((matrix, factors))
    return jax.lax.custom_linear_solve(
        lambda x: matrix @ x,
        right,
        solve=lambda _, b: _refined(known, lambda r: solve(factors, r), b),
        transpose_solve=lambda _, b: _refined(known.T, lambda r: solve_transposed(factors, r), b),
    )


def solve_transposed_differentiably(matrix: Float[Array, "n n"], factors: Factors, right: Float[Array, "n"]) -> Float[Array, "n"]:
    """matrix^-T right, as `solve_differentiably` does it, with factors of the matrix itself."""
    known, factors = jax.lax.stop_gradient((matrix, factors))
    return jax.lax.custom_linear_solve(
        lambda x: matrix.T @ x,
        right,
        solve=lambda _, b: _refined(known.T, lambda r: solve_transposed(factors, r), b),
        transpose_solve=lambda _, b: _refined(known, lambda r: solve(factors, r), b),
    )


def _refined(matrix: Float[Array, "n n"], solve: Callable[[Array], Array], right: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """A product with an inverse leaves a residual of rounding times the condition number: accelerations near a dead point would balance forces
    to 1e-5 only. One correction takes that away; LU factors leave none of it."""
    found = solve(right)
    if not 1 < matrix.shape[0] <= SMALL:
        return found
    correction = solve(right - _product(matrix, found))
    return found + jnp.where(jnp.isfinite(correction), correction, 0.0)  # a singular matrix says so by infinities


def solve_once(matrix: Float[Array, "n n"], right: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """matrix^-1 right, as accurate as with LU factors."""
    if matrix.shape[0] > SMALL:
        return jnp.linalg.solve(matrix, right)
    columns = right[:, None] if right.ndim == 1 else right
    solution = jax.lax.custom_linear_solve(
        lambda x: matrix @ x,
        columns,
        solve=lambda _, b: small_solve(jax.lax.stop_gradient(matrix), b),
        transpose_solve=lambda _, b: small_solve(jax.lax.stop_gradient(matrix).T, b),
    )
    return solution.reshape(right.shape)


def weakest_row(matrix: Float[Array, "n n"], factors: Factors) -> tuple[Float[Array, ""], Int[Array, ""]]:
    """How far a factorised matrix is from a singular one (a rough reciprocal condition number), and the row that is then a combination of
    others."""
    n = matrix.shape[0]
    if n == 0:
        return jnp.ones(()), jnp.zeros((), jnp.int32)
    if n <= SMALL:
        # A column of the inverse is the answer to a unit in one row.
        answers = jnp.max(jnp.abs(factors.matrix), axis=0)
        row = jnp.argmax(jnp.where(jnp.isfinite(answers), answers, jnp.inf))
        return 1.0 / (answers[row] * jnp.max(jnp.abs(matrix))), row
    pivots = jnp.abs(jnp.diagonal(factors.matrix))
    weakest = jnp.argmin(pivots)
    return pivots[weakest] / jnp.max(pivots), factors.order[weakest]


def _product(matrix: Float[Array, "n n"], right: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """A sum instead of a dot product: XLA fuses it, and can make one kernel of a loop around it."""
    return jnp.sum(matrix * right, axis=-1) if right.ndim == 1 else matrix @ right


def no_factors(n: int) -> Factors:
    """A placeholder of the right shape."""
    return Factors(jnp.zeros((n, n)), jnp.zeros(n, jnp.int32))


SMALL_INVERSE, SMALL_SOLVE = "small_inverse", "small_solve"
"""The names by which `scalarise` knows the two functions below, and does them otherwise."""


@jax.jit
def small_inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    return _inverse(matrix)


@jax.jit
def small_solve(matrix: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """matrix^-1 right."""
    return jnp.linalg.solve(matrix, right) if matrix.shape[0] > SIDE_BY_SIDE else eliminate(matrix, right)


@custom_vmap
def _inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    if matrix.shape[-1] > SIDE_BY_SIDE:
        return jnp.linalg.inv(matrix)
    return gauss_jordan(matrix[..., None], jnp.eye(matrix.shape[-1], dtype=matrix.dtype)[..., None])[..., 0]


@_inverse.def_vmap
def _inverse_of_many(axis_size, in_batched, matrices):
    """A batch of very small matrices is eliminated side by side: LAPACK takes one matrix at a time."""
    del axis_size, in_batched
    if matrices.shape[-1] > SIDE_BY_SIDE:
        return jnp.linalg.inv(matrices), True
    lanes, n, _ = matrices.shape
    identity = jnp.broadcast_to(jnp.eye(n, dtype=matrices.dtype)[..., None], (n, n, lanes))
    return jnp.moveaxis(gauss_jordan(jnp.moveaxis(matrices, 0, -1), identity), -1, 0), True


@custom_vmap
def eliminate(matrix: Float[Array, "n n"], right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """matrix^-1 right, without calls into LAPACK."""
    return gauss_jordan(matrix[..., None], right[..., None])[..., 0]


@eliminate.def_vmap
def _eliminate_many(axis_size, in_batched, matrices, rights):
    last = (
        jnp.moveaxis(part, 0, -1) if batched else jnp.broadcast_to(part[..., None], (*part.shape, axis_size))
        for part, batched in zip((matrices, rights), in_batched, strict=True)
    )
    return jnp.moveaxis(gauss_jordan(*last), -1, 0), True


def gauss_jordan(matrices: Float[Array, "n n lanes"], rights: Float[Array, "n k lanes"]) -> Float[Array, "n k lanes"]:
    """Solutions by elimination with row pivoting, the lanes last so that every operation runs along them.

    Singular matrices give infinities or NaN, as they do in LAPACK.
    """
    n = matrices.shape[0]
    if n == 0:
        return rights
    row = jnp.arange(n)[:, None]

    def eliminate(k, extended):
        column = jax.lax.dynamic_index_in_dim(extended, k, axis=1, keepdims=False)
        pivot = jnp.argmax(jnp.where(row >= k, jnp.abs(column), -1.0), axis=0)
        is_pivot, is_k = row == pivot, row == k
        displaced = jax.lax.dynamic_index_in_dim(extended, k, axis=0)
        chosen = jnp.sum(jnp.where(is_pivot[:, None], extended, 0.0), axis=0, keepdims=True)
        head = jnp.sum(jnp.where(is_pivot, column, 0.0), axis=0)
        chosen = chosen / head
        swapped = jnp.where(is_pivot[:, None], displaced, extended)
        factor = jnp.where(is_pivot, jax.lax.dynamic_index_in_dim(column, k, axis=0), column)
        return jnp.where(is_k[:, None], chosen, swapped - factor[:, None] * chosen)

    return jax.lax.fori_loop(0, n, eliminate, jnp.concatenate([matrices, rights], axis=1))[:, n:]
