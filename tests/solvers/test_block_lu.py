"""Factors of matrices of blocks against dense ones, whatever is coupled to whatever."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from numpy.random import default_rng

from jaxmbd.solvers.block_lu.algebra import BlockAlgebra
from jaxmbd.solvers.block_lu.analysis import analyse
from jaxmbd.solvers.block_lu.numeric import factorize, no_factors, solve
from jaxmbd.solvers.scaling import Scaling

B, LEAD = 4, 3


def chain(n):
    return n, [(i, i + 1) for i in range(n - 1)]


def ring(n):
    return n, [(i, (i + 1) % n) for i in range(n)]


def tree(n):
    return n, [(i, (i - 1) // 2) for i in range(1, n)]


def star(n):
    return n, [(0, i) for i in range(1, n)]


def wheel(n):
    """A ring, all of it coupled to a hub."""
    return n + 1, [*ring(n)[1], *((i, n) for i in range(n))]


def grid(n):
    number = np.arange(n * n).reshape(n, n)
    pairs = [(number[:-1].ravel(), number[1:].ravel()), (number[:, :-1].ravel(), number[:, 1:].ravel())]
    return n * n, [(int(i), int(j)) for a, b in pairs for i, j in zip(a, b, strict=True)]


def alone(n):
    return n, []


GRAPHS = {
    "chain": chain(37),
    "ring": ring(40),
    "tree": tree(45),
    "star": star(30),
    "wheel": wheel(33),
    "grid": grid(7),
    "alone": alone(9),
    "one": alone(1),
}


def made_sparse(graph, last=()):
    """Where blocks are, the plan, and blocks with regular pivots."""
    where, plan = analyse(graph[0], graph[1], last)
    blocks = default_rng(0).normal(size=(len(where.rows), B, B))
    around = np.bincount(where.rows, minlength=graph[0])
    blocks[where.rows == where.columns] += 3.0 * around[:, None, None] * np.eye(B)
    return where, plan, jnp.asarray(blocks)


def made(graph, last=()):
    """The dense matrix too."""
    where, plan, blocks = made_sparse(graph, last)
    dense = np.zeros((graph[0], B, graph[0], B))
    dense[where.rows, :, where.columns, :] = blocks
    return where, plan, blocks, dense.reshape(graph[0] * B, graph[0] * B)


@eqx.filter_jit
def both(plan, blocks, right):
    factors = factorize(plan, blocks, LEAD)
    return factors, solve(plan, factors, right), solve(plan, factors, right, transposed=True)


@pytest.mark.parametrize("name", GRAPHS)
def test_solves_and_solves_transposed_as_dense_factors_do(name):
    _, plan, blocks, dense = made(GRAPHS[name])
    right = default_rng(1).normal(size=(plan.nodes, B))
    factors, x, turned = both(plan, blocks, jnp.asarray(right))
    np.testing.assert_allclose(x.ravel(), np.linalg.solve(dense, right.ravel()), atol=1e-12)
    np.testing.assert_allclose(turned.ravel(), np.linalg.solve(dense.T, right.ravel()), atol=1e-12)
    assert jax.tree.map(jnp.shape, no_factors(plan, B)) == jax.tree.map(jnp.shape, factors)


def test_rounds_and_shapes_do_not_grow_with_the_number_of_nodes():
    """What is compiled: the tables' shapes may, their number does not."""
    plans = [analyse(*chain(n))[1] for n in (200, 2000)]
    assert len(jax.tree.leaves(plans[0])) == len(jax.tree.leaves(plans[1]))
    work = [sum(np.prod(r.right.shape) for r in plan.rounds) for plan in plans]
    assert work[1] < 11 * work[0]


@pytest.fixture(scope="module")
def loop():
    """A ring in which the last node's pivot is regular only after the others are gone; mixed sizes; as an algebra of vectors."""
    count, edges = ring(12)
    where, plan, blocks, _ = made((count, edges), last=(5,))
    sizes = np.array([4, 2, 3] * 4)
    used = np.arange(B) < sizes[:, None]
    index = np.where(used, np.cumsum(used).reshape(count, B) - 1, used.sum()).astype(np.int32)
    blocks = jnp.where(used[where.rows][:, :, None] & used[where.columns][:, None, :], blocks, 0.0)
    blocks = blocks.at[where.rows == where.columns].add(jnp.where(used, 0.0, 1.0)[:, :, None] * jnp.eye(B))
    blocks = blocks.at[5].set(jnp.diag(jnp.where(used[5], 0.0, 1.0)))
    n = int(used.sum())
    algebra = BlockAlgebra.of(plan, where, index, n, LEAD)
    dense = np.zeros((n + 1, n + 1))
    for i, j, block in zip(where.rows, where.columns, np.asarray(blocks), strict=True):
        dense[np.ix_(index[i], index[j])] = block
    return algebra, blocks, jnp.asarray(dense[:n, :n])


def test_mixed_sizes_scaled_and_a_pivot_that_comes_last(loop):
    algebra, blocks, dense = loop
    n = dense.shape[0]
    scaling = Scaling(jnp.linspace(0.5, 2.0, n), jnp.linspace(3.0, 1.0, n))
    right = jnp.asarray(default_rng(2).normal(size=n))
    found = eqx.filter_jit(lambda a, m, s, r: a.solve(a.factorize(a.scaled(m, s)), r))(algebra, blocks, scaling, right)
    np.testing.assert_allclose(found, np.linalg.solve(scaling.matrix(dense), right), rtol=1e-10, atol=1e-12)


def test_solve_once_differentiates_and_batches(loop):
    """Forward, in reverse, twice; with blocks that are not quite those of the matrix."""
    algebra, blocks, dense = loop
    n = dense.shape[0]
    right = jnp.asarray(default_rng(3).normal(size=n))
    change = dense * jnp.asarray(default_rng(4).normal(size=(n, n)))

    def by_blocks(p):
        matrix = dense + p * change
        return algebra.solve_once(1.001 * blocks, jnp.sin(p) + right, lambda x: matrix @ x)

    def by_lapack(p):
        return jnp.linalg.solve(dense + p * change, jnp.sin(p) + right)

    at = jnp.array([0.01, 0.03])
    for found, expected in zip(_derivatives(by_blocks)(at), _derivatives(by_lapack)(at), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def _derivatives(f):
    def norm(p):
        return jnp.sum(f(p) ** 2)

    return jax.jit(jax.vmap(lambda p: (f(p), jax.jvp(f, (p,), (1.0,))[1], jax.grad(norm)(p), jax.hessian(norm)(p))))


@pytest.mark.slow
@pytest.mark.parametrize("graph", [chain(10_000), tree(10_000), ring(10_000), wheel(3_000), grid(30)], ids=lambda g: str(g[0]))
def test_many_nodes(graph):
    where, plan, blocks = made_sparse(graph)
    right = jnp.asarray(default_rng(1).normal(size=(plan.nodes, B)))
    _, x, turned = both(plan, blocks, right)
    matrix = scipy.sparse.bsr_array((np.asarray(blocks)[(o := np.lexsort(where[::-1]))], where.columns[o], _starts(where.rows[o])))
    np.testing.assert_allclose(matrix @ np.ravel(x), np.ravel(right), atol=1e-10)
    np.testing.assert_allclose(matrix.T @ np.ravel(turned), np.ravel(right), atol=1e-10)


def _starts(rows):
    return np.concatenate([[0], np.cumsum(np.bincount(rows))])
