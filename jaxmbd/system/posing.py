"""An initial state by names: where joints and bodies stand and how fast they move, the rest following from the constraints."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..solvers.linear import solve_once
from .equations import AbstractSystem, constraint_jacobian, constraint_rate, initial_states, saddle_matrix
from .initial import first_memory, keep_rows, project_position, projection_metric
from .observing.grammar import Found, find
from .observing.views import Scene
from .state import Memory, State

_STAGES = 12
"""on the way to positions that were asked for; angles over full turns are followed from one to the next"""


def pose(system: AbstractSystem, values: Mapping[str, Any], *, t: Any = 0.0) -> State:
    """The state in which observables have such values, `{"hinge.angle": 0.5, "hinge.rate": -2.0, "cart.x": 0.1}`: give it to
    `simulate(initial=...)`.

    Positions are those nearest to the system's own, in the metric of the mass matrix, that satisfy the constraints and the positions asked
    for, and velocities likewise. What is asked for are observables of positions that have a rate ("rod.x", "hinge.angle", "spring.length")
    and those rates ("rod.vx", "hinge.rate"); and of a body that turns in space, Euler parameters ("rod.e0", ..., "rod.e3"). Works under jit,
    grad and vmap. Values that contradict the joints or each other give no finite state. t [s] matters where joints are driven.
    """
    found = dict(zip(values, find(system, *values), strict=True))
    coordinates = {name: place for place, name in enumerate(system.coordinate_names())}
    turned = tuple(name for name, one in found.items() if name in coordinates and not one.observable.rate)
    for name, one in found.items():
        if one.reducer or not (one.observable.rate or name in turned or _is_rate(one)):
            raise ValueError(
                f"initial {name!r}: only positions and their rates can be asked for, such as 'hinge.angle', 'hinge.rate', 'rod.x', 'rod.vx'."
            )
    positions = tuple(name for name, one in found.items() if one.observable.rate and not _is_rate(one))
    rates = tuple(name for name in found if name not in (*positions, *turned))
    asked = (jnp.asarray([jnp.asarray(values[name], float) for name in names], float).reshape(-1) for names in (turned, positions, rates))
    places = tuple(coordinates[name] for name in turned)
    return _pose(system, places, positions, rates, tuple(asked), jnp.asarray(t, float))


def _is_rate(one: Found) -> bool:
    return one.observable.unit in ("m/s", "rad/s")


@eqx.filter_jit
def _pose(
    system: AbstractSystem,
    places: tuple[int, ...],
    positions: tuple[str, ...],
    rates: tuple[str, ...],
    asked: tuple[Array, ...],
    t: Array,
) -> State:
    turned, goals, speeds = asked
    plain, memory = system, first_memory(system)
    system = system.prepare().recall(memory)
    q0 = jnp.asarray(system.q0, float)
    q, v = system.normalize(q0.at[np.array(places, int)].set(turned) if places else q0, jnp.asarray(system.v0, float))
    kept = keep_rows(system, q, t, memory.kept_rows)
    fixed = jnp.concatenate([kept[: kept.shape[0] - system.velocity_rows()], jnp.ones(len(positions))])
    q, _ = project_position(system, q, t, kept)
    if positions:
        begin = _values(system, positions, q, v, t)

        def stage(carry: tuple[Array, Memory], share: Array) -> tuple[tuple[Array, Memory], None]:
            q, memory = jax.lax.stop_gradient(carry)
            here = plain.recall(memory)
            target = _held(here, positions, begin + share * (goals - begin))
            moved, _ = project_position(target, q, t, fixed)
            return (moved, Memory(here.angles(moved), memory.kept_rows)), None

        shares = jnp.arange(1, _STAGES) / _STAGES
        (near, memory), _ = jax.lax.scan(stage, jax.lax.stop_gradient((q, memory)), jax.lax.stop_gradient(shares))
        # From the last stage on with derivatives: of the positions that are asked for, not of the way there.
        system = plain.recall(jax.lax.stop_gradient(memory))
        posed = _held(system, positions, goals)
        near = jax.lax.stop_gradient(near)
        q, _ = project_position(posed, near + (q - jax.lax.stop_gradient(q)), t, fixed)
        memory = Memory(jax.lax.stop_gradient(system.angles(q)), memory.kept_rows)
    if rates:
        held = jax.jacfwd(lambda v: _values(system, rates, q, v, t))(v)
        rows = jnp.concatenate([constraint_jacobian(system, q, t), held])
        still = jnp.zeros_like(v)
        drive = jnp.concatenate([constraint_rate(system, q, still, t), _values(system, rates, q, still, t) - speeds])
        fixed = jnp.concatenate([kept, jnp.ones(len(rates))])
        weight = projection_metric(system.mass(q), rows, fixed)
        v = solve_once(saddle_matrix(weight, rows, fixed), jnp.concatenate([weight @ v, -fixed * drive]))[: v.shape[0]]
    none, x = jnp.zeros_like(q), initial_states(plain)
    return State(t, q, v, x, jnp.zeros_like(kept), none, jnp.zeros_like(x), Memory(memory.angles, kept))


def _values(system: AbstractSystem, names: tuple[str, ...], q: Array, v: Array, t: Array) -> Array:
    """Of observables; angles as far as a configuration tells them."""
    none = jnp.zeros_like(q)
    x = initial_states(system)
    rows = jnp.zeros(len(system.row_lengths()))
    scene = Scene(system, State(t, q, v, x, rows, none, jnp.zeros_like(x), first_memory(system)))
    seen = [one.observable.value(scene.view(one.prefix, one.owner.view)) for one in find(system, *names)]  # pyright: ignore[reportOptionalCall]
    return jnp.stack([jnp.asarray(value, float) for value in seen])


def _apart(system: AbstractSystem, names: tuple[str, ...], difference: Array) -> Array:
    """Of angles that are known up to full turns, the difference to the nearest."""
    turning = np.array([one.observable.full_turns for one in find(system, *names)])
    turns = jax.lax.stop_gradient(jnp.round(difference / (2 * jnp.pi)))
    return jnp.where(turning, difference - 2 * jnp.pi * turns, difference)


def _held(system: AbstractSystem, names: tuple[str, ...], goals: Array) -> "_Posed":
    return _Posed(system=system, names=names, goals=goals)  # pyright: ignore[reportCallIssue] (q0 and v0 are properties)


class _Posed(AbstractSystem):
    """A system whose observables are held at values, as if by further joints."""

    system: Any
    names: tuple[str, ...] = eqx.field(static=True)
    goals: Float[Array, "names"]

    @property
    def q0(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.q0

    @property
    def v0(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.system.v0

    def mass(self, q):
        return self.system.mass(q)

    def force(self, q, v, t, *rest):
        return self.system.force(q, v, t, *rest)

    def constraint(self, q, t):
        values = _values(self.system, self.names, q, jnp.zeros_like(q), t)
        return jnp.concatenate([self.system.constraint(q, t), _apart(self.system, self.names, values - self.goals)])
