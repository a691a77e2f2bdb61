"""Many contacts at once: all of these shapes against all of those."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..elements import body_name, ground
from ..parameters import read_name
from .base import AbstractContact
from .friction import AbstractFriction
from .laws import AbstractContactLaw
from .planar import DiscDisc, DiscLine
from .raceways import SphereGroove
from .rounded import CoinPlane, EllipsoidPlane
from .solids import BoxPlane, CapsulePlane
from .spheres import SpherePlane, SphereSphere


class Sphere(NamedTuple):
    """A sphere on a body, for `contacts`."""

    body: Any
    radius: Any
    """m"""
    centre: Any = None
    """m, in the ground's frame at the initial configuration; None: the body's centre of mass"""


class Plane(NamedTuple):
    """A plane on a body (as a rule `mbd.ground`), for `contacts`: the face of all that lies behind it."""

    body: Any
    point: Any
    """m"""
    normal: Any
    """out of the body"""


class Box(NamedTuple):
    """A box on a body, its edges along the body's axes, for `contacts`."""

    body: Any
    sizes: Any
    """m, lengths of the edges"""
    centre: Any = None
    """m; None: the body's centre of mass"""


class Capsule(NamedTuple):
    """A capsule on a body, for `contacts`."""

    body: Any
    end1: Any
    """m"""
    end2: Any
    """m"""
    radius: Any
    """m"""


class Ellipsoid(NamedTuple):
    """An ellipsoid on a body, its semi-axes along the body's axes, for `contacts`."""

    body: Any
    semi_axes: Any
    """m"""
    centre: Any = None
    """m; None: the body's centre of mass"""


class Coin(NamedTuple):
    """A coin on a body, for `contacts` in space; see `CoinPlane`. (A `Disc` lives in the plane.)"""

    body: Any
    radius: Any
    """m, outermost"""
    axis: Any
    """direction, in the ground's frame at the initial configuration"""
    edge_radius: Any = 0.0
    """m, of the rim's section"""
    crown: Any = None
    """m, height of the middle of a face over its rim; None: a thousandth of the radius of the face"""
    centre: Any = None
    """m; None: the body's centre of mass"""


class Groove(NamedTuple):
    """The raceway of a ring, for `contacts` with the balls in it; see `SphereGroove`."""

    body: Any
    groove_radius: Any
    """m, of the groove's section"""
    pitch_radius: Any
    """m, from the axis to the centres of the sections"""
    axis: Any
    """of the ring"""
    side: str
    """"outside" of an inner ring, "inside" of an outer ring"""
    point: Any = None
    """m, on the axis in the middle plane of the groove; None: the body's centre of mass"""


class Disc(NamedTuple):
    """A disc on a planar body, for `contacts`."""

    body: Any
    centre: Any
    """m"""
    radius: Any
    """m"""


class Line(NamedTuple):
    """A straight line on a planar body, for `contacts`: the edge of all that lies behind it."""

    body: Any
    point: Any
    """m"""
    normal: Any
    """out of the body"""


Shape = Sphere | Plane | Box | Capsule | Ellipsoid | Coin | Groove | Disc | Line

