"""The splitting method on joints with multipliers: constraints hold, orders, one evaluation of A, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from scipy.integrate import solve_ivp

import jaxmbd as mbd
from jaxmbd.system.equations import constraint, constraint_rate

STEP = 0.02
END = 0.4


def rods(second):
    """Two rods in space, which a soft damper ties: on a hinge with multipliers, and on one that is given."""
    inertia = (0.01, 0.09, 0.09)
    one = mbd.RigidBody("one", 1.0, inertia, position=(0.5, 0.0, 0.0), angular_velocity=(0.0, 0.8, 0.0), velocity=(0.0, 0.0, -0.4))
    two = mbd.RigidBody("two", 1.0, inertia, position=(1.5, 0.0, 0.0), velocity=(0.0, 0.0, -0.8))
    joints = [
        mbd.Revolute("shoulder", mbd.ground, one, (0, 0, 0), (0, 1, 0)),
        mbd.Revolute("elbow", one, two, (1, 0, 0), (0, 1, 0), penalty=second),
    ]
    damper = mbd.TorsionSpringDamper("damper", one, two, axis=(0, 1, 0), stiffness=1.0, damping=0.1)
    return mbd.Model([one, two], joints, [mbd.Gravity((0, 0, -9.81)), damper]).build()


EXACT, STIFF = rods(None), rods(mbd.Penalty(1e7, 1e4))
METHOD = mbd.SemiExplicit(0.5, 0.6, predict_velocity=True)


def steps(count):
    """So many of one size, in an array of a size that all runs share."""
    return np.where(np.arange(80) < count, END / count, 0.0)


@pytest.fixture(scope="module")
def runs():
    """By number of steps."""
    return {n: mbd.simulate(EXACT, END, integrator=METHOD, step=steps(n)) for n in (20, 40, 80)}


def exact_end():
    """Centres of mass (x1, z1, x2, z2) and their velocities, by the two angles about y."""
    swing, tip = 0.09 + 1.25, 0.09 + 0.25

    def rate(_, z):
        (one, two), (w1, w2) = z[:2], z[2:]
        twist = (two - one) + 0.1 * (w2 - w1)
        pull = 9.81 * np.array([1.5 * np.cos(one), 0.5 * np.cos(two)])
        turning = 0.5 * np.sin(one - two) * np.array([-(w2**2), w1**2])
        tied = 0.5 * np.cos(one - two)
        return [w1, w2, *np.linalg.solve([[swing, tied], [tied, tip]], pull + turning + twist * np.array([1.0, -1.0]))]

    one, two, w1, w2 = solve_ivp(rate, (0.0, END), [0.0, 0.0, 0.8, 0.0], rtol=1e-12, atol=1e-12).y[:, -1]
    along = [np.array([np.cos(angle), -np.sin(angle)]) for angle in (one, two)]
    across = [w * np.array([-np.sin(angle), -np.cos(angle)]) for angle, w in ((one, w1), (two, w2))]
    return [np.concatenate([0.5 * first, first + 0.5 * second]) for first, second in (along, across)]


def test_constraints_hold_and_a_is_evaluated_once_a_step(runs):
    run = runs[20]
    system = run.system.prepare()
    rows = jax.vmap(lambda s: jnp.stack([constraint(system, s.q, s.t), constraint_rate(system, s.q, s.v, s.t)]))(run.states)
    assert float(jnp.max(jnp.abs(rows[:, 0]))) < 1e-11
    assert float(jnp.max(jnp.abs(rows[:, 1]))) < 1e-12
    assert run.stats["a_evaluations"] == run.stats["force_evaluations"] == run.stats["steps"] == 20
    assert run.stats["b_evaluations"] == 0


def test_order_on_joints(runs):
    """Two for positions and velocities, one for multipliers, which are those of a third of the step."""
    places = np.array([0, 2, 7, 9])
    ends = [np.stack([run.final.q, run.final.v])[:, places] for run in runs.values()]
    errors = np.max(np.abs(np.stack(ends) - np.stack(exact_end())), axis=2)
    np.testing.assert_allclose(np.log2(errors[:-1] / errors[1:]), 2.0, atol=0.2)
    coarse, middle, fine = (r.final.multipliers for r in runs.values())
    assert float(jnp.log2(jnp.linalg.norm(coarse - middle) / jnp.linalg.norm(middle - fine))) == pytest.approx(1.0, abs=0.2)


def test_a_stiff_penalty_beside_multipliers(runs):
    """B acts on bodies that joints with multipliers hold: a stiff hinge is as good as an exact one, at steps far beyond its period. Their
    errors at this step are 1e-4 and 1e-3 (above); beta = 0.6 makes those of B first order."""
    run, other = mbd.simulate(STIFF, END, integrator=METHOD, step=steps(40)), runs[40].final
    np.testing.assert_allclose(run.final.q, other.q, atol=1e-3)
    np.testing.assert_allclose(run.final.v, other.v, atol=1e-2)
    assert run.stats["a_evaluations"] == 40
    assert run.stats["b_evaluations"] < 12 * 40


class TiedPendulum(mbd.AbstractSystem):
    """A point on a circle, and another one that a stiff spring and damper hold to it."""

    stiffness: Array
    gravity: Array
    q0: Array
    v0: Array

    def __init__(self, stiffness, gravity):
        self.stiffness, self.gravity = jnp.asarray(stiffness), jnp.asarray(gravity)
        self.q0, self.v0 = jnp.array([1.0, 0.0, 2.0, 0.0]), jnp.zeros(4)

    def mass(self, q):
        return jnp.eye(4)

    def force(self, q, v, t):
        return self.gravity * jnp.array([0.0, -1.0, 0.3, -1.0])

    def stiff_force(self, q, v, t):
        pull = self.stiffness * (q[2:] - 2.0 * q[:2]) + 10.0 * (v[2:] - 2.0 * v[:2])
        return jnp.concatenate([2.0 * pull, -pull])

    def constraint(self, q, t):
        return 0.5 * (q[:2] @ q[:2] - 1.0)[None]


def test_derivatives_on_joints():
    """Reverse and central differences, in a batch; by a number of B and one of A, through multipliers and B together."""

    def end(p):
        run = mbd.simulate(TiedPendulum(p[0], p[1]), 0.2, integrator=METHOD, step=STEP, throw=False)
        return jnp.sum(run.final.q) + jnp.sum(run.final.v) + run.final.multipliers[0]

    at, change = jnp.array([[1e3, 9.81], [2e3, 3.0]]), jnp.array([1e-1, 1e-4])
    shifted = jnp.concatenate([at[:, None] + sign * jnp.diag(change) for sign in (1, -1)], axis=1)
    ends = jax.jit(jax.vmap(jax.vmap(end)))(shifted)
    reverse = jax.jit(jax.vmap(jax.grad(end)))(at)
    np.testing.assert_allclose(reverse, (ends[:, :2] - ends[:, 2:]) / (2 * change), rtol=1e-5)
