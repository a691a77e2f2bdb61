"""A run as a film: the page of `animate` in a browser without a window, picture by picture."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .browser import Browser, require_browser
from .page import Animation, animate

if TYPE_CHECKING:
    from ..solution import Solution

_CODINGS = {
    ".mp4": ("-c:v", "libx264", "-preset", "slow", "-crf", "20", "-pix_fmt", "yuv420p", "-movflags", "+faststart"),
    ".webm": ("-c:v", "libvpx-vp9", "-crf", "32", "-b:v", "0"),
    # One palette for all pictures, and no dither, which would flicker.
    ".gif": ("-vf", "split[a][b];[a]palettegen=max_colors=96[p];[b][p]paletteuse=dither=none:diff_mode=rectangle", "-loop", "0"),
    ".webp": ("-c:v", "libwebp_anim", "-quality", "72", "-compression_level", "6", "-loop", "0"),
}


def save_video(solution: "Solution", path: str | Path, *, size: tuple[int, int], rate: float, **look: Any) -> Path:
    """See `Solution.save_video`."""
    path = Path(path)
    if path.suffix not in _CODINGS:
        raise ValueError(f"save_video writes {', '.join(_CODINGS)}: give a path that ends so, got {str(path)!r}.")
    width, height = size
    if not (width > 0 and height > 0 and width % 2 == height % 2 == 0):
        raise ValueError(f"size of a video must be two even numbers of pixels, got {size!r}.")
    if not 0 < rate <= 100:
        raise ValueError(f"rate of a video must lie above 0 and at most at 100 pictures a second, got {rate!r}.")
    require_browser()
    if shutil.which("ffmpeg") is None:
        raise RuntimeError("save_video needs ffmpeg, which writes the file: install it (apt-get install ffmpeg, brew install ffmpeg).")
    _write(path, pictures(animate(solution, **look, autoplay=False), width, height, rate), rate)
    return path


def pictures(animation: Animation, width: int, height: int, rate: float) -> Iterator[bytes]:
    """PNGs, so many a second of playback, from the first moment to the last."""
    with tempfile.TemporaryDirectory() as folder, Browser(width, height) as browser:
        browser.open(animation.save(Path(folder) / "run.html"))
        browser.evaluate("jaxmbdReady")
        browser.evaluate("jaxmbd.film()")
        duration = browser.evaluate("jaxmbd.duration")
        count = max(round(duration * rate), 1)
        for i in range(count + 1):
            browser.evaluate(f"jaxmbd.seek(jaxmbd.about.start + {i / count} * (jaxmbd.about.end - jaxmbd.about.start))")
            yield browser.picture()


def _write(path: Path, pngs: Iterator[bytes], rate: float) -> None:
    begin = ("ffmpeg", "-hide_banner", "-loglevel", "error", "-y", "-f", "image2pipe", "-framerate", f"{rate:g}", "-c:v", "png", "-i", "-")
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen([*begin, *_CODINGS[path.suffix], os.fspath(path)], stdin=subprocess.PIPE, stderr=told)
        assert process.stdin is not None
        try:
            for png in pngs:
                process.stdin.write(png)
            process.stdin.close()
        except BrokenPipeError:
            pass  # what ffmpeg says tells more
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
        if process.returncode != 0:
            told.seek(0)
            lines = told.read().decode(errors="replace").strip().splitlines() or ["it said nothing"]
            raise RuntimeError(f"ffmpeg could not write {path}: {lines[-1]}")
