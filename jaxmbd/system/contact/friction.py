"""Friction laws: what a contact resists sliding and spinning with, as a multiple of its normal force.

A law speaks of the slip velocity of one body over the other in the tangent plane: one component in the plane, three in space (a tangent
vector in the ground's axes, or in those of the second body for laws with memory). It does not know the shapes that touch, and the pairs of
`contact` do not know the law.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ..._numbers import Numbers
from ..frames import norm
from ..parameters import Order, Parameter, following, not_negative, positive, read_fields
from ..rotations import fused_dot
from .hertz import ContactEllipse

_FASTEST = 1e6
"""Beyond this many Stribeck velocities the coefficient is the kinetic one to rounding; powers of more might overflow."""
_COEFFICIENT = not_negative("1")._replace(
    doubtful=lambda mu: mu > 5.0,
    doubt="dry friction coefficients are about 1 or less, of soft rubber perhaps 4; it may have been given in percent",
)
_POSITIVE_COEFFICIENT = _COEFFICIENT._replace(valid=positive("1").valid, requirement=positive("1").requirement)
_STATIC = (Order("kinetic", "static", "exchange them", may_be_equal=True),)


class Sliding(eqx.Module):
    """What a friction law may know of its contact."""

    slip: Float[Numbers, "*stack k"]
    """m/s, of the first body over the second"""
    depth: Float[Numbers, "*stack"]
    """m, negative: a gap"""
    spin: Float[Numbers, "*stack"] = eqx.field(default_factory=lambda: jnp.zeros(()))
    """rad/s, of the first body against the second about the normal"""
    entrainment: Float[Numbers, "*stack k"] | None = None
    """m/s, mean velocity of the two surfaces relative to the moving spot: what draws lubricant into it"""
    normal_force: Float[Numbers, "*stack"] = eqx.field(default_factory=lambda: jnp.ones(()))
    """N"""
    spot: ContactEllipse | None = None
    """the size of the spot; None: the normal law does not know it"""

    @property
    def closed(self) -> Bool[Array, ""]:
        return self.depth > 0


class AbstractFriction(eqx.Module):
    """A friction law, with or without differential states."""

    parameters: eqx.AbstractClassVar[dict[str, Parameter]]
    memory: ClassVar[bool] = False
    """Whether the law has states, that turn with the second body."""
    needs_spot: ClassVar[bool] = False
    """Whether the normal law must know the size of the spot."""

    def initial_state(self, directions: int) -> Float[Array, "x"]:
        """The law's own differential states at the start, in a tangent space of so many directions."""
        return jnp.zeros(0)

    @abc.abstractmethod
    def coefficient(self, sliding: Sliding, x: Float[Array, "x"]) -> Float[Array, "k"]:
        """Friction force over normal force, along the slip velocity [m/s] that it opposes."""

    def spinning(self, sliding: Sliding, x: Float[Array, "x"]) -> Float[Array, ""]:
        """Torque about the normal over normal force [m], along the spin [rad/s] that it opposes; zero where the spot's size is unknown."""
        return jnp.zeros_like(sliding.depth)

    def rate(self, sliding: Sliding, x: Float[Array, "x"]) -> Float[Array, "x"]:
        """x'."""
        return jnp.zeros_like(x)

    def film(self, sliding: Sliding) -> Float[Array, ""] | None:
        """Thickness of the lubricant film in the middle of the spot [m]; None: the law knows of none."""
        return None

    def minimum_film(self, sliding: Sliding) -> Float[Array, ""] | None:
        """The smallest thickness of the film in the spot [m]."""
        return None


def spinning_coefficient(sliding: Sliding, coefficient: Array, regularisation: Array) -> Array:
    """Torque over normal force [m] of a spot that spins, regularised by the speed of its rim: mu arm w a / sqrt((w a)^2 + v_r^2).

    Written in a^2, which is linear in the depth: no square root has to be guarded.
    """
    if sliding.spot is None:
        return jnp.zeros_like(sliding.depth)
    arm, square = sliding.spot.spin_arm(sliding.depth)
    return coefficient * arm * square * sliding.spin / jnp.sqrt(square * sliding.spin**2 + regularisation**2)


