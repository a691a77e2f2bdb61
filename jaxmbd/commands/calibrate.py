"""`jaxmbd calibrate`: fits parameters of a problem to measurements."""

import argparse
import sys
from pathlib import Path
from typing import Any

from ..calibrate.calibrating import calibrate
from ..calibrate.experiments import Experiment
from ..calibrate.unknowns import Free
from ..system.system import System
from .shared import INTEGRATORS, UsageError, add_problem_arguments, build, fill_in, find_problem, pairs, prepare


def add_calibrate(commands: Any) -> None:
    """Adds the command to the others."""
    parser = commands.add_parser(
        "calibrate",
        help="fit parameters of a problem to measurements",
        description="Finds parameters with which a problem follows measurements, prints them with 95 % intervals, and writes fit.npz "
        "(mbd.load_fit reads it) and report.html.",
        epilog='example: jaxmbd calibrate pendulum --data swing.csv --channel "encoder=hinge.angle" --fit "spring.stiffness=100:1000:log" '
        '--fit "spring.damping=0:50" --report report.html',
    )
    parser.set_defaults(command=_calibrate)
    add_problem_arguments(parser)
    parser.add_argument(
        "--data",
        action="append",
        required=True,
        type=Path,
        metavar="FILE",
        help="CSV with a line of names, or npz: a column t [s] and channels; several times: several experiments",
    )
    parser.add_argument(
        "--fit",
        action="append",
        required=True,
        metavar="NAME=LOW:HIGH[:log]",
        help="a parameter to find between bounds, perhaps in its logarithm; a star in the name stands for several that get one value",
    )
    parser.add_argument(
        "--channel",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN=OBSERVABLE",
        help="what a column measures; default: all columns, which then are called like observables, hinge.angle",
    )
    parser.add_argument("--noise", type=float, metavar="SIGMA", help="standard deviation of all channels; default: estimated")
    parser.add_argument("--initial", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="where it starts: hinge.angle=0.5")
    parser.add_argument("--loss", choices=("squares", "huber", "student"), default="squares", help="the last two where there are outliers")
    parser.add_argument("--starts", type=int, default=1, metavar="N", help="begin at so many points between the bounds")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where the report goes; default: report.html beside fit.npz")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go; default: jaxmbd-results/NAME-calibrate")


def _calibrate(options: argparse.Namespace) -> int:
    problem = find_problem(options.name)
    directory = options.out or Path("jaxmbd-results") / f"{options.name}-calibrate"
    fill_in(options, problem)
    try:
        system = build(options, problem)
        if not isinstance(system, System):
            raise UsageError(f"{options.name} has no parameters that --fit could reach.")
        if options.t1 is not None:
            raise UsageError("--t1: a calibration runs as long as its measurements.")
        channels = pairs(options.channel, "--channel") or None
        initial = {name: _number("--initial", name, text) for name, text in pairs(options.initial, "--initial").items()}
        experiments = [Experiment(path, channels, name=path.name, noise=options.noise, initial=initial or None) for path in options.data]
        prepare(directory)
        fit = calibrate(
            system,
            experiments,
            dict(_read_fit(word) for word in options.fit),
            integrator=INTEGRATORS[options.integrator](options.tolerance),
            loss=options.loss,
            starts=options.starts,
            progress=sys.stderr.isatty(),
            step=options.step,
            max_step=problem.max_step,
        )
    except ValueError as error:
        raise UsageError(error) from None
    print(f"{options.name}: {fit}")
    report = options.report or directory / "report.html"
    try:
        written = [fit.save(directory / "fit.npz"), fit.report(report)]
    except OSError as error:
        raise UsageError(f"cannot write to {report.parent}: {error.strerror or error}.") from None
    print("wrote " + " and ".join(str(path) for path in written))
    return 0 if fit.converged else 1


def _read_fit(word: str) -> tuple[str, Free]:
    name, equals, text = word.partition("=")
    parts = text.split(":")
    try:
        low, high = float(parts[0]), float(parts[1])
        if not (name and equals) or parts[2:] not in ([], ["log"]):
            raise ValueError
    except (ValueError, IndexError):
        raise UsageError(f"--fit {word!r} does not read NAME=LOW:HIGH or NAME=LOW:HIGH:log.") from None
    return name.strip(), Free(low, high, log=bool(parts[2:]))


def _number(flag: str, name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{flag} {name}: expected a number, got {text!r}.") from None
