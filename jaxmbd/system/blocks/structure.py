"""A mechanism as a graph of blocks, from its layout alone.

A node is a body: its coordinates, its own constraint row, the differential states of forces that it owns, then the rows of one joint that it
owns (or of all joints between the same bodies). Each joint is given to one of its bodies and each body has one at most; with masses positive on
admissible directions, the pivot of any set of such nodes is then regular, in any order. Joints that find no body (closed loops) are nodes of
their own, and are eliminated last.

    node:  [ coordinates | own row | states | filled with ones |  rows of its joint ]
             ------------------------ lead -------------------
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ...solvers.block_lu.algebra import BlockAlgebra
from ...solvers.block_lu.analysis import Sums, Table, analyse, sums_of
from ..stacked.layout import Layout


class Members(eqx.Module):
    """Elements of one group whose bodies are of the same kinds."""

    kind: str = eqx.field(static=True)
    """"joint" (by multipliers), "penalty" or "force" """
    group: int = eqx.field(static=True)
    """its number among the groups of joints or of forces"""
    body_groups: tuple[int, ...] = eqx.field(static=True)
    """of its bodies; the ground poses as a body of any of them"""
    offset: int = eqx.field(static=True)
    """of the joint's rows in its node, after `lead`"""
    elements: Int[Table, "n"]
    """places in the group"""
    bodies: Int[Table, "n bodies"]
    """places in their groups"""
    grounded: Bool[Table, "n bodies"]
    """whether a body is the ground"""
    rows: Int[Table, "n rows"]
    """of Phi"""
    states: Int[Table, "n states"]
    """of x"""
    owner: Int[Table, "n"]
    """which of its bodies has the joint's rows, or the states of the force; -1: none"""
    state_offset: Int[Table, "n"]
    """where its states begin in the node"""
    loose: Int[Table, "loose"]
    """those of the elements whose rows have a node of their own"""


class Structure(eqx.Module):
    """Where everything stands. Whole numbers in arrays are arguments of what is compiled."""

    algebra: BlockAlgebra
    members: tuple[Members, ...]
    sums: Sums
    """of the members' contributions, by block"""
    kept: Float[Array | np.ndarray, "rows"]
    """1 for constraint rows that are enforced, 0 for those that follow from others"""
    rows_of_nodes: Int[Table, "nodes b"]
    """the constraint row behind an entry, or their number"""


class Size(NamedTuple):
    """What speaks for blocks, or against them."""

    unknowns: int
    block: int
    root: int
    """unknowns in the dense rest"""


class _Element(NamedTuple):
    kind: str
    group: int
    place: int
    bodies: tuple[int, ...]
    rows: range
    states: range


def _elements(layout: Layout) -> list[_Element]:
    found = []
    for group, (kind, slices) in enumerate(zip(layout.joints, layout.row_slices, strict=True)):
        for place, (bodies, where) in enumerate(zip(kind.bodies, slices, strict=True)):
            found.append(_Element("penalty" if kind.stiff else "joint", group, place, bodies, range(where.start, where.stop), range(0)))
    for group, (kind, where) in enumerate(zip(layout.forces, layout.state_slices, strict=True)):
        for place, bodies in enumerate(kind.bodies):
            begin = where.start + place * kind.states
            found.append(_Element("force", group, place, bodies, range(0), range(begin, begin + kind.states)))
    return found


def structure_of(layout: Layout, kept: np.ndarray) -> tuple[Structure, Size]:
    """The structure and how large its parts are. `kept`: 1 for each constraint row, 0 for redundant ones."""
    count = len(layout.body_slices)
    n, m, x = len(layout.coordinate_lengths), len(layout.row_lengths), sum(len(k.bodies) * k.states for k in layout.forces)
    elements = _elements(layout)
    links: dict[tuple[int, ...], list[int]] = {}
    for number, element in enumerate(elements):
        if element.kind == "joint":
            links.setdefault(tuple(sorted(set(element.bodies) - {count})), []).append(number)
    owners = give_away(list(links), count)
    loose = {bodies: count + i for i, bodies in enumerate(b for b in links if b not in owners)}
    node_of, offset = {}, {}
    for bodies, numbers in links.items():
        begin = 0
        for number in numbers:
            node_of[number], offset[number] = owners.get(bodies, loose.get(bodies)), begin
            begin += len(elements[number].rows)

    # --- where unknowns stand in their nodes
    nodes, total = count + len(loose), n + m + x
    used = [len(layout.coordinate_lengths[where]) for where in layout.body_slices] + [0] * len(loose)
    entries: list[list[int]] = [list(range(where.start, where.stop)) for where in layout.body_slices] + [[] for _ in loose]
    for row, body in enumerate(layout.row_owners, n + m - len(layout.row_owners)):
        entries[body].append(row)
        used[body] += 1
    state_offset = {}
    for number, element in enumerate(elements):
        if element.states:
            body = next(b for b in element.bodies if b < count)
            node_of[number], state_offset[number] = body, used[body]
            entries[body] += [n + m + i for i in element.states]
            used[body] += len(element.states)
    lead = max(used)
    tails: list[list[int]] = [[] for _ in range(nodes)]
    for number, element in enumerate(elements):
        if element.kind == "joint":
            tails[node_of[number]] += [n + i for i in element.rows]
    b = lead + max((len(tail) for tail in tails), default=0)
    index = np.full((nodes, b), total, np.int32)
    for node, (front, tail) in enumerate(zip(entries, tails, strict=True)):
        index[node, : len(front)] = front
        index[node, lead : lead + len(tail)] = tail

    edges = {(i, j) for e in elements for i in e.bodies for j in e.bodies if i < j < count}
    edges |= {(i, node_of[k]) for k, e in enumerate(elements) if k in node_of for i in e.bodies if i < count and i != node_of[k]}
    blocks, plan = analyse(nodes, sorted(edges), last=tuple(loose.values()))
    members, targets = _members(
        layout, elements, node_of, offset, state_offset, {p: s for s, p in enumerate(zip(*map(np.ndarray.tolist, blocks), strict=True))}
    )
    is_row = (index >= n) & (index < n + m)
    algebra = BlockAlgebra.of(plan, blocks, index, total, lead)
    by_block: list[list[int]] = [[] for _ in blocks.rows]
    for contribution, slot in enumerate(targets):
        if slot >= 0:
            by_block[slot].append(contribution)
    found = Structure(
        algebra,
        members,
        sums_of(by_block, len(targets)),
        np.asarray(kept, float),
        np.where(is_row, index - n, m).astype(np.int32),
    )
    return found, Size(total, b, plan.root.shape[0] * b)


