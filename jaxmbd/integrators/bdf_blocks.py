"""The matrix of a step of BDF by blocks: as it is for index 3, and by two solves with blocks of the same size for the stabilised form.

In the stabilised form the velocities change by w = c dq + Phi_q^T dmu, and with p = w / c the equations read

    (c^2 M + c C + K) p + Phi_q^T dlambda  = r_motion + K Phi_q^T dmu / c        dq + Phi_q^T dmu / c = p
    Phi_q p                                = r_rate / c - ...                     Phi_q dq             = r_position

On the left stands the matrix of index 3. What stands on the right but for r is left out, as are derivatives of Phi_q^T mu: mu is nearly zero,
and Newton's method, or corrections where exact solutions are asked for, make up for it. Then each column is one solve.
"""

from typing import TYPE_CHECKING, Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..solvers.algebra import AbstractAlgebra
from ..solvers.block_lu.algebra import BlockAlgebra, solve_by_corrections
from ..solvers.scaling import Scaling
from ..system.blocks.jacobian import Point, Slopes, diagonal_of, motion_jacobian
from ..system.equations import AbstractSystem
from ..system.state import State

if TYPE_CHECKING:
    from ..system.mechanism import AbstractMechanism


def step_blocks(system: AbstractSystem, at: Point, leading: Array) -> Float[Array, "slots b b"]:
    """Of index 3: derivatives by (q, lambda, x), where a formula's leading coefficient is c."""
    return motion_jacobian(cast("AbstractMechanism", system), at, Slopes(1.0, leading, leading**2, 1.0, leading, 1.0))


def stiffness_diagonal(system: AbstractSystem, state: State) -> Float[Array, "q"]:
    """Of K, the slope of constraint forces and of what opposes applied forces."""
    kept, mechanism = state.memory.kept_rows, cast("AbstractMechanism", system)
    at = Point(state.t, state.q, state.v, jnp.zeros_like(state.q), state.x, kept * state.multipliers, kept)
    structure = mechanism.blocks()
    assert structure is not None
    return diagonal_of(structure, motion_jacobian(mechanism, at, Slopes(1.0, 0.0, 0.0, 0.0, 1.0, 1.0)))[: state.q.shape[0]]


class Stabilized(eqx.Module):
    """The two matrices, as blocks or factorised."""

    motion: Any
    """scaled"""
    projection: Any
    """[ I, Phi_q^T; Phi_q, 0 ]"""
    leading: Float[Array, ""]
    """c [1/s]"""
    scaling: Scaling
    """of the unknowns (q, lambda, mu, x)"""


class StabilizedAlgebra(AbstractAlgebra):
    """Of unknowns (q, lambda, mu, x)."""

    blocks: BlockAlgebra
    kept: Float[Array, "rows"]
    moving: int = eqx.field(static=True)
    """how many coordinates there are"""

    def matrix(self, blocks: Float[Array, "slots b b"], leading: Array) -> Stabilized:
        """From that of index 3."""
        n, m, total = self.moving, self.kept.shape[0], self.blocks.back.shape[0]
        is_row = self.blocks.to_nodes(jnp.zeros(total).at[n : n + m].set(1.0))
        is_coordinate = self.blocks.to_nodes(jnp.zeros(total).at[:n].set(1.0))
        between = is_row[self.blocks.rows][:, :, None] * is_coordinate[self.blocks.columns][:, None, :]
        between = between + is_coordinate[self.blocks.rows][:, :, None] * is_row[self.blocks.columns][:, None, :]
        dropped = self.blocks.to_nodes(jnp.ones(total).at[n : n + m].set(1.0 - self.kept), 1.0)
        projection = between * blocks
        count = dropped.shape[0]
        projection = jnp.concatenate([projection[:count] + dropped[:, :, None] * jnp.eye(self.blocks.size), projection[count:]])
        units = jnp.ones(total + m)
        return Stabilized(blocks, projection, leading, Scaling(units, units))

    def scaled(self, matrix: Stabilized, scaling: Scaling) -> Stabilized:
        inner = Scaling(self._without_mu(scaling.rows), self._without_mu(scaling.columns))
        return Stabilized(self.blocks.scaled(matrix.motion, inner), matrix.projection, matrix.leading, scaling)

    def factorize(self, matrix: Stabilized) -> Stabilized:
        motion, projection = (self.blocks.factorize(part) for part in (matrix.motion, matrix.projection))
        return Stabilized(motion, projection, matrix.leading, matrix.scaling)

    def no_factors(self, unknowns: int) -> Stabilized:
        nothing, units = self.blocks.no_factors(unknowns), jnp.ones(unknowns)
        return Stabilized(nothing, nothing, jnp.ones(()), Scaling(units, units))

    def solve(self, factors: Stabilized, right: Float[Array, "n"]) -> Float[Array, "n"]:
        n, m, c, kept, scaling = self.moving, self.kept.shape[0], factors.leading, self.kept, factors.scaling
        wanted = scaling.rows * right
        position, rate = wanted[n : n + m], wanted[n + m : n + 2 * m] / c
        held = kept * rate + (1.0 - kept) * position
        inner = Scaling(self._without_mu(scaling.rows), self._without_mu(scaling.columns))
        first = jnp.concatenate([wanted[:n], held, wanted[n + 2 * m :]]) / inner.rows
        moved = inner.expand(self.blocks.solve(factors.motion, first))
        placed = kept * position + (1.0 - kept) * rate
        second = self.blocks.solve(factors.projection, jnp.concatenate([moved[:n], placed, jnp.zeros_like(moved[n + m :])]))
        return scaling.shrink(jnp.concatenate([second[:n], moved[n : n + m], c * second[n : n + m], moved[n + m :]]))

    def solve_once(self, matrix, right, product):
        factors = self.factorize(jax.lax.stop_gradient(matrix))

        def transposed(r: Array) -> Array:
            return jax.linear_transpose(lambda right: self.solve(factors, right), r)(r)[0]

        return solve_by_corrections(product, right, lambda r: self.solve(factors, r), transposed)

    def _without_mu(self, units: Array) -> Array:
        n, m = self.moving, self.kept.shape[0]
        return jnp.concatenate([units[: n + m], units[n + 2 * m :]])
