"""States of a user's own, that see the whole mechanism: differential states, variables, forces as unknowns (Negrut et al. 2005, (8)).

Each has a function of `now`, the motion at one time: `now["hinge.angle"]`, `now["integral.value"]`, `now.t`. What it asks for by name may depend
on positions, velocities, accelerations, reactions, and on other states; HHT and BDF solve for all of it together.
"""

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..._numbers import Numbers
from ..elements import Axis, ground
from ..frames import Wrench, pair_wrench
from ..joints.base import AbstractJoint
from ..joints.one_axis import Cylindrical, Revolute, Translational
from ..observable import Observable
from ..parameters import Parameter, is_traced, read_all, vector
from .base import AbstractForce

VALUE: dict[str, Observable] = {"value": Observable("1", lambda at: at.x[0])}


class AbstractState(AbstractForce):
    """An element with states whose equations see the whole mechanism."""

    algebraic: ClassVar[bool] = True
    """Whether its states are given by their equation alone; otherwise the equation gives their derivative."""

    @abc.abstractmethod
    def misses(self, rate: Float[Array, "x"], x: Float[Array, "x"], now: Any) -> Float[Array, "x"]:
        """Zero for the right x' (or x, if algebraic)."""

    def implicit(self) -> bool:
        """Whether its equation must be solved, also where nothing it asks for is unknown."""
        return True


def _numbers(label: str, initial: Any) -> Any:
    values = jnp.atleast_1d(initial) if is_traced(initial) else np.atleast_1d(np.asarray(initial, dtype=float))
    if values.ndim != 1:
        raise ValueError(f"{label}: initial must be a number or a vector, got an array of shape {values.shape}.")
    return read_all(label, {"initial": vector("initial", values.shape[0])}, initial=values)["initial"]


def _callable(label: str, what: str, function: Any) -> None:
    if not callable(function):
        raise ValueError(f"{label}: {what} must be a function of `now`, got {function!r}.")


class DifferentialState(AbstractState):
    """A differential state (8a): of a controller, a filter, an actuator.

        mbd.DifferentialState("integral", 0.0, lambda now: 1.0 - now["hinge.angle"])
        mbd.DifferentialState("pressure", 1e5, equation=lambda now, x, rate: volume(now) * rate + flow(x, now))

    - `initial`: its value at the start, a number or a vector.
    - `rate(now)`: x'. If nothing in it depends on accelerations, multipliers, variables or force states, every integrator can do it.
    - `equation(now, x, rate)`: instead, something that is zero for the right x' (implicit). HHT and BDF solve for it.

    `now["integral.value"]` is its first component, in functions, events and `observe` alike; `"integral.state[1]"` is the second.
    A function may be an equinox Module: its array leaves are parameters then, named 'element.leaf'.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    initial: Float[Numbers, "*stack x"]
    rate: Callable[..., Any] | None
    equation: Callable[..., Any] | None
    stiff: bool = eqx.field(static=True)
    kind: ClassVar[str] = "state"
    algebraic: ClassVar[bool] = False
    parameters: ClassVar[dict[str, Parameter]] = {}
    observables: ClassVar[dict[str, Observable]] = VALUE

    def __init__(self, name: str, initial: Any, rate: Any = None, *, equation: Any = None):
        self.read_element(name, (ground,))
        if (rate is None) == (equation is None):
            raise ValueError(f"{self.label}: give rate(now) = x', or equation(now, x, rate) that is zero, one of them.")
        _callable(self.label, "equation" if rate is None else "rate", equation if rate is None else rate)
        self.initial, self.rate, self.equation, self.stiff = _numbers(self.label, initial), rate, equation, False

    def initial_state(self):
        return jnp.asarray(self.initial)

    def implicit(self):
        return self.equation is not None

    def wrench(self, local, frames, angles, t, x):
        return Wrench(jnp.zeros((1, 3)), jnp.zeros((1, 3)))

    def misses(self, rate, x, now):
        if self.rate is not None:
            return rate - _vector(self.rate(now))
        assert self.equation is not None
        return _vector(self.equation(now, x if x.shape[0] > 1 else x[0], rate if x.shape[0] > 1 else rate[0]))


class Variable(AbstractState):
    """A name for a quantity (8b): `mbd.Variable("error", lambda now: target(now.t) - now["hinge.angle"])`.

    Others may ask for `now["error.value"]`, and it for them: HHT and BDF solve for all together. `initial` is where the search for its value at
    the start begins; with a vector it has as many components.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    initial: Float[Numbers, "*stack x"]
    function: Callable[..., Any]
    stiff: bool = eqx.field(static=True)
    kind: ClassVar[str] = "variable"
    parameters: ClassVar[dict[str, Parameter]] = {}
    observables: ClassVar[dict[str, Observable]] = VALUE

    def __init__(self, name: str, function: Any, initial: Any = 0.0):
        self.read_element(name, (ground,))
        _callable(self.label, "function", function)
        self.initial, self.function, self.stiff = _numbers(self.label, initial), function, False

    def initial_state(self):
        return jnp.asarray(self.initial)

    def wrench(self, local, frames, angles, t, x):
        return Wrench(jnp.zeros((1, 3)), jnp.zeros((1, 3)))

    def misses(self, rate, x, now):
        return x - _vector(self.function(now))


