"""Initial states by names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd

WANTED = {"hinge1.angle": 2.5, "hinge2.angle": -4.0, "hinge1.rate": 1.0, "hinge2.rate": -2.0}


@pytest.mark.parametrize("spatial", [False, True])
def test_joints_stand_and_move_as_asked(spatial):
    """Also beyond half a turn, where a spring follows."""
    system = mbd.problems.double_pendulum(spatial=spatial).build()
    state = mbd.pose(system, WANTED)
    run = mbd.simulate(system, 1e-9, initial=state)
    seen = run.observe([*WANTED, "spring2.angle"])
    assert max(np.abs(system.prepare().constraint(state.q, 0.0))) < 1e-10
    np.testing.assert_allclose(seen["spring2.angle"][0], -4.0, atol=1e-9)
    for name, value in WANTED.items():
        turn = 2 * np.pi if name.endswith("angle") else np.inf
        np.testing.assert_allclose(np.remainder(seen[name][0] - value + 1.0, turn), 1.0, atol=1e-8)

    def speeds(values):
        return mbd.pose(system, dict(zip(WANTED, values, strict=True))).v

    values = jnp.array(list(WANTED.values()))
    exact = jax.jit(jax.jacfwd(speeds))(values)
    for i, direction in enumerate(jnp.eye(4)):
        np.testing.assert_allclose(exact[:, i], (speeds(values + 1e-6 * direction) - speeds(values - 1e-6 * direction)) / 2e-6, atol=1e-6)


def test_what_is_not_asked_for_stays_near():
    body = mbd.RigidBody("body", 2.0, (0.1, 0.2, 0.25), position=(1, 2, 3), velocity=(0.5, 0, 0), angular_velocity=(0, 0, 1))
    system = mbd.Model([body], [], [mbd.Gravity((0, 0, 0))]).build()
    run = mbd.simulate(system, 1e-9, initial=mbd.pose(system, {"body.y": 5.0, "body.wx": 3.0}))
    np.testing.assert_allclose(run.position("body")[0], (1, 5, 3), atol=1e-9)
    np.testing.assert_allclose(run.velocity("body")[0], (0.5, 0, 0), atol=1e-9)
    np.testing.assert_allclose(run.angular_velocity("body")[0], (3, 0, 1), atol=1e-9)


def test_a_free_body_is_turned_as_asked():
    body = mbd.RigidBody("body", 2.0, (0.1, 0.2, 0.25))
    system = mbd.Model([body], [], [mbd.Gravity((0, 0, 0))]).build()
    p = np.array([0.1, -0.7, 0.5, 0.3])
    wanted = {f"body.e{i}": value for i, value in enumerate(p)} | {
        "body.wx_body": 1.0,
        "body.wy_body": -2.0,
        "body.wz_body": 0.5,
        "body.x": 0.3,
    }
    run = mbd.simulate(system, 1e-9, initial=mbd.pose(system, wanted))
    np.testing.assert_allclose(run.orientation("body")[0], p / np.linalg.norm(p), atol=1e-9)
    np.testing.assert_allclose(run.angular_velocity("body", axes="body")[0], (1, -2, 0.5), atol=1e-8)
    np.testing.assert_allclose(run.position("body")[0], (0.3, 0, 0), atol=1e-9)


def test_loads_cannot_be_asked_for():
    system = mbd.problems.pendulum().build()
    with pytest.raises(ValueError, match=r"initial 'spring.torque': only positions and their rates can be asked for"):
        mbd.pose(system, {"spring.torque": 1.0})
    with pytest.raises(ValueError, match=r"unknown observable 'angel'. Did you mean 'angle'"):
        mbd.pose(system, {"hinge.angel": 1.0})


def test_a_posed_body_may_be_held_in_its_velocity():
    sledge = mbd.PlanarBody("sledge", 2.0, 0.3, position=(0, 0), angular_velocity=2.0)
    system = mbd.Model([sledge], [mbd.KnifeEdge("edge", mbd.ground, sledge, (0, 0), (1, 0))], [mbd.Gravity((3.0, 0))]).build()
    state = mbd.pose(system, {"sledge.x": 1.0})
    np.testing.assert_allclose(state.q, [1.0, 0.0, 0.0], atol=1e-12)
