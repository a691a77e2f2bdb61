"""The program that a function becomes: scalar operations, each known by its number, and whole arrays where there is no other way.

An entry of an array is a number that is known while tracing (numpy's) or a Node. A value is an array of entries, or a Node with a shape: an
array that stays whole.
"""

import abc
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

Entry = Any
"""np.generic, or a Node without shape"""
Value = Any
"""np.ndarray of entries (dtype object), or a Node: a whole array"""


class TooLarge(Exception):
    """More operations, or larger arrays, than are allowed: says which."""


class Region:
    """What is computed together: the function, or the body of a loop or branch, which sees what its parent computes."""

    def __init__(self, parent: "Region | None", repeats: bool = False):
        self.parent = parent
        self.repeats = repeats
        """a body of a loop: what does not change in it belongs outside"""
        self.known: dict[Any, Node] = {}
        """operations by what they compute"""

    def home(self, needed: Iterable["Node"]) -> "Region":
        """Where to compute what needs these nodes: outside of loops as far as possible."""
        regions = {node.region for node in needed}
        here = self
        while here.repeats and here.parent is not None and here not in regions:
            here = here.parent
        return here

    def find(self, key: Any) -> "Node | None":
        here: Region | None = self
        while here is not None:
            if key in here.known:
                return here.known[key]
            here = here.parent
        return None


class Node:
    """Something that is computed when the program runs."""

    __slots__ = ("dtype", "number", "region", "shape")

    def __init__(self, region: Region, number: int, dtype: Any, shape: tuple[int, ...] = ()):
        self.region, self.number, self.dtype, self.shape = region, number, np.dtype(dtype) if _is_plain(dtype) else dtype, shape

    def needs(self) -> Iterator["Node"]:
        """What must be there before."""
        return iter(())


class Operation(Node):
    """An elementwise primitive of scalars."""

    __slots__ = ("arguments", "params", "primitive")

    def __init__(self, region, number, dtype, primitive, params, arguments):
        super().__init__(region, number, dtype)
        self.primitive, self.params, self.arguments = primitive, params, arguments

    def needs(self):
        return (entry for entry in self.arguments if isinstance(entry, Node))


class Part(Node):
    """An entry of a whole array, by its place in the flattened one."""

    __slots__ = ("place", "whole")

    def __init__(self, region, number, whole: Node, place: int):
        super().__init__(region, number, whole.dtype)
        self.whole, self.place = whole, place

    def needs(self):
        return iter((self.whole,))


class Result(Node):
    """One of the outputs of a call."""

    __slots__ = ("call", "position")

    def __init__(self, region, number, dtype, shape, call: "Call", position: int):
        super().__init__(region, number, dtype, shape)
        self.call, self.position = call, position

    def needs(self):
        return iter(self.call.needs)


class Call(abc.ABC):
    """What gives several outputs at once: a primitive that is taken as it is, a loop, a branch."""

    @cached_property
    def needs(self) -> tuple[Node, ...]:
        """What must be there before. Looked up for every output: found once."""
        return tuple(dict.fromkeys(self.find_needs()))

    @abc.abstractmethod
    def find_needs(self) -> Iterator[Node]:
        """What must be there before, in any order and number."""

    @abc.abstractmethod
    def emit(self, program: Any) -> list[Any]:
        """JAX's values of all outputs."""


class Graph:
    """Under construction: counts what is made, and knows in which region we are."""

    def __init__(self, budget: int, largest: int | None = None):
        self.budget = budget
        self.largest = largest
        """bytes of an array that is made on the way; None: any"""
        self.made = 0
        """operations so far"""
        self.numbers = 0
        self.fallbacks: Counter[str] = Counter()
        """primitives that were taken as they are"""
        self.bound: set[str] = set()
        """their names, and those of all that is within them"""
        self.region = Region(None)
        self.here = self.region

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def count(self, operations: int = 1) -> None:
        self.made += operations
        if self.made > self.budget:
            raise TooLarge(f"more than {self.budget} operations")

    def input(self, region: Region, dtype: Any, shape: tuple[int, ...] = ()) -> Node:
        return Node(region, self.number(), dtype, shape)

    def operation(self, primitive: Any, params: dict[str, Any], arguments: tuple[Entry, ...], dtype: Any, commutes: bool) -> Node:
        """Equal ones are one."""
        keys = tuple(identity(entry) for entry in arguments)
        key = (primitive, tuple(sorted(params.items(), key=lambda item: item[0])), tuple(sorted(keys)) if commutes else keys)
        found = self.here.find(key)
        if found is None:
            self.count()
            region = self.here.home(entry for entry in arguments if isinstance(entry, Node))
            found = region.known[key] = Operation(region, self.number(), dtype, primitive, params, arguments)
        return found

    def results(self, call: Call, avals: Iterable[Any]) -> list[Node]:
        region = self.here.home(call.needs)
        avals = list(avals)
        for aval in avals:
            if self.largest is not None and np.prod(aval.shape) * aval.dtype.itemsize > self.largest:
                raise TooLarge(f"an array of shape {tuple(aval.shape)} is larger than {self.largest // 1024} KB")
        return [Result(region, self.number(), aval.dtype, aval.shape, call, position) for position, aval in enumerate(avals)]

    def apart(self, node: Node) -> Value:
        """The entries of a whole array."""
        size = int(np.prod(node.shape))
        parts = np.empty(size, object)
        if node.shape == ():
            parts[0] = node
        else:
            for place in range(size):
                key = ("part", id(node), place)
                if key not in node.region.known:
                    node.region.known[key] = Part(node.region, self.number(), node, place)
                parts[place] = node.region.known[key]
        return parts.reshape(node.shape)


def is_known(entry: Entry) -> bool:
    return isinstance(entry, np.generic)


def identity(entry: Entry) -> tuple[Any, ...]:
    """Equal for entries that are the same bit by bit."""
    return (0, entry.dtype.str, entry.tobytes()) if is_known(entry) else (1, entry.number)


def number(known: tuple[Any, ...]) -> Entry:
    """The number whose `identity` this is."""
    _, dtype, content = known
    return np.frombuffer(content, dtype)[0]


def same(one: Entry, other: Entry) -> bool:
    return one is other or (is_known(one) and is_known(other) and identity(one) == identity(other))


def entries(array: Any) -> Value:
    """Known numbers as a value."""
    array = np.asarray(array)
    parts = np.empty(array.size, object)
    for place, number in enumerate(array.reshape(-1)):
        parts[place] = number
    return parts.reshape(array.shape)


def scalar(entry: Entry) -> Value:
    value = np.empty((), object)
    value[()] = entry
    return value


def is_apart(value: Value) -> bool:
    return isinstance(value, np.ndarray)


def all_known(value: Value) -> bool:
    return is_apart(value) and all(is_known(entry) for entry in value.flat)


def numbers(value: Value, dtype: Any) -> np.ndarray:
    """The numbers of a value of which all are known."""
    return np.array(list(value.flat), dtype).reshape(value.shape)


def nodes_in(value: Value) -> Iterator[Node]:
    """What is not known of a value."""
    return (entry for entry in value.flat if isinstance(entry, Node)) if is_apart(value) else iter((value,))


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic))
