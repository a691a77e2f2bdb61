"""Events: conditions whose zero ends a run."""

import dataclasses
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..integrators.base import AbstractIntegrator
from ..results import RESULTS
from ..solvers.roots import AbstractEquations, frozen, implicit_root
from ..system.equations import AbstractSystem
from ..system.observing.grammar import Found
from ..system.observing.instant import Instant
from ..system.parameters import read, scalar
from ..system.state import State

if TYPE_CHECKING:
    from .loop import Stretch

_HALVINGS = 54
"""of the step in which a condition changes its sign: what remains is rounding"""


class Event(eqx.Module):
    """Ends a run where a quantity crosses a level: `simulate(..., until=mbd.Event("ball.z", level=0.1, direction=-1))`.

    - `condition`: the name of an observable, or a function of the motion at one time that gives one number:
      `lambda now: now["ball.z"] - 0.1 * now["ball.x"]`. `now` has every observable by name, except those that are integrals over a run, and
      `now.t` [s], `now.q`, `now.v`, `now.x`. It may use traced numbers.
    - `level`: what is to be crossed, in the unit of the condition. It may be traced, and has a derivative.
    - `direction`: +1 for upward crossings only, -1 for downward ones, 0 for both.
    - `name`: what `solution.event_name` and messages call it; the observable's unless given.

    Crossing is a change of sign from one accepted step to the next. A condition that is zero, at the start or later, has no sign until it
    leaves zero: a run that starts on the level goes on. What crosses and comes back within one step is not seen: bound steps by max_step. To
    go on after an event, from a state that rounding may have put on either side of the level, give the direction.
    """

    condition: str | Callable[["Now"], Any]
    level: Float[Array, ""]
    direction: int = eqx.field(static=True)
    name: str = eqx.field(static=True)

    def __init__(self, condition: str | Callable[["Now"], Any], level: Any = 0.0, direction: int = 0, name: str = ""):
        if not (isinstance(condition, str) or callable(condition)):
            raise ValueError(f"an event needs the name of an observable such as 'ball.z', or a function, got {condition!r}.")
        if direction not in (-1, 0, 1):
            raise ValueError(f"direction of an event must be +1 (upward), -1 (downward) or 0 (both), got {direction!r}.")
        called = "" if isinstance(condition, str) else getattr(condition, "__name__", "")
        self.name = name or (condition if isinstance(condition, str) else "a condition" if called in ("", "<lambda>") else called)
        self.condition = _Function.of(condition) if isinstance(condition, types.FunctionType) else condition
        self.level = read(f"event {self.name!r}", "level", scalar("unit of the condition"), level)
        self.direction = int(direction)

    def value(self, now: "Now") -> Float[Array, ""]:
        value = jnp.asarray(now[self.condition] if isinstance(self.condition, str) else self.condition(now), float)
        if value.shape != ():
            raise ValueError(f"the condition of event {self.name!r} must give one number, got an array of shape {value.shape}.")
        return value - self.level


class Now(Instant):
    """The motion at one time, as conditions see it."""

    def __init__(self, system: AbstractSystem, state: State, before: "Turns | None" = None):
        super().__init__(system.recall(state.memory), state)
        self._before = before
        self._found: dict[str, tuple[Array, Array]] = {}

    def __getitem__(self, name: str) -> Float[Array, ""]:
        found = self._find(name)
        value = self._look(found)
        return self._over_full_turns(name, value, found) if found.observable.full_turns else value

    @property
    def turns(self) -> "Turns":
        """What was looked at and is to be remembered."""
        return Turns(self.t, dict(self._found))

    def _over_full_turns(self, name: str, angle: Array, found: Found) -> Float[Array, ""]:
        """As `observe` counts them: since it was last seen, an angle has grown by what its rate says, to half a turn."""
        rate = self._look(found, found.observable.rate)
        if self._before is not None:
            last, last_rate = self._before.seen[name]
            expected = last + 0.5 * (self.t - self._before.t) * (last_rate + rate)
            angle = angle + 2 * jnp.pi * jax.lax.stop_gradient(jnp.round((expected - angle) / (2 * jnp.pi)))
        self._found[name] = angle, rate
        return angle


class Turns(eqx.Module):
    """Angles over full turns where they were last looked at."""

    t: Float[Array, ""]
    seen: dict[str, tuple[Array, Array]]
    """by name: the angle [rad] and its rate"""


class Lookout(eqx.Module):
    """What is known of conditions on the way."""

    sides: Int[Array, "events"]
    """the signs they had last, 0 for one that had none yet"""
    met: Bool[Array, "events"]
    """those that were met in the last step"""
    turns: Turns
    """where the last step began, once one was met"""


