"""Contact: bodies that push each other apart where they overlap.

A contact is a *pair* of shapes, which finds where and how deep they overlap (`Touch`), a normal law (`contact_laws`), which turns depth and its
rate into a force, and perhaps a friction law (`friction`). Pairs, laws and friction know nothing of each other; a new one of each is a
small class. A pair may touch at several spots at once (the corners of a box): its `Touch` has a first axis then.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .contact_laws import AbstractContactLaw
from .forces import AbstractForce
from .frames import Frame, Wrench, norm, pair_wrench
from .friction import AbstractFriction, Sliding
from .rotations import cross, dot


class Touch(eqx.Module):
    """Where and how two bodies touch, in the ground's axes.

    In the plane there is one tangent. In space no basis of the tangent plane is chosen, for none is smooth everywhere: the tangents are the
    rows of the projector onto that plane, and slip is a vector of three components in the ground's axes. For friction laws with memory the rows
    stand in the second body's axes, so that what the law remembers turns with that body.
    """

    point: Float[Array, "3"]
    """m, where the forces act"""
    normal: Float[Array, "3"]
    """unit vector along which a is pushed"""
    tangents: Float[Array, "k 3"]
    """span the tangent space"""
    depth: Float[Array, ""]
    """m, of the overlap; negative: a gap"""
    rate: Float[Array, ""]
    """m/s, of the depth"""
    slip: Float[Array, "k"]
    """m/s, of a over b, along the tangents"""
    spin: Float[Array, ""]
    """rad/s, of a against b about the normal"""
    entrainment: Float[Array, "k"]
    """m/s, mean velocity of the surfaces relative to the moving spot, along the tangents"""

    @staticmethod
    def between(a: Frame, b: Frame, point: Array, normal: Array, tangents: Array, depth: Array, travel: Array) -> "Touch":
        """`travel` [m/s] is the velocity of the spot as b sees it, in the ground's axes."""
        # The surfaces' normal velocities are those of any points on the normal, so that the rate belongs to the depth exactly.
        relative = a.velocity_at(point) - b.velocity_at(point)
        # As b sees it, its own surface rests and that of a moves with the relative velocity.
        entrainment = 0.5 * relative - travel
        spin = dot(normal, a.angular_velocity - b.angular_velocity)
        return Touch(point, normal, tangents, depth, -dot(normal, relative), dot(tangents, relative), spin, dot(tangents, entrainment))


class ContactLoads(eqx.Module):
    """What a contact does. In the plane slip and friction are one number, along the normal turned by +90 degrees; in space vectors in the
    ground's axes."""

    gap: Float[Array, "..."]
    """m; negative: the bodies overlap"""
    normal_force: Float[Array, "..."]
    """N, not negative"""
    slip: Float[Array, "..."]
    """m/s, of the first body over the second"""
    friction: Float[Array, "..."]
    """N, on the first body"""
    slip_speed: Float[Array, "..."]
    """m/s, not negative"""
    spin: Float[Array, "..."]
    """rad/s, of the first body against the second about the normal"""
    spin_torque: Float[Array, "..."]
    """N m, on the first body about the normal"""
    power: Float[Array, "... 2"]
    """W, the rate at which the contact changes the energy of the first and of the second body"""
    point: Float[Array, "... d"]
    """m, where it acts"""
    normal: Float[Array, "... d"]
    """unit vector along which the first body is pushed"""
    pressure: Float[Array, "..."] | None
    """Pa, the largest; None: the normal law does not know its spot"""
    film: Float[Array, "..."] | None
    """m, central thickness of the lubricant film, zero in an open contact; None: the friction law knows of none"""
    minimum_film: Float[Array, "..."] | None
    """m, its smallest thickness"""


