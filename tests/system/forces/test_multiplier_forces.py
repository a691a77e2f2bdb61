"""Equations of one's own whose forces depend on multipliers: runs, derivatives, batches, rest, small motions."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import jaxmbd as mbd

SPEED, FRICTION = 2.0, 0.4


class Bead(mbd.AbstractSystem):
    """A unit mass on a ring of radius 1 m, without gravity: the ring presses with N = speed^2 and brakes with mu N.

    Its speed is u / (1 + mu u t), and it has gone ln(1 + mu u t) / mu.
    """

    q0: Array
    v0: Array
    friction: Array
    force_uses_multipliers: ClassVar[bool] = True

    def __init__(self, friction=FRICTION):
        self.q0, self.v0, self.friction = jnp.array([1.0, 0.0]), jnp.array([0.0, SPEED]), jnp.asarray(friction, float)

    def mass(self, q):
        return jnp.eye(2)

    def force(self, q, v, t, multipliers):
        load = jnp.abs(multipliers[0]) * jnp.sqrt(q @ q)
        return -self.friction * load * v / jnp.sqrt(v @ v + 1e-12)

    def constraint(self, q, t):
        return 0.5 * (q @ q - 1.0)[None]

    def potential_energy(self, q, t):
        return jnp.zeros(())


METHODS = {"hht": mbd.HHT(1e-7), "bdf": mbd.BDF(1e-7, velocity_error=True)}


@pytest.mark.parametrize("method", list(METHODS))
def test_a_bead_brakes_as_in_closed_form(method):
    run = mbd.simulate(Bead(), 2.0, integrator=METHODS[method])
    slower = 1.0 + FRICTION * SPEED * np.asarray(run.ts)
    angle = np.log(slower) / FRICTION
    np.testing.assert_allclose(run.q, np.stack([np.cos(angle), np.sin(angle)], 1), atol=1e-4)
    np.testing.assert_allclose(run.multipliers[0], SPEED**2, rtol=1e-9)  # found at the start, by Newton's method
    np.testing.assert_allclose(run.multipliers[-1], (SPEED / slower[-1]) ** 2, rtol=1e-3)
    lost = run.work()["forces"].supplied
    np.testing.assert_allclose(lost, 0.5 * (SPEED / slower) ** 2 - 0.5 * SPEED**2, atol=1e-4)
    np.testing.assert_allclose(run.observe("energy.error"), 0.0, atol=1e-4)


def gone(friction):
    """Where the bead is after 16 prescribed steps. The start is differentiated too: its multipliers are those of an iteration."""
    run = mbd.simulate(Bead(friction), 0.4, integrator=mbd.HHT(), step=0.025)
    return run.q[-1, 1] + 0.1 * run.multipliers[-1, 0]


def test_derivatives_and_batches():
    everything = jax.jit(jax.vmap(lambda mu: jax.jvp(jax.value_and_grad(gone), (mu,), (1.0,))))
    alone, several, width = jax.jit(gone), np.array([FRICTION, 0.7]), 1e-3
    (batch, slopes), (forward, curvatures) = everything(several)
    values = np.array([[alone(mu + shift) for shift in (-width, 0.0, width)] for mu in several])
    np.testing.assert_allclose(slopes, (values[:, 2] - values[:, 0]) / (2 * width), rtol=1e-6)
    np.testing.assert_allclose(curvatures, (values[:, 2] - 2 * values[:, 1] + values[:, 0]) / width**2, rtol=1e-5)
    np.testing.assert_allclose(batch, values[:, 1], rtol=1e-12)
    np.testing.assert_allclose(forward, slopes, rtol=1e-9)


class Creeping(mbd.AbstractSystem):
    """A mass m on a curve y = b x^2 / 2 that a spring k pulls back and the curve's pressure drives along x by c lambda.

    With y eliminated, (1 + b x (b x + c)) m x'' = -k x - (b x + c) m (g + b x'^2).
    """

    q0: Array
    v0: Array
    drive: Array
    force_uses_multipliers: ClassVar[bool] = True
    mass_, stiffness, bend, gravity = 2.0, 30.0, 0.8, 9.81

    def __init__(self, drive=0.5):
        self.q0, self.v0, self.drive = jnp.array([0.1, 0.004]), jnp.zeros(2), jnp.asarray(drive, float)

    def mass(self, q):
        return self.mass_ * jnp.eye(2)

    def force(self, q, v, t, multipliers):
        return jnp.stack([-self.stiffness * q[0] + self.drive * multipliers[0], jnp.asarray(-self.mass_ * self.gravity)])

    def constraint(self, q, t):
        return (q[1] - 0.5 * self.bend * q[0] ** 2)[None]


def test_rest_and_small_motions():
    m, k, b, g, c = Creeping.mass_, Creeping.stiffness, Creeping.bend, Creeping.gravity, 0.5
    x = -c * m * g / (k + b * m * g)
    state = mbd.equilibrium(Creeping(c))
    np.testing.assert_allclose(state.q, [x, 0.5 * b * x**2], rtol=1e-9)
    np.testing.assert_allclose(state.multipliers, [-m * g], rtol=1e-9)
    slope = jax.jacfwd(lambda c: mbd.equilibrium(Creeping(c), throw=False).q[0])(c)
    np.testing.assert_allclose(slope, x / c, rtol=1e-9)
    frequency = np.sqrt((k + b * m * g) / (m * (1.0 + b * x * (b * x + c))))
    values = np.linalg.eigvals(mbd.linearize(Creeping(c), state).matrix)
    np.testing.assert_allclose(np.sort(values.imag), [-frequency, frequency], rtol=1e-9)
    np.testing.assert_allclose(values.real, 0.0, atol=1e-9)


class Jammed(Creeping):
    """A floor whose pressure pulls the mass away from it by more than itself: no reaction balances that."""

    def force(self, q, v, t, multipliers):
        return jnp.stack([jnp.zeros(()), self.drive + 2.0 * jnp.abs(multipliers[0])])


def test_a_start_without_reactions_is_named():
    with pytest.raises(mbd.SimulationError, match=r"friction jams there.*force\(q, v, t, multipliers\) of Jammed"):
        mbd.simulate(Jammed(), 1.0)


def test_a_force_says_that_it_wants_multipliers():
    class Silent(Bead):
        force_uses_multipliers: ClassVar[bool] = False

    with pytest.raises(ValueError, match="force of Silent has an argument `multipliers`: write force_uses_multipliers = True"):
        mbd.simulate(Silent(), 1.0)
    with pytest.raises(ValueError, match=r"RosenbrockNystrom .*force\(q, v, t, multipliers\) of Bead"):
        mbd.simulate(Bead(), 1.0, integrator=mbd.RosenbrockNystrom())
