"""What a model says of experiments: channels at their times, with derivatives by all that is to be found, many experiments at a time."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .. import results
from ..measure import slopes
from ..running.derivatives import Forward
from ..simulate import simulate
from ..sweep.designs import spread
from ..system import naming
from ..system.forces.signal import Signal
from ..system.observing.grammar import find
from ..system.parameters import unknown
from ..system.posing import pose
from ..system.system import System
from .experiments import Experiment, Sensor
from .unknowns import Free, Unknowns, read_free

_SENSOR = ("gain", "bias", "delay")


class Channels(NamedTuple):
    """What is measured: by column its observable or function, and what its sensor does."""

    observe: dict[str, Any]
    fixed: dict[str, dict[str, float]]
    free: dict[str, Unknowns]

    @property
    def unknowns(self) -> tuple[Any, ...]:
        return tuple(one for each in self.free.values() for one in each.each)

    def delayed(self, column: str) -> bool:
        return self.fixed[column].get("delay") != 0.0


def read_channels(system: System, experiments: list[Experiment], sensors: Mapping[str, Sensor]) -> Channels:
    """Of all experiments together; a column means the same in each."""
    observe: dict[str, Any] = {}
    for one in experiments:
        for column, wanted in one.observe.items():
            if isinstance(wanted, str):
                (found,) = find(system, wanted)
                if found.reducer:
                    raise ValueError(f"channel {column!r} of {one.name!r}: {wanted!r} is one number for a run, a channel has one a row.")
            elif not callable(wanted):
                raise ValueError(f"channel {column!r} of {one.name!r} must be an observable or a function of the solution, got {wanted!r}.")
            if observe.setdefault(column, wanted) != wanted:
                raise ValueError(f"channel {column!r} means {observe[column]!r} in one experiment and {wanted!r} in {one.name!r}.")
    fixed: dict[str, dict[str, float]] = {column: {"gain": 1.0, "bias": 0.0, "delay": 0.0} for column in observe}
    free = {}
    for column, sensor in sensors.items():
        if column not in observe:
            raise ValueError(f"sensors: {unknown('channel', column, observe)}")
        if not isinstance(sensor, Sensor):
            raise ValueError(f"sensors[{column!r}] must be an mbd.Sensor, got {type(sensor).__name__}.")
        begins = {"gain": 1.0, "bias": 0.0, "delay": 0.0}
        given = {
            part: wish._replace(start=begins[part]) if isinstance(wish, Free) and wish.start is None else wish
            for part, wish in sensor._asdict().items()
        }
        unit = system.observable_unit(observe[column]) if isinstance(observe[column], str) else ""
        known, free[column] = read_free(f"{column}:", given, {"gain": "1", "bias": unit, "delay": "s"})
        fixed[column] = known
    return Channels(observe, fixed, free)


class Batch(eqx.Module):
    """Experiments of one structure, filled up to the same length; the first axis of everything counts them."""

    ts: Float[Array, "experiments rows"]
    """s; rows beyond the last repeat it"""
    measured: Float[Array, "experiments channels rows"]
    present: Float[Array, "experiments channels rows"]
    """1 where there is a sample"""
    t0: Float[Array, "experiments"]
    initial: dict[str, Float[Array, "experiments"]]
    values: dict[str, Float[Array, "experiments ..."]]
    inputs: dict[str, Signal]


class Group(NamedTuple):
    """A batch, and who is in it."""

    members: tuple[int, ...]
    """their numbers among all experiments"""
    batch: Batch
    free: tuple[Unknowns, ...]
    """of each, the initial values that are to be found; the same names in the same order"""

    def start(self) -> np.ndarray:
        return np.stack([one.start for one in self.free])


def group_experiments(system: System, experiments: list[Experiment], channels: Channels) -> list[Group]:
    """By what they give: initial values, parameters, inputs."""
    sorted_out: dict[Any, list[tuple[int, Experiment, dict[str, float], Unknowns]]] = {}
    for number, one in enumerate(experiments):
        units = {}
        if one.initial:
            find(system, *one.initial)
            units = {name: system.observable_unit(name) for name in one.initial}
        fixed, free = read_free(f"{one.name}: ", one.initial, units)
        key = (tuple(fixed), tuple(name for name, _, _ in free.builders), tuple(one.values), tuple(one.inputs))
        sorted_out.setdefault(key, []).append((number, one, fixed, free))
    rows = max(one.ts.size for one in experiments)
    groups = []
    for own in sorted_out.values():
        several = [one for _, one, _, _ in own]
        batch = Batch(
            np.stack([_filled(one.ts, rows) for one in several]),  # pyright: ignore[reportArgumentType]
            np.stack([_table(one, channels, rows) for one in several]),  # pyright: ignore[reportArgumentType]
            np.stack([_present(one, channels, rows) for one in several]),  # pyright: ignore[reportArgumentType]
            np.array([one.t0 for one in several]),  # pyright: ignore[reportArgumentType]
            {name: np.array([fixed[name] for _, _, fixed, _ in own]) for name in own[0][2]},  # pyright: ignore[reportArgumentType]
            {name: _stacked(system, name, several) for name in several[0].values},
            {name: _signals(system, name, several) for name in several[0].inputs},
        )
        groups.append(Group(tuple(number for number, *_ in own), batch, tuple(free for *_, free in own)))
    return groups


def _filled(values: np.ndarray, rows: int) -> np.ndarray:
    return np.concatenate([values, np.repeat(values[-1:], rows - values.shape[0], axis=0)])


def _table(one: Experiment, channels: Channels, rows: int) -> np.ndarray:
    return np.stack([_filled(one.columns.get(column, np.zeros(one.ts.size)), rows) for column in channels.observe])


def _present(one: Experiment, channels: Channels, rows: int) -> np.ndarray:
    there = np.arange(rows) < one.ts.size
    return np.stack([there & (column in one.columns) for column in channels.observe]).astype(float)


def _stacked(system: System, name: str, several: list[Experiment]) -> Any:
    shape = np.shape(system.get(name))
    for one in several:
        if np.shape(one.values[name]) != shape:
            raise ValueError(f"{name!r} of {one.name!r} must have shape {shape}, got {np.shape(one.values[name])}.")
    return np.stack([np.asarray(one.values[name], float) for one in several])


def _signals(system: System, element: str, several: list[Experiment]) -> Signal:
    """Inputs of one length: constant beyond their ends in any case."""
    _place(system, element)
    signals = [one.inputs[element] for one in several]
    count = max(signal.ts.shape[0] for signal in signals)
    own = np.asarray(naming.get(system, f"{element}.values"))
    ts, values = [], []
    for one, signal in zip(several, signals, strict=True):
        if signal.values.shape[1:] != own.shape[1:]:
            raise ValueError(f"{one.name!r}: samples of the input of {element!r} must have shape {own.shape[1:]}, as in the model.")
        more = count - signal.ts.shape[0]
        ts.append(np.concatenate([signal.ts, signal.ts[-1] + np.arange(1, more + 1)]))
        values.append(_filled(np.asarray(signal.values), count))
    signal = object.__new__(Signal)
    object.__setattr__(signal, "ts", np.stack(ts))
    object.__setattr__(signal, "values", np.stack(values))
    return signal


def _place(system: System, element: str) -> Any:
    names = system.parameter_names()
    if f"{element}.values" not in names or f"{element}.ts" not in names:
        driven = [name.removesuffix(".values") for name in names if name.endswith(".values")]
        raise ValueError(f"inputs: {unknown('element with a Signal', element, driven)}")
    return naming.find(system, f"{element}.values")


def with_input(system: System, element: str, signal: Signal) -> System:
    """Other samples, of whatever number."""
    for field in ("ts", "values"):
        place = naming.find(system, f"{element}.{field}")
        new = getattr(signal, field) if place.index is None else getattr(signal, field)[None]
        own = np.shape(naming.get(system, f"{element}.{field}"))
        if place.index is not None and np.shape(naming._follow(system, place.path))[0] > 1:
            if np.shape(new)[1:] != own:
                raise ValueError(f"input of {element!r}: other elements of its kind have signals, too; they must have as many samples.")
            new = jnp.asarray(naming._follow(system, place.path)).at[place.index].set(new[0])
        system = naming._put(system, place.path, new)
    return system


class Prediction(NamedTuple):
    """Of the experiments of a batch."""

    values: Float[np.ndarray, "experiments channels rows"]
    slopes: Float[np.ndarray, "experiments channels rows unknowns"]
    """by what all experiments share, then by their own initial values"""
    result: np.ndarray
    """how the runs ended; -1: a channel was not finite"""


class Predictor:
    """The compiled program of a calibration."""

    def __init__(self, system: System, shared: Unknowns, channels: Channels, options: dict[str, Any]):
        self.system, self.shared, self.channels, self.options = system, shared, channels, options
        self.count = len(shared.each) + len(channels.unknowns)
        self._programs: dict[Any, Callable[..., Any]] = {}

    def __call__(self, group: Group, u: np.ndarray, own: np.ndarray) -> Prediction:
        free = group.free[0]
        span = self._span(group)
        key = tuple(name for name, _, _ in free.builders), span
        if key not in self._programs:
            self._programs[key] = eqx.filter_jit(
                lambda u, own, batch: jax.vmap(lambda own, one: self._one(free, u, own, one, span))(own, batch)
            )
        values, by_unknowns, result = self._programs[key](u, own, group.batch)
        return Prediction(np.asarray(values), np.asarray(by_unknowns), np.asarray(result))

    def _span(self, group: Group) -> tuple[float, float] | None:
        """Start and end [s] of steps of one size, whose number must be known beforehand."""
        if self.options.get("step") is None:
            return None
        starts = np.unique(group.batch.t0)
        if starts.size > 1:
            raise ValueError(
                f"with a fixed step all experiments must start at the same time, these start at {starts[0]:g} s and {starts[1]:g} s: shift them."
            )
        return float(starts[0]), float(np.max(group.batch.ts))

    def _one(self, free: Unknowns, u: Array, own: Array, one: Batch, span: tuple[float, float] | None) -> tuple[Array, Array, Array]:
        def channels(both: Array) -> tuple[Array, tuple[Array, Array]]:
            values, result = self.channels_of(free, both[: self.count], both[self.count :], one, span)
            return values, (values, result)

        by_unknowns, (values, result) = jax.jacfwd(channels, has_aux=True)(jnp.concatenate([u, own]))
        return values, by_unknowns, result

    def system_of(self, u: Array) -> System:
        """With the parameters that all experiments share."""
        named = {name: value for name, value in self.shared.values(u).items() if "." in name}
        return self.system.set(spread(self.system, named))

    def sensors_of(self, u: Array) -> dict[str, dict[str, Any]]:
        found, place = {}, len(self.shared.each)
        for column, fixed in self.channels.fixed.items():
            found[column] = dict(fixed)
            if column in self.channels.free:
                unknowns = self.channels.free[column]
                found[column] |= unknowns.values(u[place : place + len(unknowns.each)])
                place += len(unknowns.each)
        return found

    def run(self, free: Unknowns, u: Array, own: Array, one: Batch, ts: Any, span: tuple[float, float] | None) -> Any:
        """The solution for one experiment."""
        system = self.system_of(u)
        if one.values:
            system = system.set(one.values)
        for element, signal in one.inputs.items():
            system = with_input(system, element, signal)
        begin = {**one.initial, **free.values(own)}
        state = pose(system, begin, t=one.t0) if begin else None
        options = {"max_steps": 1_000_000, **self.options}
        t0, t1 = (one.t0, one.ts[-1]) if span is None else span
        return simulate(system, t1, t0=t0, initial=state, saveat=ts, adjoint=Forward(), throw=False, **options)

    def channels_of(self, free: Unknowns, u: Array, own: Array, one: Batch, span: tuple[float, float] | None) -> tuple[Array, Array]:
        """(channels at their times, how the run ended)"""
        sensors = self.sensors_of(u)
        delays = {column: sensor["delay"] for column, sensor in sensors.items() if self.channels.delayed(column)}
        # A channel with a delay is looked at at its own times; these have no derivative, the channel's rate does it.
        ts = (
            one.ts
            if not delays
            else jnp.stack([one.ts, *(jnp.maximum(one.ts - jax.lax.stop_gradient(d), one.t0) for d in delays.values())])
        )
        order = None if not delays else jnp.argsort(ts.ravel())
        run = self.run(free, u, own, one, ts if order is None else ts.ravel()[order], span)
        rows = one.ts.shape[0]
        back = None if order is None else jnp.argsort(order).reshape(-1, rows)
        found = []
        for place, (column, observable) in enumerate(self.channels.observe.items()):
            values, rates = self._observed(run, column, observable, with_rates=bool(delays) and column in delays)
            if back is not None:
                where = back[1 + list(delays).index(column)] if column in delays else back[0]
                values = values[where]
                if column in delays:
                    delay = delays[column]
                    values = values - rates[where] * (delay - jax.lax.stop_gradient(delay))
            values = sensors[column]["gain"] * values + sensors[column]["bias"]
            found.append(self._same_turn(observable, values, one.measured[place]))
        values = jnp.stack(found)
        finite = jnp.all(jnp.where(one.present > 0, jnp.isfinite(values), True))
        result = jnp.where(run.succeeded & ~finite, -1, results.number(run.result))
        return values, result

    def _observed(self, run: Any, column: str, observable: Any, with_rates: bool) -> tuple[Array, Array]:
        if not isinstance(observable, str):
            values = jnp.asarray(observable(run))
            if values.shape != run.ts.shape:
                raise ValueError(f"channel {column!r}: its function must give one number a row, shape {run.ts.shape}, got {values.shape}.")
            return values, slopes(run.ts, values) if with_rates else values
        values = run.observe(observable)
        if not with_rates:
            return values, values
        (found,) = find(run.system, observable)
        rate = found.observable.rate
        return values, run.observe(found.prefix + rate) if rate else slopes(run.ts, values)

    def _same_turn(self, observable: Any, values: Array, measured: Array) -> Array:
        """An angle that is known up to full turns, in the turn in which it is measured."""
        if not isinstance(observable, str) or not find(self.system, observable)[0].observable.full_turns:
            return values
        return values + 2 * jnp.pi * jnp.round(jax.lax.stop_gradient(measured[0] - values[0]) / (2 * jnp.pi))
