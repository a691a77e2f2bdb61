"""Which order the next step of a variable-order method should have, and how much larger it may be."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..system.parameters import is_traced

HIGHEST = 6
HIGHEST_ADAPTIVE = 5
"""Order 6 is stable in too small a wedge to be chosen without asking."""
_AIM = 2.0
"""The error that a step should have is the tolerance over this."""
_AIM_HIGHER = 3.0
"""A higher order must promise more than the present one."""
_WORTH_GROWING = 1.2
_WORTH_SHRINKING = 0.95
_GROWTH = 2.0
"""On grids that grow faster, formulas lose their stability."""


class Attempt(eqx.Module):
    """What is known of a step when its order is judged."""

    errors: Float[Array, "orders"]
    """estimated error over the tolerance with orders 1, 2, ...; infinite where the past is too short for an estimate"""
    terms: Float[Array, "orders"]
    """sizes of h^(k+1) y^(k+1), k = 1, 2, ..."""
    order: Int[Array, ""]
    """the one that was used"""
    highest: Int[Array, ""]
    """order that the past will allow after this step"""
    repeats: Bool[Array, ""]
    """whether order and size are those of the step before"""


class Orders(eqx.Module):
    """What order selection remembers besides the past itself; survives rejected steps and has no derivative."""

    order: Int[Array, ""]
    """to try next"""
    same: Int[Array, ""]
    """accepted steps in a row that had one order and size"""
    failures: Int[Array, ""]
    """attempts since the last accepted step"""
    starting: Bool[Array, ""]
    """until the first rejection or hesitation, order and step grow without waiting"""

    @staticmethod
    def begin(order: Array) -> "Orders":
        zero = jnp.zeros((), jnp.int32)
        return Orders(jnp.asarray(order, jnp.int32), zero, zero, jnp.array(True))

    def judge(self, attempt: Attempt, free: bool) -> tuple["Orders", "Orders", Array]:
        """After an attempt: what to remember if it is accepted, if it is rejected, and the ratio of the next step to this if accepted.

        `free`: whether the order may be chosen; otherwise it rises to the highest and remains there. Order and size change at most once in
        order + 1 steps (the estimates assume a smooth grid), except that errors that are too large are answered at once.
        """
        errors, used = attempt.errors, attempt.order
        orders = jnp.arange(1, errors.shape[0] + 1)
        same = jnp.where(attempt.repeats, self.same + 1, 0)
        settled = self.starting | (same >= used)
        ratios = jnp.maximum(jnp.where(orders > used, _AIM_HIGHER, _AIM) * errors, 1e-12) ** (-1.0 / (orders + 1))
        if free:
            grows = _does_not_fall(attempt.terms, used)
            candidates = (orders == used) & ~grows | (orders == used - 1) | ((orders == used + 1) & settled & ~grows)
            order = jnp.argmax(jnp.where(candidates & (orders <= attempt.highest), ratios, -1.0)) + 1
            ratio = ratios[order - 1]
        else:
            order = jnp.minimum(used + 1, attempt.highest)
            ratio = ratios[used - 1]
        grown = jnp.where(settled & (ratio >= _WORTH_GROWING), jnp.minimum(ratio, _GROWTH), 1.0)
        starting = self.starting & (order >= used) & (ratio >= _WORTH_GROWING)
        ratio = jnp.where(ratio < _WORTH_SHRINKING, ratio, grown)

        order, failures, zero = order.astype(jnp.int32), self.failures + 1, jnp.zeros_like(self.failures)
        accepted = Orders(order, same, zero, starting)
        # Rejected: a smaller step, of a lower order if that promises more. In the end order 1, which needs no smooth past.
        lower = jnp.maximum(jnp.minimum(order, used), 1)
        again = jnp.where(failures >= 3, 1, jnp.where(failures == 2, jnp.maximum(lower - 1, 1), lower)) if free else used
        return accepted, Orders(again.astype(jnp.int32), self.same, failures, jnp.array(False)), ratio


def _does_not_fall(terms: Float[Array, "orders"], order: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether the last three terms of the expansion of the solution grow with their order. Then the solution contains a vibration that the steps
    do not resolve, and formulas of orders above 2, which are unstable near the imaginary axis, would excite it further: the order is to fall
    (the rule of DASSL; Brenan, Campbell and Petzold 1989, section 5.2)."""
    term = lambda k: terms[jnp.maximum(k, 1) - 1]  # noqa: E731
    return (order > 2) & (jnp.maximum(term(order - 1), term(order - 2)) <= term(order)) & jnp.isfinite(term(order))


def read_order(order: Any) -> int | None:
    """Of all steps; None: it is chosen step by step."""
    if order is None:
        return None
    if not _is_whole(order, HIGHEST):
        raise ValueError(
            f"order of BDF must be a whole number from 1 to {HIGHEST} (formulas of higher order are unstable), or None to choose it "
            f"step by step: got {order!r}."
        )
    return int(order)


def read_max_order(order: Any) -> int:
    """Of adaptive runs."""
    if not _is_whole(order, HIGHEST_ADAPTIVE):
        raise ValueError(
            f"max_order of BDF must be a whole number from 1 to {HIGHEST_ADAPTIVE}, got {order!r}: order=6 takes 6 in every step."
        )
    return int(order)


def _is_whole(order: Any, highest: int) -> bool:
    return isinstance(order, int | np.integer) and not isinstance(order, bool) and 1 <= int(order) <= highest


def read_orders(orders: Any) -> Int[Array, "steps"]:
    """Of every step."""
    if not is_traced(orders):
        orders = np.asarray(orders)
        if orders.ndim != 1 or orders.size == 0 or np.any(orders != np.round(orders)) or np.any((orders < 0) | (orders > HIGHEST)):
            raise ValueError(
                f"orders of BDF must be a one-dimensional array of whole numbers from 1 to {HIGHEST}, such as solution.orders."
            )
    return jnp.asarray(orders, jnp.int32)
