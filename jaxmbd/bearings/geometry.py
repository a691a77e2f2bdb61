"""Dimensions, masses and kinematics of ball bearings that follow from a few numbers of a catalogue.

Letters as in Harris and Kotzalas, Rolling Bearing Analysis: d ball diameter, D pitch diameter, f groove radius over d, P diametral
clearance, alpha contact angle, gamma = d cos(alpha) / D.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .._numbers import Numbers

Number = Float[Numbers, ""]


def groove_circle(pitch_diameter: Number, ball_diameter: Number, conformity: Number, clearance: Number, inner: bool) -> Number:
    """Radius [m] of the circle on which the centres of a groove's cross-section lie.

    A ball on the pitch circle has a quarter of the diametral clearance to each raceway.
    """
    outward = (conformity - 0.5) * ball_diameter - 0.25 * clearance
    return 0.5 * pitch_diameter + (outward if inner else -outward)


def free_contact_cosine(ball_diameter: Number, conformity_inner: Number, conformity_outer: Number, clearance: Number) -> Number:
    """cos(alpha) = 1 - P / (2 d (f_i + f_o - 1)), when an axial load has just taken up the clearance; 1 with an interference."""
    distance = (conformity_inner + conformity_outer - 1.0) * ball_diameter
    return 1.0 - 0.5 * jnp.maximum(clearance, 0.0) / distance


def angle_of(cosine: Number) -> Number:
    """rad; zero for a cosine of 1, with derivative zero there, where that of the angle has a pole."""
    slanted = cosine < 1.0
    return jnp.where(slanted, jnp.arccos(jnp.where(slanted, cosine, 0.0)), 0.0)


class Epicyclic(NamedTuple):
    """Speeds of pure rolling [rad/s]."""

    orbit: Array
    """of balls and cage about the bearing's axis"""
    spin: Array
    """of a ball about its own axis, in a frame that goes round with it"""


def epicyclic(ball_diameter: Number, pitch_diameter: Number, contact_angle: Number, inner: Number, outer: Number) -> Epicyclic:
    """Pure rolling at one contact angle between rings that turn at the speeds inner and outer [rad/s]."""
    gamma = ball_diameter * jnp.cos(contact_angle) / pitch_diameter
    orbit = 0.5 * (inner * (1.0 - gamma) + outer * (1.0 + gamma))
    spin = 0.5 * pitch_diameter / ball_diameter * (1.0 - gamma**2) * (outer - inner)
    return Epicyclic(orbit, spin)


class Inertia(NamedTuple):
    mass: Array
    """kg"""
    axial: Array
    """kg m^2, about the bearing's axis"""
    transverse: Array
    """kg m^2, about a diameter"""

    @property
    def moments(self) -> Numbers:
        return jnp.stack([self.transverse, self.transverse, self.axial])


def ball_inertia(diameter: Number, density: Number) -> Inertia:
    mass = density * jnp.pi / 6.0 * diameter**3
    moment = 0.1 * mass * diameter**2
    return Inertia(mass, moment, moment)


def ring_inertia(
    bore: Number, outside: Number, width: Number, groove_centre: Number, groove_radius: Number, density: Number, inner: bool
) -> Inertia:
    """A hollow cylinder less its groove.

    The groove is the circular segment between its bottom and the land: its mass is exact (Pappus), its inertia that of a thin hoop at the
    segment's centroid. Fillets and snap-ring grooves do not count.
    """
    inside, out = 0.5 * bore, 0.5 * outside
    tube = density * jnp.pi * (out**2 - inside**2) * width
    land = out if inner else inside
    apart = groove_centre - land if inner else land - groove_centre  # of the groove's centre from the land, on the ball's side
    cosine = jnp.clip(apart / groove_radius, -0.999, 0.999)
    half = jnp.arccos(cosine)
    area = groove_radius**2 * (half - jnp.sin(half) * cosine)
    centroid = 2.0 * groove_radius**3 * jnp.sin(half) ** 3 / (3.0 * area)  # from the groove's centre
    hoop = groove_centre - centroid if inner else groove_centre + centroid
    cut = density * area * 2.0 * jnp.pi * hoop
    axial = 0.5 * tube * (inside**2 + out**2) - cut * hoop**2
    transverse = 0.25 * tube * (inside**2 + out**2 + width**2 / 3.0) - 0.5 * cut * hoop**2
    return Inertia(tube - cut, axial, transverse)


def cage_inertia(mass: Number, pitch_diameter: Number, width: Number) -> Inertia:
    """A thin hoop of the pitch diameter, as wide as given."""
    axial = 0.25 * mass * pitch_diameter**2
    return Inertia(mass, axial, 0.5 * axial + mass * width**2 / 12.0)
