"""What every step-size controller looks like."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Decision(eqx.Module):
    """What to do after a step."""

    accept: Bool[Array, ""]
    next_step: Float[Array, ""]
    """s"""


class AbstractController(eqx.Module):
    """Decides on acceptance and the next step from what the step says of itself (`StepInfo`). Nothing here is differentiated."""

    def init(self, system: Any, state: Any) -> Any:
        """The controller's own state where a run begins."""
        return jnp.zeros(0)

    def check(self, system: Any, integrator: Any) -> None:
        """Refuses or warns of a combination that the controller does not suit."""

    def suited(self, integrator: Any) -> "AbstractController":
        """The controller with what was left open chosen for an integrator."""
        return self

    def look(self, system: Any, old: Any, new: Any, info: Any) -> Any:
        """What `adapt` gets of a step from one state to another as `info`; `info` itself, unless a controller wants to know more."""
        return info

    def first_step(self, h: Array) -> Array:
        """The first step to try [s], where the integrator would begin with h."""
        return h

    @abc.abstractmethod
    def adapt(self, info: Any, order: Any, h: Array, memory: Any) -> tuple[Decision, Any]:
        """`order` is that of info.error: a number, or an array if it changes from step to step."""
