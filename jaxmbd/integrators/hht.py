"""The Hilber-Hughes-Taylor method for index-3 equations, with Newmark's and the trapezoidal rule as special cases."""

import dataclasses
import warnings
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..control import AbstractController, LocalError
from ..solvers import coloring, linear
from ..solvers.newton import NewtonInfo, Recycled, implicit_root, modified_newton
from ..solvers.scaling import Scaling, held_rows
from ..system.equations import (
    AbstractSystem,
    constraint_and_force,
    count_rows,
    largest_contact_power,
    mass_product,
    state_rate,
    total_force,
)
from ..system.parameters import Parameter, is_traced, positive, read_all
from ..system.state import State
from .base import AbstractIntegrator, StepInfo, Work
from .common import coordinate_weights, frozen, normalized, rms
from .interpolation import hermite, place_in_step, state_between
from .prediction import History

_CONSTRAINT_TOLERANCE = 1e-10
_ROUNDING = 1e-14
_CLOSE = 0.35
"""A Jacobian is recycled while the logarithm of the ratio of step sizes is below this."""
_PRECISE = 1e-12
"""Position error that Newton may leave in prescribed steps: small enough for finite differences of replayed runs."""


class Carried(eqx.Module):
    """What the method hands from step to step besides the state."""

    acceleration: Float[Array, "q"]
    """the averaged acceleration a_n that Newmark's formulas work with"""
    state_rate: Float[Array, "x"]
    """the averaged x'"""
    h: Float[Array, ""]
    """s, the step that led here; 0 at the start"""


class Scratch(eqx.Module):
    history: History
    recycled: Recycled
    recycled_h: Float[Array, ""]
    largest_q: Float[Array, "q"]
    """largest |q| so far, for the error weights (34)"""
    largest_x: Float[Array, "x"]


class Coefficients(eqx.Module):
    alpha: Float[Array, ""]
    beta: Float[Array, ""]
    gamma: Float[Array, ""]

    @property
    def error(self) -> Array:
        """(25): local position error = error * h^2 * (a_{n+1} - a_n)."""
        return jnp.abs(self.beta - 1.0 / (6.0 * (1.0 + self.alpha)))

    @property
    def state_error(self) -> Array:
        """(33), with rho = gamma; kept away from zero for the trapezoidal rule, where (33) says nothing."""
        return jnp.maximum(jnp.abs(self.gamma - 0.5), 1.0 / 12.0)


