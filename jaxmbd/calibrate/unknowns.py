"""What is to be found: numbers with bounds, scales and priors, as one vector without units."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..sweep.designs import meant
from ..system import naming
from ..system.parameters import unknown
from ..system.system import System


class Free(NamedTuple):
    """A number that a calibration is to find. Of a parameter with several components, every field may be one number or one for each."""

    low: Any = -math.inf
    """bounds, in the parameter's unit"""
    high: Any = math.inf
    start: Any = None
    """where the search begins; None: at the model's own value"""
    log: bool = False
    """searched in its logarithm: for positive numbers that may be off by factors"""
    prior: tuple[Any, Any] | None = None
    """mean and standard deviation of what is known beforehand, of the number or, with `log`, of its natural logarithm about log(mean)"""


class Inertia(NamedTuple):
    """A body's inertia that is to be found, `{"cube.inertia": mbd.Inertia()}`, and stays that of some distribution of mass on the way: the
    matrix tr(J)/2 - J is searched by the logarithms of its Cholesky factor."""

    diagonal: bool = False
    """only the principal moments, about the axes that the model has"""
    spread: float = 20.0
    """largest factor by which a moment may change"""


class Unknown(NamedTuple):
    """One number among the unknowns."""

    name: str
    start: float
    """of the search's own coordinate, as the next two"""
    low: float
    high: float
    log: bool
    prior: tuple[float, float] | None
    unit: str

    def shown(self, u: Any) -> Any:
        """The number that a person knows."""
        with np.errstate(over="ignore"):
            return np.exp(u) if self.log else u


class Unknowns(NamedTuple):
    """Some numbers, in the order of a vector u, and how they make the values of parameters."""

    each: tuple[Unknown, ...]
    builders: tuple[tuple[str, Callable[[Array], Array], slice], ...]
    """by name of a parameter, its value from its part of u"""
    ties: tuple[tuple[str, Any], ...]
    """parameters that follow from others"""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.each)

    @property
    def start(self) -> Float[np.ndarray, "unknowns"]:
        return np.array([one.start for one in self.each], float)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([one.low for one in self.each], float), np.array([one.high for one in self.each], float)

    def priors(self) -> tuple[np.ndarray, np.ndarray]:
        """(mean, 1 / standard deviation), the latter zero where nothing is known."""
        mean = np.array([0.0 if one.prior is None else one.prior[0] for one in self.each], float)
        weight = np.array([0.0 if one.prior is None else 1.0 / one.prior[1] for one in self.each], float)
        return mean, weight

    def values(self, u: Array) -> dict[str, Array]:
        """By name, all that the vector says, ties included."""
        found = {name: build(u[where]) for name, build, where in self.builders}
        for name, rule in self.ties:
            found[name] = found[rule] if isinstance(rule, str) else jnp.asarray(rule(dict(found)), float)
        return found

    def shown(self, u: np.ndarray) -> dict[str, float]:
        return {one.name: float(one.shown(u[i])) for i, one in enumerate(self.each)}


def read_parameters(system: System, given: Mapping[str, Any]) -> Unknowns:
    """The argument `parameters` of `calibrate`: unknowns, and ties, which are names or functions of all values by name."""
    if not isinstance(given, Mapping) or not given:
        raise ValueError("calibrate needs parameters to find: parameters={'spring.stiffness': (100.0, 1000.0)}, names with bounds.")
    each: list[Unknown] = []
    builders, ties, kept = [], [], {}
    for name, wish in given.items():
        if isinstance(wish, str) or (callable(wish) and not isinstance(wish, Free | Inertia)):
            if isinstance(wish, str) and wish not in given:
                raise ValueError(f"{name!r} is to have the value of {wish!r}: {unknown('parameter of this calibration', wish, given)}")
            _check_name(system, name)
            ties.append((name, wish))
            continue
        own = _own(system, name, wish)
        unit = _unit(system, name)
        more, build = _inertia(name, wish, own, unit) if isinstance(wish, Inertia) else _numbers(name, _as_free(name, wish), own, unit)
        _check_range(system, name, more, build)
        builders.append((name, build, slice(len(each), len(each) + len(more))))
        each += more
        for one in meant(system, name) if "." in name else (name,):
            if one in kept:
                raise ValueError(f"{name!r} and {kept[one]!r} both give {one!r}: give it once.")
            kept[one] = name
    if not each:
        raise ValueError("calibrate has only ties and no parameter to find: give one of them bounds, (low, high).")
    return Unknowns(tuple(each), tuple(builders), tuple(ties))


