"""Derivatives of runs: through impacts, where motion is chaotic, in both modes, what they cost and how much memory they take.

    python benchmarks/gradients.py [impacts chaos modes cost memory] [--vehicle] [--repeat 3]

- impacts: our derivative of a place after impacts, central differences over the same steps, the closed form where there is one;
- chaos: the derivative of a double pendulum's angle by its start, over time: it grows as neighbouring trajectories part;
- modes: forward against reverse mode against central differences, every integrator of the list on a mechanism that suits it;
- cost: CPU time of run and gradient of the planar double pendulum (with `--vehicle` of the vehicle too), and of compiling them;
- memory: peak memory of a process that runs and differentiates 10^3, 10^4, 10^5 steps. The rule: reverse mode records the states after
  all accepted steps (max_steps rows under jit), and nothing within a step: it is computed again on the way back.

Times are CPU seconds of the whole process, so that other programs hardly matter; compiling is counted apart.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from parts import run_parts

import jaxmbd as mbd

GRAVITY, RADIUS, MASS = 9.81, 0.03, 0.1


# --- through impacts ------------------------------------------------------------------------------------------------------------------------


class Impact(NamedTuple):
    """A number of a run, as a function of one parameter."""

    name: str
    system: Callable[[Any], mbd.System]
    observed: Callable[[Any], Any]
    at: float
    t1: float
    integrator: mbd.AbstractIntegrator
    options: dict[str, Any]
    exact: Callable[[float], Any] | None = None
    """the same number in closed form"""


def bouncing(parameter: str) -> Callable[[Any], mbd.System]:
    """A disc falls onto a floor that gives way by a spring, without losses."""
    height = 0.5
    disc = mbd.PlanarBody("ball", MASS, 0.5 * MASS * RADIUS**2, position=(0.0, RADIUS + height))
    place = {"centre": (0.0, RADIUS + height), "radius": RADIUS, "point": (0, 0), "normal": (0, 1)}
    floor = mbd.DiscLine("floor", disc, mbd.ground, **place, law=mbd.LinearContact(1e5))
    system = mbd.Model([disc], [], [mbd.Gravity((0, -GRAVITY)), floor]).build()

    def changed(value: Any) -> mbd.System:
        if parameter == "floor.stiffness":
            return system.set({parameter: value})
        # By the height above the floor: the floor sinks, so that the shapes of the start stay.
        return system.set({"floor.point": jnp.stack([0.0, height - value])})

    return changed


def bounce(height: Any, stiffness: Any, t: float, impacts: int) -> Any:
    """Height of the ball's centre over the first contact's height after so many impacts: parabolas and arcs of the spring's oscillation."""
    fall = jnp.sqrt(2 * height / GRAVITY)
    speed, rate = GRAVITY * fall, jnp.sqrt(stiffness / MASS)
    contact = 2 / rate * (jnp.pi - jnp.arctan(speed * rate / GRAVITY))  # m y'' = -m g - k y from y = 0, y' = -speed, until y = 0 again
    since = t - fall - impacts * contact - (impacts - 1) * 2 * fall
    return speed * since - 0.5 * GRAVITY * since**2


def bounces(impacts: int, parameter: str, integrator: mbd.AbstractIntegrator, label: str, **options: Any) -> Impact:
    height, stiffness = 0.5, 1e5
    fall = np.sqrt(2 * height / GRAVITY)
    t1 = float((2 * impacts + 0.6) * fall + impacts * np.pi * np.sqrt(MASS / stiffness))
    by_height = parameter == "height"
    # The run's y counts from where the ball hung, the closed form's from where it touches.
    return Impact(
        f"{impacts:2d} by {parameter}, {label}",
        bouncing(parameter),
        lambda run: run.observe("final:ball.y"),
        height if by_height else stiffness,
        t1,
        integrator,
        options,
        (lambda p: bounce(p, stiffness, t1, impacts) - p) if by_height else (lambda p: bounce(height, p, t1, impacts)),
    )


def toss() -> Impact:
    """A box falls onto its edge, tumbles and slides."""
    box = mbd.RigidBody(
        "box", 0.4, (7e-4, 8e-4, 9e-4), (0, 0, 0.12), orientation=(0.9, 0.3, 0.2, 0.25), velocity=(1.0, 0.3, 0), angular_velocity=(2, 4, 1)
    )
    law, rub = mbd.LinearContact(2e4, damping=40.0), mbd.Coulomb(0.3, regularisation=0.05)
    floor = mbd.BoxPlane("floor", box, mbd.ground, (0.1, 0.11, 0.12), (0, 0, 0), (0, 0, 1), law, rub)
    system = mbd.Model([box], [], [mbd.Gravity((0, 0, -GRAVITY)), floor]).build()
    changed = lambda p: system.set({"floor.friction.kinetic": p})  # noqa: E731
    return Impact("box toss by friction, verlet", changed, lambda run: run.observe("final:box.x"), 0.3, 0.3, mbd.Verlet(), {"step": 1e-4})


