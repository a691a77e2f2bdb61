"""Rosenbrock tableaux: order conditions, stability, and the tables of Negrut et al. (2003)."""

import numpy as np
import pytest

from jaxmbd.integrators.tableaux import NEGRUT4, RODAS4, VERWER2

TABLEAUX = {"negrut4": NEGRUT4, "verwer2": VERWER2, "rodas4": RODAS4}


def conditions(tableau, weights, order):
    """(8a)-(8h) in the form of Hairer and Wanner, with the diagonal inside beta: what is left of each condition."""
    alpha, beta = tableau.alpha, tableau.alpha + tableau.gamma
    times, sums = alpha.sum(axis=1), beta.sum(axis=1)
    by_order = [
        [weights.sum() - 1],
        [weights @ sums - 1 / 2],
        [weights @ times**2 - 1 / 3, weights @ beta @ sums - 1 / 6],
        [
            weights @ times**3 - 1 / 4,
            weights @ (times * (alpha @ sums)) - 1 / 8,
            weights @ beta @ times**2 - 1 / 12,
            weights @ beta @ beta @ sums - 1 / 24,
        ],
    ]
    return np.concatenate(by_order[:order])


@pytest.mark.parametrize("name", TABLEAUX)
def test_order_conditions(name):
    tableau = TABLEAUX[name]
    # The coefficients of Rodas4 have sixteen printed digits and are as large as 34.
    tolerance = 1e-13 if name == "rodas4" else 1e-14
    assert np.max(np.abs(conditions(tableau, tableau.b, tableau.order))) < tolerance
    assert np.max(np.abs(conditions(tableau, tableau.b_hat, tableau.embedded_order))) < tolerance
    # and the embedding is not secretly of the same order
    assert np.max(np.abs(conditions(tableau, tableau.b_hat, tableau.embedded_order + 1))) > 1e-2


def test_conditions_as_printed():
    """(8a)-(8h) letter by letter for Table 1: sums over j < i, gamma on the right."""
    alpha, gamma, b, g = NEGRUT4.alpha, NEGRUT4.gamma, NEGRUT4.b, NEGRUT4.diagonal
    beta = alpha + np.tril(gamma, -1)
    s, a = beta.sum(axis=1), alpha.sum(axis=1)
    pairs = [
        (b.sum(), 1),
        (b[1:] @ s[1:], 1 / 2 - g),
        (b[1:] @ a[1:] ** 2, 1 / 3),
        (b[2] * beta[2, 1] * s[1] + b[3] * (beta[3, 1] * s[1] + beta[3, 2] * s[2]), 1 / 6 - g + g**2),
        (b[1:] @ a[1:] ** 3, 1 / 4),
        (b[2] * a[2] * alpha[2, 1] * s[1] + b[3] * a[3] * (alpha[3, 1] * s[1] + alpha[3, 2] * s[2]), 1 / 8 - g / 3),
        (b[2] * beta[2, 1] * a[1] ** 2 + b[3] * (beta[3, 1] * a[1] ** 2 + beta[3, 2] * a[2] ** 2), 1 / 12 - g / 3),
        (b[3] * beta[3, 2] * beta[2, 1] * s[1], 1 / 24 - g / 2 + 1.5 * g**2 - g**3),
    ]
    for left, right in pairs:
        assert left == pytest.approx(right, abs=1e-14)


@pytest.mark.parametrize("name", TABLEAUX)
def test_stable_everywhere_on_the_left_and_damps_at_infinity(name):
    tableau = TABLEAUX[name]
    assert abs(tableau.stability_at_infinity()) < 1e-7  # gamma of the paper has eight printed digits
    assert abs(tableau.stability(-1e12)) < 1e-7
    imaginary = [abs(tableau.stability(1j * y)) for y in np.geomspace(1e-2, 1e4, 200)]
    assert max(imaginary) <= 1 + 1e-12
    assert tableau.stability(-0.01) == pytest.approx(np.exp(-0.01), abs=1e-5)


def test_table_2_follows_from_table_1():
    """Printed digits of Table 2; a_21 is 2.0 there (0.2 in print), gamma_21 is negative."""
    method = NEGRUT4.nystrom()
    assert method.a[1, 0] == pytest.approx(2.0, abs=1e-14)
    printed = [
        (method.theta[2], [0.789509162815638629626980, 0.134294186842504800149232]),
        (method.a[2], [1.86794814949823713234476, 0.23444556851723885002322]),
        (method.c[1], [-7.137649943349979830369260]),
        (method.c[2], [2.580923666509657714488050, 0.651629887302032023387417]),
        (method.c[3], [-2.137115266506619116806370, -0.321469531339951070769241, -0.694966049282445225157329]),
        (method.delta[1], [-1.196361007112013949170520]),
        (method.delta[2], [1.470280254409780714633870, 0.348105837679204490016704]),
        (method.delta[3], [0.003765094355556165798974, -0.109762486758103255675398, -0.228031035973133829477744]),
        (method.a[4], [2.255566228604565243728840, 0.287055063194157607662630, 0.435311963379983213402707, 1.093507656403247803214820]),
        (method.theta[4], [1.592750819409585342074900, 0.195938266310250609693329, 0.0, 0.626378747320742177841171]),
        (method.slopes[1:4], [-1.769177067112013949170520, 0.759293964293209853670967, -0.104894621490955803206743]),
        (method.times[1:4], [1.145632120, 0.655214975973133829477748, 0.655214975973133829477748]),
    ]
    for row, digits in printed:
        np.testing.assert_allclose(row[: len(digits)], digits, rtol=0, atol=1e-13)
    m_hat = [2.068399160527583734258670, 0.238681352067532797956493, 0.363373345435391708261747, 0.366557127936155144309163]
    mu_hat = [1.434903971848209472627100, 0.222978672588698369045153, 0.124559686414702049774897, 0.209969809789304321311906]
    np.testing.assert_allclose(method.a[4] - method.m_error, m_hat, rtol=0, atol=1e-13)
    np.testing.assert_allclose(method.theta[4] - method.mu_error, mu_hat, rtol=0, atol=1e-13)
    assert method.evaluations == 3


def test_table_3():
    method = VERWER2.nystrom()
    np.testing.assert_allclose(method.a[1:], [[0.58578643762690, 0], [0.87867965644040, 0.29289321881340]], atol=1e-13)
    np.testing.assert_allclose(method.c[1, 0], -1.17157287525380, atol=1e-13)
    np.testing.assert_allclose(method.delta[1, 0], -2.41421356237310, atol=1e-13)
    np.testing.assert_allclose(method.theta[1:], [[1, 0], [0.79289321881340, 0.5]], atol=1e-13)
    np.testing.assert_allclose(method.a[2] - method.m_error, [1.17157287525380, 0.58578643762690], atol=1e-13)
    np.testing.assert_allclose(method.theta[2] - method.mu_error, [0.58578643762690, 1.0], atol=1e-13)
    np.testing.assert_allclose(method.slopes[:2], [1.70710678118650, -1.70710678118650], atol=1e-13)
