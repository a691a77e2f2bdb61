r"""Elastic contact of smooth bodies: stiffness, size and pressure of the spot from curvatures and material (Hertz 1882).

Formulas in the form of Johnson, "Contact Mechanics" (1985), chapter 4. With the relative curvatures A <= B (half the sums of the bodies'
curvatures in the two principal planes), the semi-axes a >= b of the elliptical spot, m = 1 - (b/a)^2, the complete elliptic integrals K(m) and
E(m), D = (K - E)/m and the effective modulus 1/E* = (1 - nu_1^2)/E_1 + (1 - nu_2^2)/E_2:

    B / A = (K - D) / ((1 - m) D)                      the shape, solved for m
    depth = A K / D a^2                                the size
    F = k depth^(3/2),   k = 2 pi E*/3 sqrt(D / A) K^(-3/2)
    p = 3 F / (2 pi a b)                               the largest pressure

For spheres m = 0, K = pi/2, D = pi/4: k = 4/3 E* sqrt(R), a = sqrt(R depth).
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..frames import norm
from ..parameters import Parameter, is_traced, positive, read, read_fields, scalar, usable, vector

_MEANS = 7
"""Arithmetic-geometric means taken: errors square at each, so seven serve axis ratios up to 1e6 to rounding."""
_NEWTON = 5
"""Newton steps for the shape. The start is off by 0.08 in log((b/a)^2) for B/A up to 100, by 1.7 at 1e6; three steps reach rounding."""
_INCREMENT = 1e-4
"""of log((b/a)^2) for Newton's slope: its error, 1e-8, leaves the steps as good as quadratic"""
_SHALLOWEST = 1e-15
"""m, below which a pressure, force over area, would be zero over zero"""


class Material(eqx.Module):
    """An isotropic elastic material."""

    elastic_modulus: Float[Numbers, "*stack"]
    """E, Pa"""
    poisson_ratio: Float[Numbers, "*stack"]
    """nu"""
    density: Float[Numbers, "*stack"] | None
    """kg/m^3; contact does not ask for it"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "elastic_modulus": positive("Pa"),
        "poisson_ratio": Parameter("1", valid=lambda nu: (nu > -1) & (nu <= 0.5), requirement="must lie between -1 and 0.5"),
        "density": positive("kg/m^3")._replace(optional=True),
    }

    def __init__(self, elastic_modulus: Any, poisson_ratio: Any = 0.3, density: Any = None):
        read_fields(self, "the material", self.parameters, elastic_modulus=elastic_modulus, poisson_ratio=poisson_ratio, density=density)

    def compliance(self) -> Numbers:
        """(1 - nu^2) / E, 1/Pa"""
        return (1.0 - self.poisson_ratio**2) / self.elastic_modulus


def effective_modulus(a: Material, b: Material | None = None) -> Numbers:
    """E*, Pa, of two bodies in contact; of the same material if only one is given."""
    return 1.0 / (a.compliance() + (a if b is None else b).compliance())


class ContactEllipse(eqx.Module):
    """The spot of a point contact at any depth: its semi-axes are `major` and `minor` times the square root of the depth."""

    major: Float[Numbers, "*stack"]
    """m^0.5"""
    minor: Float[Numbers, "*stack"]
    """m^0.5"""
    second_kind: Float[Numbers, "*stack"]
    """E(m), the elliptic integral; pi/2 for a circle, 1 for a long ellipse"""
    radius: Float[Numbers, "*stack"]
    """m, 1/(2 B): reduced radius of curvature along the minor axis, which balls roll along in a groove"""
    modulus: Float[Numbers, "*stack"]
    """E*, Pa"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "major": positive("m^0.5"),
        "minor": positive("m^0.5"),
        "second_kind": positive("1"),
        "radius": positive("m"),
        "modulus": positive("Pa"),
    }

    def spin_arm(self, depth: Array) -> tuple[Numbers, Numbers]:
        """(arm [m] of the torque mu N arm that friction resists spinning with, over a; a^2 [m^2]).

        The torque is 3/8 mu N a E(m) (Harris, "Rolling Bearing Analysis"), exact for Hertz's pressure and a constant coefficient.
        """
        return 0.375 * self.second_kind, self.major**2 * jnp.maximum(depth, 0.0)

    def mean_pressure(self, depth: Array, force: Array) -> Array:
        """Pa; zero in an open contact."""
        return force / (jnp.pi * self.major * self.minor * jnp.maximum(depth, _SHALLOWEST))


