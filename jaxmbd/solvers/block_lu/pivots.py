"""Inverses of many small matrices at once."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..linear import gauss_jordan


def inverses(pivots: Float[Array, "m b b"], lead: int) -> Float[Array, "m b b"]:
    """By the first `lead` rows and columns, and the Schur complement of these: two small inverses are less work than one, and a pivot of a
    saddle point is never looked for among its zeros."""
    if not 0 < lead < pivots.shape[-1]:
        return _inverses(pivots)
    corner, beside, under, rest = (
        pivots[..., rows, columns] for rows in (slice(lead), slice(lead, None)) for columns in (slice(lead), slice(lead, None))
    )
    corner = _inverses(corner)
    beside, left = corner @ beside, under @ corner
    rest = _inverses(rest - under @ beside)
    top = -beside @ rest
    return jnp.concatenate([jnp.concatenate([corner - top @ left, top], axis=-1), jnp.concatenate([-rest @ left, rest], axis=-1)], axis=-2)


def _inverses(matrices: Float[Array, "m n n"]) -> Float[Array, "m n n"]:
    """With the matrices last, every operation runs along them."""
    n = matrices.shape[-1]
    identity = jnp.broadcast_to(jnp.eye(n, dtype=matrices.dtype)[..., None], (n, n, matrices.shape[0]))
    return jnp.moveaxis(gauss_jordan(jnp.moveaxis(matrices, 0, -1), identity), -1, 0)
