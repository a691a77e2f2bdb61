"""Modules and shapes as plain data and back: their class by name, their fields by name, numbers to the last bit.

Nothing here knows a kind of element. A class of the library, or one that a person hands over, is known by its name; its fields are read as its
constructor would: by its `parameters`, and by their annotations.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import equinox as eqx
import numpy as np

from ..bodies.base import AbstractBody
from ..parameters import is_traced, ordered, read, read_name, unknown
from ..shapes import AbstractShape

KIND = "kind"
Data = dict[str, Any]


class NotData(ValueError):
    """Something in a model is no data."""


# --- to data ------------------------------------------------------------------------------------------------------------------------------


def to_data(thing: Any, label: str) -> Data:
    """A Module or a shape; `label` is what messages call it. Numbers that were left out are left out here, too."""
    found = {KIND: type(thing).__name__}
    for field in dataclasses.fields(thing):
        value = _plain(getattr(thing, field.name), label, field.name)
        if value is not None and not (field.name == "shape" and value == []):
            found[field.name] = value
    return found


def _plain(value: Any, label: str, field: str) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return str(value)
    if is_traced(value):
        raise NotData(f"{field} of {label} is a traced number, under jit or grad: write files outside.")
    if isinstance(value, eqx.Module | AbstractShape):
        return to_data(value, label)
    if isinstance(value, tuple | list):
        return [_plain(part, label, field) for part in value]
    if isinstance(value, float) or hasattr(value, "dtype"):
        return _number(np.asarray(value).tolist())
    what = "a function" if callable(value) else f"{value!r}, which is no number, name, shape or Module"
    hint = "Give an mbd.Signal, or an equinox Module of your own with numbers for fields." if callable(value) else "Leave it out."
    raise NotData(f"{field} of {label} is {what}: a file of data cannot hold it. {hint}")


def _number(value: Any) -> Any:
    """Of lists of numbers; JSON has no name for what is not finite."""
    if isinstance(value, list):
        return [_number(part) for part in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


# --- from data ----------------------------------------------------------------------------------------------------------------------------


def kinds_of(base: type, classes: Iterable[type] = ()) -> dict[str, type]:
    """The classes of the library below `base`, by their names, and those that a person hands over."""
    package = __name__.partition(".")[0]
    own = [c for c in _below(base) if c.__module__.startswith(f"{package}.") and not c.__name__.startswith(("_", "Abstract"))]
    return {c.__name__: c for c in (*own, *classes) if issubclass(c, base) and not inspect.isabstract(c)}


def _below(base: type) -> Iterator[type]:
    for child in base.__subclasses__():
        yield child
        yield from _below(child)


def from_data(data: Any, base: type, where: str, classes: tuple[type, ...] = ()) -> Any:
    """The Module or shape, an instance of `base`; `where` is what messages call it until it has a name."""
    if not isinstance(data, dict) or not isinstance(data.get(KIND), str):
        raise ValueError(f'{where} must be an object with a "{KIND}", got {data!r}.')
    known = kinds_of(AbstractShape if issubclass(base, AbstractShape) else eqx.Module, classes)
    if (kind := data[KIND]) not in known:
        raise ValueError(f"{where}: {unknown('kind', kind, known)} A class of your own is to be given: classes=[{kind}].")
    found = known[kind]
    if not issubclass(found, base):
        wanted = ", ".join(sorted(kinds_of(base, classes))[:12])
        raise ValueError(f"{where} is a {kind}, which does not belong there: expected one of {wanted}.")
    label = f"{_said_kind(found)} {data['name']!r}" if isinstance(data.get("name"), str) else f"{where} ({kind})"
    fields = {field.name for field in dataclasses.fields(found)}
    for key in data:
        if key != KIND and key not in fields:
            raise ValueError(f"{label}: {unknown('field', key, sorted(fields))}")
    given = {field: data[field] for field in fields if field in data}
    if issubclass(found, AbstractShape):
        try:
            return found(**given)
        except TypeError as error:
            raise ValueError(f"{label}: {error}.") from None
    return _module(found, _defaults(found) | given, label, classes)


def _said_kind(found: Any) -> str:
    """What messages call such an element."""
    return "body" if issubclass(found, AbstractBody) else getattr(found, "kind", found.__name__)


def _defaults(kind: type) -> Data:
    """What the constructor takes for a field that was left out."""
    fields = {field.name for field in dataclasses.fields(kind)}
    own = inspect.signature(kind.__init__).parameters.items()
    return {name: p.default for name, p in own if name in fields and p.default is not p.empty}


def _module(kind: Any, given: Data, label: str, classes: tuple[type, ...]) -> Any:
    hints = typing.get_type_hints(kind)
    specs = getattr(kind, "parameters", {})
    made = object.__new__(kind)
    for field in dataclasses.fields(kind):
        name, spec, hint = field.name, specs.get(field.name), hints[field.name]
        value = given.get(name)
        if isinstance(value, dict):
            value = from_data(value, _base(hint), f"{name} of {label}", classes)
            if _base(hint) is eqx.Module and not callable(value):
                raise ValueError(f"{name} of {label}: a {type(value).__name__} is no function.")
        elif name == "name":
            value = read_name(_said_kind(kind), value)
        elif spec is not None:
            if name in getattr(kind, "by_mode", ()):
                spec = made.spread_over_modes(spec)
            value = None if value is None and spec.optional else read(label, name, spec, value)
        else:
            value = _read_plain(value, hint, f"{name} of {label}", classes)
        object.__setattr__(made, name, value)
    for name, value in ordered(label, made).items():
        object.__setattr__(made, name, value)
    return made


def _base(hint: Any) -> type:
    """The Module that an annotation asks for."""
    options = [part for part in (hint, *typing.get_args(hint)) if isinstance(part, type) and issubclass(part, eqx.Module)]
    return options[0] if options else eqx.Module


def _read_plain(value: Any, hint: Any, where: str, classes: tuple[type, ...]) -> Any:
    """Of a field without a spec: by its annotation."""
    options = typing.get_args(hint) or (hint,)
    if "Shape" in str(hint):
        shapes = () if value is None else value
        return tuple(from_data(part, AbstractShape, where, classes) if isinstance(part, dict) else part for part in shapes)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list | tuple) or not all(isinstance(part, str) for part in value):
            raise ValueError(f"{where}: expected a list of names, got {value!r}.")
        return tuple(value)
    if hint in (bool, str):
        if not isinstance(value, hint):
            raise ValueError(f"{where}: expected {'true or false' if hint is bool else 'a word'}, got {value!r}.")
        return value
    if value is None and (type(None) in options or hint is Any):
        return None
    if value is not None and ("Float[" in str(hint) or hint is Any or "Array" in str(hint)):
        try:
            return np.asarray(value, float if "Float[" in str(hint) or hint is Any else None)
        except (TypeError, ValueError):
            raise ValueError(f"{where}: expected numbers, got {value!r}.") from None
    if isinstance(value, int | float | str) and any(isinstance(value, option) for option in options if isinstance(option, type)):
        return value
    raise ValueError(f"{where}: expected {_said(hint)}, got {'nothing' if value is None else repr(value)}.")


def _said(hint: Any) -> str:
    base = _base(hint)
    if base is not eqx.Module:
        return "one of " + ", ".join(sorted(kinds_of(base))[:12])
    is_function = hint is Any or typing.get_origin(hint) is Callable or "Callable" in str(hint)
    return "a Module such as an mbd.Signal" if is_function else str(hint)
