"""The Hilber-Hughes-Taylor method for index-3 equations, with Newmark's and the trapezoidal rule as special cases."""

import abc
import dataclasses
import warnings
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..control import LocalError
from ..control.base import AbstractController
from ..solvers import linear
from ..solvers.newton import NewtonInfo, Recycled, modified_newton
from ..solvers.roots import frozen, implicit_root
from ..system.equations import (
    AbstractSystem,
    count_rows,
    largest_contact_power,
)
from ..system.parameters import Parameter, is_traced, positive, read_all
from ..system.state import State
from .base import AbstractIntegrator, StepInfo, Work
from .common import VELOCITY_CORRECTOR, answers_to_impulses, coordinate_weights, normalized, rms, velocity_rounding
from .hht_equations import Carried, Coefficients, Equations
from .interpolation import hermite, place_in_step, state_between
from .prediction import History

_CONSTRAINT_TOLERANCE = 1e-10
_ROUNDING = 1e-14
_CLOSE = 0.35
"""A Jacobian is recycled while the logarithm of the ratio of step sizes is below this."""
_PRECISE = 1e-12
"""Position error that Newton may leave in prescribed steps: small enough for finite differences of replayed runs."""


class Change(eqx.Module):
    """How the acceleration changed in a step."""

    rate: Float[Array, "q"]
    """(a_{n+1} - a_n) / h, about q'''"""
    h: Float[Array, ""]
    """s; 0: there was no step"""


