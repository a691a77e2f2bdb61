"""A military truck, the HMMWV, drives over a bump."""

import functools
import json
from importlib import resources
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.elements import ground
from ..system.forces.base import AbstractForce
from ..system.forces.functions import ForceFunction
from ..system.forces.gravity import Gravity
from ..system.forces.springs import SpringDamper
from ..system.frames import Frame, force_at
from ..system.joints.base import AbstractJoint
from ..system.joints.distance import Distance
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Revolute, Spherical, Translational
from ..system.parameters import Parameter, is_traced, not_negative, positive, read_all, scalar, vector
from . import vehicle_looks as looks
from .rods import STANDARD_GRAVITY

RACK_MASS, RACK_RADIUS = 10.0, 0.025
"""kg, m: a round bar between the inner ends of the front tie rods. The data have no rack; this one weighs little."""
SPRING_LENGTH = 0.25
"""m, in the posture of the data"""
FIRST_CONTACT = 0.5
"""s, when the front wheels meet the bump"""


def hmmwv(
    stiffness: float = 2e7,
    damping: float = 2e6,
    tyre_stiffness: float = 296325.0,
    tyre_damping: float = 3502.0,
    bump_height: float = 0.05,
    speed: float = 4.4704,
) -> Model:
    """The HMMWV of Negrut et al. (2003), section 3.2: straight ahead at 10 mph over a half cylinder across the road.

    Frame: x forward, y left, z up, the road at z = 0; the vehicle's origin starts at x = 0. Gravity 9.81 m/s^2 along -z.

    - `stiffness` [N/m], `damping` [N s/m]: of the four suspension springs, very stiff and overdamped (family B). The
      dominant eigenvalue, real, is -4.6e4 1/s; it follows the damping and hardly depends on the stiffness. With
      damping=1.13e7 it is the paper's, -2.6e5 1/s.
    - `tyre_stiffness` [N/m], `tyre_damping` [N s/m]: of each tyre.
    - `bump_height` [m]: radius of the half cylinder; 0 is a smooth road.
    - `speed` [m/s]: of all bodies at the start. Nothing brakes or drives the vehicle, tyre forces are vertical.

    It starts in static equilibrium for whatever values are given: chassis at a height of 0.989 m (its centre of mass), a
    pitch of 0.4 mrad, tyres at 5971 N in front and 5566 N in the rear, springs relaxed at a length that makes them carry
    this. `system.set` changes a value alone; the vehicle then starts off its equilibrium. The front wheels meet the bump
    at 0.5 s, the rear wheels at 1.24 s, and all of them leave the ground for a while. The chassis rises to 1.030 m at 0.65 s
    and is back at its height to 1e-4 m after 4 s. Up to 0.5 s nothing happens: an adaptive integrator must not be allowed
    to jump over the bump (max_step=0.02).

    14 rigid bodies, 98 coordinates, 88 constraints, 10 degrees of freedom, 2352 kg. In the names below, CORNER is
    front_left, front_right, rear_left or rear_right:

        bodies   chassis, rack, upper_arm_CORNER, lower_arm_CORNER, spindle_CORNER (with the upright and the wheel)
        joints   upper_hinge_CORNER, lower_hinge_CORNER   revolute, chassis - arm
                 upper_ball_CORNER, lower_ball_CORNER     spherical, arm - spindle
                 tie_rod_CORNER                           distance, rack (rear: chassis) - spindle
                 rack_guide                               translational along y, chassis - rack
                 steering_lock                            motion: the rack does not travel
        forces   spring_CORNER, tyre_CORNER, gravity

    A spring goes from the upper ball joint, as a point of the upper arm, to a point of the chassis 0.25 m above it. A
    tyre (see `Tyre`) has the parameters stiffness, damping, radius, centre, bump_position, bump_height; the energy that
    it stores is not part of `solution.energy()`.

    The paper counts 18 degrees of freedom, two more at each corner, and 79 + 1 equations, for a topology that only its
    lost Figure 3 shows, and its chassis comes to rest at 0.71 m (of an unknown point). This is a real double wishbone
    suspension with the public hardpoints and masses of the vehicle (`hmmwv.json`). Ours are the steering rack of 10 kg
    and moments of inertia of the control arms that a body can have.

    ```bibtex
    @article{negrut2003rosenbrock,
      title={A {Rosenbrock-Nystrom} state space implicit approach for the dynamic analysis of mechanical systems:
             {II} -- The method and numerical examples},
      author={Negrut, Dan and Sandu, Adrian and Haug, Edward J. and Potra, Florian A. and Sandu, Corina},
      year={2003}
    }
    ```
    """
    options = _read_options(
        stiffness=stiffness,
        damping=damping,
        tyre_stiffness=tyre_stiffness,
        tyre_damping=tyre_damping,
        bump_height=bump_height,
        speed=speed,
    )
    vehicle = _vehicle()
    posture = _posture(vehicle, options["tyre_stiffness"])
    builder = _Builder(vehicle, posture, options)
    for axle in ("front", "rear"):
        for side in ("left", "right"):
            builder.add_corner(axle, side)
    return Model(builder.bodies, builder.joints, builder.forces, scenery=looks.road(builder.bump_position, options["bump_height"]))


