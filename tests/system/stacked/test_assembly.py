"""Sums by gathering, against a plain loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmbd.system.stacked.assembly import sum_by_owner


def plain(rows, owner, count):
    total = np.zeros((count, rows.shape[1]))
    for row, body in zip(rows, owner, strict=True):
        if body < count:
            total[body] += row
    return total


@pytest.mark.parametrize(
    ("owner", "count"),
    [
        ((0, 1, 2), 3),
        ((2, 2, 2, 0), 4),  # 1 and 3 get nothing
        ((3, 3, 3), 3),  # all of it to the ground
        ((*(0,) * 17, 1, 2, 2, 3, 3, 3, 5), 5),  # a hub, and the ground
    ],
)
def test_sums_are_those_of_a_loop(owner, count):
    rows = np.random.default_rng(0).normal(size=(len(owner), 3))
    parts = [jnp.asarray(part) for part in np.split(rows, [2])]
    np.testing.assert_allclose(sum_by_owner(parts, owner, count), plain(rows, owner, count), rtol=1e-14, atol=1e-14)


def test_nothing_to_sum():
    assert not np.any(sum_by_owner([], (), 4))


def test_a_hub_does_not_widen_the_rows_of_others():
    """The padded tables stay within twice the contributions."""
    owner = (*(0,) * 1000, *range(1, 1001))
    found = jax.make_jaxpr(lambda rows: sum_by_owner([rows], owner, 1001))(jnp.zeros((2000, 3)))
    gathered = [e.outvars[0].aval.size for e in found.jaxpr.eqns if e.primitive.name == "gather"]  # pyright: ignore[reportAttributeAccessIssue]
    assert sum(gathered) <= 3 * 2 * 2000 + 3 * 1001


def test_derivatives():
    owner, weights = (1, 0, 1, 2), jnp.arange(6.0).reshape(2, 3)
    gradient = jax.grad(lambda rows: jnp.sum(weights * sum_by_owner([rows], owner, 2)))(jnp.ones((4, 3)))
    np.testing.assert_array_equal(gradient, np.concatenate([weights, np.zeros((1, 3))])[[1, 0, 1, 2]])