class Coulomb(AbstractFriction):
    r"""Dry friction: kinetic while sliding, rising to static near rest (Stribeck), regularised where the slip velocity v changes its sign.

        mu = (mu_k + (mu_s - mu_k) exp(-|v / v_s|^2)) v / sqrt(|v|^2 + v_r^2) + sigma v

    A contact that should stick creeps instead: under the share s < 1 of the limiting load at v_r s / sqrt(1 - s^2). For sticking that lasts, use
    `LuGre`. The law is smooth; its slope at rest is mu_s / v_r. The largest coefficient stays below mu_s by about
    sqrt(2 mu_s (mu_s - mu_k)) v_r / v_s, so choose v_r well below v_s. Where the normal law knows the size of the spot
    (`HertzPoint`), spinning about the normal is resisted by 3/8 mu N a E(m), regularised alike with the speed of the spot's rim.

    Sliding and spinning do not know of each other: in a spot that does both (Contensou) the two together resist by more than they should,
    and a slow slip under fast spin most of all.
    """

    kinetic: Float[Numbers, "*stack"]
    """mu_k"""
    static: Float[Numbers, "*stack"] | None
    """mu_s, near rest; None: that of sliding, whatever it is set to"""
    stribeck_velocity: Float[Numbers, "*stack"]
    """v_s, m/s: how fast the coefficient falls from static to kinetic"""
    regularisation: Float[Numbers, "*stack"]
    """v_r, m/s: the slip at which friction has reached 71 % of its limit"""
    viscous: Float[Numbers, "*stack"]
    """sigma, s/m"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "kinetic": _COEFFICIENT,
        "static": following("kinetic", _COEFFICIENT),
        "stribeck_velocity": positive("m/s"),
        "regularisation": positive("m/s"),
        "viscous": not_negative("s/m"),
    }
    orders: ClassVar[tuple[Order, ...]] = _STATIC

    def __init__(self, kinetic: Any, static: Any = None, stribeck_velocity: Any = 1e-2, regularisation: Any = 1e-3, *, viscous: Any = 0.0):
        read_fields(
            self,
            "the Coulomb friction law",
            self.parameters,
            kinetic=kinetic,
            static=static,
            stribeck_velocity=stribeck_velocity,
            regularisation=regularisation,
            viscous=viscous,
        )

    def coefficient(self, sliding, x):
        square = fused_dot(sliding.slip, sliding.slip)
        return (self._limit(square) / jnp.sqrt(square + self.regularisation**2) + self.viscous) * sliding.slip

    def spinning(self, sliding, x):
        return spinning_coefficient(sliding, self._limit(fused_dot(sliding.slip, sliding.slip)), self.regularisation)

    def _limit(self, square: Array) -> Array:
        if self.static is None:
            return self.kinetic
        return self.kinetic + (self.static - self.kinetic) * jnp.exp(-square / self.stribeck_velocity**2)


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

    In space z is a vector of three components that turns with the contact's second body; only its part in the tangent plane acts. Spinning about
    the normal has no bristles: it is resisted as by `Coulomb`, regularised at the Stribeck velocity.

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

    bristle_stiffness: Float[Numbers, "*stack"]
    """sigma_0, 1/m"""
    static: Float[Numbers, "*stack"]
    """mu_s, coefficient at the onset of sliding"""
    kinetic: Float[Numbers, "*stack"] | None
    """mu_k, coefficient of fast sliding; None: the static one, whatever it is set to"""
    stribeck_velocity: Float[Numbers, "*stack"]
    """v_s, m/s: how fast the coefficient falls from static to kinetic"""
    exponent: Float[Numbers, "*stack"]
    """gamma"""
    bristle_damping: Float[Numbers, "*stack"]
    """sigma_1, s/m"""
    viscous: Float[Numbers, "*stack"]
    """sigma_2, s/m"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "bristle_stiffness": positive("1/m"),
        "static": _POSITIVE_COEFFICIENT,
        "kinetic": following("static", _POSITIVE_COEFFICIENT),
        "stribeck_velocity": positive("m/s"),
        "exponent": positive("1"),
        "bristle_damping": not_negative("s/m"),
        "viscous": not_negative("s/m"),
    }
    orders: ClassVar[tuple[Order, ...]] = _STATIC
    memory: ClassVar[bool] = True

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
        read_fields(
            self,
            "the LuGre friction law",
            self.parameters,
            bristle_stiffness=bristle_stiffness,
            static=static,
            kinetic=kinetic,
            stribeck_velocity=stribeck_velocity,
            exponent=exponent,
            bristle_damping=bristle_damping,
            viscous=viscous,
        )

    def initial_state(self, directions):
        return jnp.zeros(directions)

    def coefficient(self, sliding, x):
        # A contact that carries a normal force is closed.
        slip = sliding.slip
        return self.bristle_stiffness * x + self.bristle_damping * self._sliding(slip, x) + self.viscous * slip

    def spinning(self, sliding, x):
        return spinning_coefficient(sliding, self._limit(sliding.slip), self.stribeck_velocity)

    def rate(self, sliding, x):
        slip = sliding.slip
        fading = -self.bristle_stiffness * (norm(slip) + self.stribeck_velocity) / self._limit(slip) * x
        return jnp.where(sliding.closed, self._sliding(slip, x), fading)

    def _sliding(self, slip: Array, z: Array) -> Array:
        return slip - self.bristle_stiffness * norm(slip) / self._limit(slip) * z

    def _limit(self, slip: Array) -> Array:
        """g(v); its derivative at v = 0 is zero whatever the exponent."""
        if self.kinetic is None:
            return self.static
        speed = jnp.minimum(norm(slip) / self.stribeck_velocity, _FASTEST)
        resting = speed <= 0
        power = jnp.where(resting, 0.0, jnp.where(resting, 1.0, speed) ** self.exponent)
        return self.kinetic + (self.static - self.kinetic) * jnp.exp(-power)
