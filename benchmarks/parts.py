"""What the papers' benchmarks have in common: parts that are run by name, and figures."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIGURES: dict[str, dict[str, Any]] = {"--out": {"type": Path, "default": Path(), "help": "where figures go"}}


def run_parts(
    description: str | None, parts: dict[str, Callable[[argparse.Namespace], Any]], arguments: dict[str, dict[str, Any]] = FIGURES
) -> argparse.Namespace:
    """Runs the parts that the command line names, all unless it names some. Each is given the other arguments, which are returned too."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(parts)}; all unless given")
    for flag, settings in arguments.items():
        parser.add_argument(flag, **settings)
    options = parser.parse_args()
    for name in options.parts or parts:
        if name not in parts:
            parser.error(f"there is no part {name!r}; there are {', '.join(parts)}")
        parts[name](options)
    return options


def save(figure: Any, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"  {path}")
