"""What a run saves: the same rows wherever they are saved, in memory for no more than them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.running.saving import Record, rows_at

from .registry import CartesianPendulum

HHT = mbd.HHT(tolerance=1e-4)
END, ROOM = 0.6, 256
GRAVITIES = jnp.array([9.81, 2.0, 30.0])
TIMES = np.array([0.0, 0.1, 0.1001, 0.1002, 0.25, 0.5, END])
"""s, the start, several in one step, the end"""
FIXED = np.full(60, 0.01)
"""s, whose ends are among the times"""


def run(gravity, saveat=None, **options):
    system = eqx.tree_at(lambda s: s.gravity, CartesianPendulum(), gravity)
    return mbd.simulate(system, END, integrator=HHT, saveat=saveat, throw=False, **({"max_steps": ROOM} | options))


@pytest.fixture(scope="module", params=[{}, {"step": FIXED}], ids=["adaptive", "prescribed"])
def options(request):
    return request.param


@pytest.fixture(scope="module")
def all_steps(options):
    return jax.jit(lambda g: run(g, mbd.SaveAt(steps=True), **options))(GRAVITIES[0])


@pytest.fixture(scope="module")
def batch(options):
    return jax.jit(jax.vmap(lambda g: run(g, TIMES, **options)))(GRAVITIES)


class TestSavedTimes:
    def test_rows_are_interpolated_in_the_steps_that_pass_them(self, all_steps, options):
        saved = jax.jit(lambda g: run(g, mbd.SaveAt(ts=TIMES), **options))(GRAVITIES[0])
        expected = rows_at(HHT, Record(all_steps.states, all_steps.steps), all_steps.stats["steps"], jnp.asarray(TIMES))
        # Two programs round differently, and accelerations and multipliers have the rounding of positions over h^2: 1e-16 / (1e-3)^2.
        for path, row in jax.tree_util.tree_leaves_with_path(saved.states):
            loose = any(name in jax.tree_util.keystr(path) for name in ("acceleration", "multipliers"))
            other = jax.tree_util.tree_leaves_with_path(expected)
            np.testing.assert_allclose(row, dict(other)[path], rtol=1e-12, atol=1e-9 if loose else 1e-12)
        np.testing.assert_allclose(saved.final.q, all_steps.final.q, rtol=1e-12)
        assert saved.stats["steps"] == all_steps.stats["steps"]
        assert saved.steps is None

    def test_every_lane_has_its_own_steps(self, batch, options):
        assert batch.q.shape == (3, len(TIMES), 2)
        np.testing.assert_allclose(batch.ts, np.broadcast_to(TIMES, (3, len(TIMES))), atol=1e-12)
        for lane, gravity in enumerate(GRAVITIES):
            alone = run(float(gravity), TIMES, **options)
            np.testing.assert_allclose(batch.q[lane], alone.q, atol=1e-10)
            assert batch.stats["steps"][lane] == alone.stats["steps"]

    def test_times_that_were_not_reached_give_the_last_state(self):
        bounded = jax.jit(lambda g: run(g, TIMES, max_steps=8))(GRAVITIES[0])
        assert bool(bounded.result == mbd.RESULTS.max_steps_reached)
        late = bounded.final.t < TIMES
        assert np.any(late)
        np.testing.assert_array_equal(bounded.ts[late], bounded.final.t)
        np.testing.assert_array_equal(bounded.q[late], np.broadcast_to(bounded.final.q, (int(np.sum(late)), 2)))


class TestTheEnd:
    def test_is_one_row(self, all_steps, options):
        for end in (run(9.81, mbd.SaveAt(t1=True), **options), jax.jit(lambda g: run(g, mbd.SaveAt(t1=True), **options))(GRAVITIES[0])):
            assert end.q.shape == (1, 2)
            np.testing.assert_allclose(end.q[0], all_steps.q[-1], atol=1e-12)
            np.testing.assert_array_equal(end.q[0], end.final.q)

    @pytest.mark.parametrize(("derivative", "adjoint"), [(jax.grad, "reverse"), (jax.jacfwd, mbd.Forward())], ids=["reverse", "forward"])
    def test_has_the_derivative_of_the_last_row(self, options, derivative, adjoint):
        every, last = (
            jax.jit(derivative(lambda g, s=saveat: run(g, s, adjoint=adjoint, **options).q[-1, 1]))(GRAVITIES[0])
            for saveat in (None, mbd.SaveAt(t1=True))
        )
        assert last == pytest.approx(float(every), rel=1e-10)


@pytest.mark.parametrize("saveat", [TIMES, mbd.SaveAt(t1=True)], ids=["times", "end"])
def test_memory_of_a_batch_does_not_depend_on_max_steps(saveat):
    few, many = (
        jax.jit(jax.vmap(lambda g, n=n: run(g, saveat, max_steps=n))).lower(GRAVITIES).compile().memory_analysis() for n in (64, 65536)
    )
    assert few.temp_size_in_bytes == many.temp_size_in_bytes
    assert few.output_size_in_bytes == many.output_size_in_bytes


def test_a_derivative_whose_record_exceeds_memory_is_refused():
    assert jax.eval_shape(lambda g: run(g, TIMES, max_steps=10**9).q, 9.81).shape == (len(TIMES), 2)
    with pytest.raises(ValueError, match=r"1000000001 rows .* GB\. For a derivative all are recorded\. Give a smaller max_steps"):
        jax.grad(lambda g: run(g, TIMES, max_steps=10**9).q[0, 0])(9.81)


@pytest.mark.parametrize("given", [{}, {"t1": True, "steps": True}, {"ts": TIMES, "t1": True}], ids=["nothing", "two", "times too"])
def test_one_thing_is_saved(given):
    with pytest.raises(ValueError, match=r"SaveAt takes one of t1=True \(the end\), ts=times and steps=True"):
        mbd.SaveAt(**given)
