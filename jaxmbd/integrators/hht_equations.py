"""The equations of one step of the Hilber-Hughes-Taylor method, and of its special cases (Negrut et al. 2005)."""

from typing import TYPE_CHECKING, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..solvers import coloring
from ..solvers.scaling import Scaling, held_rows
from ..system.blocks.jacobian import Point, Slopes, motion_jacobian
from ..system.equations import (
    AbstractSystem,
    constraint_jacobian,
    constraint_rate,
    differential,
    held_and_force,
    holds_positions,
    mass_product,
    state_residual,
    total_force,
)
from ..system.state import State
from .common import along_constraints
from .implicit import AbstractMotionEquations, Places

if TYPE_CHECKING:
    from ..system.mechanism import AbstractMechanism


class Averages(eqx.Module):
    """What the method hands from step to step besides the state."""

    acceleration: Float[Numbers, "*runs q"]
    """the averaged acceleration a_n that Newmark's formulas work with"""
    state_rate: Float[Numbers, "*runs x"]
    """the averaged x'; of variables x itself, which is their unknown"""
    h: Float[Numbers, "*runs"]
    """s, the step that led here; 0 at the start"""


SCALINGS = ("full", "accelerations", "positions")
"""Options (c), (b), (a) of the paper, section 2."""


class Coefficients(eqx.Module):
    alpha: Float[Array, ""]
    beta: Float[Array, ""]
    gamma: Float[Array, ""]
    printed_rho: Float[Array, ""] | None = None
    """of (9) with x' as it is; None: x' is averaged as accelerations are, and rho = gamma"""
    scaling: str = eqx.field(static=True, default="full")
    """one of SCALINGS"""

    @property
    def rho(self) -> Array:
        """(9)."""
        return self.gamma if self.printed_rho is None else self.printed_rho

    @property
    def state_alpha(self) -> Array:
        """What alpha is to accelerations, to x'."""
        return self.alpha if self.printed_rho is None else jnp.zeros_like(self.alpha)

    @property
    def error(self) -> Array:
        """(25): local position error = error * h^2 * (a_{n+1} - a_n)."""
        return jnp.abs(self.beta - 1.0 / (6.0 * (1.0 + self.alpha)))

    @property
    def velocity_error(self) -> tuple[Array, Array]:
        """Local velocity error = first * h^2 q''' + second * h^3 q'''', by Taylor's formula; first is zero where gamma = 1/2 - alpha."""
        return _first_order_error(self.gamma, self.alpha)

    @property
    def state_error(self) -> tuple[Array, Array]:
        """The same of differential states: first * h^2 x'' + second * h^3 x'''."""
        return _first_order_error(self.rho, self.state_alpha)

    @property
    def printed_state_error(self) -> Array:
        """(33); kept away from zero for the trapezoidal rule, where it says nothing."""
        return jnp.maximum(jnp.abs(self.rho - 0.5), 1.0 / 12.0)


def _first_order_error(gamma: Array, alpha: Array) -> tuple[Array, Array]:
    """Of y' integrated with weight gamma on the new end, of which 1 + alpha times the new less alpha times the old value is taken."""
    return jnp.abs(gamma + alpha - 0.5), jnp.abs(0.5 * (gamma * (1.0 + 2.0 * alpha) - alpha) - 1.0 / 6.0)


