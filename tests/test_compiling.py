"""What runs once is compiled in haste, and means the same everywhere."""

import jax
import jax.numpy as jnp
import pytest

from jaxmbd import _compiling


@_compiling.compiled_in_haste
def square(x):
    return x**2


def test_alone_within_a_program_and_in_a_derivative():
    for function, expected in ((square, 9.0), (jax.jit(square), 9.0), (jax.grad(square), 6.0), (jax.jit(jax.grad(square)), 6.0)):
        assert float(function(jnp.asarray(3.0))) == expected
    assert jax.vmap(square)(jnp.arange(3.0)).tolist() == [0.0, 1.0, 4.0]


def test_settings_that_xla_does_not_know_are_left_out(monkeypatch):
    monkeypatch.setattr(_compiling, "_IN_HASTE", {"xla_backend_optimization_level": 0, "xla_of_the_future": True})
    assert _compiling._known_options.__wrapped__() == {"xla_backend_optimization_level": 0}


def test_evaluated_now_gives_numbers_within_a_program():
    @jax.jit
    def program(x):
        with _compiling.evaluated_now():
            constant = float(jnp.sin(0.5))
        return constant * x

    assert float(program(2.0)) == pytest.approx(2.0 * float(jnp.sin(0.5)))
