"""Loops and branches that stay, with bodies of scalars: what does not change in a loop, or is the same in all branches, is no part of it."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jax import lax

from .emitting import Program, needed, nodes_of_whole
from .graph import Call, Entry, Graph, Node, Region, Value, is_apart, is_known, nodes_in, same, scalar

LONGEST_UNROLLED = 64
"""trips of a loop that is written out"""

Body = Callable[[Sequence[Value]], list[Value]]


class Loop(Call):
    """A while loop over entries (and whole arrays) that change."""

    def __init__(self, first: list[Entry], regions: tuple[Region, Region], carries: tuple[list[Node], list[Node]], goes_on, after):
        self.first, self.regions, self.carries, self.goes_on, self.after = first, regions, carries, goes_on, after

    def find_needs(self):
        yield from (entry for entry in self.first if isinstance(entry, Node))
        for region, outputs in zip(self.regions, ([self.goes_on], self.after), strict=True):
            yield from needed(region, _nodes(outputs))[1]

    def emit(self, program: Program) -> list[Any]:
        def run(which, outputs, carry):
            inner = Program(self.regions[which], dict(zip(self.carries[which], carry, strict=True)), program.fences, program)
            inner.run(_nodes(outputs))
            return [inner.entry(entry) for entry in outputs]

        first = [_typed(program.entry(entry), node) for entry, node in zip(self.first, self.carries[0], strict=True)]
        return lax.while_loop(
            lambda carry: run(0, [self.goes_on], carry)[0],
            lambda carry: [_typed(value, node) for value, node in zip(run(1, self.after, carry), self.carries[1], strict=True)],
            first,
        )


class Branch(Call):
    """A switch whose branches give entries."""

    def __init__(self, index: Entry, regions: list[Region], outputs: list[list[Entry]], dtypes: list[Any]):
        self.index, self.regions, self.outputs, self.dtypes = index, regions, outputs, dtypes

    def find_needs(self):
        yield self.index
        for region, outputs in zip(self.regions, self.outputs, strict=True):
            yield from needed(region, _nodes(outputs))[1]

    def emit(self, program: Program) -> list[Any]:
        def branch(region, outputs):
            inner = Program(region, {}, program.fences, program)
            inner.run(_nodes(outputs))
            return [
                lax.convert_element_type(inner.entry(entry), dtype) if is_known(entry) else inner.entry(entry)
                for entry, dtype in zip(outputs, self.dtypes, strict=True)
            ]

        pairs = zip(self.regions, self.outputs, strict=True)
        return lax.switch(
            program.entry(self.index), [lambda region=region, outputs=outputs: branch(region, outputs) for region, outputs in pairs]
        )


class Whole(Call):
    """Entries as one array."""

    def __init__(self, value: Value, dtype: Any):
        self.value, self.dtype = value, dtype

    def find_needs(self):
        yield from nodes_of_whole(self.value)

    def emit(self, program: Program) -> list[Any]:
        return [program.whole(self.value, self.dtype)]


def as_whole(graph: Graph, value: Value, dtype: Any) -> Node:
    """One array, however small."""
    return graph.results(Whole(value, dtype), [np.empty(value.shape, dtype)])[0] if is_apart(value) else value


def _like(graph: Graph, value: Value, other: Value) -> Value:
    """Apart or whole as the other one is."""
    if is_apart(value) == is_apart(other):
        return value
    return graph.apart(value) if is_apart(other) else as_whole(graph, value, other.dtype)


def while_loop(graph: Graph, goes_on: Body, body: Body, first: list[Value]) -> list[Value]:
    """Written out if it is known how often it runs, and that is not often."""
    unrolled = _unrolled(graph, goes_on, body, first)
    if unrolled is not None:
        return unrolled
    moves = [np.zeros(value.shape if is_apart(value) else (), bool) for value in first]
    while True:
        # What is thought to stay as it is stays in the program as what it is at first; what turns out to move becomes a carry.
        before = graph.made
        regions = Region(graph.here, repeats=True), Region(graph.here, repeats=True)
        carried = [_with_inputs(graph, region, first, moves) for region in regions]
        (condition,) = _inside(graph, regions[0], goes_on, carried[0])
        after = _inside(graph, regions[1], lambda carry: list(map(_like, itertools.repeat(graph), body(carry), first)), carried[1])
        found = False
        for value, old, moving in zip(after, first, moves, strict=True):
            for place in np.ndindex(moving.shape):
                if not moving[place] and not same(_at(value, place), _at(old, place)):
                    moving[place] = found = True
        if not found:
            break
        graph.made = before
    places = [(i, place) for i, moving in enumerate(moves) for place in np.ndindex(moving.shape) if moving[place]]
    carries = [[_at(value[i], place) for i, place in places] for value in carried]
    loop = Loop(
        [_at(first[i], place) for i, place in places],
        regions,
        (carries[0], carries[1]),
        condition[()],
        [_at(after[i], place) for i, place in places],
    )
    out = [value.copy() if is_apart(value) else value for value in first]
    for (i, place), node in zip(places, graph.results(loop, carries[0]), strict=True):
        out[i] = _put(out[i], place, node)
    return out


def switch(graph: Graph, index: Entry, branches: Sequence[Callable[[], list[Value]]]) -> list[Value]:
    if is_known(index):
        return branches[min(max(int(index), 0), len(branches) - 1)]()
    regions = [Region(graph.here) for _ in branches]
    found = [_inside(graph, region, lambda _, branch=branch: branch(), []) for region, branch in zip(regions, branches, strict=True)]
    models = [next((value for value in values if not is_apart(value)), values[0]) for values in zip(*found, strict=True)]
    found = [
        _inside(graph, region, lambda values: list(map(_like, itertools.repeat(graph), values, models)), values)
        for region, values in zip(regions, found, strict=True)
    ]
    out = [value.copy() if is_apart(value) else value for value in found[0]]
    places = []
    for i, value in enumerate(out):
        for place in np.ndindex(value.shape if is_apart(value) else ()):
            options = [_at(values[i], place) for values in found]
            outer = is_known(options[0]) or options[0].region not in regions
            if not (outer and all(same(option, options[0]) for option in options)):
                places.append((i, place))
    outputs = [[_at(values[i], place) for i, place in places] for values in found]
    if places:
        branch = Branch(index, regions, outputs, [entry.dtype for entry in outputs[0]])
        for (i, place), node in zip(places, graph.results(branch, outputs[0]), strict=True):
            out[i] = _put(out[i], place, node)
    return out


def _unrolled(graph: Graph, goes_on: Body, body: Body, carry: list[Value]) -> list[Value] | None:
    before = graph.made
    for _ in range(LONGEST_UNROLLED + 1):
        condition = goes_on(carry)[0][()]
        if not is_known(condition):
            break
        if not condition:
            return carry
        carry = body(carry)
    graph.made = before
    return None


def _inside(graph: Graph, region: Region, body: Body, values: Sequence[Value]) -> list[Value]:
    outside, graph.here = graph.here, region
    try:
        return body(values)
    finally:
        graph.here = outside


def _with_inputs(graph: Graph, region: Region, first: list[Value], moves: list[np.ndarray]) -> list[Value]:
    out = [value.copy() if is_apart(value) else value for value in first]
    for i, (value, moving) in enumerate(zip(first, moves, strict=True)):
        for place in np.ndindex(moving.shape):
            if moving[place]:
                old = _at(value, place)
                out[i] = _put(out[i], place, graph.input(region, old.dtype, old.shape))
    return out


def _at(value: Value, place: tuple[int, ...]) -> Entry:
    return value[place] if is_apart(value) else value


def _put(value: Value, place: tuple[int, ...], entry: Entry) -> Value:
    if not is_apart(value):
        return entry
    if value.shape == ():
        return scalar(entry)
    value[place] = entry
    return value


def _nodes(outputs: Sequence[Entry]) -> list[Node]:
    return [node for output in outputs for node in nodes_in(scalar(output))]


def _typed(value: Any, node: Node) -> Any:
    return lax.convert_element_type(value, node.dtype)