class Equations(eqx.Module):
    """The equations of one step of size h.

    Unknowns z = (a_{n+1} - a_n, lambda, the same difference of the averaged x'). With q'' = (a_{n+1} + alpha q''_n) / (1 + alpha) and
    Newmark's formulas for q and v, the residuals are the equations of motion at t_{n+1}, the constraints and the differential states'
    equation. `scaling` divides the constraints by beta h^2 (paper 004, (12)). With K, C the derivatives of (M q'' + Phi_q^T lambda - Q) by q
    and v, the scaled iteration matrix is

        [ M/(1+alpha) + gamma h C + beta h^2 K     Phi_q^T     -rho h Q_x              ]
        [ Phi_q                                    0           0                       ]
        [ -(gamma h g_v + beta h^2 g_q)            0           I/(1+alpha) - rho h g_x ]

    (a row that is dropped as redundant reads lambda = 0).
    """

    system: AbstractSystem
    c: Coefficients
    old: State
    h: Float[Array, ""]
    a: Float[Array, "q"]
    """a_n"""
    rate: Float[Array, "x"]
    """the averaged x'_n"""

    @staticmethod
    def of_step(system: AbstractSystem, c: Coefficients, old: State, h: Array) -> "Equations":
        carried: Carried = old.method
        # a_n stands for the time t_n + alpha h_{n-1}: after a change of step it is moved to t_n + alpha h, or the step loses an order.
        # Growth beyond a factor 2 is not followed: moving it farther amplifies the constraints' accelerations (unstable at 3).
        ratio = jnp.where(carried.h > 0, jnp.minimum(h / jnp.where(carried.h > 0, carried.h, 1.0), 2.0), 1.0)
        a = old.acceleration + ratio * (carried.acceleration - old.acceleration)
        rate = old.state_rate + ratio * (carried.state_rate - old.state_rate)
        return Equations(system.recall(old.memory), c, old, h, a, rate)

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of coordinates and of constraint rows."""
        return self.old.q.shape[0], self.old.multipliers.shape[0]

    @property
    def t(self) -> Array:
        return self.old.t + self.h

    def split(self, z: Array) -> tuple[Array, Array, Array]:
        n, m = self.sizes
        return z[:n], z[n : n + m], z[n + m :]

    def unknowns(self, a: Array, multipliers: Array, rate: Array) -> Array:
        """z of given averaged accelerations, multipliers and averaged x'."""
        return jnp.concatenate([a - self.a, multipliers, rate - self.rate])

    def first_guess(self) -> Array:
        """Where a Newton method begins that knows no more than the last state."""
        return self.unknowns(self.a, self.old.multipliers, self.rate)

    def new_state(self, z: Array) -> State:
        da, multipliers, dr = self.split(z)
        old, h, c = self.old, self.h, self.c
        return State(
            self.t,
            old.q + h * old.v + h**2 * (0.5 * self.a + c.beta * da),  # (2a)
            old.v + h * (self.a + c.gamma * da),  # (2b)
            old.x + h * (self.rate + c.gamma * dr),  # (9a)
            multipliers,
            (self.a + da + c.alpha * old.acceleration) / (1.0 + c.alpha),
            (self.rate + dr + c.alpha * old.state_rate) / (1.0 + c.alpha),
            old.memory,
            Carried(self.a + da, self.rate + dr, h),
        )

    def residual(self, z: Array) -> Array:
        new, kept = self.new_state(z), self.old.memory.kept_rows
        rows, pull = constraint_and_force(self.system, new.q, new.t, kept * new.multipliers)
        force = total_force(self.system, new.q, new.v, new.t, new.x)
        motion = mass_product(self.system, new.q, new.acceleration) + pull - force
        held = kept * rows + (1.0 - kept) * new.multipliers
        rate = new.state_rate - state_rate(self.system, new.x, new.q, new.v, new.t)
        return jnp.concatenate([motion, held, rate])

    def scaling(self) -> Scaling:
        """Constraints over beta h^2; unknowns are accelerations, multipliers and rates, which do not depend on h."""
        (n, m), one = self.sizes, jnp.ones(())
        rows = jnp.ones(n + m + self.rate.shape[0])
        rows = rows.at[n : n + m].set(held_rows(self.old.memory.kept_rows, self.c.beta * self.h**2, one))
        return Scaling(rows, jnp.ones_like(rows))

    def fields(self) -> dict[str, slice]:
        """Where the unknowns are."""
        (n, m), x = self.sizes, self.rate.shape[0]
        return {"acceleration": slice(0, n), "multipliers": slice(n, n + m), "state_rate": slice(n + m, n + m + x)}

    def violation(self, residual: Array) -> Array:
        """|Phi| of the kept rows, from an unscaled residual."""
        _, held, _ = self.split(residual)
        return jnp.abs(self.old.memory.kept_rows * held)

    def jacobian(self, z: Array) -> Array:
        (n, m), kept = self.sizes, self.old.memory.kept_rows
        pattern = self.system.coupling()
        moving = coloring.jacobian(lambda da: self.residual(jnp.concatenate([da, z[n:]])), z[:n], pattern)
        held = moving[n : n + m] / (self.c.beta * self.h**2)  # kept * Phi_q: its transpose is the next column
        pulling = jnp.concatenate([held.T, jnp.diag(1.0 - kept), jnp.zeros((z.shape[0] - n - m, m))])
        columns = [moving, pulling]
        if z.shape[0] > n + m:
            columns.append(jax.jacfwd(lambda dr: self.residual(jnp.concatenate([z[: n + m], dr])))(z[n + m :]))
        return jnp.concatenate(columns, axis=1)


