"""A bearing's bodies, contacts and joints."""

from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..system.bodies import AbstractBody, RigidBody
from ..system.contact import AbstractContact
from ..system.contact_laws import HuntCrossley
from ..system.drivers import Motion
from ..system.elements import ground
from ..system.forces import PointForce
from ..system.friction import AbstractFriction
from ..system.hertz import HertzPoint
from ..system.joints import AbstractJoint, Cylindrical, Fixed, Parallel, Penalty, Planar, Revolute
from ..system.model import Model
from ..system.parameters import Parameter, scalar
from ..system.rotors import Rotor
from . import geometry

if TYPE_CHECKING:
    from .deep_groove import DeepGroove
    from .start import Start

AXIS = (0.0, 0.0, 1.0)
CENTRE = (0.0, 0.0, 0.0)
RINGS = ("inner", "outer")


class Turning(eqx.Module):
    """An angle that grows at a constant speed."""

    speed: Float[Array, ""]
    """rad/s"""
    parameters: ClassVar[dict[str, Parameter]] = {"speed": scalar("rad/s")}

    def __call__(self, t: Array) -> Array:
        return self.speed * t


def model(bearing: "DeepGroove", start: "Start") -> Model:
    """All of it."""
    bodies = [*rings(bearing, start.inner_position, bearing.rings), *balls(bearing, start), cage(bearing, start)]
    contacts = [*races(bearing, start.ball_position), *pockets(bearing, start), *guidance(bearing, start)]
    joints = penalty_joints(bearing) if bearing.rings == "penalty" else []
    return Model(bodies, joints, [*contacts, load(bearing, start.inner_position)])


# --- bodies -------------------------------------------------------------------------------------------------------------------------------


def ring_inertia(bearing: "DeepGroove", ring: str) -> geometry.Inertia:
    land = 2.0 * bearing.land(ring)
    inner = ring == "inner"
    radius = getattr(bearing, f"conformity_{ring}") * bearing.ball_diameter
    return geometry.ring_inertia(
        bearing.bore if inner else land,
        land if inner else bearing.outside_diameter,
        bearing.width,
        bearing.groove_circle(ring),
        radius,
        bearing.material.density,  # pyright: ignore[reportArgumentType] (checked by the bearing)
        inner,
    )


def rings(bearing: "DeepGroove", inner_position: Any, kind: str) -> list[AbstractBody]:
    made = []
    for ring, speed, position, free in (
        ("inner", bearing.inner_speed, inner_position, bearing.free),
        ("outer", bearing.outer_speed, CENTRE, ""),
    ):
        inertia = ring_inertia(bearing, ring)
        if kind == "prescribed":
            made.append(Rotor(ring, inertia.mass, inertia.axial, AXIS, speed, position, free=free))
        else:
            made.append(RigidBody(ring, inertia.mass, inertia.moments, position, angular_velocity=_about_axis(speed)))
    return made


def _about_axis(speed: Any) -> Array:
    return jnp.asarray(speed) * np.array(AXIS)


def balls(bearing: "DeepGroove", start: "Start") -> list[AbstractBody]:
    inertia = geometry.ball_inertia(bearing.ball_diameter, bearing.material.density)  # pyright: ignore[reportArgumentType]
    rows = zip(start.ball_position, start.ball_velocity, start.ball_spin, strict=True)
    return [
        RigidBody(f"ball[{i}]", inertia.mass, inertia.moments, position, velocity=velocity, angular_velocity=spin)
        for i, (position, velocity, spin) in enumerate(rows)
    ]


def cage_position(bearing: "DeepGroove", start: "Start") -> Array:
    """The middle of the balls, but for the offset that is asked for."""
    middle = jnp.mean(start.ball_position[:, 2])
    return jnp.stack([jnp.zeros(()), jnp.zeros(()), middle]) + bearing.cage_offset


def cage(bearing: "DeepGroove", start: "Start") -> AbstractBody:
    inertia = geometry.cage_inertia(bearing.cage_mass, bearing.pitch_diameter, bearing.cage_width)
    spin = _about_axis(bearing.cage_speed_ratio * start.orbit)
    return RigidBody("cage", inertia.mass, inertia.moments, cage_position(bearing, start), angular_velocity=spin)


def races_only(bearing: "DeepGroove", position: Any, ring: Any, friction: AbstractFriction | None) -> Model:
    """Prescribed rings and some balls at rest, without a cage; the axial load is the share of so many balls."""
    inertia = geometry.ball_inertia(bearing.ball_diameter, bearing.material.density)  # pyright: ignore[reportArgumentType]
    made = [RigidBody(f"ball[{i}]", inertia.mass, inertia.moments, place) for i, place in enumerate(position)]
    share = len(made) / bearing.balls
    return Model(
        [*rings(bearing, ring, "prescribed"), *made],
        [],
        [*races(bearing, position, friction), load(bearing, ring, share)],
    )


# --- contacts and loads -------------------------------------------------------------------------------------------------------------------


def load(bearing: "DeepGroove", inner_position: Any, share: float = 1.0) -> PointForce:
    zero = jnp.zeros(())
    force = share * jnp.stack([bearing.radial_load + zero, zero, bearing.axial_load + zero])
    return PointForce("load", "inner", inner_position, force)


def _law(point: HertzPoint, stiffness: Any, damping: Any) -> HuntCrossley:
    """Hunt and Crossley's law with the spot of the geometry, and its stiffness unless another is given."""
    if stiffness is not None:
        point = eqx.tree_at(lambda p: p.stiffness, point, jnp.asarray(stiffness))
    return HuntCrossley(point, damping)