class ForceState(AbstractState):
    """A force whose components are unknowns (8c): `function(now)` returns (force [N], torque [N m]) on b at its centre of mass, in the ground's
    axes; the exact opposite acts on a. What a `ForceFunction` cannot see it can: any quantity by name, accelerations and reactions too."""

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    function: Callable[..., Any]
    stiff: bool = eqx.field(static=True)
    point_like: ClassVar[tuple[int, ...]] = (0, 1)
    parameters: ClassVar[dict[str, Parameter]] = {}

    def __init__(self, name: str, a: Any, b: Any, function: Any):
        self.read_element(name, (a, b))
        _callable(self.label, "function", function)
        self.function, self.stiff = function, False

    def initial_state(self):
        return jnp.zeros(6)

    def wrench(self, local, frames, angles, t, x):
        a, b = frames
        return pair_wrench(a, b, b.position, x[:3], x[3:])

    def misses(self, rate, x, now):
        result = self.function(now)
        if not (isinstance(result, tuple | list) and len(result) == 2):
            raise ValueError("its function must return the pair (force, torque).")
        return x - jnp.concatenate([_vector(part) for part in result])


class Actuator(AbstractState):
    """A motor in a `Revolute` joint, or a cylinder in a `Translational` or `Cylindrical` one, with a law of its own (8c).

        mbd.Actuator("motor", hinge, lambda now: 40.0 * now["error.value"] + 5.0 * now["integral.value"])

    `function(now)` is the torque [N m] about the joint's axis, or the force [N] along it, on the joint's second body; the opposite acts on the
    first. `now["motor.value"]` is that number. It is an unknown: HHT and BDF solve for it with the motion.
    """

    name: str = eqx.field(static=True)
    bodies: tuple[str, ...] = eqx.field(static=True)
    joints: tuple[str, ...] = eqx.field(static=True)
    """the one"""
    turns: bool = eqx.field(static=True)
    function: Callable[..., Any]
    stiff: bool = eqx.field(static=True)
    shares_axis: ClassVar[bool] = True
    asks_reactions: ClassVar[bool] = False
    parameters: ClassVar[dict[str, Parameter]] = {}
    observables: ClassVar[dict[str, Observable]] = VALUE

    def __init__(self, name: str, joint: AbstractJoint, function: Any):
        if type(joint) not in (Revolute, Translational, Cylindrical):
            raise ValueError(f"force {name!r}: give a joint of the kind Revolute, Translational, Cylindrical, got {joint!r}.")
        self.read_element(name, tuple(joint.bodies))
        _callable(self.label, "function", function)
        self.joints, self.turns, self.function, self.stiff = (joint.name,), type(joint) is Revolute, function, False

    def reaction_joints(self):
        return self.joints

    def fits(self, joint):
        return joint.bodies == self.bodies and type(joint) in (Revolute, Translational, Cylindrical)

    def initial_state(self):
        return jnp.zeros(1)

    def wrench(self, local: Axis, frames, angles, t, x):
        (a, b), axis = frames, local.direction(frames[0])
        pull = x[0] * axis
        nothing = jnp.zeros(3)
        return pair_wrench(a, b, b.point(local.point_b), nothing if self.turns else pull, pull if self.turns else nothing)

    def misses(self, rate, x, now):
        return x - _vector(self.function(now))


def _vector(value: Any) -> Float[Array, "x"]:
    return jnp.atleast_1d(jnp.asarray(value, float))
