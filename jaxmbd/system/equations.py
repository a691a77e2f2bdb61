"""The equations that every integrator works with, and what a user overrides who has equations and no bodies.

M(q) v' + Phi_q(q, t)^T lambda = Q(q, v, t, x, lambda)        q' = v        Phi(q, t) = 0        x' = g(x, q, v, t)

Constraints of velocities alone, A(q, t) v + b(q, t) = 0, have multipliers too: they come after those of Phi, and A^T after Phi_q^T.
Differential states may have implicit equations d(x', x, q, v, v', lambda, t) = 0 instead, and some of x may be no integrals but variables that
these equations define.
"""

import abc
import inspect
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..solvers import coloring
from ..solvers.linear import solve_once
from .observable import Observable
from .observing import grammar
from .state import Memory
from .workings import AbstractWorkings, initial_states


class AbstractSystem(AbstractWorkings):
    """A mechanical system as equations.

    A subclass has the fields (or properties) `q0`, `v0` and the methods `mass`, `force`, and, as far as it needs them, `constraint`,
    `velocity_constraint` (nonholonomic), `stiff_force` (family B), `potential_energy`, `normalize`, `contact_power`, `switches`. It may also
    say more of its coordinates (`coordinate_lengths`, `coordinate_names`) and a quicker way to solve with M (`solve_mass`). Differential
    states exist if it has `x0` and `state_rate`; then `force` and `stiff_force` receive x as a fourth argument. With
    `force_uses_multipliers = True`, `force` receives the multipliers as its last one.
    """

    q0: eqx.AbstractVar[Array]
    v0: eqx.AbstractVar[Array]
    observables: ClassVar[dict[str, Observable]] = {}
    """What a run can be asked for by name, besides the coordinates: functions of (system, state) as `at.system`, `at.state`."""
    force_uses_multipliers: ClassVar[bool] = False
    """Whether `force` depends on the multipliers, and takes them as its last argument: friction in a constraint. For HHT and BDF."""
    has_stiff_force: ClassVar[bool] = False
    """Whether there is a family B. A class that has the method `stiff_force` says so by that, unless it says otherwise."""
    has_contact_power: ClassVar[bool] = False
    """Whether W is known; by the method `contact_power`, likewise."""
    has_state_equation: ClassVar[bool] = False
    """Whether differential states have implicit equations; by the method `state_equation`, likewise."""
    algebraic: ClassVar[tuple[int, ...]] = ()
    """Which entries of x are no differential states: variables and force states, which `state_equation` defines without their rates."""

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        for method in ("stiff_force", "contact_power", "state_equation"):
            if method in vars(cls) and f"has_{method}" not in vars(cls):
                setattr(cls, f"has_{method}", True)

    @abc.abstractmethod
    def mass(self, q: Float[Array, "q"]) -> Float[Array, "q q"]:
        """M(q). It may be singular where the constraints make up for it."""

    @abc.abstractmethod
    def force(self, q: Array, v: Array, t: Array, *rest: Array) -> Float[Array, "q"]:
        """Q without the stiff part: applied forces (family A) and terms that are quadratic in the velocity. The rest is x, if there are
        differential states, then the multipliers, if `force_uses_multipliers`."""

    def stiff_force(self, q: Array, v: Array, t: Array, *x: Array) -> Float[Array, "q"]:
        """The cheap, stiff part of Q (family B)."""
        return jnp.zeros_like(q)

    def constraint(self, q: Array, t: Array) -> Float[Array, "rows"]:
        """Phi(q, t)."""
        return jnp.zeros(0, q.dtype)

    def velocity_constraint(self, q: Array, v: Array, t: Array) -> Float[Array, "velocity_rows"]:
        """A(q, t) v + b(q, t): what is kept at zero of velocities and does not follow from Phi, such as slip. Linear in v. For HHT and BDF."""
        return jnp.zeros(0, q.dtype)

    def state_rate(self, x: Array, q: Array, v: Array, t: Array) -> Float[Array, "x"]:
        """x' = g(x, q, v, t)."""
        return jnp.zeros_like(x)

    def state_equation(self, rate: Array, x: Array, q: Array, v: Array, a: Array, multipliers: Array, t: Array) -> Float[Array, "x"]:
        """d(x', x, q, v, v', lambda, t), zero for the right x': instead of `state_rate`, for HHT and BDF."""
        return rate - self.state_rate(x, q, v, t)

    def normalize(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Puts coordinates that live on a manifold of their own back on it: at the start, and after steps that no constraint row guards."""
        return q, v

    def potential_energy(self, q: Array, t: Array) -> Float[Array, ""]:
        """J; what `solution.energy()` adds to the kinetic energy. Unknown (NaN) unless a subclass says."""
        return jnp.full((), jnp.nan)

    def contact_power(self, q: Array, v: Array, t: Array, *x: Array) -> Float[Array, "bodies"]:
        """W, the rate at which contacts change each body's energy. Unknown (infinite) unless a subclass says."""
        return jnp.full(1, jnp.inf)

    def switches(self, q: Array, v: Array, t: Array) -> Float[Array, "switches"]:
        """Functions that change their sign where forces have kinks; of a mechanism those of contacts. `control.AtContacts` ends steps there."""
        return jnp.zeros(0)

    def solve_mass(self, q: Array, force: Array) -> Array:
        """The a with M(q) a = force; where M is singular, the one that stays on the coordinates' own manifold (`normalize`)."""
        return solve_once(self.mass(q), force)

    def coordinate_lengths(self) -> tuple[bool, ...]:
        """Which coordinates are lengths: they are measured in the integrator's `length_scale`, the others in radians."""
        return (True,) * self.q0.shape[-1]

    def coordinate_names(self) -> tuple[str, ...]:
        """What a person calls the entries of q; empty if they have no names."""
        return ()

    def observable_names(self) -> list[str]:
        """All names that `solution.observe` understands, without reducers such as "peak:" and without points of bodies."""
        return grammar.names(self)

    def observable_unit(self, name: str) -> str:
        """The unit of what has that name, e.g. `system.observable_unit("rod.vx")`. An error if nothing has."""
        (found,) = grammar.find(self, name)
        return found.observable.unit


def check_shapes(system: AbstractSystem) -> None:
    """Refuses equations whose parts do not fit together; broadcasting would hide it. Looks at one structure only once."""
    leaves, structure = jax.tree.flatten(system)
    key = (structure, tuple(np.shape(leaf) if eqx.is_array_like(leaf) else id(leaf) for leaf in leaves))
    if key in _CHECKED:
        return

    _check_signature(system)

    def shapes(system):
        q, v, t, x = jnp.asarray(system.q0, float), jnp.asarray(system.v0, float), jnp.zeros(()), initial_states(system)
        rows, rolling = jnp.asarray(system.constraint(q, t)), jnp.asarray(system.velocity_constraint(q, v, t))
        multipliers = jnp.concatenate([rows.ravel(), rolling.ravel()])
        return {
            "q0": q,
            "v0": v,
            "mass(q)": jnp.asarray(system.mass(q)),
            "force(q, v, t)": jnp.asarray(applied_force(system, q, v, t, x, multipliers)),
            "stiff_force(q, v, t)": jnp.asarray(system.stiff_force(*_arguments(q, v, t, x))),
            "constraint(q, t)": rows,
            "velocity_constraint(q, v, t)": rolling,
            "x0": x,
            "state_rate(x, q, v, t)": jnp.asarray(system.state_rate(x, q, v, t)),
            "state_equation(...)": jnp.asarray(state_residual(system, x, x, q, v, v, multipliers, t)),
        }

    found = {name: value.shape for name, value in eqx.filter_eval_shape(shapes, system).items()}
    n, x = found["q0"], found["x0"]
    expected = {name: n for name in ("v0", "force(q, v, t)", "stiff_force(q, v, t)")}
    expected |= {"mass(q)": n + n, "state_rate(x, q, v, t)": x, "state_equation(...)": x}
    for name in ("q0", "x0", "constraint(q, t)", "velocity_constraint(q, v, t)"):
        if len(found[name]) != 1:
            raise ValueError(f"{name} of {type(system).__name__} must be a vector, got shape {found[name]}.")
    for name, shape in expected.items():
        if found[name] != shape:
            raise ValueError(f"{name} of {type(system).__name__} must have shape {shape}, got {found[name]}.")
    _CHECKED.add(key)


_CHECKED: set[Any] = set()


def _check_signature(system: AbstractSystem) -> None:
    """A force that names multipliers must say that it wants them."""
    if "multipliers" in inspect.signature(system.force).parameters and not system.force_uses_multipliers:
        raise ValueError(
            f"force of {type(system).__name__} has an argument `multipliers`: write force_uses_multipliers = True in the class, so that it "
            "receives them."
        )


def count_rows(system: AbstractSystem) -> int:
    """Of Phi and of velocity constraints together: as many as multipliers."""
    return len(system.row_lengths())


def holds_positions(system: AbstractSystem) -> Float[Array, "rows"]:
    """1 for rows of Phi, 0 for velocity constraints."""
    rows, rolling = count_rows(system), system.velocity_rows()
    return jnp.asarray(np.arange(rows) < rows - rolling, float)


def refuse_velocity_rows(system: AbstractSystem, what: str) -> None:
    """Refuses velocity constraints by the names of their joints."""
    count, n, rows = system.velocity_rows(), len(system.coordinate_lengths()), count_rows(system)
    names = dict.fromkeys(system.describe_unknown(n + i) for i in range(rows - count, rows))
    if names:
        raise ValueError(f"{what} cannot hold velocities alone, as {', '.join(names)} does; mbd.HHT() and mbd.BDF() can.")


# The functions below are what integrators call. Each is traced once for a system and then reused by every transformation (jit keeps the trace):
# a step mentions the constraints a dozen times, and tracing is most of the waiting before a first run.


@eqx.filter_jit
def mass_product(system: AbstractSystem, q: Array, a: Array) -> Array:
    """M(q) a."""
    return system.mass_product(q, a)


@eqx.filter_jit
def total_force(system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, multipliers: Array | None = None) -> Array:
    """Q of both families. Multipliers are those of the kept rows, zero elsewhere; who has none must have refused `multiplier_forces`."""
    return applied_force(system, q, v, t, x, multipliers) + system.stiff_force(*_arguments(q, v, t, x))


def applied_force(system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, multipliers: Array | None) -> Array:
    """Q of family A, from the arguments that it takes."""
    if not system.multiplier_forces():
        return system.force(*_arguments(q, v, t, x))
    assert multipliers is not None
    return system.force(*_arguments(q, v, t, x), multipliers)


def _arguments(q: Array, v: Array, t: Array, x: Array) -> tuple[Array, ...]:
    return (q, v, t) if x.shape[-1] == 0 else (q, v, t, x)


@eqx.filter_jit
def acceleration_a(system: AbstractSystem, q: Array, v: Array, t: Array, x: Array) -> Array:
    """A of q'' = A + B, for a system without constraints other than its coordinates' own: family A over the mass."""
    return system.solve_mass(q, system.force(*_arguments(q, v, t, x))) + system.own_acceleration(q, v)


@eqx.filter_jit
def acceleration_b(system: AbstractSystem, q: Array, v: Array, t: Array, x: Array) -> Array:
    """B of q'' = A + B: family B over the mass."""
    return system.solve_mass(q, system.stiff_force(*_arguments(q, v, t, x)))


def free_acceleration(system: AbstractSystem, memory: Memory, q: Array, v: Array, t: Array, x: Array) -> tuple[Array, Array]:
    """(q'', x') of a system without multipliers, by all its forces: what an explicit method asks. `memory` is that of the last state."""
    system = system.recall(memory)
    a = acceleration_a(system, q, v, t, x)
    if system.stiff_coordinates():
        a = a + acceleration_b(system, q, v, t, x)
    return a, state_rate(system, x, q, v, t)


@eqx.filter_jit
def largest_contact_power(
    system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, corrected: Array | None = None
) -> Float[Array, ""]:
    """W, of any body. With the arguments of an evaluation of A it is free: XLA computes the contacts once. `corrected` is the velocity that
    bodies have after all, if forces were evaluated with a predicted one."""
    power = system.contact_power(*_arguments(q, v, t, x)) if corrected is None else system.corrected_contact_power(q, v, t, x, corrected)
    return jnp.max(jnp.abs(power), initial=0.0)


@eqx.filter_jit
def state_rate(system: AbstractSystem, x: Array, q: Array, v: Array, t: Array) -> Array:
    """x'."""
    return system.state_rate(x, q, v, t)


@eqx.filter_jit
def state_residual(
    system: AbstractSystem, rate: Array, x: Array, q: Array, v: Array, a: Array, multipliers: Array, t: Array
) -> Float[Array, "x"]:
    """d, zero for the right x'."""
    if system.implicit_states():
        return system.state_equation(rate, x, q, v, a, multipliers, t)
    return rate - state_rate(system, x, q, v, t)


def differential(system: AbstractSystem, like: Array) -> Float[Array, "x"]:
    """1 for differential states, 0 for variables and force states."""
    return jnp.ones(like.shape[-1]).at[np.asarray(system.algebraic_states(), int)].set(0.0)


def refuse_implicit_states(system: AbstractSystem, what: str) -> None:
    """Refuses by name states that have no x' = g(x, q, v, t)."""
    if names := system.implicit_states():
        raise ValueError(
            f"{what} needs x' = g(x, q, v, t) of all states, which {', '.join(names)} has not; mbd.HHT() and mbd.BDF() do not."
        )


@eqx.filter_jit
def constraint(system: AbstractSystem, q: Array, t: Array) -> Float[Array, "rows"]:
    """Phi; zero in place of velocity constraints, which do not hold positions."""
    rows, rolling = system.constraint(q, t), system.velocity_rows()
    return jnp.concatenate([rows, jnp.zeros(rolling, rows.dtype)]) if rolling else rows


@eqx.filter_jit
def constraint_and_force(system: AbstractSystem, q: Array, t: Array, multipliers: Array) -> tuple[Array, Array]:
    """Phi and Phi_q^T lambda; of velocity constraints zero and A^T lambda."""
    rows, pull_back = jax.vjp(lambda q: constraint(system, q, t), q)
    force = pull_back(multipliers)[0]
    if rolling := system.velocity_rows():
        _, pull_back = jax.vjp(lambda v: system.velocity_constraint(q, v, t), jnp.zeros_like(q))
        force = force + pull_back(multipliers[-rolling:])[0]
    return rows, force


def held_and_force(system: AbstractSystem, q: Array, v: Array, t: Array, multipliers: Array) -> tuple[Array, Array]:
    """What a step keeps at zero, Phi and A v + b, and the force of all multipliers."""
    rows, force = constraint_and_force(system, q, t, multipliers)
    if rolling := system.velocity_rows():
        rows = rows.at[-rolling:].set(system.velocity_constraint(q, v, t))
    return rows, force


def constraint_force(system: AbstractSystem, q: Array, t: Array, multipliers: Array) -> Array:
    """Phi_q^T lambda."""
    return constraint_and_force(system, q, t, multipliers)[1]


@eqx.filter_jit
def constraint_jacobian(system: AbstractSystem, q: Array, t: Array) -> Float[Array, "rows q"]:
    """Phi_q, and A below it."""
    n, pattern, rolling = q.shape[0], system.coupling(), system.velocity_rows()
    rows = None if pattern is None else pattern[n : n + count_rows(system)]
    positions = coloring.jacobian(lambda q: constraint(system, q, t), q, rows)
    if not rolling:
        return positions
    velocities = coloring.jacobian(
        lambda v: system.velocity_constraint(q, v, t), jnp.zeros_like(q), None if rows is None else rows[-rolling:]
    )
    return positions.at[-rolling:].set(velocities)


@eqx.filter_jit
def constraint_rate(system: AbstractSystem, q: Array, v: Array, t: Array) -> Array:
    """Phi' = Phi_q v + Phi_t, and A v + b."""
    rates = jax.jvp(lambda q, t: constraint(system, q, t), (q, t), (v, jnp.ones_like(t)))[1]
    if rolling := system.velocity_rows():
        rates = rates.at[-rolling:].set(system.velocity_constraint(q, v, t))
    return rates


@eqx.filter_jit
def constraint_curvature(system: AbstractSystem, q: Array, v: Array, t: Array) -> Array:
    """The part of Phi'' that does not contain the acceleration: (Phi_q v)_q v + 2 Phi_qt v + Phi_tt."""
    return jax.jvp(lambda q, t: constraint_rate(system, q, v, t), (q, t), (v, jnp.ones_like(t)))[1]


@eqx.filter_jit
def constraint_acceleration(system: AbstractSystem, q: Array, v: Array, a: Array, t: Array) -> Array:
    """Phi'' = Phi_q a + (Phi_q v)_q v + 2 Phi_qt v + Phi_tt."""
    return jax.jvp(lambda q, v, t: constraint_rate(system, q, v, t), (q, v, t), (v, a, jnp.ones_like(t)))[1]


def saddle_matrix(mass: Array, jacobian: Array, kept: Array) -> Array:
    """[ M          (D Phi_q)^T ]
    [ D Phi_q      I - D     ]   with D = diag(kept): a dropped row reads multiplier = 0."""
    held = kept[:, None] * jacobian
    return jnp.block([[mass, held.T], [held, jnp.diag(1.0 - kept)]])
