"""What holds for every integrator in `registry.py`: its order, derivatives in both modes, batches, replayed steps.

The problems are driven by time and have differential states; one has constraints and a mass matrix that depends on q, the other both families
of forces. Two programs a method serve all tests but one: the gradient of a single run, and derivatives along a direction of a batch.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

from .registry import EVERY_INTEGRATOR

END, SHORT = 0.5, 0.05
ROOM = 128
AT, ALONG = jnp.ones(2), jnp.array([1.0, -0.7])
INCREMENT = 1e-5


class Runs:
    """Of one method, each when it is first asked for."""

    def __init__(self, name):
        self.listed = EVERY_INTEGRATOR[name]
        self.method = self.listed.at_fixed_steps or self.listed.method

    def end(self, p, t1, steps):
        """A number that all parts of the last state have a share in; and these."""
        run = mbd.simulate(self.listed.problem.system(p), t1, integrator=self.method, step=steps, throw=False)
        parts = run.final.q, run.final.v, run.final.x, run.final.multipliers
        return sum(jnp.sum(jnp.cos(jnp.arange(part.size)) * part) for part in parts), (parts, run.result == mbd.RESULTS.successful)

    def steps(self, count):
        """So many of one size, in an array of a size that all runs share."""
        return np.where(np.arange(ROOM) < count, END / count, 0.0)

    @functools.cached_property
    def gradient(self):
        """Of a single run: its end, the derivative by both numbers."""
        return jax.jit(jax.value_and_grad(self.end, has_aux=True))(AT, END, self.steps(self.listed.counts[0]))

    @functools.cached_property
    def lanes(self):
        """Ends of a batch, and their derivatives along a direction: coarse steps, fine steps, numbers a little less and more."""
        coarse, fine = map(self.steps, self.listed.counts)
        numbers = AT + np.array([0.0, 0.0, -INCREMENT, INCREMENT])[:, None] * ALONG
        return self.batch(numbers, END, np.stack([coarse, fine, coarse, coarse]))

    @functools.cached_property
    def batch(self):
        return jax.jit(jax.vmap(lambda p, t1, steps: jax.jvp(lambda p: self.end(p, t1, steps), (p,), (ALONG,), has_aux=True), (0, None, 0)))


@functools.cache
def runs_of(name):
    return Runs(name)


DERIVED = [pytest.param(name, marks=pytest.mark.slow if listed.kin else ()) for name, listed in EVERY_INTEGRATOR.items()]


@pytest.fixture
def runs(request):
    return runs_of(request.param)


@pytest.mark.parametrize("runs", EVERY_INTEGRATOR, indirect=True)
def test_order(runs):
    """Of q, v, x and multipliers."""
    _, _, (parts, successful) = runs.lanes
    exact = [part[-1] for part in runs.listed.problem.reference([0.0, END])]
    errors = np.array([np.max(np.abs(part[:2] - end), axis=1) for part, end in zip(parts, exact, strict=True) if end.size])
    assert np.all(successful)
    found = np.log2(errors[:, 0] / errors[:, 1])
    assert np.all((found > runs.listed.order - 0.2) & (found < runs.listed.order + runs.listed.more + 0.2)), found


@pytest.mark.parametrize("runs", DERIVED, indirect=True)
def test_reverse_is_forward_is_differences(runs):
    """Over the same steps. What the rounding of two ends leaves over the increment: some 1e-15 / 1e-5."""
    (_, (_, successful)), reverse = runs.gradient
    ends, forward, _ = runs.lanes
    assert successful
    np.testing.assert_allclose(reverse @ ALONG, forward[0], rtol=1e-9)
    np.testing.assert_allclose(forward[0], (ends[3] - ends[2]) / (2 * INCREMENT), rtol=1e-6)


@pytest.mark.parametrize("runs", DERIVED, indirect=True)
def test_a_lane_of_a_batch_is_a_single_run(runs):
    (_, (alone, _)), _ = runs.gradient
    _, _, (parts, _) = runs.lanes
    for part, single in zip(parts, alone, strict=True):
        np.testing.assert_allclose(part[0], single, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("runs", DERIVED, indirect=True)
def test_replayed_steps_give_the_same_motion(runs):
    """Of the run that the method itself would make; up to what Newton's method leaves there, a part of the tolerance in each step."""
    run = mbd.simulate(runs.listed.problem.system(AT), SHORT, integrator=runs.method)
    count = len(run.steps)
    steps = np.concatenate([run.steps, np.zeros(ROOM - count)])
    _, _, (parts, successful) = runs.batch(np.tile(AT, (4, 1)), SHORT, np.tile(steps, (4, 1)))
    assert np.all(successful)
    np.testing.assert_allclose(parts[0][0], run.final.q, atol=1e-8 * count)
