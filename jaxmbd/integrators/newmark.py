"""What the Hilber-Hughes-Taylor method shares with its special cases: all but the coefficients (Negrut et al. 2005)."""

import abc
import dataclasses
import warnings
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..control import LocalError
from ..control.base import AbstractController
from ..solvers.newton import JudgeByResidual, NewtonInfo, newton
from ..solvers.roots import frozen
from ..system.equations import AbstractSystem, count_rows, differential, largest_contact_power
from ..system.parameters import is_traced
from ..system.state import State
from .base import AbstractIntegrator, StepInfo, Work
from .common import VELOCITY_CORRECTOR, answers_to_impulses, coordinate_weights, normalized, rms, velocity_rounding
from .hht_equations import Averages, Coefficients, HHTEquations
from .implicit import Largest, StepJacobian, solve_step
from .interpolation import hermite, place_in_step, state_between
from .prediction import Predictor

_CONSTRAINT_TOLERANCE = 1e-10
_ROUNDING = 1e-14
_CLOSE = 0.35
"""A Jacobian is recycled while the logarithm of the ratio of step sizes is below this."""
_PRECISE = 1e-12
"""Position error that Newton may leave in prescribed steps: small enough for finite differences of replayed runs."""


class Change(eqx.Module):
    """How the acceleration and x' changed in a step."""

    rate: Float[Array, "q"]
    """(a_{n+1} - a_n) / h, about q'''"""
    of_states: Float[Array, "x"]
    """the same of the averaged x', about x''"""
    h: Float[Array, ""]
    """s; 0: there was no step"""

    def bend(self, h: Array, of: Array, before: Array) -> Array:
        """The change of a rate of change from this step to one of size h in which the value changed by `of`: about h^2 times the second
        derivative. (The middles of two steps are (h + h_last) / 2 apart.)"""
        return (of - h * before) * 2.0 * h / (h + self.h)


class NewmarkScratch(eqx.Module):
    predictor: Predictor
    jacobian: StepJacobian
    largest: Largest
    """for the error weights (34)"""
    last: Change
    """of the last accepted step"""
    tried: Change
    """of the last attempt"""


