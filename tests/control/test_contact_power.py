"""Steps by contact power: the search of Algorithm 1, and impacts."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.control import ContactPower
from jaxmbd.running.starting import consistent_start

from ..registry import Oscillator

adapt = eqx.filter_jit(
    lambda controller, power, converged, h, memory: controller.adapt(SimpleNamespace(power=power, converged=converged), 2, h, memory)
)


def search(controller, power, memory=None, h=None, limit=100):
    """Attempts of one step until one is accepted: the tried u, and the memory after it. `power(u)` is what a step of h = epsilon u meets;
    a run begins with power(0)."""
    if memory is None:
        memory = eqx.tree_at(lambda m: m.power, controller.init(BALL, consistent_start(BALL)), jnp.asarray(float(power(0.0))))
    h = controller.first_step(jnp.zeros(())) if h is None else h
    tried = []
    for _ in range(limit):
        u = float(h / controller.epsilon)
        tried.append(u)
        met = power(u)
        decision, memory = adapt(controller, jnp.asarray(float(met)), jnp.asarray(bool(np.isfinite(met))), h, memory)
        h = decision.next_step
        if decision.accept:
            return tried, memory, h
    raise AssertionError("the search does not end")


def residual(controller, u, before, after):
    """R of Algorithm 1."""
    return u / 2 * (2 + float(controller.alpha) * (np.cbrt(before) + np.cbrt(after))) - 1


CONTROL = ContactPower(50.0, 0.01, 0.1)
BALL = mbd.problems.bouncing_ball(height=0.01).build()


def test_steps_without_contact_are_epsilon():
    tried, memory, h = search(CONTROL, lambda u: 0.0)
    assert tried == [1.0]
    assert float(h) == pytest.approx(0.01)
    assert float(memory.power) == 0.0


def test_constant_power_is_met_by_the_predictor():
    _, memory, h = search(CONTROL, lambda u: 8.0)
    tried, _, _ = search(CONTROL, lambda u: 8.0, memory, h)
    assert len(tried) == 1
    assert abs(residual(CONTROL, tried[0], 8.0, 8.0)) <= 1e-9


def test_rising_power_is_bisected_and_falling_power_doubles():
    _, memory, h = search(CONTROL, lambda u: 0.0)
    tried, memory, h = search(CONTROL, lambda u: 1e6 * u, memory, h)
    assert abs(residual(CONTROL, tried[-1], 0.0, 1e6 * tried[-1])) <= 0.1
    np.testing.assert_allclose(tried[:3], [1.0, 0.5, 0.25])
    # The predictor, u / (1 + r), knows only the power that was: without any at the end the step may be much longer.
    before = 1e6 * tried[-1]
    after, _, _ = search(CONTROL, lambda u: 0.0, memory, h)
    assert abs(residual(CONTROL, after[-1], before, 0.0)) <= 0.1
    assert len(set(after)) == len(after)  # no trial is repeated


def test_a_jump_of_power_does_not_stall():
    """R jumps from below -eta to above eta: no u satisfies it, the longest step that was too short is taken."""
    _, memory, h = search(CONTROL, lambda u: 0.0)
    edge = 0.3
    tried, _, _ = search(CONTROL, lambda u: 0.0 if u < edge else 1e9, memory, h)
    assert len(tried) <= CONTROL.max_trials + 2
    assert tried[-1] < edge
    assert tried[-1] == pytest.approx(edge, abs=0.01)


def test_a_lower_end_that_fails_when_it_is_repeated_is_given_up():
    """The longest step that was too short is solved once and never again: shorter ones are tried, not the same for ever."""
    _, memory, h = search(CONTROL, lambda u: 0.0)
    seen = set()

    def jump(u):
        if u >= 0.3:
            return 1e9
        again = u in seen
        seen.add(u)
        return np.nan if again else 0.0

    tried, _, _ = search(CONTROL, jump, memory, h)
    low = max(u for u in tried if u < 0.3)
    assert tried[-2:] == [low, 0.5 * low]


def test_failed_trials_count_as_too_long():
    _, memory, h = search(CONTROL, lambda u: 0.0)
    tried, _, _ = search(CONTROL, lambda u: 0.0 if u < 0.4 else np.nan, memory, h)
    assert tried[-1] < 0.4


def test_a_step_that_the_loop_shortened_is_accepted():
    _, memory, h = search(CONTROL, lambda u: 0.0)
    tried, memory, following = search(CONTROL, lambda u: 0.0, memory, 0.01 * h)
    assert len(tried) == 1
    assert float(following) == pytest.approx(0.01)  # the predictor does not remember that it was short
    tried, _, _ = search(CONTROL, lambda u: 1e9, memory, 0.5 * following)
    assert len(tried) > 1  # but not if it met too much


def test_proportional_part_smooths():
    """A PI controller answers a jump of the residual with a smaller change of the step than the paper's I controller."""
    pi = ContactPower(50.0, 0.01, 0.5, integral=0.5, proportional=0.1)
    plain = ContactPower(50.0, 0.01, 0.5)
    ratios = []
    for controller in (plain, pi):
        _, memory, h = search(controller, lambda u: 1.0)
        _, memory, h = search(controller, lambda u: 1.0, memory, h)
        _, _, following = search(controller, lambda u: 1.5, memory, h)
        ratios.append(abs(np.log(float(following / h))))
    assert 0 < ratios[1] < ratios[0]


