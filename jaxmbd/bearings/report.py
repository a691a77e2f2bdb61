"""What a bearing engineer asks of a run: contact angles, loads, pressures, speeds, friction torque."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._numbers import Numbers
from ..solution import Solution
from ..system.contact.base import AbstractContact, ContactLoads
from ..system.frames import Frame
from ..system.mechanism import AbstractMechanism
from ..system.stacked.groups import map_elements
from ..system.state import State
from ..system.system import System

if TYPE_CHECKING:
    from .deep_groove import DeepGroove


class Race(eqx.Module):
    """Balls on one ring; rows are saved times, columns balls."""

    load: Float[Numbers, "rows balls"]
    """N, normal force"""
    contact_angle: Float[Numbers, "rows balls"]
    """rad, of the normal against the radial plane; positive where the load on the inner ring along +z makes it so"""
    pressure: Float[Numbers, "rows balls"]
    """Pa, the largest in the spot"""
    film: Float[Numbers, "rows balls"] | None
    """m, central thickness of the lubricant film; None: dry"""
    slip: Float[Numbers, "rows balls"]
    """m/s, sliding speed at the middle of the spot"""
    spin: Float[Numbers, "rows balls"]
    """rad/s, of the ball against the ring about the normal"""
    traction: Float[Numbers, "rows balls 3"]
    """N, friction force on the ball, in the ground's axes"""
    torque: Float[Numbers, "rows"]
    """N m, of the balls on the ring about the bearing's axis"""
    force: Float[Numbers, "rows 3"]
    """N, of the balls on the ring"""


class Report(eqx.Module):
    """A run of a bearing in an engineer's terms. Rows are saved times, columns balls. `print` shows means over the run."""

    t: Float[Numbers, "rows"]
    """s"""
    inner: Race
    outer: Race
    orbit: Float[Numbers, "rows balls"]
    """rad/s, of each ball about the bearing's axis"""
    ball_spin: Float[Numbers, "rows balls"]
    """rad/s, of each ball about itself, as seen from a frame that goes round with it"""
    epicyclic_orbit: Float[Numbers, "rows"]
    """rad/s, of pure rolling at the mean contact angle of the loaded balls"""
    cage_speed: Float[Numbers, "rows"]
    """rad/s, about the bearing's axis"""
    cage_position: Float[Numbers, "rows 3"]
    """m"""
    inner_position: Float[Numbers, "rows 3"]
    """m"""
    pocket_force: Float[Numbers, "rows balls"]
    """N, normal"""
    guidance_force: Float[Numbers, "rows"]
    """N, normal, of cage and land"""
    friction_power: Float[Numbers, "rows"]
    """W, what contacts take from the bodies: by friction, by damping along the normal, and what they store at the moment"""

    def summary(self) -> dict[str, tuple[float, str]]:
        """Means over the run (maxima where the name says so), each with its unit."""
        degrees = 180.0 / np.pi
        values = {
            "contact angle inner": (_loaded_mean(self.inner, self.inner.contact_angle) * degrees, "deg"),
            "contact angle outer": (_loaded_mean(self.outer, self.outer.contact_angle) * degrees, "deg"),
            "ball load inner": (np.mean(self.inner.load), "N"),
            "ball load outer": (np.mean(self.outer.load), "N"),
            "largest ball load": (max(np.max(self.inner.load), np.max(self.outer.load)), "N"),
            "largest pressure": (1e-9 * max(np.max(self.inner.pressure), np.max(self.outer.pressure)), "GPa"),
            "ball orbit": (np.mean(self.orbit), "rad/s"),
            "epicyclic orbit": (np.mean(self.epicyclic_orbit), "rad/s"),
            "ball spin": (np.mean(self.ball_spin), "rad/s"),
            "cage speed": (np.mean(self.cage_speed), "rad/s"),
            "largest pocket force": (np.max(self.pocket_force), "N"),
            "friction torque inner": (np.mean(self.inner.torque), "N m"),
            "friction torque outer": (np.mean(self.outer.torque), "N m"),
            "friction power": (np.mean(self.friction_power), "W"),
        }
        if self.inner.film is not None and self.outer.film is not None:
            values["film inner"] = (1e6 * _loaded_mean(self.inner, self.inner.film), "um")
            values["film outer"] = (1e6 * _loaded_mean(self.outer, self.outer.film), "um")
        return {name: (float(value), unit) for name, (value, unit) in values.items()}

    def __str__(self) -> str:
        rows = [f"{name:24}{value:14.6g} {unit}" for name, (value, unit) in self.summary().items()]
        return "\n".join([f"bearing, {float(self.t[0]):g} ... {float(self.t[-1]):g} s, means over {len(self.t)} saved times", *rows])


