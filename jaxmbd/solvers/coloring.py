"""Jacobians of sparse functions by few directional derivatives.

Columns that share no row can be differentiated together (Curtis, Powell, Reid 1974): a chain of any length needs as many directions as three
of its links have coordinates.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_WORTH_IT = 0.7
"""Compressed only if it saves at least this share of the directions."""


def color_columns(pattern: np.ndarray) -> np.ndarray:
    """A color for every column such that columns of one color share no row. Greedy, in the order of the columns."""
    overlaps = (pattern.T.astype(np.int32) @ pattern.astype(np.int32)) > 0
    colors = np.full(pattern.shape[1], -1)
    for column in range(pattern.shape[1]):
        taken = set(colors[overlaps[column]].tolist())
        color = 0
        while color in taken:
            color += 1
        colors[column] = color
    return colors


@functools.lru_cache(maxsize=256)
def _kept_colors(shape: tuple[int, ...], pattern: bytes) -> np.ndarray:
    """`color_columns`, once for a pattern: every trace of a step asks again."""
    return color_columns(np.frombuffer(pattern, bool).reshape(shape))


def jacobian(function: Callable[[Array], Array], at: Float[Array, "columns"], pattern: np.ndarray | None) -> Float[Array, "rows columns"]:
    """The exact Jacobian. `pattern` is True wherever it may be nonzero; None: anywhere."""
    if pattern is None:
        return jax.jacfwd(function)(at)
    colors = _kept_colors(pattern.shape, pattern.tobytes())
    count = int(colors.max(initial=-1)) + 1
    if count > _WORTH_IT * at.shape[0]:
        return jax.jacfwd(function)(at)
    directions = (colors[None, :] == np.arange(count)[:, None]).astype(at.dtype)
    compressed = jax.vmap(lambda u: jax.jvp(function, (at,), (u,))[1])(jnp.asarray(directions))
    return jnp.where(pattern, compressed[colors].T, 0.0)