def test_the_exponent_of_8():
    """1/W = 1 + alpha P^beta, and 1 without power whatever beta is."""
    power = jnp.array([0.0, 8.0, 1e4])
    np.testing.assert_allclose(CONTROL.density(power), 1 + 50 * np.cbrt(power), rtol=1e-14)
    np.testing.assert_allclose(ContactPower(2.0, 0.01, exponent=0.5).density(power), 1 + 2 * np.sqrt(power), rtol=1e-14)


@pytest.mark.parametrize("solve", ["explicit", "predicted"])
def test_methods_without_a_search_reject_nothing(solve):
    """Explicit in z: u = W_k of the step before; predicted: (15) alone, whose residual the next step makes up for."""
    control = ContactPower(50.0, 0.01, 0.1, solve=solve)
    tried, memory, h = search(control, lambda u: 0.0)
    assert tried == [1.0]
    tried, memory, h = search(control, lambda u: 1e6 * u, memory, h)
    assert tried == [1.0]
    met = 1 / (1 + 50 * 100)
    assert float(h / 0.01) == pytest.approx(met if solve == "explicit" else 2 / (1 + 1 / met), rel=1e-9)
    tried, memory, h = search(control, lambda u: 0.0, memory, h)
    assert len(tried) == 1
    # What cannot be solved is tried again all the same.
    tried, _, _ = search(control, lambda u: 0.0 if u < 0.4 else np.nan, memory, jnp.asarray(0.01))
    assert len(tried) > 1


def test_an_explicit_density_begins_with_the_power_at_the_start():
    """The first step is the only one that could be longer than it asks for."""
    tried, _, _ = search(ContactPower(50.0, 0.01, 0.1, solve="explicit"), lambda u: 8.0)
    np.testing.assert_allclose(tried, [1.0, 1 / 101])


def test_power_is_that_of_the_velocity_a_step_of_verlet_ends_with():
    """A ball in an elastic floor with a damper, so that forces depend on the velocity: force as evaluated, velocity as corrected."""
    law = mbd.HuntCrossley(1e6, damping=0.5)
    ball = mbd.PointMass("ball", 1.0, (0.0, 0.0497), velocity=(0.0, -1.0))
    floor = mbd.DiscLine("floor", ball, mbd.ground, centre=(0.0, 0.0497), radius=0.05, point=(0, 0), normal=(0, 1), law=law)
    system, method, h = mbd.Model([ball], [], [floor]).build(), mbd.Verlet(), jnp.asarray(1e-4)
    state, scratch = method.init(system, consistent_start(system))
    new, _, info = method.step(system, state, scratch, h)
    assert float(new.v[1]) != pytest.approx(float(state.v[1] + h * state.acceleration[1]), rel=1e-4)
    assert float(info.power) == pytest.approx(abs(float(new.acceleration[1] * new.v[1])), rel=1e-12)


def test_what_does_not_say_its_power_is_refused():
    with pytest.raises(ValueError, match=r"define contact_power.*Oscillator"):
        mbd.simulate(Oscillator(), 1.0, integrator=mbd.Verlet(), controller=CONTROL)
    with pytest.raises(ValueError, match=r"cannot control BDF.*mbd\.Verlet"):
        mbd.simulate(mbd.problems.bouncing_ball(), 1.0, integrator=mbd.BDF(), controller=CONTROL)
    with pytest.raises(ValueError, match="eta of ContactPower must lie between 0 and 1"):
        ContactPower(1.0, 1.0, 2.0)
    with pytest.raises(ValueError, match=r"solve of ContactPower must be one of 'implicit', 'explicit', 'predicted', got 'search'"):
        ContactPower(1.0, 1.0, solve="search")


