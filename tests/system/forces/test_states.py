"""States that see the whole mechanism (Negrut et al. 2005, (8a)-(8c)): against closed forms, and what is refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import jaxmbd as mbd

from ...registry import GRAVITY, CartesianPendulum


class Controller(eqx.Module):
    """Force of a controller with three terms."""

    gain: jax.Array = eqx.field(converter=jnp.asarray, default=30.0)

    def __call__(self, now):
        return self.gain * now["error.value"] + 20.0 * now["integral.value"] - 4.0 * now["guide.travel_rate"]


def controlled_block():
    block = mbd.PlanarBody("block", 2.0, 1.0, position=(0.0, 0.0))
    guide = mbd.Translational("guide", mbd.ground, block, point=(0, 0), axis=(1, 0))
    states = [
        mbd.Variable("error", lambda now: 1.0 - now["guide.travel"]),
        mbd.DifferentialState("integral", 0.0, lambda now: now["error.value"]),
        mbd.Actuator("motor", guide, Controller()),
    ]
    return mbd.Model([block], [guide], [mbd.Gravity((0, -9.81)), *states])


def of_block(t, gain=30.0):
    """Travel, its rate and the integral of the error: linear equations."""
    # w = (s, s', z, 1): 2 s'' = gain (1 - s) + 20 z - 4 s', z' = 1 - s.
    matrix = np.array([[0, 1, 0, 0], [-gain / 2, -2, 10, gain / 2], [-1, 0, 0, 1], [0, 0, 0, 0]])
    return (expm(matrix * t) @ np.array([0.0, 0.0, 0.0, 1.0]))[:3]


@pytest.mark.parametrize("integrator", [mbd.HHT(1e-5), mbd.BDF(1e-5)], ids=["hht", "bdf"])
def test_a_controller_of_three_terms_observes_by_name(integrator):
    run = mbd.simulate(controlled_block(), 2.0, integrator=integrator, saveat=np.linspace(0, 2, 9))
    exact = np.array([of_block(t) for t in np.linspace(0, 2, 9)])
    np.testing.assert_allclose(run.position("block")[:, 0], exact[:, 0], atol=2e-4)
    np.testing.assert_allclose(run.observe("integral.value"), exact[:, 2], atol=2e-4)
    np.testing.assert_allclose(run.observe("error.value")[0], 1.0, atol=1e-9)  # the start is consistent
    np.testing.assert_allclose(run.observe("motor.value")[0], 30.0, atol=1e-9)
    at_rows = 30.0 * (1 - exact[:, 0]) + 20.0 * exact[:, 2] - 4.0 * exact[:, 1]
    np.testing.assert_allclose(run.observe("motor.value")[1:], at_rows[1:], atol=5e-2)  # lines between steps


def test_gains_are_parameters_with_derivatives():
    system = controlled_block().build()
    assert "motor.gain" in system.parameter_names()

    def travel(gain):
        return mbd.simulate(system.set({"motor.gain": gain}), 0.5, integrator=mbd.HHT(1e-9), step=0.01).final.q[0]

    forward = jax.jvp(travel, (30.0,), (1.0,))[1]
    exact = (of_block(0.5, 30.01)[0] - of_block(0.5, 29.99)[0]) / 0.02
    assert forward == pytest.approx(exact, rel=2e-3)  # of the method at this step
    assert jax.grad(travel)(30.0) == pytest.approx(float(forward), rel=1e-9)


class WatchedPendulum(CartesianPendulum):
    """With a filter of the multiplier, given implicitly, and the square of the acceleration as a variable."""

    x0: jax.Array

    def __init__(self):
        super().__init__()
        self.x0 = jnp.zeros(2)

    algebraic = (1,)

    def force(self, q, v, t, x):
        return super().force(q, v, t)

    def state_equation(self, rate, x, q, v, a, multipliers, t):
        return jnp.stack([0.3 * rate[0] + x[0] - multipliers[0], x[1] - a @ a])


@pytest.mark.parametrize("integrator", [mbd.HHT(1e-9), mbd.BDF(1e-9, order=2)], ids=["hht", "bdf"])
def test_implicit_states_of_accelerations_and_multipliers_are_second_order(integrator):
    def rates(t, s):
        return [s[1], -GRAVITY * np.cos(s[0]), (s[1] ** 2 - GRAVITY * np.sin(s[0]) - s[2]) / 0.3]  # of the angle, its rate, the filter

    filtered = solve_ivp(rates, (0.0, 0.4), [0.0, 0.0, 0.0], rtol=1e-10, atol=1e-12).y[2, -1]
    errors = []
    for step in (0.02, 0.01):
        final = mbd.simulate(WatchedPendulum(), 0.4, integrator=integrator, step=step).final
        assert final.x[1] == pytest.approx(float(final.acceleration @ final.acceleration), rel=1e-6)
        errors.append(abs(final.x[0] - filtered))
    assert np.log2(errors[0] / errors[1]) > (1.7 if integrator.name == "hht" else 0.7)  # BDF's order rises from 1 at the start


def test_friction_by_a_reaction_observed_by_name():
    """A block slows down by mu g, of its guide's reaction."""
    block = mbd.PlanarBody("block", 2.0, 1.0, position=(0.0, 0.0), velocity=(2.0, 0.0))
    guide = mbd.Translational("guide", mbd.ground, block, point=(0, 0), axis=(1, 0))

    def rub(now):
        return -0.2 * now["guide.force"] * jnp.tanh(now["block.vx"] / 0.01) * jnp.array([1.0, 0, 0]), jnp.zeros(3)

    model = mbd.Model([block], [guide], [mbd.Gravity((0, -9.81)), mbd.ForceState("rub", mbd.ground, block, rub)])
    run = mbd.simulate(model, 0.5, integrator=mbd.HHT(1e-4))
    np.testing.assert_allclose(run.velocity("block")[:, 0], 2.0 - 0.2 * 9.81 * np.asarray(run.ts), atol=1e-6)
    np.testing.assert_allclose(run.observe("rub.fx"), -0.2 * 2.0 * 9.81, rtol=1e-6)
    refusals = (
        (lambda: mbd.simulate(model, 0.1, integrator=mbd.DormandPrince()), r"DormandPrince needs x' = g.*force 'rub' has not"),
        (lambda: mbd.equilibrium(model), r"equilibrium needs x' = g\(x, q, v, t\) of all states, which force 'rub' has not"),
    )
    for ask, message in refusals:
        with pytest.raises(ValueError, match=message):
            ask()


