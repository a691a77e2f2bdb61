"""What observables look at: a system at one time, and in it a body, a point of a body, an element, a group of contacts.

A view finds what it is asked for, and no more than once. Views live while a function is traced.
"""

import functools
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies.base import AbstractBody, point_name
from ..contact.base import ContactLoads
from ..flexible.segment import BeamSegment
from ..frames import Frame, JointReaction, Wrench, embed
from ..observable import BEAM, CONTACT, ENERGY, POINT, STORE, TURNING, WORKER, Observable, Table, table_of
from ..stacked.groups import pick
from ..state import State
from .energy import Flows
from .reactions import contact_loads, contact_places, joint_reaction, reaction_at

if TYPE_CHECKING:
    from ..equations import AbstractSystem
    from ..mechanism import AbstractMechanism


class Scene:
    """A system at one time. Efforts are those of `energy`, where they are not to be found from the state."""

    def __init__(self, system: Any, state: State, efforts: Array | None = None):
        self.system, self.state, self._efforts = system, state, efforts
        self._views: dict[str, Any] = {}

    def view(self, name: str, make: Callable[["Scene"], Any]) -> Any:
        """An owner's view, made once."""
        if name not in self._views:
            self._views[name] = make(self)
        return self._views[name]

    @cached_property
    def frames(self) -> Frame:
        return self.system.frames(self.state.q, self.state.v)

    @cached_property
    def angles(self) -> tuple[list[Array], list[Array]]:
        joints, forces = self.system._angles(self.frames)
        return list(joints), list(forces)

    @cached_property
    def states(self) -> list[Array]:
        return self.system._states_by_group(self.state.x)

    @cached_property
    def kinetic(self) -> Float[Array, ""]:
        return 0.5 * self.state.v @ self.system.mass_product(self.state.q, self.state.v)

    @cached_property
    def potential(self) -> Float[Array, ""]:
        return self.system.potential_energy(self.state.q, self.state.t)

    @cached_property
    def flows(self) -> Flows:
        return self.system.flows(self.state, self.system.efforts(self.state) if self._efforts is None else self._efforts)

    def flows_of(self, *names: str) -> Flows:
        """Of some workers together."""
        workers = self.system.workers()
        places = np.array([workers.index(name) for name in names])
        return Flows(*(jnp.sum(part[places]) for part in self.flows))


class BodyView:
    """A body at one time."""

    def __init__(self, scene: Scene, name: str):
        self.scene, self.name = scene, name
        group, place, where = scene.system.body_slices()[name]
        self.body: AbstractBody = pick(group.body, place)
        state = scene.state
        self.q, self.v, self._acceleration = state.q[where], state.v[where], state.acceleration[where]

    @cached_property
    def frame(self) -> Frame:
        return self.body.frame(self.q, self.v)

    @cached_property
    def position(self) -> Float[Array, "3"]:
        return self.frame.position

    @cached_property
    def velocity(self) -> Float[Array, "3"]:
        return self.frame.velocity

    @cached_property
    def acceleration(self) -> Float[Array, "3"]:
        return embed(self._acceleration[: self.body.dimension])

    @cached_property
    def kinetic(self) -> Float[Array, ""]:
        return 0.5 * self.v @ self.body.mass_product(self.q, self.v)

    @cached_property
    def flows(self) -> Flows:
        return self.scene.flows_of(self.name)


class PointView:
    """A point that is fixed to a body, given in the body's axes from its centre of mass."""

    def __init__(self, scene: Scene, body: str, local: Any):
        self._body, self._local = scene.view(f"{body}.", lambda scene: BodyView(scene, body)), embed(jnp.asarray(local, dtype=float))

    @cached_property
    def position(self) -> Float[Array, "3"]:
        return self._body.frame.point(self._local)

    @cached_property
    def velocity(self) -> Float[Array, "3"]:
        return self._body.frame.point_velocity(self._local)

    @cached_property
    def acceleration(self) -> Float[Array, "3"]:
        body = self._body
        velocity = lambda q, v: body.body.frame(q, v).point_velocity(self._local)  # noqa: E731
        return jax.jvp(velocity, (body.q, body.v), (body.v, body._acceleration))[1]


