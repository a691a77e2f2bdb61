"""From a graph to operations of JAX: only what is needed, in the order in which it was made."""

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata

from .graph import Call, Entry, Node, Operation, Part, Region, Result, Value, identity, is_apart, is_known, nodes_in, number

_COSTS = {"sin": 20, "cos": 20, "tan": 20, "atan2": 30, "pow": 30, "exp": 15, "log": 15, "tanh": 20, "div": 4, "sqrt": 4, "rem": 4}
"""in additions, about"""
_WORTH_A_FENCE = 10
"""additions: below that it is as well to compute a value again"""


def needed(region: Region, nodes: Iterable[Node]) -> tuple[list[Node], list[Node]]:
    """What a region must compute to know these nodes, in order, and what it needs from outside."""
    inside: set[Node] = set()
    outside: set[Node] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node in inside or node in outside:
            continue
        if node.region is region:
            inside.add(node)
            waiting.extend(node.needs())
        else:
            outside.add(node)
    in_order = [sorted(some, key=lambda node: node.number) for some in (inside, outside)]
    return in_order[0], in_order[1]


class Program:
    """Computes nodes of a region; those of its parents are there already."""

    def __init__(self, region: Region, given: dict[Node, Any], fences: bool, parent: "Program | None" = None):
        self.region, self.fences, self.parent = region, fences, parent
        self.values = dict(given)
        self.calls: dict[Call, list[Any]] = {}
        self.flat: dict[Node, Any] = {}

    def run(self, nodes: Iterable[Node]) -> None:
        nodes = list(nodes)
        order, _ = needed(self.region, nodes)
        uses = Counter(other for node in order for other in set(node.needs()))
        uses.update(nodes)
        costs: dict[Node, int] = {}
        for node in order:
            if node in self.values:
                continue
            if not isinstance(node, Operation):
                self.values[node] = self._fetch(node)
                continue
            arguments = [self.entry(entry) for entry in node.arguments]
            cost = _COSTS.get(node.primitive.name, 1) + sum(costs.get(other, 0) for other in set(node.needs()))
            if self.fences and uses[node] > 1 and cost >= _WORTH_A_FENCE:
                self.values[node], costs[node] = fenced(node.primitive, node.params, arguments), 0
            else:
                self.values[node], costs[node] = node.primitive.bind(*arguments, **node.params), cost

    def _fetch(self, node: Node) -> Any:
        if isinstance(node, Part):
            if node.whole not in self.flat:
                self.flat[node.whole] = jnp.reshape(self.entry(node.whole), -1)
            return lax.index_in_dim(self.flat[node.whole], node.place, keepdims=False)
        assert isinstance(node, Result)
        if node.call not in self.calls:
            self.calls[node.call] = node.call.emit(self)
        return self.calls[node.call][node.position]

    def entry(self, entry: Entry) -> Any:
        here: Program | None = self
        while here is not None and not is_known(entry):
            if entry in here.values:
                return here.values[entry]
            here = here.parent
        return entry

    def whole(self, value: Value, dtype: Any) -> Any:
        """A value as one array of JAX."""
        if not is_apart(value):
            return self.entry(value)
        if all(is_known(entry) for entry in value.flat):
            return np.array(list(value.flat), dtype).reshape(value.shape)
        if value.shape == ():
            return self.entry(value[()])
        untouched = untouched_whole(value)
        if untouched is not None:
            return self.entry(untouched)
        return jnp.stack([jnp.asarray(self.entry(entry), dtype) for entry in value.flat]).reshape(value.shape)


def fenced(primitive: Any, params: dict[str, Any], arguments: list[Any]) -> Any:
    """A primitive as a function of its own in the program: XLA computes it once. What it can look into, it computes again in every kernel, or
    for every output of one, that uses it (jaxlib 0.10.1), and an `optimization_barrier` does not keep it from that."""
    known = tuple(identity(entry) if is_known(entry) else None for entry in arguments)
    function = _function(primitive, tuple(sorted(params.items(), key=lambda item: item[0])), known)
    with set_xla_metadata(inlineable="false"):
        return function(*(entry for entry in arguments if not is_known(entry)))


@functools.lru_cache(maxsize=8192)
def _function(primitive: Any, params: tuple[tuple[str, Any], ...], known: tuple[Any, ...]) -> Any:
    def function(*rest):
        given = iter(rest)
        return primitive.bind(*(next(given) if one is None else number(one) for one in known), **dict(params))

    return jax.jit(function)


def untouched_whole(value: Value) -> Node | None:
    """The array that was taken apart to give these entries, if they are all of it in their places."""
    first = value.flat[0]
    if not isinstance(first, Part) or first.whole.shape != value.shape:
        return None
    here = all(isinstance(entry, Part) and entry.whole is first.whole and entry.place == i for i, entry in enumerate(value.flat))
    return first.whole if here else None


def nodes_of_whole(value: Value) -> Sequence[Node]:
    """What `Program.whole` asks for."""
    untouched = untouched_whole(value) if is_apart(value) and value.size else None
    return [untouched] if untouched is not None else list(nodes_in(value))
