"""Which coordinates are independent: the choice, and what the constraints leave to move at a configuration."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..._numbers import Numbers
from ...solvers import linear
from ...system.equations import AbstractSystem, constraint_jacobian
from ...system.naming import find_coordinates
from ...system.state import Memory

_WORSE = 1.5
"""A choice is reconsidered when dependent coordinates move this many times faster than they did when it was made. Early: near a dead point all
higher derivatives grow, and steps with the error; changing costs a one-step method nothing, and there are hardly more changes."""
_TURNS = 0.1
"""How much a coordinate that is no length [1/m] counts beside one that is, in the search for dependent ones: angles make the better
independent coordinates of a chain, because the motion is smoother in them."""

_PLACES = 1e-2
"""How much less the last coordinate counts than the first: among equals, rounding must not decide."""


class Partition(eqx.Module):
    """A choice of independent coordinates. It belongs to the discrete memory of a run: it has no derivative."""

    independent: Int[Numbers, "*runs y"]
    """places in q"""
    dependent: Int[Numbers, "*runs u"]
    limit: Float[Numbers, "*runs"]
    """The choice is reconsidered when the slope of a dependent coordinate exceeds this."""

    def merge(self, y: Float[Array, "y"], u: Float[Array, "u"]) -> Float[Array, "q"]:
        """A vector over all coordinates from its independent and dependent entries."""
        whole = jnp.zeros(self.independent.shape[0] + self.dependent.shape[0], y.dtype)
        return whole.at[self.independent].set(y).at[self.dependent].set(u)


class Tangent(eqx.Module):
    """What the constraints leave to move at a configuration: Phi_u du = -Phi_y dy, so dq = slope dy."""

    partition: Partition
    rows: Int[Array, "u"]
    """places in Phi of the rows that count"""
    jacobian: Float[Array, "u q"]
    """these rows of Phi_q"""
    dependent_jacobian: Float[Array, "u u"]
    """Phi_u"""
    factors: linear.Factors
    """of Phi_u"""
    slope: Float[Array, "q y"]

    def solve(self, right: Float[Array, "u ..."]) -> Float[Array, "u ..."]:
        """Phi_u^-1 right."""
        return linear.solve_differentiably(self.dependent_jacobian, self.factors, right)

    def lift(self, right: Float[Array, "u"]) -> Float[Array, "q"]:
        """The dq of dependent coordinates alone with Phi_q dq = right."""
        return self.partition.merge(jnp.zeros(self.slope.shape[1]), self.solve(right))

    def multipliers(self, force: Float[Array, "q"], count: int) -> Float[Array, "rows"]:
        """The multipliers that balance a force on the dependent coordinates; zero for rows that do not count."""
        found = linear.solve_transposed_differentiably(self.dependent_jacobian, self.factors, force[self.partition.dependent])
        return jnp.zeros(count).at[self.rows].set(found)

    @property
    def steepest(self) -> Float[Array, ""]:
        """The largest slope of a dependent coordinate: infinite where the choice is singular."""
        return jnp.max(jnp.abs(self.slope), initial=0.0)


def counting_rows(system: AbstractSystem, memory: Memory, freedoms: int) -> Int[Array, "u"]:
    """The places of the rows that are kept: as many as there are dependent coordinates."""
    kept = memory.kept_rows
    count = system.q0.shape[-1] - freedoms
    if count == kept.shape[0]:
        return jnp.arange(count)
    return jnp.argsort(-kept, stable=True)[:count]


def tangent(system: AbstractSystem, memory: Memory, partition: Partition, q: Array, t: Array) -> Tangent:
    rows = counting_rows(system, memory, partition.independent.shape[0])
    return _split(rows, constraint_jacobian(system, q, t)[rows], partition)


def _split(rows: Array, jacobian: Array, partition: Partition) -> Tangent:
    moved, d = jacobian[:, partition.dependent], partition.independent.shape[0]
    factors = linear.factorize(jax.lax.stop_gradient(moved))
    slope = -linear.solve_differentiably(moved, factors, jacobian[:, partition.independent])
    whole = jnp.zeros((jacobian.shape[1], d)).at[partition.dependent].set(slope).at[partition.independent].set(jnp.eye(d))
    return Tangent(partition, rows, jacobian, moved, factors, whole)


def first_partition(system: AbstractSystem, memory: Memory, q: Array, t: Array, given: tuple[int, ...] | None) -> Partition:
    """The given choice, which then stays; or the best one for this configuration."""
    freedoms = system.freedoms() if given is None else len(given)
    assert freedoms is not None  # `read_independent` has asked
    rows = counting_rows(system, memory, freedoms)
    jacobian = jax.lax.stop_gradient(constraint_jacobian(system, q, t)[rows])
    if given is None:
        return _choose(system, rows, jacobian)
    rest = np.setdiff1d(np.arange(q.shape[0]), given)
    return _limited(rows, jacobian, jnp.asarray(given, dtype=int), jnp.asarray(rest))


def reconsider(system: AbstractSystem, here: Tangent) -> Partition:
    """The partition to go on with: the same one while dependent coordinates do not move much faster than when it was chosen."""
    now, steepest = here.partition, here.steepest
    poor = (steepest > now.limit) & jnp.isfinite(steepest)
    # The same for all lanes of a batch, so that vmap leaves it a condition.
    chosen = jax.lax.cond(eqxi.unvmap_any(poor), lambda: _choose(system, here.rows, here.jacobian), lambda: now)
    return jax.lax.stop_gradient(jax.tree.map(lambda new, old: jnp.where(poor, new, old), chosen, now))


def _choose(system: AbstractSystem, rows: Array, jacobian: Float[Array, "u q"]) -> Partition:
    """Dependent coordinates by Gram-Schmidt with pivoting on the columns of Phi_q: those that the constraints hold most firmly."""
    dependents, n = jacobian.shape
    size = jnp.sqrt(jnp.sum(jacobian**2, axis=1))
    weights = np.where(system.coordinate_lengths(), 1.0, _TURNS) * np.linspace(1.0, 1.0 - _PLACES, n)
    columns = jacobian / jnp.where(size > 0, size, 1.0)[:, None] * weights

    def take(_, carry):
        columns, taken = carry
        left = jnp.where(taken, -1.0, jnp.sum(columns**2, axis=0))
        i = jnp.argmax(left)
        direction = columns[:, i] / jnp.sqrt(jnp.maximum(left[i], 1e-300))
        return columns - jnp.outer(direction, direction @ columns), taken.at[i].set(True)

    _, taken = jax.lax.fori_loop(0, dependents, take, (columns, jnp.zeros(n, bool)))
    order = jnp.argsort(taken, stable=True)
    return _limited(rows, jacobian, order[: n - dependents], order[n - dependents :])


def _limited(rows: Array, jacobian: Array, independent: Array, dependent: Array) -> Partition:
    chosen = Partition(independent, dependent, jnp.zeros(()))
    return eqx.tree_at(lambda p: p.limit, chosen, _WORSE * jnp.maximum(_split(rows, jacobian, chosen).steepest, 1.0))


def read_independent(system: AbstractSystem, independent: Sequence[str | int] | None) -> tuple[int, ...] | None:
    """The user's choice as places in q, checked; None leaves the choice to the run."""
    freedoms = system.freedoms()
    if independent is None:
        if freedoms is None:
            raise ValueError(
                "the number of independent coordinates is not known, because the model has redundant constraints and was built from traced "
                "numbers: build it outside the transformation and use system.set inside, or give independent=(...)."
            )
        return None
    places = find_coordinates(system, independent, "independent")
    if freedoms is not None and len(places) != freedoms:
        raise ValueError(
            f"independent must name {freedoms} different coordinates, as many as there are degrees of freedom, got {_list(independent)}."
        )
    return places


def _list(names: Sequence[Any]) -> str:
    return f"{len(names)}: " + ", ".join(map(str, names)) if len(names) else "none"