class AttachmentView:
    """A point of a body that deforms, where something may attach."""

    def __init__(self, scene: Scene, body: str, place: int):
        self._body, self._place = scene.view(f"{body}.", lambda scene: BodyView(scene, body)), place

    def _frame(self, q: Array, v: Array) -> Frame:
        return jax.tree.map(lambda leaf: leaf[self._place], self._body.body.points(q, v))

    @cached_property
    def frame(self) -> Frame:
        return self._frame(self._body.q, self._body.v)

    @cached_property
    def position(self) -> Float[Array, "3"]:
        return self.frame.position

    @cached_property
    def velocity(self) -> Float[Array, "3"]:
        return self.frame.velocity

    @cached_property
    def acceleration(self) -> Float[Array, "3"]:
        body = self._body
        return jax.jvp(lambda q, v: self._frame(q, v).velocity, (body.q, body.v), (body.v, body._acceleration))[1]


class ElementView:
    """A joint or a force element at one time."""

    def __init__(self, scene: Scene, name: str, is_joint: bool, number: int, place: int):
        self.scene, self.name = scene, name
        system = scene.system
        groups, geometry = (system.joint_groups, system.geometry.joints) if is_joint else (system.force_groups, system.geometry.forces)
        self.element, self.local = pick(groups[number].element, place), pick(geometry[number], place)
        asked = not is_joint and groups[number].element.asks_reactions and groups[number].joints
        self._joints = groups[number].joints[place] if asked else ()
        self.frames: tuple[Frame, ...] = pick(groups[number].frames(scene.frames), place)
        self.angles = scene.angles[0 if is_joint else 1][number][place]
        self.t = scene.state.t
        self.x = None if is_joint else scene.states[number][place]

    @cached_property
    def wrench(self) -> Wrench:
        """Of a force element."""
        return self.element.wrench(self.local, self.frames, self.angles, self.t, self.x, *self.reactions)

    @cached_property
    def reactions(self) -> tuple[JointReaction, ...]:
        """Of the joints that a force element asks for."""
        return tuple(reaction_at(self.scene.system, number, place, self.scene.state) for number, place in self._joints)

    @cached_property
    def reaction(self) -> tuple[Array, Array]:
        """Of a joint: force and torque on its second body."""
        return joint_reaction(self.scene.system, self.name, self.scene.state)

    @cached_property
    def loads(self) -> ContactLoads:
        """Of a contact."""
        return self.element.loads(self.element.touch(self.local, self.frames), self.frames, self.x)

    @cached_property
    def flows(self) -> Flows:
        return self.scene.flows_of(self.name)


class GroupView:
    """All contacts of a group, or a field: what several bodies or pairs do together."""

    def __init__(self, scene: Scene, name: str, members: tuple[str, ...]):
        self._scene, self._name, self._members = scene, name, members

    @cached_property
    def loads(self) -> ContactLoads:
        return contact_loads(self._scene.system, self._name, self._scene.state)

    @cached_property
    def flows(self) -> Flows:
        return self._scene.flows_of(*self._members)


class BeamView:
    """A beam: what its segments do together, and its ends."""

    def __init__(self, scene: Scene, places: dict[str, tuple[int, int]]):
        self._scene, self._places = scene, places

    @cached_property
    def start(self) -> PointView:
        return self._end(next(iter(self._places)), 0)

    @cached_property
    def end(self) -> PointView:
        return self._end(list(self._places)[-1], -1)

    def _end(self, segment: str, which: int) -> PointView:
        system, (number, place) = self._scene.system, self._places[segment]
        local = pick(system.geometry.forces[number], place)
        body = system.body_names[system.force_groups[number].bodies[place][which]]
        return PointView(self._scene, body, local.point_a if which == 0 else local.point_b)

    @cached_property
    def flows(self) -> Flows:
        return self._scene.flows_of(*self._places)


