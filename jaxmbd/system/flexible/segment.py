"""The element of a beam: the strain energy of the relative pose of two nodes.

Geometrically exact and shear-deformable (Reissner, Simo). The section's axes B (columns: along the beam, `up`, sideways) turn with a node; d
is the span from one node to the next and theta the rotation vector of B_1^T B_2. Halfway between the nodes stands B_m = B_1 exp(theta / 2), and

    stretch and shear   Gamma = B_m^T d / L - e_1         bending and torsion   kappa = theta / L
    energy              L / 2 (Gamma . C Gamma + kappa . D kappa)

is all there is: its force is its derivative, a finite displacement is as good as a small one, and a rigid motion changes nothing. With GA
replaced by 1 / (1 / GA + L^2 / (12 EI)) one element bends as a cubic does, and does not lock.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..forces.base import AbstractForce
from ..frames import Frame, embed, norm, pair_wrench
from ..observable import STORE, WORKER, Observable
from ..parameters import Parameter, nonzero_vector, not_negative, positive, vector
from ..rotations import cross, fused_dot, product, products, skew, triad

_LEAST_COSINE = 0.05
"""of half the turn within an element; at zero, half a turn, it has no axis any more"""
LARGEST_TURN = 2.0 * float(np.arccos(_LEAST_COSINE))
"""rad, 3.04"""
_SERIES = tuple((-1) ** k / (2 * k + 1) for k in range(9))
"""arctan(x) / x in powers of x^2"""


class _Ends(eqx.Module):
    """The element in the axes of its nodes."""

    point_a: Float[Numbers, "*stack 3"]
    point_b: Float[Numbers, "*stack 3"]
    axes_a: Float[Numbers, "*stack 3 3"]
    """rows: the section's axes in the first node, from which the second's differ by no rotation at the start"""
    axes_b: Float[Numbers, "*stack 3 3"]
    length: Float[Numbers, "*stack"]


def _load(i: int) -> Any:
    return lambda at: at.element.loads(at.local, at.frames)[i]


class BeamSegment(AbstractForce):
    """A piece of a beam between two of its nodes, straight and without stress at the start. `Beam` makes them.

    The turn within it must stay below half a turn; from 3.04 rad on its load is not a number, and a run ends with its name.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    point1: Float[Numbers, "*stack d"]
    """m, of the beam's axis at its first node"""
    point2: Float[Numbers, "*stack d"]
    """m, at its second node"""
    up: Float[Numbers, "*stack d"] | None
    """direction of the section; None in a planar model: across the beam"""
    axial_stiffness: Float[Numbers, "*stack"]
    """N"""
    bending_stiffness: Float[Numbers, "*stack"]
    """N m^2, towards `up`"""
    lateral_bending_stiffness: Float[Numbers, "*stack"]
    """N m^2"""
    torsional_stiffness: Float[Numbers, "*stack"]
    """N m^2"""
    shear_stiffness: Float[Numbers, "*stack"]
    """N, towards `up`"""
    lateral_shear_stiffness: Float[Numbers, "*stack"]
    """N"""
    damping: Float[Numbers, "*stack"]
    """s: stress of the strain's rate, in proportion to stiffness"""
    stiff: bool = eqx.field(static=True)
    kind: ClassVar[str] = "beam segment"
    parameters: ClassVar[dict[str, Parameter]] = {
        "point1": vector("m"),
        "point2": vector("m"),
        "up": nonzero_vector(),
        "axial_stiffness": positive("N"),
        "bending_stiffness": positive("N m^2"),
        "lateral_bending_stiffness": positive("N m^2"),
        "torsional_stiffness": positive("N m^2"),
        "shear_stiffness": positive("N"),
        "lateral_shear_stiffness": positive("N"),
        "damping": not_negative("s"),
    }
    observables: ClassVar[dict[str, Observable]] = {
        "axial_force": Observable("N", _load(0)),
        "shear_force": Observable("N", _load(1)),
        "lateral_shear_force": Observable("N", _load(2), spatial=True),
        "torsion_moment": Observable("N m", _load(3), spatial=True),
        "lateral_bending_moment": Observable("N m", _load(4), spatial=True),
        "bending_moment": Observable("N m", _load(5)),
        **WORKER,
        **STORE,
    }
    """loads in its middle, on the section's axes: what the part behind does to the part before; positive in tension"""

    def __init__(self, name: str, a: Any, b: Any, point1: Any, point2: Any, up: Any, damping: Any, stiffnesses: dict[str, Any]):
        self.read_element(name, (a, b), point1=point1, point2=point2, up=up, damping=damping, **stiffnesses)
        self.stiff = True

    def local(self, frames):
        a, b = frames
        p1, p2 = embed(self.point1), embed(self.point2)
        axes = section_axes(p2 - p1, self.up)
        return _Ends(a.local_point(p1), b.local_point(p2), axes @ a.rotation, axes @ b.rotation, norm(p2 - p1))

    def stiffness(self, length: Numbers) -> Float[Array, "6"]:
        """Of Gamma and kappa, N and N m^2."""
        return jnp.stack(
            [
                self.axial_stiffness,
                1.0 / (1.0 / self.shear_stiffness + length**2 / (12.0 * self.bending_stiffness)),
                1.0 / (1.0 / self.lateral_shear_stiffness + length**2 / (12.0 * self.lateral_bending_stiffness)),
                self.torsional_stiffness,
                self.lateral_bending_stiffness,
                self.bending_stiffness,
            ]
        )

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        axes, span, turn = _relative(local, a, b)
        drift = b.point_velocity(local.point_b) - a.point_velocity(local.point_a) - cross(a.angular_velocity, span)
        rate = jnp.concatenate([product(axes, drift), product(axes, b.angular_velocity - a.angular_velocity)])
        stretched = product(axes, span)

        def moved(motion: Array) -> Array:
            """Strains after a small motion of b, seen from a."""
            return strains(stretched + motion[:3], turn + products(skew(motion[3:]), turn.T), local.length)

        still = jnp.zeros(6)
        strain, pull_back = jax.vjp(moved, still)
        _, strain_rate = jax.jvp(moved, (still,), (rate,))
        stress = self.stiffness(local.length) * (strain + self.damping * strain_rate)
        (load,) = pull_back(local.length * stress)
        force, torque = product(axes.T, load[:3]), product(axes.T, load[3:])
        return pair_wrench(a, b, b.point(local.point_b), -force, -torque)

    def potential(self, local, frames, angles):
        strain = self._strain(local, frames)
        return 0.5 * local.length * fused_dot(strain, self.stiffness(local.length) * strain)

    def loads(self, local: _Ends, frames: tuple[Frame, ...]) -> Float[Array, "6"]:
        """Elastic ones: axial force, shear forces [N], torsion, bending sideways and towards `up` [N m]."""
        return self.stiffness(local.length) * self._strain(local, frames)

    def turn(self, local: _Ends, frames: tuple[Frame, ...]) -> Float[Array, ""]:
        """rad, from the first node to the second; also where it is too large for all else."""
        _, _, turn = _relative(local, *frames)
        return jnp.arccos(jnp.clip(0.5 * (jnp.trace(turn) - 1.0), -1.0, 1.0))

    def _strain(self, local: _Ends, frames: tuple[Frame, ...]) -> Float[Array, "6"]:
        axes, span, turn = _relative(local, *frames)
        return strains(product(axes, span), turn, local.length)


