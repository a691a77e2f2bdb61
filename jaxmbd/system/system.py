"""A built model as users hold it, `System`, and as it runs, `Prepared`."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
from jaxtyping import Array, Float

from . import naming
from .blocks.structure import Structure
from .describing import describe_system
from .files import model_files
from .files.parts import parts_of
from .forces.base import AbstractField
from .mechanism import AbstractMechanism
from .shapes import AbstractShape
from .stacked import stiff
from .stacked.groups import BodyGroup, ElementGroup, Geometry, gather
from .stacked.layout import Layout
from .state import Memory

_Group = TypeVar("_Group", BodyGroup, ElementGroup)


class System(AbstractMechanism):
    """A built model. Every physical number is a leaf; `get` and `set` reach them by name. Made by `Model.build`."""

    body_groups: tuple[BodyGroup, ...]
    joint_groups: tuple[ElementGroup, ...]
    force_groups: tuple[ElementGroup, ...]
    fields: tuple[AbstractField, ...]
    planar: bool = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)
    redundant: bool = eqx.field(static=True, default=False)
    """Whether rows of Phi may follow from others, so that the run must choose among them."""
    redundant_joints: tuple[str, ...] = eqx.field(static=True, default=())
    """The joints of such loops, as far as the initial configuration shows: their reactions are not unique."""
    redundant_rows: int | None = eqx.field(static=True, default=None)
    """How many rows follow from others; None: could not be counted at build."""
    structure: Structure | None = None
    """for large mechanisms; None: matrices are dense"""
    implicit_places: tuple[tuple[int, int], ...] = eqx.field(static=True, default=())
    """Elements whose states have implicit equations or are variables: groups of forces and places in them."""
    looks: tuple[tuple[str, tuple[AbstractShape, ...]], ...] = eqx.field(static=True, default=())
    """Shapes for pictures, of the ground and of bodies by name; like names they are not part of what is compiled."""

    def __repr__(self) -> str:
        return describe_system(self).text()

    def _repr_html_(self) -> str:
        return describe_system(self).html()

    def get(self, name: str) -> Array:
        """The value of a parameter, e.g. `system.get("spring.stiffness")`."""
        return naming.get(self, name)

    def set(self, values: dict[str, Any]) -> "System":
        """A copy with other values, e.g. `system.set({"spring.stiffness": 300.0, "rod.mass": 2.0})`. Works under jit, grad and vmap.

        A value out of its range raises ValueError. Under a transformation it becomes NaN instead, and so does all that follows from it; a run
        ends with `RESULTS.bad_parameter`, which names the parameter.
        """
        return naming.set_values(self, values)

    def parameter_names(self) -> list[str]:
        """Every parameter once, by its shortest name. `get` and `set` know the whole path too: "floor.friction.kinetic" is "floor.kinetic"."""
        return naming.parameter_names(self)

    def save(self, path: str | Path) -> Path:
        """Writes the model with the numbers that it has now, also those that were `set`, as `Model.save` does."""
        return model_files.write(parts_of(self), path)

    def watching(self, joints: tuple[str, ...] = (), rows: int | None = None) -> "System":
        """The same system, watching for rows that follow from others."""
        return dataclasses.replace(self, redundant=True, redundant_joints=joints, redundant_rows=rows)

    def nameless(self) -> "System":
        if any(kind.sees_all for kind in self.layout.forces):  # functions of states ask for names
            return dataclasses.replace(self, redundant_joints=(), looks=())
        return dataclasses.replace(
            self,
            body_groups=_numbered("body", self.body_groups),
            joint_groups=_numbered("joint", self.joint_groups),
            force_groups=_numbered("force", self.force_groups),
            fields=tuple(field.renamed(f"field {i}") for i, field in enumerate(self.fields)),
            redundant_joints=(),
            looks=(),
        )

    # Points and axes follow from the parameters anew whenever they are asked for: nothing here can be out of date.

    @property
    def geometry(self) -> Geometry:  # pyright: ignore[reportIncompatibleVariableOverride]
        initial = self.frames(self.q0, self.v0)
        joints = tuple(group.local(initial) for group in self.joint_groups)

        def local(group: ElementGroup) -> Any:
            shared = group.element.shares_axis
            return gather(dict(enumerate(joints)), [own[0] for own in group.joints]) if shared else group.local(initial)

        return Geometry(joints, tuple(local(group) for group in self.force_groups))

    @property
    def last_angles(self) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return None

    def prepare(self) -> "Prepared":
        return Prepared(self, self.geometry)  # pyright: ignore[reportCallIssue] (q0 and v0 are properties)

    def recall(self, memory: Memory) -> "Prepared":
        return self.prepare().recall(memory)

    def stiff_part(self):
        return self.prepare().stiff_part()


def _numbered(kind: str, groups: tuple[_Group, ...]) -> tuple[_Group, ...]:
    """With numbers for names."""
    number = itertools.count()
    return tuple(dataclasses.replace(group, names=tuple(f"{kind} {next(number)}" for _ in group.names)) for group in groups)


class Prepared(AbstractMechanism):
    """A system within a run, with all that follows from its parameters and need not be computed at every step. Nobody changes these: a run
    makes one from a `System`, and hands back the latter."""

    system: System
    geometry: Geometry
    last_angles: Float[Array, "angles"] | None = None
    """rad, from the initial configuration on; what `recall` was told"""

    def prepare(self) -> "Prepared":
        return self

    def recall(self, memory: Memory) -> "Prepared":
        return eqx.tree_at(lambda s: s.last_angles, self, memory.angles, is_leaf=lambda leaf: leaf is None)

    def stiff_part(self) -> "Prepared":
        return stiff.part(self)

    def parameter_names(self):
        return self.system.parameter_names()

    @property
    def body_groups(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.body_groups

    @property
    def joint_groups(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.joint_groups

    @property
    def force_groups(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.force_groups

    @property
    def fields(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.fields

    @property
    def planar(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.planar

    @property
    def layout(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.layout

    @property
    def structure(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.structure

    @property
    def implicit_places(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.implicit_places

    @property
    def redundant(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.redundant

    @property
    def redundant_rows(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.redundant_rows
