"""Loops as single kernels: in processes of their own, because XLA reads its flags once."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import jaxmbd as mbd
from jaxmbd.fusing import _with_option
from jaxmbd.running.starting import consistent_start

OPTION = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold="
SIMULATE = """
import sys
import jax
import jax.numpy as jnp
import jaxmbd as mbd

if "late" in sys.argv:
    jnp.zeros(3) + 1
if "fused" in sys.argv:
    mbd.fuse_loops()
run = mbd.simulate(mbd.problems.bouncing_ball(), 0.3, integrator=mbd.Verlet(), step=1e-3)
print(*map(float, run.final.q), float(jax.config.read("jax_cpu_enable_async_dispatch")))
"""


def run(*arguments):
    environment = {**os.environ, "XLA_FLAGS": "", "JAX_PLATFORMS": "cpu"}
    return subprocess.run([sys.executable, "-c", SIMULATE, *arguments], capture_output=True, text=True, env=environment, check=False)


def test_the_same_motion():
    plain, fused = run(), run("fused")
    assert plain.returncode == fused.returncode == 0, fused.stderr
    (*plainly, in_background), (*at_once, in_background_fused) = [[float(word) for word in done.stdout.split()] for done in (plain, fused)]
    assert at_once == pytest.approx(plainly, rel=1e-9)
    assert in_background
    assert not in_background_fused


def test_too_late_is_an_error():
    late = run("late", "fused")
    assert late.returncode != 0
    assert "right after importing jaxmbd" in late.stderr


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("", f"{OPTION}7"),
        ("--xla_a=1", f"--xla_a=1 {OPTION}7"),
        (f"{OPTION}3", f"{OPTION}7"),
        (
            "--xla_backend_extra_options=a=b --xla_c=2",
            "--xla_backend_extra_options=a=b,xla_cpu_small_while_loop_byte_threshold=7 --xla_c=2",
        ),
    ],
)
def test_other_flags_stay(flags, expected):
    assert _with_option(flags, 7) == expected


def test_negative_limit():
    with pytest.raises(ValueError, match="negative"):
        mbd.fuse_loops(-1)


@pytest.mark.parametrize("integrator", [mbd.Verlet(), mbd.SemiExplicit(0.5, 0.8)], ids=lambda i: type(i).__name__)
def test_nothing_in_a_step_keeps_xla_from_fusing(integrator):
    """No product of matrices, no scatter, no call into a library: XLA leaves loops with these in pieces."""
    law = mbd.HuntCrossley(mbd.HertzPoint.spheres(0.01, float("inf"), mbd.Material(2e11, 0.3)), damping=0.1)
    ball = mbd.RigidBody("ball", 0.03, (1e-6,) * 3, position=(0, 0, 0.01))
    rod = mbd.RigidBody("rod", 0.1, (1e-4,) * 3, position=(0.1, 0, 1.0))
    held = mbd.Revolute("hinge", mbd.ground, rod, (0, 0, 1.0), (0, 1, 0), penalty=mbd.Penalty(1e6, 1e2, 1e6, 1e2))
    floor = mbd.SpherePlane("floor", ball, mbd.ground, 0.01, (0, 0, 0), (0, 0, 1), law=law, friction=mbd.Coulomb(0.2))
    system = mbd.Model([ball, rod], [held], [mbd.Gravity((0, 0, -9.81)), floor]).build().prepare()
    state, scratch = integrator.init(system, consistent_start(system))
    arrays, rest = eqx.partition((state, scratch), eqx.is_array)

    def step(arrays, h):
        return eqx.filter(integrator.step(system, *eqx.combine(arrays, rest), h), eqx.is_array)

    program = jax.jit(step).lower(arrays, jnp.asarray(1e-5)).as_text()
    assert [word for word in ("stablehlo.dot_general", "stablehlo.scatter", "custom_call") if word in program] == []