def beam_places(system: "AbstractMechanism") -> dict[str, dict[str, tuple[int, int]]]:
    """By the name of a beam, its segments in their order: numbers of their force groups and places in these."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for number, group in enumerate(system.force_groups):
        if isinstance(group.element, BeamSegment):
            for place, name in enumerate(group.names):
                found.setdefault(name.rpartition("[")[0], {})[name] = (number, place)
    first = lambda item: int(item[0].rpartition("[")[2].partition("-")[0])  # noqa: E731
    return {beam: dict(sorted(segments.items(), key=first)) for beam, segments in found.items() if beam}


class Owner(NamedTuple):
    """Who has observables."""

    table: Table
    view: Callable[[Scene], Any]
    point: "Callable[[str], Owner] | None" = None
    """of a body: its points, from the text of their coordinates"""


def owners_of_equations(system: "AbstractSystem") -> dict[str, Owner]:
    """The energy; and what the class itself lists, and its coordinates, rates and states, which belong to nobody."""
    names = system.coordinate_names() or tuple(f"q[{i}]" for i in range(system.q0.shape[-1]))
    units = ["m" if length else "rad" for length in system.coordinate_lengths()]
    table = dict(table_of(type(system)))
    for i, (name, unit) in enumerate(zip(names, units, strict=True)):
        table[name] = Observable(unit, lambda at, i=i: at.state.q[i], rate=f"v[{i}]")
        table[f"v[{i}]"] = Observable(f"{unit}/s", lambda at, i=i: at.state.v[i])
    for i in range(getattr(system, "x0", jnp.zeros(0)).shape[-1]):
        table[f"x[{i}]"] = Observable("1", lambda at, i=i: at.state.x[i])
    whole = {"": Owner(table, lambda scene: scene), "energy": Owner(ENERGY, lambda scene: scene)}
    return whole | {name: Owner(WORKER | STORE, lambda scene, name=name: GroupView(scene, name, (name,))) for name in system.workers()}


def owners_of_mechanism(system: "AbstractMechanism") -> dict[str, Owner]:
    """Bodies, joints, forces, contacts, groups of contacts, and the whole."""
    found = {"energy": Owner(ENERGY, lambda scene: scene)}

    def table(item: Any, states: int = 0) -> Table:
        every = table_of(type(item)) | {f"state[{i}]": Observable("1", lambda at, i=i: at.x[i]) for i in range(states)}
        return {
            name: seen
            for name, seen in every.items()
            if not (seen.spatial and system.planar) and (seen.applies is None or seen.applies(item))
        }

    for group in system.body_groups:
        own = table(group.body)
        for name in group.names:
            point = functools.partial(_point, system, name) if group.body.has_orientation else None
            found[name] = Owner(own, lambda scene, name=name: BodyView(scene, name), point)
            for place, where in enumerate(group.body.point_names()):
                seen = (name, place)
                found[point_name(name, where)] = Owner(POINT | TURNING, lambda scene, seen=seen: AttachmentView(scene, *seen))
    for groups, is_joint in ((system.joint_groups, True), (system.force_groups, False)):
        for number, group in enumerate(groups):
            own = table(group.element, 0 if is_joint else system.layout.forces[number].states)
            for place, name in enumerate(group.names):
                seen = (name, is_joint, number, place)
                found[name] = Owner(own, lambda scene, seen=seen: ElementView(scene, *seen))
    for name, places in contact_places(system).items():
        if name not in found:
            pairs = [system.force_groups[number].element for number, _ in places]
            kept = {key: seen for key, seen in CONTACT.items() if seen.applies is None or all(map(seen.applies, pairs))}
            members = tuple(system.force_groups[number].names[place] for number, place in places)
            found[name] = Owner(kept | WORKER | STORE, lambda scene, name=name, members=members: GroupView(scene, name, members))
    for name, segments in beam_places(system).items():
        if name not in found:
            own = {key: seen for key, seen in BEAM.items() if not (seen.spatial and system.planar)}
            found[name] = Owner(own, lambda scene, segments=segments: BeamView(scene, segments))
    for field in system.fields:
        found[field.name] = Owner(table(field), lambda scene, name=field.name: GroupView(scene, name, (name,)))
    return found


def _point(system: "AbstractMechanism", body: str, text: str) -> Owner:
    size = 2 if system.planar else 3
    try:
        local = np.array([float(part) for part in text.split(",")])
    except ValueError:
        local = np.zeros(0)
    if local.shape != (size,):
        raise ValueError(f"'{body}.point({text})': give {size} numbers [m], in the axes of the body from its centre of mass.")
    own = {name: seen for name, seen in POINT.items() if not (seen.spatial and system.planar)}
    return Owner(own, lambda scene: PointView(scene, body, local))
