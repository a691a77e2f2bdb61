"""An all-terrain vehicle whose tubular frame bends, shaken on four posts (Negrut et al. 2005)."""

import functools
import json
from importlib import resources
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..fem import SpaceFrame, Tube, craig_bampton
from ..system.bodies.rigid import RigidBody
from ..system.building.model import Model
from ..system.contact.friction import Coulomb
from ..system.contact.laws import LinearContact
from ..system.contact.rounded import CoinPlane
from ..system.elements import ground
from ..system.flexible.modal import ModalBody
from ..system.flexible.reduced import ReducedBody
from ..system.forces.gravity import Gravity
from ..system.forces.springs import Bushing, SpringDamper
from ..system.joints.drivers import Motion
from ..system.joints.one_axis import Fixed, Inline, Revolute, Spherical, Translational
from ..system.joints.two_axes import Universal

_TYRE_RIM = 0.08
"""m, radius of a tyre's rounded tread"""
_CREEP = 0.05
"""m/s, at which tyres begin to slide"""


AT_REST = ("frame.x", "frame.y", "frame.e3", "front_wheel_L.e2", "front_wheel_R.e2", "rear_axle.e2")
"""What nothing resists, to be held by `mbd.equilibrium`: place and yaw of the vehicle, and turning wheels."""


class Shaking(eqx.Module):
    """Height of a post [m]: ramp(t) amplitude (sin(2 pi frequency t + phase) - sin(phase))."""

    amplitude: Float[Array, "*stack"]
    """m"""
    frequency: Float[Array, "*stack"]
    """Hz"""
    phase: Float[Array, "*stack"]
    """rad"""

    def __call__(self, t):
        angle = 2 * jnp.pi * self.frequency * t
        return _ramp(t) * self.amplitude * (jnp.sin(angle + self.phase) - jnp.sin(self.phase))


class Steering(eqx.Module):
    """Angle of the column [rad], ramp(t) amplitude sin(2 pi frequency t): it begins smoothly too."""

    amplitude: Float[Array, "*stack"]
    """rad"""
    frequency: Float[Array, "*stack"]
    """Hz"""

    def __call__(self, t):
        return _ramp(t) * self.amplitude * jnp.sin(2 * jnp.pi * self.frequency * t)


