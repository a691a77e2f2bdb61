"""The `jaxmbd` command: list the ready-made problems, run one of them, sweep its parameters, fit them to measurements; tell what is
installed."""

import argparse
import sys
import time
import warnings
import webbrowser
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from . import __version__
from .caching import cache_compilations
from .commands.calibrate import add_calibrate
from .commands.info import add_info
from .commands.shared import INTEGRATORS, UsageError, add_problem_arguments, build, fill_in, find_problem, prepare
from .commands.sweep import add_sweep
from .fusing import fuse_loops
from .integrators.base import AbstractIntegrator
from .problems.registry import PROBLEMS, Problem
from .simulate import simulate
from .solution import SimulationError, Solution
from .system.equations import AbstractSystem
from .system.system import System
from .view import plot


def command() -> int:
    """What the installed command runs: `main` in a process of its own."""
    with suppress(RuntimeError):  # a JAX without the option is only slower
        fuse_loops()
    return main(own_process=True)


def main(arguments: Sequence[str] | None = None, own_process: bool = False) -> int:
    """Runs the command and returns its exit code: 0 done, 1 the simulation failed, 2 the command makes no sense.

    `own_process`: settings of JAX may be changed, for nobody else uses it.
    """
    try:
        options = _parser().parse_args(arguments)
        with _plain_warnings():
            if own_process and options.cache:
                cache_compilations()
            return options.command(options)
    except (UsageError, ImportError) as error:  # of an extra that is not installed: it says which
        print(f"jaxmbd: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("jaxmbd: interrupted", file=sys.stderr)
        return 130


# --- arguments ------------------------------------------------------------------------------------------------------


_EXAMPLES = """examples:
  jaxmbd list                                                         the problems and their options
  jaxmbd run double-pendulum                                          run one: a table of its cost, results.npz, plot.png
  jaxmbd run pendulum --set spring.stiffness=300 rod.mass=2 --t1 1    with other numbers
  jaxmbd run chain --option n=16 --integrator bdf --tolerance 1e-6    another size, another method
  jaxmbd sweep pendulum --vary spring.stiffness=100:1000:50 --observe peak:rod.vx
  jaxmbd info                                                         versions, devices, extras, cache

jaxmbd COMMAND --help tells more of each."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jaxmbd",
        description="Multibody dynamics: run ready-made problems. SI units.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"jaxmbd {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    listing = commands.add_parser("list", help="show the problems", description="Shows the problems, with their options.")
    listing.set_defaults(command=_list, cache=False)

    run = commands.add_parser(
        "run",
        help="run a problem",
        description="Runs a problem, prints what it cost, and writes results.npz and plot.png.",
        epilog="examples: jaxmbd run newton-cradle --view | jaxmbd run pendulum --set spring.stiffness=300 rod.mass=2 | "
        "jaxmbd run chain --option n=16 | jaxmbd run double-pendulum --option spatial=true --tolerance 1e-6",
    )
    run.set_defaults(command=_run)
    add_problem_arguments(run)
    run.add_argument("--out", type=Path, metavar="DIR", help="where results go; default: jaxmbd-results/NAME")
    run.add_argument("--view", action="store_true", help="write animation.html too, the mechanism moving, and open it in a browser")
    add_sweep(commands)
    add_calibrate(commands)
    add_info(commands)
    return parser


@contextmanager
def _plain_warnings():
    """Shows warnings as one line on stderr, each once, without the source line."""
    shown = set()

    def show(message, *_, **__):
        if str(message) not in shown:
            shown.add(str(message))
            print(f"jaxmbd: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


# --- list -----------------------------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> int:
    width = max(map(len, PROBLEMS))
    for name, problem in PROBLEMS.items():
        choices = ", ".join(f"{key}={_short(value)}" for key, value in problem.options().items())
        print(f"{name:{width}}  {problem.description}" + (f"  [{choices}]" if choices else ""))
    return 0


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower()


# --- run ------------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    problem = find_problem(options.name)
    directory = options.out or Path("jaxmbd-results") / options.name
    t1 = problem.t1 if options.t1 is None else options.t1
    fill_in(options, problem)
    on_terminal = sys.stderr.isatty()
    begin = time.perf_counter()
    try:
        system = build(options, problem)
        integrator = INTEGRATORS[options.integrator](options.tolerance)
        if options.view and not isinstance(system, System):
            raise UsageError(f"{options.name} is equations without bodies, which --view could not show.")
        prepare(directory)
        if on_terminal:
            print("compiling ...", file=sys.stderr)
        _run_one_step(system, integrator, t1, options.step, problem.max_step)
    except ValueError as error:
        raise UsageError(error) from None
    compiled = time.perf_counter()
    try:
        solution = simulate(system, t1, integrator=integrator, step=options.step, max_step=problem.max_step, progress=on_terminal)
        message = solution.message
    except SimulationError as error:
        solution, message = error.solution, str(error)
    compile_time, run_time = compiled - begin, time.perf_counter() - compiled
    succeeded = bool(solution.succeeded)

    print(f"{options.name}: {problem.description}")
    print(f"{_method(options, problem)}, t = 0 ... {t1:g} s")
    print(f"{_counts(system)}\n")
    _print_table(_table(solution, compile_time, run_time))
    if succeeded:
        print(f"\nresult: {message}")
    else:
        print(f"jaxmbd: failed: {message}", file=sys.stderr)
    files = _write(directory, solution, message)
    if options.view:
        files = (*files, _show(directory, solution, problem, options.name))
    print("wrote " + " and ".join(str(path) for path in files))
    return 0 if succeeded else 1


def _run_one_step(system: AbstractSystem, integrator: AbstractIntegrator, t1: float, step: float | None, max_step: float | None) -> None:
    """Compiles all that the run itself needs, and finds out whether its numbers make sense."""
    if step is not None and not 0 < step < np.inf:
        raise UsageError(f"--step must be a positive number of seconds, got {step:g}.")
    end = t1 if step is None else min(step, t1)
    simulate(system, end, integrator=integrator, step=step, max_step=max_step, max_steps=1, throw=False)


def _method(options: argparse.Namespace, problem: Problem) -> str:
    steps = f"tolerance {options.tolerance:g}" if options.step is None else f"steps of {options.step:g} s"
    if options.step is None and problem.max_step is not None:
        steps += f", steps of at most {problem.max_step:g} s"
    return f"integrator {options.integrator}, {steps}"


def _counts(system: AbstractSystem) -> str:
    """How large the problem is."""
    counts = [(len(system.coordinate_lengths()), "coordinate", "s"), (len(system.row_lengths()), "row", "s of constraints")]
    if (freedoms := system.freedoms()) is not None:
        counts.append((freedoms, "degree", "s of freedom"))
    if isinstance(system, System):
        touching = sum(len(group.names) for group in system.force_groups if group.element.is_contact)
        counts = [(len(system.body_names), "bod", "ies"), *counts, *([(touching, "contact", "s")] if touching else [])]
    singular = {"ies": "y"}
    return ", ".join(f"{n} {word}{end if n != 1 else singular.get(end, end[1:])}" for n, word, end in counts)


_BALANCE = ("energy.total", "energy.supplied", "energy.error")


def _table(solution: Solution, compile_time: float, run_time: float) -> list[tuple[str, str, str]]:
    """Rows of (what, value, remark)."""
    stats = solution.stats
    energy, supplied, error = (np.asarray(part) for part in solution.observe(_BALANCE).values())
    violation = float(np.max(np.asarray(solution.constraint_violation())))
    orders = [] if solution.orders is None else [("mean order", f"{np.mean(solution.orders):.2f}", "of the accepted steps")]
    return [
        ("steps", f"{stats['steps']}", "accepted"),
        *orders,
        ("rejections", f"{stats['rejected']}", "steps tried again with a smaller size"),
        ("Newton iterations", f"{stats['newton_iterations']}", ""),
        ("Jacobians", f"{stats['jacobians']}", "evaluated and factorised"),
        ("compile time", f"{compile_time:.2f} s", "building, and a first call of one step"),
        ("run time", f"{run_time:.3f} s", "a second call, with nothing left to compile"),
        ("energy change", f"{energy[-1] - energy[0]:.3g} J", f"to the end; {energy[0]:.4g} J at the start"),
        ("work", f"{supplied[-1]:.3g} J", "supplied by motors and loads, less what dampers and friction take"),
        ("numerical energy error", f"{error[np.argmax(np.abs(error))]:.2g} J", "largest difference of the two"),
        ("constraint violation", f"{violation:.2g}", "largest, in m or rad"),
    ]


def _print_table(rows: list[tuple[str, str, str]]) -> None:
    label, number = (max(len(row[i]) for row in rows) for i in (0, 1))
    for what, value, remark in rows:
        print(f"  {what:{label}}  {value:>{number}}  {remark}".rstrip())


def _write(directory: Path, solution: Solution, message: str) -> tuple[Path, Path]:
    """Results as arrays and as a picture."""
    data, picture = directory / "results.npz", directory / "plot.png"
    try:
        np.savez(data, **_arrays(solution, message))
        plot(solution, picture)
    except OSError as error:
        raise UsageError(f"cannot write to {directory}: {error.strerror or error}.") from None
    return data, picture


def _show(directory: Path, solution: Solution, problem: Problem, name: str) -> Path:
    """The mechanism moving, in a browser if there is one."""
    page = solution.animate(title=name, camera=problem.camera, speed=problem.speed).save(directory / "animation.html")
    webbrowser.open(page.resolve().as_uri())
    return page


def _arrays(solution: Solution, message: str) -> dict[str, Any]:
    """What results.npz holds: 'ts', 'q', ..., 'rod.position', ..., 'stats.steps', ..., one row a saved time."""
    found: dict[str, Any] = {
        "ts": solution.ts,
        "q": solution.q,
        "v": solution.v,
        "x": solution.x,
        "multipliers": solution.multipliers,
        "steps": solution.steps,
        "message": message,
        **{f"energy.{name}": values for name, values in solution.energy()._asdict().items()},
        **{f"stats.{name}": value for name, value in solution.stats.items()},
    }
    if isinstance(solution.system, System):
        for name, (group, _, _) in solution.system.body_slices().items():
            found[f"{name}.position"] = solution.position(name)
            found[f"{name}.velocity"] = solution.velocity(name)
            if group.body.has_orientation:
                found[f"{name}.orientation"] = solution.orientation(name)
                found[f"{name}.angular_velocity"] = solution.angular_velocity(name)
    return {name: np.asarray(value) for name, value in found.items()}


if __name__ == "__main__":
    sys.exit(command())
