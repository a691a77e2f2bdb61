"""What a solution computes of its rows. Functions stand here by name: one made anew at each call would be compiled anew."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from . import observe as observing
from .quadrature import accumulate
from .system.contact.base import ContactLoads
from .system.equations import AbstractSystem
from .system.frames import Frame
from .system.mechanism import AbstractMechanism
from .system.observing.reactions import contact_loads, joint_reaction
from .system.observing.views import PointView, Scene
from .system.state import State


def frames(system: AbstractMechanism, state: State) -> Frame:
    return system.frames(state.q, state.v)


def energies(system: AbstractSystem, state: State) -> tuple[Array, Array]:
    kinetic = 0.5 * state.v @ system.mass_product(state.q, state.v)
    return kinetic, system.potential_energy(state.q, state.t)


def violation(system: AbstractSystem, state: State) -> Array:
    return jnp.max(jnp.abs(system.constraint(state.q, state.t)), initial=0.0)


def reaction(system: AbstractMechanism, state: State, joint: str) -> tuple[Array, Array]:
    return joint_reaction(system, joint, state)


def contact(system: AbstractMechanism, state: State, name: str) -> ContactLoads:
    return contact_loads(system, name, state)


def point(system: AbstractMechanism, state: State, body: str, local: Array) -> tuple[Array, Array, Array]:
    point = PointView(Scene(system, state), body, local)
    return point.position, point.velocity, point.acceleration


def load(system: AbstractMechanism, states: State, element: str) -> tuple[Array, Array, dict[str, Array | None]]:
    table, look, _ = system.owners()[element]
    wrench = each_row(lambda system, state: look(Scene(system, state)).wrench, system, states)
    tension = "force" if "length" in table else "torque" if "angle" in table else ""
    return wrench.force, wrench.torque, quantities(system, states, element, length="length", angle="angle", rate="rate", tension=tension)


def joint(system: AbstractMechanism, states: State, joint: str) -> dict[str, Array | None]:
    return quantities(system, states, joint, angle="angle", rate="rate", travel="travel", travel_rate="travel_rate")


def quantities(system: AbstractMechanism, states: State, owner: str, **wanted: str) -> dict[str, Array | None]:
    """Observables of an owner, those it has; two that are numbered, "angle1" and "angle2", as columns of one."""
    table = system.owners()[owner].table
    names = {key: [f"{owner}.{one}" for one in (name, f"{name}1", f"{name}2") if one in table] for key, name in wanted.items()}
    seen = observing.observe(system, states, [name for group in names.values() for name in group])
    found = {key: [seen[name] for name in group] for key, group in names.items()}
    return {key: None if not parts else parts[0] if len(parts) == 1 else jnp.stack(parts, 1) for key, parts in found.items()}


def observe(system: AbstractSystem, states: State, names: tuple[str, ...]) -> dict[str, Array]:
    return observing.observe(system, states, names)


def work(system: AbstractSystem, states: State) -> tuple[Array, Array, Array]:
    supplied, stored = accumulate(system, states, lambda scene: (scene.flows.supplied, scene.flows.stored))
    return supplied - (stored - stored[0]), stored - stored[0], supplied


def each_row(function: Callable[[Any, State], Any], system: AbstractSystem, states: State) -> Any:
    return jax.vmap(lambda state: function(system.recall(state.memory), state))(states)


@eqx.filter_jit
def compiled(system: AbstractSystem, states: State, function: Callable[[Any, State], Any]) -> Any:
    return function(system.prepare(), states)