def cradle() -> Impact:
    """What the last ball does, by the stiffness of all contacts."""
    system = mbd.problems.newton_cradle(balls=3).build()
    at = float(system.get("contact[0].stiffness"))
    changed = lambda p: system.set({"contact[0].stiffness": p, "contact[1].stiffness": p})  # noqa: E731
    seen = lambda run: run.observe("final:ball[2].x")  # noqa: E731
    return Impact("Newton's cradle by stiffness, hht", changed, seen, at, 0.35, mbd.HHT(1e-6), {"max_step": 2e-3})


def impacts(_: argparse.Namespace) -> None:
    landing = {"max_step": 0.01, "controller": mbd.control.AtContacts()}
    rough, fine = mbd.RosenbrockNystrom(1e-8, 1e-8), mbd.RosenbrockNystrom(1e-10, 1e-10)
    cases = [
        *(bounces(n, "height", mbd.Verlet(), "verlet, 20 us", step=2e-5) for n in (1, 3, 10)),
        *(bounces(n, "height", rough, "rosenbrock 1e-8", max_step=0.01) for n in (1, 3, 10)),
        *(bounces(n, "height", rough, "rosenbrock 1e-8, at contacts", **landing) for n in (1, 3, 10)),
        *(bounces(n, "height", fine, "rosenbrock 1e-10, at contacts", **landing) for n in (1, 3, 10)),
        *(bounces(n, "floor.stiffness", fine, "the same", **landing) for n in (1, 3, 10)),
        bounces(3, "height", mbd.HHT(1e-7), "hht 1e-7", max_step=0.01),
        bounces(3, "height", mbd.HHT(1e-7), "hht 1e-7, at contacts", **landing),
        toss(),
        cradle(),
    ]
    print("derivatives through impacts of an elastic ball, a box and three balls (differences: central, over the same steps)")
    print("  at contacts, an increment moves the kinks out of the tiny steps that they were in: differences are not right there")
    print(f"{'':45}{'derivative':>14}{'differences':>14}{'relative':>10}{'closed form':>14}{'relative':>10}")
    for case in cases:
        first = mbd.simulate(case.system(case.at), case.t1, integrator=case.integrator, **case.options)
        steps = np.asarray(first.steps)

        def value(p: Any, case: Impact = case, steps: np.ndarray = steps) -> Any:
            return case.observed(
                mbd.simulate(case.system(p), case.t1, integrator=case.integrator, step=steps, adjoint="forward", throw=False)
            )

        slope = jax.jit(jax.jacfwd(value))
        plain = jax.jit(value)
        increment = 1e-6 * case.at
        found = float(slope(case.at))
        expected = float((plain(case.at + increment) - plain(case.at - increment)) / (2 * increment))
        row = f"{case.name:45}{found:14.6g}{expected:14.6g}{abs(found / expected - 1):10.1e}"
        if case.exact is not None:
            exact = float(jax.grad(case.exact)(case.at))
            row += f"{exact:14.6g}{abs(found / exact - 1):10.1e}"
        print(row, flush=True)


# --- where motion is chaotic ----------------------------------------------------------------------------------------------------------------


def chaos(_: argparse.Namespace) -> None:
    rods = [mbd.PlanarBody(f"rod{k}", 1.0, 1 / 12, position=(k + 0.5, 0.0)) for k in range(2)]
    hinges = [
        mbd.Revolute("hinge0", mbd.ground, rods[0], point=(0, 0)),
        mbd.Revolute("hinge1", rods[0], rods[1], point=(1, 0)),
    ]
    system = mbd.Model(rods, hinges, [mbd.Gravity((0, -GRAVITY))]).build()
    ts = np.arange(0.0, 16.1, 2.0)

    def angle(start: Any) -> Any:
        initial = mbd.pose(system, {"rod0.angle": start, "rod1.angle": 2.5})
        run = mbd.simulate(
            system,
            ts[-1],
            t0=0.0,
            integrator=mbd.RosenbrockNystrom(1e-9, 1e-9),
            initial=initial,
            saveat=ts,
            adjoint="forward",
            max_steps=100_000,
        )
        return run.observe("rod1.angle")

    slope, plain = jax.jit(jax.jacfwd(angle)), jax.jit(angle)
    found = np.asarray(slope(2.0))
    print("\na free double pendulum, started high: d(angle of the second rod) / d(angle of the first at the start)")
    print(f"{'t [s]':>8}{'derivative':>14}" + "".join(f"{f'differences {e:g}':>20}" for e in (1e-3, 1e-5, 1e-7)))
    columns = [np.asarray(plain(2.0 + e) - plain(2.0 - e)) / (2 * e) for e in (1e-3, 1e-5, 1e-7)]
    for i, t in enumerate(ts):
        print(f"{t:8.0f}{found[i]:14.4g}" + "".join(f"{column[i]:20.4g}" for column in columns))


