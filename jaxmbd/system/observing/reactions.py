"""What joints and contacts do to bodies."""

import dataclasses
import re
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._numbers import Number
from ..contact.base import AbstractContact, ContactLoads
from ..frames import Frame, JointReaction
from ..rotations import cross, skew
from ..stacked.groups import ElementGroup, map_elements, pick
from ..state import State

if TYPE_CHECKING:
    from ..mechanism import AbstractMechanism


def joint_reaction(system: "AbstractMechanism", name: str, state: State) -> tuple[Array, Array]:
    """Force and torque on the joint's second body, about the joint's point, in the ground's axes."""
    number, place, _ = system.row_slices()[name]
    found = reaction_at(system, number, place, state)
    return found.force, found.torque


def reaction_at(system: "AbstractMechanism", number: int, place: int, state: State) -> JointReaction:
    """Of one joint, by the number of its group and its place in it."""
    frames = system.frames(state.q, state.v)
    group, parts = _parts(system, {number}, frames, state.t, state.multipliers)[number]
    return _reaction(group, state.t, *pick(parts, place))


def multiplier_forces(system: "AbstractMechanism") -> tuple[str, ...]:
    """Descriptions of forces that depend on multipliers. Joints that penalties hold have reactions without them."""
    found = []
    for group in system.force_groups:
        for name, joints in zip(
            group.names, group.joints if group.element.asks_reactions else (), strict=False
        ):  # no joints: none of the group asks for any
            owners = [(system.joint_groups[number], place) for number, place in joints]
            held = [repr(owner.names[place]) for owner, place in owners if owner.element.penalty is None]
            if held:
                found.append(f"force {name!r} (by the reaction of joint {', '.join(held)})")
    return tuple(found)


def joint_reactions(
    system: "AbstractMechanism", wanted: set[int], frames: Frame, t: Number, multipliers: Array | None
) -> dict[int, JointReaction]:
    """By the number of their group, the reactions of all its joints; None for multipliers if penalties hold them all."""
    parts = _parts(system, wanted, frames, t, multipliers)
    return {
        number: map_elements(lambda *args, group=group: _reaction(group, t, *args), *own) for number, (group, own) in sorted(parts.items())
    }


def _parts(
    system: "AbstractMechanism", wanted: set[int], frames: Frame, t: Number, multipliers: Array | None
) -> dict[int, tuple[ElementGroup, tuple[Any, ...]]]:
    """What `_reaction` needs of all joints of a group."""
    if not wanted:
        return {}
    angles, slices = system._angles(frames)[0], system.row_slices()
    penalties = system._penalties(frames, t) if any(system.joint_groups[number].element.penalty is not None for number in wanted) else {}
    found = {}
    for number in wanted:
        group = system.joint_groups[number]
        if number in penalties:
            pulls, _ = penalties[number]
        else:
            assert multipliers is not None
            begin, end = slices[group.names[0]][2].start, slices[group.names[-1]][2].stop
            pulls = multipliers[begin:end].reshape(len(group.names), -1)
            if group.velocity_rows():
                places = system.layout.velocity_slices[number]
                rolling = multipliers[places[0].start : places[-1].stop].reshape(len(group.names), -1)
                pulls = jnp.concatenate([pulls, rolling], axis=1)
        found[number] = group, (group.element, system.geometry.joints[number], group.frames(frames), angles[number], pulls)
    return found


def _reaction(
    group: ElementGroup, t: Number, joint: Any, local: Any, frames: tuple[Frame, ...], last: Number, multipliers: Array
) -> JointReaction:
    """The equations of motion read M v' + Phi_q^T lambda = Q, so the joint does -lambda . dPhi on a virtual displacement: the force is the
    derivative by a displacement of the second body, the torque that by a rotation of it about the joint's point."""
    about = joint.reference_point(local, frames)

    def rows(shift: Number, turn: Array) -> Array:
        second = frames[1]
        rotation = jnp.eye(3) + skew(turn)
        moved = dataclasses.replace(
            second,
            position=about + rotation @ (second.position - about) + shift,
            rotation=rotation @ second.rotation,
        )
        seen = (frames[0], moved, *frames[2:])
        wrapped = joint.wrapped_angles(local, seen)
        angles = wrapped + jax.lax.stop_gradient(last - wrapped)
        values = joint.rows(local, seen, angles, t)
        values = values if group.rows is None else values[np.asarray(group.rows, int)]
        if not joint.velocity_rows:
            return values
        # A velocity constraint does so on a virtual displacement in the place of the velocity.
        still = [dataclasses.replace(frame, velocity=jnp.zeros(3), angular_velocity=jnp.zeros(3)) for frame in frames]
        displaced = dataclasses.replace(still[1], velocity=shift + cross(turn, second.position - about), angular_velocity=turn)
        return jnp.concatenate([values, joint.velocities(local, (still[0], displaced, *still[2:]), t)])

    _, pull_back = jax.vjp(rows, jnp.zeros(3), jnp.zeros(3))
    force, torque = pull_back(multipliers)
    return JointReaction(-force, -torque, about)


def contact_places(system: "AbstractMechanism") -> dict[str, list[tuple[int, int]]]:
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


def contact_loads(system: "AbstractMechanism", name: str, state: State) -> ContactLoads:
    """Gap, slip and forces of one contact, or of all contacts of a group."""
    places = contact_places(system)[name]
    frames, states = system.frames(state.q, state.v), system._states_by_group(state.x)
    parts, order = [], []
    for number in dict.fromkeys(number for number, _ in places):
        group, local = system.force_groups[number], system.geometry.forces[number]
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
