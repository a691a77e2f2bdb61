"""Mechanisms with beams."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..system.bodies.planar import PlanarBody
from ..system.bodies.point_mass import PointMass
from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.contact.friction import LuGre
from ..system.contact.hertz import Material
from ..system.contact.laws import LinearContact
from ..system.contact.planar import DiscLine
from ..system.contact.spheres import SpherePlane
from ..system.elements import ground
from ..system.flexible.beam import Beam
from ..system.flexible.section import Section
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Fixed, Spherical, Translational
from .impacts import RaisedCosine
from .linkages import ConstantSpeed
from .rods import hinge, rod


def cam_beam(elements: int = 8, spatial: bool = True) -> Model:
    """A driven, flexible cam swings an impactor against a body on a flexible beam: contact of 2 GN/m, LuGre friction.

    The problem of Bottasso, Bauchau and Cardona (2007), section 5, Figure 9: their drive, masses, stiffnesses, contact and friction. What the
    paper leaves open is marked (*). The motion is plane, without gravity:

        clamp ============ target ============ mass      the beam, 2.4 m along x at y = 0.44412 m (*), clamped at x = -1.2 m, with
                     (o) impactor                        40 kg at its free end; at its middle the target, 4 kg, whose lower face is
                    /                                    0.05 m (*) below, a block of 0.4 m along the beam (*)
                   / cam                                 the cam, 0.4 m, hinged at (-0.20392, 0) m (*), starts 30 degrees above the x
                                                         axis (*) and turns by pi/3 (1 - cos(2 pi/3 t)) rad; the impactor, 4 kg, is a
                                                         sphere of 0.05 m (*) at its tip

    Beam and cam have EA = 44 MN, GJ = 28 kN m^2, 1.6 kg/m; against bending in the plane EI = 23 kN m^2 (beam) and 300 kN m^2 (cam), out of it
    the other way round; k GA = 8.5 MN (*) and a damping of 1e-5 s in proportion to stiffness (*). The impactor meets the target at 0.494 s in
    the middle of the beam. The contact has 1e-3 N s/m in parallel (the paper's "10^-3" has no unit), friction sigma_0 = 1e5 1/m, v_s = 1 mm/s,
    mu_k = mu_s = 0.3, gamma = 2. How often the impactor bounces after that depends on the last digit.

    `elements` of the beam, an even number; the cam has half as many. In the plane (`spatial=False`) there are fewer equations for the same
    motion.

    Names: beam and cam (nodes "beam[0]" ... ), impactor, target, mass, pivot (ground, cam), drive, clamp (ground, beam), tip (cam, impactor),
    middle (beam, target), end (beam, mass), contact.
    """
    if isinstance(elements, bool) or not isinstance(elements, int) or elements < 2 or elements % 2:
        raise ValueError(f"cam_beam needs an even number of elements, at least 2, got {elements!r}.")
    length, radius, start, height = 0.4, 0.05, np.pi / 6, 0.44412
    hinged = np.array([-0.20392, 0.0])
    tip = hinged + length * np.array([np.cos(start), np.sin(start)])
    face = (0.0, height - 0.05)
    soft, hard = 23e3, 300e3

    def at(point):
        return (*point, 0.0) if spatial else tuple(point)

    def section(bending, lateral):
        return Section(
            44e6, bending, 1.6, lateral_bending_stiffness=lateral, torsional_stiffness=28e3, shear_stiffness=8.5e6, half_sizes=(0.02,)
        )

    def body(name, mass, inertia, point):
        return RigidBody(name, mass, (inertia,) * 3, at(point)) if spatial else PlanarBody(name, mass, inertia, point)

    beam = Beam("beam", at((-1.2, height)), at((1.2, height)), section(soft, hard), elements, damping=1e-5)
    cam = Beam("cam", at(hinged), at(tip), section(hard, soft), elements // 2, damping=1e-5)
    impactor = body("impactor", 4.0, 0.4 * 4.0 * radius**2, tip)
    target = body("target", 4.0, 4.0 * (0.4**2 + 0.1**2) / 12, (0.0, height))
    mass = PointMass("mass", 40.0, at((1.2, height)))
    law = LinearContact(stiffness=2e9, damping=1e-3)
    friction = LuGre(bristle_stiffness=1e5, static=0.3, kinetic=0.3, stribeck_velocity=1e-3, exponent=2.0)
    kind = SpherePlane if spatial else DiscLine
    where = {"radius": radius, "point": at(face), "normal": at((0.0, -1.0)), "centre": at(tip)}
    turning = RaisedCosine(jnp.asarray(np.pi / 3), jnp.asarray(2 * np.pi / 3))
    return Model(
        [beam, cam, impactor, target, mass],
        [
            hinge("pivot", ground, cam.start, hinged, spatial),
            Motion("drive", ground, cam.start, axis=(0, 0, 1) if spatial else None, function=turning),
            Fixed("clamp", ground, beam.start),
            Fixed("tip", cam.end, impactor),
            Fixed("middle", beam.nodes[elements // 2], target),
            Spherical("end", beam.end, mass, at((1.2, height))),
        ],
        [kind("contact", impactor, target, **where, law=law, friction=friction)],
    )


class SpinUp(eqx.Module):
    """An angle at rest at first, whose rate grows smoothly to a speed within a time, and stays there."""

    speed: Float[Numbers, "*stack"]
    """rad/s"""
    duration: Float[Numbers, "*stack"]
    """s"""

    def __call__(self, t: Array) -> Array:
        share = jnp.minimum(t / self.duration, 1.0)
        wave = (jnp.cos(2 * jnp.pi * share) - 1.0) / (2 * jnp.pi) ** 2
        return self.speed * self.duration * (0.5 * share**2 + wave) + self.speed * jnp.maximum(t - self.duration, 0.0)


def rotating_beam(elements: int = 8) -> Model:
    """A flexible arm of 10 m is spun up about one end within 15 s to 6 rad/s: it lags behind, and is stretched straight.

    The manoeuvre of Kane, Ryan and Banerjee (1987) with the arm of Simo and Vu-Quoc (1986): EA = 28 MN, k GA = 10 MN, EI = 14 kN m^2, 1.2 kg/m.
    A theory without the stiffening by centrifugal forces diverges. At the end it stands radially, longer by
    m w^2 L^3 / (3 EA) = 0.514 mm. Planar, without gravity.

    Names: arm (nodes "arm[0]" ...; "arm.end.x"), hub (ground, arm), drive (`drive.speed`, `drive.duration`).
    """
    section = Section(2.8e7, 1.4e4, 1.2, shear_stiffness=1e7)
    arm = Beam("arm", (0.0, 0.0), (10.0, 0.0), section, elements)
    drive = Motion("drive", ground, arm.start, function=SpinUp(jnp.asarray(6.0), jnp.asarray(15.0)))
    return Model([arm], [hinge("hub", ground, arm.start, (0.0, 0.0)), drive])


def slider_crank_flexible(elements: int = 8, modulus: float = 5e9) -> Model:
    """The problem `slider-crank` at thrice the speed, with a connecting rod that bends: a bar of 0.3 m, 10 mm high, of a soft material.

    The crank of 0.1 m turns six times a second; the rod has the mass of the rigid one, 0.8 kg, in a width of 267 mm of 1000 kg/m^3. `modulus` is
    in Pa. Planar, without gravity; damping of 1e-4 s in proportion to stiffness.

    Names: crank, rod (nodes "rod[0]" ...), piston, main_bearing, crank_pin, piston_pin, cylinder, motor (`motor.speed` in rad/s).
    """
    if isinstance(elements, bool) or not isinstance(elements, int) or elements < 2:
        raise ValueError(f"slider_crank_flexible needs a whole number of elements, at least 2, got {elements!r}.")
    r, length, speed, height = 0.1, 0.3, 12 * np.pi, 0.01
    pin, end = np.array([r, 0.0]), np.array([r + length, 0.0])
    crank = rod("crank", 0.5, r, (0.0, 0.0), 0.0, angular_velocity=speed)
    section = Section.rectangle(Material(modulus, 0.3, 1000.0), height, 0.8 / (1000.0 * height * length))
    turning = -speed * r / length  # in the dead centre, the far end of the connecting rod stands still
    connecting = Beam("rod", pin, end, section, elements, damping=1e-4, velocity=(0.0, speed * r), angular_velocity=turning)
    piston = PlanarBody("piston", 0.4, inertia=2e-4, position=end)
    return Model(
        [crank, connecting, piston],
        [
            hinge("main_bearing", ground, crank, (0.0, 0.0)),
            hinge("crank_pin", crank, connecting.start, pin),
            hinge("piston_pin", connecting.end, piston, end),
            Translational("cylinder", ground, piston, end, axis=(1.0, 0.0)),
            Motion("motor", ground, crank, function=ConstantSpeed(jnp.asarray(speed))),
        ],
    )
