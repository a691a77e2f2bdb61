"""Smooth lossless motions with references that share nothing with jaxmbd: equations in minimal coordinates, derived by hand, in numpy.

    from smooth_problems import SMOOTH  # in a benchmark
    from benchmarks.smooth_problems import SMOOTH  # in a test

Each problem has a model, a duration of a few periods, and `reference(ts)`: q and v of the model's bodies by closed forms where there are some,
otherwise by scipy's DOP853 at a tolerance of 1e-13. Plane motions come twice, with planar bodies and with rigid bodies in space.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import ellipj, ellipk

import jaxmbd as mbd
from jaxmbd.problems.rods import STANDARD_GRAVITY, gravity, hinge, rod


class Motion(abc.ABC):
    """y' = rate(t, y) from y = start, in minimal coordinates and their rates (coordinates first)."""

    start: np.ndarray

    @abc.abstractmethod
    def rate(self, t: float, y: np.ndarray) -> np.ndarray:
        """y'."""

    @abc.abstractmethod
    def place(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of all bodies, one row for every column of y; (x, y, angle) of each in the plane."""

    def solution(self, t1: float) -> Callable[[np.ndarray], np.ndarray]:
        """y of times from 0 to t1, one column a time. Steps are short, so that the interpolation in them is as accurate as they are."""
        run = solve_ivp(self.rate, (0.0, t1), self.start, "DOP853", rtol=1e-13, atol=1e-13, max_step=t1 / 500, dense_output=True)
        assert run.sol is not None
        return run.sol


@dataclasses.dataclass(frozen=True, eq=False)
class Chain(Motion):
    """Uniform rods, one hanging on the other, with torsion springs at the hinges; the angles to the x axis are the coordinates.

    Rod k has its centre at sum_{i<k} l_i u_i + l_k u_k / 2, u_i the unit vector at angle i, hence

        T = 1/2 sum_ij A_ij cos(a_i - a_j) a_i' a_j',    V = g sum_i B_i sin(a_i) + springs

        A_ii = l_i^2 (m_i / 3 + m_{>i}),    A_ij = l_i l_j (m_j / 2 + m_{>j}) for i < j,    B_i = l_i (m_i / 2 + m_{>i})
    """

    masses: tuple[float, ...]
    lengths: tuple[float, ...]
    angles: tuple[float, ...]
    rates: tuple[float, ...]
    stiffnesses: tuple[float, ...]
    """N m/rad; the first is relaxed when its rod hangs down, the others when two rods are in line"""

    @property
    def start(self):
        return np.array([*self.angles, *self.rates])

    @functools.cached_property
    def _inertia(self):
        m, length = np.array(self.masses), np.array(self.lengths)
        beyond = np.cumsum(m[::-1])[::-1] - m
        outer = np.maximum.outer(np.arange(len(m)), np.arange(len(m)))
        inertia = np.outer(length, length) * (m / 2 + beyond)[outer]
        np.fill_diagonal(inertia, length**2 * (m / 3 + beyond))
        return inertia, STANDARD_GRAVITY * length * (m / 2 + beyond)

    def rate(self, t, y):
        (inertia, weight), (a, w) = self._inertia, np.split(y, 2)
        apart = a[:, None] - a
        torques = np.array(self.stiffnesses) * np.diff(a, prepend=-np.pi / 2)  # of spring i on the rods before it, less on rod i
        force = np.append(torques[1:], 0.0) - torques - weight * np.cos(a) - (inertia * np.sin(apart)) @ w**2
        return np.concatenate([w, np.linalg.solve(inertia * np.cos(apart), force)])

    def place(self, y):
        a, w = np.split(y, 2)
        rods = np.array(self.lengths)[:, None] * np.exp(1j * a)
        centres, speeds = (np.cumsum(r, axis=0) - r / 2 for r in (rods, 1j * w * rods))
        return _rows(centres, a), _rows(speeds, w)


class Swing(Chain):
    """A chain of one rod without a spring, released from the horizontal: sin(a/2) = k sn(w t + K), from the vertical, k = sin(pi/4)."""

    def solution(self, t1):
        inertia, weight = self._inertia
        w, k = np.sqrt(weight[0] / inertia[0, 0]), np.sqrt(0.5)

        def angle_and_rate(ts):
            sn, cn, _, _ = ellipj(w * ts + ellipk(k**2), k**2)
            return np.stack([2 * np.arcsin(k * sn) - np.pi / 2, 2 * k * w * cn])

        return angle_and_rate


@dataclasses.dataclass(frozen=True, eq=False)
class Linkage(Motion):
    """One degree of freedom s: J(s) s'' + J'(s) s'^2 / 2 = -V'(s), with J = sum m x'(s)^2 over all bodies and directions (Eksergian)."""

    curve: Callable[[Any], Any]
    """of s: (x, y, angle) of the bodies and their first two derivatives by s, an array (3, 3 bodies)"""
    masses: tuple[float, ...]
    """(m, m, inertia) of each body"""
    start: Any

    def rate(self, t, y):
        m, (_, first, second) = np.array(self.masses), self.curve(y[0])
        force = -STANDARD_GRAVITY * (m * first)[1::3].sum()
        return np.array([y[1], (force - y[1] ** 2 * (m * first) @ second) / (m * first @ first)])

    def place(self, y):
        position, first, _ = np.stack([self.curve(s) for s in y[0]], axis=1)
        return position, first * y[1][:, None]


def _bar(length: float, angle: float, first: float, second: float) -> np.ndarray:
    """A bar from start to end, as a complex number, and its first two derivatives, from those of its angle."""
    return length * np.exp(1j * angle) * np.array([1.0, 1j * first, 1j * second - first**2])


def _four_bar_curve(s: float) -> np.ndarray:
    """Crank 0.2 m at angle s, coupler 0.5 m, rocker 0.4 m on a base of 0.5 m: crank + coupler = base + rocker, and twice differentiated."""
    r, length, k, base = 0.2, 0.5, 0.4, 0.5
    crank = _bar(r, s, 1.0, 0.0)
    reach = base - crank[0]
    along = (length**2 - k**2 + abs(reach) ** 2) / (2 * abs(reach))
    coupler = (along + 1j * np.sqrt(length**2 - along**2)) * reach / abs(reach)
    rocker = crank[0] + coupler - base
    # i coupler a' - i rocker c' = -crank'; once more: the same of a'' and c'', and what the squares of the rates do.
    matrix = np.array([[-coupler.imag, rocker.imag], [coupler.real, -rocker.real]])
    da, dc = np.linalg.solve(matrix, [-crank[1].real, -crank[1].imag])
    rest = coupler * da**2 - rocker * dc**2 - crank[2]
    dda, ddc = np.linalg.solve(matrix, [rest.real, rest.imag])
    angles = np.array([[s, 1.0, 0.0], [np.angle(coupler), da, dda], [np.angle(rocker), dc, ddc]])
    second, third = _bar(length, *angles[1]), _bar(k, *angles[2])
    return _rows(np.stack([crank / 2, crank + second / 2, third / 2 + np.array([base, 0.0, 0.0])]), angles)


def _slider_crank_curve(s: float) -> np.ndarray:
    """Crank 0.1 m at angle s, rod 0.3 m at the angle a with 0.3 sin(a) = -0.1 sin(s), a piston at its end on the x axis."""
    r, length = 0.1, 0.3
    a = np.arcsin(-r / length * np.sin(s))
    da = -r * np.cos(s) / (length * np.cos(a))
    dda = np.tan(a) * da**2 + r * np.sin(s) / (length * np.cos(a))
    angles = np.array([[s, 1.0, 0.0], [a, da, dda], [0.0, 0.0, 0.0]])
    crank, connecting = _bar(r, *angles[0]), _bar(length, *angles[1])
    return _rows(np.stack([crank / 2, crank + connecting / 2, np.real(crank + connecting)]), angles)


def _rows(places: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """(x, y, angle) side by side from complex places and angles, of all bodies (first axis of both); one row for every further index."""
    stacked = np.stack([np.real(places), np.imag(places), angles], axis=1)
    return stacked.reshape(-1, *stacked.shape[2:]).T


@dataclasses.dataclass(frozen=True, eq=False)
class Spring(Motion):
    """A body on a linear spring that moves along x about x = 1 m: a closed form."""

    frequency: float
    """rad/s"""
    amplitude: float
    """m"""

    @property
    def start(self):
        return np.array([self.amplitude, 0.0])

    def rate(self, t, y):
        return np.array([y[1], -(self.frequency**2) * y[0]])

    def place(self, y):
        none = np.zeros_like(y[0])
        return np.stack([1.0 + y[0], none, none], axis=1), np.stack([y[1], none, none], axis=1)

    def solution(self, t1):
        a, w = self.amplitude, self.frequency
        return lambda ts: np.stack([a * np.cos(w * ts), -a * w * np.sin(w * ts)])


@dataclasses.dataclass(frozen=True, eq=False)
class Top(Motion):
    """A heavy symmetric top on its tip, in the angles of R = Rz(f) Ry(n) Rz(s): precession, nutation, spin. From Lagrange's function

    L = I1 (n'^2 + f'^2 sin^2 n) / 2 + I3 (s' + f' cos n)^2 / 2 - m g l cos n
    """

    across: float
    """I1, kg m^2, about the tip"""
    along: float
    """I3"""
    torque: float
    """m g l, N m"""
    arm: float
    """l, m, from the tip to the centre of mass"""
    start: Any

    def rate(self, t, y):
        _, n, _, df, dn, ds = y
        momentum = self.along * (ds + df * np.cos(n))
        ddn = np.sin(n) * (df**2 * np.cos(n) + (self.torque - momentum * df) / self.across)
        ddf = dn * (momentum / self.across - 2 * df * np.cos(n)) / np.sin(n)
        dds = df * dn * np.sin(n) - ddf * np.cos(n)
        return np.array([df, dn, ds, ddf, ddn, dds])

    def place(self, y):
        f, n, s, df, dn, ds = y
        sin, cos = np.sin, np.cos
        axle = np.stack([sin(n) * cos(f), sin(n) * sin(f), cos(n)])
        turned = np.stack([dn * cos(n) * cos(f) - df * axle[1], dn * cos(n) * sin(f) + df * axle[0], -dn * sin(n)])
        c, d, up, down = cos(n / 2), sin(n / 2), (f + s) / 2, (f - s) / 2
        e = np.stack([c * cos(up), -d * sin(down), d * cos(down), c * sin(up)])
        by_n = 0.5 * np.stack([-d * cos(up), -c * sin(down), c * cos(down), -d * sin(up)])
        by_up = np.stack([-c * sin(up), 0 * c, 0 * c, c * cos(up)])
        by_down = np.stack([0 * c, -d * cos(down), -d * sin(down), 0 * c])
        de = by_n * dn + by_up * (df + ds) / 2 + by_down * (df - ds) / 2
        return np.concatenate([self.arm * axle, e]).T, np.concatenate([self.arm * turned, de]).T


@dataclasses.dataclass(frozen=True, eq=False)
class Tumbling(Motion):
    """A body without forces: its centre x moves evenly, e' = e * (0, w) / 2, Euler's equations for w in its own axes. y = (x, e, w)."""

    inertia: tuple[float, float, float]
    velocity: tuple[float, float, float]
    spin: tuple[float, float, float]

    @property
    def start(self):
        return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, *self.spin])

    def rate(self, t, y):
        a, b, c = self.inertia
        e0, e1, e2, e3, p, q, r = y[3:]
        turn = np.stack([-e1 * p - e2 * q - e3 * r, e0 * p + e2 * r - e3 * q, e0 * q + e3 * p - e1 * r, e0 * r + e1 * q - e2 * p])
        velocity = np.multiply.outer(self.velocity, np.ones_like(p))
        return np.concatenate([velocity, 0.5 * turn, [(b - c) / a * q * r, (c - a) / b * r * p, (a - b) / c * p * q]])

    def place(self, y):
        return y[:7].T, self.rate(0.0, y)[:7].T


@functools.cache
def _solution(motion: Motion, t1: float) -> Callable[[np.ndarray], np.ndarray]:
    return motion.solution(t1)


@dataclasses.dataclass(frozen=True)
class SmoothProblem:
    """A model and what it must do."""

    model: Callable[[], mbd.Model]
    t1: float
    """s, a few periods"""
    motion: Motion
    in_space: bool = False
    """the model has rigid bodies in space where the motion has (x, y, angle)"""

    def reference(self, ts: Any) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) at times [s] from 0 to t1, one row a time, in the order of the system's coordinates."""
        return self.place(_solution(self.motion, self.t1)(np.asarray(ts, dtype=float)))

    def place(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of the model from the minimal coordinates and their rates, one column of y a time."""
        q, v = self.motion.place(y)
        if not self.in_space:
            return q, v
        (x, y, a), (dx, dy, w) = (np.moveaxis(part.reshape(len(q), -1, 3), 2, 0) for part in (q, v))
        c, s, none = np.cos(a / 2), np.sin(a / 2), np.zeros_like(a)
        positions = np.stack([x, y, none, c, none, none, s], axis=2)
        rates = np.stack([dx, dy, none, -0.5 * w * s, none, none, 0.5 * w * c], axis=2)
        return positions.reshape(len(q), -1), rates.reshape(len(q), -1)


# --- the models -------------------------------------------------------------------------------------------------------------------------


def _chain(motion: Chain) -> mbd.Model:
    bodies, joints, springs, before, at, velocity = [], [], [], mbd.ground, np.zeros(2), np.zeros(2)
    for i, (mass, length, angle, turning) in enumerate(zip(motion.masses, motion.lengths, motion.angles, motion.rates, strict=True)):
        along = length * np.array([np.cos(angle), np.sin(angle)])
        body = rod(f"rod{i + 1}", mass, length, at, angle, angular_velocity=turning, start_velocity=velocity)
        bodies.append(body)
        joints.append(hinge(f"hinge{i + 1}", before, body, at))
        if motion.stiffnesses[i]:
            relaxed = (motion.angles[i - 1] if i else -np.pi / 2) - angle  # angles of springs count from the start
            springs.append(mbd.TorsionSpringDamper(f"spring{i + 1}", before, body, (0, 0, 1), motion.stiffnesses[i], free_angle=relaxed))
        before, at, velocity = body, at + along, velocity + turning * np.array([-along[1], along[0]])
    return mbd.Model(bodies, joints, [gravity(False), *springs])


def _mass_spring(motion: Spring) -> mbd.Model:
    body = mbd.PlanarBody("mass", 2.0, 1.0, (1.0 + motion.amplitude, 0.0))
    stiffness = 2.0 * motion.frequency**2
    spring = mbd.SpringDamper("spring", mbd.ground, body, (0.0, 0.0), (1.0 + motion.amplitude, 0.0), stiffness, free_length=1.0)
    return mbd.Model([body], [], [spring])


def _slider_crank() -> mbd.Model:
    """The ready-made one without its motor, under gravity."""
    model = mbd.problems.slider_crank()
    return mbd.Model(model.bodies, [joint for joint in model.joints if joint.name != "motor"], [gravity(False)])


def _top(motion: Top) -> mbd.Model:
    """A disc of 1 kg on a massless axle."""
    across, along = motion.across - motion.arm**2, motion.along
    (q,), (v,) = motion.place(motion.start[:, None])
    _, n, _, precession, _, spin = motion.start
    axle = np.array([np.sin(n), 0.0, np.cos(n)])
    turning = precession * np.array([0.0, 0.0, 1.0]) + spin * axle
    top = mbd.RigidBody("top", 1.0, (across, across, along), q[:3], q[3:], v[:3], turning)
    return mbd.Model([top], [mbd.Spherical("tip", mbd.ground, top, (0.0, 0.0, 0.0))], [mbd.Gravity((0.0, 0.0, -STANDARD_GRAVITY))])


def tumbling_model(motion: Tumbling) -> mbd.Model:
    body = mbd.RigidBody("body", 2.0, motion.inertia, velocity=motion.velocity, angular_velocity=motion.spin)
    return mbd.Model([body], forces=[mbd.Gravity((0.0, 0.0, 0.0))])


def _lifted(plane: Callable[[], mbd.Model], inline: tuple[str, ...]) -> mbd.Model:
    """The same mechanism of rigid bodies in space. Hinges named `inline` close a loop: all but two of their rows would be redundant."""
    model: Any = plane()
    bodies, joints, forces = [], [], []
    up, space = (0.0, 0.0, 1.0), lambda u: (*np.asarray(u)[:2], 0.0)
    names = lambda element: map(str, element.bodies)  # noqa: E731  alone, without the planar bodies that they were given by
    for b in model.bodies:
        half = 0.5 * float(b.angle)
        turn, spin = (np.cos(half), 0.0, 0.0, np.sin(half)), (0.0, 0.0, b.angular_velocity)
        bodies.append(mbd.RigidBody(b.name, b.mass, (b.inertia,) * 3, space(b.position), turn, space(b.velocity), spin))
    for j in model.joints:
        kind = mbd.Inline if j.name in inline else type(j)
        joints.append(kind(j.name, *names(j), space(j.point), space(j.axis) if kind is mbd.Translational else up))
    for f in model.forces:
        if isinstance(f, mbd.Gravity):
            forces.append(mbd.Gravity(space(f.acceleration)))
        elif isinstance(f, mbd.TorsionSpringDamper):
            forces.append(mbd.TorsionSpringDamper(f.name, *names(f), up, f.stiffness, f.damping, free_angle=f.free_angle))
        else:
            ends = space(f.point1), space(f.point2)
            forces.append(mbd.SpringDamper(f.name, *names(f), *ends, f.stiffness, free_length=f.free_length))
    return mbd.Model(bodies, joints, forces)


def _four_bar_motion() -> Linkage:
    masses = [(m, m, m * m**2 / 12) for m in (0.2, 0.5, 0.4)]  # 1 kg a metre
    return Linkage(_four_bar_curve, tuple(np.concatenate(masses)), np.array([0.0, 15.0]))


def _problems() -> dict[str, SmoothProblem]:
    swing = Swing((3.0,), (2.0,), (0.0,), (0.0,), (0.0,))
    double = Chain((2.0, 1.0), (1.0, 0.8), (-0.5, -np.pi / 4), (0.0, 3.0), (10.0, 5.0))
    chain = Chain((0.1,) * 4, (0.25,) * 4, (-np.pi / 3,) * 4, (0.0,) * 4, (0.0,) * 4)
    crank = Linkage(
        _slider_crank_curve, (0.5, 0.5, 0.5 * 0.1**2 / 12, 0.8, 0.8, 0.8 * 0.3**2 / 12, 0.4, 0.4, 2e-4), np.array([0.0, 4 * np.pi])
    )
    spring = Spring(frequency=2 * np.pi, amplitude=0.3)
    top = Top(0.0126, 0.005, STANDARD_GRAVITY * 0.1, 0.1, np.array([0.0, np.pi / 6, 0.0, 0.0, 0.0, 40.0]))
    tumbling = Tumbling((1.0, 2.0, 3.0), (0.1, 0.0, 0.0), (0.1, 3.0, 0.2))
    plane: dict[str, tuple[Callable[[], mbd.Model], float, Motion, tuple[str, ...]]] = {
        "pendulum": (lambda: _chain(swing), 6.0, swing, ()),
        "double-pendulum": (lambda: _chain(double), 3.0, double, ()),
        "chain": (lambda: _chain(chain), 2.0, chain, ()),
        "four-bar": (mbd.problems.four_bar, 1.0, _four_bar_motion(), ("hinge3",)),
        "slider-crank": (_slider_crank, 2.0, crank, ("piston_pin",)),
        "mass-spring": (lambda: _mass_spring(spring), 4.0, spring, ()),
    }
    found = {name: SmoothProblem(model, t1, motion) for name, (model, t1, motion, _) in plane.items()}
    for name, (model, t1, motion, inline) in plane.items():
        found[f"{name}-3d"] = SmoothProblem(functools.partial(_lifted, model, inline), t1, motion, in_space=True)
    found["spinning-top"] = SmoothProblem(lambda: _top(top), 1.2, top)
    found["tumbling-body"] = SmoothProblem(lambda: tumbling_model(tumbling), 4.0, tumbling)
    return found


SMOOTH: dict[str, SmoothProblem] = _problems()
"""By name; those in "-3d" are the plane motions of rigid bodies in space."""
