"""Reading and checking the numbers a person gives: shape, finiteness, physical range, with the element's name in the message.

A concrete value is checked at once and raises `ValueError`. A traced one (under jit, grad, vmap) is known only when the program runs, where
raising would take a call back to the host: there it becomes NaN if it is not acceptable, lane by lane. Whatever is computed from it is then
NaN too, and a run that meets it ends with `RESULTS.bad_parameter` (`validity.first_unusable`).
"""

import difflib
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer


class Parameter(NamedTuple):
    """What one named number of an element must look like."""

    unit: str
    shapes: tuple[tuple[int, ...], ...] = ((),)
    valid: Callable[[Any], Any] | None = None
    """True where the (already finite) value is acceptable; must work on numpy arrays and on tracers."""
    requirement: str = ""
    """The sentence that ends "mass of body 'rod' ...": it says what is wrong and what to write instead."""
    convert: Callable[[Any], Any] | None = None
    """Applied before the shape is looked at, e.g. principal moments of inertia to a matrix."""
    converts: tuple[tuple[int, ...], ...] = ()
    """Further shapes that `convert` takes."""
    optional: bool = False
    """Whether None is accepted; what it means is decided when the model is built."""
    follows: str = ""
    """The field of the same element whose value it has while it is None itself."""
    doubtful: Callable[[Any], Any] | None = None
    """True where a (concrete, valid) value is more likely a slip than meant: it is accepted with a warning."""
    doubt: str = ""
    """The sentence that ends "kinetic of the law is 30: ..."."""


class Order(NamedTuple):
    """Two numbers of an element of which one must not exceed the other."""

    smaller: str
    larger: str
    requirement: str
    """The sentence after the numbers: what is wrong and what to write instead."""
    may_be_equal: bool = False


def is_traced(*trees: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def positive(unit: str, hint: str = "must be positive") -> Parameter:
    return Parameter(unit, valid=lambda x: x > 0, requirement=hint)


def not_negative(unit: str, hint: str = "must not be negative") -> Parameter:
    return Parameter(unit, valid=lambda x: x >= 0, requirement=hint)


def scalar(unit: str) -> Parameter:
    return Parameter(unit)


def following(field: str, spec: Parameter) -> Parameter:
    """Of a number that, unless it is given, is that of another field, also after that one was set anew."""
    return spec._replace(optional=True, follows=field)


def vector(unit: str, *lengths: int) -> Parameter:
    return Parameter(unit, shapes=tuple((n,) for n in (lengths or (2, 3))))


def nonzero_vector(length: int | None = None) -> Parameter:
    """A direction of so many components; without a length, of a planar or a spatial model, and optional."""

    def nonzero(x):
        return (x * x).sum(-1) > 1e-24

    # Optional: a planar model knows its axis of rotation, and `Model.build` asks for what it does not know.
    shapes = ((2,), (3,)) if length is None else ((length,),)
    return Parameter("1", shapes, nonzero, "has zero length: give a direction", optional=length is None)


def nonzero_orientation() -> Parameter:
    return Parameter("1", ((4,),), lambda p: (p * p).sum(-1) > 1e-12, "is zero: give a quaternion (scalar first) or a rotation matrix")


def usable(value: Any, acceptable: Any) -> Any:
    """A traced value, NaN where it is not acceptable."""
    return jnp.where(acceptable, value, jnp.nan)


def read(owner: str, field: str, spec: Parameter, value: Any) -> Any:
    """The value as a float array, checked. `owner` is e.g. "body 'rod'"."""
    where = f"{field} of {owner}"
    if value is None:
        raise ValueError(f"{where}: expected {_numbers(spec)}, got None.")
    if not is_traced(value):
        try:
            value = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"{where}: expected {_numbers(spec)}, got {value!r}.") from None
    else:
        value = jnp.asarray(value, dtype=float)
    if spec.convert is not None:
        value = spec.convert(value)
    if value.shape not in spec.shapes:
        raise ValueError(f"{where}: expected {_numbers(spec)}, got an array of shape {value.shape}.")
    if is_traced(value):
        known = jax.lax.stop_gradient(value)
        acceptable = jnp.all(jnp.isfinite(known))
        return usable(value, acceptable if spec.valid is None else acceptable & jnp.all(spec.valid(known)))
    if not np.all(np.isfinite(value)):
        raise ValueError(f"{where} is not finite: got {_short(value)}.")
    if spec.valid is not None and not np.all(spec.valid(value)):
        raise ValueError(f"{where} {spec.requirement}: got {_short(value)}.")
    if spec.doubtful is not None and np.any(spec.doubtful(value)):
        warnings.warn(f"{where} is {_short(value)}: {spec.doubt}.", stacklevel=5)
    return value


def read_all(owner: str, specs: dict[str, Parameter], **values: Any) -> dict[str, Any]:
    """Every value with a spec, checked; an optional None stays None."""
    return {key: None if value is None and specs[key].optional else read(owner, key, specs[key], value) for key, value in values.items()}


def read_fields(module: Any, owner: str, specs: dict[str, Parameter], **values: Any) -> None:
    """The part of a constructor that reads numbers: every value, checked, becomes the module's field of that name."""
    for field, value in read_all(owner, specs, **values).items():
        setattr(module, field, value)
    for field, value in ordered(owner, module).items():
        setattr(module, field, value)


def ordered(owner: str, module: Any) -> dict[str, Any]:
    """The larger fields of the `orders` that a module or a stack of modules has, checked."""
    found = {}
    for smaller, larger, requirement, may_be_equal in getattr(type(module), "orders", ()):
        low, high = getattr(module, smaller), getattr(module, larger)
        if low is None or high is None:
            continue
        wrong = high < low if may_be_equal else high <= low
        if is_traced(low, high):
            found[larger] = usable(high, ~jax.lax.stop_gradient(wrong))
        elif np.any(wrong):
            first = np.argmax(wrong)
            low, high = float(np.ravel(low)[first]), float(np.ravel(high)[first])
            wanted = _comparison(smaller, may_be_equal)
            raise ValueError(f"{owner}: {larger} = {high:.6g} {wanted} = {low:.6g}; {requirement}.")
    return found


def _comparison(smaller: str, may_be_equal: bool) -> str:
    return f"must {'not be smaller' if may_be_equal else 'be larger'} than {smaller}"


def expectation(owner: str, field: str, spec: Parameter, module: type) -> str:
    """A sentence for a number that turned out to be NaN: what it must be, by itself and next to others of its module."""
    wanted = [spec.requirement] if spec.requirement else []
    for smaller, larger, requirement, may_be_equal in getattr(module, "orders", ()):
        if larger == field.rsplit(".", 1)[-1]:
            wanted.append(f"{_comparison(smaller, may_be_equal)} ({requirement})")
    return f"{field} of {owner} {', and '.join(wanted) or 'must be finite'}"


def read_name(kind: str, name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of a {kind} must be a non-empty string, got {name!r}.")
    if "." in name:
        raise ValueError(f"the name {name!r} of a {kind} must not contain a dot: 'element.parameter' uses it.")
    return name


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """A message for a name that is not there, with the nearest one that is."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else f" Known: {', '.join(map(repr, known[:12])) or 'none'}."
    return f"unknown {what} {name!r}.{hint}"


def _numbers(spec: Parameter) -> str:
    shapes = " or ".join("one number" if s == () else f"an array of shape {s}" for s in (*spec.converts, *spec.shapes))
    return f"{shapes} [{spec.unit}]"


def _short(value: np.ndarray) -> str:
    if value.shape == ():
        return f"{float(value):.6g}"
    return np.array2string(value, precision=6, threshold=12, separator=", ")
