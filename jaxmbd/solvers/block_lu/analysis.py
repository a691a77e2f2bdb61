"""In which order blocks are eliminated, found once from who is coupled to whom.

A matrix of blocks is a graph: a node is a row and a column of blocks, an edge a pair of blocks that may be nonzero. Each round eliminates nodes
that are not coupled to each other, all at once, those with few neighbours first: every second link of a chain (cyclic reduction), the leaves
and thin branches of a tree. What remains at the end is a small dense matrix, the root. Rounds of about one size are padded to one shape and
become one loop, so that the length of the program does not grow with the number of nodes; what is large keeps its own shape.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Int

ROOT = 5
"""So many nodes are left for the dense root, at least."""
_DENSE = 0.6
"""A rest whose nodes are coupled to this share of the others is eliminated as the root."""
_WASTE = 0.1
"""Rounds share a shape as long as the padding costs less than this part of the whole factorisation."""

Table = Array | np.ndarray
"""Of numpy as it is made, of JAX in a program."""


class Sums(eqx.Module):
    """Sums of contributions by their target. Targets with about as many contributions share a table, whose rows are filled up with the number
    of contributions (a zero is found there): a hub does not widen the rows of all others."""

    tables: tuple[Int[Table, "*rounds _ _"], ...]
    places: Int[Table, "*rounds targets"]
    """of each target among the rows of all tables; the row after the last is a zero"""


class Rounds(eqx.Module):
    """Tables of one or more rounds of the same shape: m nodes with at most d neighbours are eliminated. Numbers of blocks ("slots") and of nodes
    are those at the beginning of the round; the number after the last stands for zeros, of pivots the one after that for ones on the diagonal.
    """

    pivots: Int[Table, "*rounds m"]
    """slots"""
    right: Int[Table, "*rounds m d"]
    """slots of the blocks beside a pivot"""
    below: Int[Table, "*rounds m d"]
    """slots of the blocks under a pivot"""
    old: Int[Table, "*rounds slots"]
    """the slot in which a block stood before"""
    fill: Sums
    """of the m d d products, by slot"""
    eliminated: Int[Table, "*rounds m"]
    """nodes"""
    kept: Int[Table, "*rounds nodes"]
    neighbours: Int[Table, "*rounds m d"]
    """among the kept"""
    incoming: Sums
    """of the m d products with vectors, by kept node"""
    order: Int[Table, "*rounds all"]
    """of the nodes at the beginning, among the kept ones followed by the eliminated"""


class Plan(eqx.Module):
    """How to eliminate. Whole numbers in arrays, which are arguments of a program, not part of it."""

    rounds: tuple[Rounds, ...]
    """their tables; those of loops have an axis more"""
    root: Int[Table, "r r"]
    """slots of the blocks that remain"""

    @property
    def nodes(self) -> int:
        return self.rounds[0].order.shape[-1] if self.rounds else self.root.shape[0]


class Blocks(NamedTuple):
    """The blocks that a matrix has, in the order in which the factorisation takes them."""

    rows: np.ndarray
    columns: np.ndarray


class _Round(NamedTuple):
    """One round, with -1 for nothing."""

    pivots: list[int]
    right: list[list[int]]
    below: list[list[int]]
    old: list[int]
    fill: list[list[tuple[int, int, int]]]
    eliminated: list[int]
    kept: list[int]
    neighbours: list[list[int]]
    incoming: list[list[tuple[int, int]]]
    order: list[tuple[int, bool]]
    """(place, whether it is kept)"""
    slots: int
    """at the beginning"""

    @property
    def width(self) -> int:
        return max([1, *map(len, self.neighbours)])

    @property
    def cost(self) -> int:
        return len(self.pivots) * (1 + self.width) ** 2


def analyse(count: int, edges: Iterable[tuple[int, int]], last: Sequence[int] = (), root: int = ROOT) -> tuple[Blocks, Plan]:
    """The blocks of a matrix of `count` nodes that are coupled by `edges`, and how to eliminate them. `last` are nodes whose pivots are regular
    only after all others are gone: they stay in the root."""
    near: list[set[int]] = [set() for _ in range(count)]
    for i, j in edges:
        if i != j:
            near[i].add(j)
            near[j].add(i)
    pairs = [(i, i) for i in range(count)] + [(i, j) for i in range(count) for j in sorted(near[i])]
    slots = {pair: slot for slot, pair in enumerate(pairs)}
    alive, rounds, late = list(range(count)), [], set(last)
    while len(alive) > max(root, len(late)) and (chosen := _independent(alive, near, late, root)):
        done, slots, alive = _eliminate(alive, chosen, near, slots)
        rounds.append(done)
    blocks = Blocks(*np.array(pairs, np.int32).reshape(-1, 2).T)
    rest = np.array([[slots.get((i, j), len(slots)) for j in alive] for i in alive], np.int32).reshape(len(alive), len(alive))
    return blocks, Plan(tuple(_tables(group, alike) for group, alike in _grouped(rounds)), rest)


def _independent(alive: list[int], near: list[set[int]], late: set[int], root: int) -> list[int]:
    """Nodes with few neighbours that are not each other's; none if all are coupled to most others."""
    degrees = sorted((len(near[i]), i) for i in alive if i not in late)
    if degrees[0][0] > _DENSE * len(alive):
        return []
    limit, blocked, chosen = max(2, degrees[0][0]), set(), []
    for degree, i in degrees:
        if degree > limit or len(alive) - len(chosen) <= root:
            break
        if i not in blocked:
            chosen.append(i)
            blocked |= near[i]
    return chosen


