"""From the matrices of a structure to a few shapes of an unsupported body (Craig and Bampton 1968).

Shapes are those of the structure whose interface is moved by one unit at a time, and the lowest vibrations with the interface held.
Together they span the six rigid motions, which the floating frame of a body makes already: they are taken out, and what remains is made
orthogonal.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.sparse as sparse
import scipy.sparse.linalg
from jaxtyping import Array

from ..system.flexible.reduced import Basis, Recovery, ReducedBody
from ..system.parameters import is_traced, unknown
from .space_frame import SpaceFrame
from .structure import Structure

_SOFT = 1e-4
"""Rigid motions store less than this, relative to the softest deformation."""
_LOWEST, _HIGHEST = 0.1, 1e6
"""Hz: beyond, a unit is more likely wrong than meant"""
_TURN = 0.01
"""A turn counts as a displacement at this share of the body's size: twisting of a straight tube moves no node."""
_DENSE = 2500
"""Rows up to which all vibrations are computed at once."""


def craig_bampton(structure: SpaceFrame | Structure, interface: Sequence[str], modes: int = 20, *, keep: int | None = None) -> ReducedBody:
    """Modes for a body that others attach to at these named points: 6 for each point, and so many vibrations with the interface held, less 6.

    With `keep`, the slowest of these alone: a quicker body, stiffer where loads act.
    """
    interface = tuple(interface)
    nodes = _interface_nodes(structure, interface)
    mass, stiffness = structure.matrices()
    _check_definite(structure.label, mass, stiffness)
    tie, held = _tie(structure, nodes)
    free = np.setdiff1d(np.arange(mass.shape[0]), held)
    if not 0 <= modes <= len(free):
        raise ValueError(
            f"{structure.label}: modes must be between 0 and {len(free)}, the coordinates that the interface leaves, got {modes}."
        )
    inner = sparse.csc_matrix(stiffness[free][:, free])
    constraint = np.zeros((mass.shape[0], tie.shape[1]))
    constraint[held] = tie
    with warnings.catch_warnings():
        warnings.simplefilter("error", scipy.sparse.linalg.MatrixRankWarning)
        try:
            solve = scipy.sparse.linalg.splu(inner).solve
        except (RuntimeError, scipy.sparse.linalg.MatrixRankWarning) as error:
            raise ValueError(
                f"{structure.label}: with its interface held, parts still move freely: attach them, or name a point there."
            ) from error
    constraint[free] = -solve(stiffness[free][:, held] @ tie)
    vibration = np.zeros((mass.shape[0], modes))
    if modes:
        vibration[free] = _lowest(mass[free][:, free], inner, modes)
    return _reduce(structure, np.concatenate([constraint, vibration], axis=1), nodes, mass, stiffness, keep)


def free_modes(structure: SpaceFrame | Structure, modes: int = 20, interface: Sequence[str] = ()) -> ReducedBody:
    """The lowest vibrations of the unsupported structure. They tell little of what loads at a point do nearby: `craig_bampton` does."""
    mass, stiffness = structure.matrices()
    _check_definite(structure.label, mass, stiffness)
    if not 1 <= modes <= (most := mass.shape[0] - 6):
        raise ValueError(f"{structure.label}: modes must be between 1 and {most}, got {modes}.")
    shift = 1e-6 * _softness(mass, stiffness)
    shapes = _lowest(mass, sparse.csc_matrix(stiffness + shift * mass), modes + 6)
    return _reduce(structure, shapes, _interface_nodes(structure, tuple(interface)), mass, stiffness)


class _Parts(NamedTuple):
    """What a structure says of shapes."""

    moved: Array
    """M times the shapes and the rigid motions"""
    stored: Array
    """K times the shapes"""
    lumps: Array
    stresses: Array | None
    offsets: Array | None


def project(structure: SpaceFrame | Structure, reduced: ReducedBody) -> ReducedBody:
    """The same shapes with masses and stiffnesses of another design of the structure, differentiable by the numbers of a `SpaceFrame`.

    Shapes stay frozen but for rigid motions, by which the floating frame of the other design differs.
    """
    if reduced.basis is None:
        raise ValueError(
            "these modes have no shapes: give what mbd.fem.craig_bampton or mbd.fem.free_modes returned, not the modes of a body."
        )
    return _on_basis(structure, reduced.basis)


