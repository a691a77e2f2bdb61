"""Where a body that deforms is stressed most in a run."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from .system.flexible.modal import ModalBody
from .system.flexible.reduced import Recovery
from .system.mechanism import AbstractMechanism
from .system.parameters import unknown
from .system.stacked.groups import pick

_ROWS = 256
"""of a run at a time: all stresses of all rows together would fill the memory"""


class HotSpot(NamedTuple):
    """A place, and the largest stress that it met."""

    label: str
    position: np.ndarray
    """m, in the axes of the mesh from the centre of mass, undeformed"""
    stress: float
    """Pa, von Mises"""
    time: float
    """s, when"""
    point: int
    """its column in `solution.stress(...)`"""


def recovery_of(system: AbstractMechanism, body: str) -> Recovery:
    """What makes stresses of a body's modal coordinates."""
    slices = system.body_slices()
    if body not in slices:
        raise ValueError(unknown("body", body, slices))
    group, place, _ = slices[body]
    if not isinstance(group.body, ModalBody) or group.body.modes.recovery is None:
        raise ValueError(f"body {body!r} has no points of stress recovery: they come with the modes of an mbd.fem.SpaceFrame.")
    return pick(group.body.modes.recovery, place)


def hottest(
    recovery: Recovery, deflection: Float[Array, "rows modes"], ts: Float[Array, "rows"], count: int, radius: float | None
) -> list[HotSpot]:
    """The largest stresses over all rows, no two of them nearer than the radius."""
    rows = deflection.shape[0]
    peaks, moments = np.full(recovery.positions.shape[0], -1.0), np.zeros(recovery.positions.shape[0], int)
    for first in range(0, rows, _ROWS):
        part: Any = np.asarray(recovery.von_mises(deflection[first : first + _ROWS]))
        higher = part.max(axis=0) > peaks
        moments[higher], peaks[higher] = first + part.argmax(axis=0)[higher], part.max(axis=0)[higher]
    places = np.asarray(recovery.positions)
    if radius is None:
        radius = 0.02 * float(np.linalg.norm(np.ptp(places, axis=0)))
    found: list[HotSpot] = []
    for point in np.argsort(-peaks):
        if len(found) == count:
            break
        if all(np.linalg.norm(places[point] - other.position) > radius for other in found):
            time = float(ts[moments[point]])
            found.append(HotSpot(recovery.labels[point], places[point], float(peaks[point]), time, int(point)))
    return found