def read_free(owner: str, given: Mapping[str, Any], units: Mapping[str, str]) -> tuple[dict[str, float], Unknowns]:
    """Numbers that are not the model's (initial values, sensors): those that are given, and those that are to be found."""
    fixed: dict[str, float] = {}
    each: list[Unknown] = []
    builders = []
    for name, wish in given.items():
        free = _free(wish)
        if free is None:
            fixed[name] = _number_of(f"{owner}{name}", wish)
            continue
        if free.start is None and free.prior is None and not np.all(np.isfinite([free.low, free.high])):
            raise ValueError(f"{owner}{name}: give mbd.Free(..., start=...), nobody else knows where to begin.")
        begin = free.start if free.start is not None else free.prior[0] if free.prior is not None else 0.5 * (free.low + free.high)
        more, build = _numbers(f"{owner}{name}", free, np.asarray(begin, float), units.get(name, ""))
        builders.append((name, build, slice(len(each), len(each) + len(more))))
        each += more
    return fixed, Unknowns(tuple(each), tuple(builders), ())


def _free(wish: Any) -> Free | None:
    """What is to be found; a measured number, (value, standard deviation), is."""
    if isinstance(wish, Free):
        return wish
    return Free(start=wish[0], prior=(wish[0], wish[1])) if isinstance(wish, tuple) and len(wish) == 2 else None


def _number_of(label: str, wish: Any) -> float:
    try:
        return float(wish)
    except (TypeError, ValueError):
        raise ValueError(f"{label}: give a number, (value, standard deviation) of a measured one, or mbd.Free, got {wish!r}.") from None


def _check_name(system: System, name: str) -> None:
    """Names with a dot are the model's; others may be used by ties."""
    if "." in name:
        for one in meant(system, name):
            system.get(one)


def _check_range(system: System, name: str, unknowns: Sequence[Unknown], build: Callable[[Array], Array]) -> None:
    """Refuses bounds beyond which the model has no meaning: runs would fail there."""
    if "." not in name:
        return
    low, high = (np.array([getattr(one, side) for one in unknowns]) for side in ("low", "high"))
    inside = 1e-9 * (high - low) if np.all(np.isfinite(high - low)) else 0.0  # a bound itself may be just out of range: (0, 1) for a mass
    for side, ends in (("lower", low + inside), ("upper", high - inside)):
        if np.all(np.isfinite(ends)):
            for one in meant(system, name):
                spec = naming.find(system, one).spec
                value = np.asarray(build(jnp.asarray(ends)))
                if spec is not None and spec.valid is not None and not np.all(spec.valid(value)):
                    told = f" {value.item():g}" if value.ndim == 0 else ""
                    raise ValueError(f"{name!r}: its {side} bound{told} is out of range: {one} {spec.requirement}.")


def _own(system: System, name: str, wish: Any) -> np.ndarray:
    """The model's value."""
    if "." not in name:
        if isinstance(wish, Free) and wish.start is not None:
            return np.asarray(wish.start, float)
        raise ValueError(
            f"{unknown('parameter', name, system.parameter_names())} A number of your own that ties use needs mbd.Free(..., start=...)."
        )
    return np.asarray(system.get(meant(system, name)[0]), float)


def _unit(system: System, name: str) -> str:
    return naming.unit(system, meant(system, name)[0]) if "." in name else ""


def _as_free(name: str, wish: Any) -> Free:
    if isinstance(wish, Free):
        return wish
    if isinstance(wish, Sequence) and len(wish) in (2, 3) and (len(wish) == 2 or wish[2] == "log"):
        return Free(wish[0], wish[1], log=len(wish) == 3)
    raise ValueError(
        f"{name!r}: give its bounds (low, high), (low, high, 'log'), mbd.Free(...), or, as a tie, the name of another or a function, "
        f"got {wish!r}."
    )


