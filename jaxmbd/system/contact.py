"""Contact: bodies that push each other apart where they overlap.

A contact is a *pair* of shapes, which finds where and how deep they overlap (`Touch`), a normal law, which turns depth and its rate into
a force, and perhaps a friction law. Pairs, laws and friction know nothing of each other; a new one of each is a small class.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .forces import AbstractForce
from .frames import Frame, embed, norm, pair_wrench
from .friction import AbstractFriction
from .parameters import Parameter, nonzero_vector, not_negative, positive, read_all, vector
from .rotations import cross

# --- normal laws --------------------------------------------------------------------------------------------------------------------------


class AbstractContactLaw(eqx.Module):
    """A normal force by depth and rate. It never pulls, and is zero and has finite derivatives where the depth is zero."""

    parameters: eqx.AbstractClassVar[dict[str, Parameter]]

    def force(self, depth: Float[Array, ""], rate: Float[Array, ""]) -> Float[Array, ""]:
        """N, for a depth of overlap [m] (negative: a gap) and its rate [m/s]."""
        raise NotImplementedError

    def energy(self, depth: Float[Array, ""]) -> Float[Array, ""]:
        """The elastic energy [J] that is stored at a depth."""
        raise NotImplementedError


class LinearContact(AbstractContactLaw):
    r"""A spring and a dashpot that act while bodies overlap: force = k d + c d' for a depth d > 0.

    The part c d' is kept within -k d and k d. From below, that is the absence of adhesion, force >= 0. From above it is the mirror
    image: the force begins at zero instead of jumping to c d' at touch-down, and is continuous in depth and rate. A step across a jump would
    leave Newton's method between two branches, and its derivative would miss the jump. No length has to be chosen for it, as
    the ramp of other programs asks for.

    For an impact of reduced mass m let zeta = c / (2 sqrt(k m)). Without damping it lasts pi sqrt(m / k) and its peak force is v sqrt(k m).
    With little damping the coefficient of restitution is 1 - pi zeta + O(zeta^2); the bound from above raises it by about 2 zeta^2 against the
    closed form of the law without it (Schwager and Pöschel 2007).

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

    stiffness: Float[Array, ""]
    """k, N/m"""
    damping: Float[Array, ""]
    """c, N s/m"""
    parameters: ClassVar[dict[str, Parameter]] = {"stiffness": positive("N/m"), "damping": not_negative("N s/m")}

    def __init__(self, stiffness: Any, damping: Any = 0.0):
        values = read_all("the LinearContact law", self.parameters, stiffness=stiffness, damping=damping)
        self.stiffness, self.damping = values["stiffness"], values["damping"]

    def force(self, depth, rate):
        elastic = self.stiffness * _overlap(depth)
        return elastic + jnp.clip(self.damping * rate, -elastic, elastic)

    def energy(self, depth):
        return 0.5 * self.stiffness * _overlap(depth) ** 2


def _overlap(depth: Array) -> Array:
    return jnp.where(depth > 0, depth, 0.0)


# --- contacts of any shape ----------------------------------------------------------------------------------------------------------------


class Touch(eqx.Module):
    """Where and how two bodies touch, in the ground's axes."""

    point: Float[Array, "3"]
    """m, where the forces act"""
    normal: Float[Array, "3"]
    """unit vector along which a is pushed"""
    tangents: Float[Array, "k 3"]
    """unit vectors that span the tangent space: one in the plane"""
    depth: Float[Array, ""]
    """m, of the overlap; negative: a gap"""
    rate: Float[Array, ""]
    """m/s, of the depth"""
    slip: Float[Array, "k"]
    """m/s, of a over b, along the tangents"""

    @staticmethod
    def between(a: Frame, b: Frame, point: Array, normal: Array, tangents: Array, depth: Array) -> "Touch":
        # The surfaces' normal velocities are those of any points on the normal, so that the rate belongs to the depth exactly.
        relative = a.velocity_at(point) - b.velocity_at(point)
        return Touch(point, normal, tangents, depth, -normal @ relative, tangents @ relative)


class ContactLoads(eqx.Module):
    """What a contact does."""

    gap: Float[Array, "..."]
    """m; negative: the bodies overlap"""
    normal_force: Float[Array, "..."]
    """N, not negative"""
    slip: Float[Array, "..."]
    """m/s, of the first body over the second; one component (along the normal turned by +90 degrees) in the plane"""
    friction: Float[Array, "..."]
    """N, on the first body, along the same direction"""


