"""What commands have in common: the problem they are about, its options and parameters, the method that runs it."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..integrators.base import AbstractIntegrator
from ..integrators.bdf import BDF
from ..integrators.explicit import AdamsPECE, DormandPrince
from ..integrators.hht import HHT, Newmark, Trapezoidal
from ..integrators.rosenbrock import Rodas4, RosenbrockNystrom, WMethod
from ..integrators.semi_explicit import SemiExplicit
from ..integrators.theta import Theta
from ..integrators.verlet import ExplicitNystrom, Verlet
from ..problems.registry import PROBLEMS, Problem
from ..system.building.model import Model
from ..system.equations import AbstractSystem
from ..system.parameters import unknown
from ..system.system import System

INTEGRATORS: dict[str, Callable[[float], AbstractIntegrator]] = {
    "hht": HHT,
    "hht-mm": lambda tolerance: HHT(tolerance, length_scale=1e-3, velocity_error=False),
    "bdf": lambda tolerance: BDF(tolerance=tolerance),
    "newmark": Newmark,
    "trapezoidal": Trapezoidal,
    "rosenbrock-nystrom": lambda tolerance: RosenbrockNystrom(tolerance, tolerance),
    "rodas4": lambda tolerance: Rodas4(tolerance, tolerance),
    "w-method": lambda tolerance: WMethod(tolerance, tolerance),
    "dormand-prince": lambda tolerance: DormandPrince(tolerance, tolerance),
    "adams-pece": lambda tolerance: AdamsPECE(tolerance, tolerance),
    "semi-explicit": lambda tolerance: SemiExplicit(0.5, 0.6, predict_velocity=True, tolerance=tolerance),
    "verlet": Verlet,
    "explicit-nystrom": ExplicitNystrom,
    "theta": lambda tolerance: Theta(0.5, tolerance=tolerance),
}


class UsageError(Exception):
    """Something in the command line cannot be: one line for the user, exit code 2."""


def add_problem_arguments(parser: argparse.ArgumentParser) -> None:
    """Which problem, with which numbers, by which method."""
    parser.add_argument("name", metavar="NAME", help="a problem of `jaxmbd list`")
    parser.add_argument("--integrator", choices=INTEGRATORS, help="default: what the problem suggests, mostly hht")
    parser.add_argument(
        "--tolerance", type=float, help="accepted local error of adaptive steps; default: what the problem suggests, mostly 1e-5"
    )
    parser.add_argument("--t1", type=float, help="end time [s]; default: what the problem suggests")
    parser.add_argument(
        "--step", type=float, metavar="H", help="steps of this size [s]; default: adaptive, unless the problem suggests a size"
    )
    parser.add_argument(
        "--option",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the problem (`jaxmbd list` shows them): n=16, spatial=true",
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="another value for a parameter: spring.stiffness=300, a vector as gravity.acceleration=0,-1.62,0",
    )
    parser.add_argument(
        "--no-cache", dest="cache", action="store_false", help="compile anew, and do not keep what was compiled for the next start"
    )


def find_problem(name: str) -> Problem:
    if name not in PROBLEMS:
        raise UsageError(unknown("problem", name, PROBLEMS))
    return PROBLEMS[name]


def pairs(given: Sequence[str], flag: str) -> dict[str, str]:
    """KEY=VALUE words, as they are."""
    found = {}
    for word in given:
        key, equals, value = word.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{flag} {word!r} does not read NAME=VALUE.")
        found[key.strip()] = value.strip()
    return found


def _read_option(key: str, text: str, default: Any) -> Any:
    """The value of an option of a problem, of the type of its default."""
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise UsageError(f"--option {key} must be true or false, got {text!r}.")
        return text.lower() == "true"
    try:
        return type(default)(text)
    except ValueError:
        raise UsageError(f"--option {key} must be a number like {default}, got {text!r}.") from None


def _read_parameter(name: str, text: str) -> Any:
    """A number, or comma-separated numbers as a vector."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--set {name}: expected a number or comma-separated numbers, got {text!r}.") from None
    return numbers[0] if len(numbers) == 1 else numbers


def fill_in(options: argparse.Namespace, problem: Problem) -> None:
    """What the problem suggests where the user says nothing. A tolerance, or another method, asks for adaptive steps."""
    if options.step is None and options.tolerance is None and options.integrator in (None, problem.integrator):
        options.step = problem.step
    options.integrator = options.integrator or problem.integrator
    options.tolerance = problem.tolerance if options.tolerance is None else options.tolerance


def build(options: argparse.Namespace, problem: Problem) -> AbstractSystem:
    """The problem with the user's options and parameter values."""
    defaults = problem.options()
    choices = {}
    for key, text in pairs(options.option, "--option").items():
        if key not in defaults:
            raise UsageError(f"{options.name}: {unknown('option', key, defaults)}")
        choices[key] = _read_option(key, text, defaults[key])
    model = problem.function(**choices)
    system = model.build() if isinstance(model, Model) else model
    values = {name: _read_parameter(name, text) for name, text in pairs(options.set, "--set").items()}
    if values and not isinstance(system, System):
        raise UsageError(f"{options.name} has no parameters that --set could reach.")
    return system.set(values) if isinstance(system, System) else system


def prepare(directory: Path) -> None:
    """Finds out before the run whether its results can be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".jaxmbd-writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror or error}.") from None