_OPTIONS: dict[str, Parameter] = {
    "stiffness": positive("N/m"),
    "damping": not_negative("N s/m"),
    "tyre_stiffness": positive("N/m"),
    "tyre_damping": not_negative("N s/m"),
    "bump_height": not_negative("m"),
    "speed": positive("m/s"),
}


def _read_options(**values: Any) -> dict[str, float]:
    if is_traced(values):
        raise ValueError(
            "the problem 'hmmwv' is balanced outside of jit, grad and vmap: give it concrete numbers, and change parameters of the "
            "built system with system.set({'spring_front_left.damping': ...})."
        )
    return {name: float(value) for name, value in read_all("the problem 'hmmwv'", _OPTIONS, **values).items()}


# --- tyres ----------------------------------------------------------------------------------------------------------


class Tyre(eqx.Module):
    """A vertical spring and damper between a wheel's centre and the road as a rolling disc feels it.

    The road is flat but for a half cylinder across it. A disc of radius R that rolls over a cylinder of radius r raises
    its centre by sqrt((R + r)^2 - d^2) - R while it touches, d the horizontal distance of the axes. (A tyre that felt the
    half cylinder in one point would meet a vertical wall.) The force is never a pull, and zero off the ground.
    """

    stiffness: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """N/m"""
    damping: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """N s/m"""
    radius: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """m, without load"""
    centre: Float[Numbers, "*stack 3"] = eqx.field(converter=jnp.asarray)
    """m, the wheel's centre in the spindle's own frame"""
    bump_position: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """m, x of the half cylinder's axis"""
    bump_height: Float[Numbers, "*stack"] = eqx.field(converter=jnp.asarray)
    """m, radius of the half cylinder"""
    parameters: ClassVar[dict[str, Parameter]] = {
        "stiffness": not_negative("N/m"),
        "damping": not_negative("N s/m"),
        "radius": positive("m"),
        "centre": vector("m", 3),
        "bump_position": scalar("m"),
        "bump_height": not_negative("m"),
    }

    def road(self, x: Float[Numbers, ""]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """How high the road raises a wheel that stands at x [m], and the slope of that."""
        d = x - self.bump_position
        square = (self.radius + self.bump_height) ** 2 - d**2
        touches = square > self.radius**2
        # Off the bump the root is the radius itself: the rise and all its derivatives are zero there, and none is infinite.
        reach = jnp.sqrt(jnp.where(touches, square, self.radius**2))
        return reach - self.radius, jnp.where(touches, -d / reach, 0.0)

    def load(self, centre: Float[Array, "3"], velocity: Float[Array, "3"]) -> Float[Array, ""]:
        """The force on the wheel [N], upward, when its centre is there and has that velocity."""
        rise, slope = self.road(centre[0])
        deflection = self.radius + rise - centre[2]
        rate = slope * velocity[0] - velocity[2]
        push = self.stiffness * deflection + self.damping * rate
        return jnp.where((deflection > 0) & (push > 0), push, 0.0)

    def __call__(self, road: Frame, spindle: Frame, t: Array) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        centre = spindle.point(self.centre)
        force = self.load(centre, spindle.point_velocity(self.centre)) * jnp.array([0.0, 0.0, 1.0])
        return force, force_at(spindle, centre, force)


# --- the vehicle as its data describe it ----------------------------------------------------------------------------


class _Part(NamedTuple):
    mass: float
    centre: np.ndarray
    """m, vehicle frame"""
    inertia: np.ndarray
    """kg m^2, principal moments about the centre of mass; the axes are the vehicle's"""


class _Corner(NamedTuple):
    """Parts and hardpoints [m] of one corner, in the vehicle's frame."""

    upper_arm: _Part
    lower_arm: _Part
    spindle: _Part
    upper_hinge: np.ndarray
    """two points: front, back"""
    lower_hinge: np.ndarray
    upper_ball: np.ndarray
    lower_ball: np.ndarray
    tie_rod: np.ndarray
    """two points: inner, outer"""
    spring_top: np.ndarray
    """on the chassis; the other end is the upper ball joint"""
    wheel: np.ndarray
    """centre"""

    def parts(self) -> tuple[_Part, ...]:
        return self.upper_arm, self.lower_arm, self.spindle


class _Vehicle(NamedTuple):
    chassis: _Part
    rack: _Part
    corners: dict[str, _Corner]
    """of the left side: front, rear"""
    wheel_radius: float

    def corner(self, axle: str, side: str) -> _Corner:
        return self.corners[axle] if side == "left" else _mirrored(self.corners[axle])


@functools.cache
def _vehicle() -> _Vehicle:
    data = json.loads(resources.files("jaxmbd.problems").joinpath("hmmwv.json").read_text(encoding="utf-8"))
    corners = {axle: _read_corner(data[axle], np.array(data["axle_location"][axle])) for axle in ("front", "rear")}
    end = corners["front"].tie_rod[0]
    across = RACK_MASS * (3 * RACK_RADIUS**2 + (2 * end[1]) ** 2) / 12
    rack = _Part(RACK_MASS, end * (1, 0, 1), np.array([across, 0.5 * RACK_MASS * RACK_RADIUS**2, across]))
    return _Vehicle(_read_part(data["chassis"], np.zeros(3)), rack, corners, data["wheel_radius"])


def _read_part(data: dict[str, Any], origin: np.ndarray) -> _Part:
    return _Part(data["mass"], origin + data["com"], _flat_at_most(np.array(data["inertia"])))


def _flat_at_most(moments: np.ndarray) -> np.ndarray:
    """Moments of inertia that a body can have: no moment exceeds the sum of the others, which only a flat plate reaches.

    The control arms of the data, flat indeed, miss that by 5 % (upper) and 12 % (lower): their smaller moments are raised.
    """
    largest = moments.max()
    others = moments.sum() - largest
    return np.where(moments < largest, moments * max(1.0, largest / others), moments)


def _read_corner(data: dict[str, Any], origin: np.ndarray) -> _Corner:
    upper, lower, rod = data["upper_arm"], data["lower_arm"], data["tierod"]
    spindle, upright = (_read_part(data[name], origin) for name in ("spindle", "upright"))

    def points(part: dict[str, Any], *names: str) -> np.ndarray:
        return np.array([part[name] for name in names]) + origin

    return _Corner(
        _read_part(upper, origin),
        _read_part(lower, origin),
        _welded(spindle, upright),
        points(upper, "chassis_front", "chassis_back"),
        points(lower, "chassis_front", "chassis_back"),
        points(upper, "upright")[0],
        points(lower, "upright")[0],
        points(rod, "chassis", "upright"),
        points(upper, "upright")[0] + np.array([0.0, 0.0, SPRING_LENGTH]),
        spindle.centre,  # the data's spindle turns with the wheel
    )


def _welded(a: _Part, b: _Part) -> _Part:
    """Two parts as one. Their centres differ along y only, so that the principal axes stay the vehicle's."""
    mass = a.mass + b.mass
    centre = (a.mass * a.centre + b.mass * b.centre) / mass
    offsets = np.stack([a.centre, b.centre]) - centre
    squares = np.array([a.mass, b.mass]) @ offsets**2
    return _Part(mass, centre, a.inertia + b.inertia + squares.sum() - squares)


def _mirrored(item: Any) -> Any:
    """The other side's parts and points; moments of inertia about the same axes do not change."""
    if isinstance(item, _Part):
        return item._replace(centre=_mirrored(item.centre))
    if isinstance(item, _Corner):
        return _Corner(*map(_mirrored, item))
    return item * (1, -1, 1)


# --- static equilibrium ---------------------------------------------------------------------------------------------


class _Posture(NamedTuple):
    """How the vehicle, rigid as in the data, stands on its tyres."""

    lift: float
    """m, height of the vehicle's origin above the road"""
    pitch: float
    """rad about y: positive with the nose down"""
    loads: dict[str, float]
    """N, of one tyre in front, in the rear"""

    def rotation(self) -> np.ndarray:
        c, s = np.cos(self.pitch), np.sin(self.pitch)
        return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])

    def place(self, points: np.ndarray) -> np.ndarray:
        """Points of the vehicle in the ground's frame."""
        return points @ self.rotation().T + (0.0, 0.0, self.lift)


