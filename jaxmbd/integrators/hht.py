"""The Hilber-Hughes-Taylor method for index-3 equations, with Newmark's and the trapezoidal rule as special cases."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..system.parameters import Parameter, positive, read_all
from .hht_equations import SCALINGS, Coefficients
from .newmark import AbstractNewmark

_PARAMETERS: dict[str, Parameter] = {
    "tolerance": positive("1", "must be positive"),
    "length_scale": positive("m", "must be positive: the size of the motions that matter"),
    "state_scale": positive("unit of x", "must be positive"),
    "corrector": positive("1", "must be positive"),
    "alpha": Parameter("1", valid=lambda a: (a >= -1 / 3 - 1e-12) & (a <= 0), requirement="must lie in [-1/3, 0]"),
    "rho": Parameter("1", valid=lambda rho: (rho > 0.5) & (rho <= 1), requirement="must lie in (1/2, 1]", optional=True),
    "beta": positive("1"),
    "gamma": Parameter("1", valid=lambda g: g >= 0.5, requirement="must be at least 1/2, or the method is unstable"),
}
_STATE_ERRORS = ("own-order", "printed")


class HHT(AbstractNewmark):
    r"""Hilber-Hughes-Taylor on the index-3 equations: second order, with numerical damping of high frequencies (alpha in [-1/3, 0]).

    As printed, (10) of the paper averages forces and is second order only for a constant mass matrix (with Euler parameters the measured
    order is 1). Here the equations of motion hold at t_{n+1}, and Newmark's formulas are fed with the averaged acceleration
    a_{n+1} = (1 + alpha) q''_{n+1} - alpha q''_n: the same method for constant M, second order for all. Differential states are averaged
    alike, with rho = gamma, unless `rho` in (1/2, 1] is given: then they follow (9) as printed, x' is not averaged, and they are first order.
    When the step changes, a_n is moved to the time that the new step assigns to it.

    `tolerance` says how accurate a motion is: over a few periods, positions err by at most about 10 tolerance^(2/3), in units of
    max(length_scale, |q|) (`benchmarks/work_precision.py`). For that, the local errors of positions (25) and of velocities, whose estimate
    takes the change of acceleration over two steps, are kept below a tenth of it; velocities are measured in units of
    max(length_scale / 1 s, |v|), and what constraints and stiff dampers take away within two steps does not count. `velocity_error=False` is
    the paper's own control: tolerance is the accepted local position error (34), and velocities may be anything. The error of differential
    states is estimated as that of velocities, by the change of x' over two steps, in units of max(state_scale, |x|). (33), which
    `state_error="printed"` takes instead, is one order below the method: with tight tolerances it costs many small steps
    (`benchmarks/states.py`). Step selection (37), (38), corrector test (43), (45), (46) with c = `corrector`, and additionally constraint
    violations below 1e-10 of the length scale.

    `scaling` says which of the paper's three options condition Newton's matrix: "full", its choice (c), unknowns are accelerations and the
    constraints are divided by beta h^2; "accelerations" (b): without that; "positions" (a): unknowns are q and x. All give the same motion as
    long as rounding errors do not show: `mbd.conditioning` compares them.

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
    rho: Float[Array, ""] | None
    velocity_error: bool = eqx.field(static=True)
    state_error: str = eqx.field(static=True)
    scaling: str = eqx.field(static=True)
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
        rho: Any = None,
        state_error: str = "own-order",
        scaling: str = "full",
    ):
        self.velocity_error = velocity_error
        for option, value, allowed in (("state_error", state_error, _STATE_ERRORS), ("scaling", scaling, SCALINGS)):
            if value not in allowed:
                raise ValueError(f"{option} of HHT must be one of {', '.join(map(repr, allowed))}: got {value!r}.")
        self.state_error, self.scaling = state_error, scaling
        _read(
            self,
            tolerance=tolerance,
            alpha=alpha,
            length_scale=length_scale,
            state_scale=state_scale,
            corrector=corrector,
            rho=rho,
        )

    def coefficients(self):
        return Coefficients(self.alpha, (1.0 - self.alpha) ** 2 / 4.0, 0.5 - self.alpha, self.rho, self.scaling)

    @property
    def printed_state_error(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.state_error == "printed"


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
        setattr(integrator, field, None if value is None else jnp.asarray(value))
