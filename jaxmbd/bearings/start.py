"""Where a bearing starts from: the motion in which its own contact forces balance.

Seen from a frame that goes round with a ball, that motion is a state of rest: the ball keeps its place and its spin. The residuals are the
accelerations of the bearing's own elements against those of that motion, so that a run from here has no transient but a physical one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .._compiling import compiled_in_haste, evaluated_now
from .._numbers import Numbers
from ..system.equations import acceleration_a
from ..system.parameters import is_traced
from ..system.rotations import cross, ground_rates
from ..system.system import System
from . import assembly, geometry

if TYPE_CHECKING:
    from .deep_groove import DeepGroove

_FIRST_REGULARISATION = 10.0
"""m/s, at which the continuation in the regularisation of friction begins"""
_STAGES = 12
_ITERATIONS = 60
_BALANCED = 1e-9
"""Residuals over the loads that balance, at most: rounding of micron depths on 30 mm orbits leaves 1e-10."""
_UP = np.array([0.0, 0.0, 1.0])


class Start(eqx.Module):
    """Positions and velocities of a bearing's parts; the bearing's axis is z, ball i stands at the angle 2 pi i / Z."""

    ball_position: Float[Numbers, "balls 3"]
    """m"""
    ball_velocity: Float[Numbers, "balls 3"]
    """m/s"""
    ball_spin: Float[Numbers, "balls 3"]
    """rad/s, angular velocity in the ground's axes"""
    inner_position: Float[Numbers, "3"]
    """m"""
    orbit: Float[Numbers, ""]
    """rad/s, of the balls about the axis"""
    imbalance: Float[Numbers, ""]
    """largest force that is left unbalanced, over the largest contact force"""


def quasi_static(bearing: "DeepGroove") -> Start:
    """With an axial load alone, all balls do the same: one ball's seven equations settle place, spin, orbit and the ring's displacement,
    friction and gyroscopic moments included. Else the balls' places and the ring's displacement are those of balance without friction,
    at the speeds of pure rolling."""
    if is_traced(bearing):
        raise ValueError("the quasi-static start of the bearing cannot be traced: compute start = bearing.start() first, and pass it on.")
    with evaluated_now():
        if "z" in bearing.free and bearing.radial_load == 0 and bearing.axial_load != 0:
            return _axial(bearing)
        return _without_friction(bearing)


# --- axial load: one ball stands for all --------------------------------------------------------------------------------------------------


class _Scales(eqx.Module):
    """What the unknowns (radius, height, ring's height, orbit, spin in three directions) and the equations are measured in."""

    origin: Float[Numbers, "7"]
    unknown: Float[Numbers, "7"]
    force: Float[Numbers, ""]
    torque: Float[Numbers, ""]


@compiled_in_haste
def _axial_residual_and_slope(system: System, scales: _Scales, z: Array) -> tuple[Array, Array]:
    def residual(z: Array) -> Array:
        unknown = scales.origin + z * scales.unknown
        radius, height, ring, orbit, spin = unknown[0], unknown[1], unknown[2], unknown[3], unknown[4:]
        position, velocity = jnp.stack([radius, jnp.zeros(()), height]), jnp.stack([jnp.zeros(()), orbit * radius, jnp.zeros(())])
        q, v = _place(system, position[None], velocity[None], spin[None], ring * _UP)
        ball, inner, mass, moment = _accelerations(system, q, v)
        force = mass * (ball[0, :3] + jnp.stack([orbit**2 * radius, jnp.zeros(()), jnp.zeros(())]))
        torque = moment * (ball[0, 3:] - orbit * cross(jnp.asarray(_UP), spin))
        load = system.get("inner.mass") * inner[2]
        return jnp.concatenate([force / scales.force, load[None] / scales.force, torque / scales.torque])

    return _with_slope(residual, z)


def _with_slope(function: Callable[[Array], Array], at: Array) -> tuple[Array, Array]:
    """A function's value and derivative, traced once for both."""

    def twice(at: Array) -> tuple[Array, Array]:
        value = function(at)
        return value, value

    slope, value = jax.jacfwd(twice, has_aux=True)(at)
    return value, slope


def _balls(system: System) -> slice:
    """Where the balls' coordinates stand: they are of one kind, one after the other."""
    slices = [where for name, (_, _, where) in system.body_slices().items() if name.startswith("ball")]
    return slice(slices[0].start, slices[-1].stop)