def _posture(vehicle: _Vehicle, tyre_stiffness: float) -> _Posture:
    """Springs are relaxed to fit later, so that the suspension stays as in the data and only the tyres deflect.

    Given the pitch, the lever rule says the loads, loads the heights of the wheels, and these the pitch. It changes the
    levers by the deflection of the tyres only: a fixed point that contracts a hundredfold a turn, or more.
    """
    front, rear = (vehicle.corners[axle].wheel * (1, 0, 1) for axle in ("front", "rear"))
    sprung = [vehicle.chassis, vehicle.rack]
    parts = [*sprung, *(part for corner in vehicle.corners.values() for part in corner.parts() for _ in range(2))]
    masses = np.array([part.mass for part in parts])
    centre = masses @ [part.centre for part in parts] / masses.sum() * (1, 0, 1)
    base = front - rear
    posture = _Posture(0.0, 0.0, {})
    for _ in range(40):
        x_front, x_rear, x = (posture.place(point)[0] for point in (front, rear, centre))
        share = (x - x_rear) / (x_front - x_rear)
        loads = 0.5 * STANDARD_GRAVITY * masses.sum() * np.array([share, 1 - share])
        heights = vehicle.wheel_radius - loads / tyre_stiffness
        if not np.all(heights > 0):
            least = loads.max() / vehicle.wheel_radius
            raise ValueError(
                f"tyre_stiffness of the problem 'hmmwv' must exceed {least:.3g} N/m to carry the weight: got {tyre_stiffness:.6g}."
            )
        pitch = np.arctan2(base[2], base[0]) - np.arcsin((heights[0] - heights[1]) / np.hypot(base[0], base[2]))
        posture = _Posture(0.0, pitch, {"front": loads[0], "rear": loads[1]})
        posture = posture._replace(lift=heights[0] - posture.place(front)[2])
    return posture


