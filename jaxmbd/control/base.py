"""What every step-size controller looks like."""

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

    def init(self) -> Any:
        """The controller's own state."""
        return jnp.zeros(0)

    def adapt(self, info: Any, order: Any, h: Array, memory: Any) -> tuple[Decision, Any]:
        """`order` is that of info.error: a number, or an array if it changes from step to step."""
        raise NotImplementedError