def give_away(links: Sequence[tuple[int, ...]], count: int) -> dict[tuple[int, ...], int]:
    """A body for each link (a set of bodies that joints connect), no body twice, for as many links as possible."""
    owner: dict[int, int] = {}
    given: dict[int, int] = {}
    for first in range(len(links)):
        # A path along which links can move on, each to another of its bodies, until one finds a body that is free.
        came_from: dict[int, tuple[int, int | None]] = {}
        queue: list[tuple[int, int | None]] = [(first, None)]
        free: int | None = None
        for link, through in queue:
            for body in reversed(links[link]):
                if body not in came_from:
                    came_from[body] = (link, through)
                    if body not in owner:
                        free = body
                        break
                    queue.append((owner[body], body))
            if free is not None:
                break
        while free is not None:
            link, through = came_from[free]
            owner[free], given[link] = link, free
            free = through
    return {links[link]: body for link, body in given.items()}


def _members(
    layout: Layout,
    elements: list[_Element],
    node_of: dict[int, int],
    offset: dict[int, int],
    state_offset: dict[int, int],
    slots: dict[tuple[int, int], int],
) -> tuple[tuple[Members, ...], list[int]]:
    """Elements that are evaluated together, and for all their contributions, one after the other, the block that each is part of (-1: none).

    First come the bodies' own, then, for every pair of bodies of an element, those of all members; last those beside and above rows that
    have a node of their own."""
    count = len(layout.body_slices)
    group_of = [g for g, kind in enumerate(layout.bodies) for _ in range(kind.count)]
    place_of = [place for kind in layout.bodies for place in range(kind.count)]
    alike: dict[tuple, list[int]] = {}
    for number, element in enumerate(elements):
        first = next(group_of[body] for body in element.bodies if body < count)
        kinds = tuple(group_of[body] if body < count else first for body in element.bodies)
        alike.setdefault((element.kind, element.group, kinds, offset.get(number, 0)), []).append(number)
    found, targets = [], [slots[body, body] for body in range(count)]
    for (kind, group, kinds, begin), numbers in alike.items():
        own = [elements[number] for number in numbers]
        owner = [e.bodies.index(node_of[k]) if node_of.get(k) in e.bodies else -1 for k, e in zip(numbers, own, strict=True)]
        loose = [i for i, k in enumerate(numbers) if kind == "joint" and node_of[k] >= count]
        found.append(
            Members(
                kind,
                group,
                kinds,
                begin,
                np.array([e.place for e in own], np.int32),
                np.array([[place_of[b] if b < count else 0 for b in e.bodies] for e in own], np.int32),
                np.array([[b == count for b in e.bodies] for e in own]),
                np.array([list(e.rows) for e in own], np.int32).reshape(len(own), -1),
                np.array([list(e.states) for e in own], np.int32).reshape(len(own), -1),
                np.array(owner, np.int32),
                np.array([state_offset.get(k, 0) for k in numbers], np.int32),
                np.array(loose, np.int32),
            )
        )
        for i in range(len(kinds)):
            for j in range(len(kinds)):
                targets += [slots[e.bodies[i], e.bodies[j]] if max(e.bodies[i], e.bodies[j]) < count else -1 for e in own]
        for i in range(len(kinds)) if loose else ():
            rows = [(own[k].bodies[i], node_of[numbers[k]]) for k in loose]
            targets += [slots[body, node] if body < count else -1 for body, node in rows]
            targets += [slots[node, body] if body < count else -1 for body, node in rows]
    return tuple(found), targets