# --- impacts --------------------------------------------------------------------------------------------------------------------------------

TIME = 0.2
"""s, for two impacts from 10 mm"""


def test_verlet_bounces():
    """Two impacts of 1 ms within flights of 45 ms: tops within 2 %, one evaluation an attempt."""
    run = mbd.simulate(BALL, TIME, integrator=mbd.Verlet(), controller=ContactPower(50.0, 0.002, 0.1))
    height = np.asarray(run.position("ball")[:, 1]) - 0.05
    second = height[np.asarray(run.ts) > 0.1]
    assert np.max(second) == pytest.approx(0.01, rel=0.02)
    assert np.min(height) < -1e-5
    assert run.stats["a_evaluations"] == run.stats["steps"] + run.stats["rejected"] < 600
    assert np.max(run.steps) < 1.1 * 0.002 * (1 + 1e-9)


def test_a_run_that_starts_in_contact_begins_with_a_short_step():
    """0.1 mm deep at 4.3 m/s: P = 4.3 kW, and 1/W = 814 at both ends. A first step of epsilon would leave the contact behind, and the
    energy of 9.3 J with it. The ball leaves the floor as fast as it came."""
    mass, stiffness, gravity = 1.0, 1e7, 9.81
    system = mbd.problems.bouncing_ball(height=-1e-4).build().set({"ball.velocity": (0.0, -4.3)})
    run = mbd.simulate(system, 0.01, integrator=mbd.Verlet(), controller=CONTROL)
    depth, speed = 0.05 - np.asarray(run.q[:, 1]), np.asarray(run.v[:, 1])
    energy = 0.5 * mass * speed**2 - mass * gravity * depth + 0.5 * stiffness * np.maximum(depth, 0.0) ** 2
    assert float(run.steps[0]) == pytest.approx(0.01 / (1 + 50 * np.cbrt(4300)), rel=0.15)
    np.testing.assert_allclose(energy, 9.3, rtol=0.02)
    assert depth[-1] < 0 < speed[-1]


@pytest.mark.parametrize(
    ("method", "evaluations"),
    [(mbd.Verlet(), 1), (mbd.SemiExplicit(power_at="end"), 2), pytest.param(mbd.HHT(), None, marks=pytest.mark.slow)],
    ids=lambda m: getattr(m, "name", ""),
)
def test_gradients_through_an_impact(method, evaluations):
    """Of the accepted steps: reverse, forward (compiled for one method only), and differences over replayed steps."""

    def end(stiffness, adjoint="reverse", step=None):
        control = None if step is not None else ContactPower(10.0, 0.002, 0.1)
        system = BALL.set({"contact.law.stiffness": stiffness})
        run = mbd.simulate(system, 0.06, integrator=method, controller=control, adjoint=adjoint, step=step, max_steps=256, throw=False)
        return run.final.q[1], run

    # Softer than the problem's: replayed differences stay within one branch of the contact.
    at = jnp.asarray(1e5)
    (_, run), reverse = jax.jit(jax.value_and_grad(end, has_aux=True))(at)
    if evaluations is not None:
        assert run.stats["a_evaluations"] == evaluations * (run.stats["steps"] + run.stats["rejected"])
    assert bool(run.result == mbd.RESULTS.successful)
    if method.name == "verlet":
        forward = jax.jit(jax.jacfwd(lambda k: end(k, "forward")[0]))(at)
        assert float(reverse) == pytest.approx(float(forward), rel=1e-8)
    steps = jnp.asarray(np.asarray(run.steps)[: int(run.stats["steps"])])
    replay = jax.jit(lambda k: end(k, step=steps)[0])
    assert float(reverse) == pytest.approx(float((replay(at + 10.0) - replay(at - 10.0)) / 20.0), rel=1e-4)


def test_batch_is_single_runs():
    def end(stiffness):
        system = BALL.set({"contact.law.stiffness": stiffness})
        run = mbd.simulate(system, 0.06, integrator=mbd.Verlet(), controller=ContactPower(20.0, 0.002, 0.1), max_steps=512)
        return run.final.q[1], run.stats["steps"]

    stiffness = jnp.array([1e5, 1e6, 1e7])
    heights, steps = jax.jit(jax.vmap(end))(stiffness)
    single = [jax.jit(end)(k) for k in stiffness]
    np.testing.assert_array_equal(steps, [s for _, s in single])
    np.testing.assert_allclose(heights, [q for q, _ in single], rtol=1e-9)
