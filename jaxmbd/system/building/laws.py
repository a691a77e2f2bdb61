"""What `Model.build` finds out about states whose functions ask for quantities by name: whether these exist, fit, and are known beforehand."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval

from ..equations import initial_states
from ..forces.states import AbstractState
from ..initial import first_memory
from ..observing.instant import Instant
from ..stacked.groups import map_elements
from ..state import State
from ..system import System


def with_laws(system: System) -> System:
    """The system, told which of its states have no x' = g(x, q, v, t)."""
    implicit = []
    for number, group in enumerate(system.force_groups):
        if isinstance(group.element, AbstractState) and (_asks_for_unknowns(system, number) or group.element.implicit()):
            implicit += [(number, place) for place in range(len(group.names))]
    return dataclasses.replace(system, implicit_places=tuple(implicit))


def _asks_for_unknowns(system: System, number: int) -> bool:
    """Whether equations of a group of states depend on accelerations or multipliers. Looks at every function of a user for the first time."""
    group = system.force_groups[number]
    label = f"{group.element.kind} {group.names[0]!r}"

    def misses(a: Any, multipliers: Any, rate: Any, x: Any) -> Any:
        t = jnp.zeros(())
        there = system.recall(first_memory(system))
        now = Instant(there, State(t, system.q0, system.v0, x, multipliers, a, rate, first_memory(system)))
        element, own = there.force_groups[number].element, there._states_by_group(x)[number]
        return map_elements(lambda e, r, s: e.misses(r, s, now), element, jnp.zeros_like(own), own)

    x = initial_states(system)
    arguments = (jnp.zeros_like(system.q0), jnp.zeros(len(system.row_lengths())), jnp.zeros_like(x), x)
    try:
        program = jax.make_jaxpr(misses)(*arguments)
    except ValueError as error:
        message = str(error)
        raise ValueError(message if message.startswith(label) else f"{label}: {message}") from None
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise ValueError(f"{label}: its function cannot be compiled; write it with jax.numpy instead of numpy, math or if.") from error
    expected, found = (len(group.names), group.states()), program.out_avals[0].shape
    if found != expected:
        raise ValueError(f"{label}: its function must give {expected[1]} number(s), as many as it has states, got shape {found[1:]}.")
    _, used = partial_eval.dce_jaxpr(program.jaxpr, [True])
    return bool(used[0] or used[1])
