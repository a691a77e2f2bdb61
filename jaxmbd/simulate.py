"""One run, as users ask for it."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from .control.base import AbstractController
from .integrators.base import AbstractIntegrator
from .integrators.hht import HHT
from .running.derivatives import AbstractAdjoint, read_adjoint
from .running.kernels import read_kernels
from .running.options import expect_type, read_options
from .running.prescribed import Steps
from .running.segments import run_in_segments
from .running.starting import Job, fitting, own_beginning
from .running.whole import run_whole
from .solution import Solution
from .system.building.model import Model
from .system.equations import AbstractSystem, check_shapes
from .system.faults.validity import first_unusable, traced_settings
from .system.parameters import is_traced
from .system.state import State
from .system.system import System

_TRACED_STEPS = 4096
"""Room for accepted steps under jit, grad or vmap, where shapes must be known beforehand, unless max_steps says otherwise."""


def simulate(
    model: Model | AbstractSystem,
    t1: Any,
    *,
    t0: Any = None,
    integrator: AbstractIntegrator | None = None,
    initial: State | None = None,
    saveat: Any = None,
    step: Any = None,
    until: Any = None,
    first_step: Any = None,
    min_step: Any = None,
    max_step: Any = None,
    controller: AbstractController | None = None,
    adjoint: str | AbstractAdjoint = "reverse",
    max_steps: int | None = None,
    progress: bool = False,
    kernels: str = "auto",
    throw: bool = True,
) -> Solution:
    """Simulates from t0 to t1 [s].

    - `model`: a Model, a built System, or a user's own AbstractSystem.
    - `initial`: a state to start from, such as `solution.final`, as it is or changed; positions and velocities are projected onto the
      constraints. t0 is its time unless given.
    - `saveat`: None saves every accepted step (refused beyond 4 GB), an array of increasing times saves interpolated states; or an
      `mbd.SaveAt`, with `mbd.SaveAt(t1=True)` for the end alone.
    - `step`: None for adaptive steps, a number for steps of one size (the last one shortened to meet t1), an array to replay steps. One that
      is too large for an explicit method, or for the regularisation of friction, is warned of, but not under jit, grad or vmap, where
      numbers are not known: call once without.
    - `until`: what ends the run before t1: an `mbd.Event`, the name of an observable that crosses zero, or a function of the motion at one time
      that does, `lambda now: now["ball.z"] - 0.1`; a list of them, or a dict by name. `solution.event` tells which of them did, -1 if none,
      and the last row is the state there, found by interpolation in the step that crossed. Saved times after it repeat it under jit, grad
      and vmap; otherwise they are left out. The time of an event has a derivative.
    - `first_step`, `min_step`, `max_step`: bounds of adaptive steps [s].
    - `controller`: None for the integrator's own.
    - `adjoint`: "reverse" (or `mbd.Reverse()`) serves all of jax.grad, jax.jvp, jax.hessian and their kin, by the recorded steps;
      "forward" (or `mbd.Forward()`) differentiates the loop itself, in forward mode only. Derivatives are those of the accepted steps; step
      sizes, t1 and saved times count as constants, and to ask for a derivative by them is an error.
    - `max_steps`: bound of accepted steps, prescribed ones too; a million unless given. Under jit, grad or vmap it is 4096 unless given,
      and sizes what is kept of adaptive runs if every step is saved or a reverse derivative asked for; otherwise it costs no memory.
    - `progress`: shows a progress bar (outside jit).
    - `kernels`: how XLA compiles for a CPU. "scalar": a run, or every lane of a batch, is one kernel in which all arrays are taken apart into
      numbers: many times faster for mechanisms of a few bodies, but compiling takes longer with every body. "array": arrays, lanes side by side.
      "auto": scalars for batches of small mechanisms. Other devices always take arrays. Where numbers become too many the run takes
      arrays all the same.
    - `throw`: raise if the run fails. With False, the solution holds what there is and `solution.result` says why it ended, lane by lane
      in a batch; the program then makes no calls to the host, which a GPU would have to wait for.
    """
    system = model.build() if isinstance(model, Model) else model
    expect_type("model", system, AbstractSystem, "an mbd.Model or an mbd.AbstractSystem")
    expect_type("integrator", integrator, AbstractIntegrator | None, "an integrator such as mbd.HHT()")
    expect_type("controller", controller, AbstractController | None, "a controller such as mbd.LocalError()")
    expect_type("initial", initial, State | None, "a state such as solution.final")
    given = dict(t0=t0, t1=t1, first_step=first_step, min_step=min_step, max_step=max_step, integrator=integrator, controller=controller)
    options, differentiated = read_options(locals()), read_adjoint(adjoint)
    method: AbstractIntegrator = (HHT() if integrator is None else integrator).suited(system)
    if not isinstance(system, System):
        check_shapes(system)
    method.refuse_multiplier_forces(system)
    method.check(system)
    steps: Steps | None = options.pop("steps")
    if steps is not None:
        method = method.precise()
        if len(steps) > 0:
            options["first_step"] = jnp.asarray(steps[:1])[0]
    chosen = (method.default_controller() if controller is None else controller).suited(method)
    chosen.check(system, method)
    job = Job(
        system,
        method,
        chosen,
        own_beginning(system.nameless()) if initial is None else fitting(system, initial),
        **options,
        kernels=read_kernels(kernels, system),
    )
    if is_traced(job, steps):
        wanted = _TRACED_STEPS if steps is None else len(steps)
        count = int(max_steps or wanted) if steps is None else min(int(max_steps or wanted), wanted)
        sizes = None if steps is None else jnp.asarray(steps[:count])
        numbers = {name: getattr(job, name) for name, value in given.items() if is_traced(value)} | {"step": steps}
        levels = {} if job.events is None else {f"level of event {event.name!r}": event.level for event in job.events.events}
        settings, values = traced_settings(numbers | levels)
        unusable = first_unusable(system, values)
        solution = run_whole(
            job.nameless(), sizes, unusable, capacity=count, complete=steps is None or count == wanted, adjoint=differentiated
        )
        solution = dataclasses.replace(solution, system=system, settings=settings)
        return solution.raise_if_failed() if throw else solution
    return run_in_segments(job, steps, max_steps, progress, throw)
