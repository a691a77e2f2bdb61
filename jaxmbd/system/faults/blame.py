"""Which element is not finite: asked after a run that has ended because something was not."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from ..equations import AbstractSystem, applied_force, count_rows, state_rate
from ..flexible.segment import LARGEST_TURN, BeamSegment
from ..mechanism import AbstractMechanism
from ..stacked.groups import map_elements
from ..state import State

_TRIED = np.append(np.linspace(0.0, 1.0, 17), (1.5, 2.0, 4.0))
"""Where to look ahead of the last state, in units of the step that failed; farther than it went only if nothing is found on the way."""
_LISTED = 4
_CLOSE = 0.8
"""of the largest turn within a segment of a beam, from where on it is to blame"""


def not_finite(system: AbstractSystem, state: State, h: Any) -> str:
    """Names what is not finite at a state or, flying on freely, at the first moment of the next h seconds at which something is not.
    Empty if everything is finite there."""
    n, names = state.q.shape[0], _names(system)
    bad = [i for i in range(n) if not np.isfinite(state.q[i] + state.v[i])]
    bad += [n + count_rows(system) + i for i in range(state.x.shape[0]) if not np.isfinite(state.x[i])]
    if bad:
        found = [f"the state of {system.describe_unknown(i)}" for i in bad]
    else:
        finite = np.asarray(_look_ahead(system.nameless(), state, jnp.asarray(_TRIED * float(h))))
        first = np.flatnonzero(~np.all(finite, axis=1))[:1]
        found = [name for i in first for name, fine in zip(names, finite[i], strict=True) if not fine]
    found = list(dict.fromkeys(found))
    listed = ", ".join(found[:_LISTED]) + (f" and {len(found) - _LISTED} more" if len(found) > _LISTED else "")
    return listed


def overturned(system: AbstractSystem, state: State) -> str:
    """A sentence about the segment of a beam that turns the most within itself, if that is close to what it can."""
    if not isinstance(system, AbstractMechanism):
        return ""
    worst, name = _CLOSE * LARGEST_TURN, ""
    frames, geometry = system.places(state.q), system.geometry.forces
    for group, local in zip(system.force_groups, geometry, strict=True):
        if isinstance(group.element, BeamSegment):
            turns = np.asarray(map_elements(lambda segment, *place: segment.turn(*place), group.element, local, group.frames(frames)))
            if np.max(turns) > worst:
                worst, name = float(np.max(turns)), group.names[int(np.argmax(turns))]
    return name and (
        f"beam segment {name!r} turns by {worst:.3g} rad from its first node to its second; it cannot by {LARGEST_TURN:.3g} rad or more: "
        "give the beam more elements, or load it less."
    )


def _names(system: AbstractSystem) -> list[str]:
    """In the order of `_parts`."""
    rows = [system.describe_unknown(len(system.coordinate_lengths()) + i) for i in range(count_rows(system))]
    if not isinstance(system, AbstractMechanism):
        return ["force(q, v, t)", "stiff_force(q, v, t)", "state_rate(x, q, v, t)", "mass(q)", *rows]
    forces = [f"{group.element.kind} {name!r}" for group in system.force_groups for name in group.names]
    held = [f"joint {name!r}" for group in system.joint_groups if group.element.penalty is not None for name in group.names]
    return [*forces, *held, *(field.label for field in system.fields), *rows]


@eqx.filter_jit
def _look_ahead(system: AbstractSystem, state: State, ahead: Float[Array, "times"]) -> Bool[Array, "times parts"]:
    system = system.recall(state.memory)
    # What was not finite may be the acceleration with which it would fly on.
    known = lambda rate: jnp.where(jnp.isfinite(rate), rate, 0.0)  # noqa: E731
    a, rate = known(state.acceleration), known(state.state_rate)

    def at(s):
        q, v = system.normalize(state.q + s * state.v + 0.5 * s**2 * a, state.v + s * a)
        return _parts(system, q, v, state.t + s, state.x + s * rate, known(state.multipliers))

    return jax.vmap(at)(ahead)


def _parts(system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, multipliers: Array) -> Bool[Array, "parts"]:
    """Whether each element is finite."""
    rows = jnp.isfinite(jnp.concatenate([system.constraint(q, t), system.velocity_constraint(q, v, t)]))
    if not isinstance(system, AbstractMechanism):
        arguments = (q, v, t) if x.shape[0] == 0 else (q, v, t, x)
        force = applied_force(system, q, v, t, x, multipliers)
        parts = (force, system.stiff_force(*arguments), state_rate(system, x, q, v, t), system.mass(q))
        return jnp.concatenate([jnp.stack([jnp.all(jnp.isfinite(part)) for part in parts]), rows])
    frames = system.frames(q, v)
    _, angles = system._angles(frames)
    found = []
    wrenches = system._wrenches_by_group(frames, t, x, multipliers)
    for (group, wrench), *own in zip(wrenches, system.geometry.forces, angles, system._states_by_group(x), strict=True):
        rates = map_elements(lambda e, loc, a, s, f: e.state_rate(loc, f, a, t, s), group.element, *own, group.frames(frames))
        found.append(_each((wrench, rates), len(group.names)))
    for number, (_, wrench) in system._penalties(frames, t).items():
        found.append(_each(wrench, len(system.joint_groups[number].names)))
    found += [jnp.all(jnp.isfinite(system.each_in(field.force, frames, t)))[None] for field in system.fields]
    return jnp.concatenate([*found, rows])


def _each(tree: Any, count: int) -> Bool[Array, "count"]:
    """Whether all numbers of each element are finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf.reshape(count, -1)), axis=1) for leaf in jax.tree.leaves(tree)]), axis=0)
