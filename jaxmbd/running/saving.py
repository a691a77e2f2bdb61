"""What a run keeps: its end, states at given times, or all of them."""

import dataclasses
from abc import abstractmethod
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..integrators.base import AbstractIntegrator
from ..scalar import kept_whole
from ..system.parameters import is_traced
from ..system.state import State


class SaveAt(eqx.Module):
    """What a run saves: one of

    - `t1=True`: its end, one row;
    - `ts`: the states at increasing times [s], interpolated, one row each;
    - `steps=True`: the start and the state after every accepted step.

    A run takes memory for what it saves only. A reverse derivative needs all states, and only then they are recorded.
    """

    ts: Any = None
    t1: bool = eqx.field(static=True, default=False)
    steps: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if (self.ts is not None) + bool(self.t1) + bool(self.steps) != 1:
            raise ValueError("SaveAt takes one of t1=True (the end), ts=times and steps=True (every accepted step).")

    @staticmethod
    def read(given: Any, t0: Any, t1: Any) -> "SaveAt":
        """The argument `saveat` of `simulate`: None for all steps, an array of times, or a SaveAt."""
        saveat = given if isinstance(given, SaveAt) else SaveAt(steps=True) if given is None else SaveAt(ts=given)
        return saveat if saveat.ts is None else SaveAt(ts=_read_times(saveat.ts, t0, t1))

    @property
    def times(self) -> Float[Array, "times"]:
        """s, those between t0 and t1 that are to be looked at on the way."""
        return jnp.zeros(0) if self.ts is None else self.ts


def _read_times(saveat: Any, t0: Any, t1: Any) -> Array:
    if not is_traced(saveat):
        try:
            times = np.asarray(saveat, dtype=float)
        except (TypeError, ValueError):
            times = np.zeros(0)
        if times.ndim != 1 or times.size == 0 or not np.all(np.isfinite(times)) or np.any(np.diff(times) < 0):
            got = np.array2string(times, threshold=8, precision=6) if times.size else repr(saveat)
            raise ValueError(
                f"saveat must be a one-dimensional array of increasing times [s], or None to save every accepted step, got {got}."
            )
        if np.any(again := np.diff(times) == 0):
            raise ValueError(f"saveat has the time {times[np.argmax(again)]:.9g} s twice: leave one out, each time has one row.")
        if not is_traced(t0, t1) and (times[0] < t0 or times[-1] > t1):
            raise ValueError(f"saveat must lie between t0 = {float(t0)} and t1 = {float(t1)}.")
    return jnp.asarray(saveat, dtype=float)


class Record(eqx.Module):
    """The states after 0, 1, ... accepted steps; rows beyond the last are not meaningful."""

    states: State
    steps: Any
    """s, step i leads from row i to row i + 1: Float[Array, "capacity"], in the loop a buffer of equinox that only writes"""

    def at(self, integrator: AbstractIntegrator, count: Array, times: Array) -> "Saved":
        """What would have been saved at given times, in a run of `count` steps."""
        return Saved(rows_at(integrator, self, count, times), *self.last_two(count))

    def last_two(self, count: Array) -> tuple[State, State]:
        """The state after `count` steps, and the one before; without steps both are the first."""
        pick = lambda i: jax.tree.map(lambda leaf: leaf[i], self.states)  # noqa: E731
        return pick(count), pick(jnp.maximum(count - 1, 0))


class Saved(eqx.Module):
    """States at given times; times that were not reached give the last state."""

    states: State
    final: State
    previous: State | None
    """where the last accepted step began, if that was asked for"""


class AbstractKeeper(eqx.Module):
    """What the loop does with accepted steps: it carries along what `begin` makes and `add` adds to, and hands back what `end` makes of it."""

    @abstractmethod
    def begin(self, integrator: AbstractIntegrator, state: State) -> Any: ...

    @abstractmethod
    def buffers(self, kept: Any) -> Any:
        """The parts of `kept` that are only written, row by row."""

    @abstractmethod
    def add(self, kept: Any, integrator: AbstractIntegrator, old: State, new: State, h: Array, number: Array, accept: Array) -> Any:
        """After an attempt at the step of that number, from `old` to `new`."""

    @abstractmethod
    def end(self, kept: Any, integrator: AbstractIntegrator, final: State) -> Any: ...


