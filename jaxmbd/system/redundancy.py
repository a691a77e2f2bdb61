"""Which constraint rows to keep when some follow from others."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

RANK_TOLERANCE = 1e-6
"""A row whose part outside the span of the chosen ones is smaller than this (of its own length) is redundant."""

_LOYALTY = 4.0
"""How much larger (in the square) the new part of another row must be before a kept row is exchanged for it."""


def choose_rows(jacobian: Float[Array, "rows q"], essential: Float[Array, "rows"], kept: Float[Array, "rows"]) -> Float[Array, "rows"]:
    """1 for rows that span the row space, 0 for the rest.

    Gram-Schmidt with pivoting on the normalised rows. Essential rows (Euler-parameter normalisations) come first whatever their pivot:
    a plain pivoted factorisation may drop one of them and then degrades as the mechanism moves. Rows that were kept before are preferred, so
    that the choice changes only when it has become a poor one.
    """
    if jacobian.shape[0] == 0:
        return kept
    squares = jnp.sum(jacobian**2, axis=1)
    rows = jacobian / jnp.sqrt(jnp.where(squares > 0, squares, 1.0))[:, None]

    def choose(_, carry):
        rows, chosen = carry
        left = jnp.sum(rows**2, axis=1) * (1.0 - chosen)
        useful = left > RANK_TOLERANCE**2
        i = jnp.argmax(left * jnp.where(kept > 0, _LOYALTY, 1.0) + jnp.where(useful & (essential > 0), 1e3, 0.0))
        take = useful[i]
        direction = jnp.where(take, rows[i] / jnp.sqrt(jnp.where(take, left[i], 1.0)), 0.0)
        rows = rows - jnp.outer(rows @ direction, direction)
        return rows, chosen.at[i].max(jnp.where(take, 1.0, 0.0))

    _, chosen = jax.lax.fori_loop(0, rows.shape[0], choose, (rows, jnp.zeros(rows.shape[0])))
    return chosen
