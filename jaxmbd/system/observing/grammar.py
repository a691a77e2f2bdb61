"""Names of what can be observed: the grammar that plots, events and sweeps share, as `naming` is that of parameters.

name      = [reducer ":"] owner "." quantity          "chassis.z", "peak:spring.force", "final:energy.total"
owner     = a body, joint, force, contact, group of contacts or field (gravity) of the model, or energy
quantity  = one of the owner's, as `system.observable_names()` lists them; of a body also those of its points, "rod.point(0.5,0,0).vx"
reducer   = one of `measure.REDUCERS`: one number for a run instead of one a row
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from ...measure import REDUCERS
from ..observable import Observable
from ..parameters import unknown
from .views import Owner

if TYPE_CHECKING:
    from ..equations import AbstractSystem

_POINT = re.compile(r"point\(([^)]*)\)\.(.+)")


class Found(NamedTuple):
    """A name, taken apart."""

    reducer: str
    """empty: one number a row"""
    prefix: str
    """the owner, with the dot"""
    quantity: str
    owner: Owner

    @property
    def observable(self) -> Observable:
        return self.owner.table[self.quantity]


def names(system: "AbstractSystem") -> list[str]:
    return [f"{owner and owner + '.'}{quantity}" for owner, (table, *_) in system.owners().items() for quantity in table]


def find(system: "AbstractSystem", *given: str) -> list[Found]:
    """What names mean. One that means nothing is an error that tells the nearest that does."""
    owners = system.owners()
    return [_find(system, owners, name) for name in given]


def _find(system: "AbstractSystem", owners: dict[str, Owner], name: str) -> Found:
    if not isinstance(name, str):
        raise ValueError(f"the name of an observable must be a string such as 'rod.x', got {name!r}.")
    reducer, colon, plain = name.partition(":")
    if not colon or name.partition(".")[0] in owners:  # an owner's name may have a colon
        reducer, plain = "", name
    elif reducer not in REDUCERS:
        raise ValueError(unknown("reducer", reducer, REDUCERS))
    if "" in owners and plain in owners[""].table:
        return Found(reducer, "", plain, owners[""])
    owner, _, quantity = plain.partition(".")
    seen = owners.get(owner)
    if seen is not None and quantity in seen.table:
        return Found(reducer, f"{owner}.", quantity, seen)
    if seen is not None and seen.point is not None and (match := _POINT.fullmatch(quantity)):
        point = seen.point(match[1])
        if match[2] not in point.table:
            raise ValueError(unknown("quantity of a point", match[2], point.table))
        return Found(reducer, f"{owner}.point({match[1]}).", match[2], point)
    if plain in system.parameter_names():
        raise ValueError(f"{plain!r} is a parameter, which no run changes: system.get({plain!r}) tells its value.")
    if seen is not None and not quantity:
        raise ValueError(
            f"{plain!r} names no quantity: write for example '{owner}.{next(iter(seen.table))}', one of {', '.join(seen.table)}."
        )
    if seen is not None:
        raise ValueError(f"{owner!r}: {unknown('observable', quantity, seen.table)}")
    raise ValueError(unknown("observable", plain, names(system)))
