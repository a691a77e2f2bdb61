"""A kernel gives what the function gives, and a lane of a batch what the kernel gives alone, bit for bit, whatever is asked of it."""

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxmbd.scalar import kept_whole, one_kernel

from .test_scalarise import FEW, PROGRAMS, X, assert_close, program


def assert_same_bits(found, expected):
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b)), found, expected)


def in_lanes(f, lanes):
    """Each lane beside the others, and alone."""
    kernel = jax.jit(one_kernel(f))
    batch = jax.jit(jax.vmap(one_kernel(f)))(*lanes)
    count = len(jax.tree.leaves(lanes)[0])
    alone = [kernel(*jax.tree.map(lambda leaf, i=i: leaf[i], lanes)) for i in range(count)]
    return batch, jax.tree.map(lambda *leaves: jnp.stack(leaves), *alone)


@FEW
@hypothesis.given(PROGRAMS)
def test_random_programs(names):
    lanes = jnp.stack([X, 0.3 - X, 2 * X]), jnp.array([2, 0, 1])
    batch, alone = in_lanes(program(names), lanes)
    assert_close(batch, jax.vmap(program(names))(*lanes))
    assert_same_bits(batch, alone)


def collatz(n, x):
    """Trips and branches of its own for each lane, kept row by row."""

    def step(carry):
        n, trips, x, kept = carry
        n, x = lax.cond(n % 2 == 0, lambda: (n // 2, 0.5 * x), lambda: (3 * n + 1, jnp.sin(x) + x))
        return n, trips + 1, x, kept.at[trips].set(x, mode="drop")

    kept = kept_whole(jnp.zeros((20, 2)))
    return lax.while_loop(lambda carry: carry[0] > 1, step, (n, 0, x, kept))


def test_lanes_have_trips_of_their_own():
    lanes = jnp.array([1, 6, 7, 27, 2]), jnp.linspace(0.0, 3.0, 10).reshape(5, 2)
    batch, alone = in_lanes(collatz, lanes)
    assert_close(batch, jax.vmap(collatz)(*lanes))
    assert_same_bits(batch, alone)
    assert batch[1].tolist() == [0, 8, 16, 111, 1]


def mixed(x, n, flag, unused, constant):
    """All types; an argument that comes back as it is, one that nobody needs, results that are known."""
    y = jnp.where(flag, x, -x) * n
    total = lax.fori_loop(0, n, lambda _, s: s + y.sum().astype(jnp.float32), jnp.float32(0.25))
    return {"passed": x, "sum": total, "whole": n + 1, "flags": jnp.stack([flag, y[0] > 0]), "known": jnp.arange(3) + constant, "y": y}


MIXED = (X, jnp.asarray(3), jnp.asarray(True), jnp.zeros(5), 2)


@pytest.mark.parametrize("wanted", [("sum",), ("flags",), ("passed", "whole"), ("known",), ("y", "flags"), ()])
def test_what_is_not_asked_for_does_no_harm(wanted):
    """XLA takes from a kernel what is not used, and with it arguments."""

    def some(f):
        return lambda *arguments: {name: part for name, part in f(*arguments).items() if name in wanted}

    assert_close(jax.jit(some(one_kernel(mixed)))(*MIXED), some(mixed)(*MIXED))
    lanes = (jnp.stack([X, 2 * X]), jnp.array([3, 5]), jnp.array([True, False]), jnp.zeros((2, 5)))
    along = (0, 0, 0, 0, None)
    expected = jax.vmap(some(mixed), in_axes=along)(*lanes, 2)
    assert_close(jax.jit(jax.vmap(some(one_kernel(mixed)), in_axes=along))(*lanes, 2), expected)


def test_loops_within_loops_of_lanes():
    outer, inner = jnp.linspace(-1.0, 1.0, 3), jnp.stack([X, 2 * X, -X, X**2])

    def f(a, x):
        return lax.while_loop(lambda c: jnp.sum(c**2) < 9.0, lambda c: 1.3 * c + 0.1 * a, x), a

    expected = jax.vmap(jax.vmap(f, (None, 0)), (0, None))(outer, inner)
    assert_close(jax.jit(jax.vmap(jax.vmap(one_kernel(f), (None, 0)), (0, None)))(outer, inner), expected)


def test_a_closure_over_something_traced():
    def f(a, x):
        return jax.vmap(one_kernel(lambda y: jnp.cos(a) * y))(x)

    assert_close(jax.jit(jax.vmap(f))(X, jnp.stack([X] * 4)), jax.vmap(lambda a, x: jnp.cos(a) * x)(X, jnp.stack([X] * 4)))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: jnp.linalg.svd(jnp.outer(x, x))[1], "no place for"),
        (lambda x: jnp.zeros((200, 200)) + x[0], "larger than"),
        (lambda x: kept_whole(jnp.outer(x, x)) @ x, "no place for dot_general"),
    ],
)
def test_what_no_kernel_can_do_is_done_as_it_stands(function, reason):
    assert reason in one_kernel(function).report(X).reason
    assert_close(jax.jit(jax.vmap(one_kernel(function)))(X[None])[0], function(X))


def test_elsewhere_lanes_stand_side_by_side():
    """Exported for CUDA, it is the function itself under vmap: no loop over lanes."""
    lanes = jnp.stack([X, 2 * X])
    exported = jax.export.export(jax.jit(jax.vmap(one_kernel(jnp.sin))), platforms=["cuda"])(lanes)
    assert "tensor<2x4xf64>" in exported.mlir_module()
    assert "while" not in exported.mlir_module()
