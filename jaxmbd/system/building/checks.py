"""What can be wrong with one element once it is known whether the model is planar: dimensions, geometry, a user's functions."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..elements import AbstractElement
from ..forces.functions import ForceFunction
from ..forces.loads import PointForce, Torque
from ..forces.springs import SpringDamper, TorsionSpringDamper
from ..frames import JointReaction, ground_frame
from ..joints.base import AbstractJoint
from ..joints.distance import Distance
from ..joints.drivers import Motion, Screw
from ..joints.two_axes import Perpendicular, Universal
from ..parameters import is_traced

_ELSEWHERE = 0.1
"""Share of a rod's length that assembling may have to close before it is taken for a slip; small differences may be meant."""
_BEGINS = 1e-2
"""rad or m, by which a motion may begin beside the initial configuration."""


def check_dimension(owner: str, field: str, value: Any, planar: bool) -> None:
    expected = 2 if planar else 3
    if value.shape != (expected,):
        where = "planar" if planar else "spatial"
        raise ValueError(f"{field} of {owner}: a {where} model needs {expected} components, got {value.shape[0]}.")


def check_geometry(element: AbstractElement) -> None:
    """Points and axes that must make sense together."""
    if isinstance(element, Universal | Perpendicular) and not is_traced(element.axis1, element.axis2):
        cosine = element.axis1 @ element.axis2 / np.linalg.norm(element.axis1) / np.linalg.norm(element.axis2)
        if abs(cosine) > 1e-6:
            raise ValueError(f"{element.label}: axis1 and axis2 must be perpendicular, their cosine is {cosine:.3g}.")
    if isinstance(element, Distance) and not is_traced(element.point1, element.point2):
        size = 1.0 + np.abs(element.point1).max()
        if np.linalg.norm(element.point2 - element.point1) < 1e-12 * size:
            raise ValueError(f"{element.label} has zero length: its points coincide. Use a Spherical (or Revolute) joint.")
        if element.length is not None and not is_traced(element.length):
            distance = np.linalg.norm(element.point2 - element.point1)
            if abs(distance - element.length) > _ELSEWHERE * element.length:
                _warn(
                    f"{element.label}: its length is {element.length:.6g} m, but its points are {distance:.6g} m apart at the initial "
                    f"configuration; {_consequence(element)}. Place the bodies at that distance, or leave the length out."
                )
    if isinstance(element, Screw) and not is_traced(element.pitch) and element.pitch == 0:
        raise ValueError(f"{element.label} has zero pitch: use a Revolute joint.")


def check_functions(element: AbstractElement, planar: bool) -> None:
    """What a user's functions return, found by tracing them once."""
    t, label = np.zeros(()), element.label
    if isinstance(element, Motion):
        _expect(label, "function(t)", _shape(label, element.function, t), "one number", (), (1,))
        _check_beginning(element)
    elif isinstance(element, SpringDamper | TorsionSpringDamper) and element.actuator is not None:
        shape = _shape(label, element.actuator, t, t, t)
        _expect(label, f"actuator({_COORDINATE[type(element)]}, rate, t)", shape, "one number", (), (1,))
    elif isinstance(element, PointForce):
        count = 2 if planar else 3
        _expect(label, "the force", _load_shape(element, t), f"a vector of {count} components", (count,))
    elif isinstance(element, Torque):
        shape = _load_shape(element, t)
        if planar:
            _expect(label, "the torque", shape, "one number (about z)", (), (1,))
        else:
            _expect(label, "the torque", shape, "a vector of 3 components", (3,))
    elif isinstance(element, ForceFunction):
        _check_force_function(element, t)


def _check_beginning(element: Motion) -> None:
    begin = element.function(jnp.zeros(()))
    if not is_traced(begin) and abs(value := float(np.reshape(begin, ()))) > _BEGINS:
        unit = "m" if element.coordinate == "travel" else "rad"
        _warn(
            f"{element.label}: its function is {value:.6g} {unit} at t = 0, but its coordinate counts from the initial configuration and is "
            f"zero there; {_consequence(element)}. Place the bodies where the motion begins, or subtract function(0)."
        )


def _consequence(joint: AbstractJoint) -> str:
    return "assembling will move the bodies" if joint.penalty is None else "its penalty will begin with that deflection"


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=6)  # _warn, the check, check_..., _complete, build: its caller


_COORDINATE = {SpringDamper: "length", TorsionSpringDamper: "angle"}


def _check_force_function(element: ForceFunction, t: Any) -> None:
    label, frame, nothing = element.label, ground_frame(), jnp.zeros(3)
    of_rate = (frame, frame, t) if element.state is None else (frame, frame, t, element.state)
    arguments = (*of_rate, *(JointReaction(nothing, nothing, nothing) for _ in element.joints))
    result = _trace(label, element.function, *arguments)
    if not (isinstance(result, tuple | list) and len(result) == 2):
        raise ValueError(f"{label}: its function must return the pair (force, torque).")
    for i, what in enumerate(("force", "torque")):
        shape = _shape(label, lambda *args, i=i: element.function(*args)[i], *arguments)
        _expect(label, f"the {what}", shape, "a vector of 3 components (in a planar model too)", (3,))
    if element.rate is not None and element.state is not None:
        shape, count = _shape(label, element.rate, *of_rate), element.state.shape[0]
        allowed = ((1,), ()) if count == 1 else ((count,),)
        _expect(label, "rate(a, b, t, x)", shape, f"a vector of {count} components, as many as its state", *allowed)


def _load_shape(element: PointForce | Torque, t: Any) -> tuple[int, ...]:
    return _shape(element.label, element.given, ground_frame(), t)


def _expect(label: str, what: str, shape: tuple[int, ...], wanted: str, *allowed: tuple[int, ...]) -> None:
    if shape not in allowed:
        raise ValueError(f"{label}: {what} must be {wanted}, got an array of shape {shape}.")


def _shape(label: str, function: Callable[..., Any], *arguments: Any) -> tuple[int, ...]:
    return _trace(label, lambda *args: jnp.asarray(function(*args)), *arguments).shape


def _trace(label: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.eval_shape(function, *arguments)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise ValueError(f"{label}: its function cannot be compiled; write it with jax.numpy instead of numpy, math or if.") from error
