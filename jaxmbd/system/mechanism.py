"""The equations of a mechanism: bodies, joints and forces, stacked by kind (`stacked`)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Number
from ..solvers.algebra import DENSE
from .blocks.structure import Structure
from .bodies.base import point_name
from .equations import AbstractSystem
from .forces.base import AbstractField, AbstractForce
from .forces.states import AbstractState
from .frames import Frame, Wrench, ground_frame
from .joints.penalties import penalty_wrench
from .observing import energy
from .observing.instant import Instant
from .observing.reactions import joint_reactions, multiplier_forces
from .observing.views import owners_of_mechanism
from .stacked.assembly import sum_by_owner
from .stacked.groups import BodyGroup, ElementGroup, Geometry, LazyAngles, gather, map_elements
from .stacked.layout import Layout
from .state import Memory, State


class AbstractMechanism(AbstractSystem):
    """Bodies, joints and forces as equations. Its children are what users hold (`System`) and what runs (`Prepared`)."""

    body_groups: eqx.AbstractVar[tuple[BodyGroup, ...]]
    joint_groups: eqx.AbstractVar[tuple[ElementGroup, ...]]
    force_groups: eqx.AbstractVar[tuple[ElementGroup, ...]]
    fields: eqx.AbstractVar[tuple[AbstractField, ...]]
    planar: eqx.AbstractVar[bool]
    layout: eqx.AbstractVar[Layout]
    redundant: eqx.AbstractVar[bool]
    redundant_rows: eqx.AbstractVar[int | None]
    implicit_places: eqx.AbstractVar[tuple[tuple[int, int], ...]]
    geometry: eqx.AbstractVar[Geometry]
    structure: eqx.AbstractVar[Structure | None]
    last_angles: eqx.AbstractVar[Float[Array, "angles"] | None]

    # --- observables by name ----------------------------------------------------------------------------------------------------------

    def owners(self):
        return owners_of_mechanism(self)

    # --- structure --------------------------------------------------------------------------------------------------------------------

    @property
    def body_names(self) -> tuple[str, ...]:
        return tuple(name for group in self.body_groups for name in group.names)

    @property
    def frame_names(self) -> tuple[str, ...]:
        """Bodies, then points of bodies: all frames but the ground's."""
        points = (point_name(name, point) for group in self.body_groups for name in group.names for point in group.body.point_names())
        return (*self.body_names, *points)

    def body_slices(self) -> dict[str, tuple[BodyGroup, int, slice]]:
        """By body name: its group, its place in the group, its coordinates in q."""
        owners = ((name, group, i) for group in self.body_groups for i, name in enumerate(group.names))
        return {name: (group, i, where) for (name, group, i), where in zip(owners, self.layout.body_slices, strict=True)}

    def row_slices(self) -> dict[str, tuple[int, int, slice]]:
        """By joint name: the number of its group, its place in the group, its rows in Phi (empty for a penalty joint)."""
        slices = self.layout.row_slices
        return {name: (g, i, slices[g][i]) for g, group in enumerate(self.joint_groups) for i, name in enumerate(group.names)}

    def coordinate_lengths(self):
        return self.layout.coordinate_lengths

    def coordinate_bodies(self):
        return self.layout.coordinate_bodies

    def row_lengths(self):
        return self.layout.row_lengths

    def essential_rows(self):
        own, rolling = self.own_rows(), self.velocity_rows()
        return (False,) * (len(self.row_lengths()) - own - rolling) + (True,) * own + (False,) * rolling

    def velocity_rows(self):
        return self.layout.velocity_rows

    def own_rows(self):
        return len(self.layout.row_owners)

    def motion_lengths(self):
        return self.layout.motion_lengths

    def motion_coordinates(self):
        return self.layout.motion_coordinates

    def stiff_coordinates(self):
        return self.layout.stiff_coordinates

    def stiff_states(self):
        return self.layout.stiff_states

    def coupling(self):
        return self.layout.coupling

    def blocks(self):
        return self.structure

    def algebra(self):
        return DENSE if self.structure is None else self.structure.algebra

    def may_be_redundant(self):
        return self.redundant

    def freedoms(self):
        if self.redundant and self.redundant_rows is None:
            return None
        return len(self.coordinate_lengths()) - len(self.row_lengths()) + (self.redundant_rows or 0)

    def coordinate_names(self):
        names = []
        for body, (group, _, _) in self.body_slices().items():
            names += [f"{body}.{component}" for component in group.body.coordinate_names()]
        return tuple(names)

    def describe_unknown(self, index):
        n, rows, names, rolling = len(self.coordinate_lengths()), len(self.row_lengths()), self.body_names, self.velocity_rows()
        if index < n:
            return f"body {names[self.layout.coordinate_bodies[index]]!r}"
        index -= n
        for name, (_, _, where) in self.row_slices().items():
            if where.start <= index < where.stop:
                return f"joint {name!r}"
        if index < rows - rolling:
            return f"body {names[self.layout.row_owners[index - rows + rolling]]!r}"
        for group, places in zip(self.joint_groups, self.layout.velocity_slices, strict=True):
            for name, where in zip(group.names, places, strict=True):
                if where.start <= index < where.stop:
                    return f"joint {name!r}"
        index -= rows
        for group, kind in zip(self.force_groups, self.layout.forces, strict=True):
            for name in group.names:
                index -= kind.states
                if index < 0:
                    return f"{group.element.kind} {name!r}"
        return "unknown"

    # --- the initial configuration ----------------------------------------------------------------------------------------------------

    @property
    def q0(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return jnp.concatenate([group.initial()[0].ravel() for group in self.body_groups])

    @property
    def v0(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return jnp.concatenate([group.initial()[1].ravel() for group in self.body_groups])

    @property
    def x0(self) -> Array:
        states = [group.initial_states() for group in self.force_groups]
        return jnp.concatenate([jnp.zeros(0), *(state.ravel() for state in states)])

    # --- motion -----------------------------------------------------------------------------------------------------------------------

    def _by_body(self, function: Callable[..., Any], *coordinates: Array | np.ndarray) -> list[Any]:
        """function(body, q_body, ...) for all bodies, one result a group."""
        results, start = [], 0
        for group in self.body_groups:
            n, width = len(group.names), group.coordinates
            parts = [c[start : start + n * width].reshape(n, width) for c in coordinates]
            results.append(map_elements(function, group.body, *parts))
            start += n * width
        return results

    def _by_pointed_body(self, function: Callable[..., Any], *coordinates: Array) -> list[tuple[slice, Any]]:
        """function(body, q_body, ...) for the bodies that have points: one result a group, and where it belongs in q."""
        found, start = [], 0
        for group in self.body_groups:
            n, width = len(group.names), group.coordinates
            where = slice(start, start + n * width)
            if group.body.point_names():
                found.append((where, map_elements(function, group.body, *(c[where].reshape(n, width) for c in coordinates))))
            start += n * width
        return found

    def frames(self, q: Array, v: Array) -> Frame:
        """All bodies and points of bodies as moving frames, in the order of `frame_names`, and the ground as the last."""
        frames = self._by_body(lambda body, q, v: body.frame(q, v), q, v)
        for _, stacked in self._by_pointed_body(lambda body, q, v: body.points(q, v), q, v):
            frames.append(jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), stacked))
        frames.append(jax.tree.map(lambda leaf: leaf[None], ground_frame()))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *frames)

    def places(self, q: Array) -> Frame:
        """The same at rest."""
        frames = self.frames(q, jnp.zeros_like(q))
        still = np.zeros(frames.position.shape)  # no array of JAX: nobody looks at velocities here, and they need no derivative
        return dataclasses.replace(frames, velocity=still, angular_velocity=still)

    def mass(self, q):
        blocks = self._by_body(lambda body, q: body.mass_matrix(q), q)
        dense, start = jnp.zeros((q.shape[0], q.shape[0]), q.dtype), 0
        for block in blocks:
            n, width, _ = block.shape
            index = start + np.arange(n * width).reshape(n, width)
            dense = dense.at[index[:, :, None], index[:, None, :]].set(block)
            start += n * width
        return dense

    def mean_inertia(self, q):
        diagonals = self._by_body(lambda body, q: jnp.diagonal(body.mass_matrix(q)), q)
        return jnp.mean(jnp.concatenate([diagonal.ravel() for diagonal in diagonals]))

    def mass_product(self, q, a):
        products = self._by_body(lambda body, q, a: body.mass_product(q, a), q, a)
        return jnp.concatenate([product.ravel() for product in products])

    def solve_mass(self, q, force):
        parts = self._by_body(lambda body, q, force: body.solve_mass(q, force), q, force)
        return jnp.concatenate([part.ravel() for part in parts])

    def to_motion(self, q, rates):
        parts = self._by_body(lambda body, q, rates: body.to_motion(q, rates), q, rates)
        return jnp.concatenate([part.ravel() for part in parts])

    def from_motion(self, q, motion):
        return self._by_motion(lambda body, q, motion: body.from_motion(q, motion), q, motion)

    def move(self, q, motion):
        return self._by_motion(lambda body, q, motion: body.move(q, motion), q, motion)

    def _by_motion(self, function: Callable[..., Array], q: Array, motion: Array) -> Array:
        """function(body, q_body, motion_body) of all bodies, one after the other."""
        results, coordinate, place = [], 0, 0
        for group in self.body_groups:
            n, width, freedoms = len(group.names), group.coordinates, len(group.body.motion_lengths())
            own = q[coordinate : coordinate + n * width].reshape(n, width)
            part = motion[place : place + n * freedoms].reshape(n, freedoms)
            results.append(map_elements(function, group.body, own, part).ravel())
            coordinate, place = coordinate + n * width, place + n * freedoms
        return jnp.concatenate(results)

    def own_acceleration(self, q, v):
        parts = self._by_body(lambda body, q, v: body.own_acceleration(q, v), q, v)
        return jnp.concatenate([part.ravel() for part in parts])

    def normalize(self, q, v):
        pairs = self._by_body(lambda body, q, v: body.normalize(q, v), q, v)
        return jnp.concatenate([p[0].ravel() for p in pairs]), jnp.concatenate([p[1].ravel() for p in pairs])

    # --- angles over full turns -------------------------------------------------------------------------------------------------------

    def _angles(self, frames: Frame) -> tuple[LazyAngles, LazyAngles]:
        """Relative angles of joint groups and force groups, followed over full turns."""
        geometry = self.geometry
        return (
            LazyAngles(self.joint_groups, geometry.joints, frames, self.last_angles, 0),
            LazyAngles(self.force_groups, geometry.forces, frames, self.last_angles, self.layout.joint_angle_count),
        )

    def angles(self, q):
        joints, forces = self._angles(self.places(q))
        return jnp.concatenate([jnp.zeros(0), *(a.ravel() for a in joints), *(a.ravel() for a in forces)])

    def first_angles(self):
        return jnp.zeros(self.layout.angle_count)

    # --- constraints ------------------------------------------------------------------------------------------------------------------

    def _joint_rows(self, q: Array, t: Number, penalty: bool) -> list[Array]:
        """Rows (n, width) of the joint groups that are held by multipliers, or of those held by penalties."""
        frames = self.places(q)
        angles, _ = self._angles(frames)
        found = []
        for group, local, angle in zip(self.joint_groups, self.geometry.joints, angles, strict=True):
            if (group.element.penalty is not None) == penalty:
                rows = map_elements(lambda e, loc, f, a: e.rows(loc, f, a, t), group.element, local, group.frames(frames), angle)
                found.append(rows if group.rows is None else rows[:, np.asarray(group.rows, int)])
        return found

    def constraint(self, q, t):
        own = self._by_body(lambda body, q: body.constraint(q), q)
        rows = [*self._joint_rows(q, t, penalty=False), *own]
        return jnp.concatenate([jnp.zeros(0, q.dtype), *(row.ravel() for row in rows)])

    def velocity_constraint(self, q, v, t):
        if not self.velocity_rows():
            return jnp.zeros(0, q.dtype)
        frames = self.frames(q, v)
        return jnp.concatenate(
            [
                map_elements(lambda e, loc, f: e.velocities(loc, f, t), group.element, local, group.frames(frames)).ravel()
                for group, local in zip(self.joint_groups, self.geometry.joints, strict=True)
                if group.velocity_rows()
            ]
        )

    def _penalties(self, frames: Frame, t: Number) -> dict[int, tuple[Array, Wrench]]:
        """By the number of the joint group: what stands in for the multipliers (n, width), and wrenches (n, moving bodies, 3)."""
        angles, _ = self._angles(frames)
        ground = len(self.layout.frame_bodies)
        return {
            number: map_elements(
                lambda e, loc, f, a, group=group: penalty_wrench(e, loc, f, a, t, group.rows, group.moving(ground)),
                group.element,
                local,
                group.frames(frames),
                angle,
            )
            for number, (group, local, angle) in enumerate(zip(self.joint_groups, self.geometry.joints, angles, strict=True))
            if group.element.penalty is not None
        }

    def penalty_multipliers(self, q: Array, v: Array, t: Number) -> dict[int, Float[Array, "n rows"]]:
        """k Phi + c Phi' of every penalty row, which stands in for a multiplier; by the number of the joint group."""
        return {number: multipliers for number, (multipliers, _) in self._penalties(self.frames(q, v), t).items()}

    # --- forces -----------------------------------------------------------------------------------------------------------------------

    def multiplier_forces(self):
        return multiplier_forces(self)

    def _wrenches(self, frames: Frame, t: Number, x: Array, multipliers: Array | None, wanted: Callable[[AbstractForce], bool]) -> Wrench:
        """On every body and point of a body, the sum over the force elements that are wanted."""
        acting = self._wrenches_by_group(frames, t, x, multipliers, wanted)
        owner = [body for group, _ in acting for bodies in group.bodies for body in bodies]
        return self._sum([w.force.reshape(-1, 3) for _, w in acting], [w.torque.reshape(-1, 3) for _, w in acting], owner)

    def _wrenches_by_group(
        self,
        frames: Frame,
        t: Number,
        x: Array,
        multipliers: Array | None,
        wanted: Callable[[AbstractForce], bool] = lambda element: True,
    ) -> list[tuple[ElementGroup, Wrench]]:
        """Of the force elements that are wanted: wrenches (n, bodies, 3) of each group."""
        _, angles = self._angles(frames)
        acting = [
            parts
            for parts in zip(self.force_groups, self.geometry.forces, angles, self._states_by_group(x), strict=True)
            if wanted(parts[0].element)
        ]
        asked = {number for group, *_ in acting for number in group.joint_groups()}
        reactions = joint_reactions(self, asked, frames, t, multipliers)
        return [
            (
                group,
                map_elements(
                    lambda e, loc, f, a, s, *r: e.wrench(loc, f, a, t, s, *r),
                    group.element,
                    local,
                    group.frames(frames),
                    angle,
                    state,
                    *(gather(reactions, joints) for joints in zip(*group.joints, strict=True) if group.element.asks_reactions),
                ),
            )
            for group, local, angle, state in acting
        ]

    def _sum(self, forces: list[Array], torques: list[Array], owner: list[int]) -> Wrench:
        """On every body and point of a body."""
        count = len(self.layout.frame_bodies)
        return Wrench(sum_by_owner(forces, tuple(owner), count), sum_by_owner(torques, tuple(owner), count))

    def _generalize(self, q: Array, total: Wrench) -> Array:
        """Forces and torques on the bodies as forces on the coordinates."""
        start, first, parts = 0, 0, []
        point = len(self.body_names)
        for group in self.body_groups:
            n, width, points = len(group.names), group.coordinates, len(group.body.point_names())
            own, whole = q[start : start + n * width].reshape(n, width), slice(first, first + n)
            felt = map_elements(lambda b, q, f, m: b.generalize(q, f, m), group.body, own, total.force[whole], total.torque[whole])
            if points:
                at = slice(point, point + n * points)
                force, torque = (part[at].reshape(n, points, 3) for part in (total.force, total.torque))
                felt = felt + map_elements(lambda b, q, f, m: b.generalize_points(q, f, m), group.body, own, force, torque)
                point += n * points
            parts.append(felt.ravel())
            start, first = start + n * width, first + n
        return jnp.concatenate(parts)

    def masses(self) -> Float[Array, "bodies"]:
        return jnp.concatenate([group.body.mass for group in self.body_groups])

    def each_in(self, function: Callable[..., Array], frames: Frame, *shared: Number) -> Array:
        """function(mass, frame, *shared) of every body in a field."""
        moving = jax.tree.map(lambda leaf: leaf[: len(self.body_names)], frames)
        return jax.vmap(lambda mass, frame: function(mass, frame, *shared))(self.masses(), moving)

    def field_forces(self, frames: Frame, t: Number) -> Float[Array, "bodies 3"]:
        """Of all fields together, on every body; nothing on points of bodies."""
        found = sum((self.each_in(field.force, frames, t) for field in self.fields), jnp.zeros((len(self.body_names), 3)))
        points = len(self.layout.frame_bodies) - len(self.body_names)
        return jnp.concatenate([found, jnp.zeros((points, 3))]) if points else found

    def force(self, q, v, t, *rest):
        quadratic = self._by_body(lambda body, q, v: body.velocity_force(q, v), q, v)
        *x, multipliers = rest if self.multiplier_forces() else (*rest, None)
        frames = self.frames(q, v)
        applied = self._wrenches(frames, t, x[0] if x else self.x0, multipliers, lambda element: not element.stiff)
        if self.fields:
            applied = Wrench(applied.force + self.field_forces(frames, t), applied.torque)
        own = jnp.concatenate([part.ravel() for part in quadratic])
        return self._generalize(q, applied) + (own + self.internal_force(q, v) if self._deforms() else own)

    def _deforms(self) -> bool:
        return any(group.body.deforms for group in self.body_groups)

    def internal_force(self, q: Array, v: Array) -> Array:
        """What stiffness and damping within bodies do to their coordinates."""
        parts = self._by_body(lambda body, q, v: body.internal_force(q, v), q, v)
        return jnp.concatenate([part.ravel() for part in parts])

    def stiff_force(self, q, v, t, *x):
        frames, total = self.frames(q, v), []
        if any(group.element.stiff for group in self.force_groups):
            total.append(self._wrenches(frames, t, x[0] if x else self.x0, None, lambda element: element.stiff))
        if penalties := self._penalties(frames, t):
            held = [self.joint_groups[number] for number in penalties]
            owner = [bodies[i] for group in held for bodies in group.bodies for i in group.moving(len(self.layout.frame_bodies))]
            wrenches = [wrench for _, wrench in penalties.values()]
            total.append(self._sum([w.force.reshape(-1, 3) for w in wrenches], [w.torque.reshape(-1, 3) for w in wrenches], owner))
        return self._generalize(q, jax.tree.map(lambda *parts: sum(parts), *total)) if total else jnp.zeros_like(q)

    def contact_power(self, q, v, t, *x):
        return self._contact_power(frames := self.frames(q, v), frames, t, x[0] if x else self.x0)

    def corrected_contact_power(self, q, v, t, x, corrected):
        return self._contact_power(self.frames(q, v), self.frames(q, corrected), t, x)

    def _contact_power(self, frames: Frame, moving: Frame, t: Number, x: Array) -> Float[Array, "bodies"]:
        """Of contact forces in `frames`, which differ in velocities only, on bodies that move."""
        applied = self._wrenches(frames, t, x, None, lambda element: element.is_contact)
        power = jnp.sum(applied.force * moving.velocity[:-1] + applied.torque * moving.angular_velocity[:-1], axis=1)
        owner = self.layout.frame_bodies  # points of bodies that deform have frames of their own
        return power if len(owner) == len(self.body_names) else jnp.zeros(len(self.body_names)).at[np.asarray(owner)].add(power)

    def switches(self, q, v, t):
        frames, found = self.frames(q, v), [jnp.zeros(0)]
        _, angles = self._angles(frames)
        for group, local, angle in zip(self.force_groups, self.geometry.forces, angles, strict=True):
            if group.element.has_switches:
                own = map_elements(lambda e, loc, f, a: e.switches(loc, f, a), group.element, local, group.frames(frames), angle)
                found.append(own.ravel())
        return jnp.concatenate(found)

    def _states_by_group(self, x: Array) -> list[Array]:
        kinds = zip(self.layout.forces, self.layout.state_slices, strict=True)
        return [x[where].reshape(len(kind.bodies), kind.states) for kind, where in kinds]

    def state_rate(self, x, q, v, t):
        if x.shape[-1] == 0:
            return x
        nothing = jnp.zeros_like(x), jnp.zeros_like(q), jnp.zeros(len(self.row_lengths()))  # what explicit rates do not depend on
        return -self._state_misses(nothing[0], x, q, v, *nothing[1:], t)

    def state_equation(self, rate, x, q, v, a, multipliers, t):
        return self._state_misses(rate, x, q, v, a, multipliers, t)

    def implicit_states(self):
        return tuple(f"{group.element.kind} {group.names[i]!r}" for group, i in self._members(self.implicit_places))

    def _members(self, places: tuple[tuple[int, int], ...]) -> list[tuple[ElementGroup, int]]:
        return [(self.force_groups[number], place) for number, place in places]

    def algebraic_states(self):
        return self.layout.algebraic_states

    def _state_misses(self, rate: Array, x: Array, q: Array, v: Array, a: Array, multipliers: Array, t: Number) -> Float[Array, "x"]:
        """x' less what it should be, or, of implicit equations, what they say."""
        frames = self.frames(q, v)
        _, angles = self._angles(frames)
        kept = Memory(jnp.zeros(self.layout.angle_count), jnp.ones(len(self.row_lengths())))
        now = Instant(self, State(jnp.asarray(t, float), q, v, x, multipliers, a, rate, kept))
        rates, given = [jnp.zeros(0)], self._states_by_group(rate)
        for group, local, angle, state, own in zip(
            self.force_groups, self.geometry.forces, angles, self._states_by_group(x), given, strict=True
        ):
            if isinstance(group.element, AbstractState):
                rates.append(map_elements(lambda e, r, s: e.misses(r, s, now), group.element, own, state).ravel())
            elif state.shape[1] > 0:
                rate = map_elements(
                    lambda e, loc, f, a, s: e.state_rate(loc, f, a, t, s),
                    group.element,
                    local,
                    group.frames(frames),
                    angle,
                    state,
                )
                rates.append((own - rate).ravel())
        return jnp.concatenate(rates)

    # --- energy -----------------------------------------------------------------------------------------------------------------------

    def potential_energy(self, q, t):
        return jnp.sum(energy.stored(self, q, t))

    def workers(self):
        return energy.workers(self)

    def efforts(self, state):
        return energy.efforts(self, state)

    def flows(self, state, efforts):
        return energy.flows(self, state, efforts)
