"""A function as one kernel of a CPU, and under `jax.vmap` a loop over the lanes within that kernel."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental.xla_metadata import set_xla_metadata

from .transform import BUDGET, Report, Scalars, Source, traced

Leaves = Sequence[Any]
_SMALL = 1024
"""entries"""
_TRIPS = -1
"""Beside the numbers of leaves, that of how often the loop over lanes runs."""


class one_kernel(eqx.Module):
    """The function f, which on a CPU is one kernel: scalars, loops and branches, and no calls between them.

    Under `jax.vmap` a CPU takes lane after lane. Each has branches and numbers of trips of its own and waits for no other; it computes what it
    computes alone, bit for bit, whichever lanes stand beside it. On other devices f is done as it stands, side by side.

    It has no derivative: it is for what is given one by other means. Where f has side effects, more than `budget` operations or arrays that are
    too large for a kernel, it is done as it stands everywhere: `report` says so, and a line in the log. Arguments are as in `scalarise`.

    - `alone`: whether it is a kernel without `jax.vmap`, too.
    """

    function: Callable[..., Any]
    budget: int = eqx.field(default=BUDGET, static=True)
    alone: bool = eqx.field(default=True, static=True)

    def __call__(self, *arguments: Any) -> Any:
        numbers, rest = eqx.partition((self.function, arguments), eqx.is_array_like)
        return _compiled(jax.tree.map(jnp.asarray, numbers), rest, self.budget, self.alone)

    def report(self, *arguments: Any) -> Report:
        """What becomes of f, called with such arguments."""
        numbers, rest = eqx.partition((self.function, arguments), eqx.is_array_like)
        closed, _ = traced(jax.tree.map(jnp.asarray, numbers), rest)
        return Scalars.make(Source.of(closed), self.budget, alone=True)[1]


@eqx.filter_jit
def _compiled(numbers: Any, rest: Any, budget: int, alone: bool) -> Any:
    closed, tree = traced(numbers, rest)
    source = Source.of(closed)
    leaves = [*source.traced, *jax.tree.leaves(numbers)]

    @functools.cache
    def scalars() -> Scalars | None:
        found, report = Scalars.make(source, budget, alone=True)
        report.log()
        return found

    return jax.tree.unflatten(tree, _lane_by_lane(scalars, source.plain, (), alone)(*leaves))


class _Loop(NamedTuple):
    """Over lanes."""

    size: int
    along: list[bool]
    """which leaves have an axis for it"""


def _lane_by_lane(
    scalars: Callable[[], Scalars | None], plain: Callable[[Leaves], Leaves], loops: tuple[_Loop, ...], in_kernel: bool = True
) -> Callable[..., Leaves]:
    """The same function twice: scalars for a kernel of a CPU, within loops over lanes (the outermost first), and `plain` for all lanes at once,
    for all other devices. `in_kernel`: or everywhere, as long as it is not in a batch."""

    @custom_vmap
    def run(*leaves):
        program = scalars() if in_kernel else None
        if program is None:
            return plain(leaves)
        kernel = lambda *leaves: _in_a_kernel(program, leaves, loops)  # noqa: E731
        return lax.platform_dependent(*leaves, cpu=kernel, default=lambda *leaves: plain(leaves))

    @run.def_vmap
    def batch(size, in_batched, *leaves):
        def side_by_side(leaves):
            axes = [0 if batched else None for batched in in_batched]
            return jax.vmap(lambda *leaves: plain(leaves), in_axes=axes, axis_size=size)(*leaves)

        found = _lane_by_lane(scalars, side_by_side, (_Loop(size, list(in_batched)), *loops))(*leaves)
        return found, [True] * len(found)

    return run


def _in_a_kernel(scalars: Scalars, leaves: Sequence[Any], loops: tuple[_Loop, ...]) -> Leaves:
    """Called as a function that XLA neither takes apart nor hands out to threads, a program becomes one kernel (jaxlib 0.10.1)."""
    sizes = tuple(loop.size for loop in loops)
    found = {i: jnp.broadcast_to(known, (*sizes, *known.shape)) for i, known in scalars.known_outputs().items()}
    computed = scalars.computed_outputs()
    if computed:
        given = {i: jnp.asarray(leaves[i]) for i in scalars.needed_inputs()}
        moving = {i: _spread(leaf, [loop.along[i] for loop in loops], sizes) for i, leaf in given.items() if _moves(i, loops)}
        still = {i: leaf for i, leaf in given.items() if i not in moving} | ({_TRIPS: jnp.asarray(math.prod(sizes))} if loops else {})
        leaving = _Packing({i: jax.ShapeDtypeStruct(scalars.outputs[i].shape, scalars.dtypes[i]) for i in computed})
        kernel = _Kernel(scalars, _Packing.of(still), _Packing.of(moving, without=1), leaving)
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true"):
            if loops:
                rows = kernel.moving.pack(moving, math.prod(sizes))
                results = jax.jit(lambda *parts: kernel.lanes(*parts))(kernel.still.pack(still), rows, kernel.room(math.prod(sizes)))
            else:
                results = jax.jit(lambda *parts: kernel.lane(*parts))(kernel.still.pack(still), [])
        found |= {i: array.reshape(*sizes, *leaving.members[i].shape) for i, array in leaving.unpack(results).items()}
    return [found[i] for i in range(len(found))]


def _moves(i: int, loops: tuple[_Loop, ...]) -> bool:
    return any(loop.along[i] for loop in loops)


def _spread(leaf: Any, along: list[bool], sizes: tuple[int, ...]) -> Any:
    """A leaf that has an axis for some of the loops, lane after lane."""
    rest = leaf.shape[sum(along) :]
    axes = [size if mine else 1 for mine, size in zip(along, sizes, strict=True)]
    return jnp.broadcast_to(leaf.reshape(*axes, *rest), (*sizes, *rest)).reshape(-1, *rest)


class _Kernel(NamedTuple):
    """An argument that a kernel does not use makes XLA stop the process, and where results are not used it finds out what need not be. So small
    arrays come as one vector and go as one, and the latter has a word of every argument and of every other result."""

    scalars: Scalars
    still: "_Packing"
    moving: "_Packing"
    """of one lane"""
    leaving: "_Packing"
    """of one lane"""

    def room(self, lanes: int) -> Leaves:
        """Where the results of all lanes are written. Made within the kernel, it would be made by several threads."""
        words = self.leaving.words + self.still.parts + self.moving.parts + len(self.leaving.large)
        rows = [jax.ShapeDtypeStruct((words,), _word()), *(self.leaving.members[i] for i in self.leaving.large)]
        return [jnp.zeros((lanes, *row.shape), row.dtype) for row in rows]

    def lanes(self, still: Leaves, moving: Leaves, results: Leaves) -> Leaves:
        """One after the other. A lane is a function of its own, and the number of trips is not known: so it is compiled without regard to how
        many there are, and rounds alike."""
        trips = self.still.unpack(still)[_TRIPS]
        alone = jax.jit(lambda *parts: self.lane(*parts))

        def step(number, results):
            row = alone(still, [lax.dynamic_index_in_dim(part, number, keepdims=False) for part in moving])
            return [lax.dynamic_update_index_in_dim(result, one, number, 0) for result, one in zip(results, row, strict=True)]

        return lax.fori_loop(0, trips, step, results)

    def lane(self, still: Leaves, moving: Leaves) -> Leaves:
        given = self.still.unpack(still) | self.moving.unpack(moving)
        given.pop(_TRIPS, None)
        found = dict(zip(self.leaving.members, self.scalars.emit(given, list(self.leaving.members)), strict=True))
        small, large = self.leaving.pack(found)[: bool(self.leaving.small)], [found[i] for i in self.leaving.large]
        marks = [_as_words(array.reshape(-1)[:1]).astype(_word()) for array in (*still, *moving, *large)]
        return [jnp.concatenate([*small, *marks]), *large]


class _Packing(NamedTuple):
    """Small arrays of all types in one vector of words, bit by bit; large ones, which would be copied, by themselves."""

    members: dict[int, Any]
    """shape and type of each"""

    @staticmethod
    def of(arrays: dict[int, Any], without: int = 0) -> "_Packing":
        """Of arrays with so many leading axes more."""
        return _Packing({i: jax.ShapeDtypeStruct(array.shape[without:], array.dtype) for i, array in arrays.items()})

    @property
    def small(self) -> list[int]:
        return [i for i, member in self.members.items() if member.size <= _SMALL]

    @property
    def large(self) -> list[int]:
        return [i for i, member in self.members.items() if member.size > _SMALL]

    @property
    def words(self) -> int:
        return sum(self.members[i].size for i in self.small)

    @property
    def parts(self) -> int:
        return len(self.large) + bool(self.small)

    def pack(self, arrays: dict[int, Any], *leading: int) -> Leaves:
        """The vector of small ones, if there are any, and the large ones; of arrays with leading axes likewise."""
        words = [_as_words(arrays[i].astype(self.members[i].dtype)).reshape(*leading, self.members[i].size) for i in self.small]
        return [*([jnp.concatenate(words, axis=-1)] if words else []), *(arrays[i] for i in self.large)]

    def unpack(self, packed: Leaves) -> dict[int, Any]:
        """The arrays, each with the leading axes that the vector has."""
        found = dict(zip(self.large, packed[len(packed) - len(self.large) :], strict=True))
        begin = 0
        for i in self.small:
            member, vector = self.members[i], packed[0]
            part = lax.slice_in_dim(vector, begin, begin + member.size, axis=vector.ndim - 1)
            found[i] = _from_words(part, member.dtype).reshape(*vector.shape[:-1], *member.shape)
            begin += member.size
        return found


def _word() -> Any:
    return jnp.uint64 if jax.config.read("jax_enable_x64") else jnp.uint32


def _as_words(array: Any) -> Any:
    if array.dtype != bool:
        array = lax.bitcast_convert_type(array, f"uint{8 * array.dtype.itemsize}")
    return array.astype(_word())


def _from_words(words: Any, dtype: Any) -> Any:
    if np.dtype(dtype).kind == "b":
        return words != 0
    return lax.bitcast_convert_type(words.astype(f"uint{8 * np.dtype(dtype).itemsize}"), dtype)
