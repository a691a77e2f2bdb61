"""Frames of straight tubes as finite elements: beams with shear, twist and rotary inertia."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sparse
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..system.parameters import Parameter, positive, read, read_fields, unknown

_GAUSS = tuple(0.5 * (np.array(part) + shift) for part, shift in zip(np.polynomial.legendre.leggauss(4), (1.0, 0.0), strict=True))
"""(places, weights) on 0 ... 1: exact up to degree 7, and so for beams"""
_AROUND = np.arange(8) * (np.pi / 4)
"""rad, where on the circumference of a tube stresses are recovered"""


class Tube(eqx.Module):
    """A round section; `wall` half as thick as the diameter makes it a solid bar."""

    outer_diameter: Float[Numbers, ""]
    """m"""
    wall: Float[Numbers, ""]
    """m, thickness"""
    parameters: ClassVar[dict[str, Parameter]] = {"outer_diameter": positive("m"), "wall": positive("m")}

    def __init__(self, outer_diameter: Any, wall: Any):
        read_fields(self, "a tube", self.parameters, outer_diameter=outer_diameter, wall=wall)
        if (
            isinstance(self.wall, np.ndarray)
            and isinstance(self.outer_diameter, np.ndarray)
            and 2 * self.wall > self.outer_diameter * (1 + 1e-9)
        ):
            raise ValueError(
                f"a tube of {float(self.outer_diameter):.4g} m cannot have a wall of {float(self.wall):.4g} m: half that is a bar."
            )

    def measures(self) -> tuple[Array, Array]:
        """(area [m^2], second moment of area [m^4])"""
        outer, inner = 0.5 * self.outer_diameter, 0.5 * self.outer_diameter - self.wall
        return jnp.pi * (outer**2 - inner**2), 0.25 * jnp.pi * (outer**4 - inner**4)


class SpaceFrame(eqx.Module):
    """Tubes between nodes, welded there. Its numbers may be traced: `mbd.fem.project(frame, modes)` puts another design on the same
    shapes.

    `tubes` are (node, node, section). Each is divided into elements of about `element_length` [m]. `masses` are points of mass at nodes.
    """

    sections: dict[str, Tube]
    masses: dict[str, Float[Numbers, ""]]
    """kg, by node"""
    elastic_modulus: Float[Numbers, ""]
    """Pa"""
    poisson_ratio: Float[Numbers, ""]
    density: Float[Numbers, ""]
    """kg/m^3"""
    shear_coefficient: Float[Numbers, ""]
    """share of the area that carries shear: a half for thin tubes"""
    places: tuple[tuple[str, tuple[float, float, float]], ...] = eqx.field(static=True)
    """m, of the nodes by name"""
    tubes: tuple[tuple[str, str, str], ...] = eqx.field(static=True)
    pieces: tuple[int, ...] = eqx.field(static=True)
    """elements of each tube"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "elastic_modulus": positive("Pa"),
        "poisson_ratio": Parameter("1", valid=lambda nu: (nu > -1) & (nu < 0.5), requirement="must lie between -1 and 0.5"),
        "density": positive("kg/m^3"),
        "shear_coefficient": positive("1"),
    }
    label: ClassVar[str] = "space frame"
    freedoms: ClassVar[int] = 6

    def __init__(
        self,
        nodes: Mapping[str, Any],
        tubes: Sequence[tuple[str, str, str]],
        sections: Mapping[str, Tube],
        *,
        elastic_modulus: Any = 210e9,
        poisson_ratio: Any = 0.3,
        density: Any = 7850.0,
        shear_coefficient: Any = 0.5,
        masses: Mapping[str, Any] | None = None,
        element_length: float = math.inf,
    ):
        read_fields(
            self,
            self.label,
            self.parameters,
            elastic_modulus=elastic_modulus,
            poisson_ratio=poisson_ratio,
            density=density,
            shear_coefficient=shear_coefficient,
        )
        for name, place in nodes.items():
            if np.shape(place) != (3,) or not np.isfinite(np.asarray(place, float)).all():
                raise ValueError(f"node {name!r} of the space frame must stand at three finite numbers [m], got {place!r}.")
        self.places = tuple((name, (float(place[0]), float(place[1]), float(place[2]))) for name, place in nodes.items())
        self.sections, self.masses = dict(sections), dict(masses or {})
        self.tubes = tuple((a, b, section) for a, b, section in tubes)
        for a, b, section in self.tubes:
            for node in (a, b):
                if node not in self.nodes:
                    raise ValueError(f"tube {a!r} to {b!r} of the space frame: {unknown('node', node, self.nodes)}")
            if section not in self.sections:
                raise ValueError(f"tube {a!r} to {b!r} of the space frame: {unknown('section', section, self.sections)}")
        for node in self.masses:
            if node not in self.nodes:
                raise ValueError(f"masses of the space frame: {unknown('node', node, self.nodes)}")
        self.masses = {node: read(f"masses of the {self.label}", node, positive("kg"), mass) for node, mass in self.masses.items()}
        if not element_length > 0:
            raise ValueError(f"element_length of the {self.label} must be positive [m], got {element_length!r}.")
        if idle := set(self.nodes) - {node for tube in self.tubes for node in tube[:2]}:
            raise ValueError(f"no tube ends at node {', '.join(map(repr, sorted(idle)))} of the space frame: leave it out.")
        lengths = [float(np.linalg.norm(self.nodes[b] - self.nodes[a])) for a, b, _ in self.tubes]
        for (a, b, _), length in zip(self.tubes, lengths, strict=True):
            if length < 1e-9:
                raise ValueError(f"tube {a!r} to {b!r} of the space frame has no length: its nodes stand in the same place.")
        self.pieces = tuple(max(1, round(length / element_length)) for length in lengths)

    # --- mesh -------------------------------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, np.ndarray]:
        """m, by name"""
        return {name: np.array(place) for name, place in self.places}

    @property
    def names(self) -> dict[str, np.ndarray]:
        """Nodes of the mesh by name: the named ones come first."""
        return {name: np.array([i]) for i, name in enumerate(self.nodes)}

    @property
    def positions(self) -> np.ndarray:
        """m, of all nodes of the mesh"""
        inner = [
            self.nodes[a] + (self.nodes[b] - self.nodes[a]) * (i / n)
            for (a, b, _), n in zip(self.tubes, self.pieces, strict=True)
            for i in range(1, n)
        ]
        return np.array([*self.nodes.values(), *inner])

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """(nodes (elements, 2), number of the tube) of every element"""
        number, following = {name: i for i, name in enumerate(self.nodes)}, len(self.nodes)
        pairs, owner = [], []
        for tube, ((a, b, _), n) in enumerate(zip(self.tubes, self.pieces, strict=True)):
            chain = [number[a], *range(following, following + n - 1), number[b]]
            following += n - 1
            pairs += itertools.pairwise(chain)
            owner += [tube] * n
        return np.array(pairs), np.array(owner)

    def _elements(self) -> "_Elements":
        """All of them, stacked."""
        (pairs, owner), places = self.ends(), self.positions
        along = places[pairs[:, 1]] - places[pairs[:, 0]]
        length = np.linalg.norm(along, axis=1)
        names = list(self.sections)
        which = np.array([names.index(self.tubes[tube][2]) for tube in owner])
        area, second = (jnp.stack(part)[which] for part in zip(*(self.sections[name].measures() for name in names), strict=True))
        shear_modulus = 0.5 * self.elastic_modulus / (1 + self.poisson_ratio)
        return _Elements(
            pairs, along / length[:, None], length, area, second, self.elastic_modulus, shear_modulus, self.density, self.shear_coefficient
        )

    def _point_masses(self) -> tuple[np.ndarray, Array]:
        number = {name: i for i, name in enumerate(self.nodes)}
        return np.array([number[name] for name in self.masses], int), jnp.stack([jnp.asarray(m, float) for m in self.masses.values()])

    # --- matrices ---------------------------------------------------------------------------------------------------------------------------

    def matrices(self) -> tuple[Any, Any]:
        """(M, K)"""
        places, size, found = (6 * self.ends()[0][:, :, None] + np.arange(6)).reshape(-1, 12), 6 * len(self.positions), []
        for blocks in _matrices(self):
            rows, columns = np.broadcast_arrays(places[:, :, None], places[:, None, :])
            found.append(sparse.coo_matrix((np.asarray(blocks).ravel(), (rows.ravel(), columns.ravel())), (size, size)).tocsr())
        if self.masses:
            nodes, masses = self._point_masses()
            index = (6 * nodes[:, None] + np.arange(3)).ravel()
            found[0] = found[0] + sparse.coo_matrix((np.repeat(np.asarray(masses), 3), (index, index)), (size, size)).tocsr()
        return found[0], found[1]

    def products(self, columns: Any) -> tuple[Any, Any]:
        """(M, K) times columns, differentiable by all numbers of the frame"""
        elements, columns = self._elements(), jnp.asarray(columns)
        results = [
            jnp.zeros_like(columns).at[elements.places].add(jnp.einsum("eij,ejk->eik", blocks, columns[elements.places]))
            for blocks in elements.matrices()
        ]
        if self.masses:
            nodes, masses = self._point_masses()
            index = (6 * nodes[:, None] + np.arange(3)).ravel()
            results[0] = results[0].at[index].add(jnp.repeat(masses, 3)[:, None] * columns[index])
        return results[0], results[1]

    def lumps(self) -> Array:
        """kg, masses of nodes: half of each element's at its ends"""
        elements = self._elements()
        half = 0.5 * elements.density * elements.area * elements.length
        masses = jnp.zeros(len(self.positions)).at[elements.ends].add(half[:, None])
        return masses.at[self._point_masses()[0]].add(self._point_masses()[1]) if self.masses else masses

    # --- stresses ---------------------------------------------------------------------------------------------------------------------------

    def recovery(self) -> "FrameRecovery":
        """What makes stresses of displacements."""
        return FrameRecovery(self)


