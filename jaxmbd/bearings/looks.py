"""What the parts of a bearing look like."""

from typing import TYPE_CHECKING

import numpy as np

from ..system import shapes
from ..system.parameters import is_traced

if TYPE_CHECKING:
    from .deep_groove import DeepGroove

Shapes = list[shapes.AbstractShape] | None
_AXIS = (0.0, 0.0, 1.0)
_STEEL, _BALL, _POLYAMIDE = "#aab2bd", "#d5dae1", "#d08a3e"


def ring(bearing: "DeepGroove", which: str) -> Shapes:
    """With its groove; the outer one lets see what is in it. None: the numbers are traced, and there is nothing to draw."""
    if is_traced(bearing):
        return None
    inner = which == "inner"
    half, land = 0.5 * float(bearing.width), float(bearing.land(which))
    bed = 0.5 * float(bearing.bore if inner else bearing.outside_diameter)
    circle, radius = float(bearing.groove_circle(which)), float(getattr(bearing, f"conformity_{which}") * bearing.ball_diameter)
    edge = np.sqrt(max(radius**2 - (circle - land) ** 2, 0.0))
    heights = np.linspace(-edge, edge, 17)
    depths = circle + (-1 if inner else 1) * np.sqrt(np.maximum(radius**2 - heights**2, 0.0))
    groove = np.stack([depths, heights], axis=1)
    outline = [(bed, -half), (land, -half), *map(tuple, groove), (land, half), (bed, half)]
    return [shapes.Revolved(outline, _AXIS, sectors=12 if inner else 0, color=_STEEL, opacity=1.0 if inner else 0.3, metallic=0.3)]


def ball(bearing: "DeepGroove") -> Shapes:
    return None if is_traced(bearing) else [shapes.Sphere(0.5 * float(bearing.ball_diameter), color=_BALL, metallic=0.3)]


def cage(bearing: "DeepGroove") -> Shapes:
    """Two bands beside the balls, and bars between them."""
    if is_traced(bearing):
        return None
    diameter, width, pitch = float(bearing.ball_diameter), float(bearing.cage_width), 0.5 * float(bearing.pitch_diameter)
    thickness, band = 0.22 * diameter, 0.1 * width
    middle, parts = pitch, []
    if bearing.guidance != "balls":
        gap = float(bearing.guidance_clearance)
        middle = float(bearing.land(bearing.guidance)) + (-1 if bearing.guidance == "outer" else 1) * (gap + 0.5 * thickness)
    for side in (-1, 1):
        at = (0.0, 0.0, side * 0.5 * (width - band))
        parts.append(shapes.Ring(middle - 0.5 * thickness, middle + 0.5 * thickness, band, _AXIS, at, color=_POLYAMIDE))
    spare = 2 * pitch * np.sin(np.pi / bearing.balls) - diameter
    for i in range(bearing.balls):
        angle = 2 * np.pi * (i + 0.5) / bearing.balls
        out, along = np.array([np.cos(angle), np.sin(angle), 0.0]), np.array([-np.sin(angle), np.cos(angle), 0.0])
        axes = np.stack([out, along, _AXIS], axis=1)
        parts.append(shapes.Box((thickness, 0.7 * spare, width), middle * out, axes, color=_POLYAMIDE))
    return parts
