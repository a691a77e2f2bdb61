"""Steps by the stability limit of explicit forces (Modin, Fritzson and Führer 2007, section 5.1)."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..system.parameters import Parameter, read_all
from .base import AbstractController, Decision

_LIMIT = 4.0
"""h^2 sigma beyond which (5) with alpha = 1/2 is unstable (Theorem 3)."""

_PARAMETERS: dict[str, Parameter] = {
    "tolerance": Parameter("1", valid=lambda t: (t > 0) & (t <= _LIMIT), requirement="must lie in (0, 4]: beyond 4 steps are unstable"),
    "growth": Parameter("1", valid=lambda g: g > 1, requirement="must be more than 1"),
    "failure": Parameter("1", valid=lambda f: (f > 0) & (f < 1), requirement="must lie between 0 and 1"),
}


class Stability(AbstractController):
    """The Sundman control of 5.1: h^2 sigma = tolerance <= 4, with the integrator's estimate sigma of the stiffness of A (`StepInfo.stiffness`).

    The next step is sqrt(tolerance / sigma), at most `growth` times the last one. A step that turns out to have h^2 sigma > 4 is repeated once
    with the step that its own estimate asks for; a second time it is accepted, because where A jumps there is no sigma to meet.

    An estimate sees stiffness in the direction of motion only: a mechanism that rolls steadily, or rests, looks soft. Give `max_step`, the
    step up to which the stiffest contact is stable (2 over its frequency), as the bound from above.

    - `tolerance`: h^2 sigma; accuracy asks for less than the 4 of stability.
      Nothing is known of sigma at the start: `simulate(first_step=...)` says how to begin.
    """

    tolerance: Float[Array, ""]
    growth: Float[Array, ""]
    failure: Float[Array, ""]

    def __init__(self, tolerance: Any = 0.1, *, growth: Any = 1.5, failure: Any = 0.25):
        given = read_all("Stability", _PARAMETERS, tolerance=tolerance, growth=growth, failure=failure)
        for field, value in given.items():
            setattr(self, field, jnp.asarray(value))

    def check(self, system: Any, integrator: Any) -> None:
        if not integrator.reports_stiffness:
            raise ValueError(
                f"Stability cannot control {type(integrator).__name__}, which does not estimate stiffness: use mbd.SemiExplicit(), or "
                "mbd.LocalError()."
            )

    def init(self, system: Any, state: Any) -> Bool[Array, ""]:
        """Whether the last attempt was rejected for being unstable."""
        return jnp.array(False)

    def adapt(self, info: Any, order: Any, h: Array, memory: Array):
        usable = info.converged & jnp.isfinite(info.stiffness)
        sigma = jnp.where(usable, info.stiffness, 0.0)
        wanted = jnp.where(sigma > 0, jnp.sqrt(self.tolerance / jnp.where(sigma > 0, sigma, 1.0)), jnp.inf)
        unstable = h**2 * sigma > _LIMIT
        accept = usable & (~unstable | memory)
        following = jnp.where(usable, jnp.minimum(wanted, self.growth * h), self.failure * h)
        return Decision(accept, following), ~accept & usable
