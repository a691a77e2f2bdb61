"""Who changes the energy of a mechanism. Along a motion, with the kinetic energy T,

    d/dt T = sum of the powers of the workers,     d/dt (T + stored) = sum of what they supply,     supplied = power + d/dt stored

A worker is a force element, a contact, a joint that is held by a penalty or driven in time, the drive of a rotor, a field. What it supplies
is positive for a motor, negative for a damper, and zero for a spring or gravity: what is stored needs no integral over time.

A drive supplies effort . Phi_t. Its efforts are multipliers or, of a penalty, k Phi + c Phi', where the stiffness multiplies the smallest
errors of positions: between the rows of a run they are interpolated, not evaluated.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Number
from ..frames import Frame, Wrench
from ..joints.penalties import row_coefficients
from ..rotations import dot
from ..stacked.groups import BodyGroup, ElementGroup, map_elements
from ..state import State

if TYPE_CHECKING:
    from ..equations import AbstractSystem
    from ..mechanism import AbstractMechanism


class Flows(NamedTuple):
    """Of every worker, at one time."""

    stored: Float[Array, "workers"]
    """J"""
    power: Float[Array, "workers"]
    """W, the rate at which it changes the kinetic energy"""
    supplied: Float[Array, "workers"]
    """W, the rate at which it changes the sum of kinetic and stored energy"""


# --- equations without bodies -------------------------------------------------------------------------------------------------------------


def flows_of_equations(system: "AbstractSystem", state: State, efforts: Array) -> Flows:
    """Of all forces together, and of constraints that depend on time.

    The kinetic energy v.M v / 2 changes by v.Q + v.M' v / 2: what Q holds of terms quadratic in the velocity cancels there.
    """
    q, v, t, states = state.q, state.v, state.t, (state.x,) if state.x.shape[-1] else ()
    pulling = (efforts,) if system.multiplier_forces() else ()
    force = system.force(q, v, t, *states, *pulling) + system.stiff_force(q, v, t, *states)
    _, turning = jax.jvp(lambda q: system.mass_product(q, v), (q,), (v,))
    stored, rise = jax.jvp(system.potential_energy, (q, t), (v, jnp.ones_like(t)))
    zero, given = jnp.zeros_like(rise), jnp.stack([v @ force + 0.5 * v @ turning, jnp.sum(_driving_power(system, state, efforts))])
    return Flows(jnp.stack([stored, zero]), given, given + jnp.stack([rise, zero]))


def _driving_power(system: "AbstractSystem", state: State, efforts: Array) -> Float[Array, "rows"]:
    """W, of every row of Phi: -lambda.Phi_q v, which is lambda.Phi_t where the velocities satisfy Phi_q v + Phi_t = 0. What a run lets them
    violate that is its numerical error, and no work. Of velocity constraints lambda.b, likewise."""
    _, slope = jax.jvp(lambda t: system.constraint(state.q, t), (state.t,), (jnp.ones_like(state.t),))
    return efforts * jnp.concatenate([slope, system.velocity_constraint(state.q, jnp.zeros_like(state.v), state.t)])


# --- a mechanism --------------------------------------------------------------------------------------------------------------------------


def workers(system: "AbstractMechanism") -> tuple[str, ...]:
    """Names, in the order of all arrays here."""
    groups = (*system.force_groups, *_held(system).values(), *_driven(system).values())
    rotors = [group for group in system.body_groups if group.body.driven]
    groups = (*groups, *rotors, *_deforming(system))
    return tuple(name for group in groups for name in group.names) + tuple(field.name for field in system.fields)


def stored(system: "AbstractMechanism", q: Array, t: Number) -> Float[Array, "workers"]:
    """J, of every worker."""
    frames = system.frames(q, jnp.zeros_like(q))
    _, angles = system._angles(frames)
    parts = [jnp.zeros(0, q.dtype)]
    for group, local, angle in zip(system.force_groups, system.geometry.forces, angles, strict=True):
        parts.append(map_elements(lambda e, *args: e.potential(*args), group.element, local, group.frames(frames), angle))
    for group, rows in zip(_held(system).values(), system._joint_rows(q, t, penalty=True), strict=True):
        stiffness, _ = map_elements(lambda e, _, group=group: row_coefficients(e.penalty, group.row_lengths()), group.element, rows)
        parts.append(0.5 * jnp.sum(stiffness * rows**2, axis=1))
    deforming = [part for part, group in zip(_energies_within(system, q), system.body_groups, strict=True) if group.body.deforms]
    rest = len(workers(system)) - sum(part.shape[0] for part in (*parts, *deforming)) - len(system.fields)
    parts += [jnp.zeros(rest, q.dtype), *deforming]
    parts += [jnp.sum(system.each_in(field.potential, frames))[None] for field in system.fields]
    return jnp.concatenate(parts)


def efforts(system: "AbstractMechanism", state: State) -> Float[Array, "efforts"]:
    """Multipliers of all rows of Phi, and k Phi + c Phi' of all rows that drive by penalties."""
    held = [number for number, group in _held(system).items() if group.element.driven]
    instead = system.penalty_multipliers(state.q, state.v, state.t) if held else {}
    return jnp.concatenate([state.multipliers, *(instead[number].ravel() for number in held)])


