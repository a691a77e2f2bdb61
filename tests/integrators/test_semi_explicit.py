"""The semi-explicit splitting method: what it evaluates, its orders, its stability regions, its derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from benchmarks.smooth_problems import SMOOTH
from jaxmbd.integrators.amplification import spectral_radius, step_matrix
from jaxmbd.problems import Oscillators, PenaltyPendulum
from jaxmbd.problems.splitting import NonlinearSplit, SplitOscillator
from jaxmbd.system.initial import initial_state

from ..registry import CartesianPendulum, Oscillator


@jax.jit
@jax.vmap
def radius_of_step(alpha, beta, k, c, stiff_k, stiff_c):
    """Of the map of one step with h = 1."""
    return spectral_radius(mbd.SemiExplicit(alpha, beta).precise(), SplitOscillator(k, c, stiff_k, stiff_c), jnp.ones(()))


def distance_to_edge(alpha, k, c):
    """Of Theorem 3's region (7), measured along the conditions: positive inside."""
    return np.minimum.reduce([k, 2 - alpha * k - c, c - (0.5 - alpha) * k])


def test_stability_region_without_b_is_that_of_theorem_3():
    alpha, k, c = (a.ravel() for a in np.meshgrid([0.0, 0.5, 1.0], np.linspace(-1.03, 8.9, 31), np.linspace(-2.51, 4.4, 31)))
    zero = np.zeros_like(alpha)
    radius = np.asarray(radius_of_step(alpha, zero + 0.5, k, c, zero, zero))
    edge = distance_to_edge(alpha, k, c)
    assert np.all(radius[edge > 1e-6] < 1 + 1e-9)
    assert np.all(radius[edge < -1e-6] > 1 + 1e-9)


def test_b_of_any_stiffness_leaves_the_region_as_it_is():
    """Theorem 6."""
    random = np.random.default_rng(0)
    alpha, beta, k, c = random.uniform((0, 0.5, 0, -2), (1, 1, 8, 4), (4000, 4)).T
    stiff_k, stiff_c = 10 ** random.uniform(-3, 9, (2, 4000))
    inside = distance_to_edge(alpha, k, c) > 0
    assert inside.sum() > 300
    radius = np.asarray(radius_of_step(alpha, beta, k, c, stiff_k, stiff_c))
    assert np.all(radius[inside] < 1 + 1e-7)  # eigenvalues of 1 - 1e-9 lose half the digits where they are double


def test_oscillations_end_where_corollary_4_says():
    """Roots of a stable step are complex for h c < 2 h sqrt(k) - (1/2 + alpha) h^2 k. With alpha = -1/2 that is the exact motion's condition."""
    alpha, k, c = (a.ravel() for a in np.meshgrid([-0.5, 0.0, 0.5, 1.0], np.linspace(0.07, 7.9, 23), np.linspace(0.03, 4.9, 29)))
    maps = jax.jit(
        jax.vmap(lambda alpha, k, c: step_matrix(mbd.SemiExplicit(alpha), SplitOscillator(k, c, 0.0 * k, 0.0 * k), jnp.ones(())))
    )
    found = np.asarray(maps(alpha, k, c))
    oscillates = np.trace(found, axis1=1, axis2=2) ** 2 < 4 * np.linalg.det(found)
    excess, inside = c - (2 * np.sqrt(k) - (0.5 + alpha) * k), distance_to_edge(alpha, k, c) > 0
    clear = inside & (np.abs(excess) > 1e-6)
    np.testing.assert_array_equal(oscillates[clear], excess[clear] < 0)
    exact = c < 2 * np.sqrt(k)
    assert np.all(exact[inside & oscillates])
    assert np.all(oscillates[inside & (alpha < 0)] == exact[inside & (alpha < 0)])
    assert all(np.any(oscillates[clear & (alpha == a)]) and not np.all(oscillates[clear & (alpha == a)]) for a in (-0.5, 0.5))


