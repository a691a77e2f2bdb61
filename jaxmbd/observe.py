"""Values of observables along the rows of a run. Names are static: everything here works under jit, vmap and grad."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .measure import REDUCERS, slopes
from .quadrature import accumulate
from .system.equations import AbstractSystem
from .system.observing.grammar import Found, find
from .system.observing.views import Scene
from .system.state import State


def observe(system: AbstractSystem, states: State, names: Sequence[str]) -> dict[str, Float[Array, "..."]]:
    """By name, a number for each row of states or, with a reducer, one for all. Rows that repeat the last one do not count."""
    found = dict(zip(names, find(system, *names), strict=True))
    needed: dict[str, Found] = {}
    for one in found.values():
        rate = one.observable.rate
        needed[one.prefix + one.quantity] = one
        if rate and (one.observable.full_turns or one.reducer):
            needed[one.prefix + rate] = one._replace(quantity=rate)
    if any(one.observable.flow for one in needed.values()):
        totals, rows = accumulate(system, states, lambda scene: _look(scene, needed))
        rows |= {key: total + (rows[key] - rows[key][0] if key in rows else 0.0) for key, total in totals.items()}
    else:
        rows = jax.vmap(lambda state: _look(Scene(system.recall(state.memory), state), needed)[1])(states)

    def series(one: Found) -> Array:
        values, rate = rows[one.prefix + one.quantity], one.observable.rate
        if one.observable.full_turns:
            values = count_turns(states.t, values, rows[one.prefix + rate])
        if not one.reducer:
            return values
        return REDUCERS[one.reducer](states.t, values, rows[one.prefix + rate] if rate else slopes(states.t, values))

    return {name: series(one) for name, one in found.items()}


def _look(scene: Scene, needed: dict[str, Found]) -> tuple[dict[str, Array], dict[str, Array]]:
    """(flows, values) at one time."""
    seen: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
    for key, one in needed.items():
        view = scene.view(one.prefix, one.owner.view)
        for found, function in zip(seen, (one.observable.flow, one.observable.value), strict=True):
            if function is not None:
                found[key] = jnp.asarray(function(view), float)
                if found[key].shape != ():
                    raise ValueError(f"the observable {key!r} must be one number, got an array of shape {found[key].shape}.")
    return seen


def count_turns(ts: Float[Array, "rows"], wrapped: Float[Array, "rows"], rates: Float[Array, "rows"]) -> Float[Array, "rows"]:
    """An angle that is known up to full turns, over full turns: from row to row it grows by what its rate says, to half a turn."""
    expected = 0.5 * jnp.diff(ts) * (rates[:-1] + rates[1:])
    turns = jnp.round((expected - jnp.diff(wrapped)) / (2 * jnp.pi))
    return wrapped + 2 * jnp.pi * jax.lax.stop_gradient(jnp.concatenate([jnp.zeros(1), jnp.cumsum(turns)]))
