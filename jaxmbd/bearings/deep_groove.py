"""A parametric deep-groove ball bearing."""

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..solution import Solution
from ..system.building.model import Model
from ..system.contact.friction import AbstractFriction, Coulomb
from ..system.contact.hertz import HertzPoint, Material
from ..system.parameters import Parameter, is_traced, not_negative, positive, read_all, read_fields, scalar, vector
from ..system.system import System
from . import assembly, geometry
from .report import Report, report
from .start import Start, quasi_static

_FREEDOMS = ("", "z", "xy", "xyz")
_POCKETS = ("spherical", "cylindrical")


def _conformity(owner: str) -> Parameter:
    return Parameter(
        "1",
        valid=lambda f: f > 0.5,
        requirement=f"must be larger than 0.5 (it is the groove's radius over the ball's diameter; 0.515 to 0.53 is usual for the {owner} ring)",
    )


class DeepGroove(eqx.Module):
    """A single-row deep-groove ball bearing in space: two rings, balls, a cage; the axis is z, the outer ring stands at the origin.

    The defaults are a 6209 with a polyamide cage at 10^4 rpm under 1000 N of axial load. Every number is a leaf that can be
    differentiated and replaced: `bearing.replace(clearance=20e-6)`.

        bearing = mbd.bearings.DeepGroove(rings="penalty")
        system = bearing.system()                          # started from the quasi-static solution
        solution = mbd.simulate(system, 1e-3, integrator=mbd.SemiExplicit(...), step=2e-6)
        print(bearing.report(solution))

    `rings` says how the rings are held and driven. "prescribed": both are `Rotor`s, without any constraint: explicit methods run it.
    "penalty": both are rigid bodies, held and driven by joints with penalties, of family B: for `SemiExplicit`. The inner ring does not tilt,
    and of its translations those in `free` are free; by default "z", or "xyz" if there is a radial load. The loads act on the inner
    ring: `axial_load` along z, `radial_load` along x; a load along a direction that is held is refused, for nothing would feel it.

    Contacts are ball-inner, ball-outer (elliptical Hertz contacts with Hunt and Crossley's damping, sliding and spinning friction by the law
    `friction`), ball-pocket, and cage-ring (the `guidance` ring's land). Names: inner, outer, ball[i], cage; ball_inner[i], ball_outer[i],
    ball_pocket[i], guidance; load; with penalties the joints hold and drive_outer, guide and drive_inner: "ball_inner[3].law.stiffness",
    "hold.stiffness", "drive_inner.speed"; `solution.reaction("hold")` is what the housing gives.

    Steps: contacts of steel are stable up to 1e-5 s with dry friction. `LubricatedTraction` is steeper at small slip, and explicit methods
    then need 1e-6 s or less: beyond, tractions oscillate and torques are wrong, while loads and speeds still look right.

    Approximations: raceway curvatures for stiffness are those at the free contact angle; the rings are hollow cylinders less their grooves,
    the cage is a thin hoop; all bodies are rigid but for the contacts; shoulders have no edge; no churning of oil.
    """

    balls: int = eqx.field(static=True)
    """Z, their number"""
    ball_diameter: Float[Numbers, ""]
    """m"""
    pitch_diameter: Float[Numbers, ""]
    """m"""
    conformity_inner: Float[Numbers, ""]
    """groove radius over ball diameter"""
    conformity_outer: Float[Numbers, ""]
    clearance: Float[Numbers, ""]
    """m, diametral, of the mounted bearing; negative is an interference, which `allow_interference` must allow"""
    bore: Float[Numbers, ""]
    """m, diameter"""
    outside_diameter: Float[Numbers, ""]
    """m"""
    width: Float[Numbers, ""]
    """m, of the rings"""
    shoulder: Float[Numbers, ""]
    """height of the lands over the groove's bottom, over the ball diameter"""
    material: Material
    """of rings and balls"""
    stiffness_inner: Float[Numbers, ""] | None
    """N/m^1.5, of ball on inner ring; None: from geometry and material"""
    stiffness_outer: Float[Numbers, ""] | None
    damping: Float[Numbers, ""]
    """s/m, Hunt and Crossley's"""
    friction: AbstractFriction
    """of balls on rings"""
    cage_mass: Float[Numbers, ""]
    """kg"""
    cage_width: Float[Numbers, ""]
    """m, along the axis"""
    cage_material: Material
    cage_damping: Float[Numbers, ""]
    """s/m, of balls and rings on the cage"""
    cage_friction: AbstractFriction
    pocket_clearance: Float[Numbers, ""]
    """m, radial, of a ball in its pocket"""
    pocket: str = eqx.field(static=True)
    """the pockets' shape, "spherical" or "cylindrical" (about a radius of the bearing)"""
    guidance_clearance: Float[Numbers, ""]
    """m, radial, of the cage to the land that guides it"""
    guidance: str = eqx.field(static=True)
    """the ring whose land guides the cage: "inner", "outer", or "balls" for none"""
    cage_offset: Float[Numbers, "3"]
    """m, of the cage at the start: a centred cage touches nothing"""
    cage_speed_ratio: Float[Numbers, ""]
    """speed of the cage at the start, over that of the balls' orbit"""
    inner_speed: Float[Numbers, ""]
    """rad/s"""
    outer_speed: Float[Numbers, ""]
    """rad/s"""
    axial_load: Float[Numbers, ""]
    """N"""
    radial_load: Float[Numbers, ""]
    """N"""
    penalty_frequency: Float[Numbers, ""]
    """rad/s, of a ring on its penalty joints"""
    penalty_damping_ratio: Float[Numbers, ""]
    rings: str = eqx.field(static=True)
    free: str = eqx.field(static=True)
    free_given: bool = eqx.field(static=True)
    """whether `free` was said, or follows from the loads"""
    allow_interference: bool = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {
        "ball_diameter": positive("m"),
        "pitch_diameter": positive("m"),
        "conformity_inner": _conformity("inner"),
        "conformity_outer": _conformity("outer"),
        "clearance": scalar("m"),
        "bore": positive("m"),
        "outside_diameter": positive("m"),
        "width": positive("m"),
        "shoulder": Parameter("1", valid=lambda s: (s > 0) & (s < 0.5), requirement="must lie between 0 and 0.5"),
        "stiffness_inner": positive("N/m^1.5")._replace(optional=True),
        "stiffness_outer": positive("N/m^1.5")._replace(optional=True),
        "damping": not_negative("s/m"),
        "cage_mass": positive("kg"),
        "cage_width": positive("m"),
        "cage_damping": not_negative("s/m"),
        "pocket_clearance": positive("m", "must be positive, or the balls jam in the cage: give the radial gap of a ball in its pocket"),
        "guidance_clearance": positive("m", "must be positive, or the cage jams on the ring: give the radial gap of the cage to the land"),
        "cage_offset": vector("m", 3),
        "cage_speed_ratio": scalar("1"),
        "inner_speed": scalar("rad/s"),
        "outer_speed": scalar("rad/s"),
        "axial_load": scalar("N"),
        "radial_load": scalar("N"),
        "penalty_frequency": positive("rad/s"),
        "penalty_damping_ratio": not_negative("1"),
    }

    def __init__(
        self,
        *,
        balls: int = 9,
        ball_diameter: Any = 12.7e-3,
        pitch_diameter: Any = 65e-3,
        conformity_inner: Any = 0.52,
        conformity_outer: Any = 0.52,
        clearance: Any = 10e-6,
        bore: Any = 45e-3,
        outside_diameter: Any = 85e-3,
        width: Any = 19e-3,
        shoulder: Any = 0.2,
        material: Material | None = None,
        stiffness_inner: Any = None,
        stiffness_outer: Any = None,
        damping: Any = 0.2,
        friction: Any = 0.05,
        cage_mass: Any = 15e-3,
        cage_width: Any = 14e-3,
        cage_material: Material | None = None,
        cage_damping: Any = 1.0,
        cage_friction: Any = 0.05,
        pocket_clearance: Any = 0.1e-3,
        pocket: str = "spherical",
        guidance_clearance: Any = 0.2e-3,
        guidance: str = "outer",
        cage_offset: Any = (0.0, 0.0, 0.0),
        cage_speed_ratio: Any = 1.0,
        inner_speed: Any = 1e4 * 2 * np.pi / 60,
        outer_speed: Any = 0.0,
        axial_load: Any = 1000.0,
        radial_load: Any = 0.0,
        penalty_frequency: Any = 1e7,
        penalty_damping_ratio: Any = 1.0,
        rings: str = "prescribed",
        free: str | None = None,
        allow_interference: bool = False,
    ):
        given = locals()
        read_fields(self, "the bearing", self.parameters, **{name: given[name] for name in self.parameters})
        self.material = Material(206e9, 0.3, 7800.0) if material is None else material
        self.cage_material = Material(2.5e9, 0.4) if cage_material is None else cage_material
        self.friction, self.cage_friction = _law("friction", friction), _law("cage_friction", cage_friction)
        self.free_given = free is not None
        if free is None:
            free = "z" if not is_traced(self.radial_load) and self.radial_load == 0 else "xyz"
        self.balls, self.rings, self.free, self.allow_interference = balls, rings, free, allow_interference
        self.guidance, self.pocket = guidance, pocket
        _check(self)

    def replace(self, **changes: Any) -> "DeepGroove":
        """The same bearing with other numbers, checked; works under jit, grad and vmap. A new radial load decides anew on `free`, unless
        that was given."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "free_given"}
        for name in changes:
            if name not in given:
                raise ValueError(f"the bearing has no parameter {name!r}. Known: {', '.join(given)}.")
        follows = not self.free_given and changes.get("free") is None
        if follows and "radial_load" in changes:
            given["free"] = None
        made = DeepGroove(**(given | changes))
        # Not None without a new load: a load that is traced, only because the bearing is an argument of jit, would free the ring.
        object.__setattr__(made, "free_given", not follows)
        return made

    # --- numbers that follow ----------------------------------------------------------------------------------------------------------

    @property
    def free_contact_angle(self) -> Array:
        """rad, when an axial load has just taken up the clearance; zero with an interference"""
        return geometry.angle_of(self._free_contact_cosine())

    def _free_contact_cosine(self) -> Array:
        return geometry.free_contact_cosine(self.ball_diameter, self.conformity_inner, self.conformity_outer, self.clearance)

    def groove_circle(self, ring: str) -> Numbers:
        """m, radius of the circle of the centres of the groove of the "inner" or the "outer" ring"""
        return geometry.groove_circle(
            self.pitch_diameter, self.ball_diameter, getattr(self, f"conformity_{ring}"), self.clearance, inner=ring == "inner"
        )

    def land(self, ring: str) -> Numbers:
        """m, radius of the land of a ring, beside its groove"""
        sign = -1.0 if ring == "inner" else 1.0
        return 0.5 * self.pitch_diameter + sign * (0.5 - self.shoulder) * self.ball_diameter

    def hertz(self, ring: str) -> HertzPoint:
        """The contact of a ball on the "inner" or the "outer" ring, with the raceway's curvatures at the free contact angle."""
        ball = 2.0 / self.ball_diameter
        gamma = self.ball_diameter * self._free_contact_cosine() / self.pitch_diameter
        rolling = gamma / (1.0 - gamma) if ring == "inner" else -gamma / (1.0 + gamma)
        groove = -1.0 / (getattr(self, f"conformity_{ring}") * self.ball_diameter)
        return HertzPoint(ball * np.ones(2), jnp.stack([ball * rolling, groove]), self.material)

    def epicyclic(self, contact_angle: Any = 0.0) -> geometry.Epicyclic:
        """Speeds of orbit and spin of the balls in pure rolling [rad/s]."""
        return geometry.epicyclic(self.ball_diameter, self.pitch_diameter, jnp.asarray(contact_angle), self.inner_speed, self.outer_speed)

    # --- what a person runs -----------------------------------------------------------------------------------------------------------

    def start(self) -> Start:
        """The quasi-static solution: positions and speeds at which the bearing's own contact forces balance."""
        return quasi_static(self)

    def model(self, start: Start | None = None) -> Model:
        """The bearing as a model, started from the quasi-static solution or a given one."""
        return assembly.model(self, self.start() if start is None else start)

    def system(self, start: Start | None = None) -> System:
        """The built model. With a given start it works under jit, grad and vmap: all of the bearing's numbers may be traced."""
        return self.model(start).build()

    def report(self, solution: Solution) -> Report:
        """What a bearing engineer asks for, at every saved time."""
        return report(self, solution)


