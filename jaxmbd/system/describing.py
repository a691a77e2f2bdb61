"""Models and systems in words: tables that a person reads, as text and for notebooks."""

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from .elements import ground
from .files.parts import Parts, parts_of
from .parameters import is_traced

if TYPE_CHECKING:
    from .system import System

_MOST = {"text": 12, "html": 60}
"""rows of a table"""


class Table(NamedTuple):
    """One line of words for each of some things."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Description(NamedTuple):
    headline: str
    tables: list[Table]

    def text(self) -> str:
        lines = [self.headline]
        for title, header, every in self.tables:
            rows = _shortened(every, _MOST["text"])
            widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
            shown = rows if not any(header) else [header, *rows]
            indent = "  "
            if title:
                lines.append(f"  {title}")
                indent = "    "
            lines += [indent + "  ".join(f"{part:{width}}" for part, width in zip(row, widths, strict=True)).rstrip() for row in shown]
        return "\n".join(lines)

    def html(self) -> str:
        parts = [f"<b>{html.escape(self.headline)}</b>"]
        cell = 'style="text-align:left;vertical-align:top"'
        for title, header, every in self.tables:
            rows = _shortened(every, _MOST["html"])
            head = "".join(f"<th {cell}>{html.escape(part)}</th>" for part in header)
            body = "".join("<tr>" + "".join(f"<td {cell}>{html.escape(part)}</td>" for part in row) + "</tr>" for row in rows)
            caption = f'<caption style="text-align:left"><b>{html.escape(title)}</b></caption>' if title else ""
            parts.append(f"<table>{caption}{f'<thead><tr>{head}</tr></thead>' if any(header) else ''}<tbody>{body}</tbody></table>")
        return f"<div>{''.join(parts)}</div>"


def _shortened(rows: list[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    if len(rows) <= most:
        return rows
    rest = len(rows) - most + 1
    return [*rows[: most - 2], (f"... and {rest} more", *("" for _ in rows[0][1:])), rows[-1]]


def describe_model(parts: Parts, planar: bool) -> Description:
    return Description(f"Model: {_counts(parts, planar)}", _tables(parts))


def describe_system(system: "System") -> Description:
    """With its degrees of freedom: coordinates less independent constraints."""
    parts = parts_of(_without_numbers(system) if _has_no_numbers(system) else system)
    q, rows = len(system.coordinate_lengths()), len(system.row_lengths())
    redundant = system.redundant_rows if system.redundant else 0
    freedom = [("coordinates", f"{q}"), ("constraints", f"{rows}" + (f", {redundant} of them redundant" if redundant else ""))]
    if redundant is not None:
        freedom.append(("degrees of freedom", f"{q - rows + redundant}"))
    states = sum(len(kind.bodies) * kind.states for kind in system.layout.forces)
    freedom += [("differential states", f"{states}")] if states else []
    return Description(f"System: {_counts(parts, system.planar)}", [*_tables(parts), Table("motion", ("", ""), freedom)])


def _has_no_numbers(system: "System") -> bool:
    """Under a transformation, or one of a batch."""
    return is_traced(system) or np.ndim(system.body_groups[0].body.mass) != 1


def _without_numbers(system: "System") -> "System":
    """Each number NaN."""
    counts = [len(group.names) for groups in (system.body_groups, system.joint_groups, system.force_groups) for group in groups]
    most = max(counts, default=1)
    return jax.tree.map(lambda leaf: np.full(most, np.nan) if hasattr(leaf, "shape") else leaf, system)


def _counts(parts: Parts, planar: bool) -> str:
    numbers = [
        f"{len(items)} {one if len(items) == 1 else many}"
        for items, one, many in ((parts.bodies, "body", "bodies"), (parts.joints, "joint", "joints"), (parts.forces, "force", "forces"))
    ]
    return f"{'planar' if planar else 'spatial'}, {', '.join(numbers)}"


def _tables(parts: Parts) -> list[Table]:
    bodies = [(b.name, type(b).__name__, *(number(getattr(b, f)) for f in ("mass", "position"))) for b in parts.bodies]
    found = [Table("bodies", ("name", "kind", "mass [kg]", "at [m]"), bodies)]
    joints = [(j.name, type(j).__name__, " - ".join(j.bodies), _held_by(j.penalty)) for j in parts.joints]
    if joints:
        found.append(Table("joints", ("name", "kind", "between", "held by"), joints))
    forces = [(f.name, type(f).__name__, _acts_on(f), _numbers(f)) for f in parts.forces]
    if forces:
        found.append(Table("forces", ("name", "kind", "on", "numbers"), forces))
    return found


def _held_by(penalty: Any) -> str:
    return "multipliers" if penalty is None else f"a penalty of {_unit_number(penalty, 'stiffness')}"


def _acts_on(force: Any) -> str:
    bodies = force.bodies[:1] if force.bodies[1:] == (ground.name,) else force.bodies
    return " - ".join(bodies) if bodies else "all bodies"


def _numbers(element: Any) -> str:
    """Those that are single numbers, and a field's vector; of a contact those of its laws."""
    found = []
    for field, spec in type(element).parameters.items():
        value = getattr(element, field)
        if hasattr(value, "shape") and (value.shape == () or (not element.bodies and value.ndim == 1)):
            found.append(f"{field} {_unit_number(element, field)}" if spec.unit else field)
    laws = [type(value).__name__ for field in ("law", "friction", "function", "value") if _is_law(value := getattr(element, field, None))]
    return ", ".join([*laws, *found])


def _is_law(value: Any) -> bool:
    return callable(value) or (value is not None and not hasattr(value, "shape") and not isinstance(value, float))


def _unit_number(owner: Any, field: str) -> str:
    unit = type(owner).parameters[field].unit
    return f"{number(getattr(owner, field))}{'' if unit == '1' else ' ' + unit}"


def number(value: Any) -> str:
    """A number or a short vector."""
    if is_traced(value):
        return "?"
    array = np.asarray(value, float)
    if array.ndim == 0:
        return "?" if np.isnan(array) else f"{float(array):.4g}"
    return "(" + ", ".join(number(part) for part in array) + ")"


def lines(rows: Iterable[Sequence[str]]) -> Table:
    """A table of names and values, without a title."""
    every = [tuple(row) for row in rows]
    return Table("", ("",) * len(every[0]), every)