def local_error(method, h, t=0.3):
    """(q, v) of one step less the exact flow."""
    system = NonlinearSplit()
    state, scratch = method.init(system, initial_state(system, jnp.asarray(t))[0])
    new, _, _ = eqx.filter_jit(method.precise().step)(system, state, scratch, jnp.asarray(h))

    def rate(t, z):
        return [z[1], -2 * z[0] ** 3 - 0.3 * z[1] ** 2 + np.sin(2 * t) - 4 * np.sin(z[0]) - 0.5 * z[1] + 0.2 * np.cos(3 * t)]

    exact = solve_ivp(rate, (t, t + h), [0.7, -0.4], method="DOP853", rtol=1e-13, atol=1e-14).y[:, -1]
    return np.array([new.q[0], new.v[0]]) - exact


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.5), (0.2, 0.9), (1.0, 0.6)])
def test_local_error_is_that_of_lemma_1(alpha, beta):
    t, q, v, h = 0.3, 0.7, -0.4, 1e-3
    c = -2 * q**3 - 0.3 * v**2 + np.sin(2 * t) - 4 * np.sin(q) - 0.5 * v + 0.2 * np.cos(3 * t)
    along = -6 * q**2 * v + 2 * np.cos(2 * t)  # A_q v + A_t
    by_rate = -2 * 0.3 * v * c  # A_v C
    stiff = -4 * np.cos(q) * v - 0.5 * c - 0.6 * np.sin(3 * t)  # B_z X
    expected = np.array(
        [
            h**3 / 6 * ((3 * alpha - 1) * along - by_rate + (3 * beta - 1) * stiff),
            h**2 / 2 * ((2 * alpha - 1) * along - by_rate + (2 * beta - 1) * stiff),
        ]
    )
    np.testing.assert_allclose(local_error(mbd.SemiExplicit(alpha, beta), h, t), expected, rtol=0.02)  # up to O(h)


def test_velocity_prediction_makes_it_second_order():
    """The local velocity error of Lemma 1 has a term A_v C h^2/2: with the predicted velocity it is gone, and errors are third order."""
    coarse, fine = (local_error(mbd.SemiExplicit(predict_velocity=True), h) for h in (2e-2, 1e-2))
    np.testing.assert_allclose(np.log2(np.abs(coarse / fine)), 3.0, atol=0.2)


def test_without_b_it_is_stoermer_verlet():
    """Drift, kick, drift, as the table after (5) says; and nothing is solved."""
    run = mbd.simulate(Oscillator(40.0), 2.0, integrator=mbd.SemiExplicit(), step=0.1)
    q, v = 1.0, 0.0
    for _ in range(20):
        q += 0.05 * v
        v += 0.1 * -20.0 * q
        q += 0.05 * v
    np.testing.assert_allclose([run.final.q[0], run.final.v[0]], [q, v], rtol=1e-12)
    assert run.stats["a_evaluations"] == 20
    assert run.stats["b_evaluations"] == run.stats["jacobians"] == 0


def test_without_a_it_is_the_implicit_midpoint_rule():
    system = Oscillators(soft_stiffness=0.0)
    ours, midpoint = (mbd.simulate(system, 1.0, integrator=m, step=0.02).final for m in (mbd.SemiExplicit(), mbd.Theta(0.5)))
    np.testing.assert_allclose(ours.q, midpoint.q, rtol=1e-9)
    np.testing.assert_allclose(ours.v, midpoint.v, atol=1e-9)


@pytest.mark.parametrize("height", [0.3, 0.5, 0.8])
def test_the_implicit_midpoint_rule_does_not_leap_into_a_contact(height):
    """Free fall has no error, and the middle of a step that ends in the floor is still free; a leap threw the disc up with a multiple of its
    energy."""
    disc = mbd.PlanarBody("disc", 1.0, 1.0, position=(0.0, height))
    shape = {"centre": (0.0, height), "radius": 0.1, "point": (0, 0), "normal": (0, 1)}
    floor = mbd.DiscLine("floor", disc, mbd.ground, **shape, law=mbd.LinearContact(1e4))
    run = mbd.simulate(mbd.Model([disc], [], [mbd.Gravity((0, -9.81)), floor]), 1.0, integrator=mbd.Theta())
    assert jnp.max(jnp.abs(run.observe("energy.error"))) < 0.01 * 9.81 * height


