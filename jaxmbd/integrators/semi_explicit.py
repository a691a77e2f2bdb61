"""The semi-explicit splitting method of Modin, Fritzson and Führer (2007): contacts explicit, penalties implicit."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..solvers.newton import NewtonInfo, TrustLastRate, newton
from ..solvers.roots import frozen
from ..system.equations import AbstractSystem, acceleration_a, count_rows, largest_contact_power, state_rate
from ..system.parameters import is_traced
from ..system.stacked.assembly import sum_by_owner
from ..system.state import State
from .base import StepInfo, Work
from .implicit import StepJacobian, solve_step
from .splitting_equations import ConstrainedSplitting, SplittingEquations, hold_velocity, spread
from .unconstrained import (
    CLOSE,
    CORRECTOR,
    AbstractUnconstrained,
    allowed_accelerations,
    largest_eigenvalue,
    precise,
    read_numbers,
    solve_acceleration,
)

_ESTIMATES = ("consecutive", "printed")
_POWERS = ("evaluation", "end")
_STANDSTILL = 1e-13
"""Arguments of two evaluations that are nearer than this part of their size show no slope, only rounding."""


class Evaluation(eqx.Module):
    """One evaluation of A: where, and what it gave."""

    q: Float[Array, "q"]
    a: Float[Array, "q"]
    h: Float[Array, ""]
    """s, of the step that made it; 0: none did"""


class SplittingScratch(eqx.Module):
    jacobian: StepJacobian
    motion: Float[Array, "motion"]
    """A + B of the last attempt along and about the axes of the bodies that B touches: the next search begins with the same, for what is
    held hardly accelerates however A changes"""
    last: Evaluation
    """of the last accepted step"""
    tried: Evaluation
    """of the last attempt"""


def _has_joints(system: AbstractSystem) -> bool:
    """Whether there are constraint rows that `normalize` does not take care of."""
    return count_rows(system) > system.own_rows()


class SemiExplicit(AbstractUnconstrained):
    r"""Scheme (5): one evaluation of A a step and none of its Jacobian; B implicit, on the coordinates that it touches.

        q_{n+1} = q_n + h v_n + h^2/2 (A_{n+alpha} + B_{n+beta})        v_{n+1} = v_n + h (A_{n+alpha} + B_{n+beta})

    A (forces of elements with stiff=False: contacts, gravity) is evaluated at q_n + alpha h v_n, v_n, t_n + alpha h; B (penalty joints, forces
    with stiff=True) at (1 - beta) z_n + beta z_{n+1}, by Newton's method with an exact Jacobian that is recycled. Without B nothing
    is solved. Positions are second order; with alpha = beta = 1/2 and A independent of v, so is everything (Theorem 2). A stiff B needs
    beta > 1/2 to be damped, and never limits the step if beta >= 1/2 (Theorem 6). A limits it to h^2 k <= 2/alpha for alpha >= 1/2,
    with damping to h c + alpha h^2 k <= 2 and h c >= (1/2 - alpha) h^2 k (Theorem 3). alpha = -1/2, which needs damping of at least h k, is
    critically damped for the same damping as the exact motion (Corollary 4).

    - `predict_velocity`: give A the velocity v_n + alpha h a_{n-1}, with the acceleration of the last step. Still one evaluation; second order
      although A depends on v.
    - differential states: x_{n+1} = x_n + h x'(x, q, v, t) at A's point, where x is x_n, with `predict_velocity` x_n + alpha h x'_{n-1}. Fast
      states (stiff bristles) limit the step.
    - `estimate`: where `StepInfo.stiffness` comes from, for `mbd.control.Stability`. "consecutive": two successive evaluations of A
      over the distance of their arguments, body by body, lengths and angles apart, and the largest of these; costs nothing. "printed": (15),
      which needs A_n as well: a second evaluation.
    - `power_at`: where contact power is taken for `mbd.control.ContactPower`. "evaluation": at A's own point, for nothing. "end": at the
      end of the step, a second evaluation. With impacts it is needed: a step whose first half is free says nothing of where it ends.
    - `tolerance`, `length_scale`: accepted local position error, as in HHT. The estimate, third order in h by Lemma 1, takes the change of
      acceleration since the last step for h q''', and costs nothing. Without `predict_velocity` all of that change is taken for one by
      velocities, as it may be: where A does not depend on v the estimate is too large, 8 times with alpha = beta = 1/2. Free flight has no
      error: where something may come into the way, give `max_step`, a fixed step, or contact power at the end.
    - `corrector`: part of the largest acceleration that Newton may leave.
    - joints with multipliers: solved for together with B, so that positions satisfy Phi at the end of each step; then velocities are projected
      on Phi' = 0. Still one evaluation of A and the same order; multipliers are first order (those of t_n + h/3).

    Orientations are normalised after every step and wherever a force is evaluated. `solution.acceleration` is A_{n+alpha} + B_{n+beta} of the
    step that led there.

    ```bibtex
    @techreport{modin2007semiexplicit,
      title={Semiexplicit numerical integration by splitting with application to dynamic multibody problems with contacts},
      author={Modin, Klas and Fritzson, Dag and F{\"u}hrer, Claus},
      institution={Lund University},
      year={2007}
    }
    ```
    """

    alpha: Float[Array, ""]
    beta: Float[Array, ""]
    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    corrector: Float[Array, ""]
    predict_velocity: bool = eqx.field(static=True)
    estimate: str = eqx.field(static=True)
    power_at: str = eqx.field(static=True)
    order: ClassVar[int] = 2
    name: ClassVar[str] = "semi-explicit"
    reports_power: ClassVar[bool] = True
    reports_stiffness: ClassVar[bool] = True
    implicit_in_b: ClassVar[bool] = True

    def __init__(
        self,
        alpha: Any = 0.5,
        beta: Any = 0.5,
        predict_velocity: bool = False,
        *,
        tolerance: Any = 1e-5,
        length_scale: Any = 1.0,
        estimate: str = "consecutive",
        power_at: str = "evaluation",
        corrector: Any = CORRECTOR,
    ):
        read_numbers(self, alpha=alpha, beta=beta, tolerance=tolerance, length_scale=length_scale, corrector=corrector)
        for field, value, known in (("estimate", estimate, _ESTIMATES), ("power_at", power_at, _POWERS)):
            if value not in known:
                raise ValueError(f"{field} of SemiExplicit must be one of {', '.join(map(repr, known))}, got {value!r}.")
        if estimate == "printed" and not is_traced(self.alpha) and self.alpha == 0:
            raise ValueError("estimate='printed' of SemiExplicit compares A_{n+alpha} with A_n: alpha must not be 0. Use 'consecutive'.")
        self.predict_velocity, self.estimate, self.power_at = predict_velocity, estimate, power_at

    def check(self, system: AbstractSystem) -> None:
        """Multipliers are found."""

    def precise(self):
        return precise(self)

    def amplification(self, h, k, c):
        q, v, last = np.eye(3)
        ahead = float(self.alpha) * h
        a = -k * (q + ahead * v) - c * (v + ahead * last if self.predict_velocity else v)
        return largest_eigenvalue(q + h * v + 0.5 * h**2 * a, v + h * a, a)

    def stiffness_limit(self) -> Array:
        """Theorem 3 without damping."""
        enough = self.alpha >= 0.5
        return jnp.where(enough, 2.0 / jnp.where(enough, self.alpha, 1.0), jnp.nan)

    def init(self, system: AbstractSystem, state: State) -> tuple[State, SplittingScratch]:
        nothing, multipliers = Evaluation(state.q, jnp.zeros_like(state.q), jnp.zeros(())), state.multipliers.shape[0] * _has_joints(system)
        touched, motion = np.asarray(system.stiff_coordinates(), int), jnp.zeros(0)
        if touched.size > 0:
            motion = system.stiff_part().to_motion(state.q[touched], state.acceleration[touched])
        return state, frozen(SplittingScratch(StepJacobian.nothing(motion.shape[0] + multipliers), motion, nothing, nothing))

    # --- step -------------------------------------------------------------------------------------------------------------------------

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        system = system.recall(state.memory)
        q, v, t, x = self._point(system, state, h)
        explicit, rate = acceleration_a(system, q, v, t, x), state_rate(system, x, q, v, t)
        a, found, multipliers = explicit, None, jnp.zeros_like(state.multipliers)
        stiff = SplittingEquations.of(system, self.beta, state, h, explicit, rate) if system.stiff_coordinates() else None
        joints = _has_joints(system)
        if joints:
            equations = ConstrainedSplitting.of(system, stiff, state, h, explicit)
            z, found = solve_step(equations, known, lambda here: frozen(self)._search_held(here, frozen(state), scratch))
            a, multipliers = equations.acceleration(z), equations.split(z)[1]
        elif stiff is not None:
            y, found = solve_step(stiff, known, lambda here: frozen(self)._search(here, frozen(state), scratch))
            a = spread(system, explicit, stiff.acceleration(y))
        q_new, v_new = system.normalize(state.q + h * state.v + 0.5 * h**2 * a, state.v + h * a)
        if joints:
            v_new = hold_velocity(system, q_new, v_new, state.t + h, state.memory.kept_rows)
        new = State(state.t + h, q_new, v_new, state.x + h * rate, multipliers, a, rate, state.memory, state.method)
        if known is not None:
            return new, scratch, StepInfo.nothing_searched()
        jacobian, motion, info = (scratch.jacobian, scratch.motion, None) if found is None else found
        tried = Evaluation(q, explicit, h)
        report = self._report(system, state, new, h, (q, v, t, x), scratch.last, tried, info)
        return new, frozen(SplittingScratch(jacobian, motion, scratch.last, tried)), frozen(report)

    def accept(self, state: State, new: State, scratch: SplittingScratch) -> SplittingScratch:
        return SplittingScratch(scratch.jacobian, scratch.motion, scratch.tried, scratch.tried)

    def _point(self, system: AbstractSystem, state: State, h: Array) -> tuple[Array, Array, Array, Array]:
        """The arguments of A."""
        ahead = self.alpha * h
        v, x = state.v, state.x
        if self.predict_velocity:
            v, x = v + ahead * state.acceleration, x + ahead * state.state_rate
        # The orientation at the end of a straight line is none: contacts would see bodies of another size.
        q, v = system.normalize(state.q + ahead * state.v, v)
        return q, v, state.t + ahead, x

    def _search(
        self, equations: SplittingEquations, old: State, scratch: SplittingScratch
    ) -> tuple[Array, tuple[StepJacobian, Array, NewtonInfo]]:
        """B_{n+beta} of the bodies that it touches."""
        last, part = equations.touched_of(old.acceleration), equations.part
        length, angle = allowed_accelerations(part, equations.q, equations.v, equations.h, self.corrector, equations.explicit, last)
        # An angular acceleration is twice the acceleration of Euler parameters.
        allowed, known = jnp.where(np.asarray(part.motion_lengths(), bool), length, 2.0 * angle), equations.known_motion()
        y, (jacobian, info) = solve_acceleration(equations, scratch.motion - known, scratch.jacobian, equations.h, allowed)
        return y, (jacobian, jnp.where(info.converged, y + known, scratch.motion), info)

    def _search_held(
        self, equations: ConstrainedSplitting, old: State, scratch: SplittingScratch
    ) -> tuple[Array, tuple[StepJacobian, Array, NewtonInfo]]:
        """The same together with multipliers: what these leave counts by the accelerations that it stands for."""
        system, stiff, h = equations.system, equations.stiff, equations.h
        length, angle = allowed_accelerations(system, old.q, old.v, h, self.corrector, equations.explicit, old.acceleration)
        allowed = jnp.where(np.asarray(system.coordinate_lengths(), bool), length, angle)
        start, known, of_motion = old.multipliers, jnp.zeros(0), jnp.ones(0)
        if stiff is not None:
            known, of_motion = stiff.known_motion(), jnp.where(np.asarray(stiff.part.motion_lengths(), bool), length, 2.0 * angle)
            start = jnp.concatenate([scratch.motion - known, start])

        def size(correction):
            dy, pull = equations.split(correction)
            held = jnp.max(jnp.abs(pull @ equations.held.pull) / allowed)
            return jnp.maximum(jnp.max(jnp.abs(dy) / of_motion, initial=0.0), held)

        recycled = scratch.jacobian.near(h, CLOSE)
        z, recycled, info = newton(equations.residual, equations.jacobian, start, recycled, size, TrustLastRate())
        motion = jnp.where(info.converged, equations.split(z)[0] + known, scratch.motion)
        return z, (scratch.jacobian.after(recycled, h, info), motion, info)

    # --- what a controller sees -------------------------------------------------------------------------------------------------------

    def _report(
        self, system, old: State, new: State, h: Array, point, last: Evaluation, tried: Evaluation, info: NewtonInfo | None
    ) -> StepInfo:
        one, none = jnp.ones((), jnp.int32), jnp.zeros((), jnp.int32)
        # A is given the velocity of the start: to it alpha is 0.
        points = jnp.stack([self.alpha, self.beta, *([] if self.predict_velocity else [jnp.zeros(())])])
        position, velocity = jnp.max(jnp.abs(3 * points - 1)) / 6, jnp.max(jnp.abs(2 * points - 1)) / 2
        # Lemma 1, positions and h times velocities. The accelerations of two steps are this far apart:
        apart = jnp.maximum((1 - self.alpha) * last.h + self.alpha * h, 0.1 * h)
        jerk = (new.acceleration - old.acceleration) / apart
        error, finite, worst = self.judge(system, old, new, (position + velocity) * h**3 * jerk)
        evaluations, converged = one, finite
        work = Work(none, none, none, one, one, none)
        if info is not None:
            converged = finite & info.converged
            guilty = np.zeros(0, int)
            if touched := system.stiff_coordinates():
                guilty = np.asarray(touched, int)[np.asarray(system.stiff_part().motion_coordinates(), int)]
            if _has_joints(system):
                guilty = np.concatenate([guilty, new.q.shape[0] + np.arange(count_rows(system))])
            worst = jnp.where(info.converged, worst, jnp.asarray(guilty)[info.worst]).astype(jnp.int32)
            work = Work(info.iterations, info.jacobians, info.jacobians, one, one, info.evaluations)
        if self.estimate == "printed":
            stiffness = self._printed_estimate(system, old, h, tried)
            evaluations = evaluations + 1
        else:
            stiffness = _consecutive_estimate(system, last, tried)
        power = largest_contact_power(system, *point)
        if self.power_at == "end":
            power = jnp.maximum(power, largest_contact_power(system, new.q, new.v, new.t, new.x))
            evaluations = evaluations + 1
        work = eqx.tree_at(lambda w: (w.a_evaluations, w.force_evaluations), work, (evaluations, evaluations))
        solvable = jnp.array(True) if info is None else info.finite
        return StepInfo(error, converged, worst, work, solvable, power=power, stiffness=stiffness, stiffness_limit=self.stiffness_limit())

    def _printed_estimate(self, system: AbstractSystem, old: State, h: Array, tried: Evaluation) -> Array:
        """(15): the change of A along the flow."""
        change = tried.a - acceleration_a(system, old.q, old.v, old.t, old.x)
        distance = h * self.alpha * jnp.sqrt(jnp.sum(old.v**2))
        return jnp.where(distance > 0, jnp.sqrt(jnp.sum(change**2)) / jnp.where(distance > 0, distance, 1.0), 0.0)


def _consecutive_estimate(system: AbstractSystem, last: Evaluation, tried: Evaluation) -> Array:
    """|A_k - A_{k-1}| over the distance of their arguments, for the translation and the rotation of every body; the largest.

    Bodies that B holds are left out: they hardly move while contacts push them, and the quotient would be that of other bodies' motion.
    """
    part = 2 * np.asarray(system.coordinate_bodies(), int) + ~np.asarray(system.coordinate_lengths(), bool)
    held = np.isin(np.arange(part.size), system.stiff_coordinates())
    kinds, owner = np.unique(part, return_inverse=True)
    if not np.all(held):
        owner = np.where(held, kinds.size, owner)
    squares = jnp.stack([(tried.a - last.a) ** 2, (tried.q - last.q) ** 2, tried.q**2], axis=1)
    change, distance, size = sum_by_owner([squares], tuple(owner.tolist()), kinds.size).T
    moved = (last.h > 0) & (distance > _STANDSTILL**2 * size)
    slope = jnp.where(moved, jnp.sqrt(change / jnp.where(moved, distance, 1.0)), 0.0)
    return jnp.max(jnp.where(jnp.isfinite(slope), slope, 0.0), initial=0.0)
