"""The past of a multistep method on a grid of any spacing, and what interpolation polynomials make of it.

Everything is tabulated for all orders at once and the order in use picks a row: orders change from step to step, shapes do not.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .._numbers import Numbers
from ..system.state import State


class Past(eqx.Module):
    """The last accepted points, newest first; row 0 is the present. What a multistep method hands from step to step."""

    offsets: Float[Numbers, "*runs points q"]
    """of positions from the present ones. Formulas multiply differences of positions by 1 / h: as they are kept here, and not subtracted from
    each other, they have all their digits"""
    v: Float[Numbers, "*runs points q"]
    x: Float[Numbers, "*runs points x"]
    steps: Float[Numbers, "*runs points"]
    """s, step i lies between rows i + 1 and i. Sizes instead of times: small steps late in a run keep their digits"""
    points: Int[Numbers, "*runs"]
    """rows that mean something; the highest possible order is one less"""
    count: Int[Numbers, "*runs"]
    """steps since the start"""
    order: Int[Numbers, "*runs"]
    """of the step that led here; 0 at the start"""
    correction: Float[Numbers, "*runs rows"]
    """the multipliers mu of the velocity constraints in the stabilised form; otherwise empty"""
    stiffness: Float[Numbers, "*runs"]
    """k_ave of the scaling (28)"""
    mass: Float[Numbers, "*runs"]
    """m_ave of the scaling (28)"""

    def push(self, state: State, move: Array, h: Array, order: Array, correction: Array) -> "Past":
        """The past after a step of size h to `state`, whose positions are changed by `move`."""
        room = self.v.shape[0]

        def shift(new: Array, rows: Array) -> Array:
            return jnp.concatenate([new[None], rows[:-1]])

        return dataclasses.replace(
            self,
            offsets=shift(jnp.zeros_like(move), self.offsets - move),
            v=shift(state.v, self.v),
            x=shift(state.x, self.x),
            steps=shift(h, self.steps),
            points=jnp.minimum(self.points + 1, room),
            count=self.count + 1,
            order=order,
            correction=correction,
        )


class Grid(eqx.Module):
    """The past as seen from the end of a step of size h."""

    distances: Float[Array, "points"]
    """s, from the step's end back to each row"""
    extrapolation: Float[Array, "points points"]
    """row m - 1: weights that extrapolate the newest m rows to the step's end"""

    @staticmethod
    def behind(h: Array, steps: Float[Array, "points"]) -> "Grid":
        distances = jnp.cumsum(jnp.concatenate([h[None], steps[:-1]]))
        return Grid(distances, _lagrange(distances))

    def predict(self, degree: Int[Array, ""], rows: Float[Array, "points n"]) -> Float[Array, "n"]:
        """Extrapolation by the polynomial through the newest degree + 1 rows."""
        return self.extrapolation[degree] @ rows

    def misses(self, value: Float[Array, "n"], rows: Float[Array, "points n"]) -> Float[Array, "orders n"]:
        """Row k - 1: value less its prediction of degree k, k = 1, 2, ..."""
        return value - self.extrapolation[1:] @ rows

    def error_constants(self) -> Float[Array, "orders"]:
        """Entry k - 1: local error of order k over the miss of the prediction of degree k.

        The derivative of the interpolation polynomial of degree k is wrong by d_1 ... d_k y^(k+1) / (k+1)!, d the distances, the prediction by
        d_1 ... d_(k+1) y^(k+1) / (k+1)!. A step divides the former by the leading coefficient. With equal steps: 1 / ((k+1) (1 + ... + 1/k)).
        """
        return 1.0 / (self.distances[1:] * jnp.cumsum(1.0 / self.distances)[:-1])


class Formula(eqx.Module):
    """BDF of order k: the derivative, at the step's end, of the polynomial through the new value and the newest k rows (2)."""

    leading: Float[Array, ""]
    """1/s, alpha_0 / h"""
    weights: Float[Array, "points"]
    """1/s, alpha_i / h of the past rows; zero beyond the k-th"""

    @staticmethod
    def of_order(grid: Grid, order: Int[Array, ""]) -> "Formula":
        used = jnp.arange(grid.distances.shape[0]) < order
        weights = -grid.extrapolation[order - 1] / grid.distances
        return Formula(jnp.sum(jnp.where(used, 1.0 / grid.distances, 0.0)), weights)

    def derivative(self, value: Float[Array, "n"], rows: Float[Array, "points n"]) -> Float[Array, "n"]:
        # The weights add up to zero: differences to the newest row lose fewer digits.
        return self.leading * (value - rows[0]) + self.weights[1:] @ (rows[1:] - rows[0])


def _lagrange(distances: Float[Array, "points"]) -> Float[Array, "points points"]:
    """Row m - 1: values at distance zero of the Lagrange polynomials of the first m nodes."""
    i = jnp.arange(distances.shape[0])
    last, point, other = i[:, None, None], i[None, :, None], i[None, None, :]
    used = (point <= last) & (other <= last) & (point != other)
    apart = distances[None, None, :] - distances[None, :, None]
    factors = jnp.where(used, distances / jnp.where(used, apart, 1.0), 1.0)
    return jnp.where(point[..., 0] <= last[..., 0], jnp.prod(factors, axis=2), 0.0)


def interpolation_weights(steps: Float[Array, "points"], order: Int[Array, ""], ago: Float[Array, ""]) -> Float[Array, "points"]:
    """Weights of the rows that give the polynomial of degree `order` through the newest order + 1 of them, `ago` seconds before the newest."""
    distances = jnp.concatenate([jnp.zeros(1), jnp.cumsum(steps[:-1])])
    i = jnp.arange(distances.shape[0])
    used = (i[:, None] <= order) & (i[None, :] <= order) & (i[:, None] != i[None, :])
    apart = distances[None, :] - distances[:, None]
    factors = jnp.where(used, (distances[None, :] - ago) / jnp.where(used, apart, 1.0), 1.0)
    return jnp.where(i <= order, jnp.prod(factors, axis=1), 0.0)