def _on_basis(structure: SpaceFrame | Structure, basis: Basis) -> ReducedBody:
    rigid = _rigid(structure)
    columns = np.concatenate([basis.shapes, rigid], axis=1)
    if isinstance(structure, Structure):
        moved, stored = structure.products(columns)
        parts = _Parts(jnp.asarray(moved), jnp.asarray(stored[:, :-6]), jnp.asarray(structure.lumps()), None, None)
        stresses = None
    else:
        parts, stresses = _parts(structure, columns), structure.recovery()
    labels = None if stresses is None else (stresses.nodes(), stresses.labels())
    nodes = None if labels is None else labels[0]
    interface = list(basis.interface.values())
    fields, recovered = _projected(parts, basis.shapes, rigid, structure.positions, _fits(structure, basis.interface), interface, nodes)
    recovery = None if labels is None else Recovery(*recovered, labels[1])  # pyright: ignore[reportCallIssue]
    found = ReducedBody(*fields, recovery, tuple(basis.interface), basis)  # pyright: ignore[reportCallIssue]
    if is_traced(found):
        return found
    return jax.tree.map(lambda leaf: np.asarray(leaf) if hasattr(leaf, "shape") else leaf, found)


@eqx.filter_jit
def _parts(structure: SpaceFrame, columns: Any) -> _Parts:
    """Of a frame, compiled: without, thousands of small programs would be."""
    moved, stored = structure.products(columns)
    stresses = structure.recovery()
    return _Parts(moved, stored[:, :-6], structure.lumps(), stresses.matrix(columns[:, :-6]), stresses.offsets())


@eqx.filter_jit
def _projected(
    parts: _Parts, frozen: Any, rigid: Any, positions: Any, fits: list[Any], interface: list[np.ndarray], nodes: np.ndarray | None
) -> tuple[Any, Any]:
    """Fields of `ReducedBody`, and of its `Recovery`."""
    count, moved, shapes = frozen.shape[1], parts.moved, frozen
    freedoms = frozen.shape[0] // positions.shape[0]
    whole = rigid.T @ moved[:, count:]
    mass = (whole[0, 0] + whole[1, 1] + whole[2, 2]) / 3
    # A turn u about the origin moves the centre c by u x c: momentum (2, 0) of a turn about x has the sign of y.
    centre = 0.5 * jnp.stack([whole[1, 5] - whole[2, 4], whole[2, 3] - whole[0, 5], whole[0, 4] - whole[1, 3]]) / mass
    inertia = whole[3:, 3:] - mass * (centre @ centre * jnp.eye(3) - jnp.outer(centre, centre))
    # Mean axes: rigid motions that take momentum and angular momentum out of the shapes.
    shapes = shapes - rigid @ jnp.linalg.solve(whole, rigid.T @ moved[:, :count])
    momentum = moved[:, :count] - moved[:, count:] @ jnp.linalg.solve(whole, rigid.T @ moved[:, :count])
    modal_mass = shapes.T @ momentum
    stiffness = frozen.T @ parts.stored
    by_node = shapes.reshape(-1, freedoms, count)
    arms, bends = _lumped(parts.lumps, positions, by_node[:, :3])
    points, motions = _interface(by_node, centre, fits, interface)
    symmetric = lambda A: 0.5 * (A + A.T)  # noqa: E731
    fields = (mass, centre, symmetric(inertia), symmetric(modal_mass), symmetric(stiffness), arms, bends, points, motions)
    if parts.stresses is None or parts.offsets is None:
        return fields, ()
    there = by_node[nodes]
    displaced = there[:, :3] + jnp.cross(there[:, 3:], parts.offsets[:, :, None], axis=1)
    return fields, (parts.stresses, positions[nodes] + parts.offsets - centre, displaced)


# --- the pieces -----------------------------------------------------------------------------------------------------------------------------


