"""What a run gives back."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .results import RESULTS
from .system.contact import ContactLoads
from .system.equations import AbstractSystem
from .system.frames import Frame
from .system.parameters import is_traced, unknown
from .system.reactions import contact_loads, contact_places, joint_reaction
from .system.state import State
from .system.system import System


class SimulationError(RuntimeError):
    """A run that did not reach its end; `solution` holds what there is."""

    def __init__(self, message: str, solution: "Solution"):
        super().__init__(message)
        self.solution = solution


class Energy(NamedTuple):
    kinetic: Float[Array, "rows"]
    """J"""
    potential: Float[Array, "rows"]
    """J"""
    total: Float[Array, "rows"]
    """J"""


class Reaction(eqx.Module):
    """What a joint does to its second body, about the joint's point, in the ground's axes. `force, torque = ...` unpacks it."""

    force: Float[Array, "rows d"]
    """N"""
    torque: Float[Array, "rows ..."]
    """N m; about z in a planar model"""
    unique: bool = eqx.field(static=True)
    """False: the joint is part of a redundant loop, other reactions would give the same motion"""

    def __iter__(self) -> Iterator[Array]:
        return iter((self.force, self.torque))


class Solution(eqx.Module):
    """Saved states and what it cost to get them. Rows are saved times; row 0 is t0.

    Under jit, grad or vmap the number of rows is fixed, and rows beyond the last step repeat it: row -1 is the end in any case.
    """

    system: AbstractSystem
    states: State
    """one row a saved time"""
    final: State
    stats: dict[str, Any]
    """steps, rejected, newton_failures, newton_iterations, jacobians, factorizations, force_evaluations, a_evaluations, b_evaluations;
    of variable-order integrators also steps_of_order_1, ..., steps_of_order_6"""
    result: RESULTS
    blame: Array
    steps: Float[Array, "steps"]
    """s, the accepted step sizes: `simulate(..., step=solution.steps)` replays them. Under jit, zeros follow them."""
    orders: Int[Array, "steps"] | None = None
    """of the accepted steps, if they vary; `BDF(orders=solution.orders)` replays them"""

    @property
    def ts(self) -> Float[Array, "rows"]:
        """s"""
        return self.states.t

    @property
    def q(self) -> Float[Array, "rows q"]:
        return self.states.q

    @property
    def v(self) -> Float[Array, "rows q"]:
        return self.states.v

    @property
    def x(self) -> Float[Array, "rows x"]:
        """differential states"""
        return self.states.x

    @property
    def acceleration(self) -> Float[Array, "rows q"]:
        return self.states.acceleration

    @property
    def multipliers(self) -> Float[Array, "rows m"]:
        return self.states.multipliers

    @property
    def message(self) -> str:
        """How the run ended, in a sentence, with time and worst element if it failed."""
        text = RESULTS[self.result]
        if is_traced(self.result, self.final) or self.final.t.ndim > 0:
            return text
        headline = _headline(self.result)
        if headline:
            where = self.system.describe_unknown(int(self.blame))
            return f"{headline} at t = {float(self.final.t):.6g} s, worst element: {where}; {text}"
        if bool(self.result == RESULTS.max_steps_reached):
            return f"{text} It reached t = {float(self.final.t):.6g} s."
        return text

    def raise_if_failed(self) -> "Solution":
        """Raises (when it runs, under jit) if the run did not reach its end."""
        failed = self.result != RESULTS.successful
        if not is_traced(self):
            if bool(np.any(failed)):
                raise SimulationError(self.message, self)
            return self
        states, final = self.result.error_if((self.states, self.final), failed)
        return eqx.tree_at(lambda s: (s.states, s.final), self, (states, final))

    # --- motion by name -----------------------------------------------------------------------------------------------------------------

    def position(self, body: str) -> Float[Array, "rows d"]:
        """m, of the centre of mass"""
        frame = self._frame(body)
        return frame.position[:, : self._dimension()]

    def velocity(self, body: str) -> Float[Array, "rows d"]:
        """m/s, of the centre of mass"""
        frame = self._frame(body)
        return frame.velocity[:, : self._dimension()]

    def orientation(self, body: str) -> Float[Array, "rows ..."]:
        """Euler parameters, scalar first; the angle [rad] of a planar body or of a rotor"""
        group, _, where = self._body(body)
        if not group.body.has_orientation:
            raise ValueError(f"body {body!r} is a point mass: it has no orientation.")
        turns = self.q[:, where.start + self._dimension() : where.stop]
        return turns[:, 0] if turns.shape[1] == 1 else turns

    def angular_velocity(self, body: str) -> Float[Array, "rows ..."]:
        """rad/s, in the ground's axes; about z for a planar body"""
        spin = self._frame(body).angular_velocity
        return spin[:, 2] if self._dimension() == 2 else spin

    def reaction(self, joint: str) -> Reaction:
        """Force and torque of a joint on its second body, about the joint's point, in the ground's axes."""
        system = self._mechanism("reaction")
        if joint not in system.row_slices():
            raise ValueError(unknown("joint", joint, system.row_slices()))
        force, torque = self._rowwise(eqx.Partial(_reaction, joint=joint))
        # A model that was built from traced numbers could not be analysed: nothing is known to be unique then.
        known = bool(system.redundant_joints)
        unique = not system.redundant or (known and joint not in system.redundant_joints)
        return Reaction(force[:, :2], torque[:, 2], unique) if system.planar else Reaction(force, torque, unique)

    def contact(self, name: str) -> ContactLoads:
        """Gap, normal force, slip, friction and power of a contact; of a group of contacts "name[0]", "name[1]", ... for "name".

        After the rows, arrays of a group have an axis of pairs, and those of pairs with several spots (a box's corners) one of spots.
        """
        system = self._mechanism("contact")
        if name not in contact_places(system):
            raise ValueError(unknown("contact", name, contact_places(system)))
        return self._rowwise(eqx.Partial(_contact, name=name))

    # --- energy and constraints ---------------------------------------------------------------------------------------------------------

    def energy(self) -> Energy:
        """Kinetic and potential energy [J] of every row."""
        kinetic, potential = self._rowwise(_energies)
        return Energy(kinetic, potential, kinetic + potential)

    def constraint_violation(self) -> Float[Array, "rows"]:
        """Largest |Phi| of every row (lengths in m, others in rad)."""
        return self._rowwise(_violation)

    # --- helpers ------------------------------------------------------------------------------------------------------------------------

    def _mechanism(self, what: str) -> System:
        if not isinstance(self.system, System):
            raise ValueError(f"{what} by name needs a Model; these are equations without bodies.")
        return self.system

    def _dimension(self) -> int:
        return 2 if self._mechanism("position").planar else 3

    def _body(self, name: str):
        slices = self._mechanism("a body").body_slices()
        if name not in slices:
            raise ValueError(unknown("body", name, slices))
        return slices[name]

    def _frame(self, name: str) -> Frame:
        self._body(name)
        place = self._mechanism("a body").body_names.index(name)
        frames = self._rowwise(_frames)
        return jax.tree.map(lambda leaf: leaf[:, place], frames)

    def _rowwise(self, function: Callable[[Any, State], Any]) -> Any:
        """function(system, state) of every row, compiled once a function and a power of two of rows."""
        rows = self.ts.shape[0]
        if is_traced(self):
            return jax.vmap(lambda state: function(self.system.recall(state.memory), state))(self.states)
        full = 1 << (rows - 1).bit_length()
        pad = lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], full - rows, axis=0)])  # noqa: E731
        padded = jax.tree.map(lambda leaf: pad(np.asarray(leaf)), self.states)  # numpy: each slice of a JAX array is a program
        values = _map_rows(self.system, padded, function)
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[:rows]), values)


