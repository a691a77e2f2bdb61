"""The crawler track of an excavator."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Number, Numbers
from ..system.building.model import Model
from ..system.contact.base import AbstractContact
from ..system.contact.friction import Coulomb
from ..system.contact.laws import SmoothContact
from ..system.contact.planar import DiscLine
from ..system.contact.spheres import SpherePlane
from ..system.contact.turned import BarWheel, PinSprocket
from ..system.elements import ground
from ..system.forces.springs import SpringDamper, TorsionSpringDamper
from ..system.joints.base import AbstractJoint
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Fixed, Inline, Planar, Revolute, Translational
from ..system.shapes import Box, Disc
from .loops import Chords, Circle, Layout, Path, box_inertia, close, disc_inertia
from .rods import gravity

PITCH, PINS_A_TURN = 0.2159, 10.5
"""m, and how many pins go round the sprocket in a turn: it has 21 gaps of half a pitch, a pin in every second"""
TEETH, PITCH_RADIUS, TOOTH_HEIGHT = 21, PITCH / (2 * np.sin(np.pi / PINS_A_TURN)), 0.0437
"""1, m, m: tips over the circle of the pins, for a pin's centre"""
SHOE_MASS, SHOE_INERTIA, SHOE_WIDTH = 45.0, 0.32, 0.6
RAIL, GROUSER, TIP_RADIUS = 0.06, 0.075, 0.01
"""m, from the line of the pins to the rail's face and to the tips that touch the ground, and the radius of these"""
PIN_DAMPING = 5.0
"""N m s/rad"""
BACKBEND, FORWARD, STOP_ARM, STOP_STIFFNESS = 0.05, -0.75, 0.06, 2e5
"""rad, rad, m, N m/rad: how far a shoe can turn against the one behind it, the arm of what stops it, and its stiffness"""
IDLER_RADIUS, ROLLER_RADIUS, CARRIER_RADIUS = 0.3, 0.095, 0.075
IDLER_HEIGHT, LOWEST_PIN = 0.465, 0.125
"""m, of the idler's axle, of the lowest pin on the sprocket"""
FIRST_ROLLER, LAST_ROLLER, ROLLER_SPACING, CARRIER_SPACING, CARRIER_LIFT = 0.62, 0.55, 0.53, 4.0, 0.02
"""m: behind the sprocket, before the idler, from roller to roller, from carrier to carrier; these arch the upper run by a quarter of the lift"""
CLEARANCE = 1.5e-3
"""m, between the start's rails and the wheels that they bend at by a little: the middle of a bent shoe comes nearer than its ends"""
LOAD, FRAME_INERTIA, FRAME_HEIGHT = 16e3, 3e4, 0.8
"""kg on this track, wheels and all; kg m^2; m"""
YOKE_STIFFNESS, YOKE_DAMPING, YOKE_PRELOAD = 2e6, 2e4, 6e4
"""N/m, N s/m, N"""
SPEED, SETTLING, RISE = 0.8, 0.3, 1.0
"""m/s of the track, s, s"""
SOFTNESS, CREEP_SPEED = 2e-4, 0.02
"""m, m/s"""
FLANGE_GAP, FLANGE_RADIUS = 5e-3, 0.05
"""m"""
WHEELS = SmoothContact(5e7, 0.5, SOFTNESS)
SOIL = SmoothContact(3e6, 2.5, SOFTNESS)


class Ramp(eqx.Module):
    """An angle that rests until `start`, whose rate then grows to `speed` within the rise time and stays."""

    speed: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """rad/s"""
    start: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """s"""
    rise: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """s"""

    def __call__(self, t: Number) -> Array:
        z = jnp.clip((t - self.start) / self.rise, 0.0, 1.0)
        beyond = jnp.maximum(t - self.start - self.rise, 0.0)
        return self.speed * (self.rise * z**4 * (2.5 - 3.0 * z + z**2) + beyond)


class _Wheel(NamedTuple):
    name: str
    centre: np.ndarray
    radius: float
    mass: float
    inertia: float
    carrier: str
    """the body that it turns on"""


class _Start(NamedTuple):
    chords: Chords
    idler: np.ndarray
    rollers: np.ndarray
    carriers: np.ndarray


SPROCKET = np.array([0.0, PITCH_RADIUS + LOWEST_PIN])


