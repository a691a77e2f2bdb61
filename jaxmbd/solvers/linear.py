"""Linear solves of one size for the Newton iterations: factorise once, solve often."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Factors(eqx.Module):
    """A factorised matrix."""

    lu: Float[Array, "n n"]
    pivots: Int[Array, "n"]


def factorize(matrix: Float[Array, "n n"]) -> Factors:
    return Factors(*jax.scipy.linalg.lu_factor(matrix))


def solve(factors: Factors, right: Float[Array, "n"]) -> Float[Array, "n"]:
    return jax.scipy.linalg.lu_solve((factors.lu, factors.pivots), right)


def no_factors(n: int) -> Factors:
    """A placeholder of the right shape."""
    return Factors(jnp.zeros((n, n)), jnp.zeros(n, jnp.int32))