# --- in both modes --------------------------------------------------------------------------------------------------------------------------


def four_bar(p: Any) -> mbd.System:
    system = _FOUR_BAR
    return system.set({"coupler.mass": p * system.get("coupler.mass")})


_FOUR_BAR = mbd.problems.four_bar().build()
_BALL = bouncing("floor.stiffness")
METHODS: dict[str, tuple[mbd.AbstractIntegrator, str]] = {
    "hht": (mbd.HHT(1e-5), "joints"),
    "bdf": (mbd.BDF(1e-6), "joints"),
    "rosenbrock-nystrom": (mbd.RosenbrockNystrom(1e-6, 1e-6), "joints"),
    "rodas4": (mbd.Rodas4(1e-6, 1e-6), "joints"),
    "w-method": (mbd.WMethod(1e-4, 1e-4), "joints"),
    "dormand-prince": (mbd.DormandPrince(1e-6, 1e-6), "joints"),
    "adams": (mbd.AdamsPECE(1e-5, 1e-5), "joints"),
    "semi-explicit": (mbd.SemiExplicit(0.5, 0.6), "contact"),
    "verlet": (mbd.Verlet(), "contact"),
    "explicit-nystrom": (mbd.ExplicitNystrom(), "contact"),
    "theta": (mbd.Theta(), "contact"),
    "verlet, contact power": (mbd.Verlet(), "power"),
    "verlet, local error": (mbd.Verlet(1e-6), "adaptive"),
}


def modes(_: argparse.Namespace) -> None:
    print("\none derivative in both modes, and central differences over the same steps")
    print(f"{'':26}{'steps':>7}{'reverse':>14}{'to forward':>12}{'to differences':>16}")
    for name, (method, kind) in METHODS.items():
        joints = kind == "joints"
        make = four_bar if joints else lambda p: _BALL(1e5 * p)
        t1, seen = (0.1, "final:coupler.x") if joints else (0.4, "final:ball.y")
        options: dict[str, Any] = {"step": 2e-4} if kind == "contact" else {}
        if kind == "power":
            options = {"controller": mbd.control.ContactPower(0.05, 5e-4, 0.3)}
        first = mbd.simulate(make(1.0), t1, integrator=method, **options)
        replay = {"step": np.asarray(first.steps)}
        if isinstance(method, mbd.BDF):
            method = mbd.BDF(1e-6, orders=np.asarray(first.orders))

        def value(
            p: Any, adjoint: str, make: Any = make, t1: float = t1, seen: str = seen, method: Any = method, replay: Any = replay
        ) -> Any:
            return mbd.simulate(make(p), t1, integrator=method, adjoint=adjoint, throw=False, **replay).observe(seen)

        reverse = float(jax.jit(jax.grad(lambda p: value(p, "reverse")))(1.0))
        ahead = jax.jit(jax.jacfwd(lambda p: value(p, "forward")))
        forward = float(ahead(1.0))
        plain = jax.jit(lambda p: value(p, "forward"))
        expected = float(plain(1 + 1e-5) - plain(1 - 1e-5)) / 2e-5
        print(
            f"{name:26}{len(first.steps):7d}{reverse:14.6g}{abs(reverse / forward - 1):12.1e}{abs(reverse / expected - 1):16.1e}",
            flush=True,
        )


# --- what it costs --------------------------------------------------------------------------------------------------------------------------


