"""Family B by itself: those bodies of a system that penalty joints and stiff forces act on, and what is stiff between them."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .groups import BodyGroup, ElementGroup, Geometry, pick
from .layout import ElementKind

if TYPE_CHECKING:
    from ..system import Prepared


def part(prepared: "Prepared") -> "Prepared":
    """A smaller system of these bodies and elements alone, without fields."""
    system, whole, geometry = prepared.system, prepared.layout, prepared.geometry
    layout = whole.stiff_part
    smaller = dataclasses.replace(
        system,
        body_groups=tuple(_some(group, own) for group, own in zip(system.body_groups, whole.stiff_members, strict=True) if own),
        joint_groups=_stiff(system.joint_groups, layout.joints),
        force_groups=_stiff(system.force_groups, layout.forces),
        fields=(),
        layout=layout,
        redundant=False,
        redundant_joints=(),
        redundant_rows=None,
        structure=None,
    )
    joints, forces = (
        tuple(local for kind, local in zip(kinds, locals_, strict=True) if kind.stiff)
        for kinds, locals_ in ((whole.joints, geometry.joints), (whole.forces, geometry.forces))
    )
    last = None if prepared.last_angles is None else _angles(prepared.last_angles, (*whole.joints, *whole.forces))
    return dataclasses.replace(prepared, system=smaller, geometry=Geometry(joints, forces), last_angles=last)


def _some(group: BodyGroup, places: tuple[int, ...]) -> BodyGroup:
    return BodyGroup(pick(group.body, np.asarray(places)), tuple(group.names[i] for i in places))


def _stiff(groups: Sequence[ElementGroup], kinds: Sequence[ElementKind]) -> tuple[ElementGroup, ...]:
    """The stiff ones, between the bodies of the smaller system."""
    chosen = [group for group in groups if group.stiff]
    return tuple(dataclasses.replace(group, bodies=kind.bodies) for group, kind in zip(chosen, kinds, strict=True))


def _angles(angles: Array, kinds: Sequence[ElementKind]) -> Array:
    """Those of stiff elements."""
    found: list[Any] = [jnp.zeros(0)]
    start = 0
    for kind in kinds:
        width = len(kind.bodies) * kind.angle_count
        found += [angles[start : start + width]] if kind.stiff else []
        start += width
    return jnp.concatenate(found)
