"""Normal laws of contact: a force by depth and rate.

Every law is a small class that knows nothing of shapes or friction. A law that was made from curvatures and materials (`HertzPoint`) also
remembers the spot's size, which spinning friction and lubrication ask for.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..parameters import Parameter, not_negative, positive, read_fields
from .hertz import ContactEllipse, HertzPoint


class AbstractContactLaw(eqx.Module):
    """A normal force by depth and rate. It never pulls unless it says so, and is zero and has finite derivatives where the depth is zero."""

    parameters: eqx.AbstractClassVar[dict[str, Parameter]]

    @property
    def pulls(self) -> bool:
        """Whether the force may be negative. Friction then takes a pull for no load."""
        return False

    @property
    def spot(self) -> ContactEllipse | None:
        """The size of the spot, if the law knows it."""
        return None

    @abc.abstractmethod
    def force(self, depth: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
        """N, for a depth of overlap [m] (negative: a gap) and its rate [m/s]."""

    @abc.abstractmethod
    def energy(self, depth: Float[Array, ""]) -> Float[Array, ""]:
        """The elastic energy [J] that is stored at a depth."""

    def switches(self, depth: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, "n"]:
        """Functions that change their sign where the force has a kink, or begins: `control.AtContacts` ends steps there."""
        return depth[None]


class LinearContact(AbstractContactLaw):
    r"""A spring and a dashpot that act while bodies overlap: force = k d + c d' for a depth d > 0.

    The part c d' is kept within -k d and k d. From below, that is the absence of adhesion, force >= 0. From above it is the mirror
    image: the force begins at zero instead of jumping to c d' at touch-down, and is continuous in depth and rate. A step across a jump would
    leave Newton's method between two branches, and its derivative would miss the jump. No length has to be chosen for it, as
    the ramp of other programs asks for.

    For an impact of reduced mass m let zeta = c / (2 sqrt(k m)). Without damping it lasts pi sqrt(m / k) and its peak force is v sqrt(k m).
    With little damping the coefficient of restitution is 1 - pi zeta + O(zeta^2); the bound from above raises it by about 2 zeta^2 against the
    closed form of the law without it (Schwager and Pöschel 2007).

    With `adhesive=True` the dashpot is not bounded: force = k d + c d' as long as d > 0, also where that is negative. Bodies that part are held
    back until the depth is zero, an impact lasts half a period of the damped oscillation and the restitution is exactly
    exp(-pi zeta / sqrt(1 - zeta^2)). The price is a force that jumps by c d' at touch-down and at lift-off: a method with error control
    takes tiny steps there, Newton's method may need several attempts, and the derivative of a run does not know of the jump. Friction acts
    while the force pushes only.

    ```bibtex
    @article{schwager2007restitution,
      title={Coefficient of restitution and linear--dashpot model revisited},
      author={Schwager, Thomas and P{\"o}schel, Thorsten},
      journal={Granular Matter},
      volume={9},
      pages={465--469},
      year={2007}
    }
    ```
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m"""
    damping: Float[Numbers, "*stack"]
    """c, N s/m"""
    adhesive: bool = eqx.field(static=True)
    """Whether the dashpot may pull, and jump at touch-down."""
    parameters: ClassVar[dict[str, Parameter]] = {"stiffness": positive("N/m"), "damping": not_negative("N s/m")}

    def __init__(self, stiffness: Any, damping: Any = 0.0, *, adhesive: bool = False):
        read_fields(self, "the LinearContact law", self.parameters, stiffness=stiffness, damping=damping)
        self.adhesive = bool(adhesive)

    @property
    def pulls(self):
        return self.adhesive

    def force(self, depth, rate):
        elastic = self.stiffness * _overlap(depth)
        if self.adhesive:
            return elastic + jnp.where(depth > 0, self.damping * rate, 0.0)
        return elastic + jnp.clip(self.damping * rate, -elastic, elastic)

    def energy(self, depth):
        return 0.5 * self.stiffness * _overlap(depth) ** 2

    def switches(self, depth, rate):
        if self.adhesive:
            return depth[None]
        return jnp.stack([depth, self.stiffness * _overlap(depth) - jnp.abs(self.damping * rate)])


class Hertz(AbstractContactLaw):
    """Hertz's law of elastic bodies that touch in a point: force = k d^(3/2). Nothing is lost.

    The stiffness is a number, or a `HertzPoint` made from curvatures and materials.
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m^1.5"""
    ellipse: ContactEllipse | None
    """the spot; None: unknown"""
    parameters: ClassVar[dict[str, Parameter]] = {"stiffness": positive("N/m^1.5")}

    def __init__(self, stiffness: Any):
        number, self.ellipse = _read_stiffness("the Hertz law", stiffness)
        read_fields(self, "the Hertz law", self.parameters, stiffness=number)

    @property
    def spot(self):
        return self.ellipse

    def force(self, depth, rate):
        return self.stiffness * _power(depth, None)

    def energy(self, depth):
        return _elastic_energy(self.stiffness, depth, None)


class HuntCrossley(AbstractContactLaw):
    r"""force = k d^n (1 + c d'), never negative: the loss grows with the depth, and the force is continuous at touch-down.

    An impact at speed v leaves at the speed w with  c v - ln(1 + c v) = -c w - ln(1 - c w),  whatever the mass, k and n (separate the
    variables of m d'' = -force): the restitution w / v is 1 - 2/3 c v for slow impacts. The stiffness is a number, or a
    `HertzPoint` made from curvatures and materials.

    ```bibtex
    @article{hunt1975restitution,
      title={Coefficient of restitution interpreted as damping in vibroimpact},
      author={Hunt, K. H. and Crossley, F. R. E.},
      journal={Journal of Applied Mechanics},
      volume={42},
      pages={440--445},
      year={1975}
    }
    ```
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m^n"""
    damping: Float[Numbers, "*stack"]
    """c, s/m"""
    exponent: Float[Numbers, "*stack"] | None
    """n; None: 3/2, by a square root, which is cheaper than a power"""
    ellipse: ContactEllipse | None
    """the spot; None: unknown"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "stiffness": positive("N/m^n"),
        "damping": not_negative("s/m"),
        "exponent": Parameter("1", valid=lambda n: n >= 1, requirement="must be at least 1", optional=True),
    }

    def __init__(self, stiffness: Any, damping: Any, exponent: Any = None):
        number, self.ellipse = _read_stiffness("the HuntCrossley law", stiffness, exponent)
        read_fields(self, "the HuntCrossley law", self.parameters, stiffness=number, damping=damping, exponent=exponent)

    @property
    def spot(self):
        return self.ellipse

    def force(self, depth, rate):
        return self.stiffness * _power(depth, self.exponent) * _no_pull(self.damping * rate)

    def energy(self, depth):
        return _elastic_energy(self.stiffness, depth, self.exponent)

    def switches(self, depth, rate):
        return jnp.stack([depth, _overlap(depth) * (1.0 + self.damping * rate)])


