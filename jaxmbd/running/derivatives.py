"""Derivatives of a run: those of its accepted steps, in any mode and of any order.

Where a derivative is asked for, a run records the state after every accepted step. Derivatives walk this record, differentiating one step at
a time at its recorded solution; they never see a rejected step, an error estimate or a controller.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int

from ..integrators.base import AbstractIntegrator
from ..scalar import kept_whole
from ..solvers import sweep
from ..solvers.roots import frozen
from ..system.equations import AbstractSystem
from ..system.state import State
from .kernels import made_of
from .loop import Plan, Stretch, search
from .pace import to_the_same_end
from .prescribed import refuse_too_many
from .saving import Record, Saved


class AbstractAdjoint(eqx.Module):
    """How a run is differentiated."""


class Reverse(AbstractAdjoint):
    """By the record of its accepted steps: serves jax.grad, jax.jvp, jax.hessian and their kin. Takes memory for all states."""


class Forward(AbstractAdjoint):
    """Together with the loop: serves jax.jvp and jax.jacfwd only, and takes no memory for states that are not saved."""


def read_adjoint(given: Any) -> AbstractAdjoint:
    """The argument `adjoint` of `simulate`: one of the two, or its name."""
    named = {"reverse": Reverse(), "forward": Forward()}
    adjoint = named.get(given) if isinstance(given, str) else given
    if not isinstance(adjoint, AbstractAdjoint):
        raise ValueError(f"adjoint must be 'reverse' or 'forward', got {given!r}; mbd.Reverse() and mbd.Forward() will do as well.")
    return adjoint


def run(
    system: AbstractSystem, integrator: AbstractIntegrator, state: State, plan: Plan, adjoint: AbstractAdjoint
) -> tuple[Record, Stretch]:
    """Runs one stretch."""
    params = (system, integrator, state)
    plan = frozen(plan)
    return _forward_only(_search_once(params, plan, None)) if isinstance(adjoint, Forward) else _search_recorded(params, plan)


def run_saving(
    system: AbstractSystem, integrator: AbstractIntegrator, state: State, plan: Plan, times: Array, adjoint: AbstractAdjoint
) -> tuple[Saved, Stretch]:
    """The same, of which only states at given times and the last are kept."""
    params = (system, integrator, state)
    plan = frozen(plan)
    if isinstance(adjoint, Forward):
        return _forward_only(_search_once(params, plan, times))
    return _new_empty(_search_saving(params, plan, times))


def _new_empty(found: Any) -> Any:
    """The same with arrays without numbers made anew. Two ways lead to what a run saves, and in a batch one of them may give such an array for
    all lanes, the other one for each: JAX trips over that if the array is used."""
    return jax.tree.map(lambda leaf: leaf if leaf.size else jnp.zeros(leaf.shape, leaf.dtype), found)


def _forward_only(found: Any) -> Any:
    """The same, with a sentence for those who ask for a reverse derivative."""
    return eqxi.nondifferentiable_backward(
        found,
        msg="adjoint='forward' has no reverse mode: take adjoint='reverse', which serves jax.grad and all others, or differentiate by "
        "jax.jvp or jax.jacfwd.",
    )


@eqx.filter_custom_jvp
def _search_once(params, plan, times):
    return made_of(plan.kernels, search)(params, plan, times)


@_search_once.def_jvp
def _together_with_the_loop(primals, tangents):
    params, plan, times = primals
    return eqx.filter_jvp(lambda params: search(params, plan, times), (params,), (tangents[0],))


@eqx.filter_custom_jvp
def _search_saving(params, plan, times):
    return made_of(plan.kernels, search)(params, plan, times)


@_search_saving.def_jvp
def _of_the_record(primals, tangents):
    """A derivative needs all states: they are recorded, and what was to be saved is found among them."""
    params, plan, times = primals
    refuse_too_many(plan.capacity + 1, params[2], "For a derivative all are recorded. Give a smaller max_steps, or larger steps.")

    def saved(params):
        record, after = _search_recorded(params, plan)
        found = record.at(params[1], after.count, times)
        return found if plan.events is not None else dataclasses.replace(found, previous=None), after

    return eqx.filter_jvp(saved, (params,), (tangents[0],))


@eqx.filter_custom_jvp
def _search_recorded(params, plan):
    return made_of(plan.kernels, search)(params, plan)


@_search_recorded.def_jvp
def _tangents(primals, tangents):
    """Tangents X of the recorded rows, from those of what is differentiated, p, and of the start, x_0:

        X_0 = x_0        X_{i+1} = (d step_i / d state) X_i + (d step_i / d p) p

    With p among the unknowns this is a linear system, block row after block row: forward mode walks the accepted steps once more, reverse
    mode, which solves the transposed system, walks them backwards.
    """
    params, plan = primals
    (of_system, of_integrator, of_start), _ = tangents
    record, after = _search_recorded(params, plan)
    moved, rest = eqx.partition(params[:2], _given((of_system, of_integrator)))
    moving, still = eqx.partition(record.states, _can_move(record.states, of_start))
    arrays, static = eqx.partition((rest, still), eqx.is_array)
    values = _Walked(moved, moving, arrays, record.steps, after.count, plan.pace.is_done(record.states.t[after.count], after.count))
    start = jax.tree.map(
        lambda rows, tangent: (
            None if rows is None else jnp.zeros_like(rows) if tangent is None else jnp.zeros_like(rows).at[0].set(tangent)
        ),
        moving,
        of_start,
        is_leaf=lambda leaf: leaf is None,
    )
    right, unflatten = ravel_pytree(((of_system, of_integrator), start))
    on_vectors = lambda walk: lambda values, x: ravel_pytree(walk(values, static, unflatten(x)))[0]  # noqa: E731
    forward, backward = (made_of(plan.kernels, on_vectors(walk)) for walk in (_forward, _backward))
    _, rows = unflatten(sweep.solve(on_vectors(_product), forward, backward, values, right))
    nothing = jax.tree.map(lambda _: None, after)
    return (record, after), (Record(rows, None), nothing)  # pyright: ignore[reportArgumentType]


class _Walked(eqx.Module):
    """What the accepted steps are differentiated at."""

    moved: Any
    """the differentiated numbers of the system and the integrator"""
    rows: State
    """the recorded states, as far as they can be differentiated"""
    rest: Any
    """all other arrays of the system, the integrator and the recorded states"""
    steps: Float[Array, "capacity"]
    count: Int[Array, ""]
    ended: Bool[Array, ""]
    """whether the last step led to the end of the run"""

    def step(self, static: Any, i: Array) -> tuple[Callable[[Any, Any], Any], Any, Any]:
        """Step i as a function of what is differentiated and of the state it starts from; and these two."""
        others, still = eqx.combine(self.rest, static)
        still, following = _row(still, i), eqx.combine(_row(self.rows, i + 1), _row(still, i + 1))
        last = self.ended & (i == self.count - 1)

        def step(moved, state):
            system, integrator = eqx.combine(moved, others)
            start = eqx.combine(state, still)
            h = to_the_same_end(self.steps[i], last, start.t)
            new, _, _ = integrator.step(system, start, None, h, known=following)
            return eqx.filter(new, _given(state))

        return step, self.moved, _row(self.rows, i)


def _forward(walked: _Walked, static: Any, right: Any) -> Any:
    p, given = right

    def proceed(carry):
        return carry[0] < walked.count

    def advance(carry):
        i, now, found = carry
        step, *at = walked.step(static, i)
        _, new = jax.jvp(step, tuple(at), (p, now))
        new = _add(new, _row(given, i + 1))
        return i + 1, new, _write(found, i + 1, new)

    given = jax.tree.map(kept_whole, given)
    begin = (jnp.zeros_like(walked.count), _row(given, 0), given)
    *_, found = eqxi.while_loop(proceed, advance, begin, kind="lax", buffers=lambda carry: carry[2])
    return p, found


def _backward(walked: _Walked, static: Any, right: Any) -> Any:
    """The cotangent of row i becomes one of row i - 1 and of what is differentiated."""
    total, given = right

    def proceed(carry):
        return carry[0] > 0

    def retreat(carry):
        i, now, total, found = carry
        _, pull_back = jax.vjp(*walked.step(static, i - 1))
        of_moved, of_state = pull_back(now)
        new = _add(of_state, _row(given, i - 1))
        return i - 1, new, _add(total, of_moved), _write(found, i - 1, new)

    given = jax.tree.map(kept_whole, given)
    begin = (walked.count, _row(given, walked.count), total, given)
    *_, total, found = eqxi.while_loop(proceed, retreat, begin, kind="lax", buffers=lambda carry: carry[3])
    return total, found


def _product(walked: _Walked, static: Any, x: Any) -> Any:
    """The left side; only second derivatives come here."""
    p, rows = x

    def change(i):
        # Rows beyond the last step are not meaningful: there the last step is looked at instead.
        _, push = jax.linearize(*walked.step(static, jnp.clip(i, 0, jnp.maximum(walked.count - 1, 0))))
        return jax.tree.map(lambda leaf: jnp.where(i < walked.count, leaf, 0.0), push(p, _row(rows, i)))

    changes = jax.lax.map(change, jnp.arange(walked.steps.shape[0]))
    return p, jax.tree.map(lambda leaf, new: leaf.at[1:].add(-new), rows, changes)


def _can_move(states: State, of_start: State) -> State:
    """The numbers of a state that may have a derivative: what it remembers has none, nor has time, unless the start moves in time."""
    wanted = jax.tree.map(eqx.is_inexact_array, states)
    no_memory = jax.tree.map(lambda _: False, states.memory)
    return eqx.tree_at(lambda s: (s.t, s.memory), wanted, (of_start.t is not None, no_memory))


def _given(tangents: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf is not None, tangents, is_leaf=lambda leaf: leaf is None)


def _row(tree: Any, i: Array | int) -> Any:
    return jax.tree.map(lambda leaf: kept_whole(leaf)[i], tree)


def _add(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def _write(buffers: Any, i: Array, row: Any) -> Any:
    return jax.tree.map(lambda leaf, buffer: buffer.at[i].set(leaf), row, buffers)
