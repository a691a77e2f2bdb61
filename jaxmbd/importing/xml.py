"""XML, read with care: no entities, and nothing that is not looked at goes unnoticed."""

from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np


class Node:
    """An element of XML that remembers what was asked of it: what never was is told."""

    def __init__(self, tag: str, attributes: dict[str, str], children: "list[Node]", own: frozenset[str] | None = None):
        self.tag, self._attributes, self._children = tag, attributes, children
        self._asked: set[str] = set()
        self._own = frozenset(attributes) if own is None else own

    def __contains__(self, attribute: str) -> bool:
        return attribute in self._attributes

    def text(self, attribute: str, default: str = "") -> str:
        self._asked.add(attribute)
        return self._attributes.get(attribute, default)

    def numbers(self, attribute: str, default: Any = None) -> np.ndarray:
        """Separated by blanks."""
        text = self.text(attribute)
        if not text:
            return np.asarray(default, float)
        try:
            found = np.array([float(part) for part in text.split()])
        except ValueError:
            raise ValueError(f"{self.said} has {attribute}={text!r}, which are no numbers.") from None
        if not np.all(np.isfinite(found)):
            raise ValueError(f"{self.said} has {attribute}={text!r}, which is not finite.")
        return found

    def number(self, attribute: str, default: float = 0.0) -> float:
        found = np.ravel(self.numbers(attribute, default))
        if found.size != 1:
            raise ValueError(f"{self.said} has {attribute}={self.text(attribute)!r}: one number is expected.")
        return float(found[0])

    def flag(self, attribute: str, default: bool) -> bool:
        return self.text(attribute, "true" if default else "false") == "true"

    def all(self, tag: str) -> "list[Node]":
        self._asked.add(f"<{tag}>")
        return [child for child in self._children if child.tag == tag]

    def one(self, tag: str) -> "Node | None":
        found = self.all(tag)
        if len(found) > 1:
            raise ValueError(f"{self.said} has {len(found)} <{tag}>, one is expected.")
        return found[0] if found else None

    def only(self, tag: str) -> "Node":
        """One, an empty one if there is none."""
        return self.one(tag) or Node(tag, {}, [])

    def pass_over(self, *names: str) -> None:
        """Attributes and "<tags>" that mean nothing to a mechanism."""
        self._asked.update(names)

    def ignore_zero(self, *attributes: str) -> None:
        """Those that say nothing if they are zero."""
        self.pass_over(*(name for name in attributes if name in self and not np.any(self._zero(name))))

    def _zero(self, attribute: str) -> Any:
        try:
            return [float(part) for part in self._attributes[attribute].split()]
        except ValueError:
            return [1.0]

    def with_defaults(self, attributes: dict[str, str]) -> "Node":
        """The same, with attributes for those that are not given."""
        return Node(self.tag, attributes | self._attributes, self._children, frozenset(self._attributes))

    @property
    def said(self) -> str:
        name = self._attributes.get("name", "")
        return f"<{self.tag}{f' {name!r}' if name else ''}>"

    @property
    def children(self) -> "list[Node]":
        return self._children

    @property
    def attributes(self) -> dict[str, str]:
        return self._attributes

    def unread(self) -> Counter[str]:
        """What nobody asked for, with how often it is there."""
        found = Counter(f"{self.tag} {name}" for name in self._attributes if name not in self._asked)
        for child in self._children:
            if f"<{child.tag}>" in self._asked:
                found += child.unread()
            else:
                name = child._attributes.get("name", "")
                found[f"{child.tag}{f' {name!r}' if name else ''}"] += 1
        return found


def read(source: str | Path, root: str) -> tuple[Node, Path]:
    """The document and the folder that its files are in. `source` is a path, or the text itself, which begins with "<"."""
    is_text = isinstance(source, str) and source.lstrip().startswith("<")
    text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
    where = "the text" if is_text else str(source)
    if any(word in text.upper() for word in ("<!DOCTYPE", "<!ENTITY")):
        raise ValueError(f"{where} declares a document type or entities, which are not read: remove the declaration.")
    try:
        tree = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(f"{where} is no XML: {error}.") from None
    if tree.tag != root:
        raise ValueError(f"{where} begins with <{tree.tag}>, expected <{root}>.")
    return _node(tree), Path.cwd() if is_text else Path(source).resolve().parent


def _node(element: Any) -> Node:
    return Node(element.tag, dict(element.attrib), [_node(child) for child in element if isinstance(child.tag, str)])
