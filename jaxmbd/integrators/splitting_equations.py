"""The equations of one step of the splitting scheme: what stiff forces add, and what holds joints that have multipliers."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..solvers.linear import solve_once
from ..system.equations import AbstractSystem, acceleration_b, constraint, constraint_jacobian, constraint_rate, count_rows
from ..system.state import State
from .implicit import AbstractStepEquations


class SplittingEquations(AbstractStepEquations):
    """What B adds to one step of (5). Unknown is B_{n+beta}, as accelerations along and about the bodies' own axes (`to_motion`), of the bodies
    that it touches; the others have none.

    With z = (q, v, t) and the beta point z_n + beta (z_{n+1} - z_n), the residual is y - B_{n+beta}, its Jacobian
    I - beta h^2/2 B_q - beta h B_v. In axes that turn with the bodies the slopes of a penalty joint hardly change, and one factorisation serves
    for many steps; in the coordinates of a turning body an old one mixes stiff directions, where it is large, with free ones.
    """

    part: AbstractSystem
    """only those bodies, and what is stiff between them"""
    touched: tuple[int, ...] = eqx.field(static=True)
    """their coordinates among those of the whole system"""
    beta: Float[Array, ""]
    h: Float[Array, ""]
    t: Float[Array, ""]
    q: Float[Array, "touched"]
    v: Float[Array, "touched"]
    x: Float[Array, "x"]
    """at the beta point"""
    explicit: Float[Array, "touched"]
    """A_{n+alpha}"""

    @staticmethod
    def of(system: AbstractSystem, beta: Array, old: State, h: Array, explicit: Array, rate: Array) -> "SplittingEquations":
        touched, states = (np.asarray(index, int) for index in (system.stiff_coordinates(), system.stiff_states()))
        x, places = old.x[states] + beta * h * rate[states], tuple(touched.tolist())
        return SplittingEquations(system.stiff_part(), places, beta, h, old.t, old.q[touched], old.v[touched], x, explicit[touched])

    def acceleration(self, y: Array) -> Float[Array, "touched"]:
        """A + B of the coordinates."""
        return self.explicit + self.part.from_motion(self.q, y)

    def residual(self, y: Array) -> Array:
        a, ahead = self.acceleration(y), self.beta * self.h
        # Between two orientations there is none: the beta point is normalised.
        q, v = self.part.normalize(self.q + ahead * (self.v + 0.5 * self.h * a), self.v + ahead * a)
        return y - self.part.to_motion(self.q, acceleration_b(self.part, q, v, self.t + ahead, self.x))

    def known_motion(self) -> Array:
        """A_{n+alpha} along and about the bodies' axes."""
        return self.part.to_motion(self.q, self.explicit)

    def unknowns_of(self, state: State) -> Array:
        return self.part.to_motion(self.q, self.touched_of(state.acceleration) - self.explicit)

    def touched_of(self, values: Float[Array, "q"]) -> Float[Array, "touched"]:
        return values[np.asarray(self.touched, int)]


def spread(system: AbstractSystem, explicit: Array, of_touched: Array) -> Float[Array, "q"]:
    """The accelerations of all coordinates: those of the touched ones, A of the others."""
    n, touched = explicit.shape[0], np.asarray(system.stiff_coordinates(), int)
    if touched.shape[0] == n:
        return of_touched
    # A gather with a static index: scattering takes XLA a loop.
    place = np.full(n, touched.shape[0])
    place[touched] = np.arange(touched.shape[0])
    return jnp.where(np.isin(np.arange(n), touched), jnp.append(of_touched, 0.0)[place], explicit)


# --- joints with multipliers ----------------------------------------------------------------------------------------------------------------


