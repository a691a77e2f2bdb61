"""A run as things that move: bodies, what ties them together, arrows, traces. All in the ground's axes, in m."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..rows import frames
from ..system import shapes
from ..system.forces.springs import SpringDamper
from ..system.joints.distance import Distance
from ..system.stacked.groups import pick
from ..system.system import System
from . import solids
from .loads import Arrows, contact_arrows, reaction_arrows
from .looks import METAL, Looks, vector
from .motion import Motion, matrices, picture_times, quaternions, resample, towards

if TYPE_CHECKING:
    from ..solution import Solution

COLORS = ("#3b7dd8", "#e08e2b", "#3fa56b", "#c8543f", "#8a63c9", "#2fa3a8", "#c9628f", "#9a8248")
CONTACTS, REACTIONS = "contact forces", "joint reactions"
ARROW_COLORS = {CONTACTS: "#d62f4b", REACTIONS: "#1f9e5a"}
_RATE = 60.0
"""pictures in a second of playback"""
_MOST = 4000
"""pictures"""
_BUDGET = 3_000_000
"""bytes for everything that moves"""
_SPEEDS = np.array([a * 10.0**b for b in range(-9, 4) for a in (1, 2, 5)])


class Part(NamedTuple):
    """A surface of one colour."""

    surface: shapes.Surface
    color: str
    opacity: float = 1.0
    metallic: float = 0.0


class Node(NamedTuple):
    """Something that moves as a whole, or stands still: its rows are those of the scene's times, or one."""

    name: str
    parts: tuple[Part, ...]
    position: np.ndarray
    """(rows, 3)"""
    turn: np.ndarray
    """(rows, 4), unit quaternions, scalar first"""
    scale: np.ndarray | None = None
    """(rows, 3)"""
    group: str = ""
    """what can be switched on and off together; empty: it is always there"""
    skin: shapes.Skin | None = None
    """of a body that deforms, instead of parts"""


class Scene(NamedTuple):
    times: np.ndarray
    """s, of the run"""
    speed: float
    """seconds of the run in a second of playback"""
    nodes: tuple[Node, ...]
    traces: dict[str, np.ndarray]
    """by name, paths of points (rows, 3)"""
    up: np.ndarray
    planar: bool
    size: float
    """m, of the mechanism, without its travels"""
    floor: float | None
    """m, height of a level ground"""
    follow: str
    """the body that the camera goes along with; empty: none"""
    longest: dict[str, tuple[float, float]]
    """by group of arrows: the force [N] from which on they have their full length, and that length [m]"""