class AbstractContact(AbstractForce):
    """A pair of shapes on two bodies. A child has the shapes and finds the `Touch`; forces, states and energy follow."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    """a and b"""
    law: AbstractContactLaw
    """of the normal force"""
    friction: AbstractFriction | None
    """None: the pair slides freely"""
    stiff: bool = eqx.field(static=True)
    """Whether the pair belongs to family B."""
    allow_overlap: bool = eqx.field(static=True)
    """Whether the pair may start deeper in each other than elastic bodies would be."""
    is_contact: ClassVar[bool] = True
    dimension: eqx.AbstractClassVar[int]
    """2: the shapes live in the plane"""
    spots: ClassVar[int] = 1
    """How many spots it has; with more than one, `touch` has a first axis."""

    def _read_pair(self, name: str, a: Any, b: Any, law: Any, friction: Any, stiff: bool, allow_overlap: bool, **shapes: Any) -> None:
        """The part of a constructor that all pairs share; `shapes` are the numbers of the child's own fields."""
        self._read_element(name, (a, b), **shapes)
        if not isinstance(law, AbstractContactLaw):
            raise ValueError(f"{self.label}: law must be a contact law such as mbd.LinearContact(stiffness, damping), got {law!r}.")
        if not isinstance(friction, AbstractFriction | None):
            raise ValueError(f"{self.label}: friction must be a friction law such as mbd.LuGre(...) or None, got {friction!r}.")
        if friction is not None and friction.needs_spot and law.spot is None:
            raise ValueError(
                f"{self.label}: a {type(friction).__name__} law needs the size of the spot: make the normal law from a HertzPoint, e.g. "
                "mbd.Hertz(mbd.HertzPoint(curvatures_a, curvatures_b, material))."
            )
        self.law, self.friction, self.stiff, self.allow_overlap = law, friction, stiff, bool(allow_overlap)

    def touch(self, local: Any, frames: tuple[Frame, ...]) -> Touch:
        """Where the shapes overlap, or come nearest."""
        raise NotImplementedError

    def size(self) -> Array:
        """m, what an overlap is to be compared with: as a rule the smallest radius of the pair."""
        raise NotImplementedError

    # --- one spot ---------------------------------------------------------------------------------------------------------------------

    def _sliding(self, touch: Touch) -> Sliding:
        normal_force = self.law.force(touch.depth, touch.rate)
        return Sliding(touch.slip, touch.depth, touch.spin, touch.entrainment, normal_force, self.law.spot)

    def _push(self, touch: Touch, sliding: Sliding, x: Array) -> tuple[Array, Array]:
        """(friction force along the tangents, torque about the normal) on a"""
        if self.friction is None:
            return jnp.zeros_like(touch.slip), jnp.zeros_like(touch.depth)
        friction = -sliding.normal_force * self.friction.coefficient(sliding, x)
        if self.dimension == 2:
            return friction, jnp.zeros_like(touch.depth)
        return friction, -sliding.normal_force * self.friction.spinning(sliding, x)

    def _force(self, touch: Touch, sliding: Sliding, x: Array) -> tuple[Array, Array, Array]:
        """(force on a, torque on a at the point, friction along the tangents)"""
        friction, torque = self._push(touch, sliding, x)
        along = dot(touch.tangents.T, friction) if self._projects else friction
        return sliding.normal_force * touch.normal + along, torque * touch.normal, friction

    @property
    def _projects(self) -> bool:
        """Friction of a law without memory is along the slip, so in the tangent plane; in the ground's axes it needs no projection."""
        return self.dimension == 2 or (self.friction is not None and self.friction.memory)

    def _spot_wrench(self, touch: Touch, frames: tuple[Frame, ...], x: Array) -> Wrench:
        force, torque, _ = self._force(touch, self._sliding(touch), x)
        a, b = frames
        return pair_wrench(a, b, touch.point, -force, -torque)

    def _spot_loads(self, touch: Touch, frames: tuple[Frame, ...], x: Array) -> ContactLoads:
        (a, b), sliding, spot = frames, self._sliding(touch), self.law.spot
        force, torque, friction = self._force(touch, sliding, x)
        slip = touch.slip
        if self.dimension == 2:
            slip, friction = slip[0], friction[0]
        elif self._projects:
            slip, friction = dot(touch.tangents.T, slip), dot(touch.tangents.T, friction)
        power = [
            sign * (dot(force, body.velocity_at(touch.point)) + dot(torque, body.angular_velocity)) for sign, body in ((1.0, a), (-1.0, b))
        ]
        return ContactLoads(
            -touch.depth,
            sliding.normal_force,
            slip,
            friction,
            norm(touch.slip),
            touch.spin,
            dot(torque, touch.normal),
            jnp.stack(power),
            touch.point[: self.dimension],
            touch.normal[: self.dimension],
            None if spot is None else 1.5 * spot.mean_pressure(touch.depth, sliding.normal_force),
            *self._films(sliding),
        )

    def _films(self, sliding: Sliding) -> tuple[Array | None, Array | None]:
        if self.friction is None:
            return None, None
        film, least = self.friction.film(sliding), self.friction.minimum_film(sliding)
        if film is None or least is None:
            return None, None
        return jnp.where(sliding.closed, film, 0.0), jnp.where(sliding.closed, least, 0.0)

    def _spot_rate(self, touch: Touch, x: Array) -> Array:
        return jnp.zeros_like(x) if self.friction is None else self.friction.rate(self._sliding(touch), x)

    # --- all spots --------------------------------------------------------------------------------------------------------------------

    def _each(self, function: Callable[..., Any], touch: Touch, x: Array) -> Any:
        """function(touch, x) of every spot."""
        if self.spots == 1:
            return function(touch, x)
        return jax.vmap(function)(touch, x.reshape(self.spots, -1))

    def loads(self, touch: Touch, frames: tuple[Frame, ...], x: Array) -> ContactLoads:
        return self._each(lambda touch, x: self._spot_loads(touch, frames, x), touch, x)

    def initial_state(self):
        if self.friction is None:
            return jnp.zeros(0)
        return jnp.tile(self.friction.initial_state(1 if self.dimension == 2 else 3), self.spots)

    def state_rate(self, local, frames, angles, t, x):
        if self.friction is None:
            return jnp.zeros_like(x)
        return jnp.ravel(self._each(self._spot_rate, self.touch(local, frames), x))

    def wrench(self, local, frames, angles, t, x):
        wrench = self._each(lambda touch, x: self._spot_wrench(touch, frames, x), self.touch(local, frames), x)
        return wrench if self.spots == 1 else jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), wrench)

    def potential(self, local, frames, angles):
        depth = self.touch(local, frames).depth
        return self.law.energy(depth) if self.spots == 1 else jnp.sum(jax.vmap(self.law.energy)(depth))