def _numbers(name: str, free: Free, own: np.ndarray, unit: str) -> tuple[list[Unknown], Callable[[Array], Array]]:
    """Of a parameter with that value in the model."""
    try:
        start = np.broadcast_to(np.asarray(own if free.start is None else free.start, float), own.shape)
        low, high = (np.broadcast_to(np.asarray(bound, float), own.shape) for bound in (free.low, free.high))
        prior = None if free.prior is None else tuple(np.broadcast_to(np.asarray(part, float), own.shape) for part in free.prior)
    except (TypeError, ValueError):
        raise ValueError(f"{name!r} has shape {own.shape}: start, bounds and prior must be numbers, or arrays of that shape.") from None
    found = []
    for index in np.ndindex(*own.shape):
        label = name + "".join(f"[{i}]" for i in index)
        numbers = [float(part[index]) for part in (start, low, high)]
        mean_and_width = None if prior is None else (float(prior[0][index]), float(prior[1][index]))
        found.append(_number(label, numbers[0], numbers[1], numbers[2], free.log, mean_and_width, unit))
    log, shape = free.log, own.shape

    def build(u: Array) -> Array:
        return jnp.reshape(jnp.exp(u) if log else u, shape)

    return found, build


def _number(name: str, start: float, low: float, high: float, log: bool, prior: tuple[float, float] | None, unit: str) -> Unknown:
    if not low < high:
        raise ValueError(f"{name!r}: its lower bound {low:g} must be less than its upper bound {high:g}.")
    if not math.isfinite(start):
        raise ValueError(f"{name!r} starts at {start:g}: give a finite start, mbd.Free(..., start=...).")
    if not low <= start <= high:
        raise ValueError(
            f"{name!r} starts at {start:g}, outside of its bounds {low:g} ... {high:g}: widen them, or say where to begin, "
            "mbd.Free(..., start=...)."
        )
    if prior is not None and not prior[1] > 0:
        raise ValueError(f"{name!r}: the standard deviation of its prior must be positive, got {prior[1]:g}.")
    if not log:
        return Unknown(name, start, low, high, False, prior, unit)
    if low == -math.inf:
        low = 0.0
    if low < 0 or start <= 0 or (prior is not None and prior[0] <= 0):
        raise ValueError(f"{name!r} is searched in its logarithm: its bounds, start and prior must be positive.")
    mean = None if prior is None else (math.log(prior[0]), prior[1])
    return Unknown(name, math.log(start), math.log(low) if low > 0 else -math.inf, math.log(high), True, mean, unit)


def _inertia(name: str, wish: Inertia, own: np.ndarray, unit: str) -> tuple[list[Unknown], Callable[[Array], Array]]:
    """Of a distribution of mass: tr(J)/2 - J is positive definite, and so has a Cholesky factor."""
    if own.shape != (3, 3):
        raise ValueError(f"{name!r} has shape {own.shape}: mbd.Inertia is for the 3 x 3 inertia of a RigidBody, others take bounds.")
    second = 0.5 * np.trace(own) * np.eye(3) - own
    try:
        factor = np.linalg.cholesky(second)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"{name!r}: the model's inertia is that of no body with thickness: of its principal moments one is not less than the sum of the "
            "others."
        ) from None
    places = [(i, j) for i in range(3) for j in range(3 if not wish.diagonal else 0) if i > j]
    span = math.log(wish.spread)
    # exp(u) on the diagonal, u below it, in units of the start: all zero is the model's own.
    found = [Unknown(f"{name}.stretch{i}", 0.0, -0.5 * span, 0.5 * span, False, None, "1") for i in range(3)]
    found += [Unknown(f"{name}.shear{i}{j}", 0.0, -wish.spread, wish.spread, False, None, "1") for i, j in places]

    def build(u: Array) -> Array:
        change = jnp.diag(jnp.exp(u[:3]))
        for k, (i, j) in enumerate(places):
            change = change.at[i, j].set(u[3 + k])
        moved = jnp.asarray(factor) @ change
        moments = moved @ moved.T
        return jnp.trace(moments) * jnp.eye(3) - moments

    return found, build
