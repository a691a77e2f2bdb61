"""Newton's method with Jacobians that serve for many iterations and steps."""

from collections.abc import Callable

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from . import linear

MAX_ITERATIONS = 12
_SLOW = 0.1
"""A rate of convergence above this asks for a new Jacobian."""
_DIVERGING = 2.0
_JUDGED = 0.1
"""Corrections below this part of the tolerance say little about the rate: rounding noise would decide, differently in every batch."""
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
    finite: Bool[Array, ""]
    """whether the last residual was, and the correction from it"""


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
    xi / (1 - xi) size <= 1 (Negrut et al. 2005, (42)-(45)) and `satisfied(z, residual)` holds at the new point. With a fresh Jacobian,
    divergence ends the attempt; with a recycled one it starts again from `start` with a fresh one.
    """

    class Iteration(eqx.Module):
        z: Array
        size: Array  # of the correction that led to z
        k: Array  # corrections since the last renewal or restart
        recycled: Recycled
        fresh: Array
        renew: Array
        info: NewtonInfo
        failed: Array

    def proceed(it: Iteration):
        return ~(it.info.converged | it.failed)

    def is_slow(it: Iteration):
        return (it.k > 1) & (it.info.rate > _SLOW) & (it.size > _JUDGED)

    def iterate(it: Iteration) -> Iteration:
        """Judges the last correction by the residual at z, then makes the next one: the residual stands here once."""
        r = residual(it.z)
        finite = jnp.isfinite(it.size) & jnp.all(jnp.isfinite(r))
        rate = it.info.rate
        small = (it.k > 1) & (rate < 1) & (rate * it.size <= 1 - rate) | (it.k > 0) & (it.size <= _NEGLIGIBLE)
        ok = satisfied(it.z, r)
        converged = finite & small & ok
        diverging = ~finite | ((it.k > 1) & (rate > _DIVERGING))
        slow = is_slow(it) | ((it.k > 1) & (rate > _SLOW) & ~ok)
        hopeless = it.fresh | (it.k == 0)  # a new Jacobian would not help
        restart = ~converged & diverging & ~hopeless
        renew = it.renew | (~converged & slow & (~it.fresh | (it.k > 1)))
        failed = ~converged & ((diverging & hopeless) | (it.info.iterations >= MAX_ITERATIONS))
        go_on = ~(converged | failed | restart)

        # A condition that is the same for all lanes of a batch stays a condition under vmap: no lane asks, no Jacobian.
        renewing = renew & go_on
        factors = jax.lax.cond(
            eqxi.unvmap_any(renewing),
            lambda: jax.tree.map(lambda new, old: jnp.where(renewing, new, old), linear.factorize(jacobian(it.z)), it.recycled.factors),
            lambda: it.recycled.factors,
        )
        correction = jnp.where(go_on, -linear.solve(factors, r), 0.0)
        now = size(correction)
        k = jnp.where(renew, 0, it.k) + 1
        blamed = jnp.where(jnp.isfinite(r), jnp.abs(correction), jnp.inf)
        return Iteration(
            z=jnp.where(restart, start, it.z + correction),
            size=jnp.where(restart, 0.0, jnp.where(go_on, now, it.size)),
            k=jnp.where(restart, 0, jnp.where(go_on, k, it.k)),
            recycled=Recycled(factors, it.recycled.usable | renewing),
            fresh=it.fresh | renewing,
            renew=restart,
            info=NewtonInfo(
                converged,
                it.info.iterations + go_on,
                it.info.jacobians + renewing,
                it.info.evaluations + 1,
                jnp.where(go_on & (k > 1), now / jnp.maximum(it.size, 1e-300), rate),
                jnp.where(converged, it.info.worst, jnp.argmax(blamed).astype(jnp.int32)),
                finite,
            ),
            failed=failed,
        )

    zero = jnp.zeros((), jnp.int32)
    begin = Iteration(
        start,
        jnp.zeros(()),
        zero,
        recycled,
        jnp.array(False),
        ~recycled.usable,
        NewtonInfo(jnp.array(False), zero, zero, zero, jnp.zeros(()), zero, jnp.array(True)),
        jnp.array(False),
    )
    end = jax.lax.while_loop(proceed, iterate, begin)
    # A Jacobian that led to failure, or was slow, is not handed on.
    usable = end.info.converged & ~is_slow(end)
    return end.z, Recycled(end.recycled.factors, usable), end.info


# --- Newton with factors that are almost always good ------------------------------------------------------------------------------------------

_LEAST_RATE = 1e-4
"""No rate is trusted to be better than this in the next solve: a force may set in."""
_PATIENCE = 2
"""If so many corrections more will not do, a new Jacobian is made."""
_RENEW = 0.2
"""Factors with a rate of convergence above this are not handed on."""
_FORGET = 2.0
"""A rate that could not be measured may have become this many times worse."""


class Kept(eqx.Module):
    """Factors from an earlier solve, and how well they served."""

    factors: linear.Factors
    usable: Bool[Array, ""]
    rate: Float[Array, ""]
    """of convergence, as last measured"""


def simplified_newton(
    residual: Callable[[Array], Array], start: Float[Array, "n"], kept: Kept, size: Callable[[Array], Array]
) -> tuple[Array, Kept, NewtonInfo]:
    """Solves residual(z) = 0 with as few evaluations as are safe: for forces of which a step evaluates nothing else.

    Every evaluation is followed by its correction. With the rate of convergence xi, rate / (1 - rate) size(correction) is what the corrected z
    is still wrong by; the iteration stops when that is at most 1. The first correction is judged by the rate of the last solve, so that
    a small one costs one evaluation; with a linear residual and good factors the second correction is zero. Other than in `modified_newton`
    no evaluation is spent on the result.
    """

    class Iteration(eqx.Module):
        z: Array
        size: Array  # of the last correction
        k: Array  # corrections since the last renewal or restart
        kept: Kept
        fresh: Array
        renew: Array
        info: NewtonInfo
        failed: Array

    def proceed(it: Iteration):
        return ~(it.info.converged | it.failed)

    def iterate(it: Iteration) -> Iteration:
        # A condition that is the same for all lanes of a batch stays a condition under vmap: no lane asks, no Jacobian.
        factors = jax.lax.cond(
            eqxi.unvmap_any(it.renew),
            lambda: jax.tree.map(
                lambda new, old: jnp.where(it.renew, new, old), linear.factorize(jax.jacfwd(residual)(it.z)), it.kept.factors
            ),
            lambda: it.kept.factors,
        )
        fresh = it.fresh | it.renew
        correction = -linear.solve(factors, residual(it.z))
        now = size(correction)
        finite = jnp.isfinite(now)
        measured = (it.k > 0) & ~it.renew  # a correction before a renewal says nothing of the new factors
        seen = now / jnp.maximum(it.size, 1e-300)
        carried = jnp.where(it.renew, 1.0, it.kept.rate)
        rate = jnp.where(measured, seen, jnp.maximum(carried, _LEAST_RATE))
        # A second correction far below the tolerance need not be smaller than the first: both may be rounding.
        small = (rate < 1) & (rate * now <= 1 - rate) | (now <= _NEGLIGIBLE) | measured & (now <= _JUDGED)
        converged = finite & small
        diverging = ~finite | (measured & (seen > _DIVERGING) & (now > 1))
        iterations = it.info.iterations + 1
        restart = ~converged & diverging & ~fresh
        failed = ~converged & ((diverging & fresh) | (iterations >= MAX_ITERATIONS))
        slow = ~converged & measured & (now * seen**_PATIENCE > 1)
        # A correction near the tolerance may be rounding: what it says of the rate is a bound only.
        shown = jnp.where(now > _JUDGED, seen, jnp.minimum(seen, _RENEW))
        remembered = jnp.where(measured, shown, _FORGET * carried)
        return Iteration(
            z=jnp.where(restart, start, jnp.where(finite, it.z + correction, it.z)),
            size=now,
            k=jnp.where(restart, 0, jnp.where(it.renew, 1, it.k + 1)),
            # Where the rate was not measured the next solve will, by a second correction: cheaper than a Jacobian.
            kept=Kept(factors, ~measured | (shown <= _RENEW), jnp.minimum(remembered, 1.0)),
            fresh=fresh,
            renew=restart | slow,
            info=NewtonInfo(
                converged,
                iterations,
                it.info.jacobians + it.renew,
                it.info.evaluations + 1,
                rate,
                jnp.argmax(jnp.abs(correction)).astype(jnp.int32),
                finite,
            ),
            failed=failed,
        )

    zero, no = jnp.zeros((), jnp.int32), jnp.array(False)
    nothing = NewtonInfo(no, zero, zero, zero, jnp.zeros(()), zero, ~no)
    begin = Iteration(start, jnp.zeros(()), zero, kept, no, ~kept.usable, nothing, no)
    end = jax.lax.while_loop(proceed, iterate, begin)
    # Factors that led to failure, or were slow, are not handed on.
    return end.z, Kept(end.kept.factors, end.info.converged & end.kept.usable, end.kept.rate), end.info
