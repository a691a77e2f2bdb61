"""A poly-V belt that drives the accessories of a car engine."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Number, Numbers
from ..system.building.model import Model
from ..system.contact.friction import Coulomb
from ..system.contact.laws import SmoothContact
from ..system.contact.turned import PointPulley
from ..system.elements import ground
from ..system.forces.loads import Torque
from ..system.forces.springs import TorsionSpringDamper
from ..system.forces.symmetric import SymmetricBushing
from ..system.frames import Frame
from ..system.joints.one_axis import Revolute
from ..system.shapes import Box, Disc
from .loops import Chords, Circle, Layout, Path, box_inertia, close, disc_inertia

LENGTH, WIDTH, HEIGHT, MASS_PER_LENGTH = 1.1, 0.02136, 0.0045, 0.105
"""m, m, m, kg/m: a belt of six ribs, unstretched"""
TENSION_STIFFNESS, SHEAR_STIFFNESS, BENDING_STIFFNESS, TORSION_STIFFNESS = 1e5, 2.2e4, 0.015, 0.05
"""EA and G A [N], E I and G J [N m^2]. Across its width the cords make the belt stiff: E A width^2 / 12."""
DAMPING, BENDING_DAMPING = 0.022, 2.2e-7
"""N s, N m^2 s: dampers are these over the length of a segment"""
PRELOAD = 300.0
"""N, tension at the start"""
CONTACT_STIFFNESS, SOFTNESS, CONTACT_DAMPING = 1e6 / 0.011, 5e-5, 0.1
"""N/m and metre of belt, m, s/m"""
FRICTION, CREEP_SPEED = 0.8, 0.1
"""1, m/s"""
FLANGE_GAP, FLANGE_RADIUS = 5e-4, 5e-3
"""m, by which the pulleys' grooves are wider than the ribs, and the fillet of their sides"""
SPEED, RISE, GAIN = 90.0, 0.05, 5.0
"""rad/s, s, N m s/rad: of the crank, when it is reached, and of what drives it"""


class Pulley(NamedTuple):
    name: str
    radius: float
    """m, of the belt's cords on it"""
    centre: tuple[float, float]
    mass: float
    inertia: float
    """kg m^2"""
    backside: bool = False


CRANK = Pulley("crank", 0.08, (0.0, 0.0), 4.0, 0.01)
ALTERNATOR = Pulley("alternator", 0.03, (-0.225, 0.135), 2.0, 0.0025)
PUMP = Pulley("pump", 0.055, (0.03, 0.205), 0.6, 0.0006)
PIVOT, ARM = (-0.135, -0.035), 0.08
"""m, where the tensioner's arm hangs, and its length"""
ARM_MASS, ARM_INERTIA, ARM_STIFFNESS, ARM_DAMPING = 0.3, 6e-4, 25.0, 1.0
"""kg, kg m^2 about its centre, N m/rad, N m s/rad"""


def _tensioner(angle: float) -> Pulley:
    """On its arm, which points at an angle [rad]."""
    centre = PIVOT[0] + ARM * np.cos(angle), PIVOT[1] + ARM * np.sin(angle)
    return Pulley("tensioner", 0.035, centre, 0.3, 2e-4, backside=True)


class SpeedControl(eqx.Module):
    """A torque gain (w(t) - w) about z, which brings a body from rest to the speed [rad/s] within the rise time."""

    gain: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """N m s/rad"""
    speed: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """rad/s"""
    rise: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """s"""
    spatial: bool = eqx.field(static=True)

    def target(self, t: Number) -> Array:
        """w(t): smooth, its first two derivatives begin and end with zero."""
        z = jnp.clip(t / self.rise, 0.0, 1.0)
        return self.speed * z**3 * (10.0 - 15.0 * z + 6.0 * z**2)

    def __call__(self, frame: Frame, t: Number) -> Array:
        return _about_z(self.gain * (self.target(t) - frame.angular_velocity[2]), self.spatial)


class Resistance(eqx.Module):
    """A torque against the rotation about z: a constant one, dry + fan (w / speed)^2, that begins within a part of the speed."""

    dry: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """N m"""
    fan: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """N m, at the speed"""
    speed: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """rad/s"""
    spatial: bool = eqx.field(static=True)

    def __call__(self, frame: Frame, t: Number) -> Array:
        share = frame.angular_velocity[2] / self.speed
        return _about_z(-self.dry * jnp.tanh(5.0 * share) - self.fan * share * jnp.abs(share), self.spatial)


def _about_z(torque: Array, spatial: bool) -> Array:
    return jnp.stack([jnp.zeros_like(torque), jnp.zeros_like(torque), torque]) if spatial else torque


