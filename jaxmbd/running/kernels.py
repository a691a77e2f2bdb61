"""How a program is made for a CPU: of scalars, each lane in one kernel, or of arrays."""

from collections.abc import Callable
from typing import Any, Literal

from ..scalar import one_kernel
from ..system.equations import AbstractSystem

Kernels = Literal["scalar", "scalar lanes", "array"]
"""Of scalars, or only the lanes of a batch."""
LARGEST = 12
"""coordinates of a mechanism whose batches become scalars by themselves. Compiling takes longer with every body; measured with two and six."""
_BUDGET = 60_000
"""operations"""


def read_kernels(given: Any, system: AbstractSystem) -> Kernels:
    """The argument `kernels` of `simulate`."""
    if given not in ("auto", "scalar", "array"):
        raise ValueError(f"kernels must be 'auto', 'scalar' or 'array', got {given!r}.")
    if given == "auto":
        return "scalar lanes" if system.q0.shape[-1] <= LARGEST else "array"
    return given


def made_of(kernels: Kernels, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function. Of scalars it has no derivative."""
    return function if kernels == "array" else one_kernel(function, _BUDGET, alone=kernels == "scalar")
