"""Systems with known solutions, and the integrators that must solve them: a new integrator is tested by being listed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.integrate import solve_ivp

import jaxmbd as mbd

GRAVITY = 9.81


class CartesianPendulum(mbd.AbstractSystem):
    """A unit mass on a massless rod in x and y: the smallest index-3 problem."""

    q0: Array
    v0: Array
    gravity: Array
    length: Array

    def __init__(self, gravity=GRAVITY, length=1.0):
        self.gravity, self.length = jnp.asarray(gravity, float), jnp.asarray(length, float)
        self.q0 = jnp.stack([self.length, 0.0 * self.length])
        self.v0 = jnp.zeros(2)

    def mass(self, q):
        return jnp.eye(2)

    def force(self, q, v, t):
        return jnp.stack([0.0 * self.gravity, -self.gravity])

    def constraint(self, q, t):
        return 0.5 * (q @ q - self.length**2)[None]

    def potential_energy(self, q, t):
        return self.gravity * q[1]


def cartesian_pendulum_reference(ts):
    """(q, v, lambda) of the unit pendulum, from its angle: a rod released from the horizontal."""
    run = solve_ivp(
        lambda t, s: [s[1], -GRAVITY * np.cos(s[0])],
        (0.0, float(np.max(ts))),
        [0.0, 0.0],
        method="DOP853",
        rtol=1e-13,
        atol=1e-13,
        dense_output=True,
    )
    angle, rate = run.sol(np.asarray(ts))
    q = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    v = rate[:, None] * np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    # Along the rod: -rate^2 + lambda = -g sin(angle), with Phi_q = q.
    return q, v, (rate**2 - GRAVITY * np.sin(angle))[:, None]


class Oscillator(mbd.AbstractSystem):
    """A mass on a linear spring, no constraints."""

    q0: Array
    v0: Array
    stiffness: Array

    def __init__(self, stiffness=40.0):
        self.stiffness = jnp.asarray(stiffness, float)
        self.q0, self.v0 = jnp.ones(1), jnp.zeros(1)

    def mass(self, q):
        return 2.0 * jnp.eye(1)

    def force(self, q, v, t):
        return -self.stiffness * q

    def potential_energy(self, q, t):
        return 0.5 * self.stiffness * q @ q


class DrivenFilter(mbd.AbstractSystem):
    """A mass pulled by the output x of a first-order filter of its own position: differential states that act back.

    q'' = -x - q, x' = (q - x) / tau: linear, so that the exact solution is a matrix exponential.
    """

    q0: Array
    v0: Array
    x0: Array
    time_constant: Array

    def __init__(self, time_constant=0.5):
        self.q0, self.v0, self.x0 = jnp.ones(1), jnp.zeros(1), jnp.array([0.3])
        self.time_constant = jnp.asarray(time_constant, float)

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t, x):
        return -x - q

    def state_rate(self, x, q, v, t):
        return (q - x) / self.time_constant

    def exact(self, ts):
        from scipy.linalg import expm

        tau = float(self.time_constant)
        matrix = np.array([[0, 1, 0], [-1, 0, -1], [1 / tau, 0, -1 / tau]])
        return np.stack([expm(matrix * t) @ np.array([1.0, 0.0, 0.3]) for t in ts])


class Sling(mbd.AbstractSystem):
    """A mass at the end of an arm whose length is a function of time, with a filter of its position that acts back.

    q = (x, y, angle): constrained, driven by time, a mass matrix that depends on q, differential states. All that a method may trip over.
    """

    q0: Array
    v0: Array
    x0: Array
    length: Array
    gravity: Array

    def __init__(self, length=1.0, gravity=GRAVITY):
        self.length, self.gravity = jnp.asarray(length, float), jnp.asarray(gravity, float)
        self.q0 = jnp.stack([self.length, 0.0 * self.length, 0.0 * self.length])
        self.v0, self.x0 = jnp.zeros(3), jnp.array([0.3])

    def coordinate_lengths(self):
        return True, True, False

    def mass(self, q):
        return jnp.diag(jnp.array([1.0, 1.0, 0.1])) * (1.0 + 0.2 * q[0] ** 2)

    def force(self, q, v, t, x):
        return jnp.stack([0.3 * jnp.sin(3.0 * t) + 0.2 * x[0], x[0] - self.gravity, -0.2 * v[2]])

    def state_rate(self, x, q, v, t):
        return (q[:1] - x) / 0.5 + 0.1 * jnp.cos(t)

    def constraint(self, q, t):
        arm = self.length * (1.0 + 0.2 * jnp.sin(2.0 * t))
        return jnp.stack([q[0] - arm * jnp.cos(q[2]), q[1] - arm * jnp.sin(q[2])])


def sling_reference(ts):
    """(q, v, x, lambda) of the sling with its default numbers, from its angle a: (x, y) = L(t) (cos a, sin a), projected by hand."""

    def parts(t, s):
        a, w, x = s
        radial, across = np.array([np.cos(a), np.sin(a), 0.0]), np.array([-np.sin(a), np.cos(a), 0.0])
        arm, speed, change = 1.0 + 0.2 * np.sin(2.0 * t), 0.4 * np.cos(2.0 * t), -0.8 * np.sin(2.0 * t)
        along = arm * across + np.array([0.0, 0.0, 1.0])  # dq / da
        q, v = arm * radial + np.array([0.0, 0.0, a]), speed * radial + w * along
        mass = np.array([1.0, 1.0, 0.1]) * (1.0 + 0.2 * q[0] ** 2)
        force = np.array([0.3 * np.sin(3.0 * t) + 0.2 * x, x - GRAVITY, -0.2 * w])
        rest = (change - arm * w**2) * radial + 2.0 * speed * w * across  # of the acceleration, without a''
        turning = along @ (force - mass * rest) / (along @ (mass * along))
        left = force - mass * (rest + turning * along)
        return q, v, [x], left[:2], [w, turning, (q[0] - x) / 0.5 + 0.1 * np.cos(t)]

    run = solve_ivp(
        lambda t, s: parts(t, s)[-1], (0.0, float(np.max(ts))), [0.0, 0.0, 0.3], method="DOP853", t_eval=ts, rtol=1e-13, atol=1e-13
    )
    rows = [parts(t, s)[:-1] for t, s in zip(run.t, run.y.T, strict=True)]
    return [np.stack(column) for column in zip(*rows, strict=True)]


class Towed(mbd.AbstractSystem):
    """Two masses on a line, without constraints: soft springs, drag and a drive by time in family A, a stiff spring between them in B, and a
    filter of each position, one of which acts back."""

    q0: Array
    v0: Array
    x0: Array
    stiffness: Array
    drag: Array

    def __init__(self, stiffness=1.0, drag=1.0):
        self.stiffness, self.drag = jnp.asarray(stiffness, float), jnp.asarray(drag, float)
        self.q0, self.v0, self.x0 = jnp.array([1.0, 0.5]), jnp.array([0.0, 1.0]), jnp.array([0.3, 0.1])

    def mass(self, q):
        return 2.0 * jnp.eye(2)

    def force(self, q, v, t, x):
        return -5.0 * jnp.sin(q) - self.drag * v**3 + jnp.stack([0.5 * jnp.sin(3.0 * t), -x[0]])

    def stiff_force(self, q, v, t, x):
        pull = 40.0 * self.stiffness * jnp.sinh(q[0] - q[1])
        return jnp.stack([-pull, pull])

    def state_rate(self, x, q, v, t):
        return (q - x) / jnp.array([0.5, 0.2]) + 0.1 * jnp.cos(t)


def towed_reference(ts):
    """(q, v, x, lambda) with the default numbers; there are no multipliers."""

    def rate(t, s):
        q, v, x = s[:2], s[2:4], s[4:]
        pull = 40.0 * np.sinh(q[0] - q[1])
        force = -5.0 * np.sin(q) - v**3 + [0.5 * np.sin(3.0 * t) - pull, -x[0] + pull]
        return [*v, *(force / 2.0), *((q - x) / [0.5, 0.2] + 0.1 * np.cos(t))]

    run = solve_ivp(rate, (0.0, float(np.max(ts))), [1.0, 0.5, 0.0, 1.0, 0.3, 0.1], method="DOP853", t_eval=ts, rtol=1e-13, atol=1e-13)
    return run.y[:2].T, run.y[2:4].T, run.y[4:].T, np.zeros((len(ts), 0))


class Problem(NamedTuple):
    """A system of two numbers about 1, and its motion at (1, 1)."""

    system: Callable[[Array], mbd.AbstractSystem]
    reference: Callable[[list[float]], Sequence[np.ndarray]]
    """(q, v, x, lambda) at times"""


CONSTRAINED = Problem(lambda p: Sling(p[0], GRAVITY * p[1]), sling_reference)
FREE = Problem(lambda p: Towed(p[0], p[1]), towed_reference)


class Listed(NamedTuple):
    """An integrator, and what is claimed of it."""

    method: mbd.AbstractIntegrator
    """as it is by default"""
    order: int
    """of q, v, x and lambda at steps of one size"""
    more: float = 0.0
    """by how much it may be more: where the term of that order is small, and finer steps end in rounding"""
    counts: tuple[int, int] = (32, 64)
    """numbers of steps in half a second that show it; the second is twice the first"""
    at_fixed_steps: mbd.AbstractIntegrator | None = None
    """whose order that is, if it is not the default"""
    problem: Problem = CONSTRAINED
    """the hardest that it is made for"""
    kin: str = ""
    """another that does the same but for some coefficients: derivatives and replays wait for `-m slow`"""
    at_tolerance: Callable[[float], mbd.AbstractIntegrator] | None = None
    """whose error follows the tolerance on constrained motions"""


EVERY_INTEGRATOR = {
    listed.method.name: listed
    for listed in (
        Listed(mbd.HHT(), 2, at_tolerance=mbd.HHT),
        Listed(mbd.Newmark(), 1, counts=(64, 128), problem=FREE, kin="hht"),
        Listed(mbd.Trapezoidal(), 2, problem=FREE, kin="hht"),
        Listed(mbd.BDF(), 3, counts=(64, 128), at_fixed_steps=mbd.BDF(order=3), at_tolerance=mbd.BDF),
        Listed(mbd.RosenbrockNystrom(), 4, at_tolerance=lambda tolerance: mbd.RosenbrockNystrom(tolerance, tolerance)),
        Listed(mbd.Rodas4(), 4, kin="rosenbrock-nystrom"),
        Listed(mbd.WMethod(), 2, kin="rosenbrock-nystrom"),
        Listed(mbd.DormandPrince(), 5, 1.5, counts=(4, 8), at_tolerance=lambda tolerance: mbd.DormandPrince(tolerance, tolerance)),
        Listed(mbd.AdamsPECE(), 2, kin="dormand-prince"),
        Listed(mbd.SemiExplicit(), 1, counts=(64, 128), problem=FREE),
        Listed(mbd.Verlet(), 2, problem=FREE),
        Listed(mbd.ExplicitNystrom(), 1, counts=(64, 128), problem=FREE, kin="verlet"),
        Listed(mbd.Theta(), 2, problem=FREE),
    )
}
"""Each once. `test_every_integrator.py`, `test_export.py` and `test_convergence.py` test all that stand here."""
