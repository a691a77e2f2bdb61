"""What `Model.build` finds out about the assembled equations: redundant rows, contradictions, velocities that do not fit.

Points and axes are given at the initial configuration, so the constraints usually hold there and linear algebra decides. Only where they do
not (a given length, a motion that starts elsewhere) are the positions assembled first.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..._compiling import compiled_in_haste
from ..._precision import attainable
from ..blocks.jacobian import saddle_blocks
from ..equations import constraint, constraint_jacobian, constraint_rate
from ..initial import first_memory, project_position
from ..redundancy import choose_rows
from ..system import System
from .sparse_rank import combinations, constraint_rows, independent_rows

_SATISFIED = attainable(1e-9)
_CONFLICT = attainable(1e-7, 100.0)
"""A dropped row that asks for something else than the kept ones by more than this contradicts them."""


class Analysis(NamedTuple):
    kept: np.ndarray
    """1 for each constraint row, 0 for redundant ones"""
    redundant_rows: int
    redundant_joints: tuple[str, ...]
    conflicting: tuple[str, ...]
    violation: float
    unfit_velocities: tuple[str, ...]
    """joints that the given velocities do not satisfy"""


@compiled_in_haste
def _evaluate(system: System, q):
    """Phi, Phi_q, Phi_t, Phi' at q (None: at the start), the rows to keep, and the given velocities."""
    t = jnp.zeros(())
    prepared = system.recall(first_memory(system))
    q = system.q0 if q is None else q
    essential = jnp.asarray(system.essential_rows(), dtype=float)
    if system.structure is None:
        jacobian = constraint_jacobian(prepared, q, t)
        kept = choose_rows(jacobian, essential, jnp.ones_like(essential))
    else:
        jacobian, kept = saddle_blocks(prepared, q, t, jnp.ones_like(essential)), jnp.ones_like(essential)
    at_rest = constraint_rate(prepared, q, jnp.zeros_like(q), t)
    return constraint(prepared, q, t), jacobian, at_rest, constraint_rate(prepared, q, system.v0, t), kept, system.v0


def _evaluated(system: System, q: Array | None) -> tuple[Any, ...]:
    """The same in numpy; of a large mechanism, Phi_q as a sparse matrix."""
    rows, jacobian, drive, rate, kept, v0 = (np.asarray(value) for value in _evaluate(system.nameless(), q))
    if system.structure is not None:
        m, own = len(kept), len(system.layout.row_owners)
        jacobian = constraint_rows(system.structure, jacobian, m, len(v0))
        kept = independent_rows(jacobian, np.arange(m - own, m))
    return rows, jacobian, drive, rate, kept, v0


@compiled_in_haste
def _assemble(system: System, kept):
    return project_position(system.recall(first_memory(system)), system.q0, jnp.zeros(()), kept)[0]


def analyse(system: System) -> Analysis:
    owners = _owners(system)
    rows, jacobian, drive, rate, kept, v0 = _evaluated(system, None)
    _check_finite(rows + drive, owners)
    if not np.max(np.abs(rows), initial=0.0) <= _SATISFIED:
        q = _assemble(system.nameless(), jnp.asarray(kept))
        if np.all(np.isfinite(q)):
            rows, jacobian, drive, rate, kept, v0 = _evaluated(system, q)
    dropped, basis = np.flatnonzero(kept == 0), np.flatnonzero(kept)
    # Each dropped row is a combination of kept ones; it must also ask for the same position and the same rate.
    weights = combinations(jacobian, basis, dropped)
    gap = np.maximum(np.abs(rows[dropped] - rows[basis] @ weights), np.abs(drive[dropped] - drive[basis] @ weights))
    bad = gap > _CONFLICT
    conflicting = _involved(dropped[bad], basis, weights[:, bad], owners)
    violation = float(np.max(gap, initial=0.0))
    if not conflicting and not np.max(np.abs(rows), initial=0.0) <= _CONFLICT:
        conflicting = tuple(dict.fromkeys(owners[i] for i in np.argsort(-np.abs(rows)) if owners[i] and abs(rows[i]) > _CONFLICT))
        violation = float(np.max(np.abs(rows)))
    moving = np.any(v0)
    unfit = [i for i in np.flatnonzero(np.abs(rate) > 1e-6 * (1 + np.max(np.abs(rate), initial=0.0))) if owners[i]]
    return Analysis(
        kept,
        int(dropped.size),
        _involved(dropped, basis, weights, owners),
        conflicting,
        violation,
        tuple(dict.fromkeys(owners[i] for i in unfit)) if moving else (),
    )


def _owners(system: System) -> list[str]:
    """Of every row the name of its joint; empty for rows of bodies."""
    owners = [name for name, (_, _, where) in system.row_slices().items() for _ in range(where.stop - where.start)]
    owners += [""] * system.own_rows()
    for group in system.joint_groups:
        owners += [name for name in group.names for _ in range(group.velocity_rows())]
    return owners


def _check_finite(values: np.ndarray, owners: list[str]) -> None:
    bad = dict.fromkeys(owners[i] for i in np.flatnonzero(~np.isfinite(values)) if owners[i])
    if bad:
        names = ", ".join(map(repr, bad))
        raise ValueError(f"joint {names}: its position or rate is not finite at t = 0. Check the function of time that drives it.")


def _involved(dropped: np.ndarray, basis: np.ndarray, weights: np.ndarray, owners: list[str]) -> tuple[str, ...]:
    """The joints that own the dropped rows, and those whose rows combine to them."""
    if dropped.size == 0:
        return ()
    partners = basis[np.max(np.abs(weights), axis=1, initial=0.0) > 1e-6]
    rows = sorted({*dropped.tolist(), *partners.tolist()})
    return tuple(dict.fromkeys(owners[i] for i in rows if owners[i]))