class AbstractNewmark(AbstractIntegrator):
    """What HHT, Newmark and Trapezoidal share: all but the coefficients."""

    tolerance: eqx.AbstractVar[Float[Array, ""]]
    length_scale: eqx.AbstractVar[Float[Array, ""]]
    state_scale: eqx.AbstractVar[Float[Array, ""]]
    corrector: eqx.AbstractVar[Float[Array, ""]]
    order: ClassVar[int] = 2
    even_end: ClassVar[bool] = True
    reports_power: ClassVar[bool] = True
    # A step that is r times the last one multiplies the errors of accelerations and multipliers by about 1 / r^2.

    def coefficients(self) -> Coefficients:
        raise NotImplementedError

    def default_controller(self) -> AbstractController:
        return LocalError()

    def check(self, system: AbstractSystem) -> None:
        c, name = self.coefficients(), type(self).__name__
        second_order = not is_traced(c) and float(c.gamma + c.alpha) <= 0.5 + 1e-6
        damped = not is_traced(c) and float(c.gamma) > 0.5 + 1e-6
        if is_traced(c) or (second_order and damped) or count_rows(system) == 0:
            return
        if not damped:
            warnings.warn(
                f"{name} with alpha = 0 and gamma = 1/2 is the trapezoidal rule, which is unstable on constraints with multipliers (index "
                "3): errors grow after some seconds. Use HHT with alpha < 0, or penalty joints.",
                stacklevel=4,
            )
        else:
            warnings.warn(
                f"{name} with gamma > 1/2 is only first order; on constraints with multipliers HHT damps as much at second order.",
                stacklevel=4,
            )

    def precise(self):
        return eqx.tree_at(lambda s: s.corrector, self, jnp.minimum(self.corrector, _PRECISE / self.tolerance))

    # --- start ------------------------------------------------------------------------------------------------------------------------

    def init(self, system: AbstractSystem, state: State) -> tuple[State, Scratch]:
        carried = Carried(state.acceleration, state.state_rate, jnp.zeros(()))
        state = dataclasses.replace(state, method=carried)
        unknowns = jnp.concatenate([carried.acceleration, state.multipliers, carried.state_rate])
        scratch = Scratch(
            History.begin(state.t, unknowns),
            Recycled(linear.no_factors(unknowns.shape[0]), jnp.array(False)),
            jnp.zeros(()),
            jnp.abs(state.q),
            jnp.abs(state.x),
        )
        return state, frozen(scratch)

    def first_step(self, system: AbstractSystem, state: State) -> Array:
        weight = coordinate_weights(system, self.length_scale, jnp.abs(state.q))
        speed = rms(state.v * weight)
        curvature = rms(state.acceleration * weight)
        return 0.1 * self.tolerance ** (1 / 3) / jnp.maximum(jnp.maximum(speed, jnp.sqrt(curvature)), 1e-2)

    # --- step -------------------------------------------------------------------------------------------------------------------------

    def step(
        self, system: AbstractSystem, state: State, scratch: Scratch | None, h: Array, known: State | None = None
    ) -> tuple[State, Any, StepInfo]:
        equations = Equations.of_step(system, self.coefficients(), state, h)
        if known is not None:
            # One Newton correction from the known solution, with a constant matrix: its value is nothing, its derivative that of the
            # implicit function.
            there = frozen(equations)
            found = frozen(there.unknowns(known.method.acceleration, known.multipliers, known.method.state_rate))
            scaling = there.scaling()
            z = found - jnp.linalg.solve(scaling.matrix(there.jacobian(found)), equations.residual(found) / scaling.rows)
            return normalized(system, equations.new_state(z)), scratch, StepInfo.nothing_searched()
        assert scratch is not None
        unknowns = sum(equations.sizes) + state.x.shape[0]
        residual = frozen(equations.scaling()).residual(equations.residual)
        z, (recycled, newton) = implicit_root(residual, unknowns, lambda: self._search(system, equations, scratch))
        new = normalized(system, equations.new_state(z))
        da, _, dr = equations.split(frozen(z))
        position, rate = self._errors(equations, scratch, da, dr)
        finite = jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.v))
        info = StepInfo(
            frozen(jnp.maximum(position, rate**1.5)),  # (37) and (38) as one: error^(1/3) sets the step
            newton.converged & finite,
            jnp.where(
                newton.converged, jnp.argmax(jnp.abs(da * coordinate_weights(system, self.length_scale, scratch.largest_q))), newton.worst
            ),
            Work.newton(newton.iterations, newton.jacobians, newton.evaluations),
            power=frozen(self._power(equations.system, state, new)),
        )
        recycled_h = jnp.where(newton.jacobians > 0, h, scratch.recycled_h)
        return new, frozen(dataclasses.replace(scratch, recycled=recycled, recycled_h=recycled_h)), info

    def _power(self, system: AbstractSystem, old: State, new: State) -> Array:
        """The largest contact power at the two ends: a_{n+1} averages the accelerations of both, and a force that is over when a step ends
        would still act in a much longer next one. Newton's last evaluations of this step and of the last were there: none is counted, and
        none is made unless a controller asks."""
        return jnp.maximum(*(largest_contact_power(system, s.q, s.v, s.t, s.x) for s in (old, new)))

    def equations(self, system: AbstractSystem, state: State, h: Array) -> Equations:
        """Those of a step from `state`."""
        return Equations.of_step(system, self.coefficients(), state, h)

    def _search(self, system: AbstractSystem, equations: Equations, scratch: Scratch) -> tuple[Array, tuple[Recycled, NewtonInfo]]:
        """Predicts z and corrects it until (45) and (46) hold and the constraints are satisfied."""
        h, scaling = equations.h, equations.scaling()
        row_scale = jnp.where(jnp.asarray(system.row_lengths(), dtype=bool), self.length_scale, 1.0)
        allowed = _CONSTRAINT_TOLERANCE * row_scale + _ROUNDING * (1.0 + jnp.max(scratch.largest_q))

        def size(dz):
            da, _, dr = equations.split(dz)
            return jnp.maximum(*self._errors(equations, scratch, da, dr)) / self.corrector

        def satisfied(z, residual):
            return jnp.all(equations.violation(residual * scaling.rows) <= allowed)

        close = jnp.abs(jnp.log(h / jnp.where(scratch.recycled_h > 0, scratch.recycled_h, h))) < _CLOSE
        recycled = Recycled(scratch.recycled.factors, scratch.recycled.usable & close)
        start = equations.unknowns(*equations.split(scratch.history.predict(equations.t)))
        residual, jacobian = scaling.residual(equations.residual), scaling.jacobian(equations.jacobian)
        z, recycled, info = modified_newton(residual, jacobian, start, recycled, size, satisfied)  # the unknowns have the unit 1
        return z, (recycled, info)

    def _errors(self, equations: Equations, scratch: Scratch, da: Array, dr: Array) -> tuple[Array, Array]:
        """Composite errors (34) of positions and differential states over the tolerance, for differences of a and of the averaged x'."""
        h, c = equations.h, equations.c
        position = c.error * h**2 * rms(da * coordinate_weights(equations.system, self.length_scale, scratch.largest_q))
        rate = c.state_error * h * rms(dr / jnp.maximum(self.state_scale, scratch.largest_x))
        return position / self.tolerance, rate / self.tolerance

    def accept(self, state: State, new: State, scratch: Scratch) -> Scratch:
        n = new.q.shape[0]
        unknowns = jnp.concatenate([new.method.acceleration, new.multipliers, new.method.state_rate])
        chosen_by = jnp.zeros(unknowns.shape[0]).at[:n].set(1.0)  # accelerations decide on the degree; multipliers follow them
        scratch = Scratch(
            scratch.history.push(new.t, unknowns, chosen_by),
            scratch.recycled,
            scratch.recycled_h,
            jnp.maximum(scratch.largest_q, jnp.abs(new.q)),
            jnp.maximum(scratch.largest_x, jnp.abs(new.x)),
        )
        return frozen(scratch)

    def interpolate(self, old: State, new: State, t: Array) -> State:
        """Cubic Hermite polynomials for q, v and x, linear ones for what the equations of motion determine."""
        h, s = place_in_step(old, new, t)
        q = hermite(s, h, old.q, old.v, new.q, new.v)
        v = hermite(s, h, old.v, old.acceleration, new.v, new.acceleration)
        return state_between(old, new, t, q, v, hermite(s, h, old.x, old.state_rate, new.x, new.state_rate))


