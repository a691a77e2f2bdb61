"""A run as a page: the scene and its viewer in one file that asks the network for nothing."""

import base64
import functools
import gzip
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .gltf import glb, upright
from .motion import matrices
from .scene import CONTACTS, REACTIONS, Scene, scene_of, shown

if TYPE_CHECKING:
    from ..solution import Solution

_CURVE = 1500
"""points of a curve; of more rows, the lowest and the highest of each stretch"""


class Animation:
    """A run to look at. A notebook shows it below the cell; `html` is the page, `save` writes it."""

    def __init__(self, page: str, height: int):
        self.html = page
        """the whole page"""
        self._height = height

    def save(self, path: str | Path) -> Path:
        """Writes the page, one file."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        frame = f'style="width: 100%; height: {self._height}px; border: 0; border-radius: 6px" loading="lazy" allowfullscreen'
        return f'<iframe srcdoc="{html.escape(self.html)}" {frame}></iframe>'

    def __repr__(self) -> str:
        return f"Animation({len(self.html) / 1e6:.1f} MB; shown by a notebook, or .save('run.html'))"


def animate(
    solution: "Solution",
    observe: str | Sequence[str] = (),
    *,
    traces: str | Sequence[str] = (),
    show: str | Sequence[str] = (),
    speed: float | None = None,
    camera: Any = None,
    follow: str | None = None,
    title: str = "",
    height: int = 480,
    autoplay: bool = True,
) -> Animation:
    """See `Solution.animate`."""
    scene = scene_of(solution, speed=speed, follow=follow, traces=_several(traces))
    about = _about(scene, camera, title) | {
        "curves": curves(solution, _several(observe)),
        "shown": _switched_on(_several(show)),
        "autoplay": autoplay,
    }
    texts = {
        "TITLE": html.escape(title),
        "ABOUT": json.dumps(about, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        "VIEWER": _viewer(),
        "SCENE": _as_text(glb(scene)),
    }
    return Animation(re.sub("|".join(texts), lambda word: texts[word[0]], _file("page.html")), height)


def _several(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _switched_on(groups: list[str]) -> list[str]:
    for group in groups:
        if group not in (CONTACTS, REACTIONS):
            raise ValueError(f"show takes {CONTACTS!r} and {REACTIONS!r}, got {group!r}.")
    return groups


def _file(name: str) -> str:
    return resources.files("jaxmbd.animation").joinpath("viewer", name).read_text(encoding="utf-8")


@functools.cache
def _viewer() -> str:
    return _as_text(_file("viewer.min.js").encode())


def _as_text(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


# --- what the viewer is told --------------------------------------------------------------------------------------------------------------


def _about(scene: Scene, camera: Any, title: str) -> dict[str, Any]:
    """Numbers in the viewer's axes: y is up."""
    turn = matrices(upright(scene.up))
    points = _corners(scene) @ turn.T
    bodies = {node.name: node for node in scene.nodes}
    start, onward = np.zeros(3), np.zeros(3)
    if scene.follow:
        path = bodies[scene.follow].position @ turn.T
        start, onward = path[0], 0.5 * (path.min(axis=0) + path.max(axis=0)) - path[0]
    return {
        "title": title,
        "start": float(scene.times[0]),
        "end": float(scene.times[-1]),
        "speed": scene.speed,
        "duration": float(np.float32((scene.times[-1] - scene.times[0]) / scene.speed)),
        "size": scene.size,
        "floor": scene.floor,
        "middle": (0.5 * (points.min(axis=0) + points.max(axis=0)) + onward).tolist(),
        "reach": float(np.linalg.norm(np.ptp(points, axis=0))) + _path_length(scene),
        "camera": (turn @ _camera(scene, camera)).tolist(),
        "points": points.round(9).tolist(),
        "follow": scene.follow,
        "followed": start.tolist(),
        "planar": scene.planar,
        "longest": scene.longest,
    }


def _camera(scene: Scene, given: Any) -> np.ndarray:
    """From what is looked at towards the camera: onto the plane of a planar model, else a little from above."""
    if given is not None:
        direction = np.asarray(given, float)
        if direction.shape != (3,) or not np.linalg.norm(direction) > 0:
            raise ValueError(f"camera must be a direction (x, y, z), from the scene towards the camera, got {given!r}.")
        return direction
    if scene.planar:
        return np.array([0.0, 0.0, 1.0])
    return matrices(upright(scene.up)).T @ np.array([0.55, 0.45, 1.0])


def _path_length(scene: Scene) -> float:
    path = next((node.position for node in scene.nodes if node.name == scene.follow), np.zeros((1, 3)))
    return float(np.linalg.norm(np.ptp(path, axis=0)))


def _corners(scene: Scene) -> np.ndarray:
    """Points that the picture has to hold: of everything that moves, the outermost along many directions, seen from what the camera follows."""
    path = next((node.position for node in scene.nodes if scene.follow and node.name == scene.follow), np.zeros((1, 3)))
    found = []
    for node in scene.nodes:
        if node.group or not shown(node) or (scene.follow and len(node.position) == 1):
            continue
        outside = _outermost(np.concatenate([part.surface.vertices for part in shown(node)]))
        rows = np.unique(np.linspace(0, len(node.position) - 1, 60).astype(int))
        sized = outside if node.scale is None else outside * node.scale[rows][:, None]
        moved = np.einsum("tij,tkj->tki", matrices(node.turn[rows]), np.broadcast_to(sized, (len(rows), len(outside), 3)))
        shift = path[rows if len(path) == len(scene.times) and len(node.position) > 1 else np.zeros(len(rows), int)] - path[0]
        found.append((moved + (node.position[rows] - shift)[:, None]).reshape(-1, 3))
    return _outermost(np.concatenate(found))


def _outermost(points: np.ndarray) -> np.ndarray:
    """Of many points those that come furthest in one of some directions."""
    directions = np.random.default_rng(0).normal(size=(60, 3))
    return points[np.unique(np.argmax(points @ np.concatenate([directions, -directions]).T, axis=0))]


def curves(solution: "Solution", names: list[str]) -> list[dict[str, Any]]:
    """What the strip chart draws: one panel for each unit."""
    panels: dict[str, list[dict[str, Any]]] = {}
    times = np.asarray(solution.ts)
    for name, values in solution.observe(names).items():
        if values.ndim == 0:
            raise ValueError(f"{name!r} is one number for the whole run, not a curve: leave the reducer out.")
        if not np.all(np.isfinite(values)):
            raise ValueError(f"{name!r} is not finite in this run, and cannot be drawn.")
        keep = _telling(np.asarray(values))
        line = {"name": name, "times": _short(times[keep], 9), "values": _short(np.asarray(values)[keep], 6)}
        panels.setdefault(solution.system.observable_unit(name), []).append(line)
    return [{"unit": unit, "lines": lines} for unit, lines in panels.items()]


def _telling(values: np.ndarray) -> np.ndarray:
    """Places of rows that a curve needs: lows and highs remain."""
    if len(values) <= _CURVE:
        return np.arange(len(values))
    stretches = np.array_split(np.arange(len(values)), _CURVE // 2)
    ends = [(part[np.argmin(values[part])], part[np.argmax(values[part])]) for part in stretches]
    return np.unique([0, len(values) - 1, *np.ravel(ends)])


def _short(values: np.ndarray, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
