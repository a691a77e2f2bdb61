"""Consistent positions, velocities and accelerations of large mechanisms: what `initial` does with dense matrices, by blocks."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...solvers.roots import AbstractEquations, implicit_root
from ..equations import constraint_and_force, constraint_force, constraint_rate, mass_product
from .jacobian import saddle_blocks

if TYPE_CHECKING:
    from ..mechanism import AbstractMechanism

_MAX_ITERATIONS = 50


def solve_saddle(
    system: "AbstractMechanism", q: Array, t: Array, kept: Array, forces: Array, rows: Array
) -> tuple[Float[Array, "q"], Float[Array, "rows"]]:
    """(a, pull) with M a + Phi_q^T pull = forces and Phi_q a = rows, for the kept rows."""
    n, m, structure = q.shape[0], kept.shape[0], system.blocks()
    assert structure is not None

    def product(z: Array) -> Array:
        a, pull = z[:n], z[n : n + m]
        along = jax.jvp(lambda q: system.constraint(q, t), (q,), (a,))[1]
        held = kept * along + (1.0 - kept) * pull
        return jnp.concatenate([mass_product(system, q, a) + constraint_force(system, q, t, kept * pull), held, z[n + m :]])

    right = jnp.concatenate([forces, rows, jnp.zeros(structure.algebra.back.shape[0] - n - m)])
    z = structure.algebra.solve_once(saddle_blocks(system, q, t, kept), right, product)
    return z[:n], z[n : n + m]


def nearest_velocity(system: "AbstractMechanism", q: Array, v: Array, t: Array, kept: Array) -> Float[Array, "q"]:
    """In the metric of the mass matrix, with Phi_q v + Phi_t = 0."""
    drive = constraint_rate(system, q, jnp.zeros_like(v), t)
    return solve_saddle(system, q, t, kept, mass_product(system, q, v), -kept * drive)[0]


class _Nearest(AbstractEquations):
    """W (moved - q) + Phi_q^T mu = 0 and Phi = 0 (kept rows), with W = M + c Phi_q^T Phi_q at q, for z = (moved, mu)."""

    system: Any
    q: Float[Array, "q"]
    t: Float[Array, ""]
    kept: Float[Array, "rows"]

    def residual(self, z):
        system, q, t, kept, n = self.system, self.q, self.t, self.kept, self.q.shape[0]
        moved, pull = z[:n], z[n : n + kept.shape[0]]
        rows, force = constraint_and_force(system, moved, t, kept * pull)
        along = jax.jvp(lambda q: system.constraint(q, t), (q,), (moved - q,))[1]
        far = system.mean_inertia(q) * constraint_force(system, q, t, kept * along) + mass_product(system, q, moved - q)
        return jnp.concatenate([far + force, kept * rows + (1.0 - kept) * pull, z[n + kept.shape[0] :]])

    def jacobian(self, z):
        """Without curvature, and without the second term of W: of a solution, that changes mu alone."""
        return saddle_blocks(self.system, z[: self.q.shape[0]], self.t, self.kept)

    def algebra(self):
        return self.system.algebra()


def nearest_position(
    system: "AbstractMechanism", q: Array, t: Array, kept: Array, negligible: float
) -> tuple[Float[Array, "q"], Bool[Array, ""]]:
    """The q nearest to the given one that satisfies the kept rows, and whether it was found: to the last correction below `negligible`."""
    n = q.shape[0]

    def search(nearest: _Nearest):
        algebra = nearest.algebra()

        def proceed(carry):
            _, change, k = carry
            return (change > negligible) & (k < _MAX_ITERATIONS)

        def iterate(carry):
            z, _, k = carry
            step = -algebra.solve(algebra.factorize(nearest.jacobian(z)), nearest.residual(z))
            change = jnp.max(jnp.abs(step[:n]) / (1.0 + jnp.abs(z[:n])), initial=0.0)
            return z + step, change, k + 1

        start = jnp.concatenate([nearest.q, jnp.zeros(algebra.back.shape[0] - n)])
        z, change, _ = jax.lax.while_loop(proceed, iterate, (start, jnp.array(jnp.inf), 0))
        return z, jnp.isfinite(change) & (change <= negligible)

    z, converged = implicit_root(_Nearest(system, q, t, kept), search)
    return z[:n], converged
