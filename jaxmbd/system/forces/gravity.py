"""A uniform acceleration."""

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from ..observable import STORE, WORKER, Observable
from ..parameters import Parameter, read, read_name, vector


class Gravity(eqx.Module):
    """A uniform acceleration on every body."""

    acceleration: Float[Array, "d"]
    """m/s^2"""
    name: str = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {"acceleration": vector("m/s^2")}
    observables: ClassVar[dict[str, Observable]] = WORKER | STORE

    def __init__(self, acceleration: Any, name: str = "gravity"):
        self.name = read_name("force", name)
        self.acceleration = read(f"force {name!r}", "acceleration", self.parameters["acceleration"], acceleration)

    def renamed(self, name: str) -> "Gravity":
        copy = object.__new__(Gravity)
        for field, value in (vars(self) | {"name": name}).items():
            object.__setattr__(copy, field, value)
        return copy
