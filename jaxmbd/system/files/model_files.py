"""Files of models: JSON, one element a line."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..bodies.base import AbstractBody
from ..elements import AbstractElement
from ..parameters import unknown
from ..shapes import AbstractShape
from .data import NotData, from_data, to_data
from .parts import Parts

_FORMAT, _VERSION = "jaxmbd model", 1
_BASES = {"bodies": AbstractBody, "joints": AbstractElement, "forces": AbstractElement, "scenery": AbstractShape}


def as_data(parts: Parts) -> dict[str, Any]:
    """The model as data. What is none raises `NotData`, all of it named in one message."""
    found: dict[str, Any] = {"format": _FORMAT, "version": _VERSION}
    refused = []
    for kind, items in parts._asdict().items():
        found[kind] = []
        for item in items:
            label = getattr(item, "label", None) or (f"body {item.name!r}" if hasattr(item, "name") else "a shape of the scenery")
            try:
                found[kind].append(to_data(item, label))
            except NotData as error:
                refused.append(str(error))
    if refused:
        raise NotData(" ".join(refused))
    return found


def write(parts: Parts, path: str | Path) -> Path:
    """One line for each element. Nothing is written if something cannot be."""
    path = Path(path)
    if path.suffix != ".json":
        raise ValueError(f"models are saved as .json, got {str(path)!r}.")
    path.write_text(text(as_data(parts)), encoding="utf-8")
    return path


def text(data: dict[str, Any]) -> str:
    lines = []
    for key, value in data.items():
        if isinstance(value, list) and value:
            lines.append(f'"{key}": [\n  ' + ",\n  ".join(json.dumps(item, ensure_ascii=False, allow_nan=False) for item in value) + "\n]")
        else:
            lines.append(f'"{key}": {json.dumps(value, ensure_ascii=False)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(path: str | Path, classes: Iterable[type] = ()) -> Parts:
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}.") from None
    return from_model_data(data, str(path), classes)


def from_model_data(data: Any, where: str, classes: Iterable[type] = ()) -> Parts:
    """Checked as constructors check: names, numbers and their ranges."""
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise ValueError(f'{where} is no model: it must be an object with "format": "{_FORMAT}".')
    if data.get("version") != _VERSION:
        raise ValueError(f"{where} is of version {data.get('version')!r} of the format; this jaxmbd reads version {_VERSION}.")
    for key in data:
        if key not in ("format", "version", *_BASES):
            raise ValueError(f"{where}: {unknown('field', key, _BASES)}")
    found = {}
    for kind, base in _BASES.items():
        items = data.get(kind, [])
        if not isinstance(items, list):
            raise ValueError(f"{where}: {kind} must be a list, got {items!r}.")
        found[kind] = tuple(from_data(item, base, f"{kind}[{i}]", tuple(classes)) for i, item in enumerate(items))
    return Parts(**found)