class Events(eqx.Module):
    """All conditions of a run."""

    events: tuple[Event, ...]

    @staticmethod
    def read(until: Any) -> "Events | None":
        """The argument `until` of `simulate`: None, an event, the name of an observable or a function; a list or, by name, a dict of them."""
        if until is None:
            return None
        if isinstance(until, dict):
            named = [dataclasses.replace(_read(one), name=str(name)) for name, one in until.items()]  # pyright: ignore[reportArgumentType]
        else:
            named = [_read(one) for one in until] if isinstance(until, list | tuple) else [_read(until)]
        return Events(tuple(named)) if named else None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(event.name for event in self.events)

    def values(self, system: AbstractSystem, state: State, before: Turns | None) -> tuple[Float[Array, "events"], Turns]:
        now = Now(system, state, before)
        return jnp.stack([event.value(now) for event in self.events]), now.turns

    def begin(self, system: AbstractSystem, state: State) -> Lookout:
        values, turns = self.values(system, state, None)
        return Lookout(_sign(values), jnp.zeros(len(self.events), bool), turns)

    def look(self, system: AbstractSystem, new: State, accept: Array, after: "Stretch") -> "Stretch":
        """Where the run stands after an attempt: at its end, if a condition has changed its sign."""
        before = after.lookout
        assert before is not None
        values, turns = frozen(self).values(frozen(system), frozen(new), before.turns)
        sides = _sign(values)
        directions = jnp.array([event.direction for event in self.events])
        met = accept & (sides * before.sides < 0) & ((directions == 0) | (directions == sides))
        over = jnp.any(met)
        lookout = Lookout(
            jnp.where(accept & (sides != 0), sides, before.sides),
            met,
            jax.tree.map(lambda new, old: jnp.where(accept & ~over, new, old), turns, before.turns),
        )
        return dataclasses.replace(after, lookout=lookout, result=RESULTS.where(over, RESULTS.event_occurred, after.result))

    def end(
        self, system: AbstractSystem, integrator: AbstractIntegrator, previous: State, final: State, lookout: Lookout
    ) -> tuple[State, Int[Array, ""]]:
        """The state at the first condition that was met in the last step, and its number; the last state and -1 if none was.

        Differentiates, by the implicit function theorem: dt = -(dg/dp) / (dg/dt) for a condition g, and the state moves along.
        """
        met = jnp.any(lookout.met)
        step = _Step(system, integrator, previous, final, self, lookout.turns)
        found, first = frozen(step).first_crossing(lookout)
        (t,), _ = implicit_root(_Crossing(step, met, first, found), lambda there: (there.found[None], None))
        at_event = integrator.interpolate(previous, final, t)
        last = dataclasses.replace(final, method=None)
        return jax.tree.map(lambda a, b: jnp.where(met, a, b), at_event, last), jnp.where(met, first, -1)


class _Step(eqx.Module):
    """The last step of a run that an event ended."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    previous: State
    final: State
    events: Events
    turns: Turns

    def values(self, t: Float[Array, ""]) -> Float[Array, "events"]:
        """Of the conditions, at a time within the step."""
        return self.events.values(self.system, self.integrator.interpolate(self.previous, self.final, t), self.turns)[0]

    def first_crossing(self, lookout: Lookout) -> tuple[Float[Array, ""], Int[Array, ""]]:
        """When the first of the conditions that were met is, and its number. Each step in two halves again and again, all conditions at once."""
        begin, h = self.previous.t, self.final.t - self.previous.t

        def halve(_, bounds):
            low, high = bounds
            middle = 0.5 * (low + high)
            passed = _sign(jnp.diagonal(jax.vmap(self.values)(begin + h * middle))) == lookout.sides
            return jnp.where(passed, low, middle), jnp.where(passed, middle, high)

        nothing = jnp.zeros(len(self.events.events))
        _, passed = jax.lax.fori_loop(0, _HALVINGS, halve, (nothing, nothing + 1.0))
        passed = jnp.where(lookout.met, passed, 1.0)
        first = jnp.argmin(jnp.where(lookout.met, passed, 2.0)).astype(jnp.int32)
        return begin + h * passed[first], first


class _Crossing(AbstractEquations):
    """What the time of an event solves. Where there is none, the time that was found is all there is to it."""

    step: _Step
    met: Bool[Array, ""]
    first: Int[Array, ""]
    found: Float[Array, ""]

    def residual(self, z: Float[Array, "1"]) -> Float[Array, "1"]:
        return jnp.where(self.met, self.step.values(z[0])[self.first], z[0] - self.found)[None]


def _read(one: Any) -> Event:
    return one if isinstance(one, Event) else Event(one)


def _sign(values: Float[Array, "events"]) -> Int[Array, "events"]:
    """0 for what is no number."""
    return (values > 0).astype(jnp.int32) - (values < 0).astype(jnp.int32)


class _Function(eqx.Module):
    """A function taken apart: what it closes over, and its defaults, are leaves. So they may be traced and differentiated, and a function that
    is written anew at every call of `simulate` is known again and not compiled anew."""

    body: "_Body" = eqx.field(static=True)
    captured: tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]
    """the contents of its cells, defaults, and defaults of keywords"""

    @staticmethod
    def of(function: types.FunctionType) -> "_Function":
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        body = _Body(function.__code__, function.__globals__)
        return _Function(body, (cells, function.__defaults__ or (), dict(function.__kwdefaults__ or {})))

    def __call__(self, now: Now) -> Any:
        cells, defaults, keywords = self.captured
        code = self.body.code
        function = types.FunctionType(code, self.body.names, code.co_name, defaults, tuple(map(types.CellType, cells)))
        function.__kwdefaults__ = keywords
        return function(now)


@dataclasses.dataclass(frozen=True, eq=False)
class _Body:
    """What does not change from one making of a function to the next."""

    code: types.CodeType
    names: dict[str, Any]
    """of its module"""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Body) and self.code == other.code and self.names is other.names

    def __hash__(self) -> int:
        return hash(self.code)
