"""Newton's method with Jacobians that serve for many iterations and steps: one loop, and two policies of when to stop."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .algebra import DENSE, AbstractAlgebra

MAX_ITERATIONS = 12
_JUDGED = 0.1
"""Corrections below this part of the tolerance say little about the rate: rounding noise would decide, differently in every batch."""
_NEGLIGIBLE = 1e-3
"""A correction below this part of the tolerance needs no second one to know the rate."""
_DIVERGING = 2.0


class Recycled(eqx.Module):
    """A factorised Jacobian of an earlier solve, and how well it served."""

    factors: Any
    """as its algebra makes them"""
    usable: Bool[Array, ""]
    rate: Float[Array, ""]
    """of convergence, as last measured"""

    @staticmethod
    def nothing(unknowns: int, algebra: AbstractAlgebra = DENSE) -> "Recycled":
        return Recycled(algebra.no_factors(unknowns), jnp.array(False), jnp.ones(()))


class NewtonInfo(eqx.Module):
    """What a Newton solve did."""

    converged: Bool[Array, ""]
    iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    evaluations: Int[Array, ""]
    worst: Int[Array, ""]
    """the unknown with the largest entry in the last correction (of the last residual if that is not finite)"""
    finite: Bool[Array, ""]
    """whether the last residual was, and the correction that goes with it"""


class Iteration(eqx.Module):
    """Where a solve stands."""

    z: Float[Array, "n"]
    size: Float[Array, ""]
    """of the correction that led to z; 1 is the tolerance"""
    count: Int[Array, ""]
    """corrections with the present factors, from the present start"""
    rate: Float[Array, ""]
    """size of the last correction over that of the one before it; until there are two, what earlier solves say"""
    factors: Any
    fresh: Bool[Array, ""]
    """whether the factors were made in this solve"""
    renew: Bool[Array, ""]
    """whether the next correction asks for new ones"""
    failed: Bool[Array, ""]
    info: NewtonInfo

    @property
    def measured(self) -> Array:
        """Whether the rate is that of the present factors."""
        return self.count > 1


# --- when to stop -----------------------------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """On the last correction, if all is finite."""

    converged: Bool[Array, ""]
    diverging: Bool[Array, ""]
    slow: Bool[Array, ""]
    """a new Jacobian pays"""


class AbstractStopping(eqx.Module):
    """When corrections are small enough, and factors good enough."""

    evaluates_result: eqx.AbstractClassVar[bool]
    """Whether a correction is judged by the residual where it led to, or at once."""

    @abc.abstractmethod
    def judge(self, it: Iteration, residual: Float[Array, "n"]) -> Verdict:
        """`residual` is the last one: after the last correction if `evaluates_result`, else before it."""

    @abc.abstractmethod
    def hand_on(self, it: Iteration) -> tuple[Bool[Array, ""], Float[Array, ""]]:
        """Whether the factors may serve in the next solve, and the rate that is remembered of them."""


class JudgeByResidual(AbstractStopping):
    """Negrut et al. (2005), (42)-(45): with the rate xi of two successive corrections, stops when xi / (1 - xi) size <= 1, and
    `satisfied(residual)`, if given, holds at the new point. That costs one evaluation more than there are corrections."""

    satisfied: Callable[[Array], Array] | None = None
    evaluates_result: ClassVar[bool] = True
    SLOW: ClassVar[float] = 0.1
    """A rate of convergence above this asks for a new Jacobian."""

    def judge(self, it: Iteration, residual: Array) -> Verdict:
        small = it.measured & (it.rate < 1) & (it.rate * it.size <= 1 - it.rate) | (it.count > 0) & (it.size <= _NEGLIGIBLE)
        small = small | it.measured & (it.size <= _JUDGED)  # rounding: in tiny steps, of a constraint and of what velocities have of it
        ok = jnp.array(True) if self.satisfied is None else self.satisfied(residual)
        return Verdict(small & ok, it.measured & (it.rate > _DIVERGING), self._slow(it) | (it.measured & (it.rate > self.SLOW) & ~ok))

    def hand_on(self, it: Iteration) -> tuple[Array, Array]:
        return ~self._slow(it), it.rate

    def _slow(self, it: Iteration) -> Array:
        return it.measured & (it.rate > self.SLOW) & (it.size > _JUDGED)


class TrustLastRate(AbstractStopping):
    """As few evaluations as are safe: for forces of which a step evaluates nothing else.

    With the rate of convergence xi, xi / (1 - xi) size is what the corrected z is still wrong by; the iteration stops when that is at most 1.
    The first correction is judged by the rate of the last solve, so that a small one costs one evaluation; with a linear residual and good
    factors the second correction is zero. No evaluation is spent on the result.
    """

    evaluates_result: ClassVar[bool] = False
    LEAST_RATE: ClassVar[float] = 1e-4
    """No rate is trusted to be better than this in the next solve: a force may set in."""
    PATIENCE: ClassVar[int] = 2
    """If so many corrections more will not do, a new Jacobian is made."""
    SLOW: ClassVar[float] = 0.2
    """Factors with a rate of convergence above this are not handed on."""
    FORGET: ClassVar[float] = 2.0
    """A rate that could not be measured may have become this many times worse."""

    def judge(self, it: Iteration, residual: Array) -> Verdict:
        rate = jnp.where(it.measured, it.rate, jnp.maximum(it.rate, self.LEAST_RATE))
        # A second correction far below the tolerance need not be smaller than the first: both may be rounding.
        small = (rate < 1) & (rate * it.size <= 1 - rate) | (it.size <= _NEGLIGIBLE) | it.measured & (it.size <= _JUDGED)
        diverging = it.measured & (rate > _DIVERGING) & (it.size > 1)
        return Verdict(small, diverging, it.measured & (it.size * rate**self.PATIENCE > 1))

    def hand_on(self, it: Iteration) -> tuple[Array, Array]:
        # A correction near the tolerance may be rounding: what it says of the rate is a bound only.
        shown = jnp.where(it.size > _JUDGED, it.rate, jnp.minimum(it.rate, self.SLOW))
        # Where the rate was not measured the next solve will, by a second correction: cheaper than a Jacobian.
        return ~it.measured | (shown <= self.SLOW), jnp.minimum(jnp.where(it.measured, shown, self.FORGET * it.rate), 1.0)


# --- the loop ---------------------------------------------------------------------------------------------------------------------------------


def newton(
    residual: Callable[[Array], Array],
    jacobian: Callable[[Array], Any],
    start: Float[Array, "n"],
    recycled: Recycled,
    size: Callable[[Array], Array],
    stopping: AbstractStopping,
    algebra: AbstractAlgebra = DENSE,
) -> tuple[Float[Array, "n"], Recycled, NewtonInfo]:
    """Solves residual(z) = 0 with a Jacobian that is renewed only when convergence is slow.

    `size(correction)` is a norm in which 1 is the tolerance. With a fresh Jacobian, divergence ends the attempt; with a recycled one it starts
    again from `start` with a fresh one. `jacobian` returns a matrix of the form that `algebra` takes.
    """

    def proceed(it: Iteration) -> Array:
        return ~(it.info.converged | it.failed)

    def iterate(it: Iteration) -> Iteration:
        r = residual(it.z)  # here and nowhere else: the residual is most of the program
        if stopping.evaluates_result:
            it, going_on = _conclude(it, stopping.judge(it, r), r, start)
            return _correct(it, r, going_on, jacobian, size, algebra)
        it = _correct(it, r, jnp.array(True), jacobian, size, algebra)
        return _conclude(it, stopping.judge(it, r), r, start)[0]

    zero, no = jnp.zeros((), jnp.int32), jnp.array(False)
    nothing = NewtonInfo(no, zero, zero, zero, zero, ~no)
    begin = Iteration(start, jnp.zeros(()), zero, recycled.rate, recycled.factors, no, ~recycled.usable, no, nothing)
    end = jax.lax.while_loop(proceed, iterate, begin)
    good, rate = stopping.hand_on(end)
    return end.z, Recycled(end.factors, end.info.converged & good, rate), end.info


def _conclude(it: Iteration, verdict: Verdict, residual: Array, start: Array) -> tuple[Iteration, Bool[Array, ""]]:
    """What follows from a verdict, and whether the iteration goes on from where it is."""
    finite = jnp.isfinite(it.size) & jnp.all(jnp.isfinite(residual))
    converged, diverging = finite & verdict.converged, ~finite | verdict.diverging
    hopeless = it.fresh | (it.count == 0)  # a new Jacobian would not help
    failed = ~converged & ((diverging & hopeless) | (it.info.iterations >= MAX_ITERATIONS))
    ended = converged | failed
    restart = ~ended & diverging
    it = dataclasses.replace(
        it,
        z=jnp.where(restart, start, it.z),
        size=jnp.where(restart, 0.0, it.size),
        count=jnp.where(restart, 0, it.count),
        renew=it.renew | ~ended & (restart | verdict.slow),
        failed=failed,
        info=dataclasses.replace(it.info, converged=converged, finite=finite),
    )
    return it, ~(ended | restart)


def _correct(
    it: Iteration,
    residual: Array,
    going_on: Bool[Array, ""],
    jacobian: Callable[[Array], Any],
    size: Callable[[Array], Array],
    algebra: AbstractAlgebra,
) -> Iteration:
    """The next correction, from the residual at z."""
    renewing = it.renew & going_on
    # A condition that is the same for all lanes of a batch stays a condition under vmap: no lane asks, no Jacobian.
    factors = jax.lax.cond(
        eqxi.unvmap_any(renewing),
        lambda: jax.tree.map(lambda new, old: jnp.where(renewing, new, old), algebra.factorize(jacobian(it.z)), it.factors),
        lambda: it.factors,
    )
    correction = -algebra.solve(factors, residual)
    now = size(correction)
    count = jnp.where(it.renew, 0, it.count) + 1
    expected = jnp.where(renewing, 1.0, it.rate)  # what other factors did says nothing of new ones
    large = jnp.fmin(jnp.abs(correction), jnp.finfo(correction.dtype).max)  # NaN too: one in the residual spreads to all corrections
    blamed = jnp.argmax(jnp.where(jnp.isfinite(residual), large, jnp.inf)).astype(jnp.int32)
    return Iteration(
        z=jnp.where(going_on & jnp.isfinite(now), it.z + correction, it.z),
        size=jnp.where(going_on, now, it.size),
        count=jnp.where(going_on, count, it.count),
        rate=jnp.where(going_on & (count > 1), now / jnp.maximum(it.size, 1e-300), expected),
        factors=factors,
        fresh=it.fresh | renewing,
        renew=it.renew & ~going_on,
        failed=it.failed,
        info=dataclasses.replace(
            it.info,
            iterations=it.info.iterations + going_on,
            jacobians=it.info.jacobians + renewing,
            evaluations=it.info.evaluations + 1,
            worst=jnp.where(going_on | ~it.info.finite, blamed, it.info.worst),
        ),
    )
