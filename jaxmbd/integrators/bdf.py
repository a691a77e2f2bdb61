"""Backward differentiation formulas for index-3 equations, scaled so that small steps do no harm."""

import dataclasses
import warnings
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..control import LocalError
from ..control.base import AbstractController
from ..solvers.newton import JudgeByResidual, NewtonInfo, newton
from ..solvers.roots import frozen
from ..system.equations import AbstractSystem
from ..system.parameters import Parameter, not_negative, positive, read_all
from ..system.state import State
from .base import AbstractIntegrator, StepInfo, Work
from .bdf_equations import BDFEquations, Formulation, average_mass, average_stiffness
from .bdf_start import flat_past, smooth_past
from .common import VELOCITY_CORRECTOR, answers_to_impulses, coordinate_weights, rms, velocity_rounding
from .implicit import Largest, StepJacobian, solve_step
from .interpolation import state_between
from .multistep import Past, interpolation_weights
from .order_control import HIGHEST, HIGHEST_ADAPTIVE, Attempt, Orders, read_max_order, read_order, read_orders
from .prediction import Predictor

_CONSTRAINT_TOLERANCE = 1e-10
_ROUNDING = 1e-14
_CLOSE = 0.35
"""A Jacobian is recycled while the logarithm of the ratio of leading coefficients is below this."""
_PRECISE = 1e-12
"""Position error that Newton may leave in prescribed steps: small enough for finite differences of replayed runs."""
_STOPS = ("motion", "unknowns")


class BDFScratch(eqx.Module):
    orders: Orders
    if_accepted: Orders
    """what `orders` becomes if the last attempt is accepted"""
    multipliers: Predictor
    jacobian: StepJacobian
    """made for alpha_0 / h [1/s]"""
    largest: Largest


