"""The energy of a mechanism changes by what its elements supply: exactly at every moment, and along a run up to the error of the integrator."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.problems import PROBLEMS
from jaxmbd.system.equations import count_rows, initial_states
from jaxmbd.system.initial import first_memory


@eqx.filter_jit
def instant(system, q, v, t, x, multipliers):
    """The rate of kinetic and potential energy, from the equations of motion themselves; and what the workers say.

    With any multipliers, and velocities that satisfy the constraints: d/dt (v.M v / 2) = v.(Q - Phi_q^T lambda) + v.M' v / 2.
    """
    memory = first_memory(system)
    system = system.prepare().recall(memory)
    one = jnp.ones(())
    _, pull_back = jax.vjp(lambda q: system.constraint(q, t), q)
    if multipliers.shape[0]:
        jacobian = jax.vmap(lambda row: pull_back(row)[0])(jnp.eye(multipliers.shape[0]))
        _, driving = jax.jvp(lambda t: system.constraint(q, t), (t,), (one,))
        v = v - jnp.linalg.lstsq(jacobian, jacobian @ v + driving)[0]
    states = (x,) if x.shape[0] else ()
    force = system.force(q, v, t, *states) + system.stiff_force(q, v, t, *states) - pull_back(multipliers)[0]
    _, turning = jax.jvp(lambda q: system.mass_product(q, v), (q,), (v,))
    _, rise = jax.jvp(system.potential_energy, (q, t), (v, one))
    state = mbd.State(t, q, v, x, multipliers, v, x, memory)
    return v @ force + 0.5 * v @ turning + rise, system.flows(state, system.efforts(state))


@pytest.mark.parametrize(
    ("name", "options", "closed"),
    [
        ("oscillators", {}, {}),
        ("penalty-pendulum", {}, {}),
        ("bouncing-ball", {"height": 0.0}, {"ball.y": -1e-4}),
        pytest.param("newton-cradle", {"balls": 2}, {"ball[0].x": 0.0405}, marks=pytest.mark.slow),
        ("box-on-plane", {}, {"block.z": -1e-3}),
        pytest.param("spheres-in-box", {"spheres": 2}, {"ball[0].x": 0.001, "ball[0].z": -0.004}, marks=pytest.mark.slow),
        pytest.param("stiff-impact", {}, {"impactor.y": 0.1505}, marks=pytest.mark.slow),
        pytest.param("pendulum", {}, {}, marks=pytest.mark.slow),
        pytest.param("double-pendulum", {"spatial": True}, {}, marks=pytest.mark.slow),
        pytest.param("four-bar", {}, {}, marks=pytest.mark.slow),
        pytest.param("slider-crank", {}, {}, marks=pytest.mark.slow),
        pytest.param("spinning-top", {}, {}, marks=pytest.mark.slow),
        pytest.param("chain", {"n": 2}, {}, marks=pytest.mark.slow),
        pytest.param("hmmwv", {}, {}, marks=pytest.mark.slow),
        pytest.param("ball-bearing", {"balls": 3, "rings": "prescribed"}, {}, marks=pytest.mark.slow),
        pytest.param("ball-bearing", {"balls": 3, "rings": "penalty"}, {}, marks=pytest.mark.slow),
    ],
)
def test_energy_rises_at_every_moment_by_what_is_supplied(name, options, closed):
    """Near the start, with contacts closed, at random velocities: slow ones, at which dashpots of contacts do not let go."""
    model = PROBLEMS[name].function(**options)
    system = model.build() if isinstance(model, mbd.Model) else model
    rng = np.random.default_rng(0)
    q, x = np.array(system.q0), np.array(initial_states(system))
    for coordinate, shift in closed.items():
        q[system.coordinate_names().index(coordinate)] += shift
    v = np.asarray(system.v0) + 0.1 * rng.normal(size=q.shape)
    x += 1e-6 * rng.normal(size=x.shape)
    rate, flows = instant(system, q, v, jnp.asarray(0.1), jnp.asarray(x), rng.normal(size=count_rows(system)))
    supplied, power = np.asarray(flows.supplied), np.asarray(flows.power)
    assert len(supplied) == len(system.workers())
    # Rounding, of powers that mostly cancel.
    np.testing.assert_allclose(np.sum(supplied), rate, rtol=0.0, atol=1e-12 * np.sum(np.abs(power)) + 1e-10 * abs(rate))
    assert np.any(power != 0.0)
    if PROBLEMS[name].conserves_energy:
        np.testing.assert_allclose(supplied, 0.0, atol=1e-12 * np.sum(np.abs(power)))
    if closed:
        contacts = [i for i, worker in enumerate(system.workers()) if worker.startswith(("contact", "plane", "walls", "spheres"))]
        assert np.any(power[contacts] != 0.0)


METHODS = {
    "hht": mbd.HHT(1e-7),
    "verlet": mbd.Verlet(),
    "dormand-prince": mbd.DormandPrince(1e-7, 1e-7),
    "semi-explicit": mbd.SemiExplicit(),
}
SHORTER = {"ball-bearing": 1e-3, "hmmwv": 1.0, "stiff-impact": 0.6, "penalty-pendulum": 2.0}
"""s, where a part of a run says as much as the whole"""


LARGE = ("belt", "track")
"""have tests of their own, at the tolerances that their contacts are run with"""
QUICK = ("oscillators", "penalty-pendulum", "bouncing-ball")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PROBLEMS if name not in LARGE]
)
def test_the_balance_of_every_problem_closes_along_its_run(name):
    """By the method that suits it, up to the errors of steps: adaptive ones at a tight tolerance, or the fixed ones of the command line."""
    problem = PROBLEMS[name]
    steps = {"max_step": problem.max_step} if problem.step is None else {"step": problem.step}
    t1 = SHORTER.get(name, problem.t1)
    run = mbd.simulate(problem.function(), t1, integrator=METHODS[problem.integrator], max_steps=100_000, **steps)
    turned = np.max(run.energy().kinetic) + sum(np.max(np.abs(work.supplied)) for work in run.work().values())
    assert np.max(np.abs(run.observe("energy.error"))) < (3e-5 if problem.step is None else 1e-2) * turned
