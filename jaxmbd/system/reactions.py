"""What joints and contacts do to bodies."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .contact import AbstractContact, ContactLoads
from .frames import Frame
from .rotations import skew
from .state import State
from .system import ElementGroup, System


def joint_reaction(system: System, name: str, state: State) -> tuple[Array, Array]:
    """Force and torque on the joint's second body, about the joint's point, in the ground's axes.

    The equations of motion read M v' + Phi_q^T lambda = Q, so the joint does -lambda . dPhi on a virtual displacement: the force is the
    derivative by a displacement of the second body, the torque that by a rotation of it about the joint's point.
    """
    group_number, place, where = system.row_slices()[name]
    group = system.joint_groups[group_number]
    joint, local, frames = _one(system, group, system._geometry().joints[group_number], place, state)
    joint_angles, _ = system._angles(system.frames(state.q, state.v))
    last = joint_angles[group_number][place]

    def rows(shift: Array, turn: Array) -> Array:
        second = frames[1]
        about = joint.reference_point(local, frames)
        rotation = jnp.eye(3) + skew(turn)
        moved = dataclasses.replace(
            second,
            position=about + rotation @ (second.position - about) + shift,
            rotation=rotation @ second.rotation,
        )
        seen = (frames[0], moved, *frames[2:])
        wrapped = joint.wrapped_angles(local, seen)
        angles = wrapped + jax.lax.stop_gradient(last - wrapped)
        values = joint.rows(local, seen, angles, state.t)
        return values if group.rows is None else values[jnp.asarray(group.rows)]

    if joint.penalty is None:
        multipliers = state.multipliers[where] * state.memory.kept_rows[where]
    else:
        multipliers = _penalty_multipliers(system, group_number, place, state)
    _, pull_back = jax.vjp(rows, jnp.zeros(3), jnp.zeros(3))
    force, torque = pull_back(multipliers)
    return -force, -torque


def contact_places(system: System) -> dict[str, tuple[int, int]]:
    """By contact name: the number of its force group, its place in the group."""
    return {
        name: (number, place)
        for number, group in enumerate(system.force_groups)
        if isinstance(group.element, AbstractContact)
        for place, name in enumerate(group.names)
    }


def contact_loads(system: System, name: str, state: State) -> ContactLoads:
    """Gap, slip and forces of one contact."""
    number, place = contact_places(system)[name]
    group = system.force_groups[number]
    contact, local, frames = _one(system, group, system._geometry().forces[number], place, state)
    return contact.loads(contact.touch(local, frames), frames, system._states_by_group(state.x)[number][place])


def _one(system: System, group: ElementGroup, local: Any, place: int, state: State) -> tuple[Any, Any, tuple[Frame, ...]]:
    """One element of a group, its geometry and its frames."""
    pick = lambda tree: jax.tree.map(lambda leaf: leaf[place] if hasattr(leaf, "shape") else leaf, tree)  # noqa: E731
    return pick(group.element), pick(local), pick(group.frames(system.frames(state.q, state.v)))


def _penalty_multipliers(system: System, group_number: int, place: int, state: State) -> Array:
    every = system.penalty_multipliers(state.q, state.v, state.t)
    start = 0
    for number, group in enumerate(system.joint_groups):
        if group.element.penalty is not None:
            width = len(group.rows or group.element.lengths())
            if number == group_number:
                return every[start + place * width : start + (place + 1) * width]
            start += len(group.names) * width
    raise AssertionError("a penalty joint has rows")
