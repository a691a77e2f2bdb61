"""A bearing's bodies, contacts and joints."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..system.bodies.base import AbstractBody
from ..system.bodies.rigid import RigidBody
from ..system.bodies.rotor import Rotor
from ..system.building.model import Model
from ..system.contact.base import AbstractContact
from ..system.contact.friction import AbstractFriction
from ..system.contact.hertz import HertzPoint, line_stiffness
from ..system.contact.laws import HertzLine, HuntCrossley
from ..system.contact.raceways import CylinderCylinder, CylindricalPocket, SphereGroove, SphericalPocket
from ..system.elements import ground
from ..system.forces.loads import PointForce
from ..system.joints.base import AbstractJoint, Penalty
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Cylindrical, Parallel, Planar, Revolute
from . import geometry, looks

if TYPE_CHECKING:
    from .deep_groove import DeepGroove
    from .start import Start

AXIS = (0.0, 0.0, 1.0)
CENTRE = (0.0, 0.0, 0.0)
RINGS = ("inner", "outer")


def model(bearing: "DeepGroove", start: "Start") -> Model:
    """All of it."""
    bodies = [*rings(bearing, start.inner_position, bearing.rings), *balls(bearing, start), cage(bearing, start)]
    contacts = [*races(bearing, bearing.balls, bearing.friction), *pockets(bearing, start), *guidance(bearing)]
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
        inertia, shape = ring_inertia(bearing, ring), looks.ring(bearing, ring)
        if kind == "prescribed":
            made.append(Rotor(ring, inertia.mass, inertia.axial, AXIS, speed, position, free=free, shape=shape))
        else:
            made.append(RigidBody(ring, inertia.mass, inertia.moments, position, angular_velocity=_about_axis(speed), shape=shape))
    return made


def _about_axis(speed: Any) -> Array:
    return jnp.asarray(speed) * np.array(AXIS)


def balls(bearing: "DeepGroove", start: "Start") -> list[AbstractBody]:
    inertia = geometry.ball_inertia(bearing.ball_diameter, bearing.material.density)  # pyright: ignore[reportArgumentType]
    rows, shape = zip(start.ball_position, start.ball_velocity, start.ball_spin, strict=True), looks.ball(bearing)
    return [
        RigidBody(f"ball[{i}]", inertia.mass, inertia.moments, position, velocity=velocity, angular_velocity=spin, shape=shape)
        for i, (position, velocity, spin) in enumerate(rows)
    ]


def cage_position(bearing: "DeepGroove", start: "Start") -> Array:
    """The middle of the balls, but for the offset that is asked for."""
    middle = jnp.mean(start.ball_position[:, 2])
    return jnp.stack([jnp.zeros(()), jnp.zeros(()), middle]) + bearing.cage_offset


def cage(bearing: "DeepGroove", start: "Start") -> AbstractBody:
    inertia = geometry.cage_inertia(bearing.cage_mass, bearing.pitch_diameter, bearing.cage_width)
    spin = _about_axis(bearing.cage_speed_ratio * start.orbit)
    return RigidBody("cage", inertia.mass, inertia.moments, cage_position(bearing, start), angular_velocity=spin, shape=looks.cage(bearing))


def races_only(bearing: "DeepGroove", position: Any, ring: Any, friction: AbstractFriction | None) -> Model:
    """Prescribed rings and some balls at rest, without a cage; the axial load is the share of so many balls."""
    inertia = geometry.ball_inertia(bearing.ball_diameter, bearing.material.density)  # pyright: ignore[reportArgumentType]
    made = [RigidBody(f"ball[{i}]", inertia.mass, inertia.moments, place) for i, place in enumerate(position)]
    share = len(made) / bearing.balls
    return Model(
        [*rings(bearing, ring, "prescribed"), *made],
        [],
        [*races(bearing, len(made), friction), load(bearing, ring, share)],
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


def races(bearing: "DeepGroove", count: int, friction: AbstractFriction | None) -> list[AbstractContact]:
    """Balls on both rings."""
    made = []
    for ring, side in (("inner", "outside"), ("outer", "inside")):
        law = _law(bearing.hertz(ring), getattr(bearing, f"stiffness_{ring}"), bearing.damping)
        made += [
            SphereGroove(
                f"ball_{ring}[{i}]",
                f"ball[{i}]",
                ring,
                radius=0.5 * bearing.ball_diameter,
                groove_radius=getattr(bearing, f"conformity_{ring}") * bearing.ball_diameter,
                pitch_radius=bearing.groove_circle(ring),
                axis=AXIS,
                law=law,
                friction=friction,
                side=side,
            )
            for i in range(count)
        ]
    return made


def pockets(bearing: "DeepGroove", start: "Start") -> list[AbstractContact]:
    """Balls in the cage's pockets."""
    radius = 0.5 * bearing.ball_diameter
    pocket = radius + bearing.pocket_clearance
    if bearing.pocket == "spherical":
        point = HertzPoint.spheres(radius, -pocket, bearing.material, bearing.cage_material)
    else:
        point = HertzPoint(jnp.ones(2) / radius, jnp.stack([-1.0 / pocket, 0.0 * pocket]), bearing.material, bearing.cage_material)
    law, middle = _law(point, None, bearing.cage_damping), cage_position(bearing, start)
    angles = 2 * np.pi * np.arange(bearing.balls) / bearing.balls
    made = []
    for i, out in enumerate(np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)):
        shape: dict[str, Any] = {"radius": radius, "pocket_radius": pocket, "point": middle + 0.5 * bearing.pitch_diameter * out}
        kind = SphericalPocket
        if bearing.pocket == "cylindrical":
            kind, shape["axis"] = CylindricalPocket, out
        made.append(kind(f"ball_pocket[{i}]", f"ball[{i}]", "cage", law=law, friction=bearing.cage_friction, **shape))
    return made