def _law(name: str, given: Any) -> AbstractFriction:
    """A friction law; a number is a Coulomb coefficient, regularised at 0.1 m/s."""
    if isinstance(given, AbstractFriction):
        return given
    values = read_all("the bearing", {name: not_negative("1")}, **{name: given})
    return Coulomb(values[name], regularisation=0.1)


def _check(bearing: DeepGroove) -> None:
    """What single numbers do not show: a bearing whose parts fit together."""
    known = {"rings": ("penalty", "prescribed"), "guidance": ("inner", "outer", "balls"), "free": _FREEDOMS, "pocket": _POCKETS}
    for field, choices in known.items():
        value = getattr(bearing, field)
        if value not in choices:
            raise ValueError(f"{field} of the bearing must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    count = bearing.balls
    if not isinstance(count, int | np.integer) or count < 2:
        raise ValueError(f"balls of the bearing must be a whole number, at least 2, got {count!r}.")
    if bearing.material.density is None:
        raise ValueError("material of the bearing has no density: give mbd.Material(elastic_modulus, poisson_ratio, density).")
    for load, direction in (("axial_load", "z"), ("radial_load", "x")):
        value = getattr(bearing, load)
        if direction not in bearing.free and not is_traced(value) and value != 0:
            raise ValueError(
                f"{load} of the bearing acts along {direction}, where free={bearing.free!r} holds the inner ring: {float(value):.6g} N would do "
                f"nothing. Leave free out, give one with {direction}, such as 'xyz', or set {load}=0."
            )
    if is_traced(bearing):
        return
    d, D = float(bearing.ball_diameter), float(bearing.pitch_diameter)
    if bearing.clearance < 0 and not bearing.allow_interference:
        raise ValueError(
            f"clearance of the bearing is negative: {1e6 * float(bearing.clearance):.6g} um. Give the diametral clearance of the mounted "
            "bearing; if an interference is meant, say allow_interference=True."
        )
    need, chord = d + 2 * float(bearing.pocket_clearance), D * np.sin(np.pi / count)
    if need >= chord:
        most = int(np.floor(np.pi / np.arcsin(min(need / D, 1.0)) * (1 - 1e-12)))
        raise ValueError(
            f"balls of the bearing do not fit on the pitch circle: {count} balls of {1e3 * d:.6g} mm, each in its pocket, need centres "
            f"{1e3 * need:.6g} mm apart, a pitch_diameter of {1e3 * D:.6g} mm leaves {1e3 * chord:.6g} mm. Take at most {most} balls, "
            f"smaller ones, or a pitch_diameter above {1e3 * need / np.sin(np.pi / count):.6g} mm."
        )
    bottom = {"inner": D - d, "outer": D + d}
    if bearing.bore >= bottom["inner"]:
        raise ValueError(
            f"bore of the bearing leaves no inner ring: it must be smaller than the raceway's {1e3 * bottom['inner']:.6g} mm "
            f"(pitch_diameter - ball_diameter), got {1e3 * float(bearing.bore):.6g} mm."
        )
    if bearing.outside_diameter <= bottom["outer"]:
        raise ValueError(
            f"outside_diameter of the bearing leaves no outer ring: it must be larger than the raceway's {1e3 * bottom['outer']:.6g} mm "
            f"(pitch_diameter + ball_diameter), got {1e3 * float(bearing.outside_diameter):.6g} mm."
        )
