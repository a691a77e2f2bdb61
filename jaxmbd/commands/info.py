"""`jaxmbd info`: what is installed, what it runs on, where compiled programs are kept."""

import argparse
import os
import platform
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

import jax

from .. import __version__, caching

_CORE = ("jax", "jaxlib", "equinox", "numpy", "scipy", "matplotlib")
_EXTRAS = ("data", "sweep", "cluster", "diffrax", "notebook", "docs", "benchmark", "test")


def add_info(commands: Any) -> None:
    info = commands.add_parser(
        "info",
        help="show versions, devices, extras, cache",
        description="Shows versions, devices, extras and what to install for those that are missing, and the folder for compiled programs.",
    )
    info.set_defaults(command=_info, cache=False)


def _info(options: argparse.Namespace) -> int:
    del options
    rows = [("jaxmbd", __version__), ("Python", f"{platform.python_version()} on {platform.platform()}")]
    rows += [(name, version_of(name) or "not installed") for name in _CORE]
    rows += [("devices", ", ".join(_devices())), ("precision", "float64" if jax.config.jax_enable_x64 else "float32")]  # pyright: ignore[reportAttributeAccessIssue]
    rows += [("processors", str(os.cpu_count()))]
    for extra in _EXTRAS:
        wanted = packages(extra)
        missing = [name for name in wanted if version_of(name) is None]
        told = f'missing {", ".join(missing)}: pip install "jaxmbd[{extra}]"' if missing else "installed"
        rows.append((f"extra {extra}", told if wanted else "unknown: jaxmbd runs from its sources, not installed"))
    folder, size, count = cache_folder()
    rows.append(("cache", f"{folder}, {size / 1e6:.1f} MB in {count} programs" if count else f"{folder}, empty"))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:{width}}  {value}")
    return 0


def _devices() -> list[str]:
    try:
        return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()]
    except RuntimeError as error:  # a driver that does not start
        return [f"none ({str(error).splitlines()[0]})"]


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def packages(extra: str) -> list[str]:
    """What an extra asks for, by the names of distributions, without those of other extras; none if nobody knows."""
    try:
        every = requires("jaxmbd") or []
    except PackageNotFoundError:
        return []
    mark = (f'extra == "{extra}"', f"extra == '{extra}'")
    names = [line.partition(";")[0].strip() for line in every if line.partition(";")[2].strip().endswith(mark)]
    plain = [name for name in names if not name.startswith("jaxmbd[")]
    return sorted({_distribution(name) for name in plain})


def _distribution(requirement: str) -> str:
    end = next((i for i, letter in enumerate(requirement) if not (letter.isalnum() or letter in "-_.")), len(requirement))
    return requirement[:end]


def cache_folder() -> tuple[Path, int, int]:
    """(the folder, bytes, programs): the one that JAX was told of, or the user's."""
    chosen = caching.folder_in_use()
    files = [path for path in chosen.rglob("*") if path.is_file()] if chosen.is_dir() else []
    programs = [path for path in files if path.name.endswith("-cache")]
    return chosen, sum(path.stat().st_size for path in files), len(programs)