def _reduce(
    structure: Any, shapes: np.ndarray, nodes: dict[str, np.ndarray], mass: Any, stiffness: Any, keep: int | None = None
) -> ReducedBody:
    """Orthogonal combinations of the shapes without the rigid ones, each scaled to a largest displacement of 1."""
    shapes = shapes / np.abs(shapes).max(axis=0)
    M, K = shapes.T @ (mass @ shapes), shapes.T @ (stiffness @ shapes)
    try:
        squares, mixed = scipy.linalg.eigh(0.5 * (K + K.T), 0.5 * (M + M.T))
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{structure.label}: shapes without mass: its mass matrix is not positive there.") from error
    if len(squares) <= 6 or not np.abs(squares[:6]).max() < _SOFT * squares[6]:
        found = int((np.abs(squares) < _SOFT * np.abs(squares[min(6, len(squares) - 1)])).sum())
        raise ValueError(
            f"{structure.label}: {found} motions store no energy, where an unsupported body has six: free its supports (joints of the "
            "model will hold it), or fix what is loose in itself."
        )
    rigid = _rigid(structure)
    grounded = np.diag(rigid.T @ (stiffness @ rigid)) / np.diag(rigid.T @ (mass @ rigid))
    if not np.abs(grounded).max() < _SOFT * squares[6]:
        raise ValueError(f"{structure.label}: rigid motions store energy: positions of its nodes do not fit its stiffness matrix.")
    last = len(squares) if keep is None else 6 + keep
    if not 6 < last <= len(squares):
        raise ValueError(f"{structure.label}: keep must be between 1 and {len(squares) - 6}, the number of its modes, got {keep}.")
    kept = shapes @ mixed[:, 6:last]
    kept = kept - rigid @ np.linalg.solve(rigid.T @ (mass @ rigid), rigid.T @ (mass @ kept))
    by_node = np.abs(kept.reshape(-1, structure.freedoms, kept.shape[1]))
    by_node[:, 3:] *= _TURN * np.linalg.norm(np.ptp(structure.positions, axis=0))
    largest = by_node.max(axis=(0, 1))
    found = _on_basis(structure, Basis(kept / largest, nodes))
    hertz = np.sqrt(squares[6:last]) / (2 * np.pi)
    if hertz[0] < _LOWEST or hertz[-1] > _HIGHEST:
        warnings.warn(
            f"{structure.label}: frequencies from {hertz[0]:.3g} to {hertz[-1]:.3g} Hz. Are modulus, density and lengths in Pa, kg/m^3 and m?",
            stacklevel=3,
        )
    return found


