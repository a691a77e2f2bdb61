"""How linear equations are kept and solved: what Newton's method and the derivatives of roots ask, whatever form a matrix has."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from . import linear
from .scaling import Scaling


class AbstractAlgebra(eqx.Module):
    """Matrices of one form. Those who make matrices and those who solve with them agree on the form; nobody between them looks at it."""

    @abc.abstractmethod
    def factorize(self, matrix: Any) -> Any:
        """What `solve` needs, as arrays that a loop can carry."""

    @abc.abstractmethod
    def solve(self, factors: Any, right: Float[Array, "n"]) -> Float[Array, "n"]:
        """matrix^-1 right."""

    @abc.abstractmethod
    def no_factors(self, unknowns: int) -> Any:
        """A placeholder of the right shapes."""

    @abc.abstractmethod
    def scaled(self, matrix: Any, scaling: Scaling) -> Any:
        """The matrix in other units: D_L matrix D_R."""

    @abc.abstractmethod
    def solve_once(self, matrix: Any, right: Float[Array, "n"], product: Callable[[Array], Array]) -> Float[Array, "n"]:
        """matrix^-1 right to the last digits, differentiable to any order. `product` multiplies by the matrix, exactly."""


class Dense(AbstractAlgebra):
    """A matrix is an array."""

    def factorize(self, matrix):
        return linear.factorize(matrix)

    def solve(self, factors, right):
        return linear.solve(factors, right)

    def no_factors(self, unknowns):
        return linear.no_factors(unknowns)

    def scaled(self, matrix, scaling):
        return scaling.matrix(matrix)

    def solve_once(self, matrix, right, product):
        return linear.solve_once(matrix, right)


DENSE = Dense()
