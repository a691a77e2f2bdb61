"""The state-space form: consistent at every level, with exact derivatives, for any choice of coordinates."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmbd as mbd
from jaxmbd.integrators.state_space.local import LocalSystem
from jaxmbd.integrators.state_space.partition import first_partition, tangent
from jaxmbd.integrators.state_space.reduction import differentiate, evaluate
from jaxmbd.system.equations import constraint, constraint_acceleration, constraint_force, constraint_rate, mass_product, total_force
from jaxmbd.system.initial import initial_state
from jaxmbd.system.naming import find_coordinates

from ...registry import Sling


@eqx.filter_jit
def prepared(system):
    system = system.prepare()
    state, _, _ = initial_state(system, jnp.array(0.2))
    return system.recall(state.memory), state


chosen_first = eqx.filter_jit(first_partition)


@eqx.filter_jit
def both_derivatives(system, state, partition):
    """By `differentiate`, and by automatic differentiation through `evaluate`."""
    here = tangent(system, state.memory, partition, state.q, state.t)
    chosen = partition.independent

    def right_hand_side(y, rate, x, t):
        point = evaluate(system, state.memory, partition, t, y, rate, x, state.q, here.factors)
        return jnp.concatenate([point.acceleration[chosen], point.state_rate])

    whole = jax.jacfwd(right_hand_side, argnums=(0, 1, 2, 3))(state.q[chosen], state.v[chosen], state.x, state.t)
    return differentiate(system, state, here), whole


@eqx.filter_jit
def at(system, state, partition, t):
    here = tangent(system, state.memory, partition, state.q, state.t)
    chosen = partition.independent
    point = evaluate(system, state.memory, partition, t, state.q[chosen] + 0.01, state.v[chosen] + 0.1, state.x, state.q, here.factors)
    motion = mass_product(system, point.q, point.acceleration) + constraint_force(system, point.q, t, point.multipliers)
    return point, (
        constraint(system, point.q, t),
        constraint_rate(system, point.q, point.v, t),
        constraint_acceleration(system, point.q, point.v, point.acceleration, t),
        motion - total_force(system, point.q, point.v, t, point.x),
    )


@eqx.filter_jit
def unmoved(system, state, partition):
    here = tangent(system, state.memory, partition, state.q, state.t)
    chosen = partition.independent
    return evaluate(system, state.memory, partition, state.t, state.q[chosen], state.v[chosen], state.x, state.q, here.factors)


def four_bar():
    with pytest.warns(UserWarning, match="redundant"):
        return mbd.problems.four_bar(spatial=True).build()


SYSTEMS = {
    "sling": (Sling, (None, (2,), (1,))),
    "double pendulum in space": (lambda: mbd.problems.double_pendulum(spatial=True).build(), (None, ("rod1.e3", "rod2.y"))),
    "four-bar with redundant rows": (four_bar, (None,)),
}


@pytest.fixture(scope="module", params=SYSTEMS)
def case(request):
    make, choices = SYSTEMS[request.param]
    system, state = prepared(make())
    places = [find_coordinates(system, c, "independent") if c is not None else None for c in choices]
    return system, state, [chosen_first(system, state.memory, state.q, state.t, p) for p in places]


class TestReduction:
    def test_satisfies_every_level_and_the_equations_of_motion(self, case):
        system, state, partitions = case
        for partition in partitions:
            point, (position, velocity, acceleration, motion) = at(system, state, partition, state.t + 0.01)
            assert point.converged
            assert np.max(np.abs(position)) < 1e-11
            assert np.max(np.abs(velocity)) < 1e-9
            assert np.max(np.abs(acceleration)) < 1e-8 * (1 + np.max(np.abs(point.acceleration)))
            # Phi_q is that of positions before their last correction, of 1e-9 at most.
            assert np.max(np.abs(motion)) < 1e-9 * (1 + np.max(np.abs(point.multipliers)))

    def test_derivatives_are_exact(self, case):
        system, state, partitions = case
        for partition in partitions:
            ours, (by_y, by_rate, by_x, by_t) = both_derivatives(system, state, partition)
            scale = 1 + np.max(np.abs(by_rate))
            np.testing.assert_allclose(ours.by_position, by_y, rtol=1e-8, atol=1e-9 * scale)
            np.testing.assert_allclose(ours.by_rate, np.concatenate([by_rate, by_x], axis=1), rtol=1e-8, atol=1e-9 * scale)
            np.testing.assert_allclose(ours.by_time, by_t, rtol=1e-8, atol=1e-9 * scale)


@eqx.filter_jit
def there_and_back(system, state):
    """A state of local coordinates a little away from their origin, seen from outside, and what it leaves of the equations of motion."""
    local = LocalSystem(system, state.q)
    seen = local.enter(state)
    partition = first_partition(local, seen.memory, seen.q, seen.t, None)
    here, chosen = tangent(local, seen.memory, partition, seen.q, seen.t), partition.independent
    point = evaluate(local, seen.memory, partition, seen.t, seen.q[chosen] + 0.3, seen.v[chosen] + 0.1, seen.x, seen.q, here.factors)
    back = local.leave(point.to_state(state.memory, partition))
    pulled = constraint_force(system, back.q, back.t, back.multipliers)
    motion = mass_product(system, back.q, back.acceleration) + pulled - total_force(system, back.q, back.v, back.t, back.x)
    levels = (
        constraint(system, back.q, back.t),
        constraint_rate(system, back.q, back.v, back.t),
        constraint_acceleration(system, back.q, back.v, back.acceleration, back.t),
    )
    return (local, seen, partition), local.leave(seen), levels, motion


@pytest.fixture(scope="module")
def moved():
    system, state = prepared(mbd.problems.double_pendulum(spatial=True).build())
    return state, *there_and_back(system, state)


class TestLocalCoordinates:
    """Of rigid bodies in space: turns about their own axes in the place of Euler parameters."""

    def test_the_origin_is_the_state_itself(self, moved):
        state, _, same, _, _ = moved
        for field in ("q", "v", "acceleration", "multipliers"):
            np.testing.assert_allclose(getattr(same, field), getattr(state, field), rtol=1e-10, atol=1e-10)

    def test_equations_hold_away_from_it(self, moved):
        _, _, _, levels, motion = moved
        assert np.max(np.abs(levels[0])) < 1e-11
        assert np.max(np.abs(levels[1])) < 1e-9
        # Accelerations are of the size of 1e6, from a spring that is bent by 0.3 rad.
        assert np.max(np.abs(levels[2])) < 1e-3
        assert np.max(np.abs(motion)) < 1e-3

    def test_derivatives_are_exact(self, moved):
        ours, (by_y, by_rate, _, by_t) = both_derivatives(*moved[1])
        scale = 1 + np.max(np.abs(by_rate))
        np.testing.assert_allclose(ours.by_position, by_y, rtol=1e-8, atol=1e-9 * scale)
        np.testing.assert_allclose(ours.by_rate, by_rate, rtol=1e-8, atol=1e-9 * scale)
        np.testing.assert_allclose(ours.by_time, by_t, rtol=1e-8, atol=1e-9 * scale)


def test_the_start_is_not_moved():
    """At a consistent state, the reduction returns this state: accelerations and multipliers agree with the saddle-point equations."""
    system, state = prepared(Sling())
    partition = chosen_first(system, state.memory, state.q, state.t, None)
    point = unmoved(system, state, partition)
    for field in ("q", "v", "acceleration", "multipliers", "state_rate"):
        np.testing.assert_allclose(getattr(point, field), getattr(state, field), atol=1e-10)


def test_angles_are_preferred():
    system, state = prepared(mbd.problems.double_pendulum().build())
    partition = chosen_first(system, state.memory, state.q, state.t, None)
    assert [system.coordinate_names()[i] for i in np.asarray(partition.independent)] == ["rod1.angle", "rod2.angle"]
