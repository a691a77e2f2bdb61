"""Drag of the air along an arm."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import Wrench, embed, force_at, norm
from ..parameters import Parameter, not_negative, vector
from .base import AbstractForce

_PLACES, _WEIGHTS = (0.5 * (part + shift) for part, shift in zip(np.polynomial.legendre.leggauss(5), (1.0, 0.0), strict=True))
"""of Gauss and Legendre, from 0 to 1: exact for an arm that turns about a point outside of it, within 1e-3 elsewhere"""


class AirDrag(AbstractForce):
    """Quadratic drag of still air on a slender arm: every piece of it is pushed back by `coefficient * |v| v` [N/m], v its velocity across the
    arm. An arm of width w and drag coefficient c_d in air of density rho has coefficient rho c_d w / 2, 1.2 for a plate a metre wide.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    start: Float[Numbers, "*stack d"]
    """m, one end of the arm, ground frame, initial configuration; moves with the body"""
    end: Float[Numbers, "*stack d"]
    """m"""
    coefficient: Float[Numbers, "*stack"]
    """N s^2/m^3"""
    stiff: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {
        "start": vector("m"),
        "end": vector("m"),
        "coefficient": not_negative("N s^2/m^3"),
    }

    def __init__(self, name: str, body: Any, start: Any, end: Any, coefficient: Any, *, stiff: bool = False):
        self.read_element(name, (body,), start=start, end=end, coefficient=coefficient)
        self.stiff = stiff

    def check(self, planar):
        if np.all(np.asarray(self.start) == np.asarray(self.end)):
            raise ValueError(f"{self.label}: its arm has no length, start and end are the same point. Give its two ends.")

    def local(self, frames):
        return jnp.stack([frames[0].local_point(embed(point)) for point in (self.start, self.end)])

    def wrench(self, local, frames, angles, t, x):
        (body,) = frames
        span = body.direction(local[1] - local[0])
        length = norm(span)
        along = span / jnp.where(length > 0, length, 1.0)

        def piece(place):
            point = body.point(local[0] + place * (local[1] - local[0]))
            v = body.velocity_at(point)
            across = v - jnp.dot(v, along) * along
            force = -self.coefficient * norm(across) * across
            return force, force_at(body, point, force)

        force, torque = jax.vmap(piece)(jnp.asarray(_PLACES))
        weights = length * jnp.asarray(_WEIGHTS)
        return Wrench((weights @ force)[None], (weights @ torque)[None])
