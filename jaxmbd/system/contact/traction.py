r"""Traction of lubricated rolling contacts: how thick the film is, and what shear stress it passes on."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..parameters import Parameter, not_negative, positive, read_fields
from ..rotations import fused_dot
from .friction import AbstractFriction, Sliding, spinning_coefficient
from .hertz import ContactEllipse

_LIGHTEST = 1e-12
"""Smallest dimensionless load for the film: its thickness hardly depends on the load, but the power -0.07 has a pole at zero."""
_SLOWEST = 1e-9
"""m/s, entrainment below which the film is as thin as there: a power 0.67 has no finite derivative at rest."""
_LARGEST_EXPONENT = 40.0
"""of the pressure-viscosity law: beyond it the oil is a solid in any case, and the power might overflow"""


class LubricatedTraction(AbstractFriction):
    r"""Traction through an elastohydrodynamic film, limited by the shear strength of the oil.

    The central film thickness h is Hamrock and Dowson's (1977), from the entrainment speed u (mean velocity of the surfaces relative to the
    spot), load, curvature and viscosity, for an entrainment along the minor axis of the spot:

        h / R = 2.69 U^0.67 G^0.53 W^-0.067 (1 - 0.61 exp(-0.73 k))
        U = eta_0 u / (E' R)     G = alpha E'     W = F / (E' R^2)     E' = 2 E*     k = a / b

    with the reduced radius R along the minor axis. At the mean pressure p the oil has the viscosity eta_0 exp(alpha p) and the strength
    mu_l p. Shear in the film by the slip v, and elastic creep of the surfaces (a share c of the rolling speed), add up to the slip at which
    strength is reached:

        mu = mu_l v / sqrt(v^2 + v_r^2)      v_r = mu_l p h / (eta_0 exp(alpha p)) + c u + v_0

    viscous at low slip, mu_l at high slip, smooth between. v_0 keeps the slope finite in a contact at rest. Where the film is thinner than
    the surfaces are rough, asperities share the load: with Lambda = h / roughness the limit is mu_l + (mu_b - mu_l) exp(-Lambda). That
    share, and the blend of viscous and limiting shear, are smooth choices of this program, not laws of nature.

    The smallest thickness, at the sides of the spot, is Hamrock and Dowson's too: 3.63 U^0.68 G^0.49 W^-0.073 (1 - exp(-0.68 k)) R.

    The normal law must know the spot: make it from a `HertzPoint`. Spinning is resisted by 3/8 mu N a E(m), regularised with the same v_r,
    and independently of the slip, as with `Coulomb`.

    ```bibtex
    @article{hamrock1977isothermal,
      title={Isothermal elastohydrodynamic lubrication of point contacts: Part III---Fully flooded results},
      author={Hamrock, B. J. and Dowson, D.},
      journal={Journal of Lubrication Technology},
      volume={99},
      pages={264--275},
      year={1977}
    }
    ```
    """

    viscosity: Float[Numbers, "*stack"]
    """eta_0, Pa s, at ambient pressure and running temperature"""
    pressure_coefficient: Float[Numbers, "*stack"]
    """alpha, 1/Pa"""
    limit: Float[Numbers, "*stack"]
    """mu_l, limiting shear stress over pressure"""
    creep: Float[Numbers, "*stack"]
    """c, slip over rolling speed at which elastic creep alone would reach the limit"""
    regularisation: Float[Numbers, "*stack"]
    """v_0, m/s"""
    roughness: Float[Numbers, "*stack"]
    """m, composite rms roughness of both surfaces"""
    boundary: Float[Numbers, "*stack"]
    """mu_b, coefficient where asperities carry the whole load"""
    needs_spot: ClassVar[bool] = True
    parameters: ClassVar[dict[str, Parameter]] = {
        "viscosity": positive("Pa s"),
        "pressure_coefficient": positive("1/Pa"),
        "limit": positive("1"),
        "creep": not_negative("1"),
        "regularisation": positive("m/s"),
        "roughness": positive("m"),
        "boundary": positive("1"),
    }

    def __init__(
        self,
        viscosity: Any,
        pressure_coefficient: Any = 2e-8,
        limit: Any = 0.05,
        creep: Any = 1e-3,
        regularisation: Any = 1e-3,
        *,
        roughness: Any = 1e-7,
        boundary: Any = 0.12,
    ):
        read_fields(
            self,
            "the LubricatedTraction law",
            self.parameters,
            viscosity=viscosity,
            pressure_coefficient=pressure_coefficient,
            limit=limit,
            creep=creep,
            regularisation=regularisation,
            roughness=roughness,
            boundary=boundary,
        )

    def film(self, sliding):
        spot, force = _spot(sliding), jnp.maximum(sliding.normal_force, 0.0)
        return self._film(spot, _speed(sliding), force, 2.69, 0.67, 0.53, -0.067, 0.61, 0.73)

    def minimum_film(self, sliding):
        spot, force = _spot(sliding), jnp.maximum(sliding.normal_force, 0.0)
        return self._film(spot, _speed(sliding), force, 3.63, 0.68, 0.49, -0.073, 1.0, 0.68)

    def _film(self, spot: ContactEllipse, speed: Array, force: Array, factor, of_speed, of_material, of_load, side, ratio) -> Array:
        modulus, radius = 2.0 * spot.modulus, spot.radius
        U = self.viscosity * speed / (modulus * radius)
        W = jnp.maximum(force / (modulus * radius**2), _LIGHTEST)
        shape = 1.0 - side * jnp.exp(-ratio * spot.major / spot.minor)
        return radius * factor * U**of_speed * (self.pressure_coefficient * modulus) ** of_material * W**of_load * shape

    def _limit_and_scale(self, sliding: Sliding) -> tuple[Array, Array]:
        """(largest coefficient, v_r)"""
        spot, film = _spot(sliding), self.film(sliding)
        pressure = spot.mean_pressure(sliding.depth, sliding.normal_force)
        viscosity = self.viscosity * jnp.exp(jnp.minimum(self.pressure_coefficient * pressure, _LARGEST_EXPONENT))
        limit = self.limit + (self.boundary - self.limit) * jnp.exp(-film / self.roughness)
        return limit, self.limit * pressure * film / viscosity + self.creep * _speed(sliding) + self.regularisation

    def coefficient(self, sliding, x):
        limit, scale = self._limit_and_scale(sliding)
        return limit * sliding.slip / jnp.sqrt(fused_dot(sliding.slip, sliding.slip) + scale**2)

    def spinning(self, sliding, x):
        return spinning_coefficient(sliding, *self._limit_and_scale(sliding))


def _spot(sliding: Sliding) -> ContactEllipse:
    if sliding.spot is None:
        raise ValueError("a lubricated contact needs a normal law that knows its spot: make it from mbd.HertzPoint(...).")
    return sliding.spot


def _speed(sliding: Sliding) -> Array:
    assert sliding.entrainment is not None
    return jnp.sqrt(fused_dot(sliding.entrainment, sliding.entrainment) + _SLOWEST**2)
