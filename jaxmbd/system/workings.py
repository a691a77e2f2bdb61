"""What integrators and observers ask of a system besides its equations, with the answers for equations without bodies."""

from typing import TYPE_CHECKING, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..solvers.algebra import DENSE, AbstractAlgebra
from .observing.energy import Flows, flows_of_equations
from .observing.views import Owner, owners_of_equations
from .state import Memory, State

if TYPE_CHECKING:
    from .blocks.structure import Structure
    from .equations import AbstractSystem


class AbstractWorkings(eqx.Module):
    """The part of an `AbstractSystem` that nobody writes who has equations of his own: all of it follows from these. A mechanism, and a system
    in other coordinates, know better."""

    @property
    def _equations(self) -> "AbstractSystem":
        return cast("AbstractSystem", self)

    def workers(self) -> tuple[str, ...]:
        """What changes the energy, by name."""
        return "forces", "constraints"

    def owners(self) -> dict[str, Owner]:
        """By name, what has quantities that a run can be asked for."""
        return owners_of_equations(self._equations)

    def parameter_names(self) -> list[str]:
        """All names that `get` and `set` understand, of systems that have these."""
        return []

    def efforts(self, state: State) -> Float[Array, "efforts"]:
        """What constraints that depend on time work with, at rows; in between, `flows` gets interpolated ones."""
        return state.multipliers

    def flows(self, state: State, efforts: Array) -> Flows:
        """What each of them stores and supplies."""
        return flows_of_equations(self._equations, state, efforts)

    def mass_product(self, q: Array, a: Array) -> Array:
        return self._equations.mass(q) @ a

    def multiplier_forces(self) -> tuple[str, ...]:
        """Descriptions of what makes `force` depend on multipliers, which it then takes as its last argument."""
        return (f"force(q, v, t, multipliers) of {type(self).__name__}",) if self._equations.force_uses_multipliers else ()

    def corrected_contact_power(self, q: Array, v: Array, t: Array, x: Array, corrected: Array) -> Float[Array, "bodies"]:
        """W of contact forces that were evaluated with the velocity v, on bodies that move with `corrected`. Equations of one's own say the
        power of forces and velocity together: they are asked with the latter."""
        return self._equations.contact_power(q, corrected, t, *(() if x.shape[-1] == 0 else (x,)))

    def implicit_states(self) -> tuple[str, ...]:
        """Descriptions of what gives states implicit equations or makes them variables."""
        return (f"state_equation of {type(self).__name__}",) if self._equations.has_state_equation else ()

    def algebraic_states(self) -> tuple[int, ...]:
        """Places in x of what is no differential state."""
        return self._equations.algebraic

    def own_acceleration(self, q: Array, v: Array) -> Array:
        """What the coordinates' own manifold adds to the acceleration; Euler parameters: -(p'.p') p."""
        return jnp.zeros_like(q)

    def own_rows(self) -> int:
        """How many constraint rows, the last ones, are nothing but the coordinates' own manifold: `normalize` takes care of them."""
        return 0

    def motion_lengths(self) -> tuple[bool, ...]:
        """Which entries of `to_motion` are lengths."""
        return self._equations.coordinate_lengths()

    def motion_coordinates(self) -> tuple[int, ...]:
        """For each entry of `to_motion` a coordinate that it moves."""
        return tuple(range(self._equations.q0.shape[-1]))

    def to_motion(self, q: Array, rates: Array) -> Array:
        """Rates of the coordinates as rates along and about each body's own axes, where joints have nearly constant slopes."""
        return rates

    def from_motion(self, q: Array, motion: Array) -> Array:
        """The rates that `to_motion` turns into this."""
        return motion

    def move(self, q: Array, motion: Array) -> Array:
        """The configuration after a motion from q on, in the directions of `to_motion`. Turning evenly about an axis is a straight line."""
        return q + motion

    def sizes(self, q: Array) -> Array:
        """What a relative error of each coordinate is relative to."""
        return jnp.abs(q)

    @property
    def base(self) -> "AbstractSystem":
        """The system whose equations these are, in other coordinates."""
        return self._equations

    def unfold(self, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
        """Coordinates of `base` and their first two derivatives by time."""
        return q, v, a

    def push(self, q: Array, columns: Float[Array, "q k"]) -> Array:
        """Small motions as motions of `base`."""
        return columns

    def pull(self, q: Array, columns: Array) -> Float[Array, "q k"]:
        """Forces on `base` as forces on these coordinates."""
        return columns

    def stiff_part(self) -> "AbstractSystem":
        """Those bodies that family B touches, with what is stiff between them: its coordinates are `stiff_coordinates()`, its differential
        states `stiff_states()`."""
        return self._equations

    def stiff_states(self) -> tuple[int, ...]:
        """The differential states that `stiff_force` depends on."""
        return tuple(range(initial_states(self._equations).shape[-1]))

    def stiff_coordinates(self) -> tuple[int, ...]:
        """The coordinates that `stiff_force` depends on or acts on."""
        return tuple(range(self._equations.q0.shape[-1])) if self._equations.has_stiff_force else ()

    def coordinate_bodies(self) -> tuple[int, ...]:
        """The number of the body that each coordinate belongs to; a user's own equations are one body."""
        return (0,) * self._equations.q0.shape[-1]

    def row_lengths(self) -> tuple[bool, ...]:
        """Which constraint rows are lengths."""
        shape = eqx.filter_eval_shape(lambda s: s.constraint(s.q0, jnp.zeros(())), self).shape
        if len(shape) != 1:
            raise ValueError(f"constraint(q, t) must return a vector, got shape {shape}.")
        return (True,) * (shape[0] + self.velocity_rows())

    def velocity_rows(self) -> int:
        """How many constraint rows, the last ones, hold velocities alone: those of `velocity_constraint`."""
        shape = eqx.filter_eval_shape(lambda s: s.velocity_constraint(s.q0, s.v0, jnp.zeros(())), self).shape
        return shape[0] if shape else 1

    def essential_rows(self) -> tuple[bool, ...]:
        """Which constraint rows are never dropped as redundant."""
        return (False,) * len(self.row_lengths())

    def coupling(self) -> np.ndarray | None:
        """Which equations (of motion, constraint rows, differential states) may depend on which coordinates; None: all on all."""
        return None

    def blocks(self) -> "Structure | None":
        """The equations as a graph of small blocks, if they are to be solved so; None: by dense matrices."""
        return None

    def algebra(self) -> AbstractAlgebra:
        """Of matrices with the pattern of the equations, for unknowns (of motion, multipliers, of states)."""
        return DENSE

    def mean_inertia(self, q: Array) -> Float[Array, ""]:
        """The mean of the diagonal of M."""
        return jnp.mean(jnp.diagonal(self._equations.mass(q)))

    def may_be_redundant(self) -> bool:
        """Whether rows of Phi may depend on each other, so that integrators must look for a subset that does not."""
        return False

    def freedoms(self) -> int | None:
        """How many coordinates are independent; None if that depends on numbers that are not known yet."""
        return None if self.may_be_redundant() else self._equations.q0.shape[-1] - len(self.row_lengths())

    def nameless(self) -> "AbstractSystem":
        """The same system for the compiler: a program that was compiled for it serves all that differ in names only."""
        return self._equations

    def prepare(self) -> "AbstractSystem":
        """The same system with everything done that need not be done every step."""
        return self._equations

    def recall(self, memory: Memory) -> "AbstractSystem":
        """The same system seen from a state that remembers this."""
        return self._equations

    def angles(self, q: Array) -> Float[Array, "angles"]:
        """The relative angles over full turns, as seen from what was last recalled."""
        return jnp.zeros(0)

    def first_angles(self) -> Float[Array, "angles"]:
        """The same in the initial configuration, from which they count."""
        return jnp.zeros_like(self.angles(self._equations.q0))

    def describe_unknown(self, index: int) -> str:
        """Names the coordinate or row behind an entry of (q, multipliers, x)."""
        n, m = self._equations.q0.shape[-1], len(self.row_lengths())
        if index < n:
            return f"coordinate {index}"
        if (row := index - n - m + self.velocity_rows()) >= 0 and index < n + m:
            return f"velocity constraint {row}"
        return f"constraint row {index - n}" if index < n + m else f"differential state {index - n - m}"


def initial_states(system: "AbstractSystem") -> Float[Array, "x"]:
    """x0, empty if the system has no differential states."""
    return jnp.asarray(getattr(system, "x0", jnp.zeros(0)), dtype=float)
