"""How much care the compiler takes: little for programs that run once."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax._src.core import trace_state_clean

_Function = TypeVar("_Function", bound=Callable)
_IN_HASTE = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
"""Programs then compile four times faster; they run at the same speed to five times slower."""


def compiled_in_haste(function: _Function) -> _Function:
    """`eqx.filter_jit` for what a run needs once, before its first step, where compiling takes a thousand times longer than running."""
    carefully = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*arguments, **keywords):
        # Within another program, or a derivative, there are no settings of its own.
        return (_in_haste(function) if trace_state_clean() else carefully)(*arguments, **keywords)

    return call  # pyright: ignore[reportReturnType]


def evaluated_now() -> AbstractContextManager[None]:
    """Where numbers are computed while another program is traced. Elsewhere it does nothing, for within it JAX would compile, one by one, all
    operations on constants of the programs that are traced there."""
    return nullcontext() if trace_state_clean() else jax.ensure_compile_time_eval()


@functools.cache
def _in_haste(function: Callable) -> Callable:
    return eqx.filter_jit(function, compiler_options=_known_options())  # pyright: ignore[reportCallIssue]


@functools.cache
def _known_options() -> dict[str, int | bool]:
    """The settings, as far as this version of XLA knows them; on a GPU, where they would not serve, none."""
    if jax.default_backend() != "cpu":
        return {}
    return {name: value for name, value in _IN_HASTE.items() if _is_known(name, value)}


def _is_known(name: str, value: int | bool) -> bool:
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options={name: value}).lower().compile()
    except Exception:  # XLA says so in different ways
        return False
    return True
