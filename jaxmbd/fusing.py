"""Loops as single kernels: how a small model runs several times faster on a CPU."""

import os
import re

import jax
import jax.numpy as jnp

_FLAG = "--xla_backend_extra_options"
_OPTION = "xla_cpu_small_while_loop_byte_threshold"
_DISPATCH = "jax_cpu_enable_async_dispatch"
_MARK = "xla_cpu_small_call"
"""What XLA writes at a loop that became one kernel."""
_PROBE, _PROBE_BYTES = 1024, 64 * 1024
"""Numbers in a loop that XLA does not fuse by default, where the limit is 1024 bytes, and a limit with which it certainly does."""


def fuse_loops(limit: int = 10_000_000) -> None:
    """Lets XLA compile a time loop on a CPU into a single kernel if one iteration accesses at most `limit` bytes.

    XLA runs each step on a CPU as some hundred small kernels that it hands out to threads. In a small model handing out takes longer than
    the arithmetic: one kernel for the whole loop is several times faster (`benchmarks/bearing_step.py` prints both). It uses one core; by the
    default limit large batches are left to all of them. It serves `Verlet`, `ExplicitNystrom`, `SemiExplicit`, and
    `HHT` on very small mechanisms; loops that call LAPACK, multiply matrices or scatter stay as they are: implicit methods on more than a
    dozen unknowns, the methods in independent coordinates, and batches in which every lane has its own step size.

    Compiled functions then run in the thread that calls them (`jax_cpu_enable_async_dispatch` is off): to wake up another one takes longer than
    a step, and what is one kernel has no work to share. A call comes back when it is done, and JAX does not run ahead of the CPU any more.

    XLA reads its option once, from the environment variable XLA_FLAGS, and for all loops of the process: call `fuse_loops` before anything is
    computed. Where it comes too late, or JAX does not know the option any more, it raises RuntimeError. GPUs are not concerned.
    """
    if limit < 0:
        raise ValueError(f"limit of fuse_loops must not be negative, got {limit}.")
    before, dispatch = os.environ.get("XLA_FLAGS"), jax.config.read(_DISPATCH)
    os.environ["XLA_FLAGS"] = _with_option(before or "", limit)
    jax.config.update(_DISPATCH, False)
    if limit >= _PROBE_BYTES and not _is_effective():
        jax.config.update(_DISPATCH, dispatch)
        if before is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = before
        raise RuntimeError(
            "fuse_loops had no effect: JAX has computed something already and will not read XLA_FLAGS again. Call it right after "
            f"importing jaxmbd, or set XLA_FLAGS={_FLAG}={_OPTION}={limit} before Python starts. If it came first of all, this version of "
            "JAX has no such option: leave it out."
        )


def _with_option(flags: str, limit: int) -> str:
    """The flags with the option among the extra options of the backend, whatever else is there."""
    flags = re.sub(rf",?{_OPTION}=\d+", "", flags)
    option = f"{_OPTION}={limit}"
    if found := re.search(rf"{_FLAG}=(\S*)", flags):
        others = found.group(1).strip(",")
        return flags.replace(found.group(0), f"{_FLAG}={others},{option}" if others else f"{_FLAG}={option}")
    return f"{flags} {_FLAG}={option}".strip()


def _is_effective() -> bool:
    """Whether XLA makes one kernel of a loop that it would not fuse by itself."""
    with jax.default_device(jax.devices("cpu")[0]):
        loop = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda _, y: jnp.sin(y), x))
        return _MARK in (loop.lower(jnp.zeros(_PROBE), 1).compile().as_text() or "")
