"""Steps by contact power: Algorithm 1 of Modin, Führer, Fritzson and Söderlind, over any method that says what power its contacts had."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..system.equations import largest_contact_power
from ..system.parameters import Parameter, not_negative, positive, read_all
from .base import AbstractController, Decision

_PARAMETERS: dict[str, Parameter] = {
    "alpha": not_negative("W^(-exponent)"),
    "epsilon": positive("s"),
    "exponent": positive("1"),
    "eta": Parameter("1", valid=lambda eta: (eta > 0) & (eta < 1), requirement="must lie between 0 and 1"),
    "integral": Parameter("1", valid=lambda g: (g > 0) & (g <= 1), requirement="must lie in (0, 1]"),
    "proportional": not_negative("1"),
}
_SOLVES = ("implicit", "explicit", "predicted")
_SHORTENED, _LONGER = 1.0 - 1e-9, 1.0 + 1e-9


class StepSearch(eqx.Module):
    """Where the search for the present step stands, and what the last one left."""

    power: Float[Array, ""]
    """W, largest of the last accepted step, or at the start"""
    residual: Float[Array, ""]
    """r_k of the last accepted step"""
    asked: Float[Array, ""]
    """the u that was asked for; the loop may have shortened the step. Infinite: nothing was asked yet"""
    low: Float[Array, ""]
    """the longest u of this step that was too short"""
    high: Float[Array, ""]
    """the shortest u of this step that was too long; infinite: none"""
    trials: Int[Array, ""]
    """rejected trials of this step"""
    final: Bool[Array, ""]
    """the search was given up: what was asked is the lower end"""


class ContactPower(AbstractController):
    r"""Step density from contact power: h = epsilon u, where u solves R(u) = 0 to within eta (Algorithm 1).

        R(u) = u/2 (1/W_k + 1/W_{k+1}) - 1        1/W = 1 + alpha P^exponent

    P is the largest contact power of any body (8): of the last accepted step for
    W_k, of this one for W_{k+1}, each the largest over the force evaluations that the step made (at the two ends both may be zero although
    the step went through a contact). No smoothness is assumed and no error estimated: it is for non-smooth contacts at low accuracy.

    - `alpha`: how much contact power shortens steps [W^(-exponent)]; 0: constant steps.
    - `epsilon`: the step without contact [s], to which u is relative. No step is longer than (1 + eta) epsilon.
    - `eta`: accepted |R|; the paper uses 0.1 and 1/2.
    - `max_trials`: rejected trials after which the search is given up and the longest step that was too short is taken: where power jumps, R may
      have no root. R is -1 for u = 0, so that halving finds such a step.
    - `integral`, `proportional`: the predictor log u_{k+1} = log u_k - integral l_k - proportional (l_k - l_{k-1}), l = log(1 + r). The
      paper's is 1, 0; a PI controller, which the paper suggests, smooths the sequence of steps, such as 0.6, 0.2.
    - `exponent`: beta of (8). With the paper's 1/3 the power of a body has the dimension of a rate times kg^(1/3) m^(2/3).
    - `solve`: where u comes from. "implicit": R(u) = 0 by Algorithm 1, the paper's I_z. Two ways reject nothing: "explicit", u = W_k, the
      paper's E_z; and "predicted", the predictor without the search. Both learn of an impact when they are in it: epsilon has to be a step
      that resolves contacts, or nearly.

    Two departures from print. After a first trial that is too short, its u becomes the lower end of the bracket (printed: 0, so that the
    first bisection would repeat it). A step that the loop shortened (the last one, `max_step`, a given `first_step`) is accepted when
    R <= eta. Every trial is an attempt of the integrator and counts in its statistics. W_0 is taken from the initial state, together with
    the initial accelerations; what is evaluated there does not count in the statistics of any method. A first step longer than "explicit"
    asks for is tried again, as is every step whose equations cannot be solved.

    Over explicit methods (`Verlet`, `ExplicitNystrom`, `DormandPrince`) these are the paper's E_y I_z and E_y E_z methods, over `SemiExplicit`
    and `HHT` I_y I_z and I_y E_z. Step sizes have no derivative, as with all controllers.

    ```bibtex
    @inproceedings{modin2005multibody,
      title={A new class of variable step-size methods for multibody dynamics},
      author={Modin, Klas and F{\"u}hrer, Claus and Fritzson, Dag and S{\"o}derlind, Gustaf}
    }
    ```
    """

    alpha: Float[Array, ""]
    epsilon: Float[Array, ""]
    """s"""
    eta: Float[Array, ""]
    integral: Float[Array, ""]
    proportional: Float[Array, ""]
    exponent: Float[Array, ""]
    max_trials: int = eqx.field(static=True)
    solve: str = eqx.field(static=True)

    def __init__(
        self,
        alpha: Any,
        epsilon: Any,
        eta: Any = 0.1,
        *,
        integral: Any = 1.0,
        proportional: Any = 0.0,
        exponent: Any = 1 / 3,
        max_trials: int = 12,
        solve: str = "implicit",
    ):
        numbers = {"alpha": alpha, "epsilon": epsilon, "eta": eta, "integral": integral, "proportional": proportional, "exponent": exponent}
        for field, value in read_all("ContactPower", _PARAMETERS, **numbers).items():
            setattr(self, field, jnp.asarray(value))
        if solve not in _SOLVES:
            raise ValueError(f"solve of ContactPower must be one of {', '.join(map(repr, _SOLVES))}, got {solve!r}.")
        self.solve = solve
        if not (isinstance(max_trials, int) and max_trials >= 1):
            raise ValueError(f"max_trials of ContactPower must be a whole number, at least 1, got {max_trials!r}.")
        self.max_trials = max_trials

    def check(self, system: Any, integrator: Any) -> None:
        if not system.has_contact_power:
            raise ValueError(
                f"ContactPower needs the power of contacts: define contact_power(q, v, t) of {type(system).__name__}, or use mbd.LocalError()."
            )
        if not integrator.reports_power:
            raise ValueError(
                f"ContactPower cannot control {type(integrator).__name__}, which does not report contact power: use mbd.Verlet(), "
                "mbd.ExplicitNystrom(), mbd.DormandPrince(), mbd.SemiExplicit() or mbd.HHT()."
            )

    def init(self, system: Any, state: Any) -> StepSearch:
        power = largest_contact_power(system.recall(state.memory), state.q, state.v, state.t, state.x)
        zero, infinite = jnp.zeros(()), jnp.full((), jnp.inf)
        return StepSearch(power, zero, infinite, zero, infinite, jnp.zeros((), jnp.int32), jnp.array(False))

    def first_step(self, h: Array) -> Array:
        return self.epsilon

    def density(self, power: Array) -> Array:
        """1/W of (8)."""
        some = ~(power <= 0)  # NaN is not none
        return 1.0 + self.alpha * jnp.where(some, jnp.where(some, power, 1.0) ** self.exponent, 0.0)

    def adapt(self, info: Any, order: Any, h: Array, memory: StepSearch):
        u = h / self.epsilon
        residual = 0.5 * u * (self.density(memory.power) + self.density(info.power)) - 1.0
        usable = info.converged & jnp.isfinite(residual)
        residual = jnp.where(usable, residual, jnp.inf)
        shortened = u < _SHORTENED * memory.asked
        given_up = memory.trials >= self.max_trials
        fits = jnp.where(shortened, residual <= self.eta, jnp.abs(residual) <= self.eta)
        given = 1.0 / self.density(memory.power)
        if self.solve != "implicit":
            fits = jnp.array(True) if self.solve == "predicted" else u <= _LONGER * given
        accept = usable & (fits | memory.final | given_up & (residual < 0))

        # The search goes on.
        # A lower end that can no longer be solved, tried again, is too long.
        low = jnp.where(residual < 0, u, jnp.where(u <= memory.low, 0.0, memory.low))
        high = jnp.where(residual < 0, memory.high, jnp.minimum(u, memory.high))
        back = given_up & (low > 0)
        trial = jnp.where(back, low, jnp.where(jnp.isfinite(high), 0.5 * (low + high), 2.0 * u))

        # Or the next step begins.
        last, now = (jnp.log1p(jnp.where(usable, jnp.maximum(r, -1.0 + 1e-12), 0.0)) for r in (memory.residual, residual))
        following = u * jnp.exp(-self.integral * now - self.proportional * (now - last))
        if self.solve == "explicit":
            trial = jnp.where(usable, given, trial)
            following = 1.0 / self.density(info.power)
        asked = jnp.where(accept, following, trial)
        memory = StepSearch(
            jnp.where(accept, info.power, memory.power),
            jnp.where(accept, residual, memory.residual),
            asked,
            jnp.where(accept, 0.0, low),
            jnp.where(accept, jnp.inf, high),
            jnp.where(accept, 0, memory.trials + 1),
            ~accept & back,
        )
        return Decision(accept, self.epsilon * asked), memory
