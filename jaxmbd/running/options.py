"""What `simulate` was asked for, read and checked."""

from typing import Any

import equinox.internal as eqxi
import jax.numpy as jnp
import numpy as np

from ..system.parameters import is_traced, usable
from .events import Events
from .prescribed import read_steps
from .saving import SaveAt


def read_options(given: dict[str, Any]) -> dict[str, Any]:
    """Times and step sizes as checked float arrays, and what is to be saved; from the arguments of `simulate`."""
    initial, max_steps = given["initial"], given["max_steps"]
    if max_steps is not None and not (max_steps == int(max_steps) and max_steps >= 1):
        raise ValueError(f"max_steps must be a whole number, at least 1, got {max_steps}.")
    t0 = given["t0"]
    t0 = _number("t0", (initial.t if initial is not None else 0.0) if t0 is None else t0)
    t1 = _constant("t1", _number("t1", given["t1"]))
    concrete = not is_traced(t0, t1)
    if concrete and t1 < t0:
        raise ValueError(f"t1 = {float(t1)} lies before t0 = {float(t0)}: time runs forward.")
    if not concrete:
        t1 = usable(t1, t1 >= t0)
    span = t1 - t0
    options: dict[str, Any] = {"t0": t0, "t1": t1}
    for name, default in (("first_step", 0.0), ("min_step", 1e-13 * span), ("max_step", np.inf)):
        value = default if given[name] is None else _constant(name, _number(name, given[name], allow_inf=name == "max_step"))
        if given[name] is not None and not is_traced(value) and not value > 0:
            raise ValueError(f"{name} must be positive, got {float(value)} s.")
        if given[name] is not None and is_traced(value):
            value = usable(value, value > 0)
        options[name] = jnp.asarray(value, dtype=float)
    _expect_order(given, "min_step", "max_step")
    _expect_order(given, "first_step", "max_step")
    _expect_order(given, "min_step", "first_step")
    options["saveat"] = _constant("saveat", SaveAt.read(given["saveat"], t0, t1))
    options["steps"] = None if given["step"] is None else _constant("step", read_steps(given["step"], span))
    options["events"] = Events.read(given["until"])
    return options


def expect_type(name: str, value: Any, kind: Any, what: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {what}, got {type(value).__name__}.")


def _constant(name: str, value: Any) -> Any:
    """The value, with a sentence for those who ask for a derivative by it."""
    if not is_traced(value):
        return value
    rate = "; the rates at the end are solution.final.v and solution.final.acceleration" if name == "t1" else ""
    return eqxi.nondifferentiable(
        value,
        msg=f"simulate has no derivative by {name}: times and step sizes count as constants{rate}. Hold it by jax.lax.stop_gradient, or end the "
        "run by until=..., whose time has one.",
    )


def _expect_order(given: dict[str, Any], smaller: str, larger: str) -> None:
    low, high = given[smaller], given[larger]
    if low is not None and high is not None and not is_traced(low, high) and low > high:
        raise ValueError(f"{smaller} = {float(low):.6g} s exceeds {larger} = {float(high):.6g} s: exchange them, or leave one out.")


def _number(name: str, value: Any, allow_inf: bool = False) -> Any:
    if is_traced(value):
        return jnp.asarray(value, dtype=float)
    try:
        number = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number of seconds, got {value!r}.") from None
    if number.shape != () or np.isnan(number) or (np.isinf(number) and not allow_inf):
        raise ValueError(f"{name} must be one finite number of seconds, got {value!r}.")
    return number