# --- what pairs have in common ------------------------------------------------------------------------------------------------------------


class OnFace(eqx.Module):
    """A round shape of a on a straight face of b, in their own frames."""

    centre: Float[Array, "3"]
    """in a"""
    point: Float[Array, "3"]
    """in b"""
    normal: Float[Array, "3"]
    """unit vector in b"""

    def spot(self, frames: tuple[Frame, ...], radius: Array) -> tuple[Array, Array, Array, Array]:
        """(point, normal, depth, travel) of their touch, at the round shape's nearest point to the face."""
        a, b = frames
        centre, normal = a.point(self.centre), b.direction(self.normal)
        depth = radius - dot(normal, centre - b.point(self.point))
        travel = a.velocity_at(centre) - b.velocity_at(centre)
        return centre - radius * normal, normal, depth, travel


class SideBySide(eqx.Module):
    """Two round shapes, in their own frames."""

    centre_a: Float[Array, "3"]
    """in a"""
    centre_b: Float[Array, "3"]
    """in b"""

    def spot(self, frames: tuple[Frame, ...], radius_a: Array, radius_b: Array) -> tuple[Array, Array, Array, Array]:
        """(point, normal, depth, travel) of their touch, in the middle of the overlap."""
        a, b = frames
        centre_a, centre_b = a.point(self.centre_a), b.point(self.centre_b)
        normal, distance = direction(centre_a - centre_b)
        depth = radius_a + radius_b - distance
        arm = radius_b - 0.5 * depth
        travel = over(arm * (a.velocity_at(centre_a) - b.velocity_at(centre_a)), distance)
        return centre_b + arm * normal, normal, depth, travel


_UP = np.array([0.0, 0.0, 1.0])


def planar_touch(frames: tuple[Frame, ...], point: Array, normal: Array, depth: Array, travel: Array) -> Touch:
    """A touch in the plane: the tangent is the normal turned by +90 degrees."""
    a, b = frames
    return Touch.between(a, b, point, normal, cross(jnp.asarray(_UP), normal)[None], depth, travel)


def spatial_touch(
    friction: AbstractFriction | None, frames: tuple[Frame, ...], point: Array, normal: Array, depth: Array, travel: Array
) -> Touch:
    """A touch in space. `travel` may have a part along the normal, which does not count."""
    a, b = frames
    if friction is not None and friction.memory:
        # R_b^T (I - n n^T)
        tangents = b.rotation.T - dot(b.rotation.T, normal)[:, None] * normal
        return Touch.between(a, b, point, normal, tangents, depth, travel)
    relative = a.velocity_at(point) - b.velocity_at(point)
    along = dot(normal, relative)
    entrainment = 0.5 * relative - travel
    return Touch(
        point,
        normal,
        jnp.asarray(np.eye(3)) - normal[:, None] * normal,
        depth,
        -along,
        relative - along * normal,
        dot(normal, a.angular_velocity - b.angular_velocity),
        entrainment - dot(normal, entrainment) * normal,
    )


def direction(u: Array) -> tuple[Array, Array]:
    """(unit vector, length) of a vector; where it is zero the direction is zero too, and derivatives are finite."""
    length = norm(u)
    return u / jnp.where(length > 0, length, 1.0), length


def over(numerator: Array, length: Array) -> Array:
    """numerator / length, zero where the length is."""
    return jnp.where(length > 0, numerator, 0.0) / jnp.where(length > 0, length, 1.0)