def _interface_nodes(structure: Any, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    known, found = structure.names, {}
    for name in names:
        if name not in known:
            raise ValueError(f"interface of the {structure.label} outside of its mesh: {unknown('point', name, known)}")
        if "." in name or "@" in name:
            raise ValueError(f"the interface point {name!r} of the {structure.label} must have a name without '.' and '@'.")
        found[name] = known[name]
    taken = [node for nodes in found.values() for node in nodes]
    if len(taken) != len(set(taken)):
        raise ValueError(f"interface points of the {structure.label} share nodes: each node can belong to one.")
    return found


def _check_definite(label: str, mass: Any, stiffness: Any) -> None:
    if (mass.diagonal() < 0).any() or (stiffness.diagonal() < 0).any():
        which = "mass" if (mass.diagonal() < 0).any() else "stiffness"
        raise ValueError(f"{label}: the {which} matrix has negative entries on its diagonal, and so negative eigenvalues.")
    if mass.shape[0] <= _DENSE:
        dense = stiffness.toarray()
        scale = np.sqrt(np.maximum(np.diag(dense), np.diag(dense).max() * 1e-14))
        unit = dense / scale / scale[:, None]
        try:
            scipy.linalg.cholesky(unit + 1e-8 * np.eye(len(unit)), check_finite=False)
        except np.linalg.LinAlgError:
            lowest = np.linalg.eigvalsh(unit)[0]
            raise ValueError(f"{label}: the stiffness matrix has negative eigenvalues ({lowest:.2g} of its diagonal).") from None


def _softness(mass: Any, stiffness: Any) -> float:
    return float(stiffness.diagonal().sum() / max(mass.diagonal().sum(), 1e-300))


def _lowest(mass: Any, stiffness: Any, count: int) -> np.ndarray:
    """Shapes of the lowest vibrations. The stiffness is positive definite, masses may be zero: M x = (1/w^2) K x is solved for the largest."""
    n = mass.shape[0]
    if n <= _DENSE or count > n // 3:
        found: Any = scipy.linalg.eigh(mass.toarray(), stiffness.toarray(), subset_by_index=[n - count, n - 1])
    else:
        found = scipy.sparse.linalg.eigsh(mass, count, stiffness, which="LM", v0=np.ones(n))
    return found[1][:, ::-1]


def _tie(structure: Any, nodes: dict[str, np.ndarray]) -> tuple[Any, np.ndarray]:
    """(motions of all interface coordinates by unit motions of the points, which coordinates these are)"""
    n, blocks, held = structure.freedoms, [], []
    for own in nodes.values():
        here = structure.positions[own]
        block = _rigid_of(here - here.mean(axis=0), n)
        blocks.append(block[:, :3] if len(own) == 1 and n == 3 else block)
        held.append((n * own[:, None] + np.arange(n)).ravel())
    if not blocks:
        raise ValueError(f"{structure.label}: an interface needs at least one point; `free_modes` makes do without.")
    return scipy.linalg.block_diag(*blocks), np.concatenate(held)


def _rigid_of(positions: np.ndarray, freedoms: int) -> np.ndarray:
    """(rows, 6): unit displacements and turns about the origin."""
    count = len(positions)
    found = np.zeros((count, freedoms, 6))
    found[:, 0, 0] = found[:, 1, 1] = found[:, 2, 2] = 1.0
    x, y, z = positions.T
    found[:, 0, 4], found[:, 0, 5] = z, -y
    found[:, 1, 3], found[:, 1, 5] = -z, x
    found[:, 2, 3], found[:, 2, 4] = y, -x
    if freedoms == 6:
        found[:, 3, 3] = found[:, 4, 4] = found[:, 5, 5] = 1.0
    return found.reshape(count * freedoms, 6)


def _rigid(structure: Any) -> np.ndarray:
    return _rigid_of(structure.positions, structure.freedoms)


def _lumped(masses: Array, positions: Array, shapes: Array) -> tuple[Array, Array]:
    """(arms, bends) of lumps whose own momentum and angular momentum of every shape are zero, as those of the mass matrix are."""
    total = jnp.sum(masses)
    arms = positions - masses @ positions / total
    shapes = shapes - jnp.einsum("n,nim->im", masses, shapes) / total
    spin = jnp.einsum("n,nim->im", masses, jnp.cross(arms[:, :, None], shapes, axis=1))
    moments = jnp.einsum("n,ni,nj->ij", masses, arms, arms)
    size = jnp.trace(moments)
    inertia = size * jnp.eye(3) - moments
    # Lumps on a line have no inertia about it, and no spin either.
    turn = jnp.linalg.solve(inertia + 1e-12 * size * jnp.eye(3), spin)
    shapes = shapes - jnp.cross(turn[None], arms[:, :, None], axis=1)
    root = jnp.sqrt(jnp.where(masses > 0, masses, 1.0)) * (masses > 0)
    return root[:, None] * arms, root[:, None, None] * shapes


def _fits(structure: Any, interface: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of every interface point: its place [m], and what makes its motion of those of its nodes, of several the one that fits best."""
    found, n = [], structure.freedoms
    for own in interface.values():
        here = structure.positions[own]
        middle = here.mean(axis=0)
        found.append((middle, np.eye(6)[:, :n] if len(own) == 1 else np.linalg.pinv(_rigid_of(here - middle, n))))
    return found


def _interface(shapes: Array, centre: Array, fits: list[tuple[Any, Any]], interface: list[np.ndarray]) -> tuple[Array, Array]:
    """(positions from the centre of mass, motions) of the interface points"""
    count = shapes.shape[2]
    points = [jnp.zeros((0, 3)), *((place - centre)[None] for place, _ in fits)]
    motions = [(fit @ shapes[own].reshape(-1, count))[None] for (_, fit), own in zip(fits, interface, strict=True)]
    return jnp.concatenate(points), jnp.concatenate([jnp.zeros((0, 6, count)), *motions])