def test_one_evaluation_of_a_a_step_and_few_of_b():
    """The oscillators of section 6.1: B is linear, so that its Jacobian is made once and two evaluations suffice, one with it at hand."""
    stats = mbd.simulate(Oscillators(), 20.0, integrator=mbd.SemiExplicit(0.5, 0.8), step=1.0).stats
    assert stats["a_evaluations"] == stats["force_evaluations"] == stats["steps"] == 20
    assert stats["jacobians"] == 1
    assert stats["b_evaluations"] <= 2 * 20
    printed = mbd.simulate(Oscillators(), 20.0, integrator=mbd.SemiExplicit(0.5, 0.8, estimate="printed"), step=1.0).stats
    assert printed["a_evaluations"] == 40


def test_error_follows_the_tolerance():
    """Local errors are third order in h, so that the global one goes with tolerance^(2/3)."""
    exact = np.cos(np.sqrt(20.0))
    errors = [
        abs(float(mbd.simulate(Oscillator(40.0), 1.0, integrator=mbd.SemiExplicit(tolerance=t)).final.q[0]) - exact) for t in (1e-4, 1e-7)
    ]
    assert np.log(errors[0] / errors[1]) / np.log(1e3) == pytest.approx(2 / 3, abs=0.1)
    assert errors[1] < 1e-4


