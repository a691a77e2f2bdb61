"""What can be observed, as data: by the kind of its owner, quantities with their units.

An observable has a name "owner.quantity": "chassis.z", "spring.length", "hinge.rate", "floor.normal_force". A class of bodies, joints, forces
or systems lists its own quantities in a class variable `observables`; those of its parents count too, and a new kind of element needs
no other place. `views` are what the functions here look at.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from .frames import norm
from .rotations import dot


class Observable(NamedTuple):
    """One quantity of a kind of owner."""

    unit: str
    value: Callable[[Any], Array] | None = None
    """of a view of the owner at one time: a number"""
    rate: str = ""
    """the quantity of the same owner that is its derivative by time; empty: rates come from neighbouring rows"""
    flow: Callable[[Any], Array] | None = None
    """of a view too. With it, the observable is the flow's integral over time since the first row, and the change of `value` since then."""
    full_turns: bool = False
    """an angle that the value tells up to full turns: they are counted along the rows"""
    spatial: bool = False
    """whether it has a meaning in space only"""
    applies: Callable[[Any], bool] | None = None
    """of a body or element: whether it has the quantity; None: all of its class do"""


Table = dict[str, Observable]


def table_of(kind: type) -> Table:
    """All observables of a class, its parents' first."""
    found: Table = {}
    for parent in reversed(kind.__mro__):
        found |= vars(parent).get("observables", {})
    return found


def only(table: Table, applies: Callable[[Any], bool]) -> Table:
    """The same for some of a class."""
    return {name: seen._replace(applies=applies) for name, seen in table.items()}


def _components(prefix: str, unit: str, vector: Callable[[Any], Array], rate: str = "", planar: str = "xy") -> Table:
    """Of a vector in space. In a planar model only those named remain."""
    return {
        f"{prefix}{axis}": Observable(unit, functools.partial(_component, vector, i), rate and f"{rate}{axis}", spatial=axis not in planar)
        for i, axis in enumerate("xyz")
    }


def _component(vector: Callable[[Any], Array], i: int, at: Any) -> Array:
    return vector(at)[i]


# --- bodies -------------------------------------------------------------------------------------------------------------------------------

POINT: Table = {
    **_components("", "m", lambda at: at.position, rate="v"),
    **_components("v", "m/s", lambda at: at.velocity),
    **_components("a", "m/s^2", lambda at: at.acceleration),
    "speed": Observable("m/s", lambda at: norm(at.velocity)),
}
"""of a body's centre of mass, or of any point of it: "rod.point(0.5,0,0).x" """

BODY: Table = {**POINT, "kinetic": Observable("J", lambda at: at.kinetic)}

TURNING: Table = {
    **_components("w", "rad/s", lambda at: at.frame.angular_velocity, planar="z"),
    **{
        f"{name}_body": seen._replace(spatial=True)
        for name, seen in _components("w", "rad/s", lambda at: dot(at.frame.rotation.T, at.frame.angular_velocity)).items()
    },
}
"""angular velocity, in the ground's and in the body's axes"""

PLANAR_ANGLE: Table = {"angle": Observable("rad", lambda at: at.q[2], rate="wz")}
ROTOR_ANGLE: Table = {"angle": Observable("rad", lambda at: at.q[3])}
EULER_PARAMETERS: Table = {f"e{i}": Observable("1", lambda at, i=i: at.q[3 + i]) for i in range(4)}

# --- what works ---------------------------------------------------------------------------------------------------------------------------

WORKER: Table = {
    "power": Observable("W", lambda at: at.flows.power),
    "work": Observable("J", lambda at: -at.flows.stored, flow=lambda at: at.flows.supplied),
    "supplied": Observable("J", flow=lambda at: at.flows.supplied),
}
"""what an element does to the bodies now and has done since the first row; and what of that it did not take from its own store"""

STORE: Table = {"potential": Observable("J", lambda at: at.flows.stored)}

ENERGY: Table = {
    "kinetic": Observable("J", lambda at: at.kinetic),
    "potential": Observable("J", lambda at: at.potential),
    "total": Observable("J", lambda at: at.kinetic + at.potential),
    "supplied": Observable("J", flow=lambda at: jnp.sum(at.flows.supplied)),
    "error": Observable("J", lambda at: at.kinetic + at.potential, flow=lambda at: -jnp.sum(at.flows.supplied)),
}
"""of the whole system; the error is the change of the total that nothing has supplied, which is numerical"""

# --- beams --------------------------------------------------------------------------------------------------------------------------------


def _at(end: str, seen: Observable) -> Observable:
    value = seen.value
    assert value is not None
    return seen._replace(value=lambda at: value(getattr(at, end)), rate=seen.rate and f"{end}.{seen.rate}")


BEAM: Table = {f"{end}.{name}": _at(end, seen) for end in ("start", "end") for name, seen in POINT.items()} | WORKER | STORE
"""of a whole beam: where its ends are, and the energy that its segments store and lose"""

# --- joints -------------------------------------------------------------------------------------------------------------------------------


def _wrench(force: Callable[[Any], Array], torque: Callable[[Any], Array]) -> Table:
    return {
        "force": Observable("N", lambda at: norm(force(at))),
        "torque": Observable("N m", lambda at: norm(torque(at))),
        **_components("f", "N", force),
        **_components("t", "N m", torque, planar="z"),
    }


