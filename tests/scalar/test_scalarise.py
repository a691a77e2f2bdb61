"""Taken apart or not, a function gives the same: primitive by primitive, in programs drawn at random, in batches, loops and derivatives."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmbd.scalar import scalarise

X = jnp.array([0.3, -1.2, 0.7, 2.1])
MATRIX = jnp.arange(16.0).reshape(4, 4) / 7 + 3 * jnp.eye(4)

# Each makes a vector of four from one, a second one and an index from 0 to 3, which may be traced.
STEPS = {
    "arithmetic": lambda x, y, i: x * y - 2.0 * x + y / (2.0 + y**2) - (-x) + x**3,
    "functions": lambda x, y, i: jnp.sin(x) + jnp.arctan2(y, x) + jnp.sqrt(1.0 + x * x) + jnp.tanh(y) + jnp.exp(-x * x),
    "structural zeros": lambda x, y, i: x * jnp.array([0.0, 1.0, -1.0, 2.0]) + jnp.array([0.0, 3.0, 0.0, 0.0]) * y,
    "comparison": lambda x, y, i: jnp.where((x > y) & (x < 2.0) | ~(y >= 0.1), x, jnp.maximum(y, jnp.minimum(x, 0.5))),
    "select by index": lambda x, y, i: lax.select_n(jnp.full(4, i % 3), x, y, x + y),
    "slices": lambda x, y, i: jnp.concatenate([x[1:3], y[::-2]]),
    "stack": lambda x, y, i: jnp.stack([x[0], y[3], x[2], y[1]]),
    "dynamic slice": lambda x, y, i: lax.dynamic_slice(jnp.concatenate([x, y]), (i + 2,), (4,)),
    "dynamic update": lambda x, y, i: lax.dynamic_update_slice(x, y[:2], (i,)),
    "gather": lambda x, y, i: x[jnp.array([2, 0, i, 3])] + y[jnp.stack([i, 3 - i, jnp.asarray(1), i])],
    "gather of rows": lambda x, y, i: jnp.outer(x, y)[jnp.stack([i, 3 - i])].sum(0),
    "gather of places": lambda x, y, i: jnp.outer(x, y)[jnp.array([0, 1, 2, 3]), jnp.stack([i, i, 3 - i, jnp.asarray(0)])],
    "gather outside": lambda x, y, i: jnp.nan_to_num(x.at[jnp.array([1, 7, 2, 3]) + i].get(mode="fill"), nan=0.5),
    "scatter": lambda x, y, i: x.at[i].set(y[1]).at[jnp.array([0, 3])].set(y[:2]),
    "scatter add": lambda x, y, i: x.at[jnp.stack([i, jnp.asarray(2), i])].add(y[:3]),
    "scatter outside": lambda x, y, i: x.at[i + 2].add(y[0], mode="drop").at[i + 2].multiply(0.5, mode="clip"),
    "products": lambda x, y, i: (
        jnp.outer(x, y) @ x + MATRIX @ y * jnp.dot(x, y) + jnp.einsum("bij,bj->i", jnp.ones((2, 4, 4)), jnp.ones((2, 4)))
    ),
    "reductions": lambda x, y, i: jnp.stack([x.sum(), jnp.prod(y), x.max(), y.min()]) + jnp.any(x > 1) - jnp.all(y < 1),
    "running": lambda x, y, i: jnp.cumsum(x) + lax.cummax(y, reverse=True) - jnp.cumprod(y),
    "sort": lambda x, y, i: jnp.sort(x) + y[jnp.argsort(x)] - lax.sort((jnp.round(x), y), num_keys=2)[1],
    "best": lambda x, y, i: x * jnp.argmax(y) + y * jnp.argmin(jnp.abs(x)) + x[jnp.argmax(x)],
    "pad": lambda x, y, i: lax.pad(jnp.concatenate([x, y]), 0.25, ((-1, -2, 0),))[:4] + lax.pad(y[:2], 1.5, ((0, 1, 1),)),
    "shapes": lambda x, y, i: jnp.broadcast_to(jnp.outer(x, y).T.reshape(2, 8)[:, ::2], (3, 2, 4))[1].sum(0) + jnp.flip(x),
    "integers": lambda x, y, i: x + (7 * i - 9) // 2 + (5 - i) % 3 + jnp.arange(4) ** 2 + jnp.floor(y) + jnp.round(x).astype(int),
    "solve": lambda x, y, i: jnp.linalg.solve(MATRIX + 0.1 * jnp.diag(jnp.tanh(x)), y),
    "cond": lambda x, y, i: lax.cond(i > 1, lambda: (x * y, 1.0), lambda: (x.at[i].add(2.0), 1.0))[0],
    "switch": lambda x, y, i: lax.switch(i, [lambda: x, lambda: y, lambda: jnp.sin(x)]),
    "scan": lambda x, y, i: lax.scan(lambda c, row: (0.5 * c + row * x, c.sum() * row), y, x, reverse=True)[1] + y,
    "fori": lambda x, y, i: lax.fori_loop(0, 3, lambda k, c: 0.3 * c + x[k] * y, x),
}
LOOPS = {
    "while": lambda x, y, i: lax.while_loop(
        lambda c: (c[0] < i + 2) & (jnp.abs(c[1]).max() < 50.0), lambda c: (c[0] + 1, 1.1 * c[1] + y * x[3]), (0, x)
    )[1],
    "while that keeps a part": lambda x, y, i: lax.while_loop(
        lambda c: c[1].sum() < 9.0, lambda c: (c[0].at[1].add(c[2]), c[1] + 1.0 + 0.0 * c[0], c[2]), (x.at[3].set(0.0), jnp.zeros(4), 0.5)
    )[0],
    "nested while": lambda x, y, i: lax.fori_loop(0, i, lambda k, c: lax.fori_loop(0, k + 1, lambda _, d: 0.5 * d + x, c), y),
}  # no reverse mode
ALL = STEPS | LOOPS


def bounded(x):
    return 3.0 * jnp.tanh(x / 3.0)


def program(names):
    """A function of a vector and an index."""

    def run(x, i):
        y = jnp.cos(x)
        for name in names:
            x, y = bounded(ALL[name](x, y, i)), x
        return x, y

    return run


def assert_close(found, expected, tolerance=1e-11):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), found, expected)
    assert jax.tree.map(lambda leaf: (leaf.dtype, leaf.shape), found) == jax.tree.map(lambda leaf: (leaf.dtype, leaf.shape), expected)


@pytest.mark.parametrize("name", ALL)
def test_each_primitive(name):
    """With an index that is known and with one that is not, alone and in a batch; nothing is left to whole arrays but calls into LAPACK."""
    f = ALL[name]
    y = jnp.array([1.4, 0.2, -0.6, 0.9])
    traced = scalarise(f)
    indices, many = jnp.array([0, 1, 3]), jnp.stack([X, X[::-1], y])
    assert_close(traced(X, y, 2), jax.jit(f)(X, y, 2))

    def known(x, y):
        return f(x, y, jnp.asarray(1))

    assert_close(scalarise(known)(X, y), known(X, y))
    assert_close(jax.jit(jax.vmap(traced))(many, many[::-1], indices), jax.vmap(f)(many, many[::-1], indices))
    assert set(traced.report(X, y, 2).fallbacks) <= {"lu", "triangular_solve"}


PROGRAMS = st.lists(st.sampled_from(sorted(ALL)), min_size=2, max_size=4)
SMOOTH = st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=3)
FEW = hypothesis.settings(
    max_examples=4, derandomize=True, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)


@FEW
@hypothesis.given(PROGRAMS, st.integers(0, 3))
def test_random_programs(names, i):
    f = program(names)
    assert_close(scalarise(f)(X, i), jax.jit(f)(X, i))
    lanes = jnp.stack([X, 0.3 - X, 2 * X]), jnp.array([i, 3 - i, 1])
    assert_close(jax.jit(jax.vmap(scalarise(f)))(*lanes), jax.jit(jax.vmap(f))(*lanes))
    alone = scalarise(f, fences=False)
    assert_close(jax.jit(lambda *lanes: lax.map(lambda lane: alone(*lane), lanes))(*lanes), jax.vmap(f)(*lanes))


@FEW
@hypothesis.given(SMOOTH, st.integers(0, 3))
def test_gradients_of_random_programs(names, i):
    """Taken before and after, in reverse and forward."""

    def f(x, i):
        return jnp.sum(program(names)(x, i)[0] * X)

    expected = jax.jit(jax.grad(f))(X, i)
    assert_close(jax.jit(jax.grad(scalarise(f)))(X, i), expected, 1e-9)
    assert_close(scalarise(jax.grad(f))(X, i), expected, 1e-9)
    assert_close(jax.jit(jax.jacfwd(scalarise(f)))(X, i), expected, 1e-9)


@FEW
@hypothesis.given(st.lists(st.sampled_from(sorted(set(ALL) - {"integers", "best", "sort", "solve"})), min_size=1, max_size=3))
def test_single_precision(names):
    """Programs whose steps are continuous enough for rounding not to matter; constants in double precision aside."""

    def f(x):
        return program(names)(x, 1)[0].astype(jnp.float32)

    x = X.astype(jnp.float32)
    assert_close(scalarise(f)(x), jax.jit(f)(x), 2e-5)