class HHTEquations(AbstractMotionEquations):
    """The equations of one step of size h.

    Unknowns z = (a_{n+1} - a_n, lambda, the same difference of the averaged x'). With q'' = (a_{n+1} + alpha q''_n) / (1 + alpha) and
    Newmark's formulas for q and v, the residuals are the equations of motion at t_{n+1}, the constraints and the differential states'
    equation. `scaling` divides the constraints by beta h^2 (Negrut et al. 2005, (12)). With K, C the derivatives of (M q'' + Phi_q^T lambda - Q)
    by q and v, the scaled iteration matrix is

        [ M/(1+alpha) + gamma h C + beta h^2 K     Phi_q^T     -rho h Q_x              ]
        [ Phi_q                                    0           0                       ]
        [ -(gamma h g_v + beta h^2 g_q)            0           I/(1+alpha) - rho h g_x ]

    (a row that is dropped as redundant reads lambda = 0). Where forces depend on multipliers, the second column is Phi_q^T - Q_lambda. Velocity
    constraints A v + b = 0 hold at t_{n+1} too: over gamma h, their row is A + (beta h / gamma) (A v + b)_q, their column A^T. States with
    implicit equations have the third row of the paper's (12), d_a + gamma h d_v + beta h^2 d_q, d_lambda, d_x' + rho h d_x; of variables
    and force states the unknown is the change of x itself, without rho h.
    That is option (c) of the paper, "full". In option (b), "accelerations", the second row is Phi itself; in (a), "positions", the unknowns
    are the changes of q and x besides: the first column is divided by beta h^2, the last by rho h.
    """

    system: AbstractSystem
    c: Coefficients
    old: State
    h: Float[Array, ""]
    v: Float[Array, "q"]
    """v_n"""
    a: Float[Array, "q"]
    """a_n"""
    rate: Float[Array, "x"]
    """the averaged x'_n; x'_n itself if rho was given; x_n of variables"""

    @staticmethod
    def of_step(system: AbstractSystem, c: Coefficients, old: State, h: Array) -> "HHTEquations":
        averages: Averages = old.method
        # a_n stands for the time t_n + alpha h_{n-1}: after a change of step it is moved to t_n + alpha h, or the step loses an order.
        # Growth beyond a factor 2 is not followed: moving it farther amplifies the constraints' accelerations (unstable at 3).
        ratio = jnp.where(averages.h > 0, jnp.minimum(h / jnp.where(averages.h > 0, averages.h, 1.0), 2.0), 1.0)
        a = old.acceleration + ratio * (averages.acceleration - old.acceleration)
        system = system.recall(old.memory)
        rate = old.state_rate + ratio * (averages.state_rate - old.state_rate)
        if system.algebraic_states():
            rate = jnp.where(differential(system, rate) > 0, rate, old.x)
        v = _velocity(system, old, ratio) if system.multiplier_forces() else old.v
        return HHTEquations(system, c, old, h, v, a, rate)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of coordinates and of constraint rows."""
        return self.old.q.shape[0], self.old.multipliers.shape[0]

    @property
    def t(self) -> Array:
        return self.old.t + self.h

    @property
    def integrals(self) -> Float[Array, "x"]:
        """1 for differential states, 0 for variables and force states."""
        return differential(self.system, self.rate)

    def split(self, z: Array) -> tuple[Array, Array, Array]:
        n, m = self.sizes
        return z[:n], z[n : n + m], z[n + m :]

    def unknowns(self, a: Array, multipliers: Array, rate: Array) -> Array:
        """z of given averaged accelerations, multipliers and averaged x'."""
        return jnp.concatenate([a - self.a, multipliers, rate - self.rate])

    def unknowns_of(self, state: State) -> Array:
        return self.unknowns(state.method.acceleration, state.multipliers, state.method.state_rate)

    def first_guess(self) -> Array:
        """Where a Newton method begins that knows no more than the last state."""
        return self.unknowns(self.a, self.old.multipliers, self.rate)

    def new_state(self, z: Array) -> State:
        da, multipliers, dr = self.split(z)
        old, h, c = self.old, self.h, self.c
        x = old.x + h * (self.rate + c.rho * dr)  # (9a)
        rate = (self.rate + dr + c.state_alpha * old.state_rate) / (1.0 + c.state_alpha)
        if self.system.algebraic_states():
            integrals = self.integrals
            x, rate = jnp.where(integrals > 0, x, self.rate + dr), integrals * rate
        return State(
            self.t,
            old.q + h * self.v + h**2 * (0.5 * self.a + c.beta * da),  # (2a)
            self.v + h * (self.a + c.gamma * da),  # (2b)
            x,
            multipliers,
            (self.a + da + c.alpha * old.acceleration) / (1.0 + c.alpha),
            rate,
            old.memory,
            Averages(self.a + da, self.rate + dr, h),
        )

    def residual(self, z: Array) -> Array:
        new, kept = self.new_state(z), self.old.memory.kept_rows
        rows, pull = held_and_force(self.system, new.q, new.v, new.t, kept * new.multipliers)
        force = total_force(self.system, new.q, new.v, new.t, new.x, kept * new.multipliers)
        motion = mass_product(self.system, new.q, new.acceleration) + pull - force
        held = kept * rows + (1.0 - kept) * new.multipliers
        states = state_residual(self.system, new.state_rate, new.x, new.q, new.v, new.acceleration, kept * new.multipliers, new.t)
        return jnp.concatenate([motion, held, states])

    def scaling(self) -> Scaling:
        """Constraints over beta h^2, those of velocities over gamma h; unknowns are accelerations, multipliers and rates, which do not depend on
        h. Or another of `SCALINGS`."""
        (n, m), one, drift = self.sizes, jnp.ones(()), self.c.beta * self.h**2
        rows = jnp.ones(n + m + self.rate.shape[0])
        columns = jnp.ones_like(rows)
        if self.c.scaling == "full":
            slope = jnp.where(holds_positions(self.system) > 0, drift, self.c.gamma * self.h)
            rows = rows.at[n : n + m].set(held_rows(self.old.memory.kept_rows, slope, one))
        elif self.c.scaling == "positions":
            moved = jnp.where(self.integrals > 0, self.c.rho * self.h, 1.0)
            columns = columns.at[:n].set(1.0 / drift).at[n + m :].set(1.0 / moved)
        return Scaling(rows, columns)

    def fields(self) -> dict[str, slice]:
        """Where the unknowns are."""
        (n, m), x = self.sizes, self.rate.shape[0]
        return {"acceleration": slice(0, n), "multipliers": slice(n, n + m), "state_rate": slice(n + m, n + m + x)}

    def violation(self, residual: Array) -> Array:
        """|Phi| of the kept rows, and how far velocities that are not held would move in the step, from an unscaled residual."""
        _, held, _ = self.split(residual)
        return jnp.abs(self.old.memory.kept_rows * held) * jnp.where(holds_positions(self.system) > 0, 1.0, self.h)

    def places(self) -> Places:
        where = self.fields()
        return Places(where["acceleration"], where["acceleration"], where["multipliers"], 1.0 / (1.0 + self.c.alpha))

    def algebra(self):
        return self.system.algebra()

    def jacobian(self, z: Array) -> Array:
        (n, m), kept = self.sizes, self.old.memory.kept_rows
        if self.system.blocks() is not None:
            return self._blocks(z)
        pattern = self.system.coupling()
        moving = coloring.jacobian(lambda da: self.residual(jnp.concatenate([da, z[n:]])), z[:n], pattern)
        if self.system.multiplier_forces() or self.system.implicit_states():
            pulling = jax.jacfwd(lambda pull: self.residual(z.at[n : n + m].set(pull)))(z[n : n + m])
        else:
            if self.system.velocity_rows():
                new = self.new_state(z)
                held = kept[:, None] * constraint_jacobian(self.system, new.q, new.t)
            else:
                held = moving[n : n + m] / (self.c.beta * self.h**2)  # kept * Phi_q: its transpose is the next column
            pulling = jnp.concatenate([held.T, jnp.diag(1.0 - kept), jnp.zeros((z.shape[0] - n - m, m))])
        columns = [moving, pulling]
        if z.shape[0] > n + m:
            columns.append(jax.jacfwd(lambda dr: self.residual(jnp.concatenate([z[: n + m], dr])))(z[n + m :]))
        return jnp.concatenate(columns, axis=1)

    def _blocks(self, z: Array) -> Array:
        new, kept, h, c = self.new_state(z), self.old.memory.kept_rows, self.h, self.c
        at = Point(new.t, new.q, new.v, new.acceleration, new.x, kept * new.multipliers, kept)
        place = c.beta * h**2
        slopes = Slopes(place, c.gamma * h, 1.0 / (1.0 + c.alpha), c.rho * h, 1.0 / (1.0 + c.state_alpha), place)
        return motion_jacobian(cast("AbstractMechanism", self.system), at, slopes)


def _velocity(system: AbstractSystem, old: State, ratio: Array) -> Array:
    """v_n for a step that is `ratio` times the last one.

    Positions satisfy the constraints, so that across them accurate accelerations and (2a) leave v_n = q' + (1/6 - alpha/2 - beta) h^2 j, with
    the third derivative j. A v_n that belongs to another h makes accelerations and multipliers wrong by about h j for some steps. The motion
    does not feel that, unless forces depend on multipliers: then the part across the constraints is made to fit.
    """
    drive = constraint_rate(system, old.q, jnp.zeros_like(old.v), old.t)
    along = along_constraints(system, old, old.v, drive)
    return along + ratio**2 * (old.v - along)