class AbstractNewmark(AbstractIntegrator):
    """What HHT, Newmark and Trapezoidal share: all but the coefficients."""

    tolerance: eqx.AbstractVar[Float[Array, ""]]
    length_scale: eqx.AbstractVar[Float[Array, ""]]
    state_scale: eqx.AbstractVar[Float[Array, ""]]
    corrector: eqx.AbstractVar[Float[Array, ""]]
    velocity_error: eqx.AbstractVar[bool]
    printed_state_error: ClassVar[bool] = False
    """Whether differential states are controlled by (33)."""
    order: ClassVar[int] = 2
    even_end: ClassVar[bool] = True
    reports_power: ClassVar[bool] = True
    solves_for_multipliers: ClassVar[bool] = True
    # A step that is r times the last one multiplies the errors of accelerations and multipliers by about 1 / r^2.

    @abc.abstractmethod
    def coefficients(self) -> Coefficients:
        """Those of the method."""

    @property
    def _caution(self) -> float:
        """By how much errors of steps are kept below the tolerance, so that those of a motion over a few periods are below
        10 tolerance^(2/3) (`benchmarks/work_precision.py`)."""
        return 10.0 if self.velocity_error else 1.0

    def default_controller(self) -> AbstractController:
        return LocalError()

    def check(self, system: AbstractSystem) -> None:
        c, name = self.coefficients(), type(self).__name__
        second_order = not is_traced(c) and float(c.gamma + c.alpha) <= 0.5 + 1e-6
        damped = not is_traced(c) and float(c.gamma) > 0.5 + 1e-6
        if is_traced(c) or (second_order and damped) or count_rows(system) == 0:
            return
        if not damped:
            joints = count_rows(system) > system.own_rows()
            which = "" if joints else ", as the Euler parameters of bodies in space have"
            warnings.warn(
                f"{name} with alpha = 0 and gamma = 1/2 is the trapezoidal rule, which is unstable on constraints with multipliers (index "
                f"3){which}: errors grow after some seconds. Use HHT with alpha < 0{', or penalty joints' if joints else ''}.",
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

    def init(self, system: AbstractSystem, state: State) -> tuple[State, NewmarkScratch]:
        rate = jnp.where(differential(system, state.x) > 0, state.state_rate, state.x)
        state = dataclasses.replace(state, method=Averages(state.acceleration, rate, jnp.zeros(())))
        unknowns = jnp.concatenate([state.acceleration, state.multipliers, state.method.state_rate])
        predictor, none = Predictor.begin(state.t, unknowns), Change(jnp.zeros_like(state.q), jnp.zeros_like(state.x), jnp.zeros(()))
        jacobian = StepJacobian.nothing(unknowns.shape[0], system.algebra())
        return state, frozen(NewmarkScratch(predictor, jacobian, Largest.at(state), none, none))

    def first_step(self, system: AbstractSystem, state: State) -> Array:
        weight = coordinate_weights(system, self.length_scale, jnp.abs(state.q))
        speed = rms(state.v * weight)
        curvature = rms(state.acceleration * weight)
        return 0.1 * self.tolerance ** (1 / 3) / jnp.maximum(jnp.maximum(speed, jnp.sqrt(curvature)), 1e-2)

    # --- step -------------------------------------------------------------------------------------------------------------------------

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        equations = self.equations(system, state, h)
        z, found = solve_step(equations, known, lambda there: frozen(self)._search(system, there, scratch))
        new = normalized(system, equations.new_state(z))
        if found is None:
            return new, scratch, StepInfo.nothing_searched()
        jacobian, solved = found
        da, _, dr = equations.split(frozen(z))
        dr = equations.integrals * dr  # variables have no error of their own
        tried = Change(da / h, dr / h, h)
        position, _ = self._errors(equations, scratch, da, dr)
        states = self._state_error(equations, scratch, dr)
        velocity = self._velocity_error(frozen(equations), frozen(new), jacobian, scratch, da)
        finite = jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.v))
        info = StepInfo(
            frozen(jnp.maximum(jnp.maximum(position, velocity), states)),  # error^(1/3) sets the step (37)
            solved.converged & finite,
            jnp.where(solved.converged, jnp.argmax(jnp.abs(da * self._weights(system, scratch.largest.q))), solved.worst),
            Work.newton(solved.iterations, solved.jacobians, solved.evaluations),
            solved.finite,
            power=frozen(self._power(equations.system, state, new)),
        )
        return new, frozen(dataclasses.replace(scratch, jacobian=jacobian, tried=tried)), info

    def _power(self, system: AbstractSystem, old: State, new: State) -> Array:
        """The largest contact power at the two ends: a_{n+1} averages the accelerations of both, and a force that is over when a step ends
        would still act in a much longer next one. Newton's last evaluations of this step and of the last were there: none is counted, and
        none is made unless a controller asks."""
        return jnp.maximum(*(largest_contact_power(system, s.q, s.v, s.t, s.x) for s in (old, new)))

    def equations(self, system: AbstractSystem, state: State, h: Array) -> HHTEquations:
        """Those of a step from `state`."""
        return HHTEquations.of_step(system, self.coefficients(), state, h)

    def _search(
        self, system: AbstractSystem, equations: HHTEquations, scratch: NewmarkScratch
    ) -> tuple[Array, tuple[StepJacobian, NewtonInfo]]:
        """Predicts z and corrects it until (45) and (46) hold and the constraints are satisfied."""
        h, scaling = equations.h, equations.scaling()
        row_scale = jnp.where(jnp.asarray(system.row_lengths(), dtype=bool), self.length_scale, 1.0)
        allowed = _CONSTRAINT_TOLERANCE * row_scale + _ROUNDING * (1.0 + jnp.max(scratch.largest.q))

        def size(dy):
            da, _, dr = equations.split(scaling.expand(dy))
            if system.algebraic_states():
                dv, dr = (1.0 - equations.integrals) * dr, equations.integrals * dr
                variables = rms(dv / jnp.maximum(self.state_scale, scratch.largest.x)) / (self.corrector * self.tolerance)
            else:
                variables = jnp.zeros(())
            position = jnp.maximum(*self._errors(equations, scratch, da, dr)) / self.corrector
            position = jnp.maximum(position, variables)
            if not self.velocity_error:
                return position
            weight = self._weights(system, scratch.largest.v)
            left = VELOCITY_CORRECTOR * self.tolerance / self._caution + 8.0 * velocity_rounding(scratch.largest.q, 1.0 / h)
            return jnp.maximum(position, equations.c.gamma * h * rms(da * weight) / left)

        def satisfied(residual):
            return jnp.all(equations.violation(residual * scaling.rows) <= allowed)

        start = scaling.shrink(equations.unknowns(*equations.split(scratch.predictor.predict(equations.t))))
        residual, jacobian = scaling.residual(equations.residual), equations.scaled_jacobian(scaling)
        recycled = scratch.jacobian.near(h, _CLOSE)
        y, recycled, info = newton(residual, jacobian, start, recycled, size, JudgeByResidual(satisfied), equations.algebra())
        return scaling.expand(y), (scratch.jacobian.after(recycled, h, info), info)

    def _weights(self, system: AbstractSystem, largest: Array) -> Array:
        return coordinate_weights(system, self.length_scale, largest)

    def _errors(self, equations: HHTEquations, scratch: NewmarkScratch, da: Array, dr: Array) -> tuple[Array, Array]:
        """Composite errors (34), by (25) and (33), of positions and differential states over the tolerance, for differences of a and of the
        averaged x'."""
        h, c = equations.h, equations.c
        position = c.error * h**2 * rms(da * self._weights(equations.system, scratch.largest.q))
        rate = c.printed_state_error * h * rms(dr / jnp.maximum(self.state_scale, scratch.largest.x))
        allowed = self.tolerance / self._caution
        return position / allowed, rate / allowed

    def _state_error(self, equations: HHTEquations, scratch: NewmarkScratch, dr: Array) -> Array:
        """The error of differential states over the tolerance, as one whose third root sets the step. By Taylor's formula, as that of
        velocities; a part of second order in h, of (9) with a rho of its own or of (33), by its square root (38)."""
        if self.printed_state_error:
            return self._errors(equations, scratch, jnp.zeros_like(equations.a), dr)[1] ** 1.5
        h, last, (first, second) = equations.h, scratch.last, equations.c.state_error
        weight = h / jnp.maximum(self.state_scale, scratch.largest.x) / (self.tolerance / self._caution)
        low, own = rms(first * weight * dr), rms(second * weight * last.bend(h, dr, last.of_states))
        return jnp.maximum(low**1.5, own)

    def _velocity_error(self, equations: HHTEquations, new: State, jacobian: StepJacobian, scratch: NewmarkScratch, da: Array) -> Array:
        """The same of velocities, of which the part counts that goes on. Before the first step the acceleration is taken for constant: a body
        that flies freely may meet an obstacle in it."""
        if not self.velocity_error:
            return jnp.zeros(())
        h, (first, second) = equations.h, equations.c.velocity_error
        impulses = h * jnp.stack([first * da, second * scratch.last.bend(h, da, scratch.last.rate)])
        found = answers_to_impulses(equations, jacobian.factors, new, impulses)
        off = rms(jnp.max(jnp.abs(found), axis=0) * self._weights(equations.system, scratch.largest.v))
        return off / (self.tolerance / self._caution + 8.0 * velocity_rounding(scratch.largest.q, 1.0 / h))

    def accept(self, state: State, new: State, scratch: NewmarkScratch) -> NewmarkScratch:
        n = new.q.shape[0]
        unknowns = jnp.concatenate([new.method.acceleration, new.multipliers, new.method.state_rate])
        chosen_by = jnp.zeros(unknowns.shape[0]).at[:n].set(1.0)  # accelerations decide on the degree; multipliers follow them
        predictor = scratch.predictor.push(new.t, unknowns, chosen_by)
        return frozen(NewmarkScratch(predictor, scratch.jacobian, scratch.largest.include(new), scratch.tried, scratch.tried))

    def interpolate(self, old: State, new: State, t: Array) -> State:
        """Cubic Hermite polynomials for q, v and x, linear ones for what the equations of motion determine."""
        h, s = place_in_step(old, new, t)
        q = hermite(s, h, old.q, old.v, new.q, new.v)
        v = hermite(s, h, old.v, old.acceleration, new.v, new.acceleration)
        return state_between(old, new, t, q, v, hermite(s, h, old.x, old.state_rate, new.x, new.state_rate))
