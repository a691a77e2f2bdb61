"""What joints do to bodies."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array

from .frames import Frame
from .rotations import skew
from .state import State
from .system import System


def joint_reaction(system: System, name: str, state: State) -> tuple[Array, Array]:
    """Force and torque on the joint's second body, about the joint's point, in the ground's axes.

    The equations of motion read M v' + Phi_q^T lambda = Q, so the joint does -lambda . dPhi on a virtual displacement: the force is the
    derivative by a displacement of the second body, the torque that by a rotation of it about the joint's point.
    """
    group_number, place, where = system.row_slices()[name]
    group = system.joint_groups[group_number]
    pick = lambda tree: jax.tree.map(lambda leaf: leaf[place] if hasattr(leaf, "shape") else leaf, tree)  # noqa: E731
    joint, local = pick(group.element), pick(system._geometry().joints[group_number])
    frames: tuple[Frame, ...] = pick(group.frames(system.frames(state.q, state.v)))
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
