"""The implicit derivative of a root, to second order."""

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import Array

from jaxmbd.solvers.roots import AbstractEquations, implicit_root
from jaxmbd.solvers.scaling import Scaling


class Cubic(AbstractEquations):
    """z^3 + p z - 2 = 0: at p = 1 the root is 1."""

    p: Array

    def residual(self, z):
        return z**3 + self.p * z - 2.0

    def scaling(self):
        return Scaling(jnp.full(1, 3.0), jnp.full(1, 0.5))


def root(p):
    z, extra = implicit_root(Cubic(p), lambda _: (jnp.ones(1), {"iterations": jnp.array(3), "done": jnp.array(True)}))
    assert extra["done"].dtype == bool
    return z[0]


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivative_of_a_root_is_that_of_the_implicit_function(mode):
    """dz/dp = -z / (3 z^2 + p) = -1/4. The search itself is not differentiated."""
    assert mode(root)(1.0) == pytest.approx(-0.25, rel=1e-14)


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_second_derivative_of_a_root(outer, inner):
    """With s = 3 z^2 + p, z'' = -(z' s - z (6 z z' + 1)) / s^2 = -(-1 - (-6/4 + 1)) / 16 = 1/32."""
    assert outer(inner(root))(1.0) == pytest.approx(1 / 32, rel=1e-13)


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
def test_second_derivative_of_roots_in_a_scan(outer):
    """Where JAX linearises a scan, rules for derivatives may get lost: the root must have its derivative without one."""

    def chain(p):
        step = lambda z, _: (implicit_root(Cubic(p + 0.1 * z[0]), _newton)[0], None)  # noqa: E731
        return jax.lax.scan(step, jnp.ones(1), length=3)[0][0]

    assert outer(jax.jacrev(chain))(1.0) == pytest.approx(float(jax.jacfwd(jax.jacfwd(chain))(1.0)), rel=1e-12)


def _newton(there):
    z = jnp.ones(1)
    for _ in range(8):
        z = z - there.residual(z) / there.jacobian(z)[0]
    return z, None
