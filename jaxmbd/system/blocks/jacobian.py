"""Derivatives of the equations of motion and constraints, element by element, as blocks.

An element is differentiated by the coordinates of its own bodies alone: forces forward (few directions, many results), rows of constraints in
reverse (few results). What each contributes to a pair of bodies is then summed by pair, so that a body that many elements act on costs no more
than those elements.
"""

import functools
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Number
from ...solvers.block_lu.analysis import Table
from ...solvers.block_lu.numeric import summed
from ..elements import unwrap
from ..frames import Frame, ground_frame
from ..joints.penalties import penalty_wrench
from ..stacked.groups import ElementGroup, map_elements, pick
from .structure import Members, Structure

if TYPE_CHECKING:
    from ..mechanism import AbstractMechanism


class Point(eqx.Module):
    """Where to differentiate."""

    t: Number
    q: Float[Array, "q"]
    v: Float[Array, "q"]
    a: Float[Array, "q"]
    x: Float[Array, "x"]
    multipliers: Float[Array, "rows"]
    """zero for rows that are not kept"""
    kept: Float[Array, "rows"]


class Slopes(eqx.Module):
    """How unknowns enter: derivatives of q, v and q'' by the unknown that moves the bodies, of x and x' by the one that changes x; and what rows
    of constraints are multiplied by."""

    q: Number | float
    v: Number | float
    a: Number | float
    x: Number | float
    rate: Number | float
    rows: Number | float


def motion_jacobian(system: "AbstractMechanism", at: Point, slopes: Slopes) -> Float[Array, "slots b b"]:
    """Of the equations of motion M q'' + Phi_q^T lambda - Q, of the rows, and of x' - g, by the unknowns."""
    structure = system.blocks()
    assert structure is not None
    contributions = [_bodies(system, structure, at, slopes)]
    for members in structure.members:
        contributions += _elements(system, structure, members, at, slopes)
    b = structure.algebra.size
    blocks = summed(structure.sums, jnp.concatenate(contributions).reshape(-1, b * b)).reshape(-1, b, b)
    unused = structure.algebra.index == structure.algebra.back.shape[0]
    dropped = 1.0 - jnp.concatenate([at.kept, jnp.ones(1)])[structure.rows_of_nodes]  # such a row reads multiplier = 0
    diagonal = jnp.where(unused, 1.0, dropped)
    count = diagonal.shape[0]
    return jnp.concatenate([blocks[:count] + diagonal[:, :, None] * jnp.eye(b), blocks[count:]])


def saddle_blocks(system: "AbstractMechanism", q: Array, t: Number, kept: Array) -> Float[Array, "slots b b"]:
    """[ M, Phi_q^T; Phi_q, 0 ] of the kept rows."""
    still, rest = jnp.zeros_like(q), jnp.zeros_like(system.x0)
    at = Point(t, q, still, still, rest, jnp.zeros_like(kept), kept)
    return motion_jacobian(system, at, Slopes(0.0, 0.0, 1.0, 0.0, 1.0, 1.0))


def diagonal_of(structure: Structure, blocks: Float[Array, "slots b b"]) -> Float[Array, "n"]:
    """The diagonal of the whole matrix."""
    return structure.algebra.from_nodes(jnp.diagonal(blocks[: structure.algebra.index.shape[0]], axis1=1, axis2=2))


def _starts(system: "AbstractMechanism") -> list[int]:
    """Of every group of bodies, its first coordinate."""
    return np.cumsum([0, *(len(group.names) * group.coordinates for group in system.body_groups)]).tolist()


def _padded(block: Array, size: int, row: int = 0, column: int = 0) -> Array:
    """Within a block of zeros."""
    *_, rows, columns = block.shape
    around = ((0, 0),) * (block.ndim - 2)
    return jnp.pad(block, (*around, (row, size - row - rows), (column, size - column - columns)))