class _Start(NamedTuple):
    """The belt under its preload, at rest."""

    pulleys: tuple[Pulley, ...]
    """in the order of travel"""
    arm_angle: float
    chords: Chords
    arm_torque: float
    """N m, of the belt on the arm"""
    path: Path


def _start(n: int) -> _Start:
    """Segments of one length under the preload, on circles on which each presses on its pulley as the preload asks; the arm closes the loop."""
    free = LENGTH / n
    segment = free * (1 + PRELOAD / TENSION_STIFFNESS)

    def circle(pulley: Pulley) -> Circle:
        # By the contact law, k (d - d_0 / 2) = T s / R: the middles of the segments lie on R - d.
        depth = PRELOAD * free / pulley.radius / (CONTACT_STIFFNESS * free) + 0.5 * SOFTNESS
        return Circle(np.array(pulley.centre), float(np.hypot(pulley.radius - depth, 0.5 * segment)), pulley.name, pulley.backside)

    def pulleys(angle: float) -> tuple[Pulley, ...]:
        return CRANK, _tensioner(angle), ALTERNATOR, PUMP

    def path(angle: float) -> Path:
        return Path([circle(pulley) for pulley in pulleys(angle)])

    angle = close(lambda angle: path(angle).walk(segment, n)[1], np.radians(82.0), np.radians(110.0), "angle of the tensioner's arm [rad]")
    line = path(angle)
    (x, y), (bx, by) = ARM * np.array([np.cos(angle), np.sin(angle)]), PRELOAD * (_along(line, 2) - _along(line, 1))
    return _Start(pulleys(angle), angle, Chords.between(line.walk(segment, n)[0]), float(x * by - y * bx), line)


def _along(line: Path, i: int) -> np.ndarray:
    """The direction in which the loop comes to the circle i."""
    return np.array([np.cos(line.begins[i]), np.sin(line.begins[i])])


