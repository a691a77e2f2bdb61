"""Bodies and elements stacked by kind.

Elements of one kind are one Module whose leaves have a first axis, evaluated by vmap and summed by body: trace and compile
time depend on the number of kinds, not of elements.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..bodies.base import AbstractBody
from ..elements import unwrap
from ..forces.base import AbstractForce
from ..forces.states import AbstractState
from ..frames import Frame


def map_elements(function: Callable[..., Any], stacked: Any, *arguments: Any) -> Any:
    """function(element, *arguments) for every element of a stack; arguments have a first axis too. Functions among the leaves are shared."""
    arrays, rest = eqx.partition(stacked, eqx.is_array)
    return jax.vmap(lambda element, *args: function(eqx.combine(element, rest), *args))(arrays, *arguments)


def pick(stacked: Any, place: Any) -> Any:
    """One of a stack, or several; what is not stacked is shared."""
    return jax.tree.map(lambda leaf: leaf[place] if hasattr(leaf, "shape") else leaf, stacked)


def gather(stacks: dict[int, Any], places: Sequence[tuple[int, int]]) -> Any:
    """From stacks of one structure, what stands at these (stack, place), as one stack."""
    used = sorted({stack for stack, _ in places})
    sizes = [jax.tree.leaves(stacks[stack])[0].shape[0] for stack in used]
    first = dict(zip(used, np.cumsum([0, *sizes[:-1]]), strict=True))
    index = np.array([first[stack] + place for stack, place in places])
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[index], *(stacks[stack] for stack in used))


def _rows(leaf: Array | np.ndarray, places: np.ndarray) -> Array | np.ndarray:
    """leaf[places]. The places are known to be there: otherwise JAX would write five operations to see to it, at every look at a frame."""
    if isinstance(leaf, np.ndarray):
        return leaf[places]
    return leaf.at[places].get(mode="promise_in_bounds", wrap_negative_indices=False)


class BodyGroup(eqx.Module):
    """All bodies of one kind."""

    body: AbstractBody
    names: tuple[str, ...] = eqx.field(static=True)

    def initial(self) -> tuple[Array, Array]:
        return map_elements(lambda body: body.initial(), self.body)

    @property
    def coordinates(self) -> int:
        """Coordinates of one body."""
        return len(self.body.are_lengths())

    def has_constraint(self) -> bool:
        """Whether each of them owns a constraint row."""
        width = self.coordinates
        rows = jax.eval_shape(lambda body: map_elements(lambda b: b.constraint(jnp.zeros(width)), body), self.body)
        return rows.shape[-1] > 0


class ElementGroup(eqx.Module):
    """All elements of one kind."""

    element: Any
    """an AbstractJoint or AbstractForce with stacked leaves"""
    names: tuple[str, ...] = eqx.field(static=True)
    bodies: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    """frames that each element acts on; the last frame of all is the ground"""
    rows: tuple[int, ...] | None = eqx.field(static=True, default=None)
    """which of a joint's rows are used"""
    joints: tuple[tuple[tuple[int, int], ...], ...] = eqx.field(static=True, default=())
    """of forces that depend on reactions: for each element the joints, by the number of their group and their place in it"""

    def frames(self, frames: Frame) -> tuple[Frame, ...]:
        index = np.asarray(self.bodies)
        return tuple(jax.tree.map(lambda leaf, i=i: _rows(leaf, index[:, i]), frames) for i in range(index.shape[1]))

    def moving(self, ground: int) -> tuple[int, ...]:
        """Which of the elements' bodies are not the ground in all of them."""
        return tuple(i for i, column in enumerate(zip(*self.bodies, strict=True)) if set(column) != {ground})

    def local(self, initial: Frame) -> Any:
        return map_elements(lambda element, frames: element.local(frames), self.element, self.frames(initial))

    def wrapped_angles(self, local: Any, frames: Frame) -> Float[Array, "n angles"]:
        return map_elements(lambda e, *args: e.wrapped_angles(*args), self.element, local, self.frames(frames))

    def joint_groups(self) -> set[int]:
        """Numbers of the groups of joints whose reactions are asked for."""
        if not self.element.asks_reactions:
            return set()
        return {number for joints in self.joints for number, _ in joints}

    @property
    def stiff(self) -> bool:
        """Whether they belong to family B."""
        return self.element.stiff if isinstance(self.element, AbstractForce) else self.element.penalty is not None

    def row_lengths(self) -> tuple[bool, ...]:
        """Which rows of one joint are lengths."""
        lengths = self.element.are_lengths()
        return lengths if self.rows is None else tuple(lengths[i] for i in self.rows)

    def velocity_rows(self) -> int:
        """How many velocities one joint keeps at zero besides."""
        return self.element.velocity_rows if self.element.penalty is None else 0

    def initial_states(self) -> Float[Array, "n x"]:
        """Differential states of forces at the start."""
        # An element may have no array of its own (a torque that is a function of time): the bodies say how many there are.
        return map_elements(lambda force, _: force.initial_state(), self.element, np.asarray(self.bodies))

    def sight(self) -> tuple[bool, bool]:
        """Whether the equations of their states see the whole mechanism, and whether these states are variables."""
        sees_all = isinstance(self.element, AbstractState)
        return sees_all, sees_all and self.element.algebraic

    def states(self) -> int:
        """How many differential states one force has."""
        return jax.eval_shape(self.initial_states).shape[-1]


class Geometry(eqx.Module):
    """Points and axes in the bodies' own frames, one entry a group."""

    joints: tuple[Any, ...]
    forces: tuple[Any, ...]


class LazyAngles(Sequence[Array]):
    """Angles (n, width) of every group, each computed when it is looked at: constraints know nothing of springs, nor forces of joints."""

    def __init__(self, groups: Sequence[ElementGroup], locals_: Sequence[Any], frames: Frame, last: Array | None, start: int):
        widths = [len(group.names) * group.element.angle_count for group in groups]
        self._starts = start + np.cumsum([0, *widths])
        self._groups, self._locals, self._frames, self._last = groups, locals_, frames, last

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, number):  # pyright: ignore[reportIncompatibleMethodOverride] (no slices)
        group = self._groups[number]
        n, width = len(group.names), group.element.angle_count
        if width == 0:
            return jnp.zeros((n, 0))
        wrapped = group.wrapped_angles(self._locals[number], self._frames)
        if self._last is None:
            return wrapped
        return unwrap(wrapped, self._last[self._starts[number] : self._starts[number + 1]].reshape(n, width))