def _bodies(system: "AbstractMechanism", structure: Structure, at: Point, slopes: Slopes) -> Array:
    """What bodies contribute by themselves: inertia, fields, the row of their own."""
    found, starts, row = [], _starts(system), at.kept.shape[0] - len(system.layout.row_owners)
    for start, group, kind in zip(starts[:-1], system.body_groups, system.layout.bodies, strict=True):
        n, w, own = len(group.names), group.coordinates, int(kind.owns_row)
        q, v, a = (part[start : start + n * w].reshape(n, w) for part in (at.q, at.v, at.a))
        kept, pull = (part[row : row + n * own].reshape(n, own) for part in (at.kept, at.multipliers))
        row += n * own

        def block(w: int, own: int, body: Any, q: Array, v: Array, a: Array, pull: Array, kept: Array) -> Array:
            def motion(d: Array) -> Array:
                place, speed = q + slopes.q * d, v + slopes.v * d
                left = body.mass_product(place, a + slopes.a * d) - body.velocity_force(place, speed)
                if body.deforms:
                    left = left - body.internal_force(place, speed)
                if system.fields:
                    frame = body.frame(place, speed)
                    weight = sum((field.force(body.mass, frame, at.t) for field in system.fields), jnp.zeros(3))
                    left = left - body.generalize(place, weight, jnp.zeros(3))
                return left

            size, slope = structure.algebra.size, jax.jacfwd(motion)(jnp.zeros(w))
            if not own:
                return _padded(slope, size)
            normal = jax.jacrev(body.constraint)(q)
            slope = slope + slopes.q * jax.jacfwd(lambda q: jax.vjp(body.constraint, q)[1](pull)[0])(q)
            normal = kept[:, None] * normal
            upper = jnp.concatenate([slope, normal.T], axis=1)
            lower = jnp.concatenate([slopes.rows * normal, jnp.zeros((own, own))], axis=1)
            return _padded(jnp.concatenate([upper, lower]), size)

        found.append(map_elements(functools.partial(block, w, own), group.body, q, v, a, pull, kept))
    return jnp.concatenate(found)


class _Chosen(eqx.Module):
    """Of elements that are evaluated together, what is known of them and of their bodies."""

    element: Any
    local: Any
    last: Array
    """angles"""
    bodies: tuple[Any, ...]
    grounded: Table
    q: tuple[Array, ...]
    v: tuple[Array, ...]


def _chosen(system: "AbstractMechanism", members: Members, at: Point) -> tuple[ElementGroup, _Chosen]:
    is_force = members.kind == "force"
    groups, kinds = (system.force_groups, system.layout.forces) if is_force else (system.joint_groups, system.layout.joints)
    group, locals_ = groups[members.group], system.geometry.forces if is_force else system.geometry.joints
    width = group.element.angle_count
    first = system.layout.joint_angle_count if is_force else 0
    first += sum(len(kind.bodies) * kind.angle_count for kind in kinds[: members.group])
    known = system.last_angles
    last = (jnp.zeros(system.layout.angle_count) if known is None else known)[first : first + len(group.names) * width]
    stacks = (group.element, locals_[members.group], last.reshape(len(group.names), width))
    if members.elements.shape[0] < len(group.names):  # all of them stand in their order
        stacks = pick(stacks, members.elements)
    bodies, qs, vs, starts = [], [], [], _starts(system)
    for place, number in enumerate(members.body_groups):
        owner, who = system.body_groups[number], members.bodies[:, place]
        n, w, start = len(owner.names), owner.coordinates, starts[number]
        bodies.append(pick(owner.body, who))
        qs.append(at.q[start : start + n * w].reshape(n, w)[who])
        vs.append(at.v[start : start + n * w].reshape(n, w)[who])
    element, local, angles = stacks
    return group, _Chosen(element, local, angles, tuple(bodies), members.grounded, tuple(qs), tuple(vs))


def _frames(own: _Chosen, q: tuple[Array, ...], v: tuple[Array, ...]) -> tuple[Frame, ...]:
    frames = [body.frame(place, speed) for body, place, speed in zip(own.bodies, q, v, strict=True)]
    return tuple(
        jax.tree.map(lambda still, moving, i=i: jnp.where(own.grounded[i], still, moving), ground_frame(), frame)
        for i, frame in enumerate(frames)
    )