@eqx.filter_jit
def _matrices(frame: SpaceFrame) -> tuple[Array, Array]:
    """Of all elements, compiled."""
    return frame._elements().matrices()


class FrameRecovery:
    """Stresses in the outer fibres of a frame's tubes, at eight places around both ends of every element."""

    def __init__(self, frame: SpaceFrame):
        self.frame = frame

    def matrix(self, shapes: np.ndarray) -> Array:
        """(points, (axial, shear), columns) [Pa] of nodal displacements (rows, columns)"""
        frame, elements = self.frame, self.frame._elements()
        radius = jnp.stack([0.5 * frame.sections[section].outer_diameter for _, _, section in frame.tubes])[frame.ends()[1]]
        local = jnp.einsum("eij,ejk->eik", elements.turns(), jnp.asarray(shapes)[elements.places])
        y, z = np.cos(_AROUND), np.sin(_AROUND)
        found = []
        for place in (0.0, 1.0):
            loads = jnp.einsum("eis,esk->eik", elements.rigidities()[:, :, None] * elements.strains(place), local)
            normal, shear_y, shear_z, twist, bend_y, bend_z = (loads[:, i, None, :] for i in range(6))
            area, second, r = (part[:, None, None] for part in (elements.area, elements.second, radius))
            axial = normal / area + r / second * (z[:, None] * bend_y - y[:, None] * bend_z)
            # The flow of shear in a thin wall: twist, and transverse forces, whose largest stress is twice the mean.
            shear = twist * r / (2 * second) + 2.0 / area * (y[:, None] * shear_z - z[:, None] * shear_y)
            found.append(jnp.stack([axial, shear], axis=2))
        return jnp.stack(found, axis=1).reshape(-1, 2, shapes.shape[1])

    def nodes(self) -> np.ndarray:
        """Of the points, the nodes that they belong to"""
        ends, _ = self.frame.ends()
        return np.repeat(ends[:, :, None], len(_AROUND), axis=2).ravel()

    def offsets(self) -> Array:
        """m, from these nodes"""
        radius = jnp.stack([0.5 * self.frame.sections[section].outer_diameter for _, _, section in self.frame.tubes])[self.frame.ends()[1]]
        _, across, upward = np.moveaxis(self.frame._elements().triads(), 1, 0)
        around = np.cos(_AROUND)[:, None] * across[:, None] + np.sin(_AROUND)[:, None] * upward[:, None]
        return jnp.repeat((radius[:, None, None] * around)[:, None], 2, axis=1).reshape(-1, 3)

    def labels(self) -> tuple[str, ...]:
        """What the points are called: their tube, and the share of its length"""
        frame = self.frame
        labels, within = [], [0] * len(frame.tubes)
        for tube in frame.ends()[1]:
            a, b, _ = frame.tubes[tube]
            for end in (0, 1):
                labels += [f"{a}-{b} at {(within[tube] + end) / frame.pieces[tube]:.2f}"] * len(_AROUND)
            within[tube] += 1
        return tuple(labels)


