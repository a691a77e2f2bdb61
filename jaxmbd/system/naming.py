"""Parameters by name: "spring.stiffness", "hinge.point", "rod.mass", "weld.penalty.damping", and the leaves of a user's own Modules."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from .equations import AbstractSystem
from .parameters import Parameter, ordered, read, unknown

if TYPE_CHECKING:
    from .system import System

_TRANSPARENT = ("function", "penalty", "actuator", "rate", "value", "law", "friction")
"""Fields of an element that a name may leave out: "drive.amplitude" is "drive.function.amplitude"."""


class _Place(NamedTuple):
    path: tuple[str | int, ...]
    """attributes and tuple positions from the system to the leaf"""
    index: int | None
    """place in the stack; None: the leaf is not stacked"""
    label: str
    """e.g. "force 'spring'" """
    spec: Parameter | None
    given: bool = True
    """False: a number that was left out (None). It has the value of another one, or follows from the geometry."""


def get(system: "System", name: str) -> Array:
    place = _find(_catalogue(system), name)
    path = place.path
    if not place.given:
        if not (place.spec and place.spec.follows):
            raise ValueError(_left_out(name, place))
        path = (*path[:-1], place.spec.follows)
    leaf = _follow(system, path)
    return leaf if place.index is None else leaf[place.index]


def set_values(system: "System", values: dict[str, Any]) -> "System":
    catalogue = _catalogue(system)
    for name, value in values.items():
        place = _find(catalogue, name)
        if not place.given:
            raise ValueError(_left_out(name, place))
        leaf = _follow(system, place.path)
        shape = leaf.shape if place.index is None else leaf.shape[1:]
        spec = (place.spec or Parameter("parameter"))._replace(shapes=(shape,))
        value = read(place.label, name.split(".", 1)[1], spec, value)
        leaf = jnp.asarray(value) if place.index is None else jnp.asarray(leaf).at[place.index].set(value)
        system = _put(system, place.path, leaf)
    for place in map(catalogue.__getitem__, values):
        for depth in range(1, len(place.path)):
            for field, value in ordered(place.label, _follow(system, place.path[:depth])).items():
                system = _put(system, (*place.path[:depth], field), value)
    return system


def _left_out(name: str, place: _Place) -> str:
    source = f"it has the value of {place.spec.follows}" if place.spec and place.spec.follows else "it follows from the rest of the model"
    return (
        f"parameter {name!r} was left out when {place.label} was made, so {source} and has no number of its own. "
        f"Give {place.path[-1]}=... there."
    )


def parameter_names(system: "System") -> list[str]:
    """Every parameter once, by the shortest of its names."""
    found: dict[Any, str] = {}
    for name, place in _catalogue(system).items():
        if place.given:
            key = place.path, place.index
            found[key] = min(found.get(key, name), name, key=len)
    return list(found.values())


def find(system: "System", name: str) -> _Place:
    """Where a parameter is, and what it must be."""
    return _find(_catalogue(system), name)


def unit(system: "System", name: str) -> str:
    """Of a parameter; empty if nobody said."""
    spec = find(system, name).spec
    return "" if spec is None else spec.unit


class Checked(NamedTuple):
    """A leaf whose class says what its numbers must be."""

    leaf: Array
    """of a stack, or one that is not stacked"""
    module: type
    """the class that it is a field of"""
    owners: list[tuple[str, str, Parameter]]
    """of every entry of the stack: whose it is ("force 'spring'"), its field by the shortest name, what it must be"""


def checked_leaves(system: "System") -> list[Checked]:
    """In an order that depends on the structure of the system only. Leaves of a user's own functions may hold what they like."""
    names: dict[tuple[str | int, ...], dict[int | None, str]] = {}
    owned: dict[str, tuple[str, str, Parameter]] = {}
    for name, place in _catalogue(system).items():
        if place.given and place.spec is not None:
            owned[name] = (place.label, name.split(".", 1)[1], place.spec)
            owners = names.setdefault(place.path, {})
            owners[place.index] = min(owners.get(place.index, name), name, key=len)
    return [
        Checked(_follow(system, path), type(_follow(system, path[:-1])), [owned[name] for name in owners.values()])
        for path, owners in names.items()
    ]


def find_coordinates(system: AbstractSystem, given: Sequence[str | int], argument: str) -> tuple[int, ...]:
    """Places in q of coordinates given by name ("chassis.x", "rod.angle", "wheel.e2") or by place; `argument` is what messages call them."""
    if isinstance(given, str):
        raise ValueError(f"{argument} must be a sequence of names: write {argument}=({given!r},).")
    names, found = system.coordinate_names(), []
    for name in given:
        if isinstance(name, str) and name not in names:
            raise ValueError(unknown("coordinate", name, names))
        index = names.index(name) if isinstance(name, str) else int(name)
        if not 0 <= index < system.q0.shape[-1]:
            raise ValueError(f"{argument}: there is no coordinate {index}; q has {system.q0.shape[-1]}.")
        found.append(index)
    return tuple(dict.fromkeys(found))


def _find(catalogue: dict[str, _Place], name: str) -> _Place:
    if name in catalogue:
        return catalogue[name]
    raise ValueError(unknown("parameter", name, catalogue))


def _catalogue(system: "System") -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    for field in ("body_groups", "joint_groups", "force_groups"):
        for g, group in enumerate(getattr(system, field)):
            part = "body" if field == "body_groups" else "element"
            stack = getattr(group, part)
            kind = "body" if field == "body_groups" else stack.kind
            leaves = list(_leaves(stack))
            for i, owner in enumerate(group.names):
                for path, spec, given in leaves:
                    place = _Place((field, g, part, *path), i, f"{kind} {owner!r}", spec, given)
                    found[".".join((owner, *path))] = place
                    if len(path) > 1 and path[0] in _TRANSPARENT:
                        found.setdefault(".".join((owner, *path[1:])), place)
    for i, field in enumerate(system.fields):
        for path, spec, given in _leaves(field):
            found[".".join((field.name, *path))] = _Place(("fields", i, *path), None, field.label, spec, given)
    return found


def _leaves(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Parameter | None, bool]]:
    """Array leaves of a Module as attribute paths, each with its spec where the class gives one; and numbers that were left out."""
    specs = getattr(type(node), "parameters", {})
    for field, value in vars(node).items():
        if eqx.is_inexact_array(value):
            yield (*path, field), specs.get(field), True
        elif value is None and field in specs:
            yield (*path, field), specs[field], False
        elif isinstance(value, eqx.Module) and not getattr(value, "unnamed", False):
            yield from _leaves(value, (*path, field))


def _put(system: "System", path: tuple[str | int, ...], leaf: Any) -> "System":
    return eqx.tree_at(lambda s: _follow(s, path), system, leaf)


def _follow(node: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        node = node[step] if isinstance(step, int) else getattr(node, step)
    return node
