"""Runs as kernels of scalars: the same steps and numbers, in batches, with saved times, events and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

from .registry import GRAVITY, CartesianPendulum

TIMES = np.linspace(0.0, 0.3, 5)
LENGTHS = jnp.array([1.0, 0.9, 1.2])


def run(length, kernels, integrator, **options):
    return mbd.simulate(
        CartesianPendulum(GRAVITY, length), 0.3, integrator=integrator, kernels=kernels, throw=False, max_steps=128, **options
    )


@pytest.mark.parametrize(
    ("integrator", "tolerance"),
    # Newton's remainder is what rounding decides in HHT and BDF.
    [(mbd.HHT(1e-4), 1e-8), (mbd.BDF(1e-4), 1e-9), (mbd.RosenbrockNystrom(1e-4, 1e-4), 1e-12)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_batch_is_what_its_lanes_are_alone(integrator, tolerance):
    """Lane by lane: the same steps as with arrays, and bit by bit what stands in other company."""

    def saved(length, kernels):
        done = run(length, kernels, integrator, saveat=TIMES)
        return {"q": done.q, "v": done.v, "end": done.final.q}, done.stats, done.result == mbd.RESULTS.successful

    batch = jax.jit(jax.vmap(lambda length: saved(length, "scalar")))
    found, stats, succeeded = batch(LENGTHS)
    expected, other, _ = jax.jit(jax.vmap(lambda length: saved(length, "array")))(LENGTHS)
    assert np.all(succeeded)
    assert len(set(np.asarray(stats["steps"]).tolist())) > 1
    jax.tree.map(np.testing.assert_array_equal, stats, other)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance), found, expected)
    turned = np.array([2, 0, 1])
    again, _, fine = batch(LENGTHS[turned].at[1].set(jnp.nan))
    assert fine.tolist() == [True, False, True]
    for lane in (0, 2):
        jax.tree.map(lambda a, b, lane=lane: np.testing.assert_array_equal(a[lane], b[turned[lane]]), again, found)


def test_every_step_and_an_event():
    lowest = mbd.Event(lambda now: now.q[0] - 0.95, direction=-1)
    ends = {}
    for kernels in ("scalar", "array"):
        done = jax.jit(lambda length, kernels=kernels: run(length, kernels, mbd.RosenbrockNystrom(1e-4, 1e-4), until=lowest))(1.0)
        ends[kernels] = np.asarray(done.ts), np.asarray(done.q), int(done.event)
    assert ends["scalar"][2] == ends["array"][2] == 0
    np.testing.assert_allclose(ends["scalar"][0], ends["array"][0], atol=1e-13)
    np.testing.assert_allclose(ends["scalar"][1], ends["array"][1], atol=1e-12)


@pytest.mark.parametrize("adjoint", ["reverse", "forward"])
def test_a_single_run_and_its_derivative(adjoint):
    """Its start is a kernel, too, and has a derivative by the length of the rod."""

    def end(length, kernels):
        done = run(length, kernels, mbd.RosenbrockNystrom(1e-4, 1e-4), saveat=mbd.SaveAt(t1=True), adjoint=adjoint)
        return done.final.q[1], done.stats["steps"]

    found = {}
    for kernels in ("scalar", "array"):
        of = jax.jit(lambda length, kernels=kernels: jax.jvp(lambda x: end(x, kernels)[0], (length,), (1.0,)))
        found[kernels] = [*of(1.0), jax.jit(lambda length, kernels=kernels: end(length, kernels)[1])(1.0)]
    np.testing.assert_allclose(found["scalar"], found["array"], rtol=1e-10)


def test_gradients_of_a_batch():
    def end(length, kernels):
        return run(length, kernels, mbd.RosenbrockNystrom(1e-4, 1e-4), saveat=mbd.SaveAt(t1=True)).final.q[1]

    scalar, array = (
        jax.jit(jax.vmap(jax.value_and_grad(lambda length, kernels=kernels: end(length, kernels))))(LENGTHS)
        for kernels in ("scalar", "array")
    )
    np.testing.assert_allclose(scalar, array, rtol=1e-10)


def test_what_it_is_told():
    with pytest.raises(ValueError, match="kernels must be 'auto', 'scalar' or 'array', got 'fast'"):
        run(1.0, "fast", mbd.HHT())
    done = mbd.simulate(CartesianPendulum(), 0.1, kernels="scalar")
    assert done.message == "the run reached its end."
