"""`jaxmbd sweep`: a problem with many values of its parameters."""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ..sweep.sweeping import sweep
from ..system.system import System
from ..view.sweeps import plot_sweep
from .shared import INTEGRATORS, UsageError, add_problem_arguments, build, fill_in, find_problem, prepare


def add_sweep(commands: Any) -> None:
    """Adds the command to the others."""
    parser = commands.add_parser(
        "sweep",
        help="run a problem with many values of its parameters",
        description="Runs a problem with all combinations of values and writes sweep.npz and, for one or two parameters, plot.png. With "
        "--store, the same command goes on where an earlier one was stopped.",
        epilog='examples: jaxmbd sweep pendulum --vary "spring.stiffness=100:1000:50" --observe "peak:rod.vx" | jaxmbd sweep pendulum --vary '
        '"spring.stiffness=100:1000:50" --vary "rod.mass=1:5:20:log" --observe "final:rod.y" --store sweep.zarr',
    )
    parser.set_defaults(command=_sweep)
    add_problem_arguments(parser)
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar="NAME=FROM:TO:COUNT[:log]",
        help="values of a parameter, evenly or in equal ratios; or a list, NAME=100,200,400. A star in a name stands for several parameters "
        "that get the same value, tyre_*.stiffness. Several times: all combinations",
    )
    parser.add_argument(
        "--observe",
        action="append",
        required=True,
        metavar="NAME",
        help="one number of each run, such as peak:rod.vx or final:rod.y; several times",
    )
    parser.add_argument("--chunk", type=int, metavar="RUNS", help="runs at once; default: what suits memory and processor")
    parser.add_argument("--store", type=Path, metavar="DIR", help="keeps what is done in this folder, to go on from there")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results go; default: jaxmbd-results/NAME-sweep")


def _sweep(options: argparse.Namespace) -> int:
    problem = find_problem(options.name)
    directory = options.out or Path("jaxmbd-results") / f"{options.name}-sweep"
    fill_in(options, problem)
    try:
        parameters = dict(_read_vary(word) for word in options.vary)
        system = build(options, problem)
        if not isinstance(system, System):
            raise UsageError(f"{options.name} has no parameters that --vary could reach.")
        prepare(directory)
        data = sweep(
            system,
            parameters,
            problem.t1 if options.t1 is None else options.t1,
            observe=options.observe,
            integrator=INTEGRATORS[options.integrator](options.tolerance),
            chunk=options.chunk,
            store=options.store,
            progress=sys.stderr.isatty(),
            step=options.step,
            max_step=problem.max_step,
        )
    except (ValueError, ImportError) as error:
        raise UsageError(error) from None
    codes = data["result"].values
    failed = int(np.sum(codes > 1))
    print(f"{options.name}: {codes.size} runs, {failed} failed")
    for code in np.unique(codes[codes > 1]):
        print(f"  {int(np.sum(codes == code))}: {data['result'].attrs['flag_meanings'][code]}")
    for name in options.observe:
        values = data[name].values
        if failed < codes.size:
            print(f"  {name}: {np.nanmin(values):.6g} to {np.nanmax(values):.6g} {data[name].attrs['units']}")
    print("wrote " + " and ".join(str(path) for path in _write(directory, data, options.observe)))
    return 0 if failed == 0 else 1


def _read_vary(word: str) -> tuple[str, np.ndarray]:
    """A name and its values."""
    name, equals, text = word.partition("=")
    parts = text.split(":")
    try:
        if len(parts) == 1:
            values = np.array([float(part) for part in text.split(",")])
        else:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
            if parts[3:] not in ([], ["log"]) or count < 1 or (parts[3:] and not (low > 0 and high > 0)):
                raise ValueError
            values = np.geomspace(low, high, count) if parts[3:] else np.linspace(low, high, count)
    except (ValueError, IndexError):
        equals = ""
    if not (name and equals):
        raise UsageError(f"--vary {word!r} does not read NAME=FROM:TO:COUNT, NAME=FROM:TO:COUNT:log with positive bounds, or NAME=A,B,C.")
    return name.strip(), values


def _write(directory: Path, data: Any, observed: list[str]) -> list[Path]:
    """Results as arrays, coordinates among them, and as a picture."""
    files = [directory / "sweep.npz"]
    try:
        np.savez(files[0], **{str(name): part.values for name, part in {**data.coords, **data.data_vars}.items()})
        if len(data["result"].dims) <= 2:
            files.append(directory / "plot.png")
            plot_sweep(data, files[1], observe=observed)
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror or error}.") from None
    return files
