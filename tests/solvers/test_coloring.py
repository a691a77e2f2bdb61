"""Compressed Jacobians against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxmbd as mbd
from jaxmbd.integrators.hht_equations import HHTEquations
from jaxmbd.solvers.coloring import color_columns, jacobian
from jaxmbd.system.initial import initial_state


def test_columns_of_one_color_share_no_row():
    pattern = np.random.default_rng(0).random((40, 30)) < 0.1
    colors = color_columns(pattern)
    for color in range(colors.max() + 1):
        assert np.all(pattern[:, colors == color].sum(axis=1) <= 1)


def test_a_chain_needs_as_many_directions_as_three_links():
    system = mbd.problems.chain(n=20).build()
    assert color_columns(system.coupling()).max() + 1 == 3 * 7


def test_compressed_jacobian_is_the_dense_one():
    """At a state that satisfies nothing, so that no entry vanishes by accident."""
    system = mbd.problems.chain(n=6, spatial=False).build().prepare()
    state, _, _ = initial_state(system, jnp.zeros(()))
    state, _ = mbd.HHT().init(system, state)
    equations = HHTEquations.of_step(system, mbd.HHT().coefficients(), state, jnp.asarray(0.1))
    z = jnp.asarray(np.random.default_rng(2).normal(size=sum(equations.sizes)))
    n, _ = equations.sizes

    def residual(da):
        return equations.residual(jnp.concatenate([da, z[n:]]))

    dense = jax.jit(jax.jacfwd(residual))(z[:n])
    np.testing.assert_allclose(jax.jit(lambda da: jacobian(residual, da, system.coupling()))(z[:n]), dense, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(jax.jit(lambda z: equations.jacobian(z))(z)[:, :n], dense, rtol=1e-13, atol=1e-13)
