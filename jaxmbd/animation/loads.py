"""What contacts and joints push with at every row of a run: where their arrows go."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..system.contact.base import AbstractContact, ContactLoads
from ..system.mechanism import AbstractMechanism
from ..system.observing.reactions import joint_reactions
from ..system.stacked.groups import map_elements
from ..system.state import State

Arrows = dict[str, tuple[np.ndarray, np.ndarray]]
"""By name: points [m] and forces [N], (rows, 3)"""


def contact_forces(system: AbstractMechanism, state: State) -> list[tuple[Array, Array]]:
    """Of every group of contacts, one after the other: points and forces on the first bodies, (n, spots, 3)."""
    frames, states = system.frames(state.q, state.v), system._states_by_group(state.x)
    found = []
    for group, local, x in zip(system.force_groups, system.geometry.forces, states, strict=True):
        if isinstance(group.element, AbstractContact):
            loads = map_elements(lambda e, loc, f, x: e.loads(e.touch(loc, f), f, x), group.element, local, group.frames(frames), x)
            found.append(_in_space(loads))
    return found


def _in_space(loads: ContactLoads) -> tuple[Array, Array]:
    along = loads.friction
    if loads.point.shape[-1] == 2:
        along = along[..., None] * jnp.stack([-loads.normal[..., 1], loads.normal[..., 0]], axis=-1)
    force = loads.normal_force[..., None] * loads.normal + along
    n, d = force.shape[0], force.shape[-1]
    return tuple(jnp.pad(part.reshape(n, -1, d), ((0, 0), (0, 0), (0, 3 - d))) for part in (loads.point, force))  # pyright: ignore


def reactions(system: AbstractMechanism, state: State) -> list[tuple[Array, Array]]:
    """Of every group of joints: points and forces on the last bodies, (n, 3)."""
    frames, groups = system.frames(state.q, state.v), set(range(len(system.joint_groups)))
    found = joint_reactions(system, groups, frames, state.t, state.multipliers)
    return [(found[number].point, found[number].force) for number in sorted(groups)]


def contact_arrows(solution: Any) -> Arrows:
    groups = [group for group in solution.system.force_groups if isinstance(group.element, AbstractContact)]
    found: Arrows = {}
    for group, (point, force) in zip(groups, solution._rowwise(contact_forces) if groups else [], strict=True):
        for i, name in enumerate(group.names):
            spots = point.shape[2]
            for j in range(spots):
                found[name if spots == 1 else f"{name}, spot {j}"] = np.asarray(point[:, i, j]), np.asarray(force[:, i, j])
    return found


def reaction_arrows(solution: Any) -> Arrows:
    groups = solution.system.joint_groups
    loads = solution._rowwise(reactions) if groups else []
    return {
        name: (np.asarray(point[:, i]), np.asarray(force[:, i]))
        for group, (point, force) in zip(groups, loads, strict=True)
        for i, name in enumerate(group.names)
    }