def cost(options: argparse.Namespace) -> None:
    double = mbd.problems.double_pendulum().build()
    held = _held_by_penalties()
    cases = {
        "double pendulum, hht": (double, "spring1.stiffness", 1.0, mbd.HHT(1e-5), {}),
        "double pendulum, bdf": (double, "spring1.stiffness", 1.0, mbd.BDF(1e-5), {}),
        "double pendulum, rosenbrock-nystrom": (double, "spring1.stiffness", 1.0, mbd.RosenbrockNystrom(1e-4, 1e-4), {}),
        "pendulum on penalties, semi-explicit": (held, "rod.mass", 1.0, mbd.SemiExplicit(0.5, 0.6), {"step": 2e-3}),
    }
    if options.vehicle:
        truck = mbd.problems.hmmwv().build()
        cases["vehicle, rosenbrock-nystrom"] = (truck, "chassis.mass", 1.0, mbd.RosenbrockNystrom(1e-3, 1e-3), {"max_step": 0.02})
    print("\nCPU seconds of a run and of its gradient; compiling apart")
    print(f"{'':40}{'run [ms]':>10}{'gradient [ms]':>15}{'ratio':>8}{'compile [s]':>13}{'gradient [s]':>14}{'ratio':>8}")
    for name, (system, parameter, t1, method, more) in cases.items():
        at = jnp.asarray(system.get(parameter), float)

        def end(p: Any, system: Any = system, parameter: str = parameter, t1: float = t1, method: Any = method, more: Any = more) -> Any:
            run = mbd.simulate(system.set({parameter: p}), t1, integrator=method, max_steps=4096, throw=False, **more)
            return jnp.sum(run.final.q)

        compiling, running = zip(*(_timed(function, at, options.repeat) for function in (end, jax.grad(end))), strict=True)
        print(
            f"{name:40}{1e3 * running[0]:10.2f}{1e3 * running[1]:15.2f}{running[1] / running[0]:8.1f}"
            f"{compiling[0]:13.1f}{compiling[1]:14.1f}{compiling[1] / compiling[0]:8.1f}",
            flush=True,
        )


def _held_by_penalties() -> mbd.System:
    rod = mbd.PlanarBody("rod", 1.0, 0.03, position=(0.3, 0.0))
    hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0), penalty=mbd.Penalty(1e6, 1e2))
    return mbd.Model([rod], [hinge], [mbd.Gravity((0, -GRAVITY))]).build()


def _timed(function: Callable[[Any], Any], at: Any, repeat: int) -> tuple[float, float]:
    """(to trace and compile, to run: the least of several), in CPU seconds."""
    begin = time.process_time()
    program = jax.jit(function).lower(at).compile()
    compiled = time.process_time() - begin
    jax.block_until_ready(program(at))
    least = np.inf
    for _ in range(repeat):
        begin = time.process_time()
        jax.block_until_ready(program(at))
        least = min(least, time.process_time() - begin)
    return compiled, least


# --- memory ---------------------------------------------------------------------------------------------------------------------------------

_CHILD = """
import sys
import numpy as np, jax, jax.numpy as jnp
import jaxmbd as mbd
count, wanted = int(sys.argv[1]), sys.argv[2]
rod = mbd.PlanarBody("rod", 1.0, 0.03, position=(0.3, 0.0))
hinge = mbd.Revolute("hinge", mbd.ground, rod, point=(0, 0))
system = mbd.Model([rod], [hinge], [mbd.Gravity((0, -9.81))]).build()
def end(p):
    steps = jnp.full(count, 1e-3)
    run = mbd.simulate(system.set({"rod.mass": p}), 1e-3 * count, integrator=mbd.HHT(1e-5), step=steps, max_steps=count, 
        saveat=mbd.SaveAt(t1=True), throw=False)
    return run.final.q[2]
print(float(jax.jit(end if wanted == "run" else jax.grad(end))(1.0)))
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


def memory(_: argparse.Namespace) -> None:
    print("\npeak memory of a process [MB], HHT on a planar pendulum (3 coordinates, 2 multipliers)")
    for count in (10**3, 10**4, 10**5):
        row = []
        for wanted in ("run", "gradient"):
            told = subprocess.run([sys.executable, "-c", _CHILD, str(count), wanted], capture_output=True, text=True, check=True).stdout
            row.append(float(told.split()[-1]))
        print(f"  {count:7d} steps: run {row[0]:.0f}, gradient {row[1]:.0f}", flush=True)


PARTS = {"impacts": impacts, "chaos": chaos, "modes": modes, "cost": cost, "memory": memory}

if __name__ == "__main__":
    run_parts(
        __doc__,
        PARTS,
        {
            "--vehicle": {"action": "store_true", "help": "the vehicle's gradient too, which compiles for minutes"},
            "--repeat": {"type": int, "default": 3, "help": "of which the least time counts"},
        },
    )
