"""What a system was built from, with the numbers that it has now."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..elements import ground
from ..shapes import AbstractShape

if TYPE_CHECKING:
    from ..system import System


class Parts(NamedTuple):
    """What a model is made of."""

    bodies: tuple[Any, ...]
    joints: tuple[Any, ...]
    forces: tuple[Any, ...]
    scenery: tuple[AbstractShape, ...]


def parts_of(system: "System") -> Parts:
    """Bodies, joints and forces one by one, in the order of the system's coordinates and rows: a model made of them has the same."""
    looks, names = dict(system.looks), (*system.frame_names, ground.name)
    bodies = [
        _one(group.body, i, name=name, shape=looks.get(name, ())) for group in system.body_groups for i, name in enumerate(group.names)
    ]
    joints, forces = (
        [
            _one(group.element, i, name=name, bodies=tuple(names[body] for body in group.bodies[i]), **_asked(system, group, i))
            for group in groups
            for i, name in enumerate(group.names)
        ]
        for groups in (system.joint_groups, system.force_groups)
    )
    return Parts(tuple(bodies), tuple(joints), (*forces, *system.fields), looks.get(ground.name, ()))


def _asked(system: "System", group: Any, i: int) -> dict[str, Any]:
    """What differs between elements of a stack besides their bodies: the joints whose reactions they take. Contacts were compared with the
    size of their bodies when the model was built, not again."""
    found: dict[str, Any] = {"joints": tuple(system.joint_groups[g].names[place] for g, place in group.joints[i])} if group.joints else {}
    return found | ({"allow_overlap": True} if "allow_overlap" in vars(group.element) else {})


def _one(stack: Any, i: int, **fields: Any) -> Any:
    """The i-th of a stack, with its own name."""
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[i] if hasattr(leaf, "shape") else leaf, stack)
    for field, value in fields.items():
        object.__setattr__(one, field, value)
    return one