def _static_pull(corner: _Corner, load: float, up: np.ndarray) -> float:
    """The pull [N] of a corner's spring that balances its weight and the load on its wheel.

    By virtual work: with the chassis held, joints leave one motion to the rates (upper arm, lower arm, velocity and
    angular velocity of the spindle), the null space of

        upper ball   [ a_u   0   -I    skew(s_u) ]
        lower ball   [  0   a_l  -I    skew(s_l) ]
        tie rod      [  0    0   d^T  -d^T skew(s_d) ]

    with a the velocity of the ball joint for a unit rate of the arm, s points of the spindle relative to its centre.
    """

    def of_arm(hinge: np.ndarray, point: np.ndarray) -> np.ndarray:
        return np.cross(hinge[1] - hinge[0], point - hinge[0])

    def of_spindle(point: np.ndarray) -> np.ndarray:
        """Velocity of a point of it, as a matrix times its rates."""
        return np.hstack([np.eye(3), np.cross(np.eye(3), point - corner.spindle.centre).T])

    inner, outer = corner.tie_rod
    joints = np.zeros((7, 8))
    joints[:3, 0], joints[:3, 2:] = of_arm(corner.upper_hinge, corner.upper_ball), -of_spindle(corner.upper_ball)
    joints[3:6, 1], joints[3:6, 2:] = of_arm(corner.lower_hinge, corner.lower_ball), -of_spindle(corner.lower_ball)
    joints[6, 2:] = (outer - inner) @ of_spindle(outer)
    upper, lower, *spindle = np.linalg.svd(joints)[2][-1]
    weights = (
        corner.upper_arm.mass * upper * of_arm(corner.upper_hinge, corner.upper_arm.centre)
        + corner.lower_arm.mass * lower * of_arm(corner.lower_hinge, corner.lower_arm.centre)
        + corner.spindle.mass * np.array(spindle[:3])
    )
    power = up @ (load * of_spindle(corner.wheel) @ spindle - STANDARD_GRAVITY * weights)
    d = corner.upper_ball - corner.spring_top
    lengthening = upper * d @ of_arm(corner.upper_hinge, corner.upper_ball) / np.linalg.norm(d)
    return float(power / lengthening)


# --- elements -------------------------------------------------------------------------------------------------------


