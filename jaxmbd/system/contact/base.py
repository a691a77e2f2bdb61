"""Contact: bodies that push each other apart where they overlap.

A contact is a *pair* of shapes, which finds where and how deep they overlap (`Touch`), a normal law (`laws`), which turns depth and its
rate into a force, and perhaps a friction law (`friction`). Pairs, laws and friction know nothing of each other; a new one of each is a
small class. A pair may touch at several spots at once (the corners of a box): its `Touch` has a first axis then.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..forces.base import AbstractForce
from ..frames import Frame, Wrench, norm, pair_wrench
from ..observable import CONTACT, Observable
from ..rotations import dot
from .friction import AbstractFriction, Sliding
from .laws import AbstractContactLaw
from .touch import Touch, planar_touch, spatial_touch


class ContactLoads(eqx.Module):
    """What a contact does. In the plane slip and friction are one number, along the normal turned by +90 degrees; in space vectors in the
    ground's axes."""

    gap: Float[Numbers, "..."]
    """m; negative: the bodies overlap"""
    normal_force: Float[Numbers, "..."]
    """N; negative only where an adhesive law pulls"""
    slip: Float[Numbers, "..."]
    """m/s, of the first body over the second"""
    friction: Float[Numbers, "..."]
    """N, on the first body"""
    slip_speed: Float[Numbers, "..."]
    """m/s, not negative"""
    spin: Float[Numbers, "..."]
    """rad/s, of the first body against the second about the normal"""
    spin_torque: Float[Numbers, "..."]
    """N m, on the first body about the normal"""
    power: Float[Numbers, "... 2"]
    """W, the rate at which the contact changes the energy of the first and of the second body"""
    point: Float[Numbers, "... d"]
    """m, where it acts"""
    normal: Float[Numbers, "... d"]
    """unit vector along which the first body is pushed"""
    pressure: Float[Numbers, "..."] | None
    """Pa, the largest; None: the normal law does not know its spot"""
    film: Float[Numbers, "..."] | None
    """m, central thickness of the lubricant film, zero in an open contact; None: the friction law knows of none"""
    minimum_film: Float[Numbers, "..."] | None
    """m, its smallest thickness"""


class AbstractContact(AbstractForce):
    """A pair of shapes on two bodies. A child has the shapes and finds the `Touch`; forces, states and energy follow.

    A pair of your own is a small class. Its fields are the numbers of its shapes, points and directions in the ground's frame at the initial
    configuration. A ball in a bowl, a hollow sphere of body b:

    ```python
    from typing import ClassVar

    import jax
    import jax.numpy as jnp
    import jaxmbd as mbd


    class BallInBowl(mbd.AbstractContact):
        radius: jax.Array  # m, of the ball about the centre of mass of a
        bowl_radius: jax.Array  # m
        centre: jax.Array  # m, of the bowl
        dimension: ClassVar[int] = 3  # of a spatial model
        parameters: ClassVar[dict[str, mbd.parameters.Parameter]] = {
            "radius": mbd.parameters.positive("m"),
            "bowl_radius": mbd.parameters.positive("m"),
            "centre": mbd.parameters.vector("m", 3),
        }

        def __init__(self, name, a, b, radius, bowl_radius, centre, law, friction=None):
            self.read_pair(name, a, b, law, friction, radius=radius, bowl_radius=bowl_radius, centre=centre)

        def size(self):
            return self.radius

        def local(self, frames):
            return frames[1].local_point(self.centre)  # what does not change, once and for all, in the bodies' own frames

        def touch(self, local, frames):
            ball, bowl = frames
            offset = ball.position - bowl.point(local)
            square = offset @ offset
            distance = jnp.sqrt(jnp.where(square > 0, square, 1.0))  # a ball in the middle has no direction, but finite derivatives
            out = jnp.where(square > 0, offset / distance, 0.0)
            depth = jnp.where(square > 0, distance, 0.0) + self.radius - self.bowl_radius
            return self.touch_at(frames, ball.position + (self.radius - 0.5 * depth) * out, -out, depth)
    ```

    Each class of pairs is evaluated for all its pairs at once by `jax.vmap`; everything must be traceable, and its derivatives finite. The
    depth's rate is that of the bodies' velocities at the point along the normal, so the point must be where the surfaces face each other: on the
    line along which the depth is measured. `size` [m] says what an overlap at the start is compared with. A pair with several spots sets
    `spots` and returns a `Touch` with a first axis, by `jax.vmap` of `touch_at`. `point_like` says which of the two bodies, 0 and 1, may be a
    point mass.
    """

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
    has_switches: ClassVar[bool] = True
    observables: ClassVar[dict[str, Observable]] = CONTACT
    dimension: eqx.AbstractClassVar[int]
    """2: the shapes live in the plane"""
    spots: ClassVar[int] = 1
    """How many spots it has; with more than one, `touch` has a first axis."""

    def read_pair(
        self, name: str, a: Any, b: Any, law: Any, friction: Any = None, stiff: bool = False, allow_overlap: bool = False, **shapes: Any
    ) -> None:
        """The part of a constructor that all pairs share; `shapes` are the numbers of the child's own fields, checked by its `parameters`."""
        self.read_element(name, (a, b), **shapes)
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

    @abc.abstractmethod
    def touch(self, local: Any, frames: tuple[Frame, ...]) -> Touch:
        """Where the shapes overlap, or come nearest."""

    def touch_at(self, frames: tuple[Frame, ...], point: Array, normal: Array, depth: Array, travel: Array | None = None) -> Touch:
        """The touch at a point [m] with a unit normal, along which a is pushed, both of three components in the ground's axes (z = 0 in the
        plane), and a depth [m]. `travel` [m/s] is the velocity of the spot as b sees it, in the ground's axes; only lubricated friction asks
        for it (None: the spot rests on b)."""
        travel = jnp.zeros(3) if travel is None else travel
        if self.dimension == 2:
            return planar_touch(frames, point, normal, depth, travel)
        return spatial_touch(self.friction, frames, point, normal, depth, travel)

    @abc.abstractmethod
    def size(self) -> Array:
        """m, what an overlap is to be compared with: as a rule the smallest radius of the pair."""

    # --- one spot ---------------------------------------------------------------------------------------------------------------------

    def _sliding(self, touch: Touch) -> Sliding:
        normal_force = self.law.force(touch.depth, touch.rate)
        return Sliding(touch.slip, touch.depth, touch.spin, touch.entrainment, normal_force, self.law.spot)

    def _push(self, touch: Touch, sliding: Sliding, x: Array) -> tuple[Array, Array]:
        """(friction force along the tangents, torque about the normal) on a"""
        if self.friction is None:
            return jnp.zeros_like(touch.slip), jnp.zeros_like(touch.depth)
        load = jnp.maximum(sliding.normal_force, 0.0) if self.law.pulls else sliding.normal_force
        friction = -load * self.friction.coefficient(sliding, x)
        if self.dimension == 2:
            return friction, jnp.zeros_like(touch.depth)
        return friction, -load * self.friction.spinning(sliding, x)

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

    def switches(self, local: Any, frames: tuple[Frame, ...], angles: Array) -> Float[Array, "n"]:
        """Of the law, at all spots."""
        touch = self.touch(local, frames)
        if self.spots == 1:
            return self.law.switches(touch.depth, touch.rate)
        return jax.vmap(self.law.switches)(touch.depth, touch.rate).ravel()

    def potential(self, local, frames, angles):
        depth = self.touch(local, frames).depth
        return self.law.energy(depth) if self.spots == 1 else jnp.sum(jax.vmap(self.law.energy)(depth))