class EveryStep(AbstractKeeper):
    """Keeps all states, in room for so many steps."""

    capacity: int = eqx.field(static=True)

    def begin(self, integrator: AbstractIntegrator, state: State) -> Record:
        states = jax.tree.map(lambda leaf: kept_whole(jnp.zeros((self.capacity + 1, *leaf.shape), leaf.dtype).at[0].set(leaf)), state)
        return Record(states, kept_whole(jnp.zeros(self.capacity)))

    def buffers(self, kept: Record) -> Any:
        return kept.states, kept.steps

    def add(self, kept: Record, integrator: AbstractIntegrator, old: State, new: State, h: Array, number: Array, accept: Array) -> Record:
        """A rejected state is written too, and so is one of a lane that is over: no row that counts, or none at all if there is no room."""
        states = jax.tree.map(lambda leaf, buffer: buffer.at[number + 1].set(leaf, mode="drop"), new, kept.states)
        return Record(states, kept.steps.at[number].set(h, mode="drop"))

    def end(self, kept: Record, integrator: AbstractIntegrator, final: State) -> Record:
        return kept


class _Rows(eqx.Module):
    states: State
    count: Int[Array, ""]
    """so many are saved"""
    previous: State | None
    """where the last accepted step began"""


class AtTimes(AbstractKeeper):
    """Keeps the states at given times, each in the step that passes it, and on demand the one before the last."""

    times: Float[Array, "times"]
    with_previous: bool = eqx.field(static=True, default=False)

    def begin(self, integrator: AbstractIntegrator, state: State) -> _Rows:
        row = jax.eval_shape(integrator.interpolate, state, state, state.t)
        rows = jax.tree.map(lambda leaf: kept_whole(jnp.zeros((self.times.shape[0], *leaf.shape), leaf.dtype)), row)
        return _Rows(rows, jnp.zeros((), jnp.int32), state if self.with_previous else None)

    def buffers(self, kept: _Rows) -> Any:
        return kept.states

    def add(self, kept: _Rows, integrator: AbstractIntegrator, old: State, new: State, h: Array, number: Array, accept: Array) -> _Rows:
        """One time after the other, for most steps pass none. One at the end of a step belongs to the next."""
        if kept.previous is not None:
            previous = jax.tree.map(lambda now, before: jnp.where(accept, now, before), old, kept.previous)
            kept = dataclasses.replace(kept, previous=previous)
        room, times = self.times.shape[0], kept_whole(self.times)
        if room == 0:
            return kept

        def passed(kept: _Rows) -> Bool[Array, ""]:
            return accept & (kept.count < room) & (times[jnp.minimum(kept.count, room - 1)] < new.t)

        def save(kept: _Rows) -> _Rows:
            row = integrator.interpolate(old, new, jnp.maximum(times[kept.count], old.t))
            states = jax.tree.map(lambda leaf, buffer: buffer.at[kept.count].set(leaf), row, kept.states)
            return dataclasses.replace(kept, states=states, count=kept.count + 1)

        return eqxi.while_loop(passed, save, kept, kind="lax", buffers=self.buffers)

    def end(self, kept: _Rows, integrator: AbstractIntegrator, final: State) -> Saved:
        last = integrator.interpolate(final, final, final.t)
        saved = jnp.arange(self.times.shape[0]) < kept.count
        fill = lambda rows, leaf: jnp.where(saved.reshape(-1, *(1 for _ in leaf.shape)), rows, leaf)  # noqa: E731
        return Saved(jax.tree.map(fill, kept.states, last), final, kept.previous)


def rows_at(integrator: AbstractIntegrator, record: Record, count: Array, times: Array) -> State:
    """The states at given times, by the integrator's interpolant; times beyond the last step give the last state."""
    rows = jnp.arange(record.states.t.shape[0])
    known = jnp.where(rows <= count, record.states.t, jnp.inf)
    times = jnp.clip(times, record.states.t[0], record.states.t[count])
    left = jnp.clip(jnp.searchsorted(known, times, side="right") - 1, 0, jnp.maximum(count - 1, 0))

    def at(i, t):
        # A run without steps has only row 0.
        pick = lambda j: jax.tree.map(lambda leaf: leaf[j], record.states)  # noqa: E731
        return integrator.interpolate(pick(i), pick(jnp.minimum(i + 1, count)), t)

    return jax.vmap(at)(left, times)