def _elements(system: "AbstractMechanism", structure: Structure, members: Members, at: Point, slopes: Slopes) -> list[Array]:
    """What elements contribute: a block for every pair of their bodies, and those of rows that have a node of their own."""
    group, chosen = _chosen(system, members, at)
    widths = [system.body_groups[number].coordinates for number in members.body_groups]
    ends = np.cumsum(widths)[:-1]
    size, lead = structure.algebra.size, structure.algebra.lead

    def parts(d: Array) -> list[Array]:
        return jnp.split(d, ends)

    def angles(own: _Chosen, frames: tuple[Frame, ...]) -> Array:
        wrapped = own.element.wrapped_angles(own.local, frames)
        return wrapped if system.last_angles is None else unwrap(wrapped, own.last)

    def held(own: _Chosen, pull: Array) -> tuple[Array, Array]:
        """(slopes of the pull, Phi_q) of a joint."""

        def rows(d: Array) -> Array:
            frames = _frames(own, tuple(q + part for q, part in zip(own.q, parts(d), strict=True)), tuple(jnp.zeros_like(q) for q in own.q))
            values = own.element.rows(own.local, frames, angles(own, frames), at.t)
            return values if group.rows is None else values[np.asarray(group.rows)]

        zero = jnp.zeros(sum(widths))
        bend = jax.jacfwd(lambda d: jax.vjp(rows, d)[1](pull)[0])(zero)
        return slopes.q * bend, jax.jacrev(rows)(zero)

    def applied(own: _Chosen, x: Array) -> Array:
        """Slopes of -Q and of x' - g by (the bodies' unknowns, x)."""

        def left(z: Array) -> Array:
            d, changed = parts(z[: z.shape[0] - x.shape[0]]), x + slopes.x * z[z.shape[0] - x.shape[0] :]
            q = tuple(q + slopes.q * part for q, part in zip(own.q, d, strict=True))
            v = tuple(v + slopes.v * part for v, part in zip(own.v, d, strict=True))
            frames = _frames(own, q, v)
            turned = angles(own, frames)
            if members.kind == "penalty":
                moving = group.moving(len(system.body_names))
                _, wrench = penalty_wrench(own.element, own.local, frames, turned, at.t, group.rows, moving)
            else:
                moving = tuple(range(len(q)))
                wrench = own.element.wrench(own.local, frames, turned, at.t, changed)
            forces = [jnp.zeros_like(place) for place in q]
            for k, i in enumerate(moving):
                forces[i] = -own.bodies[i].generalize(q[i], wrench.force[k], wrench.torque[k])
            if x.shape[0] == 0:
                return jnp.concatenate(forces)
            rate = own.element.state_rate(own.local, frames, turned, at.t, changed)
            return jnp.concatenate([*forces, slopes.rate * z[z.shape[0] - x.shape[0] :] - rate])

        return jax.jacfwd(left)(jnp.zeros(sum(widths) + x.shape[0]))

    begins = [0, *ends.tolist()]
    places = [slice(begin, begin + w) for begin, w in zip(begins, widths, strict=True)]
    if members.kind == "joint":
        kept = at.kept[members.rows]
        slope, normal = map_elements(held, chosen, at.multipliers[members.rows])
        normal = kept[:, :, None] * normal
        spread = None
    else:
        slope = map_elements(applied, chosen, at.x[members.states])
        normal = jnp.zeros((slope.shape[0], 0, sum(widths)))
        spread = (jnp.arange(lead) == (members.state_offset[:, None] + np.arange(members.states.shape[1]))[..., None]).astype(float)
    slope, normal = jax.lax.optimization_barrier((slope, normal))  # otherwise evaluated again for every pair
    above, begin = jnp.swapaxes(normal, 1, 2), lead + members.offset

    def owned(i: int) -> Array:
        return (members.owner == i).astype(float)[:, None, None]

    found, total = [], sum(widths)
    for i, mine in enumerate(places):
        for j, other in enumerate(places):
            block = _padded(slope[:, mine, other], size)
            if normal.shape[1]:
                block = block + _padded(owned(j) * above[:, mine], size, 0, begin)
                block = block + _padded(owned(i) * slopes.rows * normal[:, :, other], size, begin, 0)
            if spread is not None and spread.shape[1]:
                by_state, of_state = slope[:, mine, total:] @ spread, jnp.swapaxes(spread, 1, 2) @ slope[:, total:, other]
                block = block + _padded(owned(j) * by_state, size) + _padded(owned(i) * of_state, size)
                if i == j:
                    within = jnp.swapaxes(spread, 1, 2) @ slope[:, total:, total:] @ spread
                    block = block + _padded(owned(i) * within, size)
            found.append(block)
    if members.loose.shape[0]:
        for place in places:
            alone = normal[members.loose][:, :, place]
            found += [_padded(jnp.swapaxes(alone, 1, 2), size, 0, begin), _padded(slopes.rows * alone, size, begin, 0)]
    return found