def _ramp(t: Any) -> Any:
    """From 0 to 1 in a quarter of a second, its first two derivatives continuous."""
    s = jnp.clip(t / 0.25, 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


class Stops(eqx.Module):
    """What the stops of a shock absorber add to its pull [N], of length [m] and rate [m/s]: springs with dampers that only push."""

    shortest: Float[Array, "*stack"]
    """m"""
    longest: Float[Array, "*stack"]
    """m"""
    stiffness: Float[Array, "*stack"]
    """N/m"""
    damping: Float[Array, "*stack"]
    """N s/m"""

    def __call__(self, length, rate, t):
        return self._push(length - self.longest, rate) - self._push(self.shortest - length, -rate)

    def _push(self, depth, rate):
        elastic = self.stiffness * jnp.maximum(depth, 0.0)
        return elastic + jnp.clip(self.damping * rate, -elastic, elastic)


def atv(modes: int = 134, steering: float = 0.25, shaking: float = 0.02) -> Model:
    """The vehicle with `modes` of its frame (the lowest, of 134 that are Craig and Bampton's of 20 interface points and 20 fixed-interface
    vibrations), its column turned by `steering` [rad] and its posts moved by `shaking` [m] out of phase.

    The paper tells the counts (28 moving parts, 43 joints, 134 modes, 5 motions) and what they are for, but no dimension. Geometry, masses
    and rates are those of a real quad's size, chosen for this project; so is every joint. Engine, rider and bodywork hang in bushings, where
    the paper has fixed joints: these would take hold of several interface points at once. The column turns in a ball at its lower bearing and a
    sleeve at the upper one. With 134 modes there are 337 coordinates, 173 rows and 164 freedoms: the modes, 24 of frame, engine, rider and
    bodywork, 3 of the suspension, 3 of turning wheels; posts and column are driven.

    It is not quite at rest where it stands: `mbd.equilibrium(model, held=AT_REST)` settles the rider by 7 mm, and the frame by 0.25 mm.

    ```bibtex
    @article{negrut2005hht,
      title={On the use of the {HHT} method in the context of index 3 differential algebraic equations of multibody dynamics},
      author={Negrut, Dan and Rampalli, Rajiv and Ottarsson, Gisli and Sajdak, Anthony},
      year={2005}
    }
    ```
    """
    data = _data()
    frame = ModalBody("frame", atv_frame(modes), damping=_damping)
    parts = {name: RigidBody(name, mass, inertia, position) for name, (mass, position, inertia) in data["parts"].items()}
    forces: list[Any] = [Gravity((0.0, 0.0, -9.81))]
    joints = _front(frame, parts, data) + _column(frame, parts["column"], data, steering) + _rear(frame, parts)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        top, bottom = frame.at(f"B4{side}"), np.array([0.49, 0.3 * sign, 0.245])
        forces.append(_shock(f"shock_{side}", parts, f"shock_front_{{}}_{side}", top.position, bottom, 18e3, 1200.0, 1201.1, 200e3))
    forces.append(
        _shock("shock_rear", parts, "shock_rear_{}", frame.at("C7").position, np.array([-0.55, 0, 0.36]), 56e3, 4000.0, 2152.7, 400e3)
    )
    for kind, body, mounts in (
        ("engine", "engine", ("A4L", "A4R", "A5L", "A5R")),
        ("rider", "rider", ("C6", "C7")),
        ("bodywork", "bodywork", ("B4L", "B4R", "C7")),
    ):
        for mount in mounts:
            at = frame.at(mount)
            forces.append(Bushing(f"{kind}_{mount}", at, parts[body], at.position, *data["bushings"][kind], stiff=False))
    for number, (corner, (body, radius, stiffness, damping, friction)) in enumerate(data["tyres"].items()):
        post, wheel = parts[f"post_{corner}"], parts[body]
        joints.append(Translational(f"guide_{corner}", ground, post, post.position, (0, 0, 1)))
        law = Shaking(jnp.asarray(shaking), jnp.asarray(2.0), jnp.asarray(0.5 * np.pi * number))
        joints.append(Motion(f"shaker_{corner}", ground, post, post.position, (0, 0, 1), law, coordinate="travel"))
        below = np.array([wheel.position[0], wheel.position[1], 0.0])
        tread = {"edge_radius": _TYRE_RIM, "allow_overlap": True}
        tyre, grip = LinearContact(stiffness, damping), Coulomb(friction, regularisation=_CREEP)
        forces.append(CoinPlane(f"tyre_{corner}", wheel, post, radius, (0, 1, 0), below, (0, 0, 1), tyre, grip, **tread))
    return Model([frame, *parts.values()], joints, forces)


@functools.cache
def atv_frame(modes: int = 134) -> ReducedBody:
    """The lowest modes of its frame."""
    return craig_bampton(atv_tubes(), tuple(_data()["interface"]), 20, keep=modes)


def atv_tubes() -> SpaceFrame:
    """The frame's 62 tubes between 35 nodes."""
    data = _data()
    sections = {name: Tube(*sizes) for name, sizes in data["sections"].items()}
    tubes = [(a, b, section) for a, b, section in data["tubes"]]
    return SpaceFrame(
        data["nodes"], tubes, sections, masses=data["point_masses"], element_length=data["element_length"], **data["material"]
    )


@functools.cache
def _data() -> dict[str, Any]:
    return json.loads(resources.files("jaxmbd.problems").joinpath("atv.json").read_text(encoding="utf-8"))


def _damping(frequencies: Any) -> np.ndarray:
    """Two per cent up to 1 kHz, and ten at 13 kHz."""
    return 0.02 * np.maximum(np.asarray(frequencies) / 1e3, 1.0) ** (np.log(5) / np.log(13))


def _front(frame: ModalBody, parts: dict[str, RigidBody], data: dict[str, Any]) -> list[Any]:
    """Double wishbones; arms turn about the lines through their two pivots, the front one a ball, the rear one a sleeve."""
    joints: list[Any] = []
    nodes = {name: np.array(place) for name, place in data["nodes"].items()}
    for side, y in (("L", 1.0), ("R", -1.0)):
        knuckle, tie_rod, lower = parts[f"knuckle_{side}"], parts[f"tie_rod_{side}"], parts[f"lca_{side}"]
        for arm, pivots, outer in (
            ("lca", ("A2", "A3"), (0.49, 0.38 * y, 0.22)),
            ("uca", ("B2", "B3"), (0.48, 0.36 * y, 0.38)),
        ):
            front, rear = (frame.at(pivot + side) for pivot in pivots)
            along = nodes[pivots[0] + side] - nodes[pivots[1] + side]
            joints += [
                Spherical(f"{arm}_front_{side}", front, parts[f"{arm}_{side}"], front.position),
                Inline(f"{arm}_rear_{side}", parts[f"{arm}_{side}"], rear, rear.position, along),
                Spherical(f"{arm}_ball_{side}", parts[f"{arm}_{side}"], knuckle, outer),
            ]
        inner, end = np.array([0.4, 0.04 * y, 0.3]), np.array([0.4, 0.375 * y, 0.255])
        joints += [
            Spherical(f"tie_rod_inner_{side}", parts["column"], tie_rod, inner),
            Universal(f"tie_rod_outer_{side}", tie_rod, knuckle, end, *_across(end - inner)),
            Revolute(f"hub_{side}", knuckle, parts[f"front_wheel_{side}"], parts[f"front_wheel_{side}"].position, (0, 1, 0)),
            *_strut(f"shock_{side}", frame.at(f"B4{side}"), lower, parts, f"shock_front_{{}}_{side}", np.array([0.49, 0.3 * y, 0.245])),
        ]
    return joints


def _column(frame: ModalBody, column: RigidBody, data: dict[str, Any], steering: float) -> list[Any]:
    low, high = frame.at("C3"), frame.at("C5")
    axis = np.array(data["nodes"]["C5"]) - np.array(data["nodes"]["C3"])
    return [
        Spherical("column_lower", low, column, low.position),
        Inline("column_upper", column, high, high.position, axis),
        Motion("steering", high, column, high.position, axis, Steering(jnp.asarray(steering), jnp.asarray(0.5))),
    ]


def _rear(frame: ModalBody, parts: dict[str, RigidBody]) -> list[Any]:
    """One trailing arm for the axle, whose pivot is a ball on the right and a sleeve on the left."""
    arm, axle, right, left = parts["trailing_arm"], parts["rear_axle"], frame.at("A6R"), frame.at("A6L")
    return [
        Spherical("trailing_arm_right", right, arm, right.position),
        Inline("trailing_arm_left", arm, left, left.position, (0, 1, 0)),
        Revolute("axle", arm, axle, axle.position, (0, 1, 0)),
        *(Fixed(f"rear_hub_{side}", axle, parts[f"rear_wheel_{side}"]) for side in "LR"),
        *_strut("shock_rear", frame.at("C7"), arm, parts, "shock_rear_{}", np.array([-0.55, 0.0, 0.36])),
    ]


def _strut(name: str, top: Any, carrier: RigidBody, parts: dict[str, RigidBody], part: str, bottom: np.ndarray) -> list[Any]:
    """The two tubes of a shock absorber, one sliding in the other."""
    upper, lower = parts[part.format("upper")], parts[part.format("lower")]
    along = top.position - bottom
    return [
        Spherical(f"{name}_top", top, upper, top.position),
        Translational(f"{name}_slide", upper, lower, 0.5 * (upper.position + lower.position), along),
        Universal(f"{name}_bottom", lower, carrier, bottom, *_across(along)),
    ]


def _across(along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two directions across another and each other."""
    first = np.cross(along, (1.0, 0.0, 0.0) if abs(along[0]) < 0.9 * np.linalg.norm(along) else (0.0, 0.0, 1.0))
    return first / np.linalg.norm(first), np.cross(along, first) / np.linalg.norm(np.cross(along, first))


def _shock(
    name: str,
    parts: dict[str, RigidBody],
    part: str,
    top: Any,
    bottom: np.ndarray,
    stiffness: float,
    damping: float,
    load: float,
    stop: float,
) -> SpringDamper:
    """Loaded as it stands; its stops are 5 cm away on either side."""
    length = float(np.linalg.norm(np.asarray(top) - bottom))
    stops = Stops(*(jnp.asarray(number) for number in (length - 0.05, length + 0.05, stop, stop / 400.0)))
    upper, lower = parts[part.format("upper")], parts[part.format("lower")]
    return SpringDamper(name, upper, lower, top, bottom, stiffness, damping, length + load / stiffness, stops)