class Locked(eqx.Module):
    """A motion that does not move."""

    def __call__(self, t: Array) -> Array:
        return jnp.zeros_like(t)


class _Builder:
    """Collects the elements, placed on the road."""

    def __init__(self, vehicle: _Vehicle, posture: _Posture, options: dict[str, float]):
        self.vehicle, self.posture, self.options = vehicle, posture, options
        self.bodies: list[RigidBody] = []
        self.joints: list[AbstractJoint] = []
        self.forces: list[AbstractForce | Gravity] = [Gravity((0.0, 0.0, -STANDARD_GRAVITY))]
        radius, bump = vehicle.wheel_radius, options["bump_height"]
        first_wheel = posture.place(vehicle.corners["front"].wheel)[0]
        self.bump_position = first_wheel + FIRST_CONTACT * options["speed"] + np.sqrt((radius + bump) ** 2 - radius**2)
        self.add_body("chassis", vehicle.chassis, looks.chassis(vehicle.chassis.centre))
        self.add_body("rack", vehicle.rack, looks.rack(2 * abs(vehicle.corners["front"].tie_rod[0][1]), RACK_RADIUS))
        middle = posture.place(vehicle.rack.centre)
        self.joints += [
            Translational("rack_guide", "chassis", "rack", middle, axis=(0, 1, 0)),
            Motion("steering_lock", "chassis", "rack", middle, (0, 1, 0), Locked(), coordinate="travel"),
        ]

    def add_body(self, name: str, part: _Part, shape: Any) -> None:
        half = 0.5 * self.posture.pitch
        self.bodies.append(
            RigidBody(
                name,
                part.mass,
                part.inertia,
                position=self.posture.place(part.centre),
                orientation=(np.cos(half), 0.0, np.sin(half), 0.0),
                velocity=(self.options["speed"], 0.0, 0.0),
                shape=shape,
            )
        )

    def add_corner(self, axle: str, side: str) -> None:
        corner, name, place = self.vehicle.corner(axle, side), f"{axle}_{side}", self.posture.place
        upper, lower, spindle = f"upper_arm_{name}", f"lower_arm_{name}", f"spindle_{name}"
        self.add_body(upper, corner.upper_arm, looks.arm(corner.upper_hinge, corner.upper_ball, corner.upper_arm.centre))
        self.add_body(lower, corner.lower_arm, looks.arm(corner.lower_hinge, corner.lower_ball, corner.lower_arm.centre))
        centre = corner.spindle.centre
        joints = np.stack([corner.upper_ball, corner.lower_ball, corner.tie_rod[1]]) - centre
        self.add_body(spindle, corner.spindle, looks.wheel(corner.wheel - centre, self.vehicle.wheel_radius, joints))
        for arm, level, ends in ((upper, "upper", corner.upper_hinge), (lower, "lower", corner.lower_hinge)):
            front, back = place(ends)
            self.joints.append(Revolute(f"{level}_hinge_{name}", "chassis", arm, 0.5 * (front + back), axis=front - back))
        self.joints += [
            Spherical(f"upper_ball_{name}", upper, spindle, place(corner.upper_ball)),
            Spherical(f"lower_ball_{name}", lower, spindle, place(corner.lower_ball)),
            Distance(f"tie_rod_{name}", "rack" if axle == "front" else "chassis", spindle, *place(corner.tie_rod)),
        ]
        self.forces += [self.spring(name, corner, self.posture.loads[axle]), self.tyre(name, corner)]

    def spring(self, name: str, corner: _Corner, load: float) -> SpringDamper:
        pull = _static_pull(corner, load, up=self.posture.rotation()[2])
        return SpringDamper(
            f"spring_{name}",
            f"upper_arm_{name}",
            "chassis",
            self.posture.place(corner.upper_ball),
            self.posture.place(corner.spring_top),
            self.options["stiffness"],
            self.options["damping"],
            free_length=SPRING_LENGTH - pull / self.options["stiffness"],
            stiff=True,
        )

    def tyre(self, name: str, corner: _Corner) -> ForceFunction:
        law = Tyre(
            stiffness=self.options["tyre_stiffness"],
            damping=self.options["tyre_damping"],
            radius=self.vehicle.wheel_radius,
            centre=corner.wheel - corner.spindle.centre,
            bump_position=self.bump_position,
            bump_height=self.options["bump_height"],
        )
        return ForceFunction(f"tyre_{name}", ground, f"spindle_{name}", law)
