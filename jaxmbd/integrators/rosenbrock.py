"""Rosenbrock-Nystrom methods on the state-space form: linearly implicit, no Newton iteration for the step itself.

```bibtex
@article{negrut2003rosenbrock,
  title={A {Rosenbrock-Nystrom} state space implicit approach for the dynamic analysis of mechanical systems:
         {II} -- The method and numerical examples},
  author={Negrut, Dan and Sandu, Adrian and Haug, Edward J. and Potra, Florian A. and Sandu, Corina},
  year={2003}
}
```
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..solvers import linear
from ..system.equations import AbstractSystem
from ..system.state import State
from .base import StepInfo, Work
from .state_space.base import AbstractStateSpace, evaluate_after, read_method
from .state_space.local import LocalSystem
from .state_space.partition import Partition, Tangent, tangent
from .state_space.reduction import Jacobians, Point, differentiate
from .tableaux import NEGRUT4, RODAS4, VERWER2, NystromTableau, RosenbrockTableau


class ServingJacobians(eqx.Module):
    """What the method hands from step to step."""

    partition: Partition
    jacobians: Jacobians | None
    """the last ones, if they are to serve several steps"""
    age: Int[Array, ""]
    """how many steps they have served"""


class AbstractRosenbrock(AbstractStateSpace):
    """What all Rosenbrock methods share: all but the tableau.

    With z = (y', x), F = (y'', x'), J1 = F_y and J2 = F_z, the stages are

        [I / gamma - h (J2 + gamma h J1)] l_i = h F(t + alpha_i h, y + alpha_i h y' + h sum theta_ij l_j, z + sum a_ij l_j)
                                                + sum c_ij l_j + gamma_i h^2 F_t + h^2 J1 (gamma_i y' + sum delta_ij l_j)

    where J1 acts on the part of l that belongs to y'. Then y_new = y + h y' + h sum mu_i l_i and z_new = z + sum m_i l_i. The state at the
    end of a step has its accelerations, so the first function value of the next one costs nothing.
    """

    reuse: eqx.AbstractVar[int]
    scaled_error: eqx.AbstractVar[bool]
    tableau: eqx.AbstractClassVar[RosenbrockTableau]

    def local(self, system: AbstractSystem, q: Array) -> LocalSystem | None:
        """What steps are taken in, if not in the system's own coordinates: these have names, and are chosen from, if the user asks for it."""
        return LocalSystem(system, q) if system.own_rows() > 0 and self.independent is None else None

    def init(self, system: AbstractSystem, state: State) -> tuple[State, Any]:
        local = self.local(system, state.q)
        partition = self.first_partition(system, state) if local is None else self.first_partition(local, local.enter(state))
        d, k = partition.independent.shape[0], state.x.shape[0]
        empty = Jacobians(jnp.zeros((d + k, d)), jnp.zeros((d + k, d + k)), jnp.zeros(d + k))
        carried = ServingJacobians(partition, empty if self.reuse > 1 else None, jnp.asarray(self.reuse, jnp.int32))
        return dataclasses.replace(state, method=carried), None

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        del known  # it is the end of the step; the stages would still have to be searched
        system = system.recall(state.memory)
        local = self.local(system, state.q)
        if local is None:
            new, info = self._step(system, state, h)
            return new, scratch, info
        new, info = self._step(local, local.enter(state), h)
        turn = jax.lax.stop_gradient(local.largest_turn(new.q)) / _largest_turn(self.atol + self.rtol)
        error = jnp.maximum(info.error, turn ** (self.order + 1))
        return local.leave(new), scratch, dataclasses.replace(info, error=error, worst=local.unknown(info.worst))

    def _step(self, system: AbstractSystem, state: State, h: Array) -> tuple[State, StepInfo]:
        partition = state.method.partition
        method, d = self.tableau.nystrom(), partition.independent.shape[0]
        here = tangent(system, state.memory, partition, state.q, state.t)
        jacobians, fresh = self._jacobians(system, state, here)
        by_position = jnp.pad(jacobians.by_position, ((0, 0), (0, state.x.shape[0])))
        matrix = jnp.eye(by_position.shape[0]) / method.gamma - h * (jacobians.by_rate + method.gamma * h * by_position)
        factors = linear.factorize(jax.lax.stop_gradient(matrix))

        def solve(right: Array) -> Array:
            return linear.solve_differentiably(matrix, factors, right)

        end, stages = _take_stages(system, state, here, jacobians, method, h, solve)
        error, position_error = jnp.asarray(method.m_error) @ stages, h * (jnp.asarray(method.mu_error) @ stages[:, :d])
        if self.scaled_error:
            # (I - gamma h J)^-1 error, with J of the first-order system (y, z)' = (y', F)
            error = solve(error + method.gamma * h * jacobians.by_position @ position_error) / method.gamma
            position_error = position_error + method.gamma * h * error[:d]
        errors = self.errors(system, state, end, partition, position_error, error[:d], error[d:])
        evaluations = jnp.asarray(method.evaluations, jnp.int32)
        # Factorised are Phi_u at the start and at every evaluation, and the matrix above.
        work = Work(end.iterations, fresh + 0, end.jacobians + method.evaluations + 2, evaluations, evaluations, evaluations)
        info = self.judge(state, end, here, errors, work)
        return end.to_state(state.memory, self._carry(system, state, end, jacobians, fresh)), info

    def _jacobians(self, system: AbstractSystem, state: State, here: Tangent) -> tuple[Jacobians, Array]:
        """Those of this state, or older ones if they may serve again; and whether they are fresh."""
        carried: ServingJacobians = state.method
        if carried.jacobians is None:
            return self.differentiate(system, state, here), jnp.array(True)
        fresh = carried.age >= self.reuse
        found = jax.lax.cond(eqxi.unvmap_any(fresh), lambda: self.differentiate(system, state, here), lambda: carried.jacobians)
        return jax.tree.map(lambda new, old: jnp.where(fresh, new, old), found, carried.jacobians), fresh

    def differentiate(self, system: AbstractSystem, state: State, here: Tangent) -> Jacobians:
        return differentiate(system, state, here)

    def _carry(self, system: AbstractSystem, state: State, end: Point, jacobians: Jacobians, fresh: Array) -> ServingJacobians:
        carried: ServingJacobians = state.method
        partition = self.next_partition(system, end)
        if carried.jacobians is None:
            return ServingJacobians(partition, None, carried.age)
        changed = jnp.any(partition.independent != carried.partition.independent)  # then the Jacobians belong to other coordinates
        age = jnp.where(changed, self.reuse, jnp.where(fresh, 1, carried.age + 1))
        return ServingJacobians(partition, jacobians, age.astype(carried.age.dtype))


def _largest_turn(tolerance: Array) -> Array:
    """rad, in a step. Even turning has hardly an error, however long the step, but what is between steps has: polynomials of degree 5 in the
    Euler parameters, sines and cosines of half the angle, err by (angle / 2)^6 / 46080. Beyond half a turn local coordinates degenerate."""
    return jnp.minimum(jnp.pi, 2.0 * (46080.0 * jax.lax.stop_gradient(tolerance)) ** (1.0 / 6.0))


def _take_stages(
    system: AbstractSystem,
    state: State,
    here: Tangent,
    jacobians: Jacobians,
    method: NystromTableau,
    h: Array,
    solve: Callable[[Array], Array],
) -> tuple[Point, Float[Array, "stages s"]]:
    """The end of the step and the stages l_i. The end is one more row of the tableau: so the equations stand in the program once, and it
    compiles in the time of one evaluation."""
    chosen, d = here.partition.independent, here.slope.shape[1]
    y, y_rate = state.q[chosen], state.v[chosen]
    z = jnp.concatenate([y_rate, state.x])

    def stage(carry, row):
        last, stages = carry
        i, time, slope, a, c, theta, delta, reuses = row
        moved = y + h * (time * y_rate + theta @ stages[:, :d])
        turned = z + a @ stages

        def fly():
            free = state.q + time * h * state.v + 0.5 * (time * h) ** 2 * state.acceleration
            guess = free + here.slope @ (moved - free[chosen])
            return evaluate_after(system, state, last, state.t + time * h, moved, turned[:d], turned[d:], guess)

        point = jax.lax.cond(reuses, lambda: last, fly)
        value = jnp.concatenate([point.acceleration[chosen], point.state_rate])
        right = h * value + c @ stages + slope * h**2 * jacobians.by_time
        right = right + h**2 * jacobians.by_position @ (slope * y_rate + delta @ stages[:, :d])
        # The row after the last stage is the end of the step: nothing to keep.
        return (point, stages.at[i].set(solve(right), mode="drop")), None

    count = method.times.shape[0]
    rows = (
        jnp.arange(count),
        *map(jnp.asarray, (method.times, method.slopes, method.a, method.c, method.theta, method.delta, method.reuses)),
    )
    start = Point.of_state(state, here), jnp.zeros((count - 1, z.shape[0]))
    (end, stages), _ = jax.lax.scan(stage, start, rows)
    return end, stages


class RosenbrockNystrom(AbstractRosenbrock):
    """The L-stable method of order 4 with three function evaluations and an embedding of order 3 (Tables 1 and 2).

    For stiff mechanisms at large steps: springs and dampers of any stiffness cost no more than soft ones. Joints are eliminated: constraints
    hold at every step for positions, velocities and accelerations. Rigid bodies in space move in turns about their own axes, counted from the
    beginning of the step (`LocalSystem`), unless `independent` names coordinates.

    A linearly implicit method loses order where a stiff force is curved in the coordinates: steps then fall like the root of the tolerance.
    The stiff flyball governor of the IFToMM benchmarks, 10 s at a tolerance of 1e-6, takes 2568 steps (in Euler parameters 10686), with
    `scaled_error` 963, `Rodas4` 741, with errors of the sleeve's position of 1.1e-5 m (2.8e-6), 9.9e-5 m and 1.5e-4 m
    (`benchmarks/turning.py`). BDF takes 382 and errs by 8.3e-4 m. On a rattleback, whose friction is stiff where it nearly sticks, it takes
    7071 steps where BDF takes 1076, and errs by 2.3e-4 where BDF errs by 0.16; with 1243 steps, at 1e-4, by 0.035.

    - `rtol`, `atol`: allowed local error of independent coordinates and of their rates (m, rad, m/s, rad/s), (4).
    - `independent`: coordinates to integrate, such as ("rod1.angle", "rod2.angle") or places in q. None: chosen by pivoting, of rigid bodies
      in space among their motions along and about their own axes, and chosen anew when the choice has become a poor one.
    - `scaled_error`: multiplies the error estimate by (I - gamma h J)^-1, which takes from it what a stiff spring adds. Measured on the stiff
      double pendulum and on the vehicle: up to 15 % fewer steps, errors between a quarter and three times (`benchmarks/papers/rosenbrock.py`).
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    independent: tuple[str | int, ...] | None = eqx.field(static=True)
    scaled_error: bool = eqx.field(static=True)
    reuse: int = eqx.field(static=True)
    tableau: ClassVar[RosenbrockTableau] = NEGRUT4
    order: ClassVar[int] = 3
    name: ClassVar[str] = "rosenbrock-nystrom"

    def __init__(self, rtol: Any = 1e-4, atol: Any = 1e-4, independent: Sequence[str | int] | None = None, *, scaled_error: bool = False):
        read_method(self, rtol, atol, independent)
        self.scaled_error, self.reuse = scaled_error, 1


class WMethod(AbstractRosenbrock):
    """The method of order 2 of Table 3 (Verwer et al. 1997), L-stable, which keeps its order with an inexact Jacobian.

    `reuse` is how many steps use the same Jacobian. The other arguments are those of `RosenbrockNystrom`.
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    independent: tuple[str | int, ...] | None = eqx.field(static=True)
    scaled_error: bool = eqx.field(static=True)
    reuse: int = eqx.field(static=True)
    tableau: ClassVar[RosenbrockTableau] = VERWER2
    order: ClassVar[int] = 1
    name: ClassVar[str] = "w-method"

    def __init__(
        self,
        rtol: Any = 1e-4,
        atol: Any = 1e-4,
        independent: Sequence[str | int] | None = None,
        *,
        reuse: int = 1,
        scaled_error: bool = False,
    ):
        read_method(self, rtol, atol, independent)
        if isinstance(reuse, bool) or not isinstance(reuse, int) or reuse < 1:
            raise ValueError(f"reuse of WMethod must be a whole number of steps, at least 1, got {reuse!r}.")
        self.scaled_error, self.reuse = scaled_error, reuse


class Rodas4(AbstractRosenbrock):
    """The stiffly accurate method of order 4 of Hairer and Wanner, six function evaluations: for very stiff systems and tight tolerances.

    The arguments are those of `RosenbrockNystrom`.
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    independent: tuple[str | int, ...] | None = eqx.field(static=True)
    scaled_error: bool = eqx.field(static=True)
    reuse: int = eqx.field(static=True)
    tableau: ClassVar[RosenbrockTableau] = RODAS4
    order: ClassVar[int] = 3
    name: ClassVar[str] = "rodas4"

    def __init__(self, rtol: Any = 1e-4, atol: Any = 1e-4, independent: Sequence[str | int] | None = None, *, scaled_error: bool = False):
        read_method(self, rtol, atol, independent)
        self.scaled_error, self.reuse = scaled_error, 1