_PAIRS: dict[tuple[type, type], Callable[..., AbstractContact]] = {
    (Sphere, Plane): lambda name, s, p, *laws, **rest: SpherePlane(
        name, s.body, p.body, s.radius, p.point, p.normal, *laws, centre=s.centre, **rest
    ),
    (Sphere, Sphere): lambda name, s, p, *laws, **rest: SphereSphere(
        name, s.body, p.body, s.radius, p.radius, *laws, centre_a=s.centre, centre_b=p.centre, **rest
    ),
    (Box, Plane): lambda name, s, p, *laws, **rest: BoxPlane(
        name, s.body, p.body, s.sizes, p.point, p.normal, *laws, centre=s.centre, **rest
    ),
    (Capsule, Plane): lambda name, s, p, *laws, **rest: CapsulePlane(
        name, s.body, p.body, s.end1, s.end2, s.radius, p.point, p.normal, *laws, **rest
    ),
    (Ellipsoid, Plane): lambda name, s, p, *laws, **rest: EllipsoidPlane(
        name, s.body, p.body, s.semi_axes, p.point, p.normal, *laws, centre=s.centre, **rest
    ),
    (Coin, Plane): lambda name, s, p, *laws, **rest: CoinPlane(
        name, s.body, p.body, s.radius, s.axis, p.point, p.normal, *laws, edge_radius=s.edge_radius, crown=s.crown, centre=s.centre, **rest
    ),
    (Sphere, Groove): lambda name, s, p, *laws, **rest: SphereGroove(
        name, s.body, p.body, s.radius, p.groove_radius, p.pitch_radius, p.axis, *laws, side=p.side, centre=s.centre, point=p.point, **rest
    ),
    (Disc, Line): lambda name, s, p, *laws, **rest: DiscLine(name, s.body, p.body, s.centre, s.radius, p.point, p.normal, *laws, **rest),
    (Disc, Disc): lambda name, s, p, *laws, **rest: DiscDisc(name, s.body, p.body, s.centre, s.radius, p.centre, p.radius, *laws, **rest),
}


def contacts(
    name: str,
    these: Iterable[Shape],
    those: Iterable[Shape] | None = None,
    *,
    law: AbstractContactLaw | Callable[[Any, Any], AbstractContactLaw],
    friction: AbstractFriction | None = None,
    stiff: bool = False,
    allow_overlap: bool = False,
) -> list[AbstractContact]:
    """All of these shapes against all of those; without `those`, all of these against each other.

    A list of contacts for a model's forces, named "name[0]", "name[1]", ...; `solution.contact("name")` has them all, one column a pair, and
    `solution.contact("name[3]")` one. The order is that of the lists: the first of these against each of those, the second, ...
    Shapes on one body do not touch each other, and a pair that both lists have is taken once. The first body of a pair is that of the sphere,
    box, capsule, ellipsoid, coin or disc, whichever list it came from; its face or groove belongs to the second. The system stacks them by
    kind, so that compiling does not take longer for more of them.
    `law` may be a function of the two shapes, for a stiffness that depends on their radii.
    """
    name = read_name("group of contacts", name)
    these = _shapes(name, these)
    if those is None:
        couples = [(first, second) for i, first in enumerate(these) for second in these[i + 1 :]]
    else:
        those = _shapes(name, those)
        couples = [(first, second) for first in these for second in those]
    label = f"group of contacts {name!r}"
    found, taken = [], set()
    for first, second in couples:
        pair = frozenset((id(first), id(second)))
        if pair in taken or body_name(label, first.body) == body_name(label, second.body):
            continue
        taken.add(pair)
        if (type(first), type(second)) not in _PAIRS:
            first, second = second, first
        if (type(first), type(second)) not in _PAIRS:
            kinds = ", ".join(f"{a.__name__}-{b.__name__}" for a, b in _PAIRS)
            raise ValueError(f"{label}: there is no contact of a {type(first).__name__} and a {type(second).__name__}; there are {kinds}.")
        chosen = law(first, second) if callable(law) else law
        make = _PAIRS[type(first), type(second)]
        found.append(make(f"{name}[{len(found)}]", first, second, chosen, friction, stiff=stiff, allow_overlap=allow_overlap))
    if not found:
        raise ValueError(f"{label} has no pairs: give shapes on two different bodies at least (mbd.{ground.name} counts as one).")
    return found


def _shapes(name: str, shapes: Iterable[Shape]) -> Sequence[Shape]:
    shapes = [shapes] if isinstance(shapes, Shape) else list(shapes)
    for shape in shapes:
        if not isinstance(shape, Shape):
            raise ValueError(f"group of contacts {name!r}: expected a shape such as mbd.Sphere(body, radius), got {shape!r}.")
    return shapes
