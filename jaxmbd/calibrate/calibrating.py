"""`calibrate`, as users ask for it."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from scipy.stats import qmc, t
from tqdm import tqdm

from .. import results
from ..integrators.base import AbstractIntegrator
from ..results import RESULTS
from ..running.options import expect_type
from ..simulate import simulate
from ..sweep.designs import spread
from ..system.building.model import Model
from ..system.parameters import unknown
from ..system.system import System
from .experiments import Experiment, Sensor, read_experiments
from .fit import Channel, Estimate, Fit
from .information import follow, inform
from .least_squares import LOSSES, Data, Point, Search, cost, estimated, search
from .predictions import Group, Predictor, group_experiments, read_channels
from .unknowns import Unknown, read_parameters

_OWN = ("model", "t1", "t0", "integrator", "initial", "saveat", "until", "progress", "adjoint", "throw")
_OPTIONS = tuple(name for name in inspect.signature(simulate).parameters if name not in _OWN)
"""arguments of `simulate` that a calibration hands on"""
_FEW = 32
"""experiments, of which less run as fast side by side as in kernels of scalars, which take four times longer to compile"""
_LONGEST = 1.0
"""of a step of the search, in relative changes"""


def calibrate(
    model: Model | System,
    experiments: Any,
    parameters: Mapping[str, Any],
    *,
    integrator: AbstractIntegrator | None = None,
    sensors: Mapping[str, Sensor] | None = None,
    validation: Any = (),
    loss: str = "squares",
    starts: int = 1,
    iterations: int = 50,
    tolerance: float = 1e-8,
    grow: Sequence[float] = (1.0,),
    begin: Fit | None = None,
    progress: bool = True,
    **options: Any,
) -> Fit:
    """Finds parameters with which the model follows measurements: least squares by Levenberg and Marquardt, with exact derivatives.

    - `experiments`: an `mbd.Experiment`, or a list of them, which may differ in length, channels, initial states and inputs.
    - `parameters`: what is to be found by name: bounds (low, high), (low, high, "log"), `mbd.Free(...)` with start, prior or scale,
      `mbd.Inertia()` for a body's inertia; a star gives several parameters one value, "tyre_*.stiffness". A name without a dot is a number of
      your own; ties use it: `{"J": mbd.Free(0, 1, start=0.1), "rod.inertia": lambda p: p["J"] - 0.02, "b.mass": "a.mass"}`.
    - `sensors`: by channel, an `mbd.Sensor` with gain, bias and delay, which may be `mbd.Free`.
    - `validation`: further experiments, which are not fitted, but compared.
    - `loss`: "squares"; "huber" or "student" where there are outliers.
    - `starts`: more than one begins at so many points between the bounds (all run as one batch) and goes on from the best few.
    - `iterations`: at most; `tolerance`: relative decrease of the cost at which the search ends.
    - `grow`: shares of every record, (0.1, 0.3, 1.0), that are fitted one after the other: long or chaotic records, which lead nowhere from a
      rough start, are followed from their beginning on. (`Experiment.windows` is the other way.)
    - `begin`: an earlier fit to start from, of this or of other experiments.
    - further arguments are those of `simulate`: step, max_step, controller, kernels, max_steps ...

    A run that fails within the search makes its step smaller and is counted. Ctrl-C ends the search with what it has; `begin=fit` goes on.
    Where the noise of a channel is not known, it is estimated from what remains.
    """
    system = model.build() if isinstance(model, Model) else model
    expect_type("model", system, System, "an mbd.Model or the System that it builds: a calibration needs parameters with names")
    expect_type("integrator", integrator, AbstractIntegrator | None, "an integrator such as mbd.HHT()")
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"calibrate: {unknown('argument', name, _OPTIONS)}")
    if loss not in LOSSES:
        raise ValueError(unknown("loss", loss, LOSSES))
    fitted = read_experiments(experiments)
    left_out = read_experiments(validation, "validation") if validation else []
    if len(fitted) < _FEW and jax.default_backend() == "cpu":
        options.setdefault("kernels", "array")
    problem = Problem(system, fitted, parameters, sensors or {}, {"integrator": integrator, **options}, loss)
    problem.refuse_too_few_data()
    best = problem.first_point(begin)
    with _Progress(progress, iterations) as bar:
        for share in grow[:-1]:
            best = problem.best_of(best, 1, iterations, 1e-3, bar, share).point
        found = problem.best_of(best, starts, iterations, tolerance, bar)
    return problem.fit(found, left_out)


class _Progress:
    """A bar, one tick an iteration."""

    def __init__(self, shown: bool, iterations: int):
        self._bar = tqdm(total=iterations, desc="calibrate", unit="step", disable=not shown)

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def __call__(self, row: dict[str, float]) -> None:
        self._bar.set_postfix_str(f"cost {row['cost']:.6g}")
        self._bar.update(0 if self._bar.n == 0 and row["damping"] == 1e-3 else 1)


class Problem:
    """A model, experiments, and what is to be found."""

    def __init__(self, system: System, experiments: list[Experiment], parameters: Any, sensors: Any, options: dict[str, Any], loss: str):
        self.system, self.experiments, self.loss = system, experiments, loss
        self.shared = read_parameters(system, parameters)
        self.channels = read_channels(system, experiments, sensors)
        self.predictor = Predictor(system, self.shared, self.channels, options)
        self.unknowns: list[Unknown] = [*self.shared.each, *self.channels.unknowns]
        self.groups = group_experiments(system, experiments, self.channels)
        self.data = self._data(self.groups)

    def _data(self, groups: list[Group]) -> Data:
        columns = list(self.channels.observe)
        noise = [np.array([[self.experiments[i].noise.get(c, np.nan) for c in columns] for i in group.members]) for group in groups]
        own = [(np.stack([f.bounds[0] for f in group.free]), np.stack([f.bounds[1] for f in group.free])) for group in groups]
        priors = [tuple(np.stack(part) for part in zip(*(f.priors() for f in group.free), strict=True)) for group in groups]
        bounds = (np.array([one.low for one in self.unknowns], float), np.array([one.high for one in self.unknowns], float))
        mean = np.array([0.0 if one.prior is None else one.prior[0] for one in self.unknowns], float)
        weight = np.array([0.0 if one.prior is None else 1.0 / one.prior[1] for one in self.unknowns], float)
        present = [np.asarray(group.batch.present) for group in groups]
        scales = self._scales(groups)
        return Data(present, noise, bounds, own, (mean, weight), priors, self.loss, scales)  # pyright: ignore[reportArgumentType]

    def refuse_too_few_data(self) -> None:
        rows = int(sum(np.sum(present) for present in self.data.present))
        known = int(np.count_nonzero(self.data.prior[1])) + sum(int(np.count_nonzero(weight)) for _, weight in self.data.own_prior)
        wanted = len(self.unknowns) + sum(group.start().size for group in self.groups)
        if rows + known < wanted:
            raise ValueError(
                f"{wanted} numbers are to be found from {rows} samples: give more data, fewer parameters, or priors "
                "(mbd.Free(prior=(mean, std)))."
            )

    # --- where the search is ------------------------------------------------------------------------------------------------------------

    def evaluate(self, u: np.ndarray, own: list[np.ndarray]) -> Point:
        errors, slopes, failed = [], [], []
        for group, present, mine in zip(self.groups, self.data.present, own, strict=True):
            found = self.predictor(group, u, mine)
            fine = [int(results.number(code)) for code in _FINE]  # not at import: JAX would have begun before `fuse_loops`
            codes = np.where(np.isin(found.result, fine), 0, np.where(found.result < 0, -1, found.result))
            there = present > 0
            error = np.where(there, found.values - np.asarray(group.batch.measured), 0.0)
            slope = np.where(there[..., None], found.slopes, 0.0)
            # A derivative that is not finite is no step that can be taken from here.
            bad = (codes == 0) & ~(np.all(np.isfinite(error), axis=(1, 2)) & np.all(np.isfinite(slope), axis=(1, 2, 3)))
            failed.append(np.where(bad, -1, codes))
            errors.append(np.where(np.isfinite(error), error, 0.0))
            slopes.append(np.where(np.isfinite(slope), slope, 0.0))
        return Point(np.array(u), [np.array(part) for part in own], errors, slopes, failed)

    def first_point(self, begin: Fit | None) -> Point:
        u = np.array([one.start for one in self.unknowns], float)
        own = [group.start() for group in self.groups]
        if begin is not None:
            u = self._from(begin, u)
            own = [self._own_from(begin, group, part) for group, part in zip(self.groups, own, strict=True)]
        point = self.evaluate(u, own)
        if not point.ok:
            group, codes = next((g, c) for g, c in zip(self.groups, point.failed, strict=True) if np.any(c))
            which = int(np.argmax(codes != 0))
            why = results.sentences()[int(codes[which])] if codes[which] > 0 else "a channel or its derivative was not finite."
            raise ValueError(
                f"the run of {self.experiments[group.members[which]].name!r} with the first values fails: {why} Start elsewhere "
                "(mbd.Free(..., start=...)), or help the integrator (tolerance, step, max_step, max_steps)."
            )
        return point

    def _from(self, begin: Fit, u: np.ndarray) -> np.ndarray:
        moved = np.array(u)
        for i, one in enumerate(self.unknowns):
            if one.name in begin.values:
                moved[i] = np.log(begin.values[one.name]) if one.log else begin.values[one.name]
        return np.clip(moved, *self.data.bounds)

    def _own_from(self, begin: Fit, group: Group, own: np.ndarray) -> np.ndarray:
        for row, (number, free) in enumerate(zip(group.members, group.free, strict=True)):
            found = begin.initial.get(self.experiments[number].name, {})
            for place, (name, _, _) in enumerate(free.builders):
                own[row, place] = found.get(name, own[row, place])
        return own

    def rescale(self, u: np.ndarray) -> np.ndarray:
        """By unknown, what a change by the number itself is in the search's coordinate."""
        low, high = self.data.bounds
        width = np.where(np.isfinite(high - low), high - low, np.inf)
        logs = np.array([one.log for one in self.unknowns])
        sizes = np.where(u != 0, np.abs(u), np.where(np.isfinite(width), width, 1.0))
        return np.where(logs, 1.0, np.minimum(np.maximum(sizes, 0.01 * np.where(np.isfinite(width), width, 0.0)), width))

    # --- search -------------------------------------------------------------------------------------------------------------------------

    def best_of(self, first: Point, starts: int, iterations: int, tolerance: float, tell: Any, share: float = 1.0) -> Search:
        """Of the first share of each record."""
        levels = self._first_levels(first)
        points = [first] if starts == 1 else self._spread_out(first, starts, levels)
        data = self.data if share == 1.0 else self.data._replace(present=[_early(present, share) for present in self.data.present])
        found: Search | None = None
        for point in points:
            longest = np.maximum(_LONGEST * self.rescale(point.u), 1e-12)
            one = search(self.evaluate, data, point, levels=levels, iterations=iterations, tolerance=tolerance, longest=longest, tell=tell)
            if found is None or self._likelihood(one) < self._likelihood(found):
                found = one._replace(evaluations=one.evaluations + (0 if found is None else found.evaluations))
            else:
                found = found._replace(evaluations=found.evaluations + one.evaluations)
            if one.result == "interrupted":
                break
        assert found is not None
        return found

    def _likelihood(self, found: Search) -> float:
        """The cost, and what estimated noise levels cost."""
        total = found.cost
        for present, known in zip(self.data.present, self.data.noise, strict=True):
            total += float(np.sum(present * np.isnan(known)[..., None] * np.log(found.levels)[None, :, None]))
        return total

    def _spread_out(self, first: Point, starts: int, levels: np.ndarray) -> list[Point]:
        """The first point and the best few of as many as were asked for, evenly between the bounds."""
        low, high = self.data.bounds
        open_ = [one.name for one, a, b in zip(self.unknowns, low, high, strict=True) if not np.isfinite(a + b)]
        if open_:
            raise ValueError(f"starts={starts} begins between bounds, and {open_[0]!r} has none: give it two, (low, high).")
        places = qmc.Sobol(low.size, seed=0).random_base2(max(starts - 1, 1).bit_length())[: starts - 1]  # pyright: ignore[reportCallIssue]
        points = [first] + [self.evaluate(low + (high - low) * place, first.own) for place in places]
        costs = [cost(self.data, point, levels) for point in points]
        chosen = [i for i in np.argsort(costs)[:3] if np.isfinite(costs[i])]
        return [points[i] for i in chosen]

    def _first_levels(self, point: Point) -> np.ndarray:
        return estimated(self.data, point, self.data.scales)

    def _scales(self, groups: list[Group]) -> np.ndarray:
        """Of channels, how much they vary: noise levels before anything is known of noise."""
        found = np.zeros(len(self.channels.observe))
        for group in groups:
            there = np.asarray(group.batch.present) > 0
            for place in np.flatnonzero(np.any(there, axis=(0, 2))):
                found[place] = max(found[place], np.std(np.asarray(group.batch.measured)[:, place][there[:, place]]))
        return np.where(found > 0, found, 1.0)

    # --- result -------------------------------------------------------------------------------------------------------------------------

    def fit(self, found: Search, left_out: list[Experiment]) -> Fit:
        point, levels = found.point, found.levels
        samples = int(sum(np.sum(present) for present in self.data.present))
        unknown_count = point.u.size + sum(part.size for part in point.own)
        freedom = max(samples - unknown_count, 1)
        known = inform(self.data, point, levels * np.sqrt(samples / freedom), self.unknowns, self.rescale(point.u))
        deviations = np.sqrt(np.diagonal(known.covariance))
        reach = float(t.ppf(0.975, freedom)) * deviations
        estimates = [
            Estimate(one.name, one.shown(u), one.shown(u - r), one.shown(u + r), one.unit, one.shown(one.start), one.log)
            for one, u, r in zip(self.unknowns, point.u, reach, strict=True)
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = known.covariance / (deviations[:, None] * deviations[None, :])  # NaN where a parameter is not determined
        channels = self._channels(point, levels) + (self._validated(point, levels, left_out) if left_out else [])
        settings = {name: np.asarray(value) for name, value in self._settings(point.u).items()}
        return Fit(
            estimates,
            self._initial(point),
            channels,
            correlation,
            known.undetermined,
            found.history,
            found.evaluations,
            found.failed_runs,
            found.result,
            settings,
            self.system.set(settings),
            point.u,
            lambda name, points: self._profile(found, name, points, deviations),
            lambda experiments, window: self._validated(point, levels, experiments, window),
        )

    def _settings(self, u: np.ndarray) -> dict[str, Any]:
        named = {name: value for name, value in self.shared.values(u).items() if "." in name}  # pyright: ignore[reportArgumentType]
        return spread(self.system, named)

    def _initial(self, point: Point) -> dict[str, dict[str, float]]:
        return {
            self.experiments[number].name: {name: float(own[row, place]) for place, (name, _, _) in enumerate(group.free[row].builders)}
            for group, own in zip(self.groups, point.own, strict=True)
            for row, number in enumerate(group.members)
        }

    def _channels(self, point: Point, levels: np.ndarray) -> list[Channel]:
        found = []
        for group, errors in zip(self.groups, point.errors, strict=True):
            for row, number in enumerate(group.members):
                one = self.experiments[number]
                for place, column in enumerate(self.channels.observe):
                    if column in one.columns:
                        measured = one.columns[column]
                        simulated = measured + errors[row, place, : one.ts.size]
                        found.append(Channel(one.name, column, one.ts, measured, simulated, one.noise.get(column, float(levels[place]))))
        return found

    def _validated(self, point: Point, levels: np.ndarray, left_out: list[Experiment], window: float | None = None) -> list[Channel]:
        """Experiments that were not fitted: their own initial values alone are, to a first window [s] or to all of each record."""
        other = object.__new__(Problem)
        other.__dict__.update(self.__dict__)
        other.experiments = left_out
        read_channels(self.system, [*self.experiments, *left_out], {})
        other.groups = group_experiments(self.system, left_out, self.channels)
        other.data = other._data(other.groups)
        at = other.evaluate(point.u, [group.start() for group in other.groups])
        if at.ok and any(part.size for part in at.own):
            every, longest = np.ones(point.u.size, bool), np.ones(point.u.size)
            for share in _GROWING:
                data = other.data._replace(present=[_early(_within(group, window), share) for group in other.groups])
                at = search(other.evaluate, data, at, levels=levels, iterations=20, tolerance=1e-8, fixed=every, longest=longest).point
        channels = other._channels(at, levels)
        for one in channels:
            one.validation = True
        return channels

    def _profile(self, found: Search, name: str, points: int, deviations: np.ndarray) -> dict[str, np.ndarray]:
        """Costs along one unknown, outwards from the fit on either side, each from its neighbour."""
        place = next(i for i, one in enumerate(self.unknowns) if one.name == name)
        fixed = np.zeros(len(self.unknowns), bool)
        fixed[place] = True
        width = deviations[place] if np.isfinite(deviations[place]) else self.rescale(found.point.u)[place]
        one, low, high = self.unknowns[place], *self.data.bounds
        data = self.data._replace(noise=[np.where(np.isnan(known), found.levels[None], known) for known in self.data.noise])
        width = min(width, self.rescale(found.point.u)[place] / 3.0)
        sides = []
        for sign in (-1.0, 1.0):
            point, side = found.point, []
            for k in range(1, points // 2 + 1):
                target = np.clip(found.point.u[place] + sign * 3.0 * width * k / (points // 2), low[place], high[place])
                point = self.evaluate(*follow(data, point, found.levels, place, target - point.u[place]))
                if not point.ok:
                    break
                longest = np.maximum(_LONGEST * self.rescale(point.u), 1e-12)
                done = search(self.evaluate, data, point, levels=found.levels, iterations=15, tolerance=1e-8, fixed=fixed, longest=longest)
                point = done.point
                side.append((point.u[place], done.cost))
            sides.append(side)
        rows = [*reversed(sides[0]), (found.point.u[place], cost(data, found.point, found.levels)), *sides[1]]
        u, costs = (np.array(part) for part in zip(*rows, strict=True))
        costs = costs - np.min(costs)
        return {"value": one.shown(u), "cost": costs, "interval": one.shown(_passing(u, costs, 1.92))}


_GROWING = (0.1, 0.3, 1.0)
"""shares of a record from which its initial values are found one after the other"""


def _within(group: Group, window: float | None) -> np.ndarray:
    """Where there are samples, in the first so many seconds."""
    batch = group.batch
    late = np.zeros(batch.ts.shape, bool) if window is None else np.asarray(batch.ts - batch.t0[:, None]) > window
    return np.asarray(batch.present) * ~late[:, None, :]


def _early(present: np.ndarray, share: float) -> np.ndarray:
    """The first rows of every experiment that has some."""
    rows = np.sum(np.any(present > 0, axis=1), axis=1)
    return present * (np.arange(present.shape[2])[None, :] < np.maximum(np.ceil(share * rows), 2)[:, None])[:, None, :]


_FINE = (RESULTS.successful, RESULTS.event_occurred)


def _passing(u: np.ndarray, costs: np.ndarray, level: float) -> np.ndarray:
    """Where a curve with one minimum passes a level, on the left and on the right."""
    least = int(np.argmin(costs))
    found = []
    for side in (range(least, 0, -1), range(least, u.size - 1)):
        step = -1 if side == range(least, 0, -1) else 1
        reached = next((i for i in side if costs[i + step] >= level > costs[i]), None)
        if reached is None:
            found.append(step * np.inf)
            continue
        a, b = reached, reached + step
        # A parabola's square root is a line.
        x, y = np.sqrt(costs[a]), np.sqrt(costs[b])
        found.append(u[a] + (u[b] - u[a]) * (np.sqrt(level) - x) / (y - x))
    return np.array(found)
