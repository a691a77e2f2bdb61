"""Beams: nodes, which are bodies like any other, and segments between them, which are forces."""

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..bodies.planar import PlanarBody
from ..bodies.rigid import RigidBody
from ..frames import embed
from ..parameters import is_traced, nonzero_vector, not_negative, read, read_name, vector
from ..rotations import cross
from .section import Section
from .segment import BeamSegment, section_axes

_CANTILEVER = 1.8751**2 / (2 * np.pi)
"""The first frequency of a cantilever is this times sqrt(EI / m) / L^2."""
_SLOWEST, _FASTEST = 0.1, 1e6
"""Hz. A beam whose first frequency is not between these is more likely a slip of units than meant."""
_PARALLEL = 1e-3
_INWARD = 1 / 6
"""of an element: how far the mass of a node at an end is from the end"""


class Beam:
    """A geometrically exact beam: it stretches, shears, bends and twists, as far as it likes.

    Give it to a model among the bodies: it brings along `elements` + 1 nodes, which are rigid bodies (in a planar model planar ones), and the
    segments between them. Joints, contacts, loads and drives attach to nodes like to any body: to `beam.start`, `beam.end`, `beam.nodes[3]`, or
    "beam[3]" by name. The axes of all nodes are the ground's at the start, until bodies turn.

        beam = mbd.Beam("beam", (0, 0, 0), (1, 0, 0), mbd.Section.tube(steel, radius=0.02, thickness=0.002), elements=16)
        model = mbd.Model([beam], [mbd.Fixed("clamp", mbd.ground, beam.start, (0, 0, 0))], [mbd.Gravity((0, 0, -9.81))])

    - `start`, `end`: m, of its axis. `Beam.along` takes a curve.
    - `section`: an `mbd.Section`.
    - `up`: towards this the section bends with its `bending_stiffness`; across the beam, as far as it is that. Not given: in the x-y plane for a
      beam that lies in it.
    - `damping`: s, in proportion to stiffness: the ratio of a mode of f [Hz] is pi f damping.
    - `velocity`: m/s of its start, and `angular_velocity`: rad/s: the whole moves as a rigid body at first.

    Names: nodes "beam[0]" ... "beam[n]" ("beam[3].mass"), segments "beam[0-1]" ... ("beam[0-1].bending_stiffness"). A run tells of the whole
    "beam.potential" [J], its strain energy, "beam.end.x", "beam.end.vy", "beam.start.x", ... [m, m/s], and of each segment the loads in its
    middle, "beam[0-1].bending_moment" [N m]. The turn within a segment must stay below 3.04 rad.

    Mass is in the nodes. At the ends it is a sixth of an element inward: with 16 elements six frequencies are then within 1 % of the
    continuum's. So a position of the body at an end is not that of the end: that is "beam.end.x".

    Works under jit and grad: gradients by thickness, modulus or length are those of a function that makes the beam and the model.

    ```bibtex
    @article{simo1986three,
      title={A three-dimensional finite-strain rod model. Part {II}: Computational aspects},
      author={Simo, Juan C. and Vu-Quoc, Loc},
      journal={Computer Methods in Applied Mechanics and Engineering},
      volume={58},
      number={1},
      pages={79--116},
      year={1986}
    }
    ```
    """

    name: str
    nodes: tuple[RigidBody | PlanarBody, ...]
    segments: tuple[BeamSegment, ...]

    def __init__(
        self,
        name: str,
        start: Any,
        end: Any,
        section: Section,
        elements: int = 8,
        *,
        up: Any = None,
        damping: Any = 0.0,
        velocity: Any = None,
        angular_velocity: Any = None,
    ):
        label = _label(name)
        if isinstance(elements, bool) or not isinstance(elements, int) or elements < 1:
            raise ValueError(f"{label} needs a whole number of elements, at least 1, got {elements!r}.")
        first, last = read(label, "start", vector("m"), start), read(label, "end", vector("m"), end)
        if first.shape != last.shape:
            raise ValueError(f"{label}: start has {first.shape[0]} components, end {last.shape[0]}.")
        shares = np.linspace(0.0, 1.0, elements + 1)
        self._make(name, [first * (1 - s) + last * s for s in shares], section, up, damping, velocity, angular_velocity)

    @staticmethod
    def along(
        name: str,
        points: Any,
        section: Section,
        *,
        up: Any = None,
        damping: Any = 0.0,
        velocity: Any = None,
        angular_velocity: Any = None,
    ) -> "Beam":
        """Through these points [m], a node at each, straight in between and without stress: an arc, a spring, a ring.

        `up` must not be parallel to the beam anywhere.
        """
        label = _label(name)
        if isinstance(points, str) or not hasattr(points, "__len__") or len(points) < 2:
            raise ValueError(f"{label}: give at least two points, got {points!r}.")
        read_points = [read(label, f"points[{i}]", vector("m"), point) for i, point in enumerate(points)]
        if len({point.shape for point in read_points}) > 1:
            raise ValueError(f"{label}: its points have different numbers of components.")
        beam = object.__new__(Beam)
        beam._make(name, read_points, section, up, damping, velocity, angular_velocity)
        return beam

    @property
    def start(self) -> RigidBody | PlanarBody:
        return self.nodes[0]

    @property
    def end(self) -> RigidBody | PlanarBody:
        return self.nodes[-1]

    def __repr__(self) -> str:
        return f"Beam({self.name!r}, {len(self.segments)} elements)"

    def _make(
        self, name: str, points: Sequence[Any], section: Section, up: Any, damping: Any, velocity: Any, angular_velocity: Any
    ) -> None:
        label, planar = _label(name), points[0].shape == (2,)
        if not isinstance(section, Section):
            raise ValueError(f"{label}: section must be an mbd.Section, got {section!r}.")
        damping = read(label, "damping", not_negative("s"), damping)
        if planar and up is not None:
            raise ValueError(f"{label}: a planar beam bends in its plane; leave up out.")
        up = None if up is None else read(label, "up", nonzero_vector(2 if planar else 3), up)
        _check_geometry(label, points, up, planar)
        _check_frequency(label, points, section)
        self.name = name
        spatial = [embed(point) for point in points]
        axes = [section_axes(q - p, up) for p, q in itertools.pairwise(spatial)]
        if not is_traced(axes):
            axes = [np.asarray(own) for own in axes]
        np_ = jnp if is_traced(points) else np
        halves = [0.5 * np_.sqrt(np_.sum((q - p) ** 2)) for p, q in itertools.pairwise(points)]
        motion = _motion(label, points[0], velocity, angular_velocity, planar)
        self.nodes = tuple(_node(f"{name}[{i}]", i, points, axes, halves, section, motion, planar) for i in range(len(points)))
        upright = [None if planar else own[1] for own in axes]
        stiffnesses = section.complete()
        self.segments = tuple(
            BeamSegment(
                f"{name}[{i}-{i + 1}]", self.nodes[i], self.nodes[i + 1], points[i], points[i + 1], upright[i], damping, stiffnesses
            )
            for i in range(len(halves))
        )


