"""Friction in joints: what a bearing or a guide resists its own motion with, in proportion to its reaction."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..elements import Axis
from ..forces.base import AbstractForce
from ..frames import Frame, JointReaction, norm, pair_wrench
from ..joints.base import AbstractJoint
from ..joints.one_axis import Cylindrical, Revolute, Translational
from ..observable import Observable
from ..parameters import Parameter, positive
from ..rotations import cross, dot
from .friction import AbstractFriction, Sliding

_MOTIONS = {Revolute: ("turn",), Translational: ("travel",), Cylindrical: ("travel", "turn")}
"""What each kind of joint leaves free."""


class JointFriction(AbstractForce):
    r"""Friction in a `Revolute`, `Translational` or `Cylindrical` joint, planar or spatial.

        mbd.JointFriction("pin", hinge, mbd.Coulomb(0.1), radius=0.02)

    A pin of the given radius [m] turns or slides in its sleeve. With N the normal force between them, the law says what resists the slip: along
    the axis the force mu N, about the axis the torque mu N radius; the slip is that of the surfaces, radius times the relative angular
    velocity, or the rate of travel. N follows from the joint's reaction across the axis,

        N = |F|                                 without `length`: torques of the reaction across the axis press nothing
        N = |F / 2 + C| + |F / 2 - C|           with it: the sleeve carries at its two ends, C = (torque x axis) / length

    with the joint's point in the middle of the sleeve. Thrust along the axis and, of a `Translational` joint, the torque about it count for
    nothing; for other laws see `ForceFunction`.

    The reaction depends on friction as friction does on the reaction. If multipliers hold the joint, only HHT and BDF can solve for both
    together; if a penalty does, all integrators can.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    joints: tuple[str, ...] = eqx.field(static=True)
    """the one"""
    motions: tuple[str, ...] = eqx.field(static=True)
    """"travel", "turn": what the joint leaves free"""
    friction: AbstractFriction
    radius: Float[Numbers, "*stack"] | None
    """m, of the pin; None where the joint does not turn"""
    length: Float[Numbers, "*stack"] | None
    """m, of the sleeve; None: short"""
    stiff: bool = eqx.field(static=True)
    shares_axis: ClassVar[bool] = True
    parameters: ClassVar[dict[str, Parameter]] = {
        "radius": positive("m")._replace(optional=True),
        "length": positive("m")._replace(optional=True),
    }
    observables: ClassVar[dict[str, Observable]] = {
        "normal_force": Observable("N", lambda at: at.element.load(at.local, at.frames, *at.reactions)),
        "slip_speed": Observable("m/s", lambda at: norm(at.element.slip(at.local, at.frames))),
    }

    def __init__(self, name: str, joint: AbstractJoint, friction: AbstractFriction, radius: Any = None, *, length: Any = None):
        if type(joint) not in _MOTIONS:
            kinds = ", ".join(kind.__name__ for kind in _MOTIONS)
            raise ValueError(f"force {name!r}: give a joint of the kind {kinds}, got {joint!r}; for others there is mbd.ForceFunction.")
        self.read_element(name, tuple(getattr(joint, "bodies", ())), radius=radius, length=length)
        self.joints, self.motions, self.stiff = (joint.name,), _MOTIONS[type(joint)], False
        if not isinstance(friction, AbstractFriction) or friction.needs_spot:
            raise ValueError(f"{self.label}: friction must be a law of dry friction such as mbd.Coulomb(0.1), got {friction!r}.")
        self.friction = friction
        if ("turn" in self.motions) != (radius is not None):
            wanted = "needs the radius of its pin [m]" if radius is None else "does not turn: leave radius out"
            raise ValueError(f"{self.label}: joint {joint.name!r} {wanted}.")

    def reaction_joints(self):
        return self.joints

    def fits(self, joint):
        return _MOTIONS.get(type(joint)) == self.motions and joint.bodies == self.bodies

    def initial_state(self):
        return self.friction.initial_state(len(self.motions))

    def slip(self, local: Axis, frames: tuple[Frame, ...]) -> Float[Array, "k"]:
        """m/s, of the surface of b over that of a."""
        rates = {"travel": local.component_rates(*frames)[0]}
        if self.radius is not None:
            rates["turn"] = self.radius * local.angle_rate(*frames)
        return jnp.stack([rates[motion] for motion in self.motions])

    def load(self, local: Axis, frames: tuple[Frame, ...], reaction: JointReaction) -> Float[Array, ""]:
        """N."""
        axis = local.direction(frames[0])
        across = reaction.force - dot(reaction.force, axis) * axis
        if self.length is None:
            return norm(across)
        couple = cross(reaction.torque, axis) / self.length
        return norm(0.5 * across + couple) + norm(0.5 * across - couple)

    def wrench(self, local, frames, angles, t, x, *reactions):
        (a, b), axis = frames, local.direction(frames[0])
        normal = self.load(local, frames, *reactions)
        sliding = Sliding(self.slip(local, frames), jnp.ones(()), normal_force=normal)
        pull = dict(zip(self.motions, -normal * self.friction.coefficient(sliding, x), strict=True))
        force, torque = pull.get("travel", jnp.zeros(())), jnp.zeros(())
        if self.radius is not None:
            torque = self.radius * pull["turn"]
        return pair_wrench(a, b, b.point(local.point_b), force * axis, torque * axis)

    def state_rate(self, local, frames, angles, t, x):
        return self.friction.rate(Sliding(self.slip(local, frames), jnp.ones(())), x)
