"""Factorised solves, small and large, alone and in batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.solvers import linear

RANDOM = np.random.default_rng(1)


@pytest.mark.parametrize("n", [0, 1, 5, linear.SIDE_BY_SIDE, linear.SIDE_BY_SIDE + 1, linear.SMALL, linear.SMALL + 1])
def test_solves_alone_and_in_batches(n):
    matrices, rights = RANDOM.normal(size=(7, n, n)), RANDOM.normal(size=(7, n))
    expected = np.linalg.solve(matrices, rights[..., None])[..., 0]

    def solve(matrix, right):
        return linear.solve(linear.factorize(matrix), right)

    # An inverse loses about one digit for every digit of the condition number, a few hundred here.
    np.testing.assert_allclose(jax.vmap(solve)(matrices, rights), expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(solve(jnp.asarray(matrices[0]), jnp.asarray(rights[0])), expected[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("n", [6, linear.SMALL])
def test_a_solution_fits_its_equations_however_badly_conditioned(n):
    """A product with the inverse alone leaves up to 1e-9 and more of |A| |x| here, as rounding has it in each of several systems: near a dead
    point, forces on bodies that do not balance."""
    random = np.random.default_rng(n)

    @jax.jit
    def misfits(matrix, known):
        factors, transposed = linear.factorize(matrix), matrix.T

        def unfit(rows, solution):
            return jnp.max(jnp.abs(rows @ solution - rows @ known)) / jnp.max(jnp.abs(rows) @ jnp.abs(solution))

        alone = unfit(matrix, linear.solve(factors, matrix @ known))
        alone_transposed = unfit(transposed, linear.solve_transposed(factors, transposed @ known))
        refined = unfit(matrix, linear.solve_differentiably(matrix, factors, matrix @ known))
        refined_transposed = unfit(transposed, linear.solve_transposed_differentiably(matrix, factors, transposed @ known))
        return jnp.stack([alone, alone_transposed]), jnp.stack([refined, refined_transposed])

    found = []
    for _ in range(8):
        left, right = (np.linalg.qr(random.normal(size=(n, n)))[0] for _ in range(2))
        found.append(misfits(jnp.asarray(left * np.logspace(0, -9, n) @ right), jnp.asarray(random.normal(size=n))))
    alone, refined = (np.max(np.array(part), axis=0) for part in zip(*found, strict=True))
    assert np.all(alone > 1e-10)
    assert np.all(refined < 1e-14)


def test_singular_equations_have_no_finite_solution():
    matrix = jnp.diag(jnp.array([1.0, 0.0]))
    assert not jnp.isfinite(linear.solve_differentiably(matrix, linear.factorize(matrix), jnp.ones(2))[1])


def test_rows_are_pivoted():
    """The first pivot of a saddle-point matrix without mass is zero."""
    matrix = jnp.array([[0.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
    inverses = jax.vmap(lambda a: linear.factorize(a).matrix)(jnp.stack([matrix, 2 * matrix]))
    np.testing.assert_allclose(inverses[0] @ matrix, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(inverses[1] @ matrix, 0.5 * np.eye(3), atol=1e-14)


def test_a_singular_lane_harms_nobody():
    matrices = jnp.stack([jnp.zeros((3, 3)), jnp.eye(3)])
    inverses = jax.vmap(lambda a: linear.factorize(a).matrix)(matrices)
    assert not np.all(np.isfinite(inverses[0]))
    np.testing.assert_allclose(inverses[1], np.eye(3))


def test_one_solve_and_its_derivatives_are_those_of_lapack():
    """Alone, in batches of matrices, of right sides or of both; gradients, and a second derivative."""
    n = 5
    matrices, rights = jnp.asarray(RANDOM.normal(size=(3, n, n))), jnp.asarray(RANDOM.normal(size=(3, n, 2)))

    def derivatives(solve):
        def size(matrix, right):
            return jnp.sum(jnp.sin(solve(matrix, right)))

        def everything(matrix, right):
            slopes = jax.grad(size, (0, 1))(matrix, right)
            change = lambda s: jax.grad(lambda s: size(matrix + s, right * (1 + s)))(s)  # noqa: E731
            return solve(matrix, right), solve(matrix, right[:, 0]), slopes, jax.jacfwd(change)(0.0)

        batches = [jax.jit(jax.vmap(everything, axes)) for axes in ((0, 0), (None, 0), (0, None))]
        pick = lambda values, axis: values if axis == 0 else values[0]  # noqa: E731
        found = [batch(pick(matrices, i), pick(rights, j)) for batch, (i, j) in zip(batches, ((0, 0), (None, 0), (0, None)), strict=True)]
        return jax.tree.leaves((found, jax.jit(everything)(matrices[0], rights[0])))

    for ours, theirs in zip(derivatives(linear.solve_once), derivatives(jnp.linalg.solve), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-9 * np.max(np.abs(theirs)))
