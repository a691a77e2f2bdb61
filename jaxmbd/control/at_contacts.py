"""Steps that end where contacts open and close, so that no step has a kink of the force in it."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..system.equations import AbstractSystem
from ..system.parameters import positive, read
from ..system.state import State
from .base import AbstractController, Decision


class Seen(eqx.Module):
    """What a step says of itself, and on which side of their switches forces were at its ends."""

    info: Any
    """a StepInfo, or what the inner controller makes of it"""
    before: Float[Array, "switches"]
    after: Float[Array, "switches"]


class Bracket(eqx.Module):
    """Where the search for the end of the present step stands."""

    inner: Any
    """what the controller remembers that judges errors"""
    short: Float[Array, ""]
    """s, the longest step that was tried and switched nothing"""
    at_short: Float[Array, "switches"]
    """the switches at its end"""
    long: Float[Array, ""]
    """s, the shortest step that switched something; infinite: none"""
    at_long: Float[Array, "switches"]
    trials: Int[Array, ""]
    resume: Float[Array, ""]
    """s, the step to go on with behind the kink"""


class AtContacts(AbstractController):
    """Lets another controller choose the steps, but ends them just before contacts open or close, and before other kinks of normal laws; a tiny
    step leads across.

    It is for derivatives. A run's derivative is that of its accepted steps, and in a step across a kink the error, small as it may be,
    changes fast with the place of the kink in the step: derivatives of places after an impact are wrong by parts of their size although the
    places are right (`benchmarks/gradients.py impacts`). A step across a kink is rejected and tried again, shorter, until it ends within
    `within` [s] of it: some four attempts more a kink. What remains is the error of smooth steps, and 2 within k / m in the
    derivative of a velocity by a place, for a contact of stiffness k on a mass m.

    - `controller`: None for the integrator's own.
    - `within`: how near to a kink steps end [s]. Where joints have multipliers, index-3 methods lose accelerations to rounding in steps as
      short as 1e-8 s: take 1e-7 there, or a state-space method such as `RosenbrockNystrom`.

    What opens and closes again within one step is not seen: bound steps by `max_step`. Friction laws are smooth as they are. A system of one's
    own says where its forces have kinks by the method `switches(q, v, t)`.
    """

    controller: AbstractController | None
    within: Float[Array, ""]
    """s"""
    max_trials: int = eqx.field(static=True)

    def __init__(self, controller: AbstractController | None = None, within: Any = 1e-10, max_trials: int = 16):
        if not isinstance(controller, AbstractController | None):
            raise ValueError(f"controller of AtContacts must be another controller such as mbd.LocalError(), or None, got {controller!r}.")
        self.controller = controller
        self.within = jnp.asarray(read("AtContacts", "within", positive("s"), within))
        self.max_trials = max_trials

    def suited(self, integrator: Any) -> "AtContacts":
        inner = integrator.default_controller() if self.controller is None else self.controller
        return dataclasses.replace(self, controller=inner.suited(integrator))

    @property
    def _inner(self) -> AbstractController:
        assert self.controller is not None
        return self.controller

    def check(self, system: Any, integrator: Any) -> None:
        self._inner.check(system, integrator)
        if eqx.filter_eval_shape(lambda s: s.prepare().switches(s.q0, s.v0, jnp.zeros(())), system).size == 0:
            raise ValueError(
                "AtContacts ends steps where contacts open and close, and there are none: leave it out, or define switches(q, v, t) in "
                "equations of your own."
            )

    def first_step(self, h: Array) -> Array:
        return self._inner.first_step(h)

    def init(self, system: Any, state: Any) -> Bracket:
        inner, none = self._inner.init(system, state), jnp.zeros(())
        values = _switches(system, state)
        return Bracket(inner, none, values, jnp.full((), jnp.inf), values, jnp.zeros((), jnp.int32), none)

    def look(self, system: AbstractSystem, old: State, new: State, info: Any) -> Seen:
        return Seen(self._inner.look(system, old, new, info), _switches(system, old), _switches(system, new))

    def adapt(self, info: Seen, order: Any, h: Array, memory: Bracket):
        decision, inner = self._inner.adapt(info.info, order, h, memory.inner)
        side = info.before > 0
        switched = jnp.any((info.after > 0) != side)
        # The ends of the bracket, this step being one of them.
        begun = memory.short > 0
        short = jnp.where(switched, memory.short, h)
        at_short = jnp.where(switched, jnp.where(begun, memory.at_short, info.before), info.after)
        long = jnp.where(switched, h, memory.long)
        at_long = jnp.where(switched, info.after, memory.at_long)
        searching = jnp.isfinite(long)
        kink = self._first_kink(side, short, at_short, jnp.where(searching, long, h), at_long)
        across = switched & (h <= 3.0 * self.within)
        before = ~switched & searching & (kink - h <= 1.5 * self.within)
        accept = decision.accept & (~searching | across | before | (memory.trials >= self.max_trials))
        goes_on = decision.accept & ~accept  # with the same step in another size; else a bracket is of no use any more
        resume = jnp.where(searching, jnp.maximum(memory.resume, h), memory.resume)
        following = jnp.where(across, jnp.maximum(decision.next_step, memory.resume), decision.next_step)
        following = jnp.where(accept & before, 2.0 * self.within, following)
        memory = Bracket(
            jax.tree.map(lambda old, new: jnp.where(goes_on, old, new), memory.inner, inner),
            jnp.where(goes_on, short, 0.0),
            at_short,
            jnp.where(goes_on, long, jnp.inf),
            at_long,
            jnp.where(goes_on, memory.trials + 1, 0),
            jnp.where(goes_on | accept & before, resume, 0.0),
        )
        # Aims at a little before the kink; from a start that is nearer than that, across it.
        aim = jnp.where(kink > 1.5 * self.within, kink - self.within, 2.0 * self.within)
        return Decision(accept, jnp.where(goes_on, aim, following)), memory

    def _first_kink(self, side: Array, short: Array, at_short: Array, long: Array, at_long: Array) -> Float[Array, ""]:
        """When the first of the switches that have changed at the long end does, by straight lines between both ends."""
        changed = ((at_long > 0) != side) & ((at_short > 0) == side) & (at_short != 0)
        fall = jnp.where(changed, at_short - at_long, 1.0)
        share = jnp.where(changed, jnp.clip(at_short / fall, 0.0, 1.0), 1.0)
        return short + (long - short) * jnp.min(share, initial=1.0)


def _switches(system: AbstractSystem, state: State) -> Float[Array, "switches"]:
    return jax.lax.stop_gradient(system.recall(state.memory).switches(state.q, state.v, state.t))
