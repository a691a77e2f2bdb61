"""The motion at one time, as functions of a user see it: every observable by name."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from .grammar import Found, find
from .views import Scene

if TYPE_CHECKING:
    from ..equations import AbstractSystem
    from ..state import State


class Instant:
    """`now["hinge.angle"]` and the like, but for integrals over a run; and the numbers behind them. Joint angles count from -pi to pi."""

    def __init__(self, system: "AbstractSystem", state: "State"):
        self._scene = Scene(system, state)

    def __getitem__(self, name: str) -> Float[Array, ""]:
        return self._look(self._find(name))

    def _find(self, name: str) -> Found:
        (found,) = find(self._scene.system, name)
        if found.reducer or found.observable.value is None or found.observable.flow is not None:
            raise ValueError(f"{name!r} belongs to a whole run: a condition knows the motion at one time only.")
        return found

    def _look(self, found: Found, quantity: str = "") -> Float[Array, ""]:
        view = self._scene.view(found.prefix, found.owner.view)
        function = found.owner.table[quantity or found.quantity].value
        assert function is not None
        return jnp.asarray(function(view), float)

    @property
    def t(self) -> Any:
        """s"""
        return self._scene.state.t

    @property
    def q(self) -> Float[Array, "q"]:
        return self._scene.state.q

    @property
    def v(self) -> Float[Array, "q"]:
        return self._scene.state.v

    @property
    def x(self) -> Float[Array, "x"]:
        """differential states, variables and force states"""
        return self._scene.state.x

    @property
    def a(self) -> Float[Array, "q"]:
        """accelerations"""
        return self._scene.state.acceleration

    @property
    def multipliers(self) -> Float[Array, "rows"]:
        return self._scene.state.multipliers
