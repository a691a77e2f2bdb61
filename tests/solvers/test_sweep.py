"""Linear systems that are walked through: every derivative, against a dense solve."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.solvers import sweep


def product(values, x):
    """x_0, x_1 - f_0 x_0, x_2 - f_1 x_1, ..."""
    factors, _ = values
    return x.at[1:].add(-factors * x[:-1])


def forward(values, right):
    def advance(last, given):
        factor, b = given
        return factor * last + b, factor * last + b

    factors, _ = values
    return jnp.append(right[:1], jax.lax.scan(advance, right[0], (factors, right[1:]))[1])


def backward(values, right):
    factors, _ = values
    return forward((factors[::-1], 0), right[::-1])[::-1]


def walked(factors, right):
    return jnp.sum(jnp.sin(sweep.solve(product, forward, backward, (factors, 3), right)))


def dense(factors, right):
    matrix = jnp.eye(right.shape[0]) - jnp.diag(factors, -1)
    return jnp.sum(jnp.sin(jnp.linalg.solve(matrix, right)))


FACTORS, RIGHT = jnp.array([0.5, -1.2, 0.7]), jnp.array([1.0, 2.0, -0.3, 0.4])


def of_a_batch(f):
    """The derivative of one lane."""
    return jax.grad(lambda factors, right: jax.vmap(f, (0, None))(jnp.stack([factors, 2 * factors]), right)[1], (0, 1))


def batch_of(f):
    return lambda factors, right: jax.vmap(jax.grad(f, (0, 1)), (None, 0))(factors, jnp.stack([right, 3 * right]))


@pytest.mark.parametrize(
    "differentiate",
    [
        lambda f: f,
        lambda f: jax.grad(f, (0, 1)),
        lambda f: jax.jacfwd(f, (0, 1)),
        lambda f: jax.hessian(f, (0, 1)),
        lambda f: jax.jacrev(jax.grad(f, (0, 1)), (0, 1)),
        lambda f: jax.jacrev(jax.jacfwd(f, 0), 1),
        of_a_batch,
        batch_of,
    ],
    ids=["value", "reverse", "forward", "forward-reverse", "reverse-reverse", "reverse-forward", "of-a-batch", "batch-of"],
)
def test_derivatives_are_those_of_a_dense_solve(differentiate):
    found, expected = (jax.jit(differentiate(f))(FACTORS, RIGHT) for f in (walked, dense))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
