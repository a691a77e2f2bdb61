"""What else a caller may rely on: own rules of derivatives, NaN, budgets, side effects, closures, sharing."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmbd.scalar import scalarise

X = jnp.array([0.3, -1.2, 0.7, 2.1])


def test_equal_expressions_are_one_and_zeros_vanish():
    def f(x):
        matrix = jnp.zeros((4, 4)).at[0, 0].set(x[0]).at[1, 2].set(x[1])
        return matrix @ x + jnp.stack([x[0] * x[0], 0.0, 0.0, 0.0])

    assert scalarise(f).report(X).operations == 3  # x0 x0, x1 x2 and a sum


def test_short_loops_are_written_out_and_long_ones_are_not():
    def f(trips):
        return lambda x: lax.fori_loop(0, trips, lambda _, c: c * x[0] + 1.0, x[1])

    assert scalarise(f(3)).report(X).operations == 6
    assert scalarise(f(1000)).report(X).operations <= 6
    np.testing.assert_allclose(scalarise(f(1000))(X), f(1000)(X), rtol=1e-12)


def test_own_derivative_rules_are_kept():
    @jax.custom_jvp
    def forward(x):
        return jnp.sin(x)

    forward.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 5.0 * tangents[0]))

    @jax.custom_vjp
    def reverse(x):
        return jnp.sin(x)

    reverse.defvjp(lambda x: (jnp.sin(x), x), lambda x, cotangent: (3.0 * x * cotangent,))

    def held(x):
        return lax.stop_gradient(x) * x

    for rule in (forward, reverse, held):

        def f(x, n, rule=rule):
            return (jnp.sum(rule(x) ** 2), n + 1)

        expected = jax.grad(lambda x: f(x, 2)[0])(X)
        np.testing.assert_allclose(jax.grad(lambda x: scalarise(f)(x, 2)[0])(X), expected, rtol=1e-14)
        np.testing.assert_allclose(jax.vmap(jax.grad(lambda x: scalarise(f)(x, 2)[0]))(X[None])[0], expected, rtol=1e-14)


def test_second_derivatives_and_implicit_ones():
    def f(x):
        matrix = jnp.diag(1.0 + x**2) + jnp.outer(x, x)
        solution = lax.custom_linear_solve(
            lambda u: matrix @ u,
            x,
            solve=lambda _, b: jnp.linalg.inv(lax.stop_gradient(matrix)) @ b,
            transpose_solve=lambda _, b: jnp.linalg.inv(lax.stop_gradient(matrix)).T @ b,
        )
        return jnp.sum(solution**3)

    np.testing.assert_allclose(jax.hessian(scalarise(f))(X), jax.hessian(f)(X), rtol=1e-10, atol=1e-12)


def test_closing_over_what_is_differentiated():
    def f(y):
        return scalarise(lambda x: jnp.sum(x * y))(X)

    np.testing.assert_allclose(jax.grad(f)(jnp.ones(4)), X)


def test_nan_and_infinity_pass_but_for_structural_zeros():
    def f(x):
        return jnp.stack([x[0] - x[0], x[0] / x[0], jnp.max(x), jnp.sum(x * jnp.array([0.0, 1.0, 1.0, 1.0])), jnp.argmax(x)])

    for bad in (jnp.nan, jnp.inf):
        found = scalarise(f)(X.at[0].set(bad))
        assert np.all(np.isnan(found[:2]))
        assert not np.isfinite(found[2])
        assert np.isfinite(found[3])  # f itself: NaN
        assert found[4] == 0
    with_two = X.at[1].set(jnp.nan).at[3].set(jnp.nan)
    for g in (jnp.argmax, jnp.argmin, jnp.sort, jnp.argsort):
        np.testing.assert_array_equal(scalarise(g)(with_two), g(with_two))


def test_beyond_the_budget_it_declines_and_says_so(caplog):
    def f(x):
        return jnp.sum(jnp.sin(jnp.outer(x, x)))

    few = scalarise(f, budget=10)
    report = few.report(X)
    assert not report.scalarised
    assert "10 operations" in report.reason
    with caplog.at_level(logging.DEBUG, "jaxmbd.scalar"):
        np.testing.assert_array_equal(few(X), jax.jit(f)(X))
    assert "not scalarised: more than 10 operations" in caplog.text


def test_large_arrays_stay_whole():
    def f(x, many):
        return (jnp.sum(many) * x, jnp.cumsum(many)[5] + x[0], jnp.sort(many))

    many = jnp.linspace(0.0, 1.0, 3000)[::-1]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), scalarise(f)(X, many), f(X, many))


def test_side_effects_are_left_alone():
    seen = []

    def f(x):
        jax.debug.callback(lambda v: seen.append(float(v)), x[0])
        return 2 * x

    assert "side effects" in scalarise(f).report(X).reason
    scalarise(f)(X)
    jax.effects_barrier()
    assert len(seen) == 1


def test_no_arrays_nothing_and_empty_ones():
    def f(x):
        return (jnp.zeros((0, 3)) @ jnp.ones(3), jnp.sum(x[:0]), 7, x)

    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b), scalarise(f)(X), jax.jit(f)(X))
