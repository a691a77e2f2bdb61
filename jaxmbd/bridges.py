"""A mechanism for other solvers."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from .running.starting import consistent_start
from .system.building.model import Model
from .system.equations import (
    AbstractSystem,
    constraint,
    constraint_curvature,
    constraint_jacobian,
    constraint_rate,
    initial_states,
    saddle_matrix,
    state_rate,
    total_force,
)
from .system.initial import first_memory, start
from .system.parameters import is_traced
from .system.state import Memory

if TYPE_CHECKING:
    import diffrax


class MotionState(eqx.Module):
    """What an ODE solver integrates."""

    q: Float[Array, "q"]
    v: Float[Array, "q"]
    x: Float[Array, "x"]
    angles: Float[Array, "angles"]
    """rad, of joints and torsion springs: they tell full turns apart, which q does not"""


def to_diffrax(model: Model | AbstractSystem, *, stabilisation: Any = 0.0) -> tuple["diffrax.ODETerm", MotionState]:
    """The equations of motion as a term for diffrax, and a consistent start at t = 0:

        term, start = mbd.to_diffrax(system)
        diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, t1, dt0, start, stepsize_controller=diffrax.PIDController(1e-8, 1e-8))

    Saved values are `MotionState`s. Their derivatives by parameters of the system are those that diffrax gives: build the term from
    `system.set(...)` inside of the differentiated function.

    The accelerations are those of the index-1 form, M a + Phi_q^T lambda = Q and Phi'' = 0, so that positions drift off the constraints with the
    errors of the solver. `stabilisation` [1/s] is Baumgarte's: it replaces Phi'' = 0 by Phi'' + 2 s Phi' + s^2 Phi = 0, which pulls them back
    within 1/s, and adds a motion that fast. Where rows are redundant, those that are kept at the start stay. Explicit solvers need
    mechanisms without stiff springs; `mbd.DormandPrince` keeps the constraints exactly.
    """
    try:
        import diffrax
    except ImportError:
        raise ImportError('to_diffrax needs diffrax: pip install "jaxmbd[diffrax]"') from None
    system = model.build() if isinstance(model, Model) else model
    prepared = system.prepare()
    if is_traced(system):
        q, v = prepared.normalize(system.q0, system.v0)
        state, _, _ = start(prepared, jnp.zeros(()), q, v, initial_states(system), first_memory(system))
    else:
        state = consistent_start(system)
    field = _IndexOne(prepared, state.memory.kept_rows, jnp.asarray(stabilisation, float))
    return diffrax.ODETerm(field), MotionState(state.q, state.v, state.x, state.memory.angles)


class _IndexOne(eqx.Module):
    """Rates of a `MotionState`."""

    system: AbstractSystem
    kept: Float[Array, "rows"]
    stabilisation: Float[Array, ""]

    def __call__(self, t: Any, motion: MotionState, args: Any) -> MotionState:
        del args
        t, x, s = jnp.asarray(t, float), motion.x, self.stabilisation
        system = self.system.recall(Memory(motion.angles, self.kept))
        q, v = system.normalize(motion.q, motion.v)
        drift = 2.0 * s * constraint_rate(system, q, v, t) + s**2 * constraint(system, q, t)
        right = jnp.concatenate([total_force(system, q, v, t, x), -self.kept * (constraint_curvature(system, q, v, t) + drift)])
        matrix = saddle_matrix(system.mass(q), constraint_jacobian(system, q, t), self.kept)
        _, turning = jax.jvp(system.angles, (q,), (v,))
        return MotionState(v, jnp.linalg.solve(matrix, right)[: q.shape[0]], state_rate(system, x, q, v, t), turning)
