"""Steps by the stability limit of explicit forces (Modin, Fritzson and Führer 2007, section 5.1)."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..system.parameters import Parameter, is_traced, read_all
from .base import AbstractController, Decision

_PARAMETERS: dict[str, Parameter] = {
    "tolerance": Parameter("1", valid=lambda t: (t > 0) & (t <= 4.0), requirement="must lie in (0, 4]: beyond 4 steps are unstable"),
    "growth": Parameter("1", valid=lambda g: g > 1, requirement="must be more than 1"),
    "failure": Parameter("1", valid=lambda f: (f > 0) & (f < 1), requirement="must lie between 0 and 1"),
}


class Stability(AbstractController):
    """The Sundman control of 5.1: h^2 sigma = tolerance, with the integrator's estimate sigma of the stiffness of A (`StepInfo.stiffness`).

    Scheme (5) is stable without damping up to h^2 sigma = 2/alpha for alpha >= 1/2 (Theorem 3; the 4 of section 5.1 is that of alpha = 1/2), and
    for no step at all if alpha < 1/2, which is refused. The next step is sqrt(tolerance / sigma), at most `growth` times the last one. A step
    that turns out to be beyond the limit is repeated once with the step that its own estimate asks for; a second time it is accepted,
    because where A jumps there is no sigma to meet.

    An estimate sees stiffness in the direction of motion only: a mechanism that rolls steadily, or rests, looks soft. Give `max_step`, the
    step up to which the stiffest contact is stable (2 over its frequency), as the bound from above.

    - `tolerance`: h^2 sigma, at most 2/alpha; accuracy asks for less.
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
        limit = integrator.stiffness_limit()
        if not is_traced(limit) and jnp.isnan(limit):
            raise ValueError(
                f"Stability cannot control {type(integrator).__name__} with alpha < 1/2: without damping no step of it is stable (Theorem 3). "
                "Use alpha >= 1/2, or mbd.LocalError()."
            )
        if not (is_traced(limit) or is_traced(self.tolerance)) and self.tolerance > limit:
            raise ValueError(
                f"tolerance of Stability must be at most 2 / alpha = {float(limit):.4g}, got {float(self.tolerance):.4g}: beyond, steps are "
                "unstable."
            )

    def init(self, system: Any, state: Any) -> Bool[Array, ""]:
        """Whether the last attempt was rejected for being unstable."""
        return jnp.array(False)

    def adapt(self, info: Any, order: Any, h: Array, memory: Array):
        usable = info.converged & jnp.isfinite(info.stiffness) & jnp.isfinite(info.stiffness_limit)
        sigma = jnp.where(usable, info.stiffness, 0.0)
        wanted = jnp.where(sigma > 0, jnp.sqrt(self.tolerance / jnp.where(sigma > 0, sigma, 1.0)), jnp.inf)
        unstable = h**2 * sigma > info.stiffness_limit
        accept = usable & (~unstable | memory)
        following = jnp.where(usable, jnp.minimum(wanted, self.growth * h), self.failure * h)
        return Decision(accept, following), ~accept & usable