def _eliminate(alive: list[int], chosen: list[int], near: list[set[int]], slots: dict) -> tuple[_Round, dict, list[int]]:
    """One round, and the slots and nodes that remain."""
    gone, before = set(chosen), {i: place for place, i in enumerate(alive)}
    kept = [i for i in alive if i not in gone]
    after = {i: place for place, i in enumerate(kept)}
    neighbours = [sorted(near[k]) for k in chosen]
    fill: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    incoming: list[list[tuple[int, int]]] = [[] for _ in kept]
    for number, (k, around) in enumerate(zip(chosen, neighbours, strict=True)):
        for p, i in enumerate(around):
            near[i].discard(k)
            incoming[after[i]].append((number, p))
            for r, j in enumerate(around):
                fill.setdefault((i, j), []).append((number, p, r))
                if i != j:
                    near[i].add(j)
    pairs = [(i, i) for i in kept] + [(i, j) for i in kept for j in sorted(near[i])]
    places = {k: number for number, k in enumerate(chosen)}
    done = _Round(
        [slots[k, k] for k in chosen],
        [[slots[k, j] for j in around] for k, around in zip(chosen, neighbours, strict=True)],
        [[slots[j, k] for j in around] for k, around in zip(chosen, neighbours, strict=True)],
        [slots.get(pair, -1) for pair in pairs],
        [fill.get(pair, []) for pair in pairs],
        [before[k] for k in chosen],
        [before[i] for i in kept],
        [[after[j] for j in around] for around in neighbours],
        incoming,
        [(places[i], False) if i in gone else (after[i], True) for i in alive],
        len(slots),
    )
    return done, {pair: slot for slot, pair in enumerate(pairs)}, kept


def _grouped(rounds: list[_Round]) -> list[tuple[list[_Round], bool]]:
    """Successive rounds that become one loop, and whether they do."""
    allowed, groups = _WASTE * sum(done.cost for done in rounds), []
    for done in rounds:
        together = [*groups[-1], done] if groups else []
        padded = len(together) * max((r.cost for r in together), default=0)
        if together and padded - sum(r.cost for r in together) <= allowed:
            groups[-1] = together
        else:
            groups.append([done])
    return [(group, len(group) > 1) for group in groups]


def _tables(group: list[_Round], loop: bool) -> Rounds:
    """Tables of rounds, padded to one shape."""
    m, d = max(len(r.pivots) for r in group), max(r.width for r in group)
    n, k = len(group[0].order), len(group[0].order) if loop else len(group[0].kept)
    begin = max([group[0].slots, *(len(r.old) for r in group)]) if loop else group[0].slots
    end = begin if loop else len(group[0].old)
    found = [
        Rounds(
            _filled(r.pivots, (m,), begin + 1),
            _filled(r.right, (m, d), begin),
            _filled(r.below, (m, d), begin),
            np.where((old := _filled(r.old, (end,), begin)) < 0, begin, old),
            _sums([[(i * d + p) * d + s for i, p, s in members] for members in r.fill], end, m * d * d),
            _filled(r.eliminated, (m,), n),
            _filled(r.kept, (k,), n),
            _filled(r.neighbours, (m, d), k),
            _sums([[i * d + p for i, p in members] for members in r.incoming], k, m * d),
            _filled([place if kept else k + place for place, kept in r.order], (n,), k),
        )
        for r in group
    ]
    if not loop:
        return found[0]
    return _stacked(found)


def _filled(rows: list, shape: tuple[int, ...], nothing: int) -> np.ndarray:
    table = np.full(shape, nothing, np.int32)
    for i, row in enumerate(rows):
        table[(i, slice(0, len(row))) if isinstance(row, list) else i] = row
    return table


def sums_of(members: Sequence[Sequence[int]], nothing: int) -> Sums:
    """Of contributions by target; `nothing` is the number of contributions."""
    return _sums([list(own) for own in members], len(members), nothing)


def _sums(members: list[list[int]], targets: int, nothing: int) -> Sums:
    classes: dict[int, list[int]] = {}
    for target, own in enumerate(members):
        if own:
            classes.setdefault((len(own) - 1).bit_length(), []).append(target)
    tables, places, row = [], np.full(targets, -1), 0
    for size, owners in sorted(classes.items()):
        tables.append(_filled([members[target] for target in owners], (len(owners), 2**size), nothing))
        places[owners] = row + np.arange(len(owners))
        row += len(owners)
    return Sums(tuple(tables), np.where(places < 0, row, places).astype(np.int32))


def _stacked(rounds: list[Rounds]) -> Rounds:
    """With an axis more. Sums are brought to one shape first: a table for every width that any of them has."""
    m, d = rounds[0].right.shape
    fill, incoming = _alike([r.fill for r in rounds], m * d * d), _alike([r.incoming for r in rounds], m * d)
    alike = [dataclasses.replace(r, fill=f, incoming=i) for r, f, i in zip(rounds, fill, incoming, strict=True)]
    return jax.tree.map(lambda *tables: np.stack(tables), *alike)


def _alike(sums: list[Sums], nothing: int) -> list[Sums]:
    widths = sorted({table.shape[1] for s in sums for table in s.tables})
    heights = {w: max(len(table) for s in sums for table in s.tables if table.shape[1] == w) for w in widths}
    first = dict(zip(widths, np.cumsum([0, *(heights[w] for w in widths)]), strict=False))
    found = []
    for s in sums:
        rows = [first[table.shape[1]] + np.arange(len(table)) for table in s.tables]
        new = np.concatenate([*rows, [sum(heights.values())]]).astype(np.int32)
        own = {table.shape[1]: table for table in s.tables}
        tables = [_filled(own[w].tolist() if w in own else [], (heights[w], w), nothing) for w in widths]
        found.append(Sums(tuple(tables), new[s.places]))
    return found
