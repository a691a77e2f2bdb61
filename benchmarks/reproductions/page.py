"""The page of reproductions: rows with our number beside the paper's and a verdict, figures, and how the parts of a page are kept apart."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproductions.md"
FIGURES = ROOT / "docs" / "reproductions"
INTRODUCTION = """\
# Reproductions

What the five papers print, beside what jaxmbd gives. This page is written by

```sh
python benchmarks/reproduce.py [semi-explicit|rosenbrock|contact-power|bdf|hht] [--quick]
```

which runs the reproductions and replaces the parts of the papers that it was asked for. A verdict is *met*, *within x %* (of the number in
print), *not met* with the reason, or *not yet*. Steps and evaluations are counts; times are CPU time of one run on a busy machine, good for
ratios.
"""
_CLOSE, _NEAR = 0.02, 0.5


@dataclasses.dataclass
class Row:
    """A number or a claim of a paper."""

    what: str
    paper: str
    ours: str
    verdict: str


@dataclasses.dataclass
class Section:
    title: str
    rows: Sequence[Row] = ()
    text: str = ""
    figures: Sequence[tuple[str, str]] = ()
    """(file name, description)"""
    table: tuple[Sequence[str], Sequence[Sequence[Any]]] | None = None
    """further columns: head and rows"""


def number(what: str, ours: float, paper: float, form: str = "{:.3g}", why: str = "", text: str = "") -> Row:
    """Compared in relative terms. `why` is said if they are far apart."""
    apart = abs(ours / paper - 1)
    if apart <= _CLOSE:
        verdict = "met"
    elif apart <= _NEAR or not why:
        verdict = f"within {100 * apart:.0f} %"
    else:
        verdict = f"not met: {why}"
    return Row(what, form.format(paper), form.format(ours) + text, verdict)


def claim(what: str, paper: str, ours: str, holds: bool, why: str = "") -> Row:
    return Row(what, paper, ours, "met" if holds else f"not met: {why}")


def save(figure: Any, name: str) -> str:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / name, dpi=80)
    plt.close(figure)
    return name


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _section(section: Section) -> str:
    parts = [f"### {section.title}", section.text]
    if section.rows:
        parts.append(_table(("", "paper", "jaxmbd", "verdict"), [(r.what, r.paper, r.ours, r.verdict) for r in section.rows]))
    if section.table is not None:
        parts.append(_table(*section.table))
    parts += [f"![{text}](reproductions/{name})\n\n*{text}*" for name, text in section.figures]
    return "\n\n".join(part for part in parts if part)


def write(name: str, title: str, command: str, sections: Sequence[Section], order: Sequence[str]) -> None:
    """Replaces the part of one paper; parts stand in the given order."""
    body = "\n\n".join([f"## {title}", f"`{command}`", *map(_section, sections)])
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = dict(re.findall(r"<!-- begin (\S+) -->\n\n(.*?)\n\n<!-- end \1 -->", page, re.S)) | {name: body}
    blocks = [f"<!-- begin {part} -->\n\n{parts[part]}\n\n<!-- end {part} -->" for part in order if part in parts]
    page = "\n\n".join([INTRODUCTION.rstrip(), *blocks]) + "\n"
    PAGE.write_text(page, encoding="utf-8")
    for section in sections:
        print(f"\n{section.title}")
        for row in section.rows:
            print(f"  {row.what:60s} | {row.paper:>24s} | {row.ours:>28s} | {row.verdict}")
        for line in section.table[1] if section.table else ():
            print("  " + " | ".join(map(str, line)))
