"""The inverses that Bottasso, Bauchau and Cardona (2007) print for their iteration matrices, and what rounding does to each field, on the
matrices of our steps."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.running.starting import consistent_start

ALPHA = 1.5
"""alpha_0 of the two-step formula"""
STEPS = (1e-2, 1e-3, 1e-4)


class Held(mbd.AbstractSystem):
    """Three coordinates of unit mass under forces with any slopes, (5), held by two curved constraints."""

    stiffness: jnp.ndarray
    damping: jnp.ndarray
    q0: jnp.ndarray
    v0: jnp.ndarray

    def __init__(self):
        random = np.random.default_rng(1)
        self.stiffness, self.damping = (jnp.asarray(random.normal(size=(3, 3))) for _ in range(2))
        self.q0, self.v0 = jnp.array([0.6, 0.48, 0.64]), jnp.zeros(3)

    def mass(self, q):
        return jnp.eye(3)

    def force(self, q, v, t):
        return -self.stiffness @ q - self.damping @ v

    def constraint(self, q, t):
        return jnp.stack([0.5 * (q @ q - 1.0), q[0] - q[1] ** 2 - 0.3696])


SYSTEM = Held()
START = consistent_start(SYSTEM)


@eqx.filter_jit
def iteration_matrix(method, start, h):
    """Of the first step: the matrix as it is, and hJ or what scaling makes of it."""
    state, _ = method.init(SYSTEM, start)
    equations = method.equations(SYSTEM, method.look_back(SYSTEM, state, h), h)
    scaling, z = equations.scaling(), equations.first_guess()
    return equations.jacobian(z), equations.scaled_jacobian(scaling)(scaling.shrink(z))


def method_of(form, scaling):
    return mbd.BDF(order=2, form=form, scaling=scaling, velocity_error=False, k_ave=0.0, m_ave=1.0).suited(SYSTEM).precise()


def printed(form, scaling, gamma, X, Y, G):
    """(9), (17), (25), (30); (39), (45), (50)."""
    one, h, a = np.eye(3), ALPHA * gamma, ALPHA
    if form == "three-field":
        R = np.linalg.inv(one + gamma * Y + gamma**2 * X)
        S = np.linalg.inv(G.T @ R @ G)
        T = R @ G @ S @ G.T
        left = one - T
        blocks = {
            "none": [
                [left, gamma * left @ R, R @ G @ S / gamma],
                [-T / gamma, left @ R, R @ G @ S / gamma**2],
                [-S @ G.T / gamma**2, -S @ G.T @ R / gamma, S / gamma**3],
            ],
            "left": [
                [left, gamma * left @ R, a * R @ G @ S],
                [-T / gamma, left @ R, a * R @ G @ S / gamma],
                [-S @ G.T / gamma**2, -S @ G.T @ R / gamma, a * S / gamma**2],
            ],
            "multipliers": [
                [left, left @ R / a, a * R @ G @ S],
                [-T / gamma, left @ R / (a * gamma), a * R @ G @ S / gamma],
                [-(a**2) * S @ G.T, -a * S @ G.T @ R, a**3 * S],
            ],
            "full": [
                [left, left @ R / a, a * R @ G @ S],
                [-a * T, left @ R, a**2 * R @ G @ S],
                [-(a**2) * S @ G.T, -a * S @ G.T @ R, a**3 * S],
            ],
        }[scaling]
    else:
        U = np.linalg.inv(one / gamma + Y + gamma * X)
        V = np.linalg.inv(G.T @ U @ G)
        W = U @ G @ V @ G.T
        left = (one - W) @ U
        blocks = {
            "none": [[left, U @ G @ V / gamma], [-V @ G.T @ U / gamma, V / gamma**2]],
            "left": [[left, a * U @ G @ V], [-V @ G.T @ U / gamma, a * V / gamma]],
            "full": [[left / h, a * U @ G @ V], [-a * V @ G.T @ U, a**3 * gamma * V]],
        }[scaling]
    return [[block / a for block in row] for row in blocks]


def blocks_of(inverse, form):
    """Ours, with the paper's sign of lambda."""
    ends = (0, 3, 6, 8) if form == "three-field" else (0, 3, 5)
    places = [slice(*pair) for pair in itertools.pairwise(ends)]
    signs = [1.0] * (len(places) - 1) + [-1.0]
    return [[sign * inverse[row, column] for column in places] for sign, row in zip(signs, places, strict=True)]


FIELDS = {  # powers of h of the error of (u, v, lambda), of (u, lambda)
    ("three-field", "none"): (-1, -2, -3),  # (11)
    ("three-field", "left"): (0, -1, -2),  # (18)
    ("three-field", "multipliers"): (0, -1, 0),  # (26)
    ("three-field", "full"): (0, 0, 0),  # after (30)
    ("two-field", "none"): (-1, -3),  # (42)
    ("two-field", "left"): (0, -2),  # (46)
    ("two-field", "full"): (0, 0),  # (51)
}


@pytest.mark.parametrize(("form", "scaling"), FIELDS)
def test_inverses_and_errors_by_field(form, scaling):
    """In three fields the first column is the leading term, as printed, exact up to gamma^2 R^-1 X; all else is exact.

    An error of a field is the sum over its row of |inverse|, (6). In three fields that is multiplied by the norm of the matrix, which does
    not depend on h; in two fields, without all scaling, that norm grows as 1/h, and (42), (46) hold without it.
    """
    errors, norms, method, Y = [], [], method_of(form, scaling), np.asarray(SYSTEM.damping)
    for h in STEPS:
        gamma = h / ALPHA
        bare, matrix = (np.asarray(part) for part in iteration_matrix(method, START, jnp.asarray(h)))
        if form == "three-field":
            X, G = bare[3:6, :3], bare[6:, :3].T
        else:
            X, G = bare[:3, :3] - np.eye(3) / gamma**2 - Y / gamma, bare[3:, :3].T
        ours = blocks_of(np.linalg.inv(matrix), form)
        for row, expected in zip(ours, printed(form, scaling, gamma, X, Y, G), strict=True):
            for i, (block, wanted) in enumerate(zip(row, expected, strict=True)):
                leading = 20 * gamma**2 if form == "three-field" and i == 0 else 0.0
                np.testing.assert_allclose(block, wanted, rtol=0, atol=(1e-6 + leading) * np.max(np.abs(wanted)))
        norms.append(np.linalg.norm(matrix, np.inf))
        errors.append([np.max(np.sum(np.abs(np.hstack(row)), axis=1)) for row in ours])

    def slopes(values):
        return np.polyfit(np.log(STEPS), np.log(values), 1)[0]

    np.testing.assert_allclose(slopes(errors), FIELDS[form, scaling], atol=0.1)
    assert slopes(norms) == pytest.approx(-1 if form == "two-field" and scaling != "full" else 0, abs=0.1)