def test_explicit_states_run_with_any_integrator():
    """The integral of a position that is known: of a body that flies freely."""
    body = mbd.PlanarBody("body", 1.0, 1.0, position=(1.0, 0.0), velocity=(3.0, 0.0))
    area = mbd.DifferentialState("area", 0.5, lambda now: now["body.x"])
    run = mbd.simulate(mbd.Model([body], [], [mbd.Gravity((0, -9.81)), area]), 1.0, integrator=mbd.DormandPrince())
    assert run.observe("area.value")[-1] == pytest.approx(0.5 + 1.0 + 1.5, rel=1e-6)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (lambda: mbd.DifferentialState("z", 0.0), r"state 'z': give rate\(now\) = x', or equation"),
        (lambda: mbd.DifferentialState("z", 0.0, 3.0), "state 'z': rate must be a function of `now`, got 3.0"),
        (lambda: mbd.Variable("z", "hinge.angle"), "variable 'z': function must be a function of `now`"),
        (lambda: mbd.Variable("z", lambda now: now["body.color"]), "variable 'z': 'body': unknown observable 'color'"),
        (lambda: mbd.Variable("z", lambda now: now["bodi.x"]), "variable 'z': unknown observable 'bodi.x'"),
        (lambda: mbd.Variable("z", lambda now: now["peak:body.x"]), "variable 'z': 'peak:body.x' belongs to a whole run"),
        (lambda: mbd.Variable("z", lambda now: jnp.zeros(2)), r"variable 'z': its function must give 1 number\(s\).*got shape \(2,\)"),
        (lambda: mbd.ForceState("z", mbd.ground, "body", lambda now: 1.0), "force 'z': its function must return the pair"),
        (lambda: mbd.Actuator("z", mbd.Fixed("f", mbd.ground, "body"), lambda now: 1.0), "force 'z': give a joint of the kind Rev"),
    ],
)
def test_what_makes_no_sense_is_refused_at_build(state, message):
    with pytest.raises(ValueError, match=message):
        mbd.Model([mbd.PlanarBody("body", 1.0, 1.0)], [], [mbd.Gravity((0, -9.81)), state()]).build()


@pytest.mark.slow
def test_an_anti_lock_brake_stops_the_vehicle_sooner():
    """Wheels that lock slide with 0.54 of their load; the controller keeps their slip near the peak of 0.8."""
    from benchmarks.anti_lock import CORNERS, braking

    late = {}
    for controlled in (True, False):
        run = mbd.simulate(braking(controlled), 0.4, integrator=mbd.HHT(1e-3, state_scale=10.0), max_step=0.01)
        spins = np.stack([run.observe(f"spin_{corner}.value") for corner in CORNERS])
        late[controlled] = float(run.observe("chassis.vx")[-1]), float(np.min(spins))
    assert late[True][0] < late[False][0] - 0.3
    assert late[True][1] > 1.0
    assert abs(late[False][1]) < 0.1


def test_functions_of_states_know_beams_and_points():
    """Names that are those of a run, whatever they belong to."""
    beam = mbd.Beam("beam", (0, 0), (1, 0), mbd.Section.rectangle(mbd.Material(2e9, density=1000.0), 0.02, 0.02), elements=2)
    height = mbd.DifferentialState("height", 0.0, lambda now: now["beam.end.y"] + 0.5)
    model = mbd.Model([beam], [], [mbd.Gravity((0, 0)), height])
    run = mbd.simulate(model, 0.01, integrator=mbd.Verlet(), step=0.005)
    np.testing.assert_allclose(run.observe("height.value"), 0.5 * np.asarray(run.ts), atol=1e-12)
