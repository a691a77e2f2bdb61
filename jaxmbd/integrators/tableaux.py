"""Rosenbrock methods as numbers, and the coefficients of the Nystrom form that follow from them."""

from typing import NamedTuple

import numpy as np


class RosenbrockTableau(NamedTuple):
    """A Rosenbrock method (2a), (2b) of Negrut et al. (2003) with an embedded one.

    k_i = h f(t + alpha_i h, y + sum_j alpha_ij k_j) + gamma_i h^2 f_t + h J sum_j gamma_ij k_j,    y_new = y + sum_i b_i k_i
    """

    alpha: np.ndarray
    """(s, s), strictly lower triangular"""
    gamma: np.ndarray
    """(s, s), lower triangular, one number on the whole diagonal"""
    b: np.ndarray
    b_hat: np.ndarray
    """weights of the embedded method"""
    order: int
    embedded_order: int

    @staticmethod
    def transformed(gamma: float, a: np.ndarray, c: np.ndarray, m: np.ndarray, m_hat: np.ndarray, order: int, embedded_order: int):
        """From the coefficients that avoid products with J, as many papers print them: a = alpha Gamma^-1, c = I / gamma - Gamma^-1."""
        whole = np.linalg.inv(np.eye(len(m)) / gamma - c)
        whole = np.tril(whole, -1) + gamma * np.eye(len(m))
        return RosenbrockTableau(np.tril(a @ whole, -1), whole, m @ whole, m_hat @ whole, order, embedded_order)

    @property
    def diagonal(self) -> float:
        return float(self.gamma[0, 0])

    def stability(self, z: complex | float) -> complex | float:
        """R(z): what a step does to y' = lambda y with z = lambda h."""
        s = len(self.b)
        return complex(1.0 + z * self.b @ np.linalg.solve(np.eye(s) - z * (self.alpha + self.gamma), np.ones(s)))

    def stability_at_infinity(self) -> float:
        return 1.0 - float(self.b @ np.linalg.solve(self.alpha + self.gamma, np.ones(len(self.b))))

    def nystrom(self) -> "NystromTableau":
        inverse, beta = np.tril(np.linalg.inv(self.gamma)), self.alpha + self.gamma
        # Same arguments as the stage before: its function value serves again.
        reuses = [i > 0 and np.array_equal(self.alpha[i], self.alpha[i - 1]) for i in range(len(self.b))]
        return NystromTableau(
            self.diagonal,
            _above(self.alpha.sum(axis=1), 1.0),
            _above(self.gamma.sum(axis=1), 0.0),
            _above(np.tril(self.alpha @ inverse, -1), self.b @ inverse),
            _above(np.tril(-inverse, -1), np.zeros(len(self.b))),
            _above(np.tril(self.alpha @ beta @ inverse, -1), self.b @ beta @ inverse),
            _above(np.tril(self.gamma @ beta @ inverse, -1), np.zeros(len(self.b))),
            (self.b - self.b_hat) @ inverse,
            (self.b - self.b_hat) @ beta @ inverse,
            np.array([True, *reuses[1:], False]),
        )


class NystromTableau(NamedTuple):
    """The same method for y'' = f(t, y, y'), with stages that need no product with J2 (Table 2). The last row of every matrix is the result
    of the step: m and mu of the paper, as if it were one more stage."""

    gamma: float
    times: np.ndarray
    """(s + 1,), alpha_i; 1"""
    slopes: np.ndarray
    """(s + 1,), gamma_i"""
    a: np.ndarray
    """(s + 1, s): stage velocities, and m"""
    c: np.ndarray
    theta: np.ndarray
    """stage positions, and mu"""
    delta: np.ndarray
    m_error: np.ndarray
    """(s,), m - m_hat"""
    mu_error: np.ndarray
    reuses: np.ndarray
    """(s + 1,) whether the function value before serves again (for the first stage: that of the state)"""

    @property
    def evaluations(self) -> int:
        """Function evaluations of a step; the last one is the first of the next step."""
        return int(np.sum(~self.reuses))


def _above(rows: np.ndarray, last: np.ndarray | float) -> np.ndarray:
    return np.concatenate([rows, np.asarray(last)[None]])


def _lower(*rows: tuple[float, ...]) -> np.ndarray:
    """A strictly lower triangular matrix from its rows below the first."""
    whole = np.zeros((len(rows) + 1, len(rows) + 1))
    for i, row in enumerate(rows):
        whole[i + 1, : i + 1] = row
    return whole


_GAMMA = 0.57281606

NEGRUT4 = RosenbrockTableau(
    alpha=_lower(
        (1.14563212,),
        (0.520920789130629029328516, 0.134294186842504800149232),
        (0.520920789130629029328516, 0.134294186842504800149232, 0.0),
    ),
    gamma=_GAMMA * np.eye(4)
    + _lower(
        (-2.341993127112013949170520,),  # the minus sign is lost in print: without it the order conditions fail
        (-0.027333746543489836196505, 0.213811650836699689867472),
        (-0.259083837785510222112641, -0.190595807732311751616358, -0.228031035973133829477744),
    ),
    b=np.array([0.324534707891734513474196, 0.049086544787523308684633, 0.0, 0.626378747320742177841171]),
    b_hat=np.array([0.520920789130629029328516, 0.144549714665364599584681, 0.124559686414702049774897, 0.209969809789304321311906]),
    order=4,
    embedded_order=3,
)
"""Table 1 of Negrut et al. (2003): L-stable, four stages, three function evaluations."""

_W_GAMMA = 1.0 + np.sqrt(0.5)

VERWER2 = RosenbrockTableau(
    alpha=_lower((1.0,)),
    gamma=_W_GAMMA * np.eye(2) + _lower((-2.0 * _W_GAMMA,)),
    b=np.array([0.5, 0.5]),
    b_hat=np.array([0.0, 1.0]),
    order=2,
    embedded_order=1,
)
"""Table 3: the second-order method of Verwer et al. (1997), which keeps its order with any matrix in the place of the Jacobian."""

RODAS4 = RosenbrockTableau.transformed(
    gamma=0.25,
    a=_lower(
        (1.544,),
        (0.9466785280815826, 0.2557011698983284),
        (3.314825187068521, 2.896124015972201, 0.9986419139977817),
        (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
        (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
    ),
    c=_lower(
        (-5.6688,),
        (-2.430093356833875, -0.2063599157091915),
        (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
        (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
        (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
    ),
    m=np.array([1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0, 1.0]),
    m_hat=np.array([1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0, 0.0]),
    order=4,
    embedded_order=3,
)
"""Hairer and Wanner, Solving Ordinary Differential Equations II (1996), section VI.4: stiffly accurate, six stages."""
