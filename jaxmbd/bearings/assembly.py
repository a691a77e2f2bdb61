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
from ..system.joints import AbstractJoint, Cylindrical, Parallel, Penalty, Planar, Revolute
from ..system.model import Model
from ..system.parameters import Parameter, scalar
from ..system.rotors import Rotor
from . import geometry
from ._pairs import SphereGroove, SpherePocket

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
    contacts = [
        *races(bearing, start.ball_position, bearing.friction, start.inner_position),
        *pockets(bearing, start),
        *guidance(bearing, start),
    ]
    joints = penalty_joints(bearing, start.inner_position) if bearing.rings == "penalty" else []
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
        [*races(bearing, position, friction, ring), load(bearing, ring, share)],
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


def races(bearing: "DeepGroove", position: Any, friction: AbstractFriction | None, inner_position: Any) -> list[AbstractContact]:
    """Balls on both rings."""
    made = []
    for ring, centre in (("inner", inner_position), ("outer", CENTRE)):
        law = _law(bearing.hertz(ring), getattr(bearing, f"stiffness_{ring}"), bearing.damping)
        made += [
            SphereGroove(
                f"ball_{ring}[{i}]",
                f"ball[{i}]",
                ring,
                radius=0.5 * bearing.ball_diameter,
                centre=centre,
                axis=AXIS,
                pitch_radius=bearing.groove_circle(ring),
                groove_radius=getattr(bearing, f"conformity_{ring}") * bearing.ball_diameter,
                law=law,
                friction=friction,
            )
            for i in range(len(position))
        ]
    return made


def pockets(bearing: "DeepGroove", start: "Start") -> list[AbstractContact]:
    """Balls in the cage's pockets."""
    radius = 0.5 * bearing.ball_diameter
    pocket = radius + bearing.pocket_clearance
    point = HertzPoint.spheres(radius, -pocket, bearing.material, bearing.cage_material)
    law = _law(point, None, bearing.cage_damping)
    middle = cage_position(bearing, start)
    angles = 2 * np.pi * np.arange(bearing.balls) / bearing.balls
    around = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    return [
        SpherePocket(
            f"ball_pocket[{i}]",
            f"ball[{i}]",
            "cage",
            radius=radius,
            point=middle + 0.5 * bearing.pitch_diameter * out,
            pocket_radius=pocket,
            law=law,
            friction=bearing.cage_friction,
        )
        for i, out in enumerate(around)
    ]


def guidance(bearing: "DeepGroove", start: "Start") -> list[AbstractContact]:
    return []


# --- penalty joints -----------------------------------------------------------------------------------------------------------------------


def _penalty(bearing: "DeepGroove", ring: str) -> Penalty:
    """Springs on which the ring would swing at the penalty frequency, with the damping ratio that is asked for."""
    inertia, frequency = ring_inertia(bearing, ring), bearing.penalty_frequency
    loss = 2.0 * bearing.penalty_damping_ratio * frequency
    return Penalty(inertia.mass * frequency**2, inertia.mass * loss, inertia.axial * frequency**2, inertia.axial * loss)


def penalty_joints(bearing: "DeepGroove", inner_position: Any) -> list[AbstractJoint]:
    """The outer ring is held or driven, the inner ring driven in rotation, kept from tilting, and held where it is not free."""
    outer, inner = _penalty(bearing, "outer"), _penalty(bearing, "inner")
    guides = {"": Revolute, "z": Cylindrical, "xy": Planar}
    if bearing.free == "xyz":
        guide = Parallel("guide", ground, "inner", AXIS, penalty=inner)
    else:
        guide = guides[bearing.free]("guide", ground, "inner", inner_position, AXIS, penalty=inner)
    drive = Motion("drive", ground, "inner", None, AXIS, Turning(jnp.asarray(bearing.inner_speed)), penalty=inner)
    return [
        Revolute("hold", ground, "outer", CENTRE, AXIS, penalty=outer),
        Motion("outer_drive", ground, "outer", None, AXIS, Turning(jnp.asarray(bearing.outer_speed)), penalty=outer),
        guide,
        drive,
    ]