def scene_of(
    solution: "Solution", *, speed: float | None = None, follow: str | None = None, traces: Sequence[str] = (), arrows: bool = True
) -> Scene:
    """All that a picture of a run can show."""
    system = solution.system
    if not isinstance(system, System):
        raise ValueError("a picture needs a Model: these are equations without bodies, which look like nothing.")
    if solution.ts.ndim != 1:
        raise ValueError("an animation shows one run: take one lane of a batch, jax.tree.map(lambda leaf: leaf[i], solution).")
    saved = _saved(solution)
    up = _up(system)
    looks = Looks(system, up)
    size = _size(looks)
    loads = {CONTACTS: contact_arrows(solution), REACTIONS: reaction_arrows(solution)} if arrows else {}
    speed = _speed(float(saved.times[-1] - saved.times[0])) if speed is None else _positive_speed(speed)
    moving = len(system.body_names) + sum(map(len, loads.values()))
    duration = float(saved.times[-1] - saved.times[0]) / speed
    times = picture_times(saved.times, saved.spins, duration, _RATE, min(_MOST, _BUDGET // (36 * moving)))
    motion = resample(saved, times)
    bodies = _bodies(solution, system, looks, motion, 0.012 * size)
    links = _links(system, motion, size)
    pushes = {group: _arrows(group, found, np.asarray(solution.ts), times, size) for group, found in loads.items()}
    floor, ground = _ground(system, looks, motion, size)
    if floor is None and not system.planar and system.fields:
        floor = _below(bodies, up) - 0.1 * size
    rest = Node("ground", tuple(ground), np.zeros((1, 3)), np.array([[1.0, 0, 0, 0]]))
    return Scene(
        times,
        speed,
        (*([rest] if ground else []), *bodies, *links, *(node for nodes, _ in pushes.values() for node in nodes)),
        {name: _trace(solution, name, times) for name in traces},
        up,
        system.planar,
        size,
        floor,
        _followed(system, motion, up, size) if follow is None else _known_body(system, follow),
        {group: longest for group, (nodes, longest) in pushes.items() if nodes},
    )


# --- motion -------------------------------------------------------------------------------------------------------------------------------


def _saved(solution: "Solution") -> Motion:
    """The saved rows, each time once."""
    seen = solution._rowwise(frames)
    times = np.asarray(solution.ts)
    keep = np.append(np.diff(times) > 0, True)  # of several rows at one time, the last
    position, rotation, velocity, spin = (
        np.asarray(part)[keep] for part in (seen.position, seen.rotation, seen.velocity, seen.angular_velocity)
    )
    return Motion(times[keep], position, velocity, quaternions(rotation), spin)


def _speed(span: float) -> float:
    """1, where a run lasts some seconds; else a round number, so that it takes about five if it is short, ten if it is long."""
    if 1.0 <= span <= 20.0 or span <= 0:
        return 1.0
    return float(_SPEEDS[np.argmin(np.abs(np.log(_SPEEDS * (5.0 if span < 1 else 10.0) / span)))])


def _positive_speed(speed: float) -> float:
    if not 0 < speed < np.inf:
        raise ValueError(f"speed must be positive, seconds of the run in a second of playback, got {speed!r}.")
    return float(speed)


def _up(system: System) -> np.ndarray:
    """Against gravity; without any, z in space and y in the plane."""
    for field in system.fields:
        pull = np.zeros(3)
        given = vector(getattr(field, "acceleration", ()))
        pull[: len(given)] = given
        if np.linalg.norm(pull) > 0:
            return -pull / np.linalg.norm(pull)
    return np.array([0.0, 1.0, 0.0]) if system.planar else np.array([0.0, 0.0, 1.0])


def _size(looks: Looks) -> float:
    """m, of the mechanism as it starts."""
    points = []
    for body, name in enumerate(looks.system.body_names):
        known = [*looks.given.get(name, ()), *looks.from_contacts[body]]
        local = [np.zeros((1, 3)), *looks.attached[body], *(shape.surface().vertices for shape in known)]
        if not known and len(looks.attached[body]) < 2 and looks._turns(body):
            local += [shape.surface().vertices for shape in looks.of(body, 1e-9)]
        points.append(np.concatenate([np.reshape(part, (-1, 3)) for part in local]) @ looks.start_rotation[body].T + looks.start[body])
    points += [np.reshape(point, (1, 3)) for point in looks.attached[looks.ground]]
    extent = np.ptp(np.concatenate(points), axis=0)
    return float(np.linalg.norm(extent)) or 1.0


def _followed(system: System, motion: Motion, up: np.ndarray, size: float) -> str:
    """The heaviest body, if the mechanism travels further along the ground than it is large."""
    middle = motion.positions[:, :-1].mean(axis=1)
    level = middle - np.outer(middle @ up, up)
    if np.linalg.norm(np.ptp(level, axis=0)) < 2 * size:
        return ""
    return system.body_names[int(np.argmax(np.asarray(system.masses())))]


def _known_body(system: System, name: str) -> str:
    if name and name not in system.body_names:
        raise ValueError(f"follow must be the name of a body, or '' for none, got {name!r}. Known: {', '.join(system.body_names)}.")
    return name


# --- nodes --------------------------------------------------------------------------------------------------------------------------------


def _bodies(solution: "Solution", system: System, looks: Looks, motion: Motion, radius: float) -> list[Node]:
    colors: dict[str, str] = {}
    made: dict[Any, tuple[Part, ...]] = {}
    nodes = []
    for body, name in enumerate(system.body_names):
        kind = name.partition("[")[0]
        color = colors.setdefault(kind, COLORS[len(colors) % len(COLORS)])
        skin = None if looks.given.get(name) else _skin(solution, system, name, motion.times)
        known = () if skin is not None else (*looks.of(body, radius), *looks.pins(body, radius))
        if (known, color) not in made:
            made[known, color] = tuple(part_of(shape, color) for shape in known)
        nodes.append(Node(name, made[known, color], motion.positions[:, body], motion.turns[:, body], skin=skin))
    return nodes


def _skin(solution: "Solution", system: System, name: str, times: np.ndarray) -> shapes.Skin | None:
    """What a body that deforms shows at the times of the pictures."""
    group, place, where = system.body_slices()[name]
    rows = np.asarray(solution.q)[:, where]
    return pick(group.body, place).skin(np.stack([np.interp(times, np.asarray(solution.ts), column) for column in rows.T], axis=1))


def _below(bodies: list[Node], up: np.ndarray) -> float:
    """m, the lowest that anything comes."""
    lowest = np.inf
    for node in bodies:
        for part in shown(node):
            across = np.einsum("tij,j->ti", matrices(node.turn).swapaxes(1, 2), up)  # the vertical as the body sees it
            lowest = min(lowest, float(np.min(node.position @ up + np.min(across @ part.surface.vertices.T, axis=1))))
    return lowest


def shown(node: Node) -> tuple[Part, ...]:
    """Its surfaces; of one that deforms, as it is at rest."""
    return node.parts if node.skin is None else (Part(node.skin.surface, COLORS[0]),)


def part_of(shape: shapes.AbstractShape, color: str) -> Part:
    return Part(shape.surface(), shape.color or color, shape.opacity, shape.metallic)


def _links(system: System, motion: Motion, size: float) -> list[Node]:
    """Springs and massless rods, stretched between their ends."""
    joints = zip(system.joint_groups, system.geometry.joints, strict=True)
    forces = zip(system.force_groups, system.geometry.forces, strict=True)
    looks = {SpringDamper: Part(solids.coil(), "#6d747e", metallic=0.4), Distance: Part(solids.rod(), METAL, metallic=0.2)}
    nodes = []
    for group, stacked in (*joints, *forces):
        part = looks.get(type(group.element))
        if part is None:
            continue
        for i, name in enumerate(group.names):
            first, second = group.bodies[i]
            local = pick(stacked, i)
            begin, end = motion.points(first, vector(local.point_a)), motion.points(second, vector(local.point_b))
            along = end - begin
            length = np.linalg.norm(along, axis=1)
            width = (
                min(0.03 * size, 0.2 * length.mean())
                if isinstance(group.element, SpringDamper)
                else min(0.005 * size, 0.05 * length.mean())
            )
            scale = np.stack([np.full_like(length, width), np.full_like(length, width), np.maximum(length, 1e-9 * size)], axis=1)
            nodes.append(Node(name, (part,), begin, towards(along), scale))
    return nodes


def _arrows(group: str, arrows: Arrows, rows: np.ndarray, times: np.ndarray, size: float) -> tuple[list[Node], tuple[float, float]]:
    """Forces, as long as a quarter of the mechanism where they are large, and no longer; those that are never there are left out."""
    seen = {name: _strongest(points, forces, rows, times) for name, (points, forces) in arrows.items()}
    strengths = np.array([np.linalg.norm(push, axis=1) for _, push in seen.values()] or [[0.0]])
    most = strengths.max(axis=0)
    full = float(np.percentile(most[most >= 1e-3 * most.max()], 90))
    look, length, nodes = Part(solids.arrow(), ARROW_COLORS[group]), 0.25 * size, []
    for (name, (at, push)), strength in zip(seen.items(), strengths, strict=False):
        if strength.max() > 1e-3 * full:
            along = length * np.minimum(strength / full, 1.0)
            width = 0.12 * np.minimum(along, 0.4 * length)
            scale = np.stack([width, width, along], axis=1)
            nodes.append(Node(f"{group}: {name}", (look,), at, towards(push), np.maximum(scale, 1e-7 * size), group))
    return nodes, (full, length)


def _strongest(points: np.ndarray, forces: np.ndarray, rows: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and forces of every picture: of the row nearby with the largest force, so that no impact is missed; between rows, interpolated."""
    at, push = _interpolated(points, rows, times), _interpolated(forces, rows, times)
    if len(times) > 1:
        picture = np.rint((rows - times[0]) / (times[1] - times[0])).astype(int).clip(0, len(times) - 1)
        order = np.lexsort([np.linalg.norm(forces, axis=1), picture])
        last = order[np.append(np.diff(picture[order]) > 0, True)]
        at[picture[last]], push[picture[last]] = points[last], forces[last]
    return at, push


def _interpolated(values: np.ndarray, rows: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(times, rows, values[:, i]) for i in range(3)], axis=1)


def _trace(solution: "Solution", name: str, times: np.ndarray) -> np.ndarray:
    """The path of a body, "rod", or of a point of it, "rod.point(1,0,0)"."""
    axes = "xy" if solution.system.planar else "xyz"  # pyright: ignore[reportAttributeAccessIssue]
    seen = solution.observe([f"{name}.{axis}" for axis in axes])
    path = np.zeros((len(solution.ts), 3))
    for i, values in enumerate(seen.values()):
        path[:, i] = np.asarray(values)
    return _interpolated(path, np.asarray(solution.ts), times)


# --- the ground ---------------------------------------------------------------------------------------------------------------------------


def _ground(system: System, looks: Looks, motion: Motion, size: float) -> tuple[float | None, list[Part]]:
    """(height of a level floor, what else stands still)"""
    scenery = list(looks.given.get("ground", ())) + list(dict.fromkeys(looks.planes))
    level = [
        s
        for s in scenery
        if isinstance(s, shapes.Plane) and not len(s.sizes) and vector(s.normal) @ looks.up > 0.9999 * np.linalg.norm(s.normal)
    ]
    floor = max((float(vector(plane.point) @ looks.up) for plane in level), default=None)
    parts = [part_of(shape, METAL) for shape in looks.supports(0.012 * size)]
    middle = motion.positions[:, :-1].mean(axis=(0, 1))
    planes = [shape for shape in scenery if isinstance(shape, shapes.Plane) and not len(shape.sizes)]
    for shape in scenery:
        if isinstance(shape, shapes.Plane) and not len(shape.sizes):
            if system.planar:
                parts.append(Part(solids.bank(vector(shape.point), vector(shape.normal), middle, size), "#a3a9b1"))
            elif not any(shape is one for one in level):
                surface = solids.wall(shape, [one for one in planes if one is not shape], middle, size)
                if len(surface.vertices):
                    parts.append(Part(surface, "#a3a9b1", 0.25))
        else:
            parts.append(part_of(shape, "#a3a9b1"))
    return (None if system.planar else floor), parts
