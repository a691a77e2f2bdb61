"""Explicit methods with one evaluation a step, which is made at the end of the step and carried on to the next one."""

import abc
from types import SimpleNamespace
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..solvers.roots import frozen
from ..system.equations import AbstractSystem, acceleration_a, acceleration_b, largest_contact_power, state_rate
from ..system.state import State
from .base import StepInfo, Work
from .unconstrained import AbstractUnconstrained, largest_eigenvalue, read_numbers


class AbstractCarried(AbstractUnconstrained):
    """What the methods of this file share: A and B alike are evaluated at a point that a child computes from the last evaluation."""

    reports_power: ClassVar[bool] = True

    def init(self, system: AbstractSystem, state: State) -> tuple[State, None]:
        return state, None

    @abc.abstractmethod
    def point(self, state: State, h: Array) -> tuple[Array, Array, Array]:
        """(q, v, x) at the end of the step, where forces are evaluated."""

    @abc.abstractmethod
    def correct(self, state: State, h: Array, v: Array, x: Array, a: Array, rate: Array) -> tuple[Array, Array]:
        """(v, x) at the end, with the evaluation (a, x') there."""

    @abc.abstractmethod
    def local_error(self, state: State, h: Array, change: Array) -> Array:
        """Of positions, from the change of acceleration over the step."""

    def amplification(self, h, k, c):
        old = SimpleNamespace(**dict(zip(("q", "v", "acceleration"), np.eye(3), strict=True)), x=0.0, state_rate=0.0)
        q, v, x = self.point(old, h)  # pyright: ignore[reportArgumentType]
        a = -k * np.asarray(q) - c * np.asarray(v)
        v, _ = self.correct(old, h, v, x, a, 0.0)  # pyright: ignore[reportArgumentType]
        return largest_eigenvalue(q, v, a)

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        system, t = system.recall(state.memory), state.t + h
        q, v, x = self.point(state, h)
        q, v = system.normalize(q, v)
        a = acceleration_a(system, q, v, t, x)
        stiff = bool(system.stiff_coordinates())
        if stiff:
            a = a + acceleration_b(system, q, v, t, x)
        rate = state_rate(system, x, q, v, t)
        corrected, x_new = self.correct(state, h, v, x, a, rate)
        q_new, v_new = system.normalize(q, corrected)
        new = State(t, q_new, v_new, x_new, jnp.zeros_like(state.multipliers), a, rate, state.memory)
        if known is not None:
            return new, scratch, StepInfo.nothing_searched()
        power = largest_contact_power(system, q, v, t, x, v_new)
        error, finite, worst = self.judge(system, state, new, self.local_error(state, h, a - state.acceleration))
        one, none = jnp.ones((), jnp.int32), jnp.zeros((), jnp.int32)
        work = Work(none, none, none, one, one, one if stiff else none)
        finite = finite & jnp.all(jnp.isfinite(a))
        return new, scratch, frozen(StepInfo(error, finite, worst, work, power=power))


class Verlet(AbstractCarried):
    """Störmer-Verlet as kick, drift, kick: second order, symplectic, stable up to h^2 k = 4. One evaluation a step.

        v' = v_n + h/2 a_n        q_{n+1} = q_n + h v'        a_{n+1} = (A + B)(q_{n+1}, ...)        v_{n+1} = v' + h/2 a_{n+1}

    Forces that depend on the velocity are given the predicted one, v_n + h a_n: with it the method stays second order (with the half-step
    velocity v' it would be first order). Differential states follow Heun's rule, x_n + h/2 (x'_n + x'_{n+1}), where x'_{n+1} and forces
    are evaluated at x_n + h x'_n. Both families of forces are explicit here.

    Contact power is that at the end of the step, where the only evaluation is: the form in which contact-power control sees an impact. It is
    the power of the forces as evaluated at the velocity that the step ends with.
    """

    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    order: ClassVar[int] = 2
    name: ClassVar[str] = "verlet"

    def __init__(self, tolerance: Any = 1e-5, *, length_scale: Any = 1.0):
        read_numbers(self, tolerance=tolerance, length_scale=length_scale)

    def point(self, state, h):
        v = state.v + h * state.acceleration
        return state.q + h * state.v + 0.5 * h**2 * state.acceleration, v, state.x + h * state.state_rate

    def correct(self, state, h, v, x, a, rate):
        return state.v + 0.5 * h * (state.acceleration + a), state.x + 0.5 * h * (state.state_rate + rate)

    def local_error(self, state, h, change):
        return h**2 * change / 6


class ExplicitNystrom(AbstractCarried):
    """Scheme (16) of Modin, Führer, Fritzson and Söderlind (contact-power steps): first order, one evaluation a step.

        v_{n+1} = v_n + h a_n        q_{n+1} = q_n + h v_n + 3/4 h^2 a_n        a_{n+1} = (A + B)(q_{n+1}, v_{n+1}, ...)

    On q'' = -k q - c q' its determinant is 1 + h^2 k / 4 - h c: an undamped oscillation grows, one with c >= h k / 4 does not. For
    contacts that dissipate. Differential states follow Euler's rule.
    """

    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    order: ClassVar[int] = 1
    name: ClassVar[str] = "explicit-nystrom"

    def __init__(self, tolerance: Any = 1e-5, *, length_scale: Any = 1.0):
        read_numbers(self, tolerance=tolerance, length_scale=length_scale)

    def point(self, state, h):
        q = state.q + h * state.v + 0.75 * h**2 * state.acceleration
        return q, state.v + h * state.acceleration, state.x + h * state.state_rate

    def correct(self, state, h, v, x, a, rate):
        return v, x

    def local_error(self, state, h, change):
        return h**2 * (0.25 * jnp.abs(state.acceleration) + 0.5 * jnp.abs(change))
