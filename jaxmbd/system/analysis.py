"""What `Model.build` finds out about the assembled equations: redundant rows, contradictions, velocities that do not fit."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .equations import constraint_jacobian
from .initial import initial_state
from .system import System


class Analysis(NamedTuple):
    redundant: bool
    redundant_rows: int
    redundant_joints: tuple[str, ...]
    conflicting: tuple[str, ...]
    violation: float
    changed_velocities: tuple[tuple[str, float], ...]


_CONFLICT = 1e-8
"""A dropped row that is violated by more than this contradicts the kept ones."""


@eqx.filter_jit
def _assemble(system: System):
    system = system.prepare()
    state, violation, assembled = initial_state(system, jnp.zeros(()))
    return state, violation, assembled, constraint_jacobian(system, state.q, state.t), system.v0


def analyse(system: System) -> Analysis:
    state, violation, assembled, jacobian, v0 = _assemble(system.with_redundancy(True))
    kept, jacobian = np.asarray(state.memory.kept_rows), np.asarray(jacobian)
    owners = [name for name, (_, _, where) in system.row_slices().items() for _ in range(where.stop - where.start)]
    position, velocity = np.asarray(violation.position), np.asarray(violation.velocity)
    worst = np.maximum(position, velocity)
    dropped = np.flatnonzero(kept == 0)
    related = _related(jacobian, kept, dropped, owners)
    conflicting: tuple[str, ...] = ()
    bad = [i for i in dropped if not worst[i] <= _CONFLICT]
    if bad:
        conflicting = _related(jacobian, kept, np.asarray(bad), owners)
    elif not bool(assembled):
        conflicting = tuple(dict.fromkeys(owners[i] for i in np.argsort(-position)[:6] if i < len(owners)))
    return Analysis(
        bool(dropped.size),
        int(dropped.size),
        related,
        conflicting,
        float(np.max(worst, initial=0.0)),
        _changed_velocities(system, np.asarray(v0), np.asarray(state.v)),
    )


def _related(jacobian: np.ndarray, kept: np.ndarray, rows: np.ndarray, owners: list[str]) -> tuple[str, ...]:
    """The joints whose rows combine to the given dropped ones, and those that own them."""
    if rows.size == 0:
        return ()
    basis = np.flatnonzero(kept)
    weights, *_ = np.linalg.lstsq(jacobian[basis].T, jacobian[rows].T, rcond=None)
    partners = basis[np.max(np.abs(weights), axis=1) > 1e-6]
    involved = sorted({*rows.tolist(), *partners.tolist()})
    return tuple(dict.fromkeys(owners[i] for i in involved if i < len(owners)))


def _changed_velocities(system: System, given: np.ndarray, used: np.ndarray) -> tuple[tuple[str, float], ...]:
    found = []
    for name, (_, _, where) in system.body_slices().items():
        change = np.max(np.abs(used[where] - given[where]))
        if np.any(given[where]) and change > 1e-6 * (1 + np.max(np.abs(given[where]))):
            found.append((name, float(change)))
    return tuple(found)
