"""Dependencies point downwards: no two rooms need each other, and what moves knows nothing of time stepping."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "jaxmbd"


def room(*parts: str) -> str:
    """A folder, a folder of `system`, or a file that stands outside of any."""
    return ".".join(parts[:2] if parts[0] == "system" else parts[:1])


def imports(path: Path):
    """The modules of the package that a file imports when it runs, as their parts; imports for annotations alone do not count."""
    folder = path.parent.relative_to(PACKAGE).parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    annotations = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    passed_over = {id(node) for block in annotations for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in passed_over:
            module = (*folder[: len(folder) - node.level + 1], *(node.module or "").split("."))
            module = tuple(part for part in module if part)
            yield from (
                [module] if PACKAGE.joinpath(*module).with_suffix(".py").exists() else [(*module, name.name) for name in node.names]
            )


def needed_rooms() -> dict[str, set[str]]:
    needs: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts != ("__init__",):
            here = needs.setdefault(room(*parts), set())
            here |= {room(*module) for module in imports(path)} - {room(*parts)}
    return needs


def test_no_two_rooms_need_each_other():
    assert tuple(TopologicalSorter(needed_rooms()).static_order())


def test_a_system_knows_nothing_of_time_stepping():
    below = {"solvers", "measure", "_compiling", "_numbers", "_precision", "_raising"}
    outside = {other for here, needed in needed_rooms().items() if here.startswith("system") for other in needed if "system" not in other}
    assert outside <= below
