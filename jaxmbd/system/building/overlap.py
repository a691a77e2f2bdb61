"""Bodies that stand in each other before anything has moved."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._compiling import compiled_in_haste
from ..contact.base import AbstractContact
from ..stacked.groups import map_elements
from ..system import System

ALLOWED = 0.01
"""of the pair's size. Loaded elastic bodies overlap far less (balls of a bearing by a thousandth), misplaced ones far more."""


def check_overlaps(system: System, contacts: Sequence[AbstractContact]) -> None:
    """Raises for the deepest pair that overlaps at the start by more than elastic bodies would."""
    allowed = {contact.name for contact in contacts if contact.allow_overlap}
    if len(allowed) == len(contacts):
        return
    worst = (0.0, "", (), 0.0, 0.0, False)
    groups = [group for group in system.force_groups if isinstance(group.element, AbstractContact)]
    for group, (depths, sizes) in zip(groups, _depths(system.nameless()), strict=True):
        for name, bodies, depth, size in zip(group.names, group.bodies, np.asarray(depths), np.asarray(sizes), strict=True):
            share = float(depth) / float(size)
            if name not in allowed and share > max(ALLOWED, worst[0]):
                worst = (share, name, bodies, float(depth), float(size), hasattr(group.element, "normal"))
    share, name, bodies, depth, size, on_a_face = worst
    if not name:
        return
    known = (*system.frame_names, "ground")
    first, second = (known[i] for i in bodies)
    behind = (
        " The normal must point to the side where the other body is free: turn it round if it does not." if share > 1 and on_a_face else ""
    )
    raise ValueError(
        f"force {name!r}: {first!r} and {second!r} overlap by {depth:.3g} m at the start, {100 * share:.3g} % of the pair's size "
        f"{size:.3g} m; more than {100 * ALLOWED:.0f} % is taken for a mistake. Move one of them by that depth, or give the contact "
        f"allow_overlap=True.{behind}"
    )


@compiled_in_haste
def _depths(system: System) -> list[tuple[Array, Array]]:
    """Of every group of contacts: the deepest spot of each pair, and the pair's size."""
    frames, geometry = system.frames(system.q0, jnp.zeros_like(system.q0)), system.geometry

    def of(contact, local, frames):
        return jnp.max(contact.touch(local, frames).depth), contact.size()

    return [
        map_elements(of, group.element, local, group.frames(frames))
        for group, local in zip(system.force_groups, geometry.forces, strict=True)
        if isinstance(group.element, AbstractContact)
    ]
