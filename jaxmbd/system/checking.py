"""What elements check themselves with when a model is built: dimensions, and what a user's functions return."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def check_dimension(owner: str, field: str, value: Any, planar: bool) -> None:
    expected = 2 if planar else 3
    if value.shape != (expected,):
        where = "planar" if planar else "spatial"
        raise ValueError(f"{field} of {owner}: a {where} model needs {expected} components, got {value.shape[0]}.")


def warn(message: str) -> None:
    warnings.warn(message, stacklevel=6)  # warn, what found it, check, _complete, build: its caller


def expect(label: str, what: str, shape: tuple[int, ...], wanted: str, *allowed: tuple[int, ...]) -> None:
    if shape not in allowed:
        raise ValueError(f"{label}: {what} must be {wanted}, got an array of shape {shape}.")


def shape_of(label: str, function: Callable[..., Any], *arguments: Any) -> tuple[int, ...]:
    return trace(label, lambda *args: jnp.asarray(function(*args)), *arguments).shape


def trace(label: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Shapes of what a user's function returns."""
    try:
        return jax.eval_shape(function, *arguments)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise ValueError(f"{label}: its function cannot be compiled; write it with jax.numpy instead of numpy, math or if.") from error
