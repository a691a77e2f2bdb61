"""The documentation: its examples run, and the site is built without a warning."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "extending.md"]  # that one has a test of its own


def examples(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.stem)
def test_examples_run(page):
    names: dict[str, object] = {"__name__": "example"}
    for number, example in enumerate(examples(page)):
        exec(compile(example, f"example {number + 1} of {page.name}", "exec"), names)


def test_the_site_is_built_without_warnings(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "<math" in (tmp_path / "theory" / "hht" / "index.html").read_text(encoding="utf-8")
    reference = (tmp_path / "reference" / "index.html").read_text(encoding="utf-8")
    from_elsewhere = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"https?://[^\"]*", reference)
    assert from_elsewhere == []


def test_the_reference_lists_every_public_name():
    public = set(re.findall(r"^from [.\w]+ import \w+ as (\w+)$", (ROOT / "jaxmbd" / "__init__.py").read_text(encoding="utf-8"), re.M))
    rooms = {name for name in public if (ROOT / "jaxmbd" / name).is_dir() or name == "_precision"}
    listed = set(re.findall(r"^::: jaxmbd\.(\w+)$", (ROOT / "docs" / "reference.md").read_text(encoding="utf-8"), re.M))
    written_elsewhere = {"parameters"}
    assert public - rooms - listed - written_elsewhere - {"LocalError"} == set()
