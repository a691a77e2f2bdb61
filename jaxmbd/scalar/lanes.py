"""A function as one kernel of a CPU, and under `jax.vmap` a loop over the lanes within that kernel."""

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

Leaves = list[Any]


class one_kernel(eqx.Module):
    """The function f, which on a CPU is one kernel: scalars, loops and branches, and no calls between them.

    Under `jax.vmap` a CPU takes lane after lane. Each has branches and numbers of trips of its own and waits for no other; it computes what it
    computes alone, bit for bit, whichever lanes stand beside it. On other devices f is done as it stands, side by side.

    It has no derivative: it is for what is given one by other means. Where f has side effects or more than `budget` operations it is done as it
    stands everywhere, as `scalarise` does; arguments are as there.
    """

    function: Callable[..., Any]
    budget: int = eqx.field(default=BUDGET, static=True)

    def __call__(self, *arguments: Any) -> Any:
        numbers, rest = eqx.partition((self.function, arguments), eqx.is_array_like)
        return _compiled(jax.tree.map(jnp.asarray, numbers), rest, self.budget)

    def report(self, *arguments: Any) -> Report:
        """What becomes of f, called with such arguments."""
        numbers, rest = eqx.partition((self.function, arguments), eqx.is_array_like)
        closed, _ = traced(jax.tree.map(jnp.asarray, numbers), rest)
        return Scalars.make(Source.of(closed), self.budget, alone=True)[1]


@eqx.filter_jit
def _compiled(numbers: Any, rest: Any, budget: int) -> Any:
    closed, tree = traced(numbers, rest)
    source = Source.of(closed)
    scalars, report = Scalars.make(source, budget, alone=True)
    leaves = [*source.traced, *jax.tree.leaves(numbers)]
    report.log()
    found = source.plain(leaves) if scalars is None else _lane_by_lane(scalars, source.plain, ())(*leaves)
    return jax.tree.unflatten(tree, found)


class _Loop(NamedTuple):
    """Over lanes."""

    size: int
    along: list[bool]
    """which leaves have an axis for it"""


def _lane_by_lane(scalars: Scalars, plain: Callable[[Leaves], Leaves], loops: tuple[_Loop, ...]) -> Callable[..., Leaves]:
    """The same function twice: scalars for a kernel of a CPU, within loops over lanes (the outermost first), and `plain` for all lanes at once,
    for all other devices."""

    @custom_vmap
    def run(*leaves):
        return lax.platform_dependent(
            *leaves, cpu=lambda *leaves: _in_a_kernel(scalars, leaves, loops), default=lambda *leaves: plain(leaves)
        )

    @run.def_vmap
    def batch(size, in_batched, *leaves):
        def side_by_side(leaves):
            return jax.vmap(lambda *leaves: plain(leaves), in_axes=[0 if batched else None for batched in in_batched], axis_size=size)(
                *leaves
            )

        found = _lane_by_lane(scalars, side_by_side, (_Loop(size, list(in_batched)), *loops))(*leaves)
        return found, [True] * len(found)

    return run


def _in_a_kernel(scalars: Scalars, leaves: Sequence[Any], loops: tuple[_Loop, ...]) -> Leaves:
    """Called as a function that XLA neither takes apart nor hands out to threads, a program becomes one kernel (jaxlib 0.10.1).

    One vector goes in and one comes out, and the latter has a word of the former: an argument that the kernel does not use makes XLA stop the
    process, and it finds out by itself what is not used where results are not."""
    sizes = tuple(loop.size for loop in loops)
    found = {i: jnp.broadcast_to(known, (*sizes, *known.shape)) for i, known in scalars.known_outputs().items()}
    inputs, computed = scalars.needed_inputs(), scalars.computed_outputs()
    arriving = _Packing.of([leaves[i] for i in inputs])
    leaving = _Packing([(scalars.outputs[i].shape, scalars.dtypes[i]) for i in computed])

    def run(given: dict[int, Any], loops: tuple[_Loop, ...], word: Any) -> Any:
        if not loops:
            return jnp.append(leaving.pack(scalars.emit(given, computed)), word)
        moving = {i: leaf for i, leaf in given.items() if loops[0].along[i]}
        return lax.map(lambda mine: run(given | mine, loops[1:], word), moving)

    def kernel(packed):
        return run(dict(zip(inputs, arriving.unpack(packed), strict=True)), loops, packed[0])

    if computed:
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true"):
            packed = jax.jit(kernel)(arriving.pack([leaves[i] for i in inputs]))
        found |= dict(zip(computed, leaving.unpack(packed), strict=True))
    return [found[i] for i in range(len(found))]


class _Packing(NamedTuple):
    """Arrays of all types in one vector of words, bit by bit."""

    members: list[tuple[tuple[int, ...], Any]]
    """shape and type of each"""

    @staticmethod
    def of(arrays: Leaves) -> "_Packing":
        return _Packing([(jnp.shape(array), jnp.result_type(array)) for array in arrays])

    def pack(self, arrays: Leaves) -> Any:
        return jnp.concatenate(
            [_as_words(jnp.asarray(array, dtype).reshape(-1)) for array, (_, dtype) in zip(arrays, self.members, strict=True)]
        )

    def unpack(self, packed: Any) -> Leaves:
        """The arrays, each with the leading axes that the vector has."""
        found, begin, axis = [], 0, packed.ndim - 1
        for shape, dtype in self.members:
            end = begin + math.prod(shape)
            part = lax.slice_in_dim(packed, begin, end, axis=axis)
            found.append(_from_words(part, dtype).reshape(*packed.shape[:-1], *shape))
            begin = end
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