_PARAMETERS: dict[str, Parameter] = {
    "tolerance": positive("1", "must be positive"),
    "length_scale": positive("m", "must be positive: the size of the motions that matter"),
    "state_scale": positive("unit of x", "must be positive"),
    "corrector": positive("1", "must be positive"),
    "alpha": Parameter("1", valid=lambda a: (a >= -1 / 3 - 1e-12) & (a <= 0), requirement="must lie in [-1/3, 0]"),
    "beta": positive("1"),
    "gamma": Parameter("1", valid=lambda g: g >= 0.5, requirement="must be at least 1/2, or the method is unstable"),
}


class HHT(AbstractNewmark):
    r"""Hilber-Hughes-Taylor on the index-3 equations: second order, with numerical damping of high frequencies (alpha in [-1/3, 0]).

    As printed, (10) of the paper averages forces and is second order only for a constant mass matrix (with Euler parameters the measured
    order is 1). Here the equations of motion hold at t_{n+1}, and Newmark's formulas are fed with the averaged acceleration
    a_{n+1} = (1 + alpha) q''_{n+1} - alpha q''_n: the same method for constant M, second order for all. Differential states are averaged
    alike, with rho = gamma. When the step changes, a_n is moved to the time that the new step assigns to it.

    `tolerance` is the accepted local position error (34) in units of max(length_scale, |q|). The estimate (33) for differential states is one
    order below the method: with tight tolerances they take many small steps. Error estimate (25), step selection (37),
    corrector test (43), (45) with c = `corrector`, and additionally constraint violations below 1e-10 of the length scale.

    ```bibtex
    @article{negrut2005hht,
      title={On the use of the {HHT} method in the context of index 3 differential algebraic equations of multibody dynamics},
      author={Negrut, D. and Rampalli, R. and Ottarsson, G. and Sajdak, A.},
      year={2005}
    }
    ```
    """

    alpha: Float[Array, ""]
    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    state_scale: Float[Array, ""]
    corrector: Float[Array, ""]
    name: ClassVar[str] = "hht"

    def __init__(
        self,
        tolerance: Any = 1e-5,
        alpha: Any = -0.3,
        *,
        length_scale: Any = 1.0,
        state_scale: Any = 1.0,
        corrector: Any = 1e-3,
    ):
        _read(
            self,
            tolerance=tolerance,
            alpha=alpha,
            length_scale=length_scale,
            state_scale=state_scale,
            corrector=corrector,
        )

    def coefficients(self):
        return Coefficients(self.alpha, (1.0 - self.alpha) ** 2 / 4.0, 0.5 - self.alpha)


