"""A uniform acceleration."""

from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Float

from ..._numbers import Numbers
from ..frames import embed
from ..parameters import Parameter, vector
from ..rotations import dot
from .base import AbstractField


class Gravity(AbstractField):
    """A uniform acceleration of every body."""

    acceleration: Float[Numbers, "*stack d"]
    """m/s^2"""
    name: str = eqx.field(static=True)
    parameters: ClassVar[dict[str, Parameter]] = {"acceleration": vector("m/s^2")}

    def __init__(self, acceleration: Any, name: str = "gravity"):
        self.read_element(name, (), acceleration=acceleration)

    def force(self, mass, frame, t):
        return mass * embed(self.acceleration)

    def potential(self, mass, frame):
        return -dot(mass * embed(self.acceleration), frame.position)  # so that its rate is the power to the last bit