def _places(distance: float, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres [m] of idler, lower rollers and carriers for a distance of the axles; how many there are follows from the number of shoes."""
    nominal = _nominal(n)
    count = max(1, round((nominal - FIRST_ROLLER - LAST_ROLLER) / ROLLER_SPACING)) + 1
    x = np.linspace(FIRST_ROLLER, distance - LAST_ROLLER, count)
    share = np.linspace(0.0, 1.0, max(1, round(nominal / CARRIER_SPACING)) + 2)[1:-1]
    top = SPROCKET[1] + PITCH_RADIUS + CARRIER_LIFT * share * (1 - share)
    rollers = np.stack([x, np.full(count, GROUSER + RAIL + ROLLER_RADIUS)], axis=1)
    rollers[[0, -1], 1] += CLEARANCE
    return np.array([distance, IDLER_HEIGHT]), rollers, np.stack([share * distance, top - RAIL - CARRIER_RADIUS - CLEARANCE], axis=1)


def _nominal(n: int) -> float:
    """m, about how far the axles are apart."""
    return 0.5 * n * PITCH - 1.15


def _start(n: int) -> _Start:
    """Pins on circles round the wheels; the distance of the axles closes the loop of shoes."""

    def path(distance: float) -> Path:
        idler, rollers, carriers = _places(distance, n)
        return Path(
            [
                Circle(SPROCKET, PITCH_RADIUS, "sprocket"),
                *(Circle(centre, CARRIER_RADIUS + RAIL + CLEARANCE, f"carrier[{i}]") for i, centre in enumerate(carriers)),
                Circle(idler, float(np.hypot(IDLER_RADIUS + RAIL, 0.5 * PITCH)), "idler"),
                Circle(rollers[-1], ROLLER_RADIUS + RAIL + CLEARANCE, "the last roller"),
                Circle(rollers[0], ROLLER_RADIUS + RAIL + CLEARANCE, "the first roller"),
            ]
        )

    near = _nominal(n)
    distance = close(lambda distance: path(distance).walk(PITCH, n)[1], near - 0.1, near + 0.1, "distance of the axles [m]")
    return _Start(Chords.between(path(distance).walk(PITCH, n)[0]), *_places(distance, n))


def track(n: int = 46, spatial: bool = False) -> Model:
    """One crawler track of a 35 t excavator: `n` shoes hinged to each other run round sprocket, idler, rollers, and over the ground.

    The track of Negrut, Rampalli, Ottarsson and Sajdak (2005), section 4.2, with its counts for 46 shoes: 61 bodies (shoes; sprocket, idler,
    six rollers below and a carrier above; frame, idler yoke, four parts fixed to the frame), 54 revolutes, a translational joint, four fixed
    ones, an inline joint that closes the loop, a motion, 690 contacts (a shoe with nine wheels, by four points with the ground, twice with the
    next shoe, whose turning they stop). In space a planar joint holds the frame upright, as in the paper: 366 coordinates and
    305 equations there, 427 and 366 with Euler parameters and their normalisations, and 61 degrees of freedom either way. In the plane the loop
    is closed by a revolute.

                 carrier                  x forwards, y up, the ground is y = 0; runs clockwise
          _______ _o_ _______             pitch 0.2159 m, sprocket 0.366 m with 21 lobes (PinSprocket), 0.8 m/s
        /                     \\           wheels 50 MN/m, friction 0.15 (sprocket 0.1); ground 3 MN/m a point, friction 0.7
      ( sprocket         idler ) <- yoke, 2 MN/m, preloaded with 60 kN: 30 kN in the track
        \\__o__o__o__o__o__o___/           16 t on the track; 46 shoes of 45 kg

    The paper gives no numbers. Sprocket and pitch are those of the Case CX350B's service manual, all else is plausible. For other numbers of
    shoes (24 or more) the distance of the axles and the numbers of rollers and carriers follow. At the start joints are met to rounding and
    contacts just touch: the machine settles by 1 to 2 mm within 0.3 s, then the sprocket starts and takes a second to its speed.

    Names: shoe[0], ..., sprocket, idler, roller[0], ..., carrier[0], ..., frame, yoke, gearbox, guard[0], guard[1], step; pin[i] (shoe[i],
    shoe[i + 1]), `closing`, WHEEL_axle, `drive.speed`, `slide` (frame, yoke); forces `recoil.stiffness`, pin_damper[i], teeth[i]
    (`teeth[*].law.stiffness`), rail_WHEEL[i], soil[4 i + k], backbend[i], forward[i].

    ```bibtex
    @article{negrut2005hht,
      title={On the use of the {HHT} method in the context of index 3 differential algebraic equations of multibody dynamics},
      author={Negrut, D. and Rampalli, R. and Ottarsson, G. and Sajdak, A.},
      year={2005}
    }
    ```
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 24:
        raise ValueError(f"the problem 'track' needs a whole number n of shoes, at least 24 to go round its wheels: got {n!r}.")
    start, plane = _start(n), Layout(spatial)
    wheels = [
        _Wheel("sprocket", SPROCKET, PITCH_RADIUS, 150.0, 8.0, "frame"),
        _Wheel("idler", start.idler, IDLER_RADIUS, 180.0, 8.0, "yoke"),
        *(_Wheel(f"roller[{i}]", centre, ROLLER_RADIUS, 50.0, 0.25, "frame") for i, centre in enumerate(start.rollers)),
        *(_Wheel(f"carrier[{i}]", centre, CARRIER_RADIUS, 50.0, 0.25, "frame") for i, centre in enumerate(start.carriers)),
    ]
    look = [Box((0.95 * PITCH, 0.03, SHOE_WIDTH), at=(0, 0.05, 0), color="#444444"), Box((PITCH, 0.1, 0.1), color="#777777")]
    shoes = [
        plane.body(f"shoe[{i}]", SHOE_MASS, (1.39, 1.5, SHOE_INERTIA), middle, angle, shape=look)
        for i, (middle, angle) in enumerate(zip(start.chords.middles, start.chords.angles, strict=True))
    ]
    turning = [
        plane.body(
            wheel.name,
            wheel.mass,
            disc_inertia(wheel.mass, wheel.radius, 0.2, wheel.inertia),
            wheel.centre,
            shape=Disc(radius=wheel.radius, thickness=0.2),
        )
        for wheel in wheels
    ]
    return Model(
        [*shoes, *turning, *_carriage(plane, start, sum(wheel.mass for wheel in wheels))],
        _joints(plane, start, shoes, wheels),
        [gravity(spatial), *_springs(plane, start, shoes), *_contacts(plane, start, shoes, wheels)],
        scenery=_ground_shape(start),
    )


def _ground_shape(start: _Start) -> Box:
    length = start.idler[0] + 6.0
    return Box((length, 0.1, 2.0), at=(0.5 * length - 1.5, -0.05, 0.0), color="#a08b6c")


def _carriage(plane: Layout, start: _Start, wheels: float) -> list[Any]:
    """What does not turn: frame, yoke and the parts on the frame. They and the wheels weigh what is on the track."""
    half = 0.5 * start.idler[0]
    parts = [
        ("gearbox", 300.0, (0.4, 0.4, 0.3), SPROCKET),
        ("guard[0]", 60.0, (1.0, 0.1, 0.1), (half - 0.6, 0.3)),
        ("guard[1]", 60.0, (1.0, 0.1, 0.1), (half + 0.6, 0.3)),
        ("step", 40.0, (0.8, 0.05, 0.3), (half, 1.0)),
    ]
    yoke = ("yoke", 150.0, (0.6, 0.15, 0.3), start.idler - (0.3, 0.0))
    rest = LOAD - wheels - sum(mass for _, mass, *_ in (*parts, yoke))
    frame = plane.body("frame", rest, (0.5 * FRAME_INERTIA, FRAME_INERTIA, FRAME_INERTIA), (half, FRAME_HEIGHT))
    return [frame, *(plane.body(name, mass, box_inertia(mass, sizes), at, shape=Box(sizes)) for name, mass, sizes, at in (yoke, *parts))]


def _joints(plane: Layout, start: _Start, shoes: list[Any], wheels: list[_Wheel]) -> list[AbstractJoint]:
    def revolute(name: str, a: Any, b: Any, point: Any) -> Revolute:
        return Revolute(name, a, b, plane.point(point), plane.axis)

    pins = [revolute(f"pin[{i}]", shoes[i], shoes[i + 1], start.chords.end(i)) for i in range(len(shoes) - 1)]
    # Both keep the last shoe's pin on the first's: the axes of a loop of revolutes are parallel already.
    closing = plane.point(start.chords.corners[0])
    ends = "closing", shoes[-1], shoes[0], closing
    along_x = (1.0, 0.0, 0.0) if plane.spatial else (1.0, 0.0)
    angle = Ramp(-SPEED * 2 * np.pi / (PINS_A_TURN * PITCH), SETTLING, RISE)
    return [
        *pins,
        Inline(*ends, (0.0, 0.0, 1.0)) if plane.spatial else Revolute(*ends),
        *(revolute(f"{wheel.name}_axle", wheel.carrier, wheel.name, wheel.centre) for wheel in wheels),
        Translational("slide", "frame", "yoke", plane.point(start.idler), along_x),
        *(Fixed(f"{name}_mount", "frame", name) for name in ("gearbox", "guard[0]", "guard[1]", "step")),
        Motion("drive", "frame", "sprocket", axis=plane.axis, function=angle),
        *([Planar("upright", ground, "frame", plane.point((0.0, FRAME_HEIGHT)), (0.0, 0.0, 1.0))] if plane.spatial else []),
    ]


def _springs(plane: Layout, start: _Start, shoes: list[Any]) -> list[Any]:
    back = start.idler - (1.0, 0.0)
    dampers = [
        TorsionSpringDamper(f"pin_damper[{i}]", shoe, shoes[(i + 1) % len(shoes)], plane.axis, damping=PIN_DAMPING)
        for i, shoe in enumerate(shoes)
    ]
    recoil = SpringDamper(
        "recoil",
        "frame",
        "yoke",
        plane.point(back),
        plane.point(start.idler),
        YOKE_STIFFNESS,
        YOKE_DAMPING,
        free_length=1.0 + YOKE_PRELOAD / YOKE_STIFFNESS,
    )
    return [recoil, *dampers]


def _turned(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _contacts(plane: Layout, start: _Start, shoes: list[Any], wheels: list[_Wheel]) -> list[AbstractContact]:
    flanges: dict[str, Any] = {"flange_radius": FLANGE_RADIUS, "half_width": FLANGE_GAP} if plane.spatial else {}
    rim, tooth, soil = (Coulomb(mu, regularisation=CREEP_SPEED) for mu in (0.15, 0.1, 0.7))
    chords, found = start.chords, []
    for i, shoe in enumerate(shoes):
        at = functools.partial(_of_shoe, plane, chords.middles[i], _turned(chords.angles[i]))

        rail = at(-0.5 * PITCH, -RAIL), at(0.5 * PITCH, -RAIL)
        for wheel in wheels:
            centre, turning = plane.point(wheel.centre), {"axis": plane.axis, **flanges}
            if wheel.name == "sprocket":
                teeth = PITCH_RADIUS, TOOTH_HEIGHT, TEETH, plane.point(chords.corners[0])
                found.append(PinSprocket(f"teeth[{i}]", shoe, "sprocket", at(-0.5 * PITCH, 0.0), centre, *teeth, WHEELS, tooth, **turning))
            else:
                name = f"rail_{wheel.name}[{i}]"
                found.append(BarWheel(name, shoe, wheel.name, *rail, centre, wheel.radius, WHEELS, rim, **turning))
        found += [_tip(plane, f"soil[{4 * i + k}]", shoe, at(*tip), soil) for k, tip in enumerate(_tips(plane.spatial))]
        found += _stops(plane, chords, i, shoe, shoes[(i + 1) % len(shoes)])
    return found


def _of_shoe(plane: Layout, middle: np.ndarray, turn: np.ndarray, x: float, y: float, z: float = 0.0) -> np.ndarray:
    """A point of a shoe, from its middle along its axes; -y is the inside."""
    return plane.point(middle + turn @ (x, y), z)


def _tips(spatial: bool) -> list[tuple[float, ...]]:
    """Where a shoe touches the ground: in the plane four points in a row, in space its corners."""
    y = GROUSER - TIP_RADIUS
    if spatial:
        return [(x * PITCH, y, z * SHOE_WIDTH) for x in (-0.45, 0.45) for z in (-0.45, 0.45)]
    return [(x * PITCH, y) for x in (-0.45, -0.15, 0.15, 0.45)]


def _tip(plane: Layout, name: str, shoe: Any, centre: np.ndarray, friction: Coulomb) -> AbstractContact:
    if plane.spatial:
        return SpherePlane(name, shoe, ground, TIP_RADIUS, (0, 0, 0), (0, 1, 0), SOIL, friction, centre=centre)
    return DiscLine(name, shoe, ground, centre, TIP_RADIUS, (0, 0), (0, 1), SOIL, friction)


def _stops(plane: Layout, chords: Chords, i: int, shoe: Any, following: Any) -> list[AbstractContact]:
    """A bead on an arm of one shoe against a face of the next, at a gap of arm . sin(angle left to turn)."""
    law, bead = SmoothContact(STOP_STIFFNESS / STOP_ARM**2, 0.5, SOFTNESS), 0.02
    pin, here, there = chords.end(i), _turned(chords.angles[i]), _turned(chords.angles[(i + 1) % len(chords.angles)])
    quarter, found = _turned(0.5 * np.pi), []
    for name, limit, arm in (("backbend", BACKBEND, (0.0, STOP_ARM)), ("forward", FORWARD, (0.0, -STOP_ARM))):
        stopped = _turned(-limit) @ arm  # where the bead is in the next shoe's axes when it stops
        normal = np.sign(limit) * there @ quarter @ stopped / STOP_ARM
        centre, face = plane.point(pin + here @ arm), plane.point(pin - bead * normal)
        if plane.spatial:
            found.append(SpherePlane(f"{name}[{i}]", shoe, following, bead, face, plane.point(normal), law, centre=centre))
        else:
            found.append(DiscLine(f"{name}[{i}]", shoe, following, centre, bead, face, normal, law))
    return found