class LankaraniNikravesh(AbstractContactLaw):
    r"""force = k d^n (1 + 3/4 (1 - e^2) d' / v), never negative: Hunt and Crossley's law, its damping from a restitution e.

    The damping follows from an energy balance for restitutions near 1. The exact restitution of the law, which `HuntCrossley` states for
    c = 3/4 (1 - e^2) / v, agrees with e to first order in 1 - e: e = 0.9 gives 0.913, e = 0.5 gives 0.725. The approach speed v is a parameter
    of the law: an impact at another speed has the restitution of the same c.

    ```bibtex
    @article{lankarani1990contact,
      title={A contact force model with hysteresis damping for impact analysis of multibody systems},
      author={Lankarani, H. M. and Nikravesh, P. E.},
      journal={Journal of Mechanical Design},
      volume={112},
      pages={369--376},
      year={1990}
    }
    ```
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m^n"""
    restitution: Float[Numbers, "*stack"]
    """e"""
    approach_speed: Float[Numbers, "*stack"]
    """v, m/s, at which the restitution is e"""
    exponent: Float[Numbers, "*stack"] | None
    """n; None: 3/2, by a square root, which is cheaper than a power"""
    ellipse: ContactEllipse | None
    """the spot; None: unknown"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "stiffness": positive("N/m^n"),
        "restitution": Parameter("1", valid=lambda e: (e >= 0) & (e <= 1), requirement="must lie between 0 and 1"),
        "approach_speed": positive("m/s"),
        "exponent": Parameter("1", valid=lambda n: n >= 1, requirement="must be at least 1", optional=True),
    }

    def __init__(self, stiffness: Any, restitution: Any, approach_speed: Any, exponent: Any = None):
        number, self.ellipse = _read_stiffness("the LankaraniNikravesh law", stiffness, exponent)
        read_fields(
            self,
            "the LankaraniNikravesh law",
            self.parameters,
            stiffness=number,
            restitution=restitution,
            approach_speed=approach_speed,
            exponent=exponent,
        )

    @property
    def spot(self):
        return self.ellipse

    def force(self, depth, rate):
        damping = 0.75 * (1.0 - self.restitution**2) / self.approach_speed
        return self.stiffness * _power(depth, self.exponent) * _no_pull(damping * rate)

    def energy(self, depth):
        return _elastic_energy(self.stiffness, depth, self.exponent)

    def switches(self, depth, rate):
        return jnp.stack([depth, _overlap(depth) * (1.0 + 0.75 * (1.0 - self.restitution**2) / self.approach_speed * rate)])


class SmoothContact(AbstractContactLaw):
    r"""A linear spring with a soft beginning and a loss that needs no bound: force = k r(d) (c d' + sqrt(1 + (c d')^2)).

        r(d) = d^2 / (2 d_0)  up to  d = d_0,   d - d_0 / 2  beyond

    so the stiffness grows from zero to k over the `softness` d_0. The factor of the rate is positive, 1 + c d' for small rates as of
    `HuntCrossley`, and has no kink: the force and its slopes are continuous however fast the bodies part, and it never pulls. An impact at
    speed v leaves at the speed w with (1 + (c v)^2)^(3/2) - (c v)^3 = (1 + (c w)^2)^(3/2) + (c w)^3, whatever the mass, k and d_0: the
    restitution of slow impacts is 1 - 2/3 c v.
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m"""
    damping: Float[Numbers, "*stack"]
    """c, s/m"""
    softness: Float[Numbers, "*stack"]
    """d_0, m"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "stiffness": positive("N/m"),
        "damping": not_negative("s/m"),
        "softness": positive("m"),
    }

    def __init__(self, stiffness: Any, damping: Any, softness: Any):
        read_fields(self, "the SmoothContact law", self.parameters, stiffness=stiffness, damping=damping, softness=softness)

    def force(self, depth, rate):
        begun, full = self._shares(depth)
        loss = self.damping * rate
        return self.stiffness * (0.5 * begun**2 / self.softness + full) * (loss + jnp.sqrt(1.0 + loss**2))

    def energy(self, depth):
        begun, full = self._shares(depth)
        return self.stiffness * (begun**3 / (6.0 * self.softness) + 0.5 * full * (full + self.softness))

    def _shares(self, depth: Array) -> tuple[Array, Array]:
        """The depth up to d_0, and what is beyond."""
        begun = jnp.where(depth > self.softness, self.softness, _overlap(depth))
        return begun, jnp.where(depth > self.softness, depth - self.softness, 0.0)


