"""The small test problems of Modin, Fritzson and Führer (2007): a soft force of family A, a stiff one of family B that acts as a constraint."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Float

from .._numbers import Numbers
from ..system.equations import AbstractSystem
from ..system.parameters import Parameter, not_negative, positive, read_all, scalar


class Oscillators(AbstractSystem):
    """Two unit masses on a line: a soft spring holds the first (A), a stiff spring and damper ties the second to it (B). Section 6.1.

        q'' = -k_A (q_1, 0) - (k_B + c_B d/dt) (q_1 - q_2, q_2 - q_1)

    The text's frequencies do not follow from its matrices: the soft mode of these numbers has 0.1125 Hz, the stiff one is overdamped. Steps
    of 1 s resolve the former only.
    """

    q0: Float[Numbers, "*stack 2"]
    """m"""
    v0: Float[Numbers, "*stack 2"]
    """m/s"""
    soft_stiffness: Float[Numbers, "*stack"]
    """k_A, N/m"""
    stiffness: Float[Numbers, "*stack"]
    """k_B, N/m"""
    damping: Float[Numbers, "*stack"]
    """c_B, N s/m"""

    def __init__(self, soft_stiffness: Any = 1.0, stiffness: Any = 1e3, damping: Any = 1e2):
        _read(
            self,
            {"soft_stiffness": not_negative("N/m"), "stiffness": not_negative("N/m"), "damping": not_negative("N s/m")},
            soft_stiffness=soft_stiffness,
            stiffness=stiffness,
            damping=damping,
        )
        self.q0, self.v0 = jnp.array([1.0, 1.1]), jnp.zeros(2)

    def mass(self, q):
        return jnp.eye(2)

    def solve_mass(self, q, force):
        return force

    def force(self, q, v, t):
        return jnp.stack([-self.soft_stiffness * q[0], jnp.zeros_like(q[0])])

    def stiff_force(self, q, v, t):
        pull = self.stiffness * (q[0] - q[1]) + self.damping * (v[0] - v[1])
        return jnp.stack([-pull, pull])

    def potential_energy(self, q, t):
        return 0.5 * (self.soft_stiffness * q[0] ** 2 + self.stiffness * (q[0] - q[1]) ** 2)


class PenaltyPendulum(AbstractSystem):
    """A unit mass in the plane under gravity (A), held on the unit circle by a stiff radial force (B). Section 6.2.

    q'' = (0, -g) - k (|q|^2 - 1) q
    """

    q0: Float[Numbers, "*stack 2"]
    """m"""
    v0: Float[Numbers, "*stack 2"]
    """m/s"""
    gravity: Float[Numbers, "*stack"]
    """g, m/s^2"""
    stiffness: Float[Numbers, "*stack"]
    """k, N/m^3"""

    def __init__(self, gravity: Any = 1.0, stiffness: Any = 1e4):
        _read(self, {"gravity": scalar("m/s^2"), "stiffness": positive("N/m^3")}, gravity=gravity, stiffness=stiffness)
        self.q0, self.v0 = jnp.array([1.01, 0.0]), jnp.zeros(2)

    def mass(self, q):
        return jnp.eye(2)

    def solve_mass(self, q, force):
        return force

    def force(self, q, v, t):
        return jnp.stack([0.0 * self.gravity, -self.gravity])

    def stiff_force(self, q, v, t):
        return -self.stiffness * (q @ q - 1.0) * q

    def potential_energy(self, q, t):
        return self.gravity * q[1] + 0.25 * self.stiffness * (q @ q - 1.0) ** 2


class SplitOscillator(AbstractSystem):
    """The test equation (11) of section 4, with a part of each family: q'' = -k q - c q' (A) - k_B q - c_B q' (B)."""

    stiffness: Float[Numbers, "*stack"]
    """k, 1/s^2"""
    damping: Float[Numbers, "*stack"]
    """c, 1/s"""
    stiff_stiffness: Float[Numbers, "*stack"]
    """k_B, 1/s^2"""
    stiff_damping: Float[Numbers, "*stack"]
    """c_B, 1/s"""
    q0: Float[Numbers, "*stack 1"] = eqx.field(default_factory=lambda: jnp.ones(1))
    v0: Float[Numbers, "*stack 1"] = eqx.field(default_factory=lambda: jnp.zeros(1))

    def mass(self, q):
        return jnp.eye(1)

    def solve_mass(self, q, force):
        return force

    def force(self, q, v, t):
        return -self.stiffness * q - self.damping * v

    def stiff_force(self, q, v, t):
        return -self.stiff_stiffness * q - self.stiff_damping * v


class NonlinearSplit(AbstractSystem):
    """One coordinate on which both families depend nonlinearly, on time too: what orders are measured with.

    q'' = -2 q^3 - drag q'^2 + sin 2t (A) - 4 sin q - q' / 2 + cos(3t) / 5 (B)
    """

    drag: Float[Numbers, "*stack"] = eqx.field(default=0.3, converter=jnp.asarray)
    """1/m; zero: A does not depend on the velocity"""
    q0: Float[Numbers, "*stack 1"] = eqx.field(default_factory=lambda: jnp.array([0.7]))
    v0: Float[Numbers, "*stack 1"] = eqx.field(default_factory=lambda: jnp.array([-0.4]))

    def mass(self, q):
        return jnp.eye(1)

    def force(self, q, v, t):
        return -2.0 * q**3 - self.drag * v**2 + jnp.sin(2.0 * t)

    def stiff_force(self, q, v, t):
        return -4.0 * jnp.sin(q) - 0.5 * v + 0.2 * jnp.cos(3.0 * t)


def oscillators(stiffness: float = 1e3, damping: float = 1e2) -> Oscillators:
    """Two masses that a stiff spring of family B ties together, on a soft spring of family A: `Oscillators`."""
    return Oscillators(stiffness=stiffness, damping=damping)


def penalty_pendulum(stiffness: float = 1e4) -> PenaltyPendulum:
    """A mass that a stiff force of family B holds on a circle: `PenaltyPendulum`."""
    return PenaltyPendulum(stiffness=stiffness)


def _read(system: AbstractSystem, specs: dict[str, Parameter], **values: Any) -> None:
    for field, value in read_all(type(system).__name__, specs, **values).items():
        setattr(system, field, jnp.asarray(value))