def _place(system: System, position: Array, velocity: Array, spin: Array, ring: Array) -> tuple[Array, Array]:
    """q and v of a system of rotors and balls, with the balls and the inner ring moved; orientations are the initial ones."""
    q, v, balls, inner = system.q0, system.v0, _balls(system), system.body_slices()["inner"][2]
    p = q[balls].reshape(-1, 7)[:, 3:]
    rates = jax.vmap(lambda p, spin: 0.5 * ground_rates(p).T @ spin)(p, spin)
    q = q.at[balls].set(jnp.concatenate([position, p], axis=1).ravel())
    v = v.at[balls].set(jnp.concatenate([velocity, rates], axis=1).ravel())
    return q.at[inner.start : inner.start + 3].set(ring), v


def _accelerations(system: System, q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    """(of every ball: linear and angular, of the inner ring: linear, a ball's mass, its moment of inertia)"""
    a, balls = acceleration_a(system, q, v, jnp.zeros(()), system.x0), _balls(system)
    own, p = a[balls].reshape(-1, 7), q[balls].reshape(-1, 7)[:, 3:]
    # omega = 2 E p', and E' p' = 0
    turning = jax.vmap(lambda p, rates: 2.0 * ground_rates(p) @ rates)(p, own[:, 3:])
    inner = a[system.body_slices()["inner"][2]][:3]
    return jnp.concatenate([own[:, :3], turning], axis=1), inner, system.get("ball[0].mass"), system.get("ball[0].inertia")[0, 0]


def _axial(bearing: "DeepGroove") -> Start:
    if bearing.friction.memory:
        raise ValueError(
            f"the quasi-static start of the bearing does not know the states that {type(bearing.friction).__name__} has in rolling contacts, "
            "and friction decides on the speeds. Start from a law without states: start = bearing.replace(friction=0.05).start(), "
            "bearing.system(start)."
        )
    angle, share = _loaded_angle(bearing)
    sign = float(np.sign(bearing.axial_load))
    d = float(bearing.ball_diameter)
    reach = (float(bearing.conformity_outer) - 0.5) * d + float(bearing.hertz("outer").depth(share))
    radius, height = float(bearing.groove_circle("outer")) + reach * np.cos(angle), reach * np.sin(angle)
    ring = height + (float(bearing.conformity_inner) - 0.5) * d * np.sin(angle)
    speeds = bearing.epicyclic(angle)
    orbit, spin = float(speeds.orbit), float(speeds.spin)
    # perpendicular to the contact line; the part along it is what friction settles
    origin = np.array([radius, sign * height, sign * ring, orbit, -sign * spin * np.sin(angle), 0.0, spin * np.cos(angle) + orbit])
    fast = max(abs(spin), abs(orbit), 1.0)
    scales = _Scales(
        jnp.asarray(origin),
        jnp.asarray(np.array([1e-6, 1e-6, 1e-6, 1e-3 * fast, fast, fast, fast])),
        jnp.asarray(share),
        jnp.asarray(0.01 * share * 0.5 * d),
    )
    system = assembly.races_only(bearing, np.array([[radius, 0.0, sign * height]]), sign * ring * _UP, bearing.friction).build()
    z, residual = jnp.zeros(7), np.inf
    for regularised in _continuation(bearing, system):
        z, residual = _newton(lambda z, s=regularised: _axial_residual_and_slope(s, scales, z), z)
    if not residual < 1e3 * _BALANCED:
        raise ValueError(
            f"the quasi-static start of the bearing was not found (forces remain unbalanced by {residual:.2g} of a ball's load). Is the axial "
            "load large enough for the speed, so that balls roll? Start from another bearing's start and let it run in."
        )
    radius, height, ring, orbit, *spin = (float(x) for x in scales.origin + z * scales.unknown)
    return _spread(bearing.balls, radius, height, ring, orbit, np.array(spin), residual)


def _loaded_angle(bearing: "DeepGroove") -> tuple[float, float]:
    """Contact angle [rad] under the axial load at standstill, and a ball's load [N]: F / Z = Q sin(alpha), with the groove centres moved
    apart by what both contacts yield (Harris, chapter 7)."""
    stiffness = sum(float(bearing.hertz(ring).stiffness) ** (-2 / 3) for ring in assembly.RINGS)
    distance = float((bearing.conformity_inner + bearing.conformity_outer - 1.0) * bearing.ball_diameter)
    share, free = abs(float(bearing.axial_load)) / bearing.balls, float(bearing.free_contact_angle)
    low, high = free, 0.5 * np.pi
    for _ in range(60):
        angle = 0.5 * (low + high)
        stretch = distance * (np.cos(free) / np.cos(angle) - 1.0)
        low, high = (low, angle) if (stretch / stiffness) ** 1.5 * np.sin(angle) > share else (angle, high)
    return angle, share / np.sin(angle)


def _continuation(bearing: "DeepGroove", system: System):
    """The system with friction that is smoothed less and less, down to its own law."""
    last = getattr(bearing.friction, "regularisation", None)
    if last is not None and last < _FIRST_REGULARISATION:
        for speed in np.geomspace(_FIRST_REGULARISATION, float(last), _STAGES)[:-1]:
            yield system.set({f"ball_{ring}[0].friction.regularisation": speed for ring in assembly.RINGS})
    yield system


def _newton(function: Any, z: Array) -> tuple[Array, float]:
    """Newton's method that halves a step until the residual falls; stops when it no longer does."""
    # On the host, around one compiled program of residual and slope. With optimistix, loops compiled as well, the first start of a kind took
    # 1.2 to 1.8 (Newton, without damping) or 2.0 to 3.4 times the CPU time (Dogleg, Levenberg-Marquardt), later ones as long as here.
    residual, slope = function(z)
    size = float(jnp.max(jnp.abs(residual)))
    for _ in range(_ITERATIONS):
        if size < _BALANCED:
            break
        step = jnp.asarray(np.linalg.lstsq(np.asarray(slope), np.asarray(residual), rcond=1e-14)[0])
        for k in range(12):
            trial = z - 0.5**k * step
            residual_there, slope_there = function(trial)
            size_there = float(jnp.max(jnp.abs(residual_there)))
            if np.isfinite(size_there) and size_there < size:
                break
        else:
            break
        z, residual, slope, size = trial, residual_there, slope_there, size_there
    return z, size


def _spread(count: int, radius: float, height: float, ring: float, orbit: float, spin: np.ndarray, imbalance: float) -> Start:
    """One ball's state (at the angle zero) turned to every ball's place."""
    angles = 2 * np.pi * np.arange(count) / count
    turn = np.stack([[np.cos(angles), -np.sin(angles), 0 * angles], [np.sin(angles), np.cos(angles), 0 * angles]], axis=0)
    turn = np.concatenate([turn, np.stack([0 * angles, 0 * angles, 1 + 0 * angles])[None]])  # (3, 3, balls)
    place = lambda u: np.einsum("ijn,j->ni", turn, np.asarray(u))  # noqa: E731
    motion = place([radius, 0.0, height]), place([0.0, orbit * radius, 0.0]), place(spin)
    return Start(*(jnp.asarray(part, dtype=float) for part in (*motion, ring * _UP, orbit, imbalance)))


# --- any load: balance without friction -----------------------------------------------------------------------------------------------------

_TETHER = 1e3
"""N/m, towards the pitch circle: a ball that nothing touches has no place of its own; millinewtons over a clearance"""


@compiled_in_haste
def _balance(system: System, around: Array, middle: Array, orbit: Array, free: str, unknown: Array) -> tuple[Array, Array]:
    """Unbalanced forces [N] with the centrifugal force of the orbit, and their derivative; the unknowns are micrometres."""
    count = around.shape[0]
    moves = np.array([i for i, c in enumerate("xyz") if c in free], dtype=int)

    def residual(unknown: Array) -> Array:
        shift, height = 1e-6 * unknown[:count], 1e-6 * unknown[count : 2 * count]
        ring = jnp.zeros(3).at[moves].set(1e-6 * unknown[2 * count :])
        position = jnp.concatenate([(middle + shift)[:, None] * around, height[:, None]], axis=1)
        still = jnp.zeros_like(position)
        q, v = _place(system, position, still, still, ring)
        # everything at rest: rates of depth would add damping
        ball, inner, mass, _ = _accelerations(system, q, jnp.zeros_like(v))
        outward = mass * (jnp.sum(ball[:, :2] * around, axis=1) + orbit**2 * (middle + shift)) - _TETHER * shift
        return jnp.concatenate([outward, mass * ball[:, 2] - _TETHER * height, system.get("inner.mass") * inner[moves]])

    return _with_slope(residual, unknown)


def _without_friction(bearing: "DeepGroove") -> Start:
    count, middle = bearing.balls, 0.5 * float(bearing.pitch_diameter)
    angles = 2 * np.pi * np.arange(count) / count
    around = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    angle = _loaded_angle(bearing)[0] if "z" in bearing.free and bearing.axial_load != 0 else 0.0
    speeds = bearing.epicyclic(angle)
    places = np.concatenate([middle * around, np.zeros((count, 1))], axis=1)
    system = assembly.races_only(bearing, places, np.zeros(3), None).build()
    function = lambda u: _balance(system, jnp.asarray(around), jnp.asarray(middle), speeds.orbit, bearing.free, u)  # noqa: E731
    unknown, left = _levenberg(function, jnp.asarray(_guess(bearing, angles)))
    largest = max(abs(float(bearing.axial_load)), abs(float(bearing.radial_load)), 1.0)
    if not left < 1e-3 * largest:
        raise ValueError(
            f"the quasi-static start of the bearing was not found: forces remain unbalanced by {left:.3g} N. Check the loads against "
            "clearance and stiffness."
        )
    shift, height, moved = np.split(1e-6 * np.asarray(unknown), [count, 2 * count])
    ring = np.zeros(3)
    ring[[i for i, c in enumerate("xyz") if c in bearing.free]] = moved
    radius = middle + shift
    position = np.concatenate([radius[:, None] * around, height[:, None]], axis=1)
    tangent = np.stack([-np.sin(angles), np.cos(angles), 0 * angles], axis=1)
    # Pure rolling about an axis perpendicular to the line from groove centre to groove centre.
    outward = radius - float(bearing.groove_circle("outer"))
    line = np.arctan2(height, outward)
    orbit, spin = float(speeds.orbit), float(speeds.spin)
    axis = np.concatenate([-np.sin(line)[:, None] * around, np.cos(line)[:, None]], axis=1)
    motion = position, orbit * radius[:, None] * tangent, spin * axis + orbit * _UP
    return Start(*(jnp.asarray(part, dtype=float) for part in (*motion, ring, orbit, left / largest)))


def _guess(bearing: "DeepGroove", angles: np.ndarray) -> np.ndarray:
    """Displacements [um] at which the most loaded balls touch both rings."""
    yields = sum((float(abs(bearing.radial_load)) * 5 / bearing.balls / bearing.hertz(r).stiffness) ** (2 / 3) for r in assembly.RINGS)
    across = (
        np.sign(float(bearing.radial_load)) * (0.5 * max(float(bearing.clearance), 0.0) + float(yields)) if "x" in bearing.free else 0.0
    )
    along = 0.0
    if "z" in bearing.free and bearing.axial_load != 0:
        angle, _ = _loaded_angle(bearing)
        reach = float((bearing.conformity_inner + bearing.conformity_outer - 1.0) * bearing.ball_diameter)
        along = np.sign(float(bearing.axial_load)) * reach * np.sin(angle)
    ring = {"x": across, "y": 0.0, "z": along}
    # Unloaded balls lie on the outer ring: where they just touched it there would be no stiffness to begin with.
    mass = float(geometry.ball_inertia(bearing.ball_diameter, bearing.material.density).mass)  # pyright: ignore[reportArgumentType]
    flung = mass * float(bearing.epicyclic().orbit) ** 2 * 0.5 * float(bearing.pitch_diameter)
    lying = 0.25 * float(bearing.clearance) + float(bearing.hertz("outer").depth(flung))
    shift = np.maximum(0.5 * across * np.cos(angles), lying)
    return 1e6 * np.concatenate([shift, np.full(bearing.balls, 0.5 * along), [ring[c] for c in bearing.free]])


def _levenberg(function: Any, u: Array) -> tuple[Array, float]:
    """Least squares of the unbalanced forces: contacts open and close on the way, where Newton's method would jump."""
    residual, slope = function(u)
    size, weight = float(jnp.sum(residual**2)), 1e-2
    for _ in range(400):
        J, r = np.asarray(slope), np.asarray(residual)
        normal = J.T @ J
        step = np.linalg.solve(normal + weight * np.diag(np.diag(normal) + 1e-12), J.T @ r)
        residual_there, slope_there = function(u - step)
        size_there = float(jnp.sum(residual_there**2))
        if size_there < size:
            small = np.max(np.abs(step)) < 1e-9
            u, residual, slope, size, weight = u - step, residual_there, slope_there, size_there, max(weight / 5, 1e-15)
            if small:
                break
        elif weight > 1e12:
            break
        else:
            weight *= 4
    return u, float(jnp.max(jnp.abs(residual)))
