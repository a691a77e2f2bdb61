"""Family B by itself: those bodies of a system that penalty joints and stiff forces act on, and what is stiff between them."""

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .groups import BodyGroup, ElementGroup, Geometry

if TYPE_CHECKING:
    from ..mechanism import AbstractMechanism
    from ..system import Prepared


def _bodies(system: "AbstractMechanism") -> list[int]:
    """By number."""
    groups = (*system.joint_groups, *system.force_groups)
    touched = {body for group in groups if group.stiff for bodies in group.bodies for body in bodies}
    return sorted(touched - {len(system.body_names)})


def coordinates(system: "AbstractMechanism") -> tuple[int, ...]:
    """Places in q of the coordinates of `part`."""
    slices = [where for _, _, where in system.body_slices().values()]
    return tuple(i for body in _bodies(system) for i in range(slices[body].start, slices[body].stop))


def states(system: "AbstractMechanism") -> tuple[int, ...]:
    """Places in x of the states of `part`."""
    widths = [(len(group.names) * group.states(), group.stiff) for group in system.force_groups]
    return tuple(np.flatnonzero(np.repeat([stiff for _, stiff in widths], [width for width, _ in widths])).tolist())


def part(prepared: "Prepared") -> "Prepared":
    """A smaller system of these bodies and elements alone, without gravity."""
    system = prepared.system
    kept = _bodies(system)
    place = {body: i for i, body in enumerate(kept)} | {len(system.body_names): len(kept)}
    groups: tuple[list[ElementGroup], ...] = ([], [])
    locals_: tuple[list[Any], ...] = ([], [])
    geometry, angles, start = prepared.geometry, [jnp.zeros(0)], 0
    for kind, (all_groups, all_locals) in enumerate(((system.joint_groups, geometry.joints), (system.force_groups, geometry.forces))):
        for group, local in zip(all_groups, all_locals, strict=True):
            width = len(group.names) * group.element.angles
            if group.stiff:
                moved = tuple(tuple(place[body] for body in pair) for pair in group.bodies)
                groups[kind].append(dataclasses.replace(group, bodies=moved))
                locals_[kind].append(local)
                if prepared.last_angles is not None:
                    angles.append(prepared.last_angles[start : start + width])
            start += width
    smaller = dataclasses.replace(
        system,
        body_groups=_some_bodies(system, kept),
        joint_groups=tuple(groups[0]),
        force_groups=tuple(groups[1]),
        gravity=(),
        redundant=False,
        redundant_joints=(),
        redundant_rows=None,
    )
    return dataclasses.replace(
        prepared,
        system=smaller,
        geometry=Geometry(tuple(locals_[0]), tuple(locals_[1])),
        last_angles=None if prepared.last_angles is None else jnp.concatenate(angles),
    )


def _some_bodies(system: "AbstractMechanism", kept: list[int]) -> tuple[BodyGroup, ...]:
    found, first = [], 0
    for group in system.body_groups:
        members = [i for i in range(len(group.names)) if first + i in kept]
        first += len(group.names)
        if members:
            chosen = jax.tree.map(lambda leaf, m=np.asarray(members): leaf[m] if eqx.is_array(leaf) else leaf, group.body)
            found.append(BodyGroup(chosen, tuple(group.names[i] for i in members)))
    return tuple(found)