def _label(name: Any) -> str:
    return f"beam {read_name('beam', name)!r}"


def _check_geometry(label: str, points: Sequence[Any], up: Any, planar: bool) -> None:
    if is_traced(points):
        return
    whole = sum(float(np.linalg.norm(q - p)) for p, q in itertools.pairwise(points))
    for i, (p, q) in enumerate(itertools.pairwise(points)):
        span = np.asarray(q - p)
        length = float(np.linalg.norm(span))
        if not length > 1e-9 * whole:
            raise ValueError(f"{label}: its element {i}, from {_short(p)} to {_short(q)}, has no length.")
        if up is not None and not planar and not is_traced(up):
            across = np.linalg.norm(np.cross(span / length, up / np.linalg.norm(up)))
            if across < _PARALLEL:
                raise ValueError(f"{label}: up = {_short(up)} points along its element {i}; give a direction across the beam.")


def _check_frequency(label: str, points: Sequence[Any], section: Section) -> None:
    stiffest = section.bending_stiffness
    if is_traced(points, stiffest, section.mass_per_length):
        return
    whole = sum(float(np.linalg.norm(q - p)) for p, q in itertools.pairwise(points))
    frequency = _CANTILEVER * float(np.sqrt(stiffest / section.mass_per_length)) / whole**2
    if not _SLOWEST <= frequency <= _FASTEST:
        warnings.warn(
            f"{label}: clamped at one end it would swing at {frequency:.2g} Hz. Check the units: "
            "modulus in Pa, lengths in m, density in kg/m^3.",
            stacklevel=4,
        )


def _motion(label: str, start: Any, velocity: Any, angular_velocity: Any, planar: bool) -> Any:
    """Of a point [m], the initial velocities of a node whose mass is there."""
    components = 2 if planar else 3
    v = np.zeros(components) if velocity is None else read(label, "velocity", vector("m/s", components), velocity)
    spec = vector("rad/s", 3)._replace(shapes=((),) if planar else ((3,),))
    w = np.zeros(spec.shapes[0]) if angular_velocity is None else read(label, "angular_velocity", spec, angular_velocity)
    if velocity is None and angular_velocity is None:
        return lambda point: {}

    def motion(point: Any) -> dict[str, Any]:
        arm = point - start
        turning = w * jnp.stack([-arm[1], arm[0]]) if planar else cross(jnp.asarray(w), arm)
        own = v + turning
        return {"velocity": own if is_traced(own) else np.asarray(own), "angular_velocity": w}

    return motion


def _node(
    name: str, i: int, points: Sequence[Any], axes: Sequence[Any], halves: Sequence[Any], section: Section, motion: Any, planar: bool
) -> RigidBody | PlanarBody:
    """Half of each element beside it, as one body."""
    beside = [j for j in (i - 1, i) if 0 <= j < len(halves)]
    bending, lateral = section.rotary_inertia()
    length = sum(halves[j] for j in beside)
    position = points[i]
    if len(beside) == 1:
        inward = 1.0 if i == 0 else -1.0
        along = axes[beside[0]][0][: 2 if planar else 3]
        position = position + inward * _INWARD * 2.0 * halves[beside[0]] * along
    shape = None
    if not is_traced(points, axes):
        shape = [_piece(section, np.asarray(embed(points[i] - position)), axes[j], halves[j], j == i) for j in beside]
    if planar:
        return PlanarBody(name, section.mass_per_length * length, bending * length, position, shape=shape, **motion(position))
    moments = jnp.stack([bending + lateral, lateral, bending])
    if not is_traced(moments):
        moments = np.asarray(moments)
    inertia = sum(halves[j] * (axes[j].T * moments) @ axes[j] for j in beside)
    return RigidBody(name, section.mass_per_length * length, inertia, position, shape=shape, **motion(position))


def _piece(section: Section, end: np.ndarray, axes: np.ndarray, half: float, onward: bool) -> Any:
    """The half of an element that a node shows, in the node's axes."""
    return section.shape(end, axes, *((0.0, float(half)) if onward else (float(half), 0.0)))


def _short(point: Any) -> str:
    return f"({', '.join(f'{float(x):.4g}' for x in point)})"