class HertzLine(AbstractContactLaw):
    """Bodies that touch along a line, a roller on its race: force = k d^(10/9) (1 + c d'), never negative.

    Palmgren's exponent; `line_stiffness(length, material)` gives k. With the damping c the restitution is that of `HuntCrossley`.
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m^(10/9)"""
    damping: Float[Numbers, "*stack"]
    """c, s/m"""
    parameters: ClassVar[dict[str, Parameter]] = {"stiffness": positive("N/m^(10/9)"), "damping": not_negative("s/m")}

    def __init__(self, stiffness: Any, damping: Any = 0.0):
        read_fields(self, "the HertzLine law", self.parameters, stiffness=stiffness, damping=damping)

    def force(self, depth, rate):
        return self.stiffness * _power(depth, _LINE) * _no_pull(self.damping * rate)

    def energy(self, depth):
        return _elastic_energy(self.stiffness, depth, _LINE)

    def switches(self, depth, rate):
        return jnp.stack([depth, _overlap(depth) * (1.0 + self.damping * rate)])


_LINE = 10.0 / 9.0


def _read_stiffness(owner: str, given: Any, exponent: Any = None) -> tuple[Any, ContactEllipse | None]:
    if not isinstance(given, HertzPoint):
        return given, None
    if exponent is not None:
        raise ValueError(f"{owner}: a HertzPoint belongs to the exponent 3/2; leave the exponent out, or give the stiffness as a number.")
    return given.stiffness, given.ellipse


def _overlap(depth: Array) -> Array:
    return jnp.where(depth > 0, depth, 0.0)


def _no_pull(loss: Array) -> Array:
    return jnp.maximum(1.0 + loss, 0.0)


def _power(depth: Array, exponent: Any) -> Array:
    """depth^n of an overlap, depth^(3/2) for None, and zero of a gap; the derivative at zero depth is zero."""
    closed = depth > 0
    inner = jnp.where(closed, depth, 1.0)
    return jnp.where(closed, inner * jnp.sqrt(inner) if exponent is None else inner**exponent, 0.0)


def _elastic_energy(stiffness: Array, depth: Array, exponent: Any) -> Array:
    order = 1.5 if exponent is None else exponent
    return stiffness * _power(depth, exponent) * _overlap(depth) / (order + 1.0)
