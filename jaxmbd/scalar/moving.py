"""Primitives that move entries and compute nothing, unless an index is not known: then a chain of selects goes through all it may be."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from .folding import Algebra
from .graph import Entry, Value, entries, is_known


def broadcast_in_dim(algebra, values, params, avals):
    shape, dims = params["shape"], params["broadcast_dimensions"]
    inner = [1] * len(shape)
    for size, dim in zip(values[0].shape, dims, strict=True):
        inner[dim] = size
    return [np.broadcast_to(values[0].reshape(inner), shape)]


def reshape(algebra, values, params, avals):
    return [values[0].reshape(avals[0].shape)]


def transpose(algebra, values, params, avals):
    return [values[0].transpose(params["permutation"])]


def rev(algebra, values, params, avals):
    return [np.flip(values[0], params["dimensions"])]


def slice_(algebra, values, params, avals):
    strides = params["strides"] or (1,) * values[0].ndim
    return [values[0][tuple(map(slice, params["start_indices"], params["limit_indices"], strides))]]


def split(algebra, values, params, avals):
    return np.split(values[0], np.cumsum(params["sizes"])[:-1], params["axis"])


def concatenate(algebra, values, params, avals):
    return [np.concatenate(values, params["dimension"])]


def stack(algebra, values, params, avals):
    return [np.stack(values, params["axis"])]


def iota(algebra, values, params, avals):
    aval, dim = avals[0], params["dimension"]
    inner = [1] * len(aval.shape)
    inner[dim] = aval.shape[dim]
    return [np.broadcast_to(entries(np.arange(aval.shape[dim], dtype=aval.dtype)).reshape(inner), aval.shape)]


def pad(algebra, values, params, avals):
    array, fill = values
    out = np.broadcast_to(fill, avals[0].shape).copy()
    for place in np.ndindex(array.shape):
        to = tuple(low + i * (1 + inside) for i, (low, _, inside) in zip(place, params["padding_config"], strict=True))
        if all(0 <= i < size for i, size in zip(to, out.shape, strict=True)):
            out[to] = array[place]
    return [out]


def dynamic_slice(algebra, values, params, avals):
    array, *starts = values
    limits = [size - width for size, width in zip(array.shape, params["slice_sizes"], strict=True)]
    out = np.empty(avals[0].shape, object)
    for place in np.ndindex(out.shape):
        out[place] = choose(algebra, [start[()] for start in starts], limits, lambda at, place=place: array[_plus(at, place)])
    return [out]


def dynamic_update_slice(algebra, values, params, avals):
    array, update, *starts = values
    limits = [size - width for size, width in zip(array.shape, update.shape, strict=True)]

    def entry(at, place):
        inside = tuple(i - start for i, start in zip(place, at, strict=True))
        return update[inside] if all(0 <= i < width for i, width in zip(inside, update.shape, strict=True)) else array[place]

    out = np.empty(array.shape, object)
    for place in np.ndindex(out.shape):
        out[place] = choose(algebra, [start[()] for start in starts], limits, lambda at, place=place: entry(at, place))
    return [out]


def gather(algebra, values, params, avals):
    array, indices = values
    numbers, sizes, mode = params["dimension_numbers"], params["slice_sizes"], params["mode"]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [dim for dim in range(array.ndim) if dim not in dropped]
    out = np.empty(avals[0].shape, object)
    limits = [size - width for size, width in zip(array.shape, sizes, strict=True)]
    fill = _filling(params["fill_value"], avals[0].dtype)
    for place in np.ndindex(out.shape):
        batch = tuple(i for dim, i in enumerate(place) if dim not in numbers.offset_dims)
        offset = [0] * array.ndim
        for dim, i in zip(window, (place[dim] for dim in numbers.offset_dims), strict=True):
            offset[dim] = i
        starts = _starts(array.ndim, indices, batch, numbers.start_index_map)
        for dim, other in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True):
            starts[dim] = np.int64(batch[other])
        found = choose(algebra, starts, limits, lambda at, offset=offset: array[_plus(at, offset)])
        if mode == lax.GatherScatterMode.FILL_OR_DROP:
            found = algebra.select(_inside(algebra, starts, limits), found, fill)
        out[place] = found
    return [out]


def scatter(combine: Callable[[Algebra, Entry, Entry], Entry]):
    """A rule for the primitive that combines an entry of the array with one of the updates."""

    def rule(algebra, values, params, avals):
        array, indices, updates = values
        numbers, mode = params["dimension_numbers"], params["mode"]
        dropped = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        window = [dim for dim in range(array.ndim) if dim not in dropped]
        width = [1] * array.ndim
        for dim, other in zip(window, numbers.update_window_dims, strict=True):
            width[dim] = updates.shape[other]
        limits = [size - wide for size, wide in zip(array.shape, width, strict=True)]
        out = array.copy()
        for place in np.ndindex(updates.shape):
            batch = tuple(i for dim, i in enumerate(place) if dim not in numbers.update_window_dims)
            offset = [0] * array.ndim
            for dim, other in zip(window, numbers.update_window_dims, strict=True):
                offset[dim] = place[other]
            starts = _starts(array.ndim, indices, batch, numbers.scatter_dims_to_operand_dims)
            for dim, other in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
                starts[dim] = np.int64(batch[other])
            if mode == lax.GatherScatterMode.CLIP:
                starts = [_clip(algebra, start, limit) for start, limit in zip(starts, limits, strict=True)]
            options = [[int(start)] if is_known(start) else range(limit + 1) for start, limit in zip(starts, limits, strict=True)]
            for at in itertools.product(*options):
                if all(0 <= i <= limit for i, limit in zip(at, limits, strict=True)):
                    to = _plus(at, offset)
                    new = combine(algebra, out[to], updates[place])
                    out[to] = algebra.select(_all_equal(algebra, starts, at), new, out[to])
        return [out]

    return rule


def choose(algebra: Algebra, starts: Sequence[Entry], limits: Sequence[int], entry: Callable[[tuple[int, ...]], Entry]) -> Entry:
    """The entry at the place that starts name, each held within 0 and its limit."""
    for dim, (start, limit) in enumerate(zip(starts, limits, strict=True)):
        if is_known(start) or limit == 0:
            continue

        def there(i, dim=dim):
            return choose(algebra, [*starts[:dim], np.int64(i), *starts[dim + 1 :]], limits, entry)

        found = there(0)
        for i in range(1, limit + 1):
            found = algebra.select(algebra.at_least(start, start.dtype.type(i)), there(i), found)
        return found
    return entry(tuple(min(max(int(start), 0), limit) if limit else 0 for start, limit in zip(starts, limits, strict=True)))


def _starts(ndim: int, indices: Value, batch: tuple[int, ...], dims: Sequence[int]) -> list[Entry]:
    starts: list[Entry] = [np.int64(0)] * ndim
    for k, dim in enumerate(dims):
        starts[dim] = indices[(*batch, k)]
    return starts


def _clip(algebra: Algebra, start: Entry, limit: int) -> Entry:
    return algebra.minimum(algebra.maximum(start, start.dtype.type(0)), start.dtype.type(limit))


def _inside(algebra: Algebra, starts: Sequence[Entry], limits: Sequence[int]) -> Entry:
    inside: Entry = np.True_
    for start, limit in zip(starts, limits, strict=True):
        low, high = algebra.at_least(start, start.dtype.type(0)), algebra.at_least(start.dtype.type(limit), start)
        inside = algebra.both(inside, algebra.both(low, high))
    return inside


def _all_equal(algebra: Algebra, starts: Sequence[Entry], at: tuple[int, ...]) -> Entry:
    equal: Entry = np.True_
    for start, i in zip(starts, at, strict=True):
        equal = algebra.both(equal, algebra.equal(start, start.dtype.type(i)))
    return equal


def _plus(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(i + j for i, j in zip(one, other, strict=True))


def _filling(given: Any, dtype: Any) -> Entry:
    """What stands where a gather names a place outside, unless said otherwise."""
    if given is None:
        given = {"f": lambda: np.nan, "i": lambda: np.iinfo(dtype).min, "u": lambda: np.iinfo(dtype).max, "b": lambda: True}[dtype.kind]()
    return dtype.type(given)


MOVING = {
    "broadcast_in_dim": broadcast_in_dim,
    "reshape": reshape,
    "squeeze": reshape,
    "expand_dims": reshape,
    "transpose": transpose,
    "rev": rev,
    "slice": slice_,
    "split": split,
    "concatenate": concatenate,
    "stack": stack,
    "iota": iota,
    "pad": pad,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter(lambda algebra, old, new: new),
    "scatter-add": scatter(lambda algebra, old, new: algebra.add(old, new)),
    "scatter-mul": scatter(lambda algebra, old, new: algebra.multiply(old, new)),
    "scatter-min": scatter(lambda algebra, old, new: algebra.minimum(old, new)),
    "scatter-max": scatter(lambda algebra, old, new: algebra.maximum(old, new)),
}
"""By the name of the primitive: (algebra, values, params, avals of the outputs) -> values."""