class BDF(AbstractIntegrator):
    r"""Backward differentiation formulas on the index-3 equations, or on their stabilised index-2 form.

    Adaptive runs choose step and order (1 to 5) by the local error; `order` fixes the order (1 to 6). Coefficients are those of the polynomial
    through the last values on the grid as it is (variable coefficients): no interpolation, and a grid may change at every step.

    - `tolerance` says how accurate a motion is: over a few periods, positions err by at most about 100 tolerances, in units of
      max(length_scale, |q|) (`benchmarks/work_precision.py`; below 1e-8 rounding shows). For that, the local errors of positions and of
      velocities, these in units of max(length_scale / 1 s, |v|), are kept well below it. Of velocities that is the part that goes on: what
      constraints and stiff dampers take away within two steps does not count.
    - `velocity_error=False` is the classical control: tolerance is the accepted local position error, and velocities may be anything
      (`index="stabilized-2"` controls them all the same).
    - `max_order`: of adaptive runs, at most 5. Order 2 at most is stable along the whole imaginary axis: the choice for structures with
      undamped vibrations that are not to be resolved.
    - `form`: "two-field" (q, lambda) or "three-field" (q, v, lambda). `scaling`: "none", "left", "multipliers" (three-field only) or "full".
      All give the same motion, as long as rounding errors do not show: `mbd.conditioning` compares them.
    - `index`: 3, or "stabilized-2": velocities satisfy the constraints as well, q' = v - Phi_q^T mu (Gear, Gupta, Leimkuhler). None is the
      latter wherever velocities must be right: where their error is controlled (but for a fixed `order`, which is for comparisons), and where
      forces depend on multipliers. At index 3 velocities across the constraints change with step and order; stiff dampers answer, and a run
      may crawl at order 1 (the governor of `benchmarks/turning.py`). Multipliers are wrong by half there in the first step.
    - `k_ave` [N/m], `m_ave` [kg]: of the scaling factor s = k_ave + m_ave / h^2 (28); None: estimated at the start.
    - `orders`: the orders of all steps, to replay a run: `BDF(orders=solution.orders)` with `simulate(..., step=solution.steps)`.
    - `corrector`: what Newton may leave of the tolerance. `stop`: of what: "motion" asks for positions, differential states and constraints
      to be that accurate, "unknowns" for every scaled unknown, multipliers included, as Bottasso et al. (2007) do.

    Prescribed steps of a fixed order need values before the start. They come from the index-1 equations, integrated backwards by small steps
    of the classical Runge-Kutta method. If these are not reliable (stiff systems), the order rises from 1 instead. Without `order` or `orders`,
    prescribed steps choose their orders as adaptive ones do.

    Multipliers and accelerations of index 3 are one order less accurate where the step changes; they do not influence the motion.

    ```bibtex
    @article{bottasso2007scaling,
      title={Time-step-size-independent conditioning and sensitivity to perturbations in the numerical solution of index three
             differential algebraic equations},
      author={Bottasso, Carlo L. and Bauchau, Olivier A. and Cardona, Alberto},
      journal={SIAM Journal on Scientific Computing},
      volume={29}, number={1}, pages={397--414}, year={2007}
    }
    ```
    """

    tolerance: Float[Array, ""]
    length_scale: Float[Array, ""]
    """m"""
    state_scale: Float[Array, ""]
    corrector: Float[Array, ""]
    k_ave: Float[Array, ""] | None
    """N/m"""
    m_ave: Float[Array, ""] | None
    """kg"""
    orders: Int[Array, "steps"] | None
    fixed_order: int | None = eqx.field(static=True)
    max_order: int = eqx.field(static=True)
    stop: str = eqx.field(static=True)
    velocity_error: bool = eqx.field(static=True)
    formulation: Formulation
    any_index: bool = eqx.field(static=True)
    """whether no index was asked for"""
    prescribed: bool = eqx.field(static=True)
    """whether step sizes are given"""
    order: ClassVar[int] = 1
    name: ClassVar[str] = "bdf"
    solves_for_multipliers: ClassVar[bool] = True
    even_end: ClassVar[bool] = True

    def __init__(
        self,
        tolerance: Any = 1e-5,
        order: int | None = None,
        *,
        max_order: int = HIGHEST_ADAPTIVE,
        form: str = "two-field",
        scaling: str = "full",
        index: int | str | None = None,
        k_ave: Any = None,
        m_ave: Any = None,
        length_scale: Any = 1.0,
        state_scale: Any = 1.0,
        corrector: Any = 1e-3,
        stop: str = "motion",
        velocity_error: bool = True,
        orders: Any = None,
    ):
        self.velocity_error = velocity_error
        numbers = read_all(
            "BDF",
            _PARAMETERS,
            tolerance=tolerance,
            length_scale=length_scale,
            state_scale=state_scale,
            corrector=corrector,
            k_ave=k_ave,
            m_ave=m_ave,
        )
        for field, value in numbers.items():
            setattr(self, field, None if value is None else jnp.asarray(value))
        self.fixed_order, self.max_order = read_order(order), read_max_order(max_order)
        if stop not in _STOPS:
            raise ValueError(f"stop of BDF must be one of {', '.join(map(repr, _STOPS))}: got {stop!r}.")
        self.stop = stop
        self.formulation, self.any_index = Formulation.read(form, scaling, 3 if index is None else index), index is None
        if orders is not None and order is not None:
            raise ValueError("BDF takes an order or the orders of all steps, not both.")
        self.orders = None if orders is None else read_orders(orders)
        self.prescribed = False

    # --- what it is ---------------------------------------------------------------------------------------------------------------------

    def default_controller(self) -> AbstractController:
        return LocalError()

    def suited(self, system: AbstractSystem) -> "BDF":
        if not self.any_index or not (system.multiplier_forces() or (self.velocity_error and self.fixed_order is None)):
            return self
        stabilized = dataclasses.replace(self.formulation, stabilized=True)
        return eqx.tree_at(lambda s: s.formulation, self, stabilized, is_leaf=lambda node: node is self.formulation)

    def check(self, system: AbstractSystem) -> None:
        if (forces := system.multiplier_forces()) and not self.formulation.stabilized:
            warnings.warn(
                f"multipliers of BDF with index=3 are inaccurate wherever steps change, and there are forces that depend on them: "
                f"{', '.join(forces)}. Leave index out, or give index='stabilized-2'.",
                stacklevel=4,
            )

    def precise(self) -> "BDF":
        tight = eqx.tree_at(lambda s: s.corrector, self, jnp.minimum(self.corrector, _PRECISE / self.tolerance))
        object.__setattr__(tight, "prescribed", True)  # static, hence out of tree_at's reach; `tight` is nobody else's yet
        return tight

    def orders_of(self, states: State) -> Int[Array, "*rows"]:
        return states.method.order

    @property
    def controls_velocities(self) -> bool:
        return self.velocity_error or self.formulation.stabilized

    @property
    def _allowed(self) -> Array:
        """Error of a step. The errors of N steps add up, and at order 5 N is proportional to the sixth root of this: with the power 6/5 the
        error of a motion is proportional to the tolerance, over a few periods below 100 times the tolerance (`benchmarks/work_precision.py`)."""
        return 0.1 * self.tolerance**1.2 if self.velocity_error else self.tolerance

    @property
    def highest(self) -> int:
        if self.fixed_order is not None:
            return self.fixed_order
        return self.max_order if self.orders is None else HIGHEST

    # --- start --------------------------------------------------------------------------------------------------------------------------

    def init(self, system: AbstractSystem, state: State) -> tuple[State, BDFScratch]:
        at = frozen(state)
        mass = average_mass(frozen(system), at) if self.m_ave is None else self.m_ave
        stiffness = average_stiffness(frozen(system), at) if self.k_ave is None else self.k_ave
        mass = jnp.where(mass + stiffness > 0, mass, 1.0)  # without mass and stiffness, anything serves
        correction = jnp.zeros_like(state.multipliers) if self.formulation.stabilized else jnp.zeros(0)
        past = flat_past(state, jnp.ones(()), self.highest + 1, correction, frozen(stiffness), frozen(mass))
        state = dataclasses.replace(state, method=past)
        equations = BDFEquations.of_step(system, self.formulation, state, jnp.ones(()), jnp.array(1))
        jacobian = StepJacobian.nothing(equations.scaling().rows.shape[0], equations.algebra())
        orders = Orders.begin(jnp.ones((), jnp.int32))
        multipliers = Predictor.begin(state.t, state.multipliers)
        return state, frozen(BDFScratch(orders, orders, multipliers, jacobian, Largest.at(state)))

    def look_back(self, system: AbstractSystem, state: State, h: Array) -> State:
        past: Past = state.method
        h = jnp.where(h > 0, h, 1.0)  # a run without steps
        past = flat_past(state, h, past.v.shape[0], past.correction, past.stiffness, past.mass)
        if self.prescribed and self.fixed_order is not None and self.fixed_order > 1 and not system.implicit_states():
            past = smooth_past(system, state, past, h)
        return dataclasses.replace(state, method=past)

    def first_step(self, system: AbstractSystem, state: State) -> Array:
        """The error of a step of order 1 is h^2 q'' / 2."""
        weight = coordinate_weights(system, self.length_scale, jnp.abs(state.q))
        speed, curvature = rms(state.v * weight), rms(state.acceleration * weight)
        return 0.3 * jnp.sqrt(self.tolerance) / jnp.maximum(jnp.maximum(speed, jnp.sqrt(curvature)), 1e-2)

    # --- step ---------------------------------------------------------------------------------------------------------------------------

    def step(self, system: AbstractSystem, state: State, scratch: Any, h: Array, known: State | None = None) -> tuple[State, Any, StepInfo]:
        order = self._order(state, scratch) if known is None else known.method.order
        equations = BDFEquations.of_step(system, self.formulation, state, h, order)
        z, found = solve_step(equations, known, lambda there: frozen(self)._search(system, there, scratch))
        new = equations.new_state(z)
        if found is None:
            return new, scratch, StepInfo.nothing_searched()
        jacobian, solved = found
        past: Past = state.method
        errors, terms, misses = self._errors(frozen(equations), frozen(new), jacobian, scratch)
        repeats = (equations.order == past.order) & (jnp.abs(h - past.steps[0]) <= 1e-6 * h)
        possible = jnp.minimum(past.points, self.highest)  # after this step there is one point more than the order needs
        attempt = Attempt(errors, terms, equations.order, possible, repeats)
        accepted, rejected, ratio = scratch.orders.judge(attempt, free=self.fixed_order is None)
        finite = jnp.all(jnp.isfinite(new.q)) & jnp.all(jnp.isfinite(new.v))
        info = StepInfo(
            errors[equations.order - 1],
            solved.converged & finite,
            jnp.where(solved.converged, jnp.argmax(jnp.abs(misses)), self._blamed(equations, solved.worst)).astype(jnp.int32),
            Work.newton(solved.iterations, solved.jacobians, solved.evaluations),
            solved.finite,
            order=equations.order,
            ratio=ratio,
        )
        after = dataclasses.replace(scratch, orders=rejected, if_accepted=accepted, jacobian=jacobian)
        return new, frozen(after), frozen(info)

    def equations(self, system: AbstractSystem, state: State, h: Array) -> BDFEquations:
        """Those of a step of a fixed order from `state`."""
        order = 2 if self.fixed_order is None else self.fixed_order
        return BDFEquations.of_step(system, self.formulation, state, h, jnp.minimum(order, state.method.points - 1))

    def _order(self, state: State, scratch: BDFScratch) -> Array:
        past: Past = state.method
        if self.orders is not None:
            order = self.orders[jnp.minimum(past.count, self.orders.shape[0] - 1)]
        elif self.fixed_order is not None:
            order = jnp.asarray(self.fixed_order, jnp.int32)
        else:
            order = scratch.orders.order
        return jnp.clip(order, 1, jnp.minimum(past.points - 1, self.highest)).astype(jnp.int32)

    def _search(
        self, system: AbstractSystem, equations: BDFEquations, scratch: BDFScratch
    ) -> tuple[Array, tuple[StepJacobian, NewtonInfo]]:
        """Predicts the unknowns and corrects them until the corrections do not matter and the constraints are satisfied."""
        scaling, leading = equations.scaling(), equations.formula.leading
        row_scale = jnp.where(jnp.asarray(system.row_lengths(), dtype=bool), self.length_scale, 1.0)
        # A violation e of index 3 appears in the multipliers as (alpha_0 / h)^2 e: precise steps ask for more.
        allowed = jnp.minimum(_CONSTRAINT_TOLERANCE, 0.1 * self.tolerance * self.corrector) * row_scale + _ROUNDING * (
            1.0 + jnp.max(scratch.largest.q)
        )
        weight, velocity_weight, state_weight = self._weights(system, scratch)
        constant = equations.grid.error_constants()[equations.order - 1]

        def size(dy):
            if self.stop == "unknowns":
                return jnp.max(jnp.abs(dy)) / (self.tolerance * self.corrector)
            parts = equations.split(scaling.expand(dy))
            sizes = jnp.maximum(rms(parts["q"] * weight), rms(parts["x"] * state_weight)) / (self.tolerance * self.corrector)
            if self.controls_velocities:  # of the velocities, this is the part that q has in them
                left = VELOCITY_CORRECTOR * self._allowed + 0.2 * velocity_rounding(scratch.largest.q, leading)
                sizes = jnp.maximum(sizes, leading * rms(parts["q"] * velocity_weight) / left)
            return constant * sizes

        def satisfied(residual):
            return jnp.all(equations.violation(residual * scaling.rows) <= allowed)

        start = scaling.shrink(equations.prediction(scratch.multipliers.predict(equations.t)))
        residual, jacobian = scaling.residual(equations.residual), equations.scaled_jacobian(scaling)
        recycled = scratch.jacobian.near(leading, _CLOSE)
        y, recycled, info = newton(residual, jacobian, start, recycled, size, JudgeByResidual(satisfied), equations.algebra())
        return scaling.expand(y), (scratch.jacobian.after(recycled, leading, info), info)

    def _weights(self, system: AbstractSystem, scratch: BDFScratch) -> tuple[Array, Array, Array]:
        return (
            coordinate_weights(system, self.length_scale, scratch.largest.q),
            coordinate_weights(system, self.length_scale, scratch.largest.v),
            1.0 / jnp.maximum(self.state_scale, scratch.largest.x),
        )

    def _errors(self, equations: BDFEquations, new: State, jacobian: StepJacobian, scratch: BDFScratch) -> tuple[Array, Array, Array]:
        """Composite errors of orders 1, 2, ... over the tolerance, the sizes of the terms h^(k+1) y^(k+1) in them, and the weighted misses of
        the order in use by (q, multipliers, x)."""
        grid, past, (weight, velocity_weight, state_weight) = equations.grid, equations.past, self._weights(equations.system, scratch)
        norms = jax.vmap(rms)
        positions = grid.misses(equations.move_of(new), past.offsets) * weight
        states = grid.misses(new.x, past.x) * state_weight * equations.integrals  # variables have no error of their own
        sizes = jnp.maximum(norms(positions), norms(states))
        if self.controls_velocities:
            rounding = 10.0 * velocity_rounding(scratch.largest.q, equations.formula.leading)
            velocity_weight = velocity_weight * self._allowed / (self._allowed + rounding)
            misses = grid.misses(new.v, past.v)
            velocities = answers_to_impulses(equations, jacobian.factors, new, misses)
            sizes = jnp.maximum(sizes, norms(velocities * velocity_weight))
        known = jnp.arange(1, sizes.shape[0] + 1) < past.points
        k = equations.order - 1
        misses = jnp.concatenate([positions[k], jnp.zeros_like(new.multipliers), states[k]])
        errors, sizes = (jnp.where(known, values, jnp.inf) for values in (grid.error_constants() * sizes / self._allowed, sizes))
        return errors, sizes, misses

    def _blamed(self, equations: BDFEquations, worst: Array) -> Array:
        """The entry of (q, multipliers, x) that an unknown belongs to."""
        names = {"q": "q", "v": "q", "multipliers": "multipliers", "correction": "multipliers", "x": "x"}
        n, m = equations.old.q.shape[0], equations.old.multipliers.shape[0]
        begin = {"q": 0, "multipliers": n, "x": n + m}
        table = [begin[names[name]] + i for name, place in equations.fields().items() for i in range(place.stop - place.start)]
        return jnp.asarray(table, jnp.int32)[worst]

    def accept(self, state: State, new: State, scratch: BDFScratch) -> BDFScratch:
        everything = jnp.ones_like(new.multipliers)
        scratch = dataclasses.replace(
            scratch,
            orders=scratch.if_accepted,
            multipliers=scratch.multipliers.push(new.t, new.multipliers, everything),
            largest=scratch.largest.include(new),
        )
        return frozen(scratch)

    def interpolate(self, old: State, new: State, t: Array) -> State:
        """The polynomial of the step for q, v and x, lines for what the equations of motion determine."""
        past: Past = new.method
        weights = interpolation_weights(past.steps, jnp.maximum(past.order, 1), new.t - t)
        return state_between(old, new, t, new.q + weights @ past.offsets, weights @ past.v, weights @ past.x)


_PARAMETERS: dict[str, Parameter] = {
    "tolerance": positive("1", "must be positive"),
    "length_scale": positive("m", "must be positive: the size of the motions that matter"),
    "state_scale": positive("unit of x", "must be positive"),
    "corrector": positive("1", "must be positive"),
    "k_ave": not_negative("N/m")._replace(optional=True),
    "m_ave": not_negative("kg")._replace(optional=True),
}
