"""Friction laws: what a contact resists sliding with, as a multiple of its normal force.

A law speaks of the slip velocity of one body over the other in the tangent plane: one component in the plane, two in space. It does not know the
shapes that touch, and the pairs of `contact` do not know the law.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .frames import norm
from .parameters import Parameter, is_traced, not_negative, positive, read_all

_FASTEST = 1e6
"""Beyond this many Stribeck velocities the coefficient is the kinetic one to rounding; powers of more might overflow."""


class AbstractFriction(eqx.Module):
    """A friction law, with or without differential states."""

    parameters: eqx.AbstractClassVar[dict[str, Parameter]]

    def initial_state(self, directions: int) -> Float[Array, "x"]:
        """The law's own differential states at the start, in a tangent space of so many directions."""
        return jnp.zeros(0)

    def coefficient(self, slip: Float[Array, "k"], x: Float[Array, "x"]) -> Float[Array, "k"]:
        """Friction force over normal force, along the slip velocity [m/s] that it opposes."""
        raise NotImplementedError

    def rate(self, slip: Float[Array, "k"], x: Float[Array, "x"], closed: Bool[Array, ""]) -> Float[Array, "x"]:
        """x', of a contact that is closed or open."""
        return jnp.zeros_like(x)


class LuGre(AbstractFriction):
    r"""The LuGre law: the bodies hold on to each other by bristles of mean deflection z [m], one state a tangent direction.

    With the slip velocity v, in the form of Bottasso, Bauchau and Cardona (2007), section 5,

        mu = sigma_0 z + sigma_1 z' + sigma_2 v        z' = v - sigma_0 |v| z / g(v)
        g(v) = mu_k + (mu_s - mu_k) exp(-|v / v_s|^gamma)

    and the friction force is -mu times the normal force. Below the limit the contact sticks and yields like a spring of stiffness
    sigma_0 times the normal force; in steady sliding z = g / sigma_0 and mu = g(v) + sigma_2 v. |z| never exceeds mu_s / sigma_0 if it starts
    below: without sigma_1 and sigma_2 friction never exceeds mu_s times the normal force.

    In an open contact nothing deflects the bristles, and what is left fades at the pace at which sliding would wipe it out, or creep at
    the Stribeck velocity at least: z' = -sigma_0 (|v| + v_s) z / g. A body that lands again begins with no memory of its last contact once it
    was off for a few g / (sigma_0 v_s) seconds. The friction force is continuous at touch-down, where the normal force is zero; z is too.

    z is of the size mu_s / sigma_0, micrometres for hard bodies: an integrator that is to control its relative error needs a `state_scale` of
    that size.

    ```bibtex
    @article{canudasdewit1995lugre,
      title={A new model for control of systems with friction},
      author={Canudas de Wit, C. and Olsson, H. and {\AA}str{\"o}m, K. J. and Lischinsky, P.},
      journal={IEEE Transactions on Automatic Control},
      volume={40},
      number={3},
      pages={419--425},
      year={1995}
    }
    ```
    """

    bristle_stiffness: Float[Array, ""]
    """sigma_0, 1/m"""
    static: Float[Array, ""]
    """mu_s, coefficient at the onset of sliding"""
    kinetic: Float[Array, ""]
    """mu_k, coefficient of fast sliding"""
    stribeck_velocity: Float[Array, ""]
    """v_s, m/s: how fast the coefficient falls from static to kinetic"""
    exponent: Float[Array, ""]
    """gamma"""
    bristle_damping: Float[Array, ""]
    """sigma_1, s/m"""
    viscous: Float[Array, ""]
    """sigma_2, s/m"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "bristle_stiffness": positive("1/m"),
        "static": positive("1"),
        "kinetic": positive("1"),
        "stribeck_velocity": positive("m/s"),
        "exponent": positive("1"),
        "bristle_damping": not_negative("s/m"),
        "viscous": not_negative("s/m"),
    }

    def __init__(
        self,
        bristle_stiffness: Any,
        static: Any,
        kinetic: Any = None,
        stribeck_velocity: Any = 1e-3,
        exponent: Any = 2.0,
        *,
        bristle_damping: Any = 0.0,
        viscous: Any = 0.0,
    ):
        values = read_all(
            "the LuGre friction law",
            self.parameters,
            bristle_stiffness=bristle_stiffness,
            static=static,
            kinetic=static if kinetic is None else kinetic,
            stribeck_velocity=stribeck_velocity,
            exponent=exponent,
            bristle_damping=bristle_damping,
            viscous=viscous,
        )
        for field, value in values.items():
            setattr(self, field, value)
        if not is_traced(self.static, self.kinetic) and self.static < self.kinetic:
            raise ValueError(
                f"the LuGre friction law: static = {float(self.static):.6g} must not be smaller than kinetic = {float(self.kinetic):.6g}; "
                "exchange them."
            )

    def initial_state(self, directions):
        return jnp.zeros(directions)

    def coefficient(self, slip, x):
        # A contact that carries a normal force is closed.
        return self.bristle_stiffness * x + self.bristle_damping * self._sliding(slip, x) + self.viscous * slip

    def rate(self, slip, x, closed):
        fading = -self.bristle_stiffness * (norm(slip) + self.stribeck_velocity) / self._limit(slip) * x
        return jnp.where(closed, self._sliding(slip, x), fading)

    def _sliding(self, slip: Array, z: Array) -> Array:
        return slip - self.bristle_stiffness * norm(slip) / self._limit(slip) * z

    def _limit(self, slip: Array) -> Array:
        """g(v); its derivative at v = 0 is zero whatever the exponent."""
        speed = jnp.minimum(norm(slip) / self.stribeck_velocity, _FASTEST)
        resting = speed <= 0
        power = jnp.where(resting, 0.0, jnp.where(resting, 1.0, speed) ** self.exponent)
        return self.kinetic + (self.static - self.kinetic) * jnp.exp(-power)