def _loaded_mean(race: Race, values: Any) -> Any:
    """Weighted by load: angle and film of a ball that hardly touches mean nothing."""
    weight = np.asarray(race.load)
    return np.sum(np.where(weight > 0, weight * np.asarray(values), 0.0)) / max(np.sum(weight), 1e-300)


def report(bearing: "DeepGroove", solution: Solution) -> Report:
    system = solution.system
    if not isinstance(system, System) or "cage" not in system.body_names or "ball[0]" not in system.body_names:
        raise ValueError("the solution is not one of a bearing: simulate bearing.model() or bearing.system().")
    frames, loads = solution._rowwise(_everything)
    place = {name: i for i, name in enumerate(system.body_names)}
    balls = [place[f"ball[{i}]"] for i in range(bearing.balls)]
    body = lambda which: jax.tree.map(lambda leaf: leaf[:, which], frames)  # noqa: E731
    ball, cage = body(np.array(balls)), body(place["cage"])
    radial = ball.position[..., :2]
    square = jnp.sum(radial**2, axis=-1)
    orbit = (radial[..., 0] * ball.velocity[..., 1] - radial[..., 1] * ball.velocity[..., 0]) / square
    around = radial / jnp.sqrt(square)[..., None]
    relative = ball.angular_velocity - orbit[..., None] * np.array([0.0, 0.0, 1.0])
    inner, outer = (
        _race(_pick(system, loads, f"ball_{ring}"), body(place[ring]), around, sign) for ring, sign in (("inner", 1), ("outer", -1))
    )
    guides = _pick(system, loads, "guidance")
    total = jnp.zeros_like(solution.ts)
    for load in loads.values():
        total = total + jnp.sum(load.power, axis=tuple(range(1, load.power.ndim)))
    weight = inner.load + outer.load
    angle = jnp.sum(inner.load * inner.contact_angle + outer.load * outer.contact_angle, axis=1) / jnp.maximum(
        jnp.sum(weight, axis=1), 1e-300
    )
    return Report(
        solution.ts,
        inner,
        outer,
        orbit,
        jnp.sqrt(jnp.sum(relative**2, axis=-1)),
        bearing.epicyclic(angle).orbit,
        cage.angular_velocity[:, 2],
        cage.position,
        body(place["inner"]).position,
        _pick(system, loads, "ball_pocket").normal_force,
        jnp.zeros_like(solution.ts) if guides is None else jnp.sum(guides.normal_force.reshape(len(solution.ts), -1), axis=1),
        -total,
    )


def _everything(system: AbstractMechanism, state: State) -> tuple[Frame, dict[int, ContactLoads]]:
    """All frames, and the loads of every group of contacts."""
    frames = system.frames(state.q, state.v)
    loads = {}
    for number, (group, local, x) in enumerate(
        zip(system.force_groups, system.geometry.forces, system._states_by_group(state.x), strict=True)
    ):
        if isinstance(group.element, AbstractContact):
            loads[number] = map_elements(lambda e, loc, f, s: e.loads(e.touch(loc, f), f, s), group.element, local, group.frames(frames), x)
    return frames, loads


def _pick(system: System, loads: dict[int, ContactLoads], kind: str) -> Any:
    """The loads of the contacts that are called `kind` or `kind[i]`, columns in their order; None: there are none."""
    for number, load in loads.items():
        chosen = [i for i, name in enumerate(system.force_groups[number].names) if name.split("[")[0] == kind]
        if chosen:
            return jax.tree.map(lambda leaf, chosen=np.array(chosen): leaf[:, chosen], load)
    return None


def _race(loads: ContactLoads, ring: Frame, around: Array, sign: int) -> Race:
    normal = sign * loads.normal
    outward = jnp.sum(normal[..., :2] * around, axis=-1)
    force = -(loads.normal_force[..., None] * loads.normal + loads.friction)
    arm = loads.point - ring.position[:, None]
    turning = arm[..., 0] * force[..., 1] - arm[..., 1] * force[..., 0] - loads.spin_torque * loads.normal[..., 2]
    return Race(
        loads.normal_force,
        jnp.arctan2(normal[..., 2], outward),
        loads.pressure if loads.pressure is not None else jnp.full_like(loads.normal_force, jnp.nan),
        loads.film,
        loads.slip_speed,
        loads.spin,
        loads.friction,
        jnp.sum(turning, axis=1),
        jnp.sum(force, axis=1),
    )
