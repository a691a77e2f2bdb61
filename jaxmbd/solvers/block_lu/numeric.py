"""LU factors of a matrix of blocks, along a plan: batched products of small matrices and gathers; LAPACK sees the root alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .analysis import Plan, Rounds, Sums
from .pivots import inverses


class Eliminated(eqx.Module):
    """What a round leaves behind: of its pivots P, the blocks U beside and L under them."""

    down: Float[Array, "*rounds m rows b"]
    """P^-1, and under it L P^-1"""
    up: Float[Array, "*rounds m b columns"]
    """P^-1 U"""


class Factors(eqx.Module):
    rounds: tuple[Eliminated, ...]
    root: Float[Array, "r r"]
    """its inverse"""


def factorize(plan: Plan, blocks: Float[Array, "slots b b"], lead: int) -> Factors:
    """Of the blocks that `analyse` listed. Pivots are inverted in two steps: their first `lead` rows and columns, and then what is left of the
    others. Both must be regular; a singular one gives infinities or NaN."""
    found = []
    for tables in plan.rounds:
        if _is_loop(tables):
            blocks = _sized(blocks, tables.old.shape[1])
            blocks, factors = jax.lax.scan(lambda left, own: _eliminate(own, left, lead), blocks, tables)
        else:
            blocks, factors = _eliminate(tables, blocks, lead)
        found.append(factors)
    r, b = plan.root.shape[0], blocks.shape[-1]
    root = jnp.moveaxis(_with_zero(blocks)[plan.root], 1, 2).reshape(r * b, r * b)
    return Factors(tuple(found), jnp.linalg.inv(root))


def no_factors(plan: Plan, b: int) -> Factors:
    """A placeholder of the right shapes."""

    def zeros(tables: Rounds) -> Eliminated:
        *rounds, m, d = tables.right.shape
        return Eliminated(jnp.zeros((*rounds, m, (1 + d) * b, b)), jnp.zeros((*rounds, m, b, d * b)))

    return Factors(tuple(zeros(tables) for tables in plan.rounds), jnp.zeros((plan.root.shape[0] * b,) * 2))


def solve(plan: Plan, factors: Factors, right: Float[Array, "nodes b"], *, transposed: bool = False) -> Float[Array, "nodes b"]:
    """matrix^-1 right, or matrix^-T right."""
    down, up, b = (_down_transposed, _up_transposed, right.shape[1]) if transposed else (_down, _up, right.shape[1])
    kept = []
    for tables, own in zip(plan.rounds, factors.rounds, strict=True):
        right = _sized(right, tables.order.shape[-1])
        if _is_loop(tables):
            right, y = jax.lax.scan(lambda left, pair: down(*pair, left), right, (tables, own))
        else:
            right, y = down(tables, own, right)
        kept.append(y)
    r = plan.root.shape[0]
    x = ((factors.root.T if transposed else factors.root) @ right[:r].ravel()).reshape(r, b)
    for tables, own, y in zip(plan.rounds[::-1], factors.rounds[::-1], kept[::-1], strict=True):
        x = _sized(x, tables.kept.shape[-1])
        if _is_loop(tables):
            x, _ = jax.lax.scan(lambda found, parts: (up(*parts, found), None), x, (tables, own, y), reverse=True)
        else:
            x = up(tables, own, y, x)
    return x


# --- one round --------------------------------------------------------------------------------------------------------------------------------


def _is_loop(tables: Rounds) -> bool:
    return tables.pivots.ndim == 2


def _with_zero(x: Array) -> Array:
    return jnp.concatenate([x, jnp.zeros_like(x[:1])])


def _sized(x: Array, count: int) -> Array:
    """With so many rows: zeros are added, or taken away."""
    return x[:count] if x.shape[0] >= count else jnp.concatenate([x, jnp.zeros((count - x.shape[0], *x.shape[1:]), x.dtype)])


def summed(sums: Sums, contributions: Array) -> Array:
    """By target."""
    found, padded = [], _with_zero(contributions)
    for table in sums.tables:
        parts = padded[table]
        found.append(parts[:, 0] if table.shape[1] == 1 else jnp.sum(parts, axis=1))
    return jnp.concatenate([*found, jnp.zeros_like(padded[:1])])[sums.places]


def _eliminate(tables: Rounds, blocks: Array, lead: int) -> tuple[Array, Eliminated]:
    b, (m, d) = blocks.shape[-1], tables.right.shape
    padded = jnp.concatenate([blocks, jnp.zeros((1, b, b), blocks.dtype), jnp.eye(b, dtype=blocks.dtype)[None]])
    inverse = inverses(padded[tables.pivots], lead)
    below = padded[tables.below].reshape(m, d * b, b)
    right = jnp.swapaxes(padded[tables.right], 1, 2).reshape(m, b, d * b)
    up = inverse @ right
    products = (below @ up).reshape(m, d, b, d, b).swapaxes(2, 3).reshape(m * d * d, b * b)
    left = padded.reshape(-1, b * b)[tables.old] - summed(tables.fill, products)
    return left.reshape(-1, b, b), Eliminated(jnp.concatenate([inverse, below @ inverse], axis=1), up)


def _down(tables: Rounds, factors: Eliminated, right: Array) -> tuple[Array, Array]:
    b, padded = right.shape[1], _with_zero(right)
    both = jnp.einsum("mij,mj->mi", factors.down, padded[tables.eliminated])
    return padded[tables.kept] - summed(tables.incoming, both[:, b:].reshape(-1, b)), both[:, :b]


def _up(tables: Rounds, factors: Eliminated, y: Array, x: Array) -> Array:
    around = _with_zero(x)[tables.neighbours].reshape(y.shape[0], -1)
    return jnp.concatenate([x, y - jnp.einsum("mij,mj->mi", factors.up, around)])[tables.order]


def _down_transposed(tables: Rounds, factors: Eliminated, right: Array) -> tuple[Array, Array]:
    b, padded = right.shape[1], _with_zero(right)
    y = padded[tables.eliminated]
    passed_on = jnp.einsum("mij,mi->mj", factors.up, y).reshape(-1, b)
    return padded[tables.kept] - summed(tables.incoming, passed_on), y


def _up_transposed(tables: Rounds, factors: Eliminated, y: Array, x: Array) -> Array:
    around = _with_zero(x)[tables.neighbours].reshape(y.shape[0], -1)
    found = jnp.einsum("mij,mi->mj", factors.down, jnp.concatenate([y, -around], axis=1))
    return jnp.concatenate([x, found])[tables.order]