def belt(n: int = 100, spatial: bool = False) -> Model:
    """The accessory drive of a car engine: a poly-V belt of `n` segments round crank, tensioner, alternator and water pump.

    The belt drive of Negrut, Rampalli, Ottarsson and Sajdak (2005), section 4.1, whose counts it has (100 segments, four pulleys, one of them on
    the belt's back, five revolutes; each segment may touch each pulley). The paper gives no numbers: these are plausible for a belt of six ribs,
    1.1 m long, that a crank drives at 90 rad/s. In the x-y plane, or its spatial twin with flanges on the pulleys:

                      pump (0.055)       runs clockwise: crank - tensioner - alternator - pump - crank
        alternator       O
          (0.03)                         axial 100 kN, shear 22 kN, bending 0.015 N m^2 between neighbours (over the length of a segment)
             o                           on the pulleys the middles of the segments, 91 MN/m a metre of belt, friction 0.8
               tensioner (0.035)         tensioner: on its back, on an arm of 80 mm with 25 N m/rad, 1 N m s/rad; 300 N at the start
                   O
             arm |   crank (0.08)        crank: 5 N m s/rad (w(t) - w), to -90 rad/s within 50 ms
                 .      O                alternator: 2.5 N m, water pump: 1.2 N m at its speed

    The start is closed to rounding: segments are chords under the preload. What is left over at the ends of the arcs settles in some ms. A
    polygon of segments s on a pulley of radius R runs as on the radius s / (2 atan(s / 2R)): speed ratios are 0.3 to 1 % below those of the
    radii. Friction is regularised at 0.1 m/s, which costs 0.3 % of the speeds. The run of 200 ms is more than a turn of the belt. Fastest are
    the axial vibrations of single segments, 28 kHz, and friction on a segment, 10^6 1/s.

    Names: segment[0], ..., crank, tensioner, arm, alternator, pump; hinges `crank_bearing` (ground, crank), `arm_bearing`,
    `tensioner_bearing` (arm, tensioner), `alternator_bearing`, `pump_bearing`; forces link[i] (`link[*].stiffness`: axial, shear, shear,
    torsion, bending about y and z), rim_PULLEY[i] (`rim_alternator[*].friction.kinetic`, ...), `arm_spring`, `crank_drive.value.speed`,
    `alternator_load.value.dry`, `pump_load.value.fan`.

    ```bibtex
    @article{negrut2005hht,
      title={On the use of the {HHT} method in the context of index 3 differential algebraic equations of multibody dynamics},
      author={Negrut, D. and Rampalli, R. and Ottarsson, G. and Sajdak, A.},
      year={2005}
    }
    ```
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 40:
        raise ValueError(
            f"the problem 'belt' needs a whole number n of segments, at least 40 so that they bend round the alternator: got {n!r}."
        )
    start, plane = _start(n), Layout(spatial)
    free, stretched = LENGTH / n, float(np.hypot(*(start.chords.end(0) - start.chords.corners[0])))
    mass = MASS_PER_LENGTH * free
    look = Box((free, HEIGHT, WIDTH), color="#333333")
    segments = [
        plane.body(f"segment[{i}]", mass, box_inertia(mass, (free, HEIGHT, WIDTH)), middle, angle, shape=look)
        for i, (middle, angle) in enumerate(zip(start.chords.middles, start.chords.angles, strict=True))
    ]
    wheels = {
        pulley.name: plane.body(
            pulley.name,
            pulley.mass,
            disc_inertia(pulley.mass, pulley.radius, 0.03, pulley.inertia),
            pulley.centre,
            shape=Disc(radius=pulley.radius - 0.5 * HEIGHT, thickness=WIDTH + 2 * FLANGE_GAP),
        )
        for pulley in start.pulleys
    }
    elbow = 0.5 * (np.array(PIVOT) + start.pulleys[1].centre)
    arm = plane.body("arm", ARM_MASS, (1e-5, ARM_INERTIA, ARM_INERTIA), elbow, start.arm_angle)

    def bearing(name: str, a: Any, b: Any, point: Any) -> Revolute:
        return Revolute(name, a, b, plane.point(point), plane.axis)

    crank, tensioner, alternator, pump = start.pulleys
    joints = [
        *(bearing(f"{pulley.name}_bearing", ground, wheels[pulley.name], pulley.centre) for pulley in (crank, alternator, pump)),
        bearing("arm_bearing", ground, arm, PIVOT),
        bearing("tensioner_bearing", arm, wheels["tensioner"], tensioner.centre),
    ]
    speeds = {pulley.name: SPEED * crank.radius / pulley.radius for pulley in (alternator, pump)}
    loads = [
        Torque("crank_drive", wheels["crank"], SpeedControl(GAIN, -SPEED, RISE, spatial)),
        Torque("alternator_load", wheels["alternator"], Resistance(2.5, 0.0, speeds["alternator"], spatial)),
        Torque("pump_load", wheels["pump"], Resistance(0.0, 1.2, speeds["pump"], spatial)),
        TorsionSpringDamper(
            "arm_spring", ground, arm, plane.axis, ARM_STIFFNESS, ARM_DAMPING, free_angle=-start.arm_torque / ARM_STIFFNESS
        ),
    ]
    return Model(
        [*segments, *wheels.values(), arm],
        joints,
        [*_links(plane, segments, start.chords, free, stretched), *_rims(plane, segments, wheels, start, free), *loads],
    )


def _links(plane: Layout, segments: list[Any], chords: Chords, free: float, stretched: float) -> list[SymmetricBushing]:
    """Between neighbours: their ends, half an unstretched segment from the middles, do not meet under the preload."""
    sideways = TENSION_STIFFNESS * WIDTH**2 / 12
    stiffness = np.array([TENSION_STIFFNESS, SHEAR_STIFFNESS, SHEAR_STIFFNESS, TORSION_STIFFNESS, sideways, BENDING_STIFFNESS]) / free
    # Out of the plane the same time constants as of bending.
    time = BENDING_DAMPING / BENDING_STIFFNESS
    damping = np.array([DAMPING, DAMPING, DAMPING, time * TORSION_STIFFNESS, time * sideways, BENDING_DAMPING]) / free
    middles, count = chords.middles, len(segments)
    halves = 0.5 * free * np.stack([np.cos(chords.angles), np.sin(chords.angles)], axis=1)
    ends = [(middles[i] + halves[i], middles[j] - halves[j], i, j) for i, j in zip(range(count), [*range(1, count), 0], strict=True)]
    return [
        SymmetricBushing(f"link[{i}]", segments[i], segments[j], plane.point(front), plane.point(rear), stiffness, damping)
        for front, rear, i, j in ends
    ]


def _rims(plane: Layout, segments: list[Any], wheels: dict[str, Any], start: _Start, free: float) -> list[PointPulley]:
    """Every segment on every pulley."""
    law = SmoothContact(CONTACT_STIFFNESS * free, CONTACT_DAMPING, SOFTNESS)
    friction = Coulomb(FRICTION, regularisation=CREEP_SPEED)
    flanges: dict[str, Any] = {"flange_radius": FLANGE_RADIUS, "half_width": FLANGE_GAP} if plane.spatial else {}
    return [
        PointPulley(
            f"rim_{pulley.name}[{i}]",
            segment,
            wheels[pulley.name],
            plane.point(middle),
            plane.point(pulley.centre),
            pulley.radius,
            law,
            friction,
            axis=plane.axis,
            **flanges,
        )
        for pulley in start.pulleys
        for i, (segment, middle) in enumerate(zip(segments, start.chords.middles, strict=True))
    ]
