"""What the truck looks like. Its coachwork is invented; wheels, arms and road are where the model has them."""

from typing import Any

import numpy as np

from ..system import shapes

_PAINT, _GLASS, _RUBBER, _STEEL = "#7c8450", "#3a444f", "#2b2d30", "#9aa1ab"


def chassis(centre: np.ndarray) -> list[shapes.AbstractShape]:
    """`centre`: of mass, in the vehicle's frame [m]."""
    boxes = [  # sizes, middle in the vehicle's frame
        ((4.1, 0.55, 0.28), (0.0, 0.0, 0.20), "#4a4f57"),  # ladder frame
        ((4.5, 1.75, 0.14), (0.0, 0.0, 0.57), _PAINT),
        ((1.45, 1.55, 0.24), (1.5, 0.0, 0.75), _PAINT),
        ((1.75, 1.70, 0.34), (-0.1, 0.0, 0.80), _PAINT),
        ((1.55, 1.50, 0.34), (-0.15, 0.0, 1.13), _GLASS),
        ((1.65, 1.60, 0.06), (-0.15, 0.0, 1.32), _PAINT),
        ((1.25, 1.70, 0.30), (-1.60, 0.0, 0.78), _PAINT),
    ]
    return [shapes.Box(sizes, np.subtract(at, centre), color=color) for sizes, at, color in boxes]


def rack(length: float, radius: float) -> shapes.AbstractShape:
    """A bar across."""
    return shapes.Cylinder((0.0, -0.5 * length, 0.0), (0.0, 0.5 * length, 0.0), radius, color=_STEEL)


def arm(hinges: np.ndarray, ball: np.ndarray, centre: np.ndarray) -> list[shapes.AbstractShape]:
    """A wishbone from its two points on the chassis to its ball joint."""
    return [shapes.Capsule(hinge - centre, ball - centre, 0.022, color=_STEEL) for hinge in hinges]


def wheel(centre: np.ndarray, radius: float, joints: Any) -> list[shapes.AbstractShape]:
    """Tyre, rim and upright about the wheel's centre; all in the spindle's axes."""
    across = (0.0, 1.0, 0.0)
    w = 0.16
    tyre = [(0.55 * radius, -w), (0.9 * radius, -w), (radius, -0.7 * w), (radius, 0.7 * w), (0.9 * radius, w), (0.55 * radius, w)]
    upright = [shapes.Capsule(joint, 0.75 * centre, 0.025, color=_STEEL) for joint in joints]
    return [
        shapes.Revolved(tyre, across, centre, color=_RUBBER),
        shapes.Disc(0.56 * radius, 1.2 * w, across, centre, sectors=10, color="#c8ccd2"),
        *upright,
    ]


def road(bump_position: float, bump_height: float) -> list[shapes.AbstractShape]:
    """Level, with a half cylinder across it."""
    level: list[shapes.AbstractShape] = [shapes.Plane()]
    if bump_height > 0:
        level.append(shapes.Cylinder((bump_position, -2.0, 0.0), (bump_position, 2.0, 0.0), bump_height, color="#d9a13b"))
    return level