# What `_rowwise` maps stands here by name: a function made anew at each call would be compiled anew.


def _frames(system: System, state: State) -> Frame:
    return system.frames(state.q, state.v)


def _energies(system: AbstractSystem, state: State) -> tuple[Array, Array]:
    kinetic = 0.5 * state.v @ system.mass_product(state.q, state.v)
    return kinetic, system.potential_energy(state.q, state.t)


def _violation(system: AbstractSystem, state: State) -> Array:
    return jnp.max(jnp.abs(system.constraint(state.q, state.t)), initial=0.0)


def _reaction(system: System, state: State, joint: str) -> tuple[Array, Array]:
    return joint_reaction(system, joint, state)


def _contact(system: System, state: State, name: str) -> ContactLoads:
    return contact_loads(system, name, state)


@eqx.filter_jit
def _map_rows(system: AbstractSystem, states: State, function: Callable[[Any, State], Any]) -> Any:
    return jax.vmap(lambda state: function(system.recall(state.memory), state))(states)


def _headline(result: RESULTS) -> str:
    """What happened at a time and to an element; empty if neither is to be named."""
    for code, text in (
        (RESULTS.step_too_small, "step too small"),
        (RESULTS.newton_failed, "Newton's method failed"),
        (RESULTS.singular_configuration, "singular configuration"),
    ):
        if bool(result == code):
            return text
    return ""
