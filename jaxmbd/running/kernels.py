"""How a program is made for a CPU: of scalars, each lane in one kernel, or of arrays."""

from collections.abc import Callable
from typing import Any, Literal

from ..integrators.base import AbstractIntegrator
from ..scalar import one_kernel
from ..system.equations import AbstractSystem

Kernels = Literal["scalar", "array"]
LARGEST = 16
"""coordinates of a mechanism that becomes scalars by itself"""
_BUDGET = 60_000
"""operations"""


def read_kernels(given: Any, system: AbstractSystem, integrator: AbstractIntegrator, traced: bool) -> Kernels:
    """The argument `kernels` of `simulate`."""
    if given not in ("auto", "scalar", "array"):
        raise ValueError(f"kernels must be 'auto', 'scalar' or 'array', got {given!r}.")
    if given != "auto":
        return given
    return "scalar" if traced and system.q0.shape[-1] <= LARGEST else "array"


def made_of(kernels: Kernels, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; of scalars it has no derivative."""
    return one_kernel(function, _BUDGET) if kernels == "scalar" else function