def guidance(bearing: "DeepGroove") -> list[AbstractContact]:
    """The cage on the land of a ring, touching with either half of its width."""
    if bearing.guidance == "balls":
        return []
    law = HertzLine(line_stiffness(0.5 * bearing.cage_width, bearing.material, bearing.cage_material), bearing.cage_damping)
    land = bearing.land(bearing.guidance)
    outer = bearing.guidance == "outer"
    return [
        CylinderCylinder(
            "guidance",
            "cage" if outer else "inner",
            "outer" if outer else "cage",
            radius=land - bearing.guidance_clearance if outer else land,
            bore_radius=land if outer else land + bearing.guidance_clearance,
            width=bearing.cage_width,
            axis=AXIS,
            law=law,
            friction=bearing.cage_friction,
        )
    ]


# --- penalty joints -----------------------------------------------------------------------------------------------------------------------


class Turning(eqx.Module):
    """The angle of a ring that is driven at a constant speed."""

    speed: Float[Numbers, "*stack"]
    """rad/s"""

    def __call__(self, t: Array) -> Array:
        return self.speed * t


def penalty_joints(bearing: "DeepGroove", inner_position: Any) -> list[AbstractJoint]:
    """The outer ring is held, the inner ring is guided: kept from tilting, and held where it is not free. Both are driven. On its joints
    alone a ring would swing at the penalty frequency, with the damping ratio that is asked for."""
    frequency = bearing.penalty_frequency
    loss = 2.0 * bearing.penalty_damping_ratio * frequency
    made: list[AbstractJoint] = []
    for name, ring, place, speed, free in (
        ("hold", "outer", CENTRE, bearing.outer_speed, ""),
        ("guide", "inner", inner_position, bearing.inner_speed, bearing.free),
    ):
        inertia = ring_inertia(bearing, ring)
        penalty = Penalty(inertia.mass * frequency**2, inertia.mass * loss, inertia.axial * frequency**2, inertia.axial * loss)
        if free == "xyz":
            made.append(Parallel(name, ground, ring, AXIS, penalty=penalty))
        else:
            kind = {"": Revolute, "z": Cylindrical, "xy": Planar}[free]
            made.append(kind(name, ground, ring, place, AXIS, penalty=penalty))
        made.append(Motion(f"drive_{ring}", ground, ring, axis=AXIS, function=Turning(jnp.asarray(speed)), penalty=penalty))
    return made
