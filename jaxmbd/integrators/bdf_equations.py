"""The equations of one step of a backward differentiation formula, in two or three fields, scaled or not (Bottasso, Bauchau and
Cardona 2007)."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..solvers import coloring
from ..solvers.algebra import DENSE, AbstractAlgebra
from ..solvers.block_lu.algebra import BlockAlgebra
from ..solvers.scaling import Scaling, held_rows
from ..system.blocks.jacobian import Point
from ..system.equations import (
    AbstractSystem,
    constraint_force,
    constraint_jacobian,
    constraint_rate,
    differential,
    held_and_force,
    holds_positions,
    mass_product,
    state_residual,
    total_force,
)
from ..system.state import State
from .bdf_blocks import StabilizedAlgebra, step_blocks, stiffness_diagonal
from .common import normalized
from .implicit import AbstractMotionEquations, Places
from .multistep import Formula, Grid, Past

_SCALINGS = {"two-field": ("none", "left", "full"), "three-field": ("none", "left", "multipliers", "full")}
"""What each form can be scaled by."""


class Formulation(eqx.Module):
    """Which fields the unknowns consist of, and how equations and unknowns are scaled. Nothing here is a number."""

    form: str = eqx.field(static=True)
    scaling: str = eqx.field(static=True)
    stabilized: bool = eqx.field(static=True)

    @staticmethod
    def read(form: Any, scaling: Any, index: Any) -> "Formulation":
        if form not in _SCALINGS:
            raise ValueError(f"form of BDF must be one of {', '.join(map(repr, _SCALINGS))}: got {form!r}.")
        if form == "two-field" and scaling == "multipliers":
            raise ValueError("in the two-field form no velocities are left to scale: write scaling='full', or form='three-field'.")
        if scaling not in _SCALINGS[form]:
            raise ValueError(f"scaling of BDF in the {form} form must be one of {', '.join(map(repr, _SCALINGS[form]))}: got {scaling!r}.")
        if index not in (3, "stabilized-2"):
            raise ValueError(f"index of BDF must be 3 or 'stabilized-2': got {index!r}.")
        return Formulation(form, scaling, index == "stabilized-2")

    @property
    def velocities(self) -> bool:
        """Whether v is among the unknowns."""
        return self.form == "three-field"


class BDFEquations(AbstractMotionEquations):
    r"""The equations of one step of size h and order k.

    With D the formula (2), the unknowns are q and lambda, in the three-field form also v, in the stabilised form also mu, and x (of q, the move
    since the last step: small numbers keep more digits):

        q:       D q - v + Phi_q^T mu = 0       three-field; in two fields, v is eliminated by it (34)
        v:       M D v + Phi_q^T lambda - Q = 0
        lambda:  Phi = 0
        mu:      Phi_q v + Phi_t = 0            stabilised (Gear, Gupta, Leimkuhler): index 2
        x:       D x - g = 0, or d(D x, x, q, v, a, lambda, t) = 0

    (a row that is dropped as redundant reads lambda = 0, mu = 0). Velocity constraints stand in the row of lambda as A v + b = 0, in the unit
    of Phi', with A^T beside Phi_q^T in the row of v, and have no mu. The first letter names the unknown in whose place the row stands; in two
    fields, the equation of motion stands in the place of q. With c = alpha_0 / h and K, C the derivatives of (M q'' + Phi_q^T lambda - Q) by q
    and v, the matrices of the index-3 forms are, unscaled and without x,

        [ c I    -I         0       ]          [ c^2 M + c C + K    Phi_q^T ]
        [ K      c M + C    Phi_q^T ]          [ Phi_q              0       ]
        [ Phi_q  0          0       ]

    (where forces depend on multipliers, Phi_q^T - Q_lambda). The paper multiplies all rows by h (4), (37); its scalings follow from there:

                      units of rows:  q    motion  Phi  Phi'  x      of unknowns:  q  v    lambda  mu   x
        none                          1/h  1/h     1/h  1/h   1/h                  1  1    1       1    1      (4), (37)
        left                          1/h  1/h     1    1     1/h                  1  1    1       1    1      (16), (44)
        multipliers                   1/h  s       1    1     1/h                  1  1    s       1    1      (23), (24)
        full                          1/h  s       1    1/h   1/h                  1  1/h  s       1/h  1      (23), (29), (48), (49)

    with s = k_ave + m_ave / h^2 (28); for s = 1 / h^2 these are the printed ones.
    """

    system: AbstractSystem
    formulation: Formulation
    old: State
    h: Float[Array, ""]
    order: Int[Array, ""]
    grid: Grid
    formula: Formula

    @staticmethod
    def of_step(system: AbstractSystem, formulation: Formulation, old: State, h: Array, order: Array) -> "BDFEquations":
        grid = Grid.behind(h, old.method.steps)
        return BDFEquations(system.recall(old.memory), formulation, old, h, order, grid, Formula.of_order(grid, order))

    @property
    def past(self) -> Past:
        return self.old.method

    @property
    def t(self) -> Array:
        return self.old.t + self.h

    @property
    def integrals(self) -> Float[Array, "x"]:
        """1 for differential states, 0 for variables and force states, which have no rate."""
        return differential(self.system, self.old.x)

    def fields(self) -> dict[str, slice]:
        """Where the unknowns are."""
        n, m, x = self.old.q.shape[0], self.old.multipliers.shape[0], self.old.x.shape[0]
        sizes = {"q": n, "v": n * self.formulation.velocities, "multipliers": m, "correction": m * self.formulation.stabilized, "x": x}
        places, begin = {}, 0
        for name, size in sizes.items():
            places[name] = slice(begin, begin + size)
            begin += size
        return places

    def split(self, z: Array) -> dict[str, Array]:
        return {name: z[place] for name, place in self.fields().items()}

    def join(self, **parts: Array) -> Array:
        """Unknowns from their fields; those that this form does not have are left out."""
        return jnp.concatenate([parts[name] for name, place in self.fields().items() if place.stop > place.start])

    def unknowns_of(self, state: State) -> Array:
        return self.join(q=self.move_of(state), v=state.v, multipliers=state.multipliers, correction=state.method.correction, x=state.x)

    def move_of(self, state: State) -> Array:
        """Change of the positions in a step that led to `state`."""
        return -state.method.offsets[1]

    # --- scaling ------------------------------------------------------------------------------------------------------------------------

    def scaling(self) -> Scaling:
        """The table above."""
        h, one, kept = self.h, jnp.ones(()), self.old.memory.kept_rows
        s = self.past.stiffness + self.past.mass / h**2
        rows = {
            "none": {"q": 1 / h, "v": 1 / h, "multipliers": 1 / h, "correction": 1 / h, "x": 1 / h},
            "left": {"q": 1 / h, "v": 1 / h, "multipliers": one, "correction": one, "x": 1 / h},
            "multipliers": {"q": 1 / h, "v": s, "multipliers": one, "correction": one, "x": 1 / h},
            "full": {"q": 1 / h, "v": s, "multipliers": one, "correction": 1 / h, "x": 1 / h},
        }[self.formulation.scaling]
        columns = {name: one for name in rows}
        if self.formulation.scaling in ("multipliers", "full"):
            columns["multipliers"] = s
        if self.formulation.scaling == "full":
            columns["v"] = columns["correction"] = 1 / h
        if not self.formulation.velocities:
            rows["q"] = rows["v"]
        row_units, column_units = [], []
        for name, place in self.fields().items():
            size = place.stop - place.start
            held = name in ("multipliers", "correction")
            unit = jnp.where(holds_positions(self.system) > 0, rows[name], rows["correction"]) if name == "multipliers" else rows[name]
            among = kept if name == "multipliers" else kept * holds_positions(self.system)
            units = held_rows(among, unit, columns[name])[:size] if held else jnp.full(size, rows[name])
            if name == "x":
                units = jnp.where(self.integrals > 0, units, 1.0)
            row_units.append(units)
            column_units.append(jnp.full(size, columns[name]))
        return Scaling(jnp.concatenate(row_units), jnp.concatenate(column_units))

    # --- equations ----------------------------------------------------------------------------------------------------------------------

    def motion(self, z: Array) -> tuple[dict[str, Array], Array, Array]:
        """The unknowns, the velocities and the accelerations."""
        parts = self.split(z)
        v = parts["v"]
        if not self.formulation.velocities:
            v = self.rate(parts)
        return parts, v, self.formula.derivative(v, self.past.v)

    def place(self, parts: dict[str, Array]) -> Array:
        """The positions."""
        return self.old.q + parts["q"]

    def rate(self, parts: dict[str, Array]) -> Array:
        """D q + Phi_q^T mu."""
        rate = self.formula.derivative(parts["q"], self.past.offsets)
        if not self.formulation.stabilized:
            return rate
        kept = self.old.memory.kept_rows * holds_positions(self.system)
        return rate + constraint_force(self.system, self.place(parts), self.t, kept * parts["correction"])

    def residual(self, z: Array) -> Array:
        """Unscaled."""
        (parts, v, a), kept, t = self.motion(z), self.old.memory.kept_rows, self.t
        q, x, multipliers = self.place(parts), parts["x"], parts["multipliers"]
        rows, pull = held_and_force(self.system, q, v, t, kept * multipliers)
        motion = mass_product(self.system, q, a) + pull - total_force(self.system, q, v, t, x, kept * multipliers)
        equations = [self.rate(parts) - v, motion] if self.formulation.velocities else [motion]
        equations.append(kept * rows + (1.0 - kept) * multipliers)
        if self.formulation.stabilized:
            placed = kept * holds_positions(self.system)
            equations.append(placed * constraint_rate(self.system, q, v, t) + (1.0 - placed) * parts["correction"])
        rate = self.integrals * self.formula.derivative(x, self.past.x)
        equations.append(state_residual(self.system, rate, x, q, v, a, kept * multipliers, t))
        return jnp.concatenate(equations)

    def algebra(self) -> AbstractAlgebra:
        blocks = self.system.algebra()
        if self.formulation.velocities or not isinstance(blocks, BlockAlgebra):
            return DENSE
        return StabilizedAlgebra(blocks, self.old.memory.kept_rows, self.old.q.shape[0]) if self.formulation.stabilized else blocks

    def jacobian(self, z: Array) -> Any:
        """Of the unscaled residual; exact, but for the stabilised form by blocks."""
        places, kept = self.fields(), self.old.memory.kept_rows
        algebra = self.algebra()
        if algebra is not DENSE:
            parts, v, a = self.motion(z)
            at = Point(self.t, self.place(parts), v, a, parts["x"], kept * parts["multipliers"], kept)
            blocks = step_blocks(self.system, at, self.formula.leading)
            return algebra.matrix(blocks, self.formula.leading) if isinstance(algebra, StabilizedAlgebra) else blocks
        q, held = places["q"], places["multipliers"]
        # In more fields than two, the pattern of the columns is another one.
        pattern = None if self.formulation.velocities or self.formulation.stabilized else self.system.coupling()

        def columns(place: slice, pattern=None):
            return coloring.jacobian(lambda part: self.residual(z.at[place].set(part)), z[place], pattern)

        moving = columns(q, pattern)
        if self.system.multiplier_forces() or self.system.implicit_states():
            pulling = columns(held)
        else:
            rows = moving[held]  # kept * Phi_q: its transpose acts on the motion
            if self.system.velocity_rows():
                rows = kept[:, None] * constraint_jacobian(self.system, self.place(self.split(z)), self.t)
            pulling = jnp.zeros((z.shape[0], kept.shape[0])).at[held].set(jnp.diag(1.0 - kept))
            pulling = pulling.at[places["v"] if self.formulation.velocities else q].set(rows.T)
        blocks = {"q": moving, "multipliers": pulling}
        for name in ("v", "correction", "x"):
            place = places[name]
            blocks[name] = columns(place) if place.stop > place.start else jnp.zeros((z.shape[0], 0))
        return jnp.concatenate([blocks[name] for name in places], axis=1)

    def violation(self, residual: Array) -> Array:
        """|Phi| of the kept rows, and how far velocities that are not held would move in the step, from an unscaled residual."""
        held = jnp.where(holds_positions(self.system) > 0, 1.0, self.h) * self.split(residual)["multipliers"]
        return jnp.abs(self.old.memory.kept_rows * held)

    def places(self) -> Places:
        where = self.fields()
        return Places(where["v"] if self.formulation.velocities else where["q"], where["q"], where["multipliers"], self.formula.leading**2)

    def new_state(self, z: Array) -> State:
        parts, v, a = self.motion(z)
        state = State(
            self.t,
            self.place(parts),
            v,
            parts["x"],
            parts["multipliers"],
            a,
            self.integrals * self.formula.derivative(parts["x"], self.past.x),
            self.old.memory,
        )
        free, state = state, normalized(self.system, state)
        move = parts["q"] + (state.q - free.q)
        return dataclasses.replace(state, method=self.past.push(state, move, self.h, self.order, parts["correction"]))

    def first_guess(self) -> Array:
        """Where a Newton method begins that knows no more than the past."""
        return self.prediction(self.old.multipliers)

    def prediction(self, multipliers: Array) -> Array:
        """Where Newton begins: all fields extrapolated by polynomials of degree k; multipliers as given."""
        past, degree = self.past, jnp.minimum(self.order, self.past.points - 1)
        q, x = self.grid.predict(degree, past.offsets), self.grid.predict(degree, past.x)
        v = self.formula.derivative(q, past.offsets)
        return self.join(q=q, v=v, multipliers=multipliers, correction=jnp.zeros_like(past.correction), x=x)


def average_mass(system: AbstractSystem, state: State) -> Array:
    """An estimate of m_ave: the mean of the diagonal of M."""
    return system.mean_inertia(state.q)


def average_stiffness(system: AbstractSystem, state: State) -> Array:
    """An estimate of k_ave: the mean size of the diagonal of K, the stiffness of forces and of constraint forces."""
    system, multipliers = system.recall(state.memory), state.multipliers
    if system.blocks() is not None:
        return jnp.mean(jnp.abs(stiffness_diagonal(system, state)))

    def pull(q):
        return constraint_force(system, q, state.t, multipliers) - total_force(system, q, state.v, state.t, state.x, multipliers)

    return jnp.mean(jnp.abs(jnp.diagonal(jax.jacfwd(pull)(state.q))))
