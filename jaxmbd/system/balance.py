"""Accelerations and multipliers from the equations of motion at a state, where forces may depend on the multipliers.

    [ M      Phi_q^T ] [ a      ]   [ Q(q, v, t, x, lambda) ]
    [ Phi_q  0       ] [ lambda ] = [ -Phi'' without a      ]

Where they do not, that is one linear solve. Where they do, its lower half is an equation lambda = L(Q(lambda)) for as many unknowns as rows.
Friction makes it piecewise smooth: Newton's method takes, of several lengths of each step, the one that leaves the smallest gap. It begins
with lambda = 0, so that the first step leads to the reactions without friction, and of several solutions the one near these is found.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from .._precision import attainable
from ..solvers.linear import solve_once
from ..solvers.roots import AbstractEquations, implicit_root
from .equations import AbstractSystem, constraint_curvature, differential, state_rate, state_residual, total_force

_NEGLIGIBLE = attainable(1e-11)
"""Gap between the two sides over 1 + |lambda|."""
_LENGTHS = 0.5 ** np.arange(8)
_MAX_ITERATIONS = 50


def accelerations(
    system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, kept: Array, matrix: Float[Array, "n n"]
) -> tuple[Float[Array, "q"], Float[Array, "rows"], Bool[Array, ""]]:
    """Accelerations, multipliers, and whether they could be found. `matrix` is the saddle matrix at q."""
    n, here = q.shape[0], _Balance(system, q, v, t, x, kept, matrix, -kept * constraint_curvature(system, q, v, t))
    multipliers, balanced = jnp.zeros_like(kept), jnp.array(True)
    if system.multiplier_forces():
        multipliers, balanced = implicit_root(here, lambda there: find_multipliers(there.residual, multipliers))
    z = here.respond(multipliers)
    return z[:n], z[n:], balanced


def balanced_start(
    system: AbstractSystem, q: Array, v: Array, t: Array, x: Array, kept: Array, matrix: Float[Array, "n n"]
) -> tuple[Float[Array, "q"], Float[Array, "rows"], Float[Array, "x"], Float[Array, "x"], Bool[Array, ""]]:
    """Accelerations, multipliers, x and x', and whether they could be found. Of x, variables and force states are found too; x is where the
    search for these begins."""
    if not system.implicit_states():
        a, multipliers, balanced = accelerations(system, q, v, t, x, kept, matrix)
        return a, multipliers, x, state_rate(system, x, q, v, t), balanced
    right = -kept * constraint_curvature(system, q, v, t)
    here = _Start(_Balance(system, q, v, t, x, kept, matrix, right), differential(system, x))
    begin = jnp.concatenate([jnp.zeros_like(kept), jnp.where(here.integrals > 0, 0.0, x)])
    y, balanced = implicit_root(here, lambda there: find_multipliers(there.residual, begin))
    a, multipliers, rate, x = here.parts(y)
    return a, multipliers, x, rate, balanced


class _Start(AbstractEquations):
    """lambda - L(Q(lambda, x)) = 0 and d(x', x, q, v, v', lambda) = 0, for z = (lambda; x' of differential states, x of the others)."""

    balance: "_Balance"
    integrals: Float[Array, "x"]

    def parts(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """v', lambda, x', x."""
        here, m = self.balance, self.balance.kept.shape[0]
        x = jnp.where(self.integrals > 0, here.x, z[m:])
        solved = dataclasses.replace(here, x=x).respond(z[:m])
        n = here.q.shape[0]
        return solved[:n], solved[n:], self.integrals * z[m:], x

    def residual(self, z):
        here, m = self.balance, self.balance.kept.shape[0]
        a, multipliers, rate, x = self.parts(z)
        missed = state_residual(here.system, rate, x, here.q, here.v, a, here.kept * multipliers, here.t)
        return jnp.concatenate([z[:m] - multipliers, missed])


class _Balance(AbstractEquations):
    """lambda - L(Q(lambda)) = 0."""

    system: AbstractSystem
    q: Float[Array, "q"]
    v: Float[Array, "q"]
    t: Float[Array, ""]
    x: Float[Array, "x"]
    kept: Float[Array, "rows"]
    matrix: Float[Array, "n n"]
    right: Float[Array, "rows"]

    def respond(self, multipliers: Array) -> Float[Array, "n"]:
        """(a, lambda) under the forces that these multipliers cause."""
        force = total_force(self.system, self.q, self.v, self.t, self.x, self.kept * multipliers)
        return solve_once(self.matrix, jnp.concatenate([force, self.right]))

    def residual(self, z):
        return z - self.respond(z)[self.q.shape[0] :]


def find_multipliers(gap: Callable[[Array], Array], start: Float[Array, "rows"]) -> tuple[Float[Array, "rows"], Bool[Array, ""]]:
    """A root of gap(lambda), and whether there was one."""

    def size(multipliers: Array) -> Array:
        return jnp.max(jnp.abs(gap(multipliers)), initial=0.0)

    def open_still(multipliers: Array, left: Array) -> Array:
        return ~(left <= _NEGLIGIBLE * (1.0 + jnp.max(jnp.abs(multipliers), initial=0.0)))

    def proceed(carry):
        multipliers, left, k = carry
        return open_still(multipliers, left) & (k < _MAX_ITERATIONS)

    def iterate(carry):
        multipliers, _, k = carry
        step = -solve_once(jax.jacfwd(gap)(multipliers), gap(multipliers))
        tried = multipliers + jnp.asarray(_LENGTHS)[:, None] * step
        left = jax.vmap(size)(tried)
        best = jnp.argmin(jnp.where(jnp.isfinite(left), left, jnp.inf))
        return tried[best], left[best], k + 1

    multipliers, left, _ = jax.lax.while_loop(proceed, iterate, (start, size(start), 0))
    return multipliers, ~open_still(multipliers, left)
