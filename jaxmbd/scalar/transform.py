"""`scalarise`: the same function with every small array taken apart, and its derivatives likewise."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from .emitting import Program, needed, nodes_of_whole
from .graph import Graph, Node, Operation, TooLarge, Value, all_known, numbers
from .interpreting import BEARABLE, Interpreter, names_within

BUDGET = 50_000
"""operations"""
LARGEST_IN_A_KERNEL = 192 * 1024
"""bytes: XLA would share out the making of a larger array to threads, which a kernel cannot (jaxlib 0.10.1: from 256 KB)"""
_LOG = logging.getLogger(__name__)


class Report(NamedTuple):
    """What became of a function."""

    scalarised: bool
    reason: str
    """why not; empty if it was"""
    operations: int
    """scalar operations in the program"""
    fallbacks: dict[str, int]
    """primitives that were taken as they are, and how often"""

    def log(self) -> None:
        if self.scalarised:
            _LOG.debug("scalarised: %d operations, as they are: %s", self.operations, self.fallbacks or "none")
        else:
            _LOG.debug("not scalarised: %s", self.reason)


class scalarise(eqx.Module):
    """The function f, with its small arrays taken apart into scalars when it is traced.

    Numbers that are known are computed while tracing, structural zeros and ones vanish, what is equal is computed once, short loops are written
    out, others keep bodies of scalars. Under `jax.vmap` each scalar is a vector over the lanes: nothing is gathered, scattered or transposed.

    Results are those of f up to rounding, with one exception: a zero that is known while tracing times or over an infinite number or NaN is
    zero. Derivatives of any order are those of f, its own rules for them included, and are taken apart likewise. What is not understood is
    done on whole arrays. Beyond `budget` operations, or if it has side effects, f runs as it is: `report` says so, and a line in the log.

    Arguments may be any pytrees; what is no array or number in them is static. Trace it within `jax.jit`; called on its own it is compiled.

    - `budget`: operations at most, counted before those are left out that nobody needs.
    - `fences`: costly values that are used several times are computed once (`emitting.fenced`). They change no bit.
    """

    function: Callable[..., Any]
    budget: int = eqx.field(default=BUDGET, static=True)
    fences: bool = eqx.field(default=True, static=True)

    def __call__(self, *arguments: Any) -> Any:
        numbers, rest = eqx.partition((self.function, arguments), eqx.is_array_like)
        return _compiled(jax.tree.map(jnp.asarray, numbers), rest, self.budget, self.fences)

    def report(self, *arguments: Any) -> Report:
        """What becomes of f, called with such arguments."""
        numbers, rest = eqx.partition((self.function, arguments), eqx.is_array_like)
        closed, _ = traced(jax.tree.map(jnp.asarray, numbers), rest)
        return Scalars.make(Source.of(closed), self.budget)[1]


@eqx.filter_jit
def _compiled(numbers: Any, rest: Any, budget: int, fences: bool) -> Any:
    closed, tree = traced(numbers, rest)
    leaves = _evaluate(closed, jax.tree.leaves(numbers), budget, fences)
    return jax.tree.unflatten(tree, leaves)


def traced(numbers: Any, rest: Any) -> tuple[Any, Any]:
    """The function as a jaxpr, and the structure of what it returns."""
    leaves, tree = jax.tree.flatten(numbers)
    found = []

    def flat(*leaves):
        function, arguments = eqx.combine(jax.tree.unflatten(tree, leaves), rest)
        out, structure = jax.tree.flatten(function(*arguments))
        found.append(structure)
        return out

    return jax.make_jaxpr(flat)(*leaves), found[-1]


def _evaluate(closed: Any, leaves: list[Any], budget: int, fences: bool) -> list[Any]:
    source = Source.of(closed)
    scalars, report = Scalars.make(source, budget)
    leaves = [*source.traced, *leaves]
    report.log()
    if scalars is None:
        return source.plain(leaves)
    differentiable = _with_vjp if "custom_vjp_call" in names_within(source.jaxpr) else _with_jvp
    return differentiable(source, scalars, budget, fences)(*leaves)


class Source(NamedTuple):
    """A jaxpr whose constants are known, but for those that are traced: they are its first arguments."""

    jaxpr: Any
    known: list[Any]
    """for each constant: its numbers, None if it is traced"""
    traced: list[Any]

    @staticmethod
    def of(closed: Any) -> "Source":
        known = [None if isinstance(const, jax.core.Tracer) else const for const in closed.consts]
        return Source(closed.jaxpr, known, [const for const in closed.consts if isinstance(const, jax.core.Tracer)])

    @property
    def arguments(self) -> list[Any]:
        """The variables that are not known."""
        constants = zip(self.jaxpr.constvars, self.known, strict=True)
        return [*(variable for variable, known in constants if known is None), *self.jaxpr.invars]

    def with_constants(self, leaves: Sequence[Any], constant: Callable[[Any, Any], Any]) -> list[Any]:
        """What belongs to all variables."""
        rest = iter(leaves)
        pairs = zip(self.jaxpr.constvars, self.known, strict=True)
        return [*(next(rest) if known is None else constant(known, variable.aval) for variable, known in pairs), *rest]

    def plain(self, leaves: Sequence[Any]) -> list[Any]:
        """The outputs as the function itself gives them."""
        every, constants = self.with_constants(leaves, lambda known, _: known), len(self.known)
        return jax.core.eval_jaxpr(self.jaxpr, every[:constants], *every[constants:])

    def moved(self, leaves: Sequence[Any], places: list[int]) -> Callable[..., list[Any]]:
        """The outputs by the arguments at some places alone."""

        def along(*some):
            every = list(leaves)
            for i, leaf in zip(places, some, strict=True):
                every[i] = leaf
            return self.plain(every)

        return along


class Scalars(NamedTuple):
    """A jaxpr as scalars."""

    graph: Graph
    inputs: list[Node]
    outputs: list[Value]
    dtypes: list[Any]

    @staticmethod
    def make(source: Source, budget: int, alone: bool = False) -> tuple["Scalars | None", Report]:
        jaxpr = source.jaxpr
        if jaxpr.effects:
            return None, Report(False, f"side effects: {', '.join(sorted(map(str, jaxpr.effects)))}", 0, {})
        graph = Graph(budget, LARGEST_IN_A_KERNEL if alone else None)
        interpreter = Interpreter(graph, alone)
        variables = source.arguments
        inputs = [graph.input(graph.region, variable.aval.dtype, variable.aval.shape) for variable in variables]
        values = [interpreter.opened(node, variable.aval) for node, variable in zip(inputs, variables, strict=True)]
        try:
            outputs = interpreter.run(jaxpr, source.with_constants(values, interpreter.constant))
        except TooLarge as error:
            return None, Report(False, str(error), 0, {})
        if alone and (foreign := graph.bound - BEARABLE):
            return None, Report(False, f"a kernel of a CPU has no place for {', '.join(sorted(foreign))}", 0, dict(graph.fallbacks))
        live = needed(graph.region, [node for value in outputs for node in nodes_of_whole(value)])[0]
        report = Report(True, "", sum(isinstance(node, Operation) for node in live), dict(graph.fallbacks))
        return Scalars(graph, inputs, outputs, [variable.aval.dtype for variable in jaxpr.outvars]), report

    def emit(self, leaves: dict[int, Any], outputs: Sequence[int], fences: bool = True) -> list[Any]:
        """Some outputs, from those inputs that they need, by their numbers."""
        program = Program(self.graph.region, {self.inputs[i]: leaf for i, leaf in leaves.items()}, fences)
        program.run(node for i in outputs for node in nodes_of_whole(self.outputs[i]))
        return [jnp.asarray(program.whole(self.outputs[i], self.dtypes[i]), self.dtypes[i]) for i in outputs]

    def needed_inputs(self) -> list[int]:
        live = set(needed(self.graph.region, [node for value in self.outputs for node in nodes_of_whole(value)])[0])
        return [i for i, node in enumerate(self.inputs) if node in live]

    def known_outputs(self) -> dict[int, np.ndarray]:
        """Those that depend on no input."""
        return {i: numbers(value, self.dtypes[i]) for i, value in enumerate(self.outputs) if all_known(value)}

    def computed_outputs(self) -> list[int]:
        return [i for i, value in enumerate(self.outputs) if not all_known(value)]


def _with_jvp(source: Source, scalars: Scalars, budget: int, fences: bool) -> Callable[..., list[Any]]:
    smooth = [i for i, variable in enumerate(source.jaxpr.outvars) if jnp.issubdtype(variable.aval.dtype, jnp.inexact)]
    number = len(source.jaxpr.outvars)

    @jax.custom_jvp
    def run(*leaves):
        return scalars.emit(dict(enumerate(leaves)), range(number), fences)

    def derivative(primals, tangents):
        moving = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, jax.custom_derivatives.SymbolicZero)]
        rates = [tangents[i] for i in moving]

        def both(primals, rates):
            outputs, slopes = jax.jvp(source.moved(primals, moving), tuple(primals[i] for i in moving), tuple(rates))
            return outputs, [slopes[i] for i in smooth]

        found = _evaluate(jax.make_jaxpr(both)(list(primals), rates), [*primals, *rates], budget, fences)
        slopes = dict(zip(smooth, found[number:], strict=True))
        return found[:number], [slopes[i] if i in slopes else _no_slope(out) for i, out in enumerate(found[:number])]

    run.defjvp(derivative, symbolic_zeros=True)
    return run


def _with_vjp(source: Source, scalars: Scalars, budget: int, fences: bool) -> Callable[..., list[Any]]:
    """Of a function that has rules for reverse mode alone."""
    smooth = [i for i, variable in enumerate(source.arguments) if jnp.issubdtype(variable.aval.dtype, jnp.inexact)]
    number = len(source.jaxpr.outvars)
    structures = []

    @jax.custom_vjp
    def run(*leaves):
        return scalars.emit(dict(enumerate(leaves)), range(number), fences)

    def forward(*leaves):
        def both(*leaves):
            outputs, pull = jax.vjp(source.moved(leaves, smooth), *(leaves[i] for i in smooth))
            kept, structure = jax.tree.flatten(pull)
            structures.append(structure)
            return outputs, kept

        found = _evaluate(jax.make_jaxpr(both)(*leaves), list(leaves), budget, fences)
        return found[:number], (found[number:], list(leaves))

    def backward(kept, cotangents):
        residuals, leaves = kept
        moving = [i for i, cotangent in enumerate(cotangents) if cotangent.dtype != jax.dtypes.float0]

        def pull(residuals, given):
            every = list(cotangents)
            for i, cotangent in zip(moving, given, strict=True):
                every[i] = cotangent
            return jax.tree.unflatten(structures[-1], residuals)(every)

        given = [cotangents[i] for i in moving]
        found = _evaluate(jax.make_jaxpr(pull)(residuals, given), [*residuals, *given], budget, fences)
        slopes = dict(zip(smooth, found, strict=True))
        return tuple(slopes[i] if i in slopes else _no_slope(leaf) for i, leaf in enumerate(leaves))

    run.defvjp(forward, backward)
    return run


def _no_slope(number: Any) -> np.ndarray:
    """The derivative of what has none."""
    return np.zeros(jnp.shape(number), jax.dtypes.float0)