class Held(NamedTuple):
    """What multipliers do at a configuration."""

    rows: Float[Array, "rows q"]
    """Phi_q of the kept rows of joints, zero elsewhere"""
    pull: Float[Array, "rows q"]
    """the acceleration by a unit multiplier of each, with the sign of Phi_q^T"""
    kept: Float[Array, "rows"]

    @staticmethod
    def at(system: AbstractSystem, q: Array, t: Array, kept_rows: Array) -> "Held":
        """The coordinates' own rows have no multipliers here: `normalize` takes care of them, and `solve_mass` stays on their manifold."""
        count = count_rows(system)
        kept = kept_rows * (np.arange(count) < count - system.own_rows())
        rows = kept[:, None] * constraint_jacobian(system, q, t)
        return Held(rows, jax.vmap(lambda row: system.solve_mass(q, row))(rows), kept)


class ConstrainedSplitting(AbstractStepEquations):
    """One step of (5) where constraints hold, with unknowns (y, lambda): y as in `SplittingEquations`, multipliers such that positions satisfy
    Phi at the end of the step.

        q_{n+1} = q_n + h v_n + h^2/2 a        a = A_{n+alpha} + B_{n+beta} - M^-1 Phi_q^T lambda

    The directions M^-1 Phi_q^T are those at q_n + h/2 v_n: velocities, which keep h a, are then second order (with directions of either end
    they would be first order).

        [ I - beta h^2/2 B_q - beta h B_v    (beta h^2/2 B_q + beta h B_v) M^-1 Phi_q^T ]
        [ Phi_q                              -Phi_q M^-1 Phi_q^T                        ]
    """

    stiff: SplittingEquations | None
    """None: there is no B"""
    system: AbstractSystem
    h: Float[Array, ""]
    t: Float[Array, ""]
    """s, at the end"""
    q: Float[Array, "q"]
    v: Float[Array, "q"]
    explicit: Float[Array, "q"]
    """A_{n+alpha}"""
    held: Held

    @staticmethod
    def of(system: AbstractSystem, stiff: SplittingEquations | None, old: State, h: Array, explicit: Array) -> "ConstrainedSplitting":
        middle, _ = system.normalize(old.q + 0.5 * h * old.v, old.v)
        held = Held.at(system, middle, old.t + 0.5 * h, old.memory.kept_rows)
        return ConstrainedSplitting(stiff, system, h, old.t + h, old.q, old.v, explicit, held)

    def split(self, z: Array) -> tuple[Array, Array]:
        """(y, lambda)"""
        rows = self.held.kept.shape[0]
        return z[: z.shape[0] - rows], z[z.shape[0] - rows :]

    def acceleration(self, z: Array) -> Float[Array, "q"]:
        """A + B and what multipliers do, of all coordinates."""
        y, multipliers = self.split(z)
        free = self.explicit if self.stiff is None else spread(self.system, self.explicit, self.stiff.acceleration(y))
        return free - multipliers @ self.held.pull

    def residual(self, z: Array) -> Array:
        (y, multipliers), kept = self.split(z), self.held.kept
        q, _ = self.system.normalize(self.q + self.h * (self.v + 0.5 * self.h * self.acceleration(z)), self.v)
        rows = kept * constraint(self.system, q, self.t) * (2.0 / self.h**2) + (1.0 - kept) * multipliers
        if self.stiff is None:
            return rows
        pushed = self.stiff.explicit - self.stiff.touched_of(multipliers @ self.held.pull)
        return jnp.concatenate([dataclasses.replace(self.stiff, explicit=pushed).residual(y), rows])

    def unknowns_of(self, state: State) -> Array:
        if self.stiff is None:
            return state.multipliers
        free = dataclasses.replace(state, acceleration=state.acceleration + state.multipliers @ self.held.pull)
        return jnp.concatenate([self.stiff.unknowns_of(free), state.multipliers])


def hold_velocity(system: AbstractSystem, q: Array, v: Array, t: Array, kept_rows: Array) -> Float[Array, "q"]:
    """The velocity nearest to v, in the metric of the mass matrix, that satisfies Phi_q v + Phi_t = 0."""
    held = Held.at(system, q, t, kept_rows)
    matrix = held.rows @ held.pull.T + jnp.diag(1.0 - held.kept)
    return v - solve_once(matrix, held.kept * constraint_rate(system, q, v, t)) @ held.pull
