"""How well conditioned the equations of an integrator's steps are, and how far Newton's method can reduce its corrections."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .integrators.base import AbstractIntegrator
from .running.starting import consistent_start
from .system.building.model import Model
from .system.equations import AbstractSystem
from .system.initial import remember
from .system.state import State

ITERATIONS = 12
"""Newton iterations in a step. Quadratic convergence reaches rounding errors in four or five."""
_BALANCING = 20
"""Every sweep halves the decades between the entries of a matrix (Ruiz 2001)."""


class Conditioning(eqx.Module):
    """Maxima over the steps. Unknowns and equations are those that the integrator's Newton method sees, scaled."""

    condition_number: Float[Array, ""]
    """2-norm condition number of the iteration matrix at convergence"""
    last_correction: Float[Array, ""]
    """2-norm of the last Newton correction that was smaller than the one before (33): what rounding errors leave"""
    by_field: dict[str, Float[Array, ""]]
    """largest entry of that correction in each field of unknowns"""
    corrections: Float[Array, "iterations"]
    """2-norms of all corrections, also of those after saturation, in the step where the last decreasing one is largest"""


def conditioning(model: Model | AbstractSystem, integrator: AbstractIntegrator, h: Any, steps: int = 20) -> Conditioning:
    """Takes `steps` steps of size h [s] from the initial state, each by Newton's method with exact Jacobians until its corrections stop
    decreasing (Bottasso et al. 2007, (33)), and reports the conditioning of the iteration matrix and the saturation of the corrections.

    Works with integrators whose steps are implicit equations: HHT (and its special cases), BDF.
    """
    system = model.build() if isinstance(model, Model) else model
    if not isinstance(system, AbstractSystem):
        raise ValueError(f"model must be an mbd.Model or an mbd.AbstractSystem, got {type(system).__name__}.")
    if not isinstance(integrator, AbstractIntegrator) or not hasattr(integrator, "equations"):
        raise ValueError(f"conditioning needs an integrator whose steps are implicit equations, such as HHT or BDF, got {integrator!r}.")
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise ValueError(f"steps must be a whole number, at least 1, got {steps!r}.")
    if not (np.ndim(h) == 0 and np.isfinite(float(h)) and float(h) > 0):
        raise ValueError(f"h must be one positive number of seconds, got {h!r}.")
    # One program for any h and number of steps.
    return _run(system, integrator.suited(system).precise(), consistent_start(system), jnp.asarray(h, float), jnp.asarray(steps))


@eqx.filter_jit
def _run(system: AbstractSystem, integrator: Any, state: State, h: Array, steps: Array) -> Conditioning:
    system = system.prepare()
    state, _ = integrator.init(system, state)
    state = integrator.look_back(system, state, h)
    worst = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), eqx.filter_eval_shape(of_step, system, integrator, state, h)[1])

    def advance(_, carry):
        state, worst = carry
        new, found = of_step(system, integrator, state, h)
        largest = jax.tree.map(jnp.maximum, worst, found)
        corrections = jnp.where(found.last_correction >= worst.last_correction, found.corrections, worst.corrections)
        return new, eqx.tree_at(lambda c: c.corrections, largest, corrections)

    return jax.lax.fori_loop(0, steps, advance, (state, worst))[1]


def of_step(system: AbstractSystem, integrator: Any, state: State, h: Array) -> tuple[State, Conditioning]:
    """Of one step of size h from a state that the integrator has prepared; and where the step leads."""
    equations = integrator.equations(system, state, h)
    scaling = equations.scaling()
    residual, jacobian = scaling.residual(equations.residual), equations.scaled_jacobian(scaling)

    def correct(carry, _):
        y, kept, kept_y, last, decreasing = carry
        change = -jnp.linalg.solve(jacobian(y), residual(y))
        size = jnp.linalg.norm(change)
        decreasing = decreasing & (size < last)
        kept, kept_y = jnp.where(decreasing, change, kept), jnp.where(decreasing, y + change, kept_y)
        return (y + change, kept, kept_y, size, decreasing), size

    y = scaling.shrink(equations.first_guess())
    begin = (y, jnp.full_like(y, jnp.inf), y, jnp.array(jnp.inf), jnp.array(True))
    (_, last, y, _, _), sizes = jax.lax.scan(correct, begin, length=ITERATIONS)
    fields = {name: jnp.max(jnp.abs(last[place])) for name, place in equations.fields().items() if place.stop > place.start}
    new = equations.new_state(scaling.expand(y))
    new = eqx.tree_at(lambda s: s.memory, new, remember(system, new.q, new.t, state.memory))
    return new, Conditioning(condition_number(jacobian(y)), jnp.linalg.norm(last), fields, sizes)


def condition_number(matrix: Float[Array, "n n"]) -> Float[Array, ""]:
    """The largest singular values of the matrix and of its inverse, multiplied.

    Beyond 1e16, the smallest singular value drowns in the rounding errors of the largest. What makes these matrices so bad is scaling, and
    that does no harm to an inverse if it is taken out first: entries of very different size remain accurate, each by itself.
    """

    def balance(_, scales):
        rows, columns = scales
        balanced = jnp.abs(rows[:, None] * matrix * columns)
        return rows / jnp.sqrt(jnp.max(balanced, axis=1)), columns / jnp.sqrt(jnp.max(balanced, axis=0))

    ones = jnp.ones(matrix.shape[0])
    rows, columns = jax.lax.fori_loop(0, _BALANCING, balance, (ones, ones))
    inverse = columns[:, None] * jnp.linalg.inv(rows[:, None] * matrix * columns) * rows
    return jnp.linalg.norm(matrix, 2) * jnp.linalg.norm(inverse, 2)
