"""Numbers that are only known when a program runs: which of them turned out not to be usable.

`parameters.read` makes those NaN. Here they are found again and numbered: first the parameters of a system, then `settings`, whatever else a
run depends on.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ..equations import AbstractSystem
from ..naming import checked_leaves
from ..parameters import expectation, is_traced
from ..system import System


def traced_settings(parts: dict[str, Any]) -> tuple[tuple[str, ...], list[Array]]:
    """What to say of each traced number among the parts of a run, if it is NaN; and these numbers."""
    sentences, numbers = [], []
    for name, part in parts.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(eqx.filter(part, eqx.is_inexact_array)):
            if is_traced(leaf):
                owner = f" of {type(part).__name__}" if path else ""
                sentences.append(f"{jax.tree_util.keystr(path, simple=True, separator='.') or name}{owner} is out of its range")
                numbers.append(leaf)
    return tuple(sentences), numbers


def first_unusable(system: AbstractSystem, settings: list[Array] | tuple[()] = ()) -> Int[Array, ""]:
    """The number of the first that is NaN, -1 if none is. Looks at traced ones: others were checked when they were given."""
    traced, count = [], 0
    for leaf, _, owners in checked_leaves(system) if isinstance(system, System) else ():
        if is_traced(leaf):
            traced.append((count + np.arange(len(owners)), leaf.reshape(len(owners), -1)))
        count += len(owners)
    traced += [(np.array([count + i]), leaf.reshape(1, -1)) for i, leaf in enumerate(settings)]
    if not traced:
        return jnp.full((), -1, jnp.int32)
    numbers = jnp.asarray(np.concatenate([own for own, _ in traced]), jnp.int32)
    unusable = jax.lax.stop_gradient(jnp.concatenate([jnp.any(jnp.isnan(rows), axis=1) for _, rows in traced]))
    return jnp.where(jnp.any(unusable), numbers[jnp.argmax(unusable)], -1)


def expectations(system: AbstractSystem, settings: tuple[str, ...] = ()) -> list[str]:
    """A sentence for each number: what it must be."""
    leaves = checked_leaves(system) if isinstance(system, System) else ()
    return [*(expectation(*owner, module) for _, module, owners in leaves for owner in owners), *settings]
