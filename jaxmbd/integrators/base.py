"""What every integrator looks like.

A step is a pure function of the system, the state and the step size. Besides the state, which is recorded and differentiated, a method may
carry `scratch`: things that only make it faster (a recycled Jacobian, the history for a prediction, error weights). Scratch survives
rejected steps and has no influence on derivatives.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..control.base import AbstractController
from ..results import RESULTS
from ..system.equations import AbstractSystem, refuse_implicit_states, refuse_velocity_rows
from ..system.state import State


class Work(eqx.Module):
    """What was spent; adds up over steps."""

    newton_iterations: Int[Array, ""]
    jacobians: Int[Array, ""]
    factorizations: Int[Array, ""]
    force_evaluations: Int[Array, ""]
    a_evaluations: Int[Array, ""]
    """of family A; evaluations for a Jacobian are counted by `jacobians`"""
    b_evaluations: Int[Array, ""]
    """of family B; none in a run of a system without it"""

    @staticmethod
    def nothing() -> "Work":
        zero = jnp.zeros((), jnp.int32)
        return Work(zero, zero, zero, zero, zero, zero)

    @staticmethod
    def newton(iterations: Array, jacobians: Array, evaluations: Array) -> "Work":
        """Of a Newton method that evaluates both families every time."""
        return Work(iterations, jacobians, jacobians, evaluations, evaluations, evaluations)

    def of(self, system: AbstractSystem) -> "Work":
        """The same for a system that may have no family B: then nothing of it was evaluated."""
        if system.stiff_coordinates():
            return self
        return eqx.tree_at(lambda work: work.b_evaluations, self, jnp.zeros_like(self.b_evaluations))

    def __add__(self, other: "Work") -> "Work":
        return Work(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


class StepInfo(eqx.Module):
    """What a controller sees of a step."""

    error: Float[Array, ""]
    """estimated local error over the tolerance; at most 1 is acceptable"""
    converged: Bool[Array, ""]
    """False: there is no new state worth looking at"""
    worst: Int[Array, ""]
    """the entry of (q, multipliers, x) that is to blame"""
    work: Work
    finite: Bool[Array, ""] = eqx.field(default_factory=lambda: jnp.array(True))
    """False: equations were not finite where they were to be solved; the loop looks at the new state itself"""
    singular: Bool[Array, ""] = eqx.field(default_factory=lambda: jnp.array(False))
    """True: the constraints are (nearly) singular here; `worst` is then the row to blame"""
    order: Int[Array, ""] | None = None
    """of the error estimate, if it is not the integrator's own for all steps"""
    ratio: Float[Array, ""] | None = None
    """of the next step to this one, as the integrator would like it if this one is accepted; None: it leaves that to the controller"""

    power: Float[Array, ""] | None = None
    """W, the largest contact power of any body where the step evaluated forces; None: the method does not say"""
    stiffness: Float[Array, ""] | None = None
    """1/s^2, an estimate of the largest eigenvalue of -dA/dq; None: the method does not say"""
    stiffness_limit: Float[Array, ""] | None = None
    """h^2 stiffness beyond which a step is unstable; None: the method does not say"""

    @staticmethod
    def nothing_searched() -> "StepInfo":
        """Of a step whose result was known."""
        return StepInfo(jnp.zeros(()), jnp.array(True), jnp.zeros((), jnp.int32), Work.nothing())


class AbstractIntegrator(eqx.Module):
    """A method. Final subclasses are Modules whose numbers are leaves."""

    order: eqx.AbstractClassVar[int]
    """of the local error estimate: the error of a step is proportional to h^(order + 1)"""
    name: eqx.AbstractClassVar[str]
    reports_power: ClassVar[bool] = False
    """Whether `StepInfo.power` is filled."""
    reports_stiffness: ClassVar[bool] = False
    """Whether `StepInfo.stiffness` is filled."""
    even_end: ClassVar[bool] = False
    """Whether the last few adaptive steps share what is left evenly, instead of ending with one that may be tiny."""

    solves_for_multipliers: ClassVar[bool] = False
    """Whether forces may depend on multipliers, and these may hold velocities alone."""

    unsolved: ClassVar[RESULTS] = RESULTS.newton_failed
    """What a step that did not converge is called."""

    implicit_in_b: ClassVar[bool] = False
    """Whether family B does not limit the step of a method that is explicit otherwise."""

    def amplification(self, h: float, k: float, c: float) -> float | None:
        """By how much a step h multiplies a disturbance of q'' = -k q - c q', on the host; None: it is not known to be limited."""
        return None

    def stiffness_limit(self) -> Float[Array, ""]:
        """h^2 sigma up to which steps are stable where forces have the stiffness sigma per mass and no damping; NaN: none is."""
        return jnp.array(jnp.nan)

    @abc.abstractmethod
    def default_controller(self) -> AbstractController:
        """What chooses the steps, unless a run is given a controller."""

    def check(self, system: AbstractSystem) -> None:
        """Refuses or warns of a system that the method does not suit."""

    def refuse_multiplier_forces(self, system: AbstractSystem) -> None:
        """Refuses forces that depend on multipliers, constraints of velocities and implicit states, unless the method solves for all of it."""
        if not self.solves_for_multipliers:
            refuse_velocity_rows(system, type(self).__name__)
            refuse_implicit_states(system, type(self).__name__)
        if (forces := system.multiplier_forces()) and not self.solves_for_multipliers:
            raise ValueError(
                f"{type(self).__name__} does not know the multipliers when it evaluates forces, but there are forces that depend on them: "
                f"{', '.join(forces)}. Use mbd.HHT() or mbd.BDF(), or hold the joints of a model by penalties "
                "(penalty=mbd.Penalty(stiffness, damping))."
            )

    def suited(self, system: AbstractSystem) -> "AbstractIntegrator":
        """The method with what was left open chosen for a system."""
        return self

    def precise(self) -> "AbstractIntegrator":
        """The method for prescribed steps, where no error estimate says how well its equations must be solved."""
        return self

    @abc.abstractmethod
    def init(self, system: AbstractSystem, state: State) -> tuple[State, Any]:
        """The state with what the method carries, and scratch, from a consistent state."""

    def look_back(self, system: AbstractSystem, state: State, h: Array) -> State:
        """The state of `init` with what the method needs of the time before it, if its first step has the size h."""
        return state

    def orders_of(self, states: State) -> Int[Array, "*rows"] | None:
        """The orders of the steps that led to states; None if there is one for all."""
        return None

    @abc.abstractmethod
    def first_step(self, system: AbstractSystem, state: State) -> Float[Array, ""]:
        """A step size to begin with [s]."""

    @abc.abstractmethod
    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        """One step of size h. `known` is the result of the same step taken before: then nothing is searched, only differentiated."""

    def accept(self, state: State, new: State, scratch: Any) -> Any:
        """Scratch after the step from `state` to `new` was accepted."""
        return scratch

    @abc.abstractmethod
    def interpolate(self, old: State, new: State, t: Array) -> State:
        """The state at a time within an accepted step, as accurate as the method."""
