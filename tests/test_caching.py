"""What was compiled is kept: found by a second process, replaced when damaged, bounded, and silent."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

import jaxmbd as mbd
from jaxmbd import caching, cli

FALL = """
import sys
import jax
from jax import monitoring
import jaxmbd as mbd

counts = {"hits": 0, "misses": 0}

def count(event, **_):
    for name in counts:
        counts[name] += event == f"/jax/compilation_cache/cache_{name}"

monitoring.register_event_listener(count)
mbd.cache_compilations(sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # how long something takes decides nothing here
ball = mbd.PointMass("ball", mass=1.0, position=(0.0, 0.0))
run = mbd.simulate(mbd.Model([ball], forces=[mbd.Gravity((0.0, -9.81))]), 1.0, integrator=mbd.Verlet(), step=0.1)
height = float(run.final.q[1])
print(counts["hits"], counts["misses"], height)
"""


def fall(folder):
    """(programs from the folder, programs compiled, height after 1 s [m]) of a process of its own that says nothing on stderr."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", FALL, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    hits, misses, height = done.stdout.split()
    return int(hits), int(misses), float(height)


def test_a_second_process_finds_what_the_first_compiled_and_replaces_what_is_damaged(tmp_path):
    hits, misses, height = fall(tmp_path)
    assert height == pytest.approx(-0.5 * 9.81, rel=1e-12)
    kept = {path: path.stat().st_size for path in tmp_path.glob("jaxmbd-*/*-cache")}
    assert len(kept) == misses > 0
    assert fall(tmp_path) == (hits + misses, 0, height)
    for path, size in kept.items():
        path.write_bytes(path.read_bytes()[: size // 2])
    assert fall(tmp_path) == (hits, misses, height)
    assert all(path.stat().st_size > size // 2 for path, size in kept.items())


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    before = jax.config.jax_compilation_cache_dir
    with pytest.warns(
        UserWarning, match="compiled programs are not kept, the folder for them cannot be written: .*Give cache_compilations an"
    ):
        assert mbd.cache_compilations(tmp_path / "file" / "cache") is None
    assert jax.config.jax_compilation_cache_dir == before


def test_a_folder_that_jax_knows_already_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(caching, "_directory", lambda: str(tmp_path))
    assert mbd.cache_compilations() == tmp_path
    assert not list(tmp_path.iterdir())


def test_the_folder_is_the_user_s(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert caching._user_folder() == tmp_path / "jaxmbd" / "compilations"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert caching._user_folder() == Path.home() / ".cache" / "jaxmbd" / "compilations"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert caching._user_folder() == Path.home() / "Library" / "Caches" / "jaxmbd" / "compilations"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert caching._user_folder() == tmp_path / "jaxmbd" / "compilations"


def test_what_was_used_longest_ago_goes_first_and_other_files_stay(tmp_path):
    names = ["jaxmbd-0.0.9-jax-0.9/old-cache", "jaxmbd-0.1.0-jax-0.10/middle-cache", "jaxmbd-0.1.0-jax-0.10/young-cache", "mine/mine-cache"]
    for age, name in zip((30, 20, 10, 40), names, strict=True):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    caching._forget_least_used(tmp_path, 300)
    assert all((tmp_path / name).exists() for name in names)
    caching._forget_least_used(tmp_path, 150)
    assert [(tmp_path / name).exists() for name in names] == [False, False, True, True]
    with pytest.raises(ValueError, match="limit of cache_compilations must not be negative"):
        mbd.cache_compilations(tmp_path, limit=-1)


def test_two_harmless_lines_and_no_others_are_kept_off_stderr(capfd):
    line = "E1118 03:49:15.232613 5994 cpu_aot_loader.cc:195] Loading XLA:CPU AOT result. Target machine feature +{} is not  supported on ...\n"
    with caching._without_harmless_lines():
        for feature in ("prefer-no-gather", "avx512f", "prefer-no-scatter"):
            os.write(2, line.format(feature).encode())
        os.write(2, b"prefer-no-gather\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == line.format("avx512f") + "prefer-no-gather\nafter\n"


@pytest.mark.parametrize(("arguments", "kept"), [([], True), (["--no-cache"], False)])
def test_the_command_line_keeps_what_it_compiles_unless_told_not_to(arguments, kept, monkeypatch):
    called = []
    monkeypatch.setattr(cli, "cache_compilations", lambda: called.append(True))
    assert cli.main(["run", "no-such-problem", *arguments], own_process=True) == 2
    assert bool(called) == kept
    assert cli.main(["run", "no-such-problem"]) == 2
    assert cli.main(["list"], own_process=True) == 0
    assert bool(called) == kept
