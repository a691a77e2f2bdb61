"""What the methods for q'' = A + B share. But for `SemiExplicit` they know no multipliers, so that joints must be held by penalties.

The coordinates' own manifold (Euler parameters) is taken care of by `normalize`, at the arguments of forces and after each step.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..control import LocalError
from ..control.base import AbstractController
from ..solvers.newton import NewtonInfo, TrustLastRate, newton
from ..solvers.roots import AbstractEquations, frozen
from ..system.equations import AbstractSystem, count_rows
from ..system.parameters import Parameter, positive, read_all
from ..system.state import State
from .base import AbstractIntegrator
from .common import coordinate_weights, rms
from .implicit import StepJacobian
from .interpolation import interpolate_motion

CLOSE = 0.1
"""A Jacobian is recycled while the logarithm of the ratio of step sizes is below this: the matrix of a stiff B is proportional to h^2."""
_ROUNDING = 64 * 2.0**-52
CORRECTOR = 1e-6
"""Accelerations are corrected to this part of the largest one."""
_PRECISE = 1e-9
"""The same in prescribed steps: small enough for finite differences of replayed runs."""

PARAMETERS: dict[str, Parameter] = {
    "tolerance": positive("1"),
    "length_scale": positive("m", "must be positive: the size of the motions that matter"),
    "corrector": positive("1"),
    "alpha": Parameter("1", valid=lambda a: (a >= -0.5) & (a <= 1), requirement="must lie in [-1/2, 1]"),
    "beta": Parameter("1", valid=lambda b: (b >= 0) & (b <= 1), requirement="must lie in [0, 1]"),
    "theta": Parameter("1", valid=lambda b: (b >= 0) & (b <= 1), requirement="must lie in [0, 1]"),
}


class AbstractUnconstrained(AbstractIntegrator):
    """A method for q'' = A + B. `tolerance` is the accepted local position error in units of max(length_scale, |q|), as in HHT."""

    tolerance: eqx.AbstractVar[Float[Array, ""]]
    length_scale: eqx.AbstractVar[Float[Array, ""]]

    def default_controller(self) -> AbstractController:
        return LocalError()

    def check(self, system: AbstractSystem) -> None:
        refuse_multipliers(type(self).__name__, system)

    def first_step(self, system: AbstractSystem, state: State) -> Array:
        weight = coordinate_weights(system, self.length_scale, jnp.abs(state.q))
        speed, curvature = rms(state.v * weight), rms(state.acceleration * weight)
        return 0.1 * self.tolerance ** (1 / 3) / jnp.maximum(jnp.maximum(speed, jnp.sqrt(curvature)), 1e-2)

    def interpolate(self, old: State, new: State, t: Array) -> State:
        return interpolate_motion(old, new, t)

    def judge(self, system: AbstractSystem, old: State, new: State, error: Array) -> tuple[Array, Array, Array]:
        """Error over tolerance, whether the new state is finite, and the coordinate to blame, from estimated position errors."""
        weight = coordinate_weights(system, self.length_scale, jnp.maximum(jnp.abs(old.q), jnp.abs(new.q)))
        weighted = frozen(error * weight)
        finite = jnp.all(jnp.isfinite(new.q) & jnp.isfinite(new.v)) & jnp.all(jnp.isfinite(new.x))
        return rms(weighted) / frozen(self.tolerance), finite, jnp.argmax(jnp.abs(weighted)).astype(jnp.int32)


def refuse_multipliers(method: str, system: AbstractSystem) -> None:
    """Refuses a system with constraint rows that `normalize` does not take care of."""
    rows, n = count_rows(system) - system.own_rows(), len(system.coordinate_lengths())
    if rows == 0:
        return
    names = list(dict.fromkeys(system.describe_unknown(n + i) for i in range(rows)))
    listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    raise ValueError(
        f"{method} has no multipliers, but the system has constraints that need them: {listed}. Hold joints by penalties "
        "(penalty=mbd.Penalty(stiffness, damping)), or use mbd.SemiExplicit() or mbd.HHT()."
    )


def read_numbers(integrator: AbstractUnconstrained, **values: Any) -> None:
    """The part of a constructor that all these methods share."""
    for field, value in read_all(type(integrator).__name__, PARAMETERS, **values).items():
        setattr(integrator, field, jnp.asarray(value))


def largest_eigenvalue(*rows: Any) -> float:
    """Of a matrix, in magnitude."""
    return float(np.max(np.abs(np.linalg.eigvals(np.stack(rows)))))


def precise(integrator: Any) -> Any:
    """The same method with `corrector` tightened for prescribed steps."""
    return eqx.tree_at(lambda s: s.corrector, integrator, jnp.minimum(integrator.corrector, _PRECISE))


# --- implicit parts -------------------------------------------------------------------------------------------------------------------------


def solve_acceleration(
    equations: AbstractEquations, start: Array, jacobian: StepJacobian, h: Array, allowed: Array
) -> tuple[Array, tuple[StepJacobian, NewtonInfo]]:
    """The root of residual(a) = a - (accelerations at a point that depends on a), each entry to within what is allowed."""

    def size(correction):
        return jnp.max(jnp.abs(correction) / allowed)

    a, recycled, info = newton(equations.residual, equations.jacobian, start, jacobian.near(h, CLOSE), size, TrustLastRate())
    return a, (jacobian.after(recycled, h, info), info)


def allowed_accelerations(
    system: AbstractSystem, q: Array, v: Array, h: Array, corrector: Array, *accelerations: Array
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """What Newton may leave in accelerations of lengths and of others: a part of the largest one, and what rounding leaves anyway.

    A penalty turns the rounding of a position, eps |q|, into an acceleration of k/m eps |q|, and the implicit equations divide by h^2 k/m:
    eps |q| / h^2 remains, whatever the penalty. With dampers likewise eps |v| / h. An angle counts as one radian at least: at rest and at
    zero it is turned all the same by what is allowed elsewhere.
    """
    is_length = np.asarray(system.coordinate_lengths(), dtype=bool)
    acceleration = sum((jnp.abs(a) for a in accelerations), jnp.zeros_like(q))
    scale = corrector * acceleration + _ROUNDING * (jnp.where(is_length, jnp.abs(q), 1.0 + jnp.abs(q)) / h**2 + jnp.abs(v) / h) + 1e-30
    of_lengths, of_others = (jnp.max(jnp.where(chosen, scale, 1e-30), initial=1e-30) for chosen in (is_length, ~is_length))
    return frozen(of_lengths), frozen(of_others)
