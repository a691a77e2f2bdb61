"""The structure of a mechanism without its numbers and names: where bodies stand in q, joints in Phi, forces in x, and who touches whom.

A layout is made once, at build, and is static: programs are compiled for it. What is derived from it is computed once, when first asked for.
"""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .groups import BodyGroup, ElementGroup


class BodyKind(NamedTuple):
    """The bodies of a group."""

    count: int
    are_lengths: tuple[bool, ...]
    """which coordinates of one are lengths"""
    motion_lengths: tuple[bool, ...]
    """which entries of its `to_motion` are"""
    owns_row: bool
    """whether each owns a constraint row"""
    points: int = 0
    """how many points each has where elements attach, besides itself"""


class ElementKind(NamedTuple):
    """The joints or forces of a group."""

    bodies: tuple[tuple[int, ...], ...]
    """of each, by the number of its frame: bodies, then points of bodies, then the ground"""
    joints: tuple[tuple[tuple[int, int], ...], ...]
    """of forces that depend on reactions, for each: groups of joints and places in them"""
    row_lengths: tuple[bool, ...]
    """which rows of Phi that one has are lengths; none of forces, and of joints that penalties hold"""
    states: int
    """how many differential states one has"""
    angle_count: int
    """how many relative angles one follows over full turns"""
    stiff: bool
    """whether they belong to family B"""
    velocity_rows: int = 0
    """how many velocities one joint keeps at zero besides"""
    sees_all: bool = False
    """whether equations of its states may depend on everything"""
    algebraic: bool = False
    """whether its states are variables"""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Groups of bodies, joints and forces, in the order of a system's."""

    bodies: tuple[BodyKind, ...]
    joints: tuple[ElementKind, ...]
    forces: tuple[ElementKind, ...]

    @staticmethod
    def of(bodies: Sequence[BodyGroup], joints: Sequence[ElementGroup], forces: Sequence[ElementGroup]) -> "Layout":
        return Layout(
            tuple(
                BodyKind(len(g.names), g.body.are_lengths(), g.body.motion_lengths(), g.has_constraint(), len(g.body.point_names()))
                for g in bodies
            ),
            tuple(
                ElementKind(g.bodies, (), () if g.stiff else g.row_lengths(), 0, g.element.angle_count, g.stiff, g.velocity_rows())
                for g in joints
            ),
            tuple(ElementKind(g.bodies, g.joints, (), g.states(), g.element.angle_count, g.stiff, 0, *g.sight()) for g in forces),
        )

    def __hash__(self) -> int:
        return self._hash  # asked for at every call of a compiled function

    @cached_property
    def _hash(self) -> int:
        return hash((self.bodies, self.joints, self.forces))

    # --- coordinates ------------------------------------------------------------------------------------------------------------------

    @cached_property
    def coordinate_lengths(self) -> tuple[bool, ...]:
        return tuple(flag for kind in self.bodies for _ in range(kind.count) for flag in kind.are_lengths)

    @cached_property
    def body_slices(self) -> tuple[slice, ...]:
        """Of every body, its coordinates in q."""
        return _slices([len(kind.are_lengths) for kind in self.bodies for _ in range(kind.count)])

    @cached_property
    def frame_bodies(self) -> tuple[int, ...]:
        """Of every frame but the ground's, the body that it belongs to: bodies first, then their points."""
        points, first = [], 0
        for kind in self.bodies:
            points += [first + i for i in range(kind.count) for _ in range(kind.points)]
            first += kind.count
        return (*range(first), *points)

    @cached_property
    def coordinate_bodies(self) -> tuple[int, ...]:
        return tuple(body for body, where in enumerate(self.body_slices) for _ in range(where.start, where.stop))

    @cached_property
    def motion_lengths(self) -> tuple[bool, ...]:
        return tuple(flag for kind in self.bodies for _ in range(kind.count) for flag in kind.motion_lengths)

    @cached_property
    def motion_coordinates(self) -> tuple[int, ...]:
        kinds = [kind for kind in self.bodies for _ in range(kind.count)]
        return tuple(where.start for kind, where in zip(kinds, self.body_slices, strict=True) for _ in kind.motion_lengths)

    # --- rows -------------------------------------------------------------------------------------------------------------------------

    @cached_property
    def row_slices(self) -> tuple[tuple[slice, ...], ...]:
        """Of every joint, by group: its rows in Phi."""
        flat = iter(_slices([len(kind.row_lengths) for kind in self.joints for _ in kind.bodies]))
        return tuple(tuple(next(flat) for _ in kind.bodies) for kind in self.joints)

    @cached_property
    def velocity_slices(self) -> tuple[tuple[slice, ...], ...]:
        """Of every joint, by group: its velocity constraints among all rows, where they come after Phi."""
        begin = sum(len(kind.row_lengths) * len(kind.bodies) for kind in self.joints) + len(self.row_owners)
        flat = iter(_slices([kind.velocity_rows for kind in self.joints for _ in kind.bodies], begin))
        return tuple(tuple(next(flat) for _ in kind.bodies) for kind in self.joints)

    @cached_property
    def velocity_rows(self) -> int:
        """How many there are."""
        return sum(kind.velocity_rows * len(kind.bodies) for kind in self.joints)

    @cached_property
    def row_owners(self) -> tuple[int, ...]:
        """The bodies that own a constraint row, in the order of the rows, which are the last of Phi (velocity constraints come after it)."""
        owns = [kind.owns_row for kind in self.bodies for _ in range(kind.count)]
        return tuple(np.flatnonzero(owns).tolist())

    @cached_property
    def row_lengths(self) -> tuple[bool, ...]:
        of_joints = (flag for kind in self.joints for _ in kind.bodies for flag in kind.row_lengths)
        return (*of_joints, *(False for _ in self.row_owners), *(True,) * self.velocity_rows)

    # --- angles and states --------------------------------------------------------------------------------------------------------------

    @cached_property
    def joint_angle_count(self) -> int:
        """How many angles joints follow; those of forces come after them."""
        return sum(len(kind.bodies) * kind.angle_count for kind in self.joints)

    @cached_property
    def angle_count(self) -> int:
        """How many relative angles joints and forces follow."""
        return self.joint_angle_count + sum(len(kind.bodies) * kind.angle_count for kind in self.forces)

    @cached_property
    def state_slices(self) -> tuple[slice, ...]:
        """Of every group of forces, its differential states in x."""
        return _slices([len(kind.bodies) * kind.states for kind in self.forces])

    @cached_property
    def algebraic_states(self) -> tuple[int, ...]:
        """Places in x of what is no differential state."""
        kinds = zip(self.forces, self.state_slices, strict=True)
        return tuple(i for kind, where in kinds if kind.algebraic for i in range(where.start, where.stop))

    # --- who touches whom -------------------------------------------------------------------------------------------------------------

    @cached_property
    def coupling(self) -> np.ndarray:
        """Which equations (of motion, rows, states) may depend on which coordinates. Bodies are coupled by the elements between them."""
        slices = (*(self.body_slices[body] for body in self.frame_bodies), slice(0, 0))  # the ground has no coordinates
        n, rows = len(self.coordinate_lengths), len(self.row_lengths)
        motion, held, states = np.zeros((n, n), bool), np.zeros((rows, n), bool), []
        for where in self.body_slices:
            motion[where, where] = True
        for kind in (*self.joints, *self.forces):
            for place, bodies in enumerate(kind.bodies):
                # A reaction depends on where the bodies of its joint are.
                joints = kind.joints[place] if kind.joints else ()
                others = [body for number, i in joints for body in self.joints[number].bodies[i]]
                for i in bodies:
                    for j in (*bodies, *others):
                        motion[slices[i], slices[j]] = True
        for kind, *places in zip(self.joints, self.row_slices, self.velocity_slices, strict=True):
            for bodies, *wheres in zip(kind.bodies, *places, strict=True):
                for where in wheres:
                    for i in bodies:
                        held[where, slices[i]] = True
        for row, body in enumerate(self.row_owners, rows - self.velocity_rows - len(self.row_owners)):
            held[row, slices[body]] = True
        for kind in self.forces:
            for bodies in kind.bodies if kind.states else ():
                depends = np.zeros((kind.states, n), bool)
                for i in bodies:
                    depends[:, slices[i]] = True
                states.append(depends | kind.sees_all)
        pattern = np.concatenate([motion, held, *states])
        pattern.setflags(write=False)
        return pattern

    # --- family B by itself -----------------------------------------------------------------------------------------------------------

    @cached_property
    def stiff_bodies(self) -> tuple[int, ...]:
        """Those that penalty joints and stiff forces act on, by number."""
        touched = {frame for kind in (*self.joints, *self.forces) if kind.stiff for frames in kind.bodies for frame in frames}
        return tuple(sorted({self.frame_bodies[frame] for frame in touched - {len(self.frame_bodies)}}))

    @cached_property
    def stiff_coordinates(self) -> tuple[int, ...]:
        """Their places in q."""
        return tuple(i for body in self.stiff_bodies for i in range(self.body_slices[body].start, self.body_slices[body].stop))

    @cached_property
    def stiff_states(self) -> tuple[int, ...]:
        """Places in x of the states of stiff forces."""
        kinds = zip(self.forces, self.state_slices, strict=True)
        return tuple(i for kind, where in kinds if kind.stiff for i in range(where.start, where.stop))

    @cached_property
    def stiff_members(self) -> tuple[tuple[int, ...], ...]:
        """Of every group of bodies, the places of those that are stiff."""
        found, first = [], 0
        for kind in self.bodies:
            found.append(tuple(body - first for body in self.stiff_bodies if first <= body < first + kind.count))
            first += kind.count
        return tuple(found)

    @cached_property
    def stiff_part(self) -> "Layout":
        """These bodies, and what is stiff between them."""
        kept = [frame for frame, body in enumerate(self.frame_bodies) if body in self.stiff_bodies]
        number = {frame: i for i, frame in enumerate((*kept, len(self.frame_bodies)))}

        def moved(kinds: tuple[ElementKind, ...]) -> tuple[ElementKind, ...]:
            return tuple(k._replace(bodies=tuple(tuple(number[b] for b in own) for own in k.bodies)) for k in kinds if k.stiff)

        members = zip(self.bodies, self.stiff_members, strict=True)
        return Layout(tuple(kind._replace(count=len(own)) for kind, own in members if own), moved(self.joints), moved(self.forces))


def _slices(widths: Sequence[int], begin: int = 0) -> tuple[slice, ...]:
    """One after the other."""
    ends = (begin + np.cumsum(widths)).tolist() if widths else []
    return tuple(slice(end - width, end) for end, width in zip(ends, widths, strict=True))