class _Elements:
    """Timoshenko beams with shapes that satisfy their own equilibrium: displacements at the nodes are exact for loads there."""

    def __init__(
        self, ends: np.ndarray, along: np.ndarray, length: np.ndarray, area: Array, second: Array, E: Any, G: Any, density: Any, k: Any
    ):
        self.ends, self.along, self.length, self.area, self.second, self.density = ends, along, length, area, second, density
        self.places = (6 * ends[:, :, None] + np.arange(6)).reshape(-1, 12)
        """of an element's coordinates among all"""
        self._stretch, self._shear, self._bend, self._twist = E * area, k * G * area, E * second, 2 * G * second
        self._slack = 12.0 * self._bend / (self._shear * length**2)

    def rigidities(self) -> Array:
        """(elements, 6), of the strains"""
        return jnp.stack([self._stretch, self._shear, self._shear, self._twist, self._bend, self._bend], axis=1)

    def triads(self) -> np.ndarray:
        """(elements, 3, 3), rows: along the tube and two across"""
        helper = np.where(np.abs(self.along[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
        across = np.cross(helper, self.along)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        return np.stack([self.along, across, np.cross(self.along, across)], axis=1)

    def turns(self) -> np.ndarray:
        """(elements, 12, 12), from the axes of the mesh to the element's"""
        triads, found = self.triads(), np.zeros((len(self.ends), 12, 12))
        for i in range(0, 12, 3):
            found[:, i : i + 3, i : i + 3] = triads
        return found

    def _shapes(self, s: float) -> tuple[Array, Array, Array, Array]:
        """At share s of the length, by (w1, turn1, w2, turn2): displacement, its slope, turn, curvature."""
        p, L = self._slack, self.length
        one, scale = jnp.ones_like(p), 1.0 / (1.0 + p)
        stack = lambda *parts: jnp.stack([scale * part * one for part in parts], axis=1)  # noqa: E731
        w = stack(
            1 - 3 * s**2 + 2 * s**3 + p * (1 - s),
            L * (s - 2 * s**2 + s**3 + 0.5 * p * (s - s**2)),
            3 * s**2 - 2 * s**3 + p * s,
            L * (s**3 - s**2 - 0.5 * p * (s - s**2)),
        )
        slope = stack(
            (6 * s**2 - 6 * s - p) / L,
            1 - 4 * s + 3 * s**2 + 0.5 * p * (1 - 2 * s),
            (6 * s - 6 * s**2 + p) / L,
            3 * s**2 - 2 * s - 0.5 * p * (1 - 2 * s),
        )
        turn = stack(6 * (s**2 - s) / L, 1 - 4 * s + 3 * s**2 + p * (1 - s), 6 * (s - s**2) / L, 3 * s**2 - 2 * s + p * s)
        bend = stack(6 * (2 * s - 1) / L**2, (6 * s - 4 - p) / L, 6 * (1 - 2 * s) / L**2, (6 * s - 2 + p) / L)
        return w, slope, turn, bend

    def _spread(self, rows: list[tuple[tuple[int, ...], Any, Array]]) -> Array:
        """(elements, 6, 12) from rows: places of the coordinates, their signs, their factors."""
        found = jnp.zeros((len(self.ends), 6, 12))
        for i, (places, signs, factors) in enumerate(rows):
            found = found.at[:, i, np.array(places)].set(np.array(signs) * factors)
        return found

    def _linear(self, s: float) -> Array:
        return jnp.broadcast_to(jnp.array([1.0 - s, s]), (len(self.ends), 2))

    def motions(self, s: float) -> Array:
        """(elements, 6, 12): displacement and turn of the section at s."""
        w, _, turn, _ = self._shapes(s)
        line, plus, minus = self._linear(s), (1, 1, 1, 1), (1, -1, 1, -1)
        # In the plane of x and z a turn about y lowers what lies ahead: w' = -turn.
        return self._spread(
            [
                ((0, 6), (1, 1), line),
                (_XY, plus, w),
                (_XZ, minus, w),
                ((3, 9), (1, 1), line),
                (_XZ, (-1, 1, -1, 1), turn),
                (_XY, plus, turn),
            ]
        )

    def strains(self, s: float) -> Array:
        """(elements, 6, 12): stretch, two shears, twist, two curvatures at s."""
        _, slope, turn, bend = self._shapes(s)
        line, plus, minus = jnp.stack([-1.0 / self.length, 1.0 / self.length], axis=1), (1, 1, 1, 1), (1, -1, 1, -1)
        shear = slope - turn
        return self._spread(
            [
                ((0, 6), (1, 1), line),
                (_XY, plus, shear),
                (_XZ, minus, shear),
                ((3, 9), (1, 1), line),
                (_XZ, (-1, 1, -1, 1), bend),
                (_XY, plus, bend),
            ]
        )

    def matrices(self) -> tuple[Array, Array]:
        """(elements, 12, 12): mass and stiffness in the axes of the mesh."""
        line = self.density * self.area
        inertia = jnp.stack(
            [line, line, line, 2 * self.density * self.second, self.density * self.second, self.density * self.second], axis=1
        )
        mass = stiffness = jnp.zeros((len(self.ends), 12, 12))
        for s, weight in zip(*_GAUSS, strict=True):
            N, B = self.motions(float(s)), self.strains(float(s))
            mass += jnp.einsum("e,eia,ei,eib->eab", weight * self.length, N, inertia, N)
            stiffness += jnp.einsum("e,eia,ei,eib->eab", weight * self.length, B, self.rigidities(), B)
        T = self.turns()
        turned = tuple(jnp.einsum("eia,eij,ejb->eab", T, part, T) for part in (mass, stiffness))
        return turned[0], turned[1]


_XY, _XZ = (1, 5, 7, 11), (2, 4, 8, 10)
"""displacements and turns in two planes: (y, about z) and (z, about y), of both ends"""