class AbstractContact(AbstractForce):
    """A pair of shapes on two bodies. A child finds the `Touch`; forces, states and energy follow."""

    law: eqx.AbstractVar[AbstractContactLaw]
    friction: eqx.AbstractVar[AbstractFriction | None]
    is_contact: ClassVar[bool] = True
    dimension: eqx.AbstractClassVar[int]
    """2: the shapes live in the plane"""

    def _read_contact(self, name: str, bodies: tuple[Any, Any], law: Any, friction: Any, stiff: bool, **geometry: Any) -> None:
        self._read_element(name, bodies, **geometry)
        if not isinstance(law, AbstractContactLaw):
            raise ValueError(f"{self.label}: law must be a contact law such as mbd.LinearContact(stiffness, damping), got {law!r}.")
        if not isinstance(friction, AbstractFriction | None):
            raise ValueError(f"{self.label}: friction must be a friction law such as mbd.LuGre(...) or None, got {friction!r}.")
        self.law, self.friction, self.stiff = law, friction, stiff

    def touch(self, local: Any, frames: tuple[Frame, ...]) -> Touch:
        """Where the shapes overlap, or come nearest."""
        raise NotImplementedError

    def loads(self, touch: Touch, x: Array) -> ContactLoads:
        normal_force = self.law.force(touch.depth, touch.rate)
        coefficient = jnp.zeros_like(touch.slip) if self.friction is None else self.friction.coefficient(touch.slip, x)
        return ContactLoads(-touch.depth, normal_force, touch.slip, -normal_force * coefficient)

    def initial_state(self):
        return jnp.zeros(0) if self.friction is None else self.friction.initial_state(self.dimension - 1)

    def state_rate(self, local, frames, angles, t, x):
        if self.friction is None:
            return jnp.zeros_like(x)
        touch = self.touch(local, frames)
        return self.friction.rate(touch.slip, x, touch.depth > 0)

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        touch = self.touch(local, frames)
        loads = self.loads(touch, x)
        push = loads.normal_force * touch.normal + loads.friction @ touch.tangents
        return pair_wrench(a, b, touch.point, -push, jnp.zeros(3))

    def potential(self, local, frames, angles):
        return self.law.energy(self.touch(local, frames).depth)


# --- pairs in the plane -------------------------------------------------------------------------------------------------------------------


def _touch_in_the_plane(a: Frame, b: Frame, point: Array, normal: Array, depth: Array) -> Touch:
    return Touch.between(a, b, point, normal, cross(jnp.array([0.0, 0.0, 1.0]), normal)[None], depth)


class _DiscAndLine(eqx.Module):
    centre: Float[Array, "3"]
    """in a"""
    point: Float[Array, "3"]
    """in b"""
    normal: Float[Array, "3"]
    """unit vector in b"""


class DiscLine(AbstractContact):
    """A disc of body a on a straight line of body b, the edge of all that lies behind it. Planar models.

    Centre, point and normal are given in the ground's frame at the initial configuration. The normal points out of b, to the side where the
    disc is free. Forces act at the disc's nearest point to the line.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    centre: Float[Array, "2"]
    """m, of the disc; moves with a"""
    radius: Float[Array, ""]
    """m"""
    point: Float[Array, "2"]
    """m, on the line; moves with b"""
    normal: Float[Array, "2"]
    """direction, out of b"""
    law: AbstractContactLaw
    friction: AbstractFriction | None
    stiff: bool = eqx.field(static=True)
    dimension: ClassVar[int] = 2
    parameters: ClassVar[dict[str, Parameter]] = {
        "centre": vector("m", 2),
        "radius": positive("m"),
        "point": vector("m", 2),
        "normal": nonzero_vector()._replace(shapes=((2,),), optional=False),
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        centre: Any,
        radius: Any,
        point: Any,
        normal: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        stiff: bool = False,
    ):
        self._read_contact(name, (a, b), law, friction, stiff, centre=centre, radius=radius, point=point, normal=normal)

    def local(self, frames):
        a, b = frames
        out = embed(self.normal)
        return _DiscAndLine(a.local_point(embed(self.centre)), b.local_point(embed(self.point)), b.local_direction(out / norm(out)))

    def touch(self, local, frames):
        a, b = frames
        centre, normal = a.point(local.centre), b.direction(local.normal)
        depth = self.radius - normal @ (centre - b.point(local.point))
        return _touch_in_the_plane(a, b, centre - self.radius * normal, normal, depth)


class _Discs(eqx.Module):
    centre_a: Float[Array, "3"]
    centre_b: Float[Array, "3"]


class DiscDisc(AbstractContact):
    """A disc of body a against a disc of body b, side by side. Planar models.

    Centres are given in the ground's frame at the initial configuration. Forces act at the middle of the overlap. Discs whose centres coincide
    have no normal: they do not push, and derivatives are finite.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    centre_a: Float[Array, "2"]
    """m, moves with a"""
    radius_a: Float[Array, ""]
    """m"""
    centre_b: Float[Array, "2"]
    """m, moves with b"""
    radius_b: Float[Array, ""]
    """m"""
    law: AbstractContactLaw
    friction: AbstractFriction | None
    stiff: bool = eqx.field(static=True)
    dimension: ClassVar[int] = 2
    parameters: ClassVar[dict[str, Parameter]] = {
        "centre_a": vector("m", 2),
        "radius_a": positive("m"),
        "centre_b": vector("m", 2),
        "radius_b": positive("m"),
    }

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        centre_a: Any,
        radius_a: Any,
        centre_b: Any,
        radius_b: Any,
        law: AbstractContactLaw,
        friction: AbstractFriction | None = None,
        *,
        stiff: bool = False,
    ):
        discs = {"centre_a": centre_a, "radius_a": radius_a, "centre_b": centre_b, "radius_b": radius_b}
        self._read_contact(name, (a, b), law, friction, stiff, **discs)

    def local(self, frames):
        a, b = frames
        return _Discs(a.local_point(embed(self.centre_a)), b.local_point(embed(self.centre_b)))

    def touch(self, local, frames):
        a, b = frames
        centre_a, centre_b = a.point(local.centre_a), b.point(local.centre_b)
        distance = norm(centre_a - centre_b)
        normal = (centre_a - centre_b) / jnp.where(distance > 0, distance, 1.0)
        depth = self.radius_a + self.radius_b - distance
        return _touch_in_the_plane(a, b, centre_b + (self.radius_b - 0.5 * depth) * normal, normal, depth)
