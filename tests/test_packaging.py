"""What is declared is needed, what is needed is declared, and types are shipped."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def imported(path):
    """The packages that a file imports, at its top or later."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


def names(requirements):
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def test_dependencies_are_imported_and_imports_are_dependencies():
    found = {name for path in (ROOT / "jaxmbd").rglob("*.py") for name in imported(path) if name not in sys.stdlib_module_names}
    extras = [name for extra in ("data", "diffrax", "sweep", "cluster") for name in PROJECT["optional-dependencies"][extra]]
    assert found == names([*PROJECT["dependencies"], *extras])


def test_the_package_says_that_it_is_typed():
    assert (ROOT / "jaxmbd" / "py.typed").exists()
