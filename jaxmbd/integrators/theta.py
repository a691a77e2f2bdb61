"""The theta method, fully implicit: what splitting methods are measured against."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..solvers.roots import frozen
from ..system.equations import AbstractSystem, acceleration_a, acceleration_b, state_rate
from ..system.state import State
from .base import StepInfo, Work
from .implicit import AbstractStepEquations, StepJacobian, solve_step
from .unconstrained import CORRECTOR, AbstractUnconstrained, allowed_accelerations, precise, read_numbers, solve_acceleration


class ThetaEquations(AbstractStepEquations):
    """z_{n+1} = z_n + h X(z_{n+theta}), z_{n+theta} = (1 - theta) z_n + theta z_{n+1}, for z = (q, v, t, x). Unknown are q'' and x' there."""

    system: AbstractSystem
    theta: Float[Array, ""]
    old: State
    h: Float[Array, ""]

    def ahead(self, unknown: Array, share: Array) -> tuple[Array, Array, Array, Array]:
        """z_n + share (z_{n+1} - z_n)."""
        old, h, n = self.old, self.h, self.old.q.shape[0]
        a, rate = unknown[:n], unknown[n:]
        q = old.q + share * h * (old.v + self.theta * h * a)
        q, v = self.system.normalize(q, old.v + share * h * a)
        return q, v, old.t + share * h, old.x + share * h * rate

    def residual(self, unknown: Array) -> Array:
        q, v, t, x = self.ahead(unknown, self.theta)
        a = acceleration_a(self.system, q, v, t, x) + acceleration_b(self.system, q, v, t, x)
        return unknown - jnp.concatenate([a, state_rate(self.system, x, q, v, t)])

    def unknowns_of(self, state: State) -> Array:
        return jnp.concatenate([state.acceleration, state.state_rate])

    def new_state(self, unknown: Array) -> State:
        old, n = self.old, self.old.q.shape[0]
        q, v, t, x = self.ahead(unknown, jnp.ones(()))
        return State(t, q, v, x, jnp.zeros_like(old.multipliers), unknown[:n], unknown[n:], old.memory)


class Theta(AbstractUnconstrained):
    """The theta method on q'' = A + B, implicit in both: theta = 1/2 is the implicit midpoint rule, theta = 1 implicit Euler.

    Newton's method with an exact Jacobian of everything, recycled while it converges quickly. `a_evaluations` counts the evaluations of
    Newton's residuals, `jacobians` those of the Jacobian (with differences, one would take as many evaluations of A as there are coordinates
    and velocities). The error estimate takes one evaluation more, at the end of a step, which is not counted: the method has no use for it.
    Second order for theta = 1/2 only; theta > 1/2 damps.
    """

    theta: Float[Array, ""]
    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    corrector: Float[Array, ""]
    order: ClassVar[int] = 1
    name: ClassVar[str] = "theta"

    def __init__(self, theta: Any = 0.5, *, tolerance: Any = 1e-5, length_scale: Any = 1.0, corrector: Any = CORRECTOR):
        read_numbers(self, theta=theta, tolerance=tolerance, length_scale=length_scale, corrector=corrector)

    def precise(self):
        return precise(self)

    def init(self, system: AbstractSystem, state: State) -> tuple[State, StepJacobian]:
        return state, frozen(StepJacobian.nothing(state.q.shape[0] + state.x.shape[0]))

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        system = system.recall(state.memory)
        equations = ThetaEquations(system, self.theta, state, h)
        corrector = frozen(self.corrector)

        def search(here: ThetaEquations):
            old, start = here.old, here.unknowns_of(here.old)
            is_length = jnp.asarray(here.system.coordinate_lengths(), dtype=bool)
            allowed = jnp.where(is_length, *allowed_accelerations(here.system, old.q, old.v, here.h, corrector, old.acceleration))
            rates = corrector * (jnp.abs(old.state_rate) + (1e-3 + jnp.abs(old.x)) / here.h)
            return solve_acceleration(here, start, scratch, here.h, jnp.concatenate([allowed, rates]))

        unknown, found = solve_step(equations, known, search)
        new = equations.new_state(unknown)
        if found is None:
            return new, scratch, StepInfo.nothing_searched()
        jacobian, info = found
        # The stage does not see a contact that the end of the step has leapt into; accelerations there do.
        end = acceleration_a(system, new.q, new.v, new.t, new.x) + acceleration_b(system, new.q, new.v, new.t, new.x)
        off = jnp.abs(self.theta - 0.5)
        error = h**2 * (off * jnp.abs(new.acceleration) + jnp.abs(end - new.acceleration) / 6)
        error, finite, worst = self.judge(system, state, new, error)
        work = Work.newton(info.iterations, info.jacobians, info.evaluations)
        report = StepInfo(error, finite & info.converged, jnp.where(info.converged, worst, info.worst), work, info.finite)
        return new, frozen(jacobian), frozen(report)