def section_axes(along: Float[Numbers, "3"], up: Float[Numbers, "d"] | None) -> Float[Numbers, "3 3"]:
    """Rows: unit vectors along the beam, towards `up` as far as it is across the beam, and sideways."""
    if up is None:
        return jnp.stack(triad(along))
    first, _, _ = triad(along)
    side = cross(first, embed(up))
    side = side / norm(side)
    return jnp.stack([first, cross(side, first), side])


def _relative(local: _Ends, a: Frame, b: Frame) -> tuple[Array, Array, Array]:
    """The section's axes at the first node (rows, in the ground's), the span from there to the second, B_1^T B_2."""
    axes = a.directions(local.axes_a)
    return axes, b.point(local.point_b) - a.point(local.point_a), products(axes, b.directions(local.axes_b))


def strains(span: Float[Numbers, "3"], A: Float[Numbers, "3 3"], length: Numbers) -> Float[Numbers, "6"]:
    """(Gamma, kappa) from the span in the first node's axes and A = B_1^T B_2. Smooth where A is the identity, NaN short of half a turn."""
    square = 0.25 * (1.0 + A[0, 0] + A[1, 1] + A[2, 2])
    fine = square > _LEAST_COSINE**2
    cosine = jnp.sqrt(jnp.where(fine, square, 1.0))  # Euler parameters: of half the angle, and its sine times the axis
    sine = 0.25 / cosine * jnp.stack([A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]])
    theta = 2.0 / cosine * _arctan_over(fused_dot(sine, sine) / cosine**2) * sine
    # The Euler parameters of half the rotation: (1 + cosine, sine) over their length.
    first, rest = jnp.sqrt(0.5 * (1.0 + cosine)), sine / jnp.sqrt(2.0 * (1.0 + cosine))
    across = cross(rest, span)
    halfway = span - 2.0 * first * across + 2.0 * cross(rest, across)
    found = jnp.concatenate([halfway / length - jnp.array([1.0, 0.0, 0.0]), theta / length])
    return jnp.where(fine, found, jnp.nan)


def _arctan_over(square: Float[Numbers, ""]) -> Float[Numbers, ""]:
    """arctan(x) / x from x^2, by its series near zero: exact to rounding in all derivatives that are asked for."""
    small = square < 0.01
    series = jnp.zeros_like(square)
    for coefficient in reversed(_SERIES):
        series = coefficient + square * series
    x = jnp.sqrt(jnp.where(small, 1.0, square))
    return jnp.where(small, series, jnp.arctan(x) / x)
