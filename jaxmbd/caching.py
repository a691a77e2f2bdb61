"""What was compiled is kept, on disk: the next process loads it instead of compiling again."""

import atexit
import os
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from jax._src import compilation_cache as _jax_cache

_DIRECTORY, _LEAST_TIME = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
_LEAST_SECONDS = 0.05
"""Programs that compile faster are not worth a file: operations outside of jit, a new one for every length of an array."""
_SUFFIX = "-cache"
"""of the files that JAX writes"""
_HARMLESS = re.compile(rb"cpu_aot_loader\.cc.*Target machine feature \+prefer-no-(gather|scatter) is not +supported")
_redirecting = threading.Lock()


def cache_compilations(folder: str | os.PathLike[str] | None = None, *, limit: int = 1_000_000_000) -> Path | None:
    """Keeps compiled programs in a folder, so that the next process loads them: a second start of a small mechanism takes a third of the
    time of the first. Call it once, right after the import. The command line does so by itself.

    - `folder`: by default `jaxmbd/compilations` in the user's folder for caches (`XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches` on macOS,
      `LOCALAPPDATA` on Windows). Whoever can write there can make you run what they like: do not share it with strangers. If JAX was told of a
      folder already, as by the environment variable `JAX_COMPILATION_CACHE_DIR`, that one stays in use and is left to you.
    - `limit`: bytes. What was used longest ago is deleted at the start and at the end of a process, until the rest is smaller.

    Every version of jaxmbd, jax and jaxlib has its own part of the folder. Programs that call back into Python are never kept. Returns the
    folder in use, or, after a warning, None where it cannot be written.
    """
    if limit < 0:
        raise ValueError(f"limit of cache_compilations must not be negative, got {limit}.")
    _watch_loading()
    chosen = _directory()
    if folder is None and chosen:
        return Path(chosen)
    try:
        root = _user_folder() if folder is None else Path(folder).expanduser().resolve()
        own = root / _version()
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=own):
            pass
    except (OSError, RuntimeError) as error:
        warnings.warn(
            f"compiled programs are not kept, the folder for them cannot be written: {error}. Give cache_compilations another folder.",
            stacklevel=2,
        )
        return None
    _forget_least_used(root, limit)
    atexit.register(_forget_least_used, root, limit)
    if chosen != str(own):
        _jax_cache.reset_cache()  # JAX opens a folder once
        jax.config.update(_DIRECTORY, str(own))
    jax.config.update(_LEAST_TIME, _LEAST_SECONDS)
    return own


def folder_in_use() -> Path:
    """Where compiled programs are kept, or would be: of all versions of jaxmbd."""
    chosen = _directory()
    return Path(chosen) if chosen else _user_folder()


def _directory() -> str | None:
    """What JAX uses now."""
    return jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]


def _version() -> str:
    from . import __version__

    return f"jaxmbd-{__version__}-jax-{version('jax')}-jaxlib-{version('jaxlib')}"


def _user_folder() -> Path:
    """Where the platform wants caches of this user to be."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        given = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"  # the standard: relative ones are ignored
    return base / "jaxmbd" / "compilations"


def _forget_least_used(root: Path, limit: int) -> None:
    """Deletes programs of whatever version. Files that are not ours stay."""
    found = []
    for path in root.glob(f"jaxmbd-*/*{_SUFFIX}"):
        with suppress(OSError):  # another process was faster
            status = path.stat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= limit:
            break
        with suppress(OSError):
            path.unlink()
        total -= size


# --- loading --------------------------------------------------------------------------------------------------------------------------------


def _watch_loading() -> None:
    """Goes between JAX and its folder. There is no public place to do so: where this one is gone, programs are kept all the same."""
    load = getattr(_jax_cache, "get_executable_and_time", None)
    if load is not None and not hasattr(load, "__wrapped__"):
        _jax_cache.get_executable_and_time = _careful(load)  # pyright: ignore[reportAttributeAccessIssue]


def _careful(load: Callable[..., tuple[Any, Any]]) -> Callable[..., tuple[Any, Any]]:
    """A damaged file is deleted, for JAX would neither use nor replace it; one that is in use stays young."""

    @wraps(load)
    def careful(key: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        path = Path(_directory() or "") / f"{key}{_SUFFIX}"
        try:
            with _without_harmless_lines():
                found = load(key, *arguments, **options)
        except Exception:  # whatever XLA and the decompressor make of it
            with suppress(OSError):
                path.unlink()
            return None, None
        if found[0] is not None:
            with suppress(OSError):
                os.utime(path)
        return found

    return careful


@contextmanager
def _without_harmless_lines() -> Iterator[None]:
    """Keeps two lines off stderr that XLA writes for every program it loads on a CPU with AVX-512, and nothing else.

    XLA asks LLVM for code without gather and scatter instructions there, and then misses these two wishes among the features of the CPU:
    "... This could lead to execution errors such as SIGILL" (openxla/xla issue 44565). The program loads and runs. XLA has no switch
    for them but TF_CPP_MIN_LOG_LEVEL=3, which silences every error. All else that is written meanwhile is passed on.
    """
    with _redirecting:
        try:
            stderr = os.dup(2)
        except OSError:  # there is none
            yield
            return
        with tempfile.TemporaryFile() as caught:
            os.dup2(caught.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(stderr, 2)
                os.close(stderr)
                caught.seek(0)
                for line in caught:
                    if not _HARMLESS.search(line):
                        os.write(2, line)