def flows(system: "AbstractMechanism", state: State, efforts: Array) -> Flows:
    q, v, t = state.q, state.v, state.t
    frames, ground = system.frames(q, v), len(system.layout.frame_bodies)
    energy, rise = jax.jvp(lambda q, t: stored(system, q, t), (q, t), (v, jnp.ones_like(t)))
    multipliers, instead = jnp.split(efforts, [state.multipliers.shape[0]])
    wrenches = system._wrenches_by_group(frames, t, state.x, multipliers)
    acting = [(group, wrench, tuple(range(wrench.force.shape[1]))) for group, wrench in wrenches]
    penalties = system._penalties(frames, t)
    acting += [(group, penalties[number][1], group.moving(ground)) for number, group in _held(system).items()]
    given = [jnp.zeros(0, q.dtype), *(_power(group, wrench, bodies, frames) for group, wrench, bodies in acting)]
    driving, slices = _driving_power(system, state, multipliers), system.row_slices()
    given += [jnp.sum(driving[slices[name][2]])[None] for group in _driven(system).values() for name in group.names]
    if any(group.body.driven for group in system.body_groups):
        given += _drives(system, q, v, t, frames, acting)
    if _deforming(system):
        given += _powers_within(system, q, v)
    velocity = frames.velocity[: len(system.body_names)]
    given += [jnp.sum(dot(system.each_in(field.force, frames, t), velocity))[None] for field in system.fields]
    power = jnp.concatenate(given)
    if not penalties:
        return Flows(energy, power, power + rise)
    losses, first = _losses(system, state, instead), sum(len(group.names) for group in system.force_groups)
    before, after = slice(first), slice(first + len(losses), None)
    return Flows(energy, power, jnp.concatenate([power[before] + rise[before], losses, power[after] + rise[after]]))


def _losses(system: "AbstractMechanism", state: State, efforts: Array) -> Float[Array, "held"]:
    """What penalties supply, effort . Phi_t - c Phi'.Phi'. It is the sum of their power and of the rate of what they store, without the part
    that cancels there, in which the stiffness multiplies the errors of positions."""
    one, parts = jnp.ones_like(state.t), []
    rows = lambda q, t: system._joint_rows(q, t, penalty=True)  # noqa: E731
    _, rates = jax.jvp(rows, (state.q, state.t), (state.v, one))
    _, slopes = jax.jvp(lambda t: rows(state.q, t), (state.t,), (one,))
    for group, rate, slope in zip(_held(system).values(), rates, slopes, strict=True):
        _, damping = map_elements(lambda e, _, group=group: row_coefficients(e.penalty, group.row_lengths()), group.element, rate)
        supplied = -damping * rate**2
        if group.element.driven:
            own, efforts = jnp.split(efforts, [rate.size])
            supplied += own.reshape(rate.shape) * slope
        parts.append(jnp.sum(supplied, axis=1))
    return jnp.concatenate(parts)


def _deforming(system: "AbstractMechanism") -> list[BodyGroup]:
    """The bodies that have energy within."""
    return [group for group in system.body_groups if group.body.deforms]


def _energies_within(system: "AbstractMechanism", q: Array) -> list[Array]:
    """By group of bodies, what deformation stores."""
    return system._by_body(lambda body, q: body.stored_energy(q), q) if _deforming(system) else [q[:0]] * len(system.body_groups)


def _powers_within(system: "AbstractMechanism", q: Array, v: Array) -> list[Array]:
    powers = system._by_body(lambda body, q, v: jnp.sum(v * body.internal_force(q, v)), q, v)
    return [power for power, group in zip(powers, system.body_groups, strict=True) if group.body.deforms]


def _held(system: "AbstractMechanism") -> dict[int, ElementGroup]:
    """The joints that penalties hold, by the number of their group."""
    return {number: group for number, group in enumerate(system.joint_groups) if group.element.penalty is not None}


def _driven(system: "AbstractMechanism") -> dict[int, ElementGroup]:
    """The joints that drive by multipliers, by the number of their group."""
    return {n: group for n, group in enumerate(system.joint_groups) if group.element.driven and group.element.penalty is None}


def _power(group: ElementGroup, wrench: Wrench, bodies: tuple[int, ...], frames: Frame) -> Float[Array, "n"]:
    """Of every element, from the wrenches on those of its bodies."""
    every = group.frames(frames)
    return sum(
        (
            dot(wrench.force[:, i], every[body].velocity) + dot(wrench.torque[:, i], every[body].angular_velocity)
            for i, body in enumerate(bodies)
        ),
        jnp.zeros(len(group.names)),
    )


def _drives(
    system: "AbstractMechanism", q: Array, v: Array, t: Number, frames: Frame, acting: list[tuple[ElementGroup, Wrench, tuple[int, ...]]]
) -> list[Array]:
    """What rotors are kept turning with: the difference between what their coordinates feel of the forces on them, and all of it."""
    owner = [bodies[i] for group, _, which in acting for bodies in group.bodies for i in which]
    forces = [wrench.force.reshape(-1, 3) for _, wrench, _ in acting]
    torques = [wrench.torque.reshape(-1, 3) for _, wrench, _ in acting]
    total = system._sum(forces, torques, owner)
    force = total.force + system.field_forces(frames, t)
    felt = v * system._generalize(q, Wrench(force, total.torque))
    whole = dot(force, frames.velocity[:-1]) + dot(total.torque, frames.angular_velocity[:-1])
    parts, coordinate, body = [], 0, 0
    for group in system.body_groups:
        n, width = len(group.names), group.coordinates
        if group.body.driven:
            own = np.arange(coordinate, coordinate + n * width).reshape(n, width)
            parts.append(jnp.sum(felt[own], axis=1) - whole[body : body + n])
        coordinate, body = coordinate + n * width, body + n
    return parts
