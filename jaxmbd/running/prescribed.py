"""Steps of given sizes, and the memory that a run may take."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..system.parameters import is_traced, usable
from ..system.state import State

_LARGEST = 4e9
"""bytes that saved states may take"""
_COUNTABLE = 2.0**53


@dataclasses.dataclass(frozen=True)
class EvenSteps:
    """Steps of one size, the last one shorter. Sliced as an array would be, but never held as one."""

    size: float
    """s"""
    last: float
    """s"""
    count: int

    @staticmethod
    def over(span: float, h: float) -> "EvenSteps":
        if not span / h < _COUNTABLE:
            raise ValueError(f"step = {h:g} s is too small to be counted in t1 - t0 = {span:g} s.")
        whole = int(np.floor(span / h * (1 + 1e-12)))
        rest = span - whole * h
        return EvenSteps(h, rest, whole + 1) if rest > 1e-9 * h else EvenSteps(h, h, whole)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, which: slice) -> np.ndarray:
        begin, end, _ = which.indices(self.count)
        sizes = np.full(max(end - begin, 0), self.size)
        if sizes.size > 0 and end == self.count:
            sizes[-1] = self.last
        return sizes


Steps = EvenSteps | np.ndarray | Array


def read_steps(step: Any, span: Any) -> Steps:
    """The argument `step` of `simulate`: a number, or an array of sizes."""
    if np.ndim(step) == 1:
        return _read_traced_sizes(step) if is_traced(step) else _read_sizes(step, span)
    if is_traced(step):
        raise ValueError("a fixed step cannot be traced (its number is a shape): give step=jnp.full(n, h) instead.")
    try:
        h = float(step)
    except (TypeError, ValueError):
        raise ValueError(f"step must be a number of seconds, or an array of them, got {step!r}.") from None
    if not 0 < h < np.inf:
        raise ValueError(f"step must be positive, got {h} s.")
    if is_traced(span):
        raise ValueError("with a fixed step, t0 and t1 cannot be traced (the number of steps is a shape): give an array of steps.")
    return EvenSteps.over(float(span), h)


def _read_sizes(step: Any, span: Any) -> np.ndarray:
    sizes = np.asarray(step, dtype=float)
    sizes = sizes[: np.flatnonzero(sizes)[-1] + 1] if np.any(sizes) else sizes[:0]  # zeros follow the steps of a run under jit
    if sizes.size == 0 or not np.all(sizes > 0):
        raise ValueError("step must contain positive step sizes [s] only.")
    if not is_traced(span) and abs(sizes.sum() - span) > 1e-6 * max(span, sizes[-1]):
        raise ValueError(f"the given steps add up to {sizes.sum():.9g} s, but t1 - t0 = {float(span):.9g} s.")
    return sizes


def _read_traced_sizes(step: Any) -> Array:
    sizes = jnp.asarray(step, dtype=float)
    known = jax.lax.stop_gradient(sizes)
    return usable(sizes, jnp.all(known >= 0) & jnp.all((known[:-1] > 0) | (known[1:] == 0)))


def rows_in_memory(state: State) -> int:
    """How many rows such as this state may be saved."""
    return int(_LARGEST / _bytes(state))


def refuse_too_many(rows: int, state: State, fix: str) -> None:
    if rows > rows_in_memory(state):
        raise ValueError(f"every step is saved, and {rows} rows of {_bytes(state)} bytes are {rows * _bytes(state) / 1e9:.3g} GB. {fix}")


def _bytes(state: State) -> int:
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
