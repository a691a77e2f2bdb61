"""Warns before a run whose step is too large for an explicit method."""

import warnings
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..integrators.base import AbstractIntegrator
from ..system.equations import AbstractSystem
from ..system.mechanism import AbstractMechanism
from ..system.state import State
from ..system.statics.fastest import KrylovSpace, fastest

_FEWEST = 10
"""Runs of fewer steps are not looked at."""
_GROWTH = np.log(100.0)
"""Logarithm of what a disturbance may grow by in a run."""
_FINEST = 1e-6
"""of the given step: smaller ones are not looked for"""


def warn_of_step(system: AbstractSystem, method: AbstractIntegrator, state: State, h: float, count: int) -> None:
    """Warns if, in `count` steps of size h, a disturbance of the fastest motion would grow a hundredfold.

    What it sees: the equations linearised at the initial state; every contact, closed or open, at the deepest point of an impact with the
    speed it has now or falls with; friction near rest under the load of the start, or the weight. What it does not see: forces that become
    stiff later, spinning friction, contacts of bodies on joints with multipliers.
    """
    if count < _FEWEST or method.amplification(h, 0.0, 0.0) is None:
        return
    modes, contacts = fastest(system.nameless(), state, jnp.asarray(h), method.implicit_in_b)
    found = [_of_modes(system, modes, h)]
    if isinstance(system, AbstractMechanism):
        found += [_of_contacts(system.force_groups[number].names, stiffness) for number, stiffness in contacts.items()]
    limits = [(_largest(method, h, count, k, c), why) for motions in found for k, c, why in motions]
    limit, why = min(limits, default=(h, ""))
    if limit < h:
        warnings.warn(
            f"step = {h:.6g} s is beyond the stability limit of {type(method).__name__}, about {limit:.2g} s, {why}: use a smaller step, "
            "adaptive steps, or an implicit method such as mbd.HHT().",
            stacklevel=4,
        )


def _of_modes(system: AbstractSystem, modes: KrylovSpace, h: float) -> Iterator[tuple[float, float, str]]:
    """The fastest oscillation and the fastest decay as q'' = -k q - c q'."""
    matrix = np.asarray(modes.matrix)
    if not np.all(np.isfinite(matrix)):
        return
    values, vectors = np.linalg.eig(matrix)
    n = len(system.coordinate_lengths())
    for chosen in (np.imag(values) > 1e-6 * np.abs(values), (np.imag(values) == 0) & (np.real(values) < 0)):
        if not np.any(chosen):
            continue
        i = np.argmax(np.where(chosen, np.abs(values), 0.0))
        rate, vibrates = values[i] / h, np.imag(values[i]) > 0
        shape = np.abs(np.asarray(modes.basis).T @ vectors[:, i])
        place = np.argmax(np.append(np.maximum(shape[:n], shape[n : 2 * n]), shape[2 * n :]))
        rows = len(system.row_lengths())
        name = system.describe_unknown(int(place if place < n else place + rows))
        what = (
            f"because {name} vibrates at {abs(rate) / 2 / np.pi:.2g} Hz" if vibrates else f"because {name} is damped at {abs(rate):.2g} 1/s"
        )
        yield (abs(rate) ** 2, max(-2 * rate.real, 0.0), what) if vibrates else (0.0, -rate.real, what)


def _of_contacts(names: tuple[str, ...], stiffness: Any) -> Iterator[tuple[float, float, str]]:
    """The stiffest pair of a group, and the one with the steepest friction."""
    normal, damping, tangential, friction = (np.asarray(part) for part in vars(stiffness).values())
    i, j = np.argmax(normal), np.argmax(np.maximum(friction, np.sqrt(tangential)))
    yield normal[i], damping[i], f"because contact {names[i]!r} is as stiff as {np.sqrt(normal[i]) / 2 / np.pi:.2g} Hz where it is deepest"
    steepest = max(friction[j], np.sqrt(tangential[j]))
    what = f"because friction in contact {names[j]!r} brakes slow slip at {steepest:.2g} 1/s (less if its regularisation is larger)"
    yield tangential[j], friction[j], what


def _largest(method: AbstractIntegrator, h: float, count: int, k: float, c: float) -> float:
    """The largest step up to h with which a disturbance does not grow too much in the same time."""

    def fits(size: float) -> bool:
        growth = method.amplification(size, float(k), float(c))
        return growth is None or bool(np.log(max(growth, 1e-300)) * count * h / size <= _GROWTH)

    if not np.isfinite(k + c) or fits(h):
        return h
    low, high = h, h
    while not fits(low) and low > _FINEST * h:
        low, high = 0.7 * low, low
    for _ in range(8):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
