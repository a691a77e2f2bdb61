"""A body that deforms in modes: a floating frame and small deformations seen from it."""

import warnings
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ...solvers.linear import solve_once
from ..bodies.base import AbstractBody, Attachment
from ..frames import Frame
from ..observable import EULER_PARAMETERS, TURNING, WORKER, Observable
from ..parameters import Parameter, is_traced, nonzero_orientation, positive, read_all, unknown, vector
from ..rotations import (
    body_rates,
    cross,
    from_body,
    from_ground,
    fused_dot,
    half_turn,
    product,
    read_orientation,
    rotation_matrix,
    to_body,
    to_ground,
)
from ..shapes import AbstractShape
from .reduced import ReducedBody

_ORTHOGONAL = 1e-6
"""What shapes may have in common, relative to their own size."""


class ModalBody(AbstractBody):
    """A body with modes; coordinates (x, y, z, e0, ..., e3, modal coordinates), the position that of its centre of mass.

    The floating frame turns so that modes carry no angular momentum to first order (mean axes). With lumps of mass m at s + u, u = sum phi eta,
    the inertia J(eta) in the frame's axes and w the frame's angular velocity, the kinetic energy is

        m |r'|^2 / 2 + w.J(eta) w / 2 + w.(sum m u x u') + eta'.M eta' / 2

    and the lumps feel the acceleration w' x (s + u) + u'' + c with c = w x (w x (s + u)) + 2 w x u':

        [ J(eta)            sum m u x phi ] [ w'    ]   [ torque - sum m (s + u) x c        ]
        [ (sum m u x phi)^T M             ] [ eta'' ] = [ load - K eta - C eta' - sum m phi.c   ]

    J without deformation, M and K are those of the finite elements; only how inertia changes with deformation is told by lumps. Deformations are
    small, what the frame does is not. Joints, forces and contacts attach to interface points, `body.at("mount")`, which move and turn with the
    modes; attached to the body itself they would take hold of the floating frame, which is no piece of material.
    """

    name: str = eqx.field(static=True)
    modes: ReducedBody
    damping: Float[Numbers, "*stack modes"]
    """1, ratio of every mode to its critical damping"""
    stiffness_factor: Float[Numbers, "*stack"]
    """1, on all stiffnesses: a modulus over that which the modes were made with"""
    position: Float[Numbers, "*stack 3"]
    """m, initial, of the origin of the mesh"""
    orientation: Float[Numbers, "*stack 4"]
    """initial Euler parameters of the axes of the mesh, scalar first; a rotation matrix is accepted too"""
    velocity: Float[Numbers, "*stack 3"]
    """m/s, initial, of the centre of mass"""
    angular_velocity: Float[Numbers, "*stack 3"]
    """rad/s, initial, in the ground's axes"""
    deflection: Float[Numbers, "*stack modes"]
    """m, initial modal coordinates"""
    deflection_rate: Float[Numbers, "*stack modes"]
    """m/s"""
    shape: tuple[AbstractShape, ...] = eqx.field(static=True)
    """what pictures show, in the body's axes: `mbd.shapes.Box(...)` or a list; empty: derived from joints, contacts and inertia"""
    has_orientation: ClassVar[bool] = True
    deforms: ClassVar[bool] = True
    observables: ClassVar[dict[str, Observable]] = (
        EULER_PARAMETERS | TURNING | WORKER | {"strain_energy": Observable("J", lambda at: at.body.stored_energy(at.q))}
    )
    parameters: ClassVar[dict[str, Parameter]] = {
        "damping": Parameter("1", valid=lambda x: x >= 0, requirement="must not be negative"),
        "stiffness_factor": positive("1"),
        "position": vector("m", 3),
        "orientation": nonzero_orientation(),
        "velocity": vector("m/s", 3),
        "angular_velocity": vector("rad/s", 3),
        "deflection": Parameter("m"),
        "deflection_rate": Parameter("m/s"),
    }
    by_mode: ClassVar[tuple[str, ...]] = ("damping", "deflection", "deflection_rate")
    """those that are one number for each mode"""

    def __init__(
        self,
        name: str,
        modes: ReducedBody,
        position: Any = (0.0, 0.0, 0.0),
        orientation: Any = (1.0, 0.0, 0.0, 0.0),
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
        *,
        damping: Any = 0.0,
        stiffness_factor: Any = 1.0,
        deflection: Any = 0.0,
        deflection_rate: Any = 0.0,
        shape: Any = None,
    ):
        """`damping` is one ratio, one for each mode, or a function of their frequencies [Hz] that returns these."""
        if not isinstance(modes, ReducedBody):
            raise ValueError(f"modes of body {name!r} must be made by mbd.fem.craig_bampton or its kin, got {type(modes).__name__}.")
        _check_orthogonal(name, modes)
        self.modes = modes.compressed()
        if callable(damping):
            damping = damping(modes.frequencies)
        self.read_body(
            name,
            shape,
            stiffness_factor=stiffness_factor,
            position=position,
            orientation=read_orientation(name, orientation),
            velocity=velocity,
            angular_velocity=angular_velocity,
        )
        wide = {field: self.spread_over_modes(self.parameters[field]) for field in self.by_mode}
        read = read_all(f"body {name!r}", wide, damping=damping, deflection=deflection, deflection_rate=deflection_rate)
        self.damping, self.deflection, self.deflection_rate = (read[field] for field in self.by_mode)
        if not is_traced(self.damping) and np.any(self.damping > 1):
            warnings.warn(f"damping of body {name!r} exceeds 1: it is a ratio to critical damping, not per cent.", stacklevel=2)

    def spread_over_modes(self, spec: Parameter) -> Parameter:
        """The parameter as one number for each mode."""
        return spec._replace(shapes=((self.modes.count,),), convert=self._spread, converts=((),))

    def _spread(self, value):
        """One number for all modes."""
        if value.shape == ():
            return (jnp if is_traced(value) else np).broadcast_to(value, (self.modes.count,))
        return value

    # --- what it is -------------------------------------------------------------------------------------------------------------------------

    @property
    def mass(self) -> Float[Numbers, "*stack"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """kg"""
        return self.modes.mass

    @property
    def inertia(self) -> Float[Numbers, "*stack 3 3"]:
        """kg m^2, undeformed"""
        return self.modes.inertia

    def at(self, point: str) -> "Attachment":
        """An interface point, to which joints, forces and contacts attach as to a body."""
        if point not in self.modes.interface:
            raise ValueError(f"body {self.name!r}: {unknown('interface point', point, self.modes.interface)}")
        turn = rotation_matrix(jnp.asarray(self.initial()[0][3:7]))
        place = self.modes.centre + self.modes.interface_positions[self.modes.interface.index(point)]
        position = self.position + turn @ place
        return Attachment(self, point, position if is_traced(position) else np.asarray(position))

    @property
    def dimension(self):
        return 3

    def initial(self):
        p = self.orientation / jnp.sqrt(self.orientation @ self.orientation)
        position = self.position + product(rotation_matrix(p), jnp.asarray(self.modes.centre))
        rates = 0.5 * from_ground(p, self.angular_velocity)
        return jnp.concatenate([position, p, self.deflection]), jnp.concatenate([self.velocity, rates, self.deflection_rate])

    def are_lengths(self):
        return (True,) * 3 + (False,) * 4 + (True,) * self.modes.count

    def coordinate_names(self):
        return (*"xyz", *(f"e{i}" for i in range(4)), *(f"mode{i + 1}" for i in range(self.modes.count)))

    def point_names(self):
        return self.modes.interface

    # --- where it is ------------------------------------------------------------------------------------------------------------------------

    def frame(self, q, v):
        return Frame(q[:3], rotation_matrix(q[3:7]), v[:3], 2.0 * to_ground(q[3:7], v[3:7]))

    def points(self, q, v):
        turn, spin = rotation_matrix(q[3:7]), 2.0 * to_body(q[3:7], v[3:7])
        moved, half = self._interface(q[7:])
        rates = self.modes.interface_shapes @ v[7:]
        place, half_rate = self.modes.interface_positions + moved, 0.5 * rates[:, 3:]
        skewed = _skews(half)
        scale = 2.0 / (1.0 + jnp.sum(half**2, axis=1, keepdims=True))
        bent = jnp.eye(3) + scale[:, :, None] * (skewed + skewed @ skewed)
        velocity = jnp.cross(spin[None], place) + rates[:, :3]
        turning = spin + scale * (half_rate + jnp.cross(half, half_rate))
        return Frame(q[:3] + place @ turn.T, turn @ bent, v[:3] + velocity @ turn.T, turning @ turn.T)

    def generalize_points(self, q, force, torque):
        turn, (moved, half) = rotation_matrix(q[3:7]), self._interface(q[7:])
        push, twist = force @ turn, torque @ turn
        moment = jnp.sum(jnp.cross(self.modes.interface_positions + moved, push) + twist, axis=0)
        bend = (twist + jnp.cross(twist, half)) / (1.0 + jnp.sum(half**2, axis=1, keepdims=True))
        load = jnp.einsum("pim,pi->m", self.modes.interface_shapes, jnp.concatenate([push, bend], axis=1))
        return jnp.concatenate([jnp.sum(force, axis=0), 2.0 * from_body(q[3:7], moment), load])

    def _interface(self, deflection: Array) -> tuple[Float[Array, "points 3"], Float[Array, "points 3"]]:
        """Displacements, and turns as Rodrigues vectors: axis times the tangent of half the angle."""
        motion = self.modes.interface_shapes @ deflection
        return motion[:, :3], 0.5 * motion[:, 3:]

    # --- inertia ----------------------------------------------------------------------------------------------------------------------------

    def _bent(self, deflection: Array) -> Float[Array, "lumps 3"]:
        """Weighted displacements of the lumps."""
        return self.modes.bends @ deflection

    def _pull(self, forces: Float[Array, "lumps 3"]) -> Float[Array, "modes"]:
        """Forces on the lumps as forces on the modes."""
        return jnp.einsum("kim,ki->m", self.modes.bends, forces)

    def _inertia(self, bent: Array) -> Float[Array, "3 3"]:
        """Of the deformed body."""
        arms = self.modes.arms
        change = 2.0 * jnp.sum(arms * bent) + jnp.sum(bent**2)
        mixed = arms.T @ bent
        return self.modes.inertia + change * jnp.eye(3) - mixed - mixed.T - bent.T @ bent

    def mass_matrix(self, q):
        G, bent, n = body_rates(q[3:7]), self._bent(q[7:]), self.modes.count
        mixed = 2.0 * G.T @ jnp.sum(jnp.cross(bent[:, :, None], self.modes.bends, axis=1), axis=0)
        top = jnp.concatenate([4.0 * G.T @ self._inertia(bent) @ G, mixed], axis=1)
        bottom = jnp.concatenate([mixed.T, self.modes.modal_mass], axis=1)
        return (
            jnp.pad(jnp.concatenate([top, bottom]), ((3, 0), (3, 0))) + jnp.diag(jnp.asarray([1.0] * 3 + [0.0] * (4 + n))) * self.modes.mass
        )

    def mass_product(self, q, a):
        p, bent = q[3:7], self._bent(q[7:])
        turning = 2.0 * to_body(p, a[3:7])
        torque = product(self._inertia(bent), turning) + jnp.sum(jnp.cross(bent, self._bent(a[7:])), axis=0)
        load = self.modes.modal_mass @ a[7:] + self._pull(jnp.cross(turning[None], bent))
        return jnp.concatenate([self.modes.mass * a[:3], 2.0 * from_body(p, torque), load])

    def solve_mass(self, q, force):
        p, bent = q[3:7], self._bent(q[7:])
        square = fused_dot(p, p)
        mixed = jnp.sum(jnp.cross(bent[:, :, None], self.modes.bends, axis=1), axis=0)
        matrix = jnp.block([[self._inertia(bent), mixed], [mixed.T, self.modes.modal_mass]])
        a = solve_once(matrix, jnp.concatenate([to_body(p, force[3:7]) / (2.0 * square), force[7:]]))
        return jnp.concatenate([force[:3] / self.modes.mass, from_body(p, a[:3]) / (2.0 * square), a[3:]])

    def velocity_force(self, q, v):
        spin, bent, rate = 2.0 * to_body(q[3:7], v[3:7]), self._bent(q[7:]), self._bent(v[7:])
        arms = self.modes.arms
        inward = lambda u: jnp.cross(spin[None], jnp.cross(spin[None], u))  # noqa: E731
        felt = inward(arms + bent) + 2.0 * jnp.cross(spin[None], rate)
        torque = cross(spin, product(self.modes.inertia, spin)) + jnp.sum(
            jnp.cross(arms + bent, felt) - jnp.cross(arms, inward(arms)), axis=0
        )
        return jnp.concatenate([jnp.zeros(3, q.dtype), -2.0 * from_body(q[3:7], torque), -self._pull(felt)])

    # --- stiffness --------------------------------------------------------------------------------------------------------------------------

    def internal_force(self, q, v):
        modes = self.modes
        damping = (
            2.0 * self.damping * jnp.sqrt(self.stiffness_factor * jnp.diagonal(modes.modal_stiffness) * jnp.diagonal(modes.modal_mass))
        )
        load = self.stiffness_factor * (modes.modal_stiffness @ q[7:]) + damping * v[7:]
        return jnp.concatenate([jnp.zeros(7, q.dtype), -load])

    def stored_energy(self, q):
        return 0.5 * self.stiffness_factor * (q[7:] @ (self.modes.modal_stiffness @ q[7:]))

    # --- coordinates ------------------------------------------------------------------------------------------------------------------------

    def motion_lengths(self):
        return (True,) * 3 + (False,) * 3 + (True,) * self.modes.count

    def to_motion(self, q, rates):
        p = q[3:7]
        return jnp.concatenate([product(rotation_matrix(p).T, rates[:3]), 2.0 * to_body(p, rates[3:7]), rates[7:]])

    def from_motion(self, q, motion):
        p = q[3:7]
        return jnp.concatenate([product(rotation_matrix(p), motion[:3]), 0.5 * from_body(p, motion[3:6]), motion[6:]])

    def move(self, q, motion):
        p, (cosine, sine) = q[3:7], half_turn(motion[3:6])
        return jnp.concatenate([q[:3] + product(rotation_matrix(p), motion[:3]), cosine * p + from_body(p, sine), q[7:] + motion[6:]])

    def own_acceleration(self, q, v):
        p, rates = q[3:7], v[3:7]
        inward = -p * fused_dot(rates, rates) / fused_dot(p, p)
        return jnp.concatenate([jnp.zeros(3, q.dtype), inward, jnp.zeros_like(q[7:])])

    def generalize(self, q, force, torque):
        return jnp.concatenate([force, 2.0 * from_ground(q[3:7], torque), jnp.zeros_like(q[7:])])

    def constraint(self, q):
        p = q[3:7]
        return 0.5 * (fused_dot(p, p) - 1.0)[None]

    def normalize(self, q, v):
        p = q[3:7] / jnp.sqrt(fused_dot(q[3:7], q[3:7]))
        rates = v[3:7] - p * fused_dot(p, v[3:7])
        return jnp.concatenate([q[:3], p, q[7:]]), jnp.concatenate([v[:3], rates, v[7:]])


def _skews(u: Float[Array, "points 3"]) -> Float[Array, "points 3 3"]:
    """The matrix of u x of each."""
    return jnp.cross(u[:, None, :], jnp.eye(3)[None]).swapaxes(1, 2)


def _check_orthogonal(name: str, modes: ReducedBody) -> None:
    """Shapes must carry neither momentum nor angular momentum, and be orthogonal where their own matrices say so."""
    if is_traced(modes):
        return
    arms, bends = np.asarray(modes.arms), np.asarray(modes.bends)
    spin = np.abs(np.cross(arms[:, :, None], bends, axis=1).sum(0)).max(initial=0.0)
    size = np.sqrt((arms**2).sum() * (bends**2).sum(axis=(0, 1)).max(initial=0.0))
    if spin > _ORTHOGONAL * max(size, 1e-300):
        raise ValueError(
            f"modes of body {name!r} are not orthogonal to rigid rotations (by {spin / size:.2g}): make them with mbd.fem.craig_bampton or "
            "mbd.fem.free_modes, which take rigid motions out."
        )
    for what in ("modal_mass", "modal_stiffness"):
        matrix = np.asarray(getattr(modes, what))
        lowest = np.linalg.eigvalsh(matrix)[0]
        if not lowest > 0:
            raise ValueError(f"{what} of body {name!r} must be symmetric and positive definite, its lowest eigenvalue is {lowest:.3g}.")
