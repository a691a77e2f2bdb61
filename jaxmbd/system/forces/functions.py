"""A user's own law between two bodies."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..checking import expect, shape_of, trace
from ..frames import JointReaction, ground_frame, pair_wrench
from ..joints.base import AbstractJoint
from ..parameters import Parameter, is_traced, read_all, vector
from .base import AbstractForce


def _joint_name(owner: str, joint: Any) -> str:
    """Of a joint, or as it is."""
    if isinstance(joint, AbstractJoint):
        return joint.name
    if isinstance(joint, str):
        return joint
    raise ValueError(f"{owner}: expected a joint or a joint's name, got {joint!r}.")


class ForceFunction(AbstractForce):
    """A user's own law between two bodies.

    `function(a, b, t)` gets the two bodies as `mbd.Frame`s and returns (force [N], torque [N m]) on b at b's centre of mass, in the ground's
    axes; the exact opposite acts on a. With differential states, `state` is their initial value, `function(a, b, t, x)` and
    `rate(a, b, t, x)` = x' receive them. A function may be an equinox Module: its array leaves are parameters then, named
    'element.leaf', and a new value does not recompile.

    With `reactions`, a joint or several (or their names), the function gets one more argument for each, an `mbd.JointReaction`: what the
    joint does to its second body, force [N], torque [N m] and the point [m] that they belong to. `JointFriction` is such a law. If
    multipliers hold the joint, only HHT and BDF can solve for both together; if a penalty does, all integrators can.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    function: Callable[..., tuple[Array, Array]]
    state: Float[Numbers, "*stack x"] | None
    rate: Callable[..., Array] | None
    joints: tuple[str, ...] = eqx.field(static=True)
    """whose reactions the function receives"""
    stiff: bool = eqx.field(static=True)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)
    parameters: ClassVar[dict[str, Parameter]] = {}

    def __init__(
        self,
        name: str,
        a: Any,
        b: Any,
        function: Callable[..., tuple[Array, Array]],
        *,
        state: Any = None,
        rate: Callable[..., Array] | None = None,
        reactions: Any = (),
        stiff: bool = False,
    ):
        self.read_element(name, (a, b))
        self.joints = tuple(
            _joint_name(self.label, joint) for joint in (reactions if isinstance(reactions, tuple | list) else (reactions,))
        )
        if stiff and self.joints:
            raise ValueError(f"{self.label}: a force that depends on reactions cannot be of family B; leave stiff out.")
        if not callable(function):
            raise ValueError(f"{self.label}: function must be callable, got {function!r}.")
        if (state is None) != (rate is None):
            raise ValueError(f"{self.label}: state (initial values) and rate (their derivative) belong together.")
        self.function, self.rate, self.stiff = function, rate, stiff
        if state is not None:
            state = np.atleast_1d(np.asarray(state, dtype=float)) if not is_traced(state) else jnp.atleast_1d(state)
            state = read_all(self.label, {"state": vector("state", state.shape[0])}, state=state)["state"]
        self.state = state

    def check(self, planar):
        label, frame, nothing, t = self.label, ground_frame(), jnp.zeros(3), np.zeros(())
        of_rate = (frame, frame, t) if self.state is None else (frame, frame, t, self.state)
        arguments = (*of_rate, *(JointReaction(nothing, nothing, nothing) for _ in self.joints))
        result = trace(label, self.function, *arguments)
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise ValueError(f"{label}: its function must return the pair (force, torque).")
        for i, what in enumerate(("force", "torque")):
            shape = shape_of(label, lambda *args, i=i: self.function(*args)[i], *arguments)
            expect(label, f"the {what}", shape, "a vector of 3 components (in a planar model too)", (3,))
        if self.rate is not None and self.state is not None:
            shape, count = shape_of(label, self.rate, *of_rate), self.state.shape[0]
            allowed = ((1,), ()) if count == 1 else ((count,),)
            expect(label, "rate(a, b, t, x)", shape, f"a vector of {count} components, as many as its state", *allowed)

    def initial_state(self):
        return jnp.zeros(0) if self.state is None else self.state

    def reaction_joints(self):
        return self.joints

    def wrench(self, local, frames, angles, t, x, *reactions):
        a, b = frames
        force, torque = self.function(a, b, t, *(() if self.state is None else (x,)), *reactions)
        return pair_wrench(a, b, b.position, jnp.asarray(force, float), jnp.asarray(torque, float))

    def state_rate(self, local, frames, angles, t, x):
        return x if self.rate is None else jnp.reshape(jnp.asarray(self.rate(*frames, t, x)), x.shape)