def test_penalty_joint_in_space():
    """A stiff penalty makes a hinge: a compound pendulum. Orientation stays normalised, and the joint needs no smaller steps."""
    body = mbd.RigidBody("body", 1.0, (0.02, 0.02, 0.03), (0.3, 0.0, 0.0), angular_velocity=(0.0, 2.0, 0.0), velocity=(0.0, 0.0, -0.6))
    # (k / m)^(1/2) is 1e4 rad/s: explicit methods would need steps of 2e-4 s.
    hinge = mbd.Revolute("hinge", mbd.ground, body, (0.0, 0.0, 0.0), (0.0, 1.0, 0.0), penalty=mbd.Penalty(1e8, 1e4))
    method = mbd.SemiExplicit(0.5, 0.5, predict_velocity=True)
    run = mbd.simulate(mbd.Model([body], [hinge], [mbd.Gravity((0.0, 0.0, -9.81))]), 0.5, integrator=method, step=1e-3)
    pull = 9.81 * 0.3 / (0.02 + 0.3**2)
    angle, _ = solve_ivp(lambda t, z: [z[1], pull * np.cos(z[0])], (0, 0.5), [0.0, 2.0], rtol=1e-10, atol=1e-10).y[:, -1]
    expected = np.array([0.3 * np.cos(angle), 0.0, -0.3 * np.sin(angle), np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0])
    np.testing.assert_allclose(run.final.q, expected, atol=5e-5)  # (h w)^2 = 4e-5, w = 6 rad/s
    p, rates = run.q[:, 3:], run.v[:, 3:]
    np.testing.assert_allclose(jnp.sum(p * p, axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(jnp.sum(p * rates, axis=1), 0.0, atol=1e-14)
    assert run.stats["a_evaluations"] == run.stats["steps"] == 500
    # In axes that turn with the body a Jacobian serves for many steps (18 of them, measured); in coordinates it was renewed 343 times.
    assert run.stats["jacobians"] < 50
    assert run.stats["b_evaluations"] < 5 * 500  # prescribed steps solve to 1e-9: four corrections at a rate near 1e-3


@pytest.mark.parametrize("method", [mbd.SemiExplicit(predict_velocity=True), mbd.Verlet()], ids=lambda m: m.name)
def test_tumbling_body(method):
    """Gyroscopic terms depend on the velocity: second order with a predicted one."""
    system, exact = SMOOTH["tumbling-body"].model().build(), SMOOTH["tumbling-body"].reference([0.5])
    ends = [mbd.simulate(system, 0.5, integrator=method, step=h).final for h in (1e-2, 5e-3)]
    errors = np.array([[np.max(np.abs(got - want)) for got, want in zip((end.q, end.v), exact, strict=True)] for end in ends])
    np.testing.assert_allclose(np.log2(errors[0] / errors[1]), 2.0, atol=0.2)


@pytest.mark.parametrize("method", [mbd.Verlet(), mbd.ExplicitNystrom(), mbd.Theta()], ids=lambda m: m.name)
def test_constraints_with_multipliers_are_refused(method):
    with pytest.raises(ValueError, match=r"joint 'hinge1'.*mbd\.Penalty.*mbd\.HHT"):
        mbd.simulate(mbd.problems.four_bar(), 1.0, integrator=method)
    with pytest.raises(ValueError, match="constraint row 0"):
        mbd.simulate(CartesianPendulum(), 1.0, integrator=method)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, r"alpha of SemiExplicit must lie in \[-1/2, 1\]"),
        ({"estimate": "guess"}, "estimate of SemiExplicit must be one of 'consecutive', 'printed'"),
        ({"alpha": 0.0, "estimate": "printed"}, "alpha must not be 0"),
        ({"power_at": "start"}, "power_at of SemiExplicit"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        mbd.SemiExplicit(**options)


def test_gradients_by_a_number_of_the_method():
    """Of the implicit solve at the recorded steps: reverse, forward, and central differences over replayed steps."""
    method = mbd.SemiExplicit(0.5, 0.6, predict_velocity=True)

    def end(stiffness, beta, adjoint="reverse"):
        used = eqx.tree_at(lambda m: m.beta, method, beta)
        return mbd.simulate(PenaltyPendulum(stiffness=stiffness), 0.4, integrator=used, step=0.02, adjoint=adjoint).final.q[1]

    at = (300.0, 0.6)
    value, reverse = jax.jit(jax.value_and_grad(end, (0, 1)))(*at)
    forward = jax.jit(jax.jacfwd(lambda *p: end(*p, adjoint="forward"), (0, 1)))(*at)
    np.testing.assert_allclose(reverse, forward, rtol=1e-9)
    for i, small in enumerate((1e-2, 1e-5)):
        up, down = (float(jax.jit(end)(*(p + sign * small * (i == j) for j, p in enumerate(at)))) for sign in (1, -1))
        assert float(reverse[i]) == pytest.approx((up - down) / (2 * small), rel=1e-6)
    assert np.isfinite(value)


def test_batch_is_single_runs():
    """Newton in a batch iterates until the last lane is done: the others must not move on."""

    def end(stiffness):
        return mbd.simulate(PenaltyPendulum(stiffness=stiffness), 0.5, integrator=mbd.SemiExplicit(0.5, 0.6), max_steps=512).final.q

    stiffness = jnp.array([1e2, 1e3, 1e4])
    together = jax.jit(jax.vmap(end))(stiffness)
    np.testing.assert_allclose(together, [jax.jit(end)(k) for k in stiffness], rtol=1e-8)


@pytest.mark.parametrize("predict", [False, True])
def test_the_local_error_of_damping_is_not_overlooked(predict):
    """q'' = -10 v: of the second step, exact errors of position and h times velocity are of the size of the estimate. Without the predicted
    velocity they are 2/3 h^3 |q'''| (Lemma 1)."""
    numbers = (jnp.asarray(x) for x in (0.0, 10.0, 0.0, 0.0))
    system, h = SplitOscillator(*numbers, jnp.zeros(1), jnp.ones(1)), jnp.asarray(1e-3)
    method = mbd.SemiExplicit(predict_velocity=predict)
    state, scratch = method.init(system, initial_state(system, jnp.zeros(()))[0])
    state, scratch, _ = method.step(system, state, scratch, h)
    new, _, info = method.step(system, state, method.accept(state, state, scratch), h)
    fade = np.exp(-10 * h)
    position = abs(float(new.q[0] - state.q[0] - state.v[0] * (1 - fade) / 10))
    velocity = abs(float(new.v[0] - state.v[0] * fade))
    found = float(info.error * method.tolerance)
    assert 0.9 < found / (position + float(h) * velocity) < (1.1 if not predict else 3.0)