class HertzPoint(eqx.Module):
    """The contact of two bodies in a point, from their curvatures and materials: F = stiffness depth^1.5.

    Curvatures [1/m] are two numbers a body, in two perpendicular planes through the normal: positive where the body is convex, negative in a
    hollow (a groove), zero where it is straight. The first numbers of both bodies belong to one plane, the second to the other,
    unless `angle` [rad] turns the second body's planes against the first's. Laws take it in place of a number: `Hertz(HertzPoint(...))`.
    """

    stiffness: Float[Numbers, "*stack"]
    """k, N/m^1.5"""
    ellipse: ContactEllipse

    def __init__(self, curvatures_a: Any, curvatures_b: Any, material_a: Material, material_b: Material | None = None, angle: Any = 0.0):
        owner, spec = "the Hertz contact", vector("1/m", 2)
        for material in (material_a, material_b):
            if not isinstance(material, Material | None) or material_a is None:
                raise ValueError(f"{owner}: expected mbd.Material(elastic_modulus, poisson_ratio), got {material!r}.")
        a, b = read(owner, "curvatures_a", spec, curvatures_a), read(owner, "curvatures_b", spec, curvatures_b)
        angle = read(owner, "angle", scalar("rad"), angle)
        modulus = effective_modulus(material_a, material_b)
        np_: Any = jnp if is_traced(a, b, angle, modulus) else np
        least, most = _relative_curvatures(a, b, angle, np_)
        message = (
            "the Hertz contact: the bodies do not touch in a point (one relative curvature is not positive). A hollow must have a larger "
            "radius than the ball in it, and its curvature counts negative."
        )
        if is_traced(least):
            least = usable(least, least > 0)  # and so is the stiffness: a run names the law that has it
        elif least <= 0:
            raise ValueError(message)
        values = (np_.asarray(value, dtype=float) for value in _point_contact(least, most, modulus, np_))
        self.stiffness, *spot = values
        self.ellipse = ContactEllipse(*spot)

    @staticmethod
    def spheres(radius_a: Any, radius_b: Any, material_a: Material, material_b: Material | None = None) -> "HertzPoint":
        """Two spheres; an infinite radius is a plane, a negative one a hollow."""
        for field, radius in (("radius_a", radius_a), ("radius_b", radius_b)):
            if not is_traced(radius) and radius == 0:
                raise ValueError(f"the Hertz contact: {field} must not be zero (a plane is infinite, a hollow negative).")
        return HertzPoint((1.0 / radius_a,) * 2, (1.0 / radius_b,) * 2, material_a, material_b)

    def depth(self, force: Any) -> Array:
        """m, at a force [N]"""
        return self._root(force) ** 2

    def semi_axes(self, force: Any) -> tuple[Array, Array]:
        """a >= b, m, at a force [N]"""
        root = self._root(force)
        return self.ellipse.major * root, self.ellipse.minor * root

    def max_pressure(self, force: Any) -> Array:
        """Pa, at a force [N]"""
        return 1.5 * self.stiffness * self._root(force) / (jnp.pi * self.ellipse.major * self.ellipse.minor)

    def _root(self, force: Any) -> Array:
        """Of the depth; at no force its slope, infinite in truth, is zero."""
        ratio = jnp.asarray(force, float) / self.stiffness
        loaded = ratio > 0
        return jnp.where(loaded, jnp.where(loaded, ratio, 1.0) ** (1.0 / 3.0), 0.0)


def line_stiffness(length: Any, material_a: Material, material_b: Material | None = None) -> Numbers:
    """N/m^(10/9), for `HertzLine`: Palmgren's depth = 1.36 (F / E*)^0.9 / length^0.8, in SI units and for any pair of materials.

    For steel these are the 3.84e-5 F^0.9 / length^0.8 (N, mm) of Palmgren, "Ball and Roller Bearing Engineering" (1959).
    """
    length = read("the line contact", "length", positive("m"), length)
    return length ** (8.0 / 9.0) * effective_modulus(material_a, material_b) / 1.36 ** (10.0 / 9.0)


# Below, `np_` is numpy for concrete numbers, so that making a law compiles nothing, and jax.numpy for traced ones.


def elliptic(complement: Any, np_: Any = jnp) -> tuple[Any, Any]:
    """K(m) and D(m) = (K(m) - E(m))/m for the complementary parameter 1 - m in (0, 1], by arithmetic-geometric means.

    The sum for D is of positive terms, over m from the start: nothing cancels at m = 0.
    """
    m = 1.0 - complement
    a, b = 1.0, np_.sqrt(complement)
    term, total, weight = 1.0, 0.5, 0.5
    for _ in range(_MEANS):
        a, b = 0.5 * (a + b), np_.sqrt(a * b)
        term, weight = term**2 * m / (16.0 * a**2), 2.0 * weight
        total = total + weight * term
    K = 0.5 * np.pi / a
    return K, K * total


def _relative_curvatures(a: Any, b: Any, angle: Any, np_: Any) -> tuple[Any, Any]:
    """A <= B, 1/m"""
    total = a[0] + a[1] + b[0] + b[1]
    across, along = a[0] - a[1], b[0] - b[1]
    components = np_.stack([across + along * np_.cos(2 * angle), along * np_.sin(2 * angle)])
    difference = np.linalg.norm(components) if np_ is np else norm(components)
    return 0.25 * (total - difference), 0.25 * (total + difference)


def _point_contact(A: Any, B: Any, modulus: Any, np_: Any) -> tuple[Any, ...]:
    """(stiffness, and the fields of its `ContactEllipse`)"""
    complement = _shape(np_.log(B / A), np_)
    K, D = elliptic(complement, np_)
    stiffness = 2.0 * np.pi * modulus / 3.0 * np_.sqrt(D / A) * K**-1.5
    major = np_.sqrt(D / (A * K))
    return stiffness, major, major * np_.sqrt(complement), K - (1.0 - complement) * D, 0.5 / B, modulus


def _shape(log_ratio: Any, np_: Any) -> Any:
    """(b/a)^2 for log(B/A): Newton's method in logarithms, where the relation is nearly straight. Differentiated at the solution only."""

    def log_of(u):
        K, D = elliptic(np_.exp(u), np_)
        return np_.log((K - D) / D) - u

    def step(_, u):
        slope = (log_of(u + _INCREMENT) - log_of(u - _INCREMENT)) / (2 * _INCREMENT)
        return u - (log_of(u) - wanted) / slope

    if np_ is np:
        wanted, u = log_ratio, -4.0 / np.pi * log_ratio  # Brewe and Hamrock (1977): a/b is near (B/A)^(2/pi)
        for i in range(_NEWTON):
            u = step(i, u)
        return np.exp(u)
    wanted = jax.lax.stop_gradient(log_ratio)
    u = jax.lax.fori_loop(0, _NEWTON, step, -4.0 / np.pi * wanted)
    _, slope = jax.jvp(log_of, (u,), (jnp.ones_like(u),))
    return jnp.exp(u + (log_ratio - wanted) / slope)