class Scratch(eqx.Module):
    history: History
    recycled: Recycled
    recycled_h: Float[Array, ""]
    largest_q: Float[Array, "q"]
    """largest |q| so far, for the error weights (34)"""
    largest_v: Float[Array, "q"]
    largest_x: Float[Array, "x"]
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

    def init(self, system: AbstractSystem, state: State) -> tuple[State, Scratch]:
        carried = Carried(state.acceleration, state.state_rate, jnp.zeros(()))
        state = dataclasses.replace(state, method=carried)
        unknowns = jnp.concatenate([carried.acceleration, state.multipliers, carried.state_rate])
        scratch = Scratch(
            History.begin(state.t, unknowns),
            Recycled(linear.no_factors(unknowns.shape[0]), jnp.array(False)),
            jnp.zeros(()),
            jnp.abs(state.q),
            jnp.abs(state.v),
            jnp.abs(state.x),
            *(Change(jnp.zeros_like(state.q), jnp.zeros(())),) * 2,
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
            z, _ = implicit_root(equations, lambda there: (there.unknowns_of(known), None))
            return normalized(system, equations.new_state(z)), scratch, StepInfo.nothing_searched()
        assert scratch is not None
        z, (recycled, newton) = implicit_root(equations, lambda there: frozen(self)._search(system, there, scratch))
        new = normalized(system, equations.new_state(z))
        da, _, dr = equations.split(frozen(z))
        tried = Change(da / h, h)
        position, rate = self._errors(equations, scratch, da, dr)
        velocity = self._velocity_error(frozen(equations), frozen(new), recycled, scratch, da)
        finite = jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.v))
        info = StepInfo(
            frozen(jnp.maximum(jnp.maximum(position, velocity), rate**1.5)),  # (37) and (38) as one: error^(1/3) sets the step
            newton.converged & finite,
            jnp.where(
                newton.converged, jnp.argmax(jnp.abs(da * coordinate_weights(system, self.length_scale, scratch.largest_q))), newton.worst
            ),
            Work.newton(newton.iterations, newton.jacobians, newton.evaluations),
            newton.finite,
            power=frozen(self._power(equations.system, state, new)),
        )
        recycled_h = jnp.where(newton.jacobians > 0, h, scratch.recycled_h)
        return new, frozen(dataclasses.replace(scratch, recycled=recycled, recycled_h=recycled_h, tried=tried)), info

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
            position = jnp.maximum(*self._errors(equations, scratch, da, dr)) / self.corrector
            if not self.velocity_error:
                return position
            weight = coordinate_weights(system, self.length_scale, scratch.largest_v)
            left = VELOCITY_CORRECTOR * self.tolerance / self._caution + 8.0 * velocity_rounding(scratch.largest_q, 1.0 / h)
            return jnp.maximum(position, equations.c.gamma * h * rms(da * weight) / left)

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
        allowed = self.tolerance / self._caution
        return position / allowed, rate / allowed

    def _velocity_error(self, equations: Equations, new: State, recycled: Recycled, scratch: Scratch, da: Array) -> Array:
        """The same of velocities, of which the part counts that goes on. Before the first step the acceleration is taken for constant: a body
        that flies freely may meet an obstacle in it."""
        if not self.velocity_error:
            return jnp.zeros(())
        h, (first, second) = equations.h, equations.c.velocity_error
        # The middles of two steps are (h + h_last) / 2 apart.
        bend = (da - h * scratch.last.rate) * 2.0 * h / (h + scratch.last.h)
        found = answers_to_impulses(
            equations.system, equations.scaling(), recycled.factors, equations.places(), new, h * jnp.stack([first * da, second * bend])
        )
        off = rms(jnp.max(jnp.abs(found), axis=0) * coordinate_weights(equations.system, self.length_scale, scratch.largest_v))
        return off / (self.tolerance / self._caution + 8.0 * velocity_rounding(scratch.largest_q, 1.0 / h))

    def accept(self, state: State, new: State, scratch: Scratch) -> Scratch:
        n = new.q.shape[0]
        unknowns = jnp.concatenate([new.method.acceleration, new.multipliers, new.method.state_rate])
        chosen_by = jnp.zeros(unknowns.shape[0]).at[:n].set(1.0)  # accelerations decide on the degree; multipliers follow them
        scratch = Scratch(
            scratch.history.push(new.t, unknowns, chosen_by),
            scratch.recycled,
            scratch.recycled_h,
            jnp.maximum(scratch.largest_q, jnp.abs(new.q)),
            jnp.maximum(scratch.largest_v, jnp.abs(new.v)),
            jnp.maximum(scratch.largest_x, jnp.abs(new.x)),
            scratch.tried,
            scratch.tried,
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

    `tolerance` says how accurate a motion is: over a few periods, positions err by at most about 10 tolerance^(2/3), in units of
    max(length_scale, |q|) (`benchmarks/work_precision.py`). For that, the local errors of positions (25) and of velocities, whose estimate
    takes the change of acceleration over two steps, are kept below a tenth of it; velocities are measured in units of
    max(length_scale / 1 s, |v|), and what constraints and stiff dampers take away within two steps does not count. `velocity_error=False` is
    the paper's own control: tolerance is the accepted local position error (34), and velocities may be anything. The estimate (33) for
    differential states is one order below the method: with tight tolerances they take many small steps. Step selection (37), corrector test
    (43), (45) with c = `corrector`, and additionally constraint violations below 1e-10 of the length scale.

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
    velocity_error: bool = eqx.field(static=True)
    name: ClassVar[str] = "hht"

    def __init__(
        self,
        tolerance: Any = 1e-5,
        alpha: Any = -0.3,
        *,
        length_scale: Any = 1.0,
        state_scale: Any = 1.0,
        corrector: Any = 1e-3,
        velocity_error: bool = True,
    ):
        self.velocity_error = velocity_error
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
    velocity_error: bool = eqx.field(static=True)
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
        velocity_error: bool = True,
    ):
        self.velocity_error = velocity_error
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
    velocity_error: bool = eqx.field(static=True)
    name: ClassVar[str] = "trapezoidal"

    def __init__(
        self,
        tolerance: Any = 1e-5,
        *,
        length_scale: Any = 1.0,
        state_scale: Any = 1.0,
        corrector: Any = 1e-3,
        velocity_error: bool = True,
    ):
        self.velocity_error = velocity_error
        _read(self, tolerance=tolerance, length_scale=length_scale, state_scale=state_scale, corrector=corrector)

    def coefficients(self):
        return Coefficients(jnp.zeros(()), jnp.array(0.25), jnp.array(0.5))


def _read(integrator: AbstractNewmark, **values: Any) -> None:
    owner = type(integrator).__name__
    for field, value in read_all(owner, _PARAMETERS, **values).items():
        setattr(integrator, field, jnp.asarray(value))
