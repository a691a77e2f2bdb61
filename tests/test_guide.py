"""The guide for those who extend jaxmbd: its examples run, in the order in which they stand, and are short."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[1] / "docs" / "extending.md"


def test_the_guide_runs_and_its_examples_are_short():
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 9
    assert max(block.count("\n") for block in blocks) <= 30
    names: dict[str, object] = {"__name__": "guide"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"example {number + 1} of {GUIDE.name}", "exec"), names)