JOINT: Table = {
    **_wrench(lambda at: at.reaction[0], lambda at: at.reaction[1]),
    **only(WORKER, lambda joint: joint.driven or joint.penalty is not None),
    **only(STORE, lambda joint: joint.penalty is not None),
}
"""the reaction: on the second body, about the joint's point"""

_RATE: Table = {"rate": Observable("rad/s", lambda at: at.local.angle_rate(*at.frames))}
ANGLE: Table = {"angle": Observable("rad", lambda at: at.local.angle(*at.frames), rate="rate", full_turns=True), **_RATE}
FOLLOWED_ANGLE: Table = {"angle": Observable("rad", lambda at: at.angles[0], rate="rate"), **_RATE}
"""for elements that follow their angle over full turns themselves"""

TRAVEL: Table = {
    "travel": Observable("m", lambda at: at.local.travel(*at.frames), rate="travel_rate"),
    "travel_rate": Observable("m/s", lambda at: at.local.component_rates(*at.frames)[0]),
}
IN_PLANE: Table = {
    f"travel{i}": Observable("m", lambda at, i=i: at.local.components(*at.frames)[i], rate=f"travel_rate{i}") for i in (1, 2)
} | {f"travel_rate{i}": Observable("m/s", lambda at, i=i: at.local.component_rates(*at.frames)[i]) for i in (1, 2)}
"""along two directions across the axis that are fixed in the first body"""

CARDAN: Table = {
    f"angle{i + 1}": Observable("rad", lambda at, i=i: at.local.angles(at.frames)[i], rate=f"rate{i + 1}", full_turns=True) for i in (0, 1)
} | {f"rate{i + 1}": Observable("rad/s", lambda at, i=i: at.local.angle_rates(at.frames)[i]) for i in (0, 1)}

GEAR: Table = {
    **{f"angle{i + 1}": Observable("rad", lambda at, i=i: at.angles[i], rate=f"rate{i + 1}") for i in (0, 1)},
    "rate1": Observable("rad/s", lambda at: at.local.first.angle_rate(at.frames[2], at.frames[0])),
    "rate2": Observable("rad/s", lambda at: at.local.second.angle_rate(at.frames[2], at.frames[1])),
}
"""of both wheels against the carrier"""

RACK: Table = {
    "angle": Observable("rad", lambda at: at.angles[0], rate="rate"),
    "rate": Observable("rad/s", lambda at: at.local.first.angle_rate(at.frames[2], at.frames[0])),
    "travel": Observable("m", lambda at: at.local.second.travel(at.frames[2], at.frames[1]), rate="travel_rate"),
    "travel_rate": Observable("m/s", lambda at: at.local.second.component_rates(at.frames[2], at.frames[1])[0]),
}
"""of the pinion and of the rack, against the carrier"""


# --- forces -------------------------------------------------------------------------------------------------------------------------------

FORCE: Table = {**_wrench(lambda at: at.wrench.force[-1], lambda at: at.wrench.torque[-1]), **WORKER, **STORE}
"""on the last of its bodies, about that body's centre of mass"""


def _along(at: Any) -> tuple[Array, Array]:
    """(unit vector, length) from the point on a to that on b; no direction at zero length."""
    a, b = at.frames
    d = b.point(at.local.point_b) - a.point(at.local.point_a)
    length = norm(d)
    return d / jnp.where(length > 0, length, 1.0), length


def _lengthening(at: Any) -> Array:
    a, b = at.frames
    return dot(_along(at)[0], b.point_velocity(at.local.point_b) - a.point_velocity(at.local.point_a))


SPRING: Table = {
    "length": Observable("m", lambda at: _along(at)[1], rate="rate"),
    "rate": Observable("m/s", _lengthening),
    "force": Observable("N", lambda at: -dot(_along(at)[0], at.wrench.force[1])),
}
"""the force is the pull between its points, positive in tension"""

TORSION: Table = {
    **FOLLOWED_ANGLE,
    "torque": Observable("N m", lambda at: -dot(at.local.direction(at.frames[0]), at.wrench.torque[1])),
}
"""the torque is what it resists a positive angle with"""

CONTACT: Table = {
    "gap": Observable("m", lambda at: jnp.min(at.loads.gap)),
    "normal_force": Observable("N", lambda at: jnp.sum(at.loads.normal_force)),
    "friction_force": Observable("N", lambda at: jnp.sum(_size(at, at.loads.friction))),
    "slip_speed": Observable("m/s", lambda at: jnp.max(at.loads.slip_speed)),
    "pressure": Observable("Pa", lambda at: jnp.max(at.loads.pressure), applies=lambda pair: pair.law.spot is not None),
    "film": Observable("m", lambda at: _thinnest(at.loads.film), applies=lambda pair: "film" in vars(type(pair.friction))),
}
"""of several spots or pairs: smallest gap and film, largest slip and pressure, sums of forces"""


def _size(at: Any, u: Array) -> Array:
    """Of slips or frictions: numbers in the plane, vectors in space."""
    return jnp.abs(u) if u.shape == at.loads.gap.shape else norm(u)


def _thinnest(films: Array) -> Array:
    """Of those that are closed; zero if none is."""
    least = jnp.min(jnp.where(films > 0, films, jnp.inf))
    return jnp.where(jnp.isfinite(least), least, 0.0)
