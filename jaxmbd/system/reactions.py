"""What joints and contacts do to bodies."""

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .contact import AbstractContact, ContactLoads
from .frames import Frame
from .groups import ElementGroup, map_elements, pick
from .rotations import skew
from .state import State

if TYPE_CHECKING:
    from .system import System


def joint_reaction(system: "System", name: str, state: State) -> tuple[Array, Array]:
    """Force and torque on the joint's second body, about the joint's point, in the ground's axes.

    The equations of motion read M v' + Phi_q^T lambda = Q, so the joint does -lambda . dPhi on a virtual displacement: the force is the
    derivative by a displacement of the second body, the torque that by a rotation of it about the joint's point.
    """
    group_number, place, where = system.row_slices()[name]
    group = system.joint_groups[group_number]
    every = system.frames(state.q, state.v)
    joint, local, frames = _one(group, system._geometry().joints[group_number], place, every)
    last = system._angles(every)[0][group_number][place] if joint.angles else jnp.zeros(0)

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
        multipliers = system.penalty_multipliers(state.q, state.v, state.t)[group_number][place]
    _, pull_back = jax.vjp(rows, jnp.zeros(3), jnp.zeros(3))
    force, torque = pull_back(multipliers)
    return -force, -torque


def contact_places(system: "System") -> dict[str, list[tuple[int, int]]]:
    """By name, of a contact or of a group of contacts "name[0]", "name[1]", ...: numbers of their force groups and places in these."""
    found: dict[str, list[tuple[int, int]]] = {}
    members: dict[str, dict[int, tuple[int, int]]] = {}
    for number, group in enumerate(system.force_groups):
        if isinstance(group.element, AbstractContact):
            for place, name in enumerate(group.names):
                found[name] = [(number, place)]
                if match := _MEMBER.fullmatch(name):
                    members.setdefault(match[1], {})[int(match[2])] = (number, place)
    groups = {name: [places[i] for i in sorted(places)] for name, places in members.items()}
    return groups | found


_MEMBER = re.compile(r"(.+)\[(\d+)\]")


def contact_loads(system: "System", name: str, state: State) -> ContactLoads:
    """Gap, slip and forces of one contact, or of all contacts of a group."""
    places = contact_places(system)[name]
    frames, states = system.frames(state.q, state.v), system._states_by_group(state.x)
    parts, order = [], []
    for number in dict.fromkeys(number for number, _ in places):
        group, local = system.force_groups[number], system._geometry().forces[number]
        wanted = [i for i, (owner, _) in enumerate(places) if owner == number]
        index = np.array([places[i][1] for i in wanted])
        loads = lambda contact, local, frames, x: contact.loads(contact.touch(local, frames), frames, x)  # noqa: E731
        parts.append(map_elements(loads, *(pick(tree, index) for tree in (group.element, local, group.frames(frames), states[number]))))
        order += wanted
    if any(name in group.names for group in system.force_groups):
        return jax.tree.map(lambda leaf: leaf[0], parts[0])
    return _joined(parts, np.argsort(order))


def _joined(parts: list[ContactLoads], order: np.ndarray) -> ContactLoads:
    """One set of loads, pairs in their order; what one kind of pair does not know is not known of the group."""
    if len({part.gap.shape[1:] for part in parts}) > 1:
        raise ValueError("this group has pairs with different numbers of spots: ask for its contacts one by one, e.g. 'group[0]'.")
    fields = {}
    for field in dataclasses.fields(ContactLoads):
        values = [getattr(part, field.name) for part in parts]
        fields[field.name] = None if any(value is None for value in values) else jnp.concatenate(values)[order]
    return ContactLoads(**fields)


def _one(group: ElementGroup, local: Any, place: int, frames: Frame) -> tuple[Any, Any, tuple[Frame, ...]]:
    """One element of a group, its geometry and its frames."""
    return pick(group.element, place), pick(local, place), pick(group.frames(frames), place)