class Newmark(AbstractNewmark):
    """Newmark's method (2): HHT with alpha = 0 and free beta, gamma. Second order only for gamma = 1/2; damps for gamma > 1/2."""

    beta: Float[Array, ""]
    gamma: Float[Array, ""]
    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    state_scale: Float[Array, ""]
    corrector: Float[Array, ""]
    name: ClassVar[str] = "newmark"

    def __init__(
        self,
        tolerance: Any = 1e-5,
        beta: Any = 0.3025,
        gamma: Any = 0.6,
        *,
        length_scale: Any = 1.0,
        state_scale: Any = 1.0,
        corrector: Any = 1e-3,
    ):
        _read(
            self,
            tolerance=tolerance,
            beta=beta,
            gamma=gamma,
            length_scale=length_scale,
            state_scale=state_scale,
            corrector=corrector,
        )

    def coefficients(self):
        return Coefficients(jnp.zeros(()), self.beta, self.gamma)


class Trapezoidal(AbstractNewmark):
    """The trapezoidal rule: HHT with alpha = 0. Keeps the energy of linear systems; unstable on index-3 equations (it warns)."""

    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    state_scale: Float[Array, ""]
    corrector: Float[Array, ""]
    name: ClassVar[str] = "trapezoidal"

    def __init__(
        self,
        tolerance: Any = 1e-5,
        *,
        length_scale: Any = 1.0,
        state_scale: Any = 1.0,
        corrector: Any = 1e-3,
    ):
        _read(self, tolerance=tolerance, length_scale=length_scale, state_scale=state_scale, corrector=corrector)

    def coefficients(self):
        return Coefficients(jnp.zeros(()), jnp.array(0.25), jnp.array(0.5))


def _read(integrator: AbstractNewmark, **values: Any) -> None:
    owner = type(integrator).__name__
    for field, value in read_all(owner, _PARAMETERS, **values).items():
        setattr(integrator, field, jnp.asarray(value))
