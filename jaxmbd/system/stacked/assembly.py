"""Sums of what elements do to bodies, by gathering: who touches whom is known when a model is built.

Each body looks up its contributions instead of each contribution being scattered to its body. There is nothing to write concurrently, the
order of summation is fixed, and on a CPU the sum fuses with what comes before and after, where a scatter is a loop of its own.
"""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@functools.cache
def _tables(owner: tuple[int, ...], count: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """(tables of contributions, places). A row of a table holds the contributions to one body, filled up with the number of contributions,
    where a zero is found. Bodies with about as many contributions (within a factor of two) share a table: a hub does not widen the rows of
    all others. `places` finds the row of every body in the concatenated tables; the last is a row of zeros."""
    members: list[list[int]] = [[] for _ in range(count)]
    for contribution, body in enumerate(owner):
        if body < count:
            members[body].append(contribution)
    classes: dict[int, list[int]] = {}
    for body, found in enumerate(members):
        if found:
            classes.setdefault((len(found) - 1).bit_length(), []).append(body)
    tables, places, row = [], np.full(count, sum(map(len, classes.values()))), 0
    for bodies in classes.values():
        width = max(len(members[body]) for body in bodies)
        tables.append(np.array([members[body] + [len(owner)] * (width - len(members[body])) for body in bodies]))
        places[bodies] = row + np.arange(len(bodies))
        row += len(bodies)
    return tuple(tables), places


def sum_by_owner(parts: Sequence[Float[Array, "_ 3"]], owner: tuple[int, ...], count: int) -> Float[Array, "count 3"]:
    """Sum of the rows of all parts by the body that each belongs to; rows of a body beyond `count` (the ground) are left out."""
    if not parts:
        return jnp.zeros((count, 3))
    tables, places = _tables(owner, count)
    zero = jnp.zeros((1, 3), parts[0].dtype)
    rows = jnp.concatenate([*parts, zero])
    sums = jnp.concatenate([*(jnp.sum(rows[table], axis=1) for table in tables), zero])
    return sums[places]
