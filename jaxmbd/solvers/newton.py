"""Newton's method, modified (recycled Jacobian) and exact, and its implicit derivative."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from . import linear

MAX_ITERATIONS = 10
_SLOW = 0.4
"""A rate of convergence above this asks for a new Jacobian."""
_DIVERGING = 2.0
_NEGLIGIBLE = 1e-3
"""A correction below this part of the tolerance needs no second one to know the rate."""


class Recycled(eqx.Module):
    """A factorised Jacobian from an earlier iteration or step."""

    factors: linear.Factors
    usable: Bool[Array, ""]


class NewtonInfo(eqx.Module):
    """What a Newton solve did."""

    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    evaluations: Int[Array, ""]
    rate: Float[Array, ""]
    """last measured rate of convergence"""
    worst: Int[Array, ""]
    """the unknown with the largest entry in the last correction (of the last residual if that is not finite)"""


def modified_newton(
    residual: Callable[[Array], Array],
    jacobian: Callable[[Array], Array],
    start: Float[Array, "n"],
    recycled: Recycled,
    size: Callable[[Array], Array],
    satisfied: Callable[[Array, Array], Array],
) -> tuple[Array, Recycled, NewtonInfo]:
    """Solves residual(z) = 0 with a Jacobian that is renewed only when convergence is slow.

    `size(correction)` is a norm in which 1 is the tolerance. With the rate xi of two successive corrections, the iteration stops when
    xi / (1 - xi) size <= 1 (paper 004, (42)-(45)) and `satisfied(z, residual)` holds at the new point. With a fresh Jacobian, divergence ends
    the attempt; with a recycled one it starts again from `start` with a fresh one.
    """

    class Iteration(eqx.Module):
        z: Array
        r: Array
        last_size: Array
        k: Array  # corrections since the last renewal or restart
        recycled: Recycled
        fresh: Array
        renew: Array
        info: NewtonInfo
        failed: Array

    def proceed(it: Iteration):
        return ~(it.info.converged | it.failed)

    def iterate(it: Iteration) -> Iteration:
        # The matrix is built under a condition and used once, so that XLA does not keep two of them.
        factors = jax.lax.cond(
            it.renew, lambda: linear.factorize(jacobian(it.z)), lambda: it.recycled.factors
        )
        fresh = it.fresh | it.renew
        correction = -linear.solve(factors, it.r)
        z = it.z + correction
        r = residual(z)
        now = size(correction)
        k = jnp.where(it.renew, 0, it.k) + 1
        rate = jnp.where(k > 1, now / jnp.maximum(it.last_size, 1e-300), it.info.rate)
        finite = jnp.isfinite(now) & jnp.all(jnp.isfinite(r))
        small = (k > 1) & (rate < 1) & (rate * now <= 1 - rate) | (now <= _NEGLIGIBLE)
        converged = finite & small & satisfied(z, r)
        diverging = ~finite | ((k > 1) & (rate > _DIVERGING))
        iterations = it.info.iterations + 1
        # Rounding noise makes rates meaningless once corrections are negligible: do not renew for them.
        slow = (k > 1) & (rate > _SLOW) & (now > _NEGLIGIBLE)
        restart = diverging & ~fresh
        renew = ~converged & (restart | (slow & (~fresh | (k > 3))))
        failed = ~converged & ((diverging & fresh) | (iterations >= MAX_ITERATIONS))
        blamed = jnp.where(finite, jnp.abs(correction), jnp.where(jnp.isfinite(r), 0.0, 1.0))
        return Iteration(
            z=jnp.where(restart, start, z),
            r=jnp.where(restart, first, r),
            last_size=now,
            k=k,
            recycled=Recycled(factors, jnp.array(True)),
            fresh=fresh & ~restart,
            renew=renew,
            info=NewtonInfo(
                converged,
                iterations,
                it.info.jacobians + it.renew,
                it.info.evaluations + 1,
                rate,
                jnp.argmax(blamed),
            ),
            failed=failed,
        )

    first = residual(start)
    zero = jnp.zeros((), jnp.int32)
    begin = Iteration(
        start,
        first,
        jnp.zeros(()),
        zero,
        recycled,
        jnp.array(False),
        ~recycled.usable,
        NewtonInfo(jnp.array(False), zero, zero, zero + 1, jnp.ones(()), jnp.argmax(jnp.abs(first))),
        ~jnp.all(jnp.isfinite(first)),
    )
    end = jax.lax.while_loop(proceed, iterate, begin)
    # A Jacobian that led to failure, or was slow, is not handed on.
    usable = end.info.converged & (end.info.rate < _SLOW)
    return end.z, Recycled(end.recycled.factors, usable), end.info


def implicit_root(
    residual: Callable[[Array], Array], solve: Callable[[], tuple[Float[Array, "n"], Any]]
) -> tuple[Float[Array, "n"], Any]:
    """A root found by `solve`, with the derivative of the implicit function theorem: one linear solve with the exact Jacobian.

    `solve()` returns the root and anything else; neither it nor the way it gets there is differentiated. Works in forward and in reverse
    mode with respect to everything that `residual` closes over.
    """

    def tangent_solve(linear_map, right):
        matrix = jax.vmap(linear_map, out_axes=1)(jnp.eye(right.shape[0], dtype=right.dtype))
        return jnp.linalg.solve(matrix, right)

    guess = jax.eval_shape(solve)[0]
    return jax.lax.custom_root(
        residual, jnp.zeros(guess.shape, guess.dtype), lambda f, z: solve(), tangent_solve, has_aux=True
    )


def exact_newton(
    residual: Callable[[Array], Array], start: Float[Array, "n"], tolerance: float = 1e-12, max_iterations: int = 50
) -> tuple[Array, Bool[Array, ""]]:
    """Newton's method with a new Jacobian every time, for small problems that are solved once; stops when corrections no longer matter.

    The step is halved (up to ten times) while it does not reduce the residual. Differentiated implicitly.
    """

    def search():
        def proceed(carry):
            _, change, k = carry
            return (change > tolerance) & (k < max_iterations)

        def iterate(carry):
            z, _, k = carry
            r = residual(z)
            step = -jnp.linalg.solve(jax.jacfwd(residual)(z), r)
            norm = jnp.linalg.norm(r)

            def too_long(trial):
                factor, j = trial
                worse = ~(jnp.linalg.norm(residual(z + factor * step)) <= norm * (1 + 1e-9) + 1e-13)
                return worse & (j < 10)

            factor, _ = jax.lax.while_loop(too_long, lambda trial: (0.5 * trial[0], trial[1] + 1), (1.0, 0))
            step = factor * step
            change = jnp.max(jnp.abs(step) / (1.0 + jnp.abs(z)), initial=0.0)
            return z + step, change, k + 1

        z, change, _ = jax.lax.while_loop(proceed, iterate, (start, jnp.array(jnp.inf), 0))
        return z, jnp.isfinite(change) & (change <= tolerance)

    return implicit_root(residual, search)
