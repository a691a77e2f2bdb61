"""A jaxpr, equation by equation, with every small array taken apart."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.core
import numpy as np
from jax.extend import core

from . import control, solving, wholes
from .combining import COMBINING, LONGEST_SORT
from .emitting import Program, nodes_of_whole
from .folding import ELEMENTWISE, Algebra
from .graph import Call, Graph, Value, entries, is_apart, scalar
from .moving import MOVING

LARGEST_APART = 1024
"""entries of an array that is taken apart"""
_INLINED = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "core_call", "remat", "remat2", "checkpoint"), "jaxpr"),
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call"), "call_jaxpr"),
    "custom_vmap_call": "call",
}
"""Calls by name, and the parameter that holds what is called."""
_SAME = {"copy", "copy_p", "stop_gradient", "optimization_barrier", "nonbatchable", "sharding_constraint"}
"""Primitives that change no number. Derivatives are never taken of what is interpreted, but before."""


_FIRST_ALONE = {"unvmap_any": 0, "unvmap_all": 0, "unvmap_max": 0, "select_if_vmap": 1}
"""Equinox's primitives that ask for other lanes: without any, the argument at this place is the result."""


class Bind(Call):
    """A primitive that is taken as it is, of whole arrays."""

    def __init__(self, primitive: Any, params: dict[str, Any], values: Sequence[Value], dtypes: Sequence[Any]):
        self.primitive, self.params, self.values, self.dtypes = primitive, params, values, dtypes

    def find_needs(self):
        for value in self.values:
            yield from nodes_of_whole(value)

    def emit(self, program: Program) -> list[Any]:
        arguments = [program.whole(value, dtype) for value, dtype in zip(self.values, self.dtypes, strict=True)]
        out = self.primitive.bind(*arguments, **self.primitive.get_bind_params(self.params))
        return list(out) if self.primitive.multiple_results else [out]


class Constant(Call):
    """An array that is too large to be taken apart."""

    def __init__(self, array: Any):
        self.array = array

    def find_needs(self):
        return iter(())

    def emit(self, program: Program) -> list[Any]:
        return [self.array]


class Interpreter:
    def __init__(self, graph: Graph, alone: bool = False):
        """`alone`: for one lane on a CPU. What is done otherwise under `jax.vmap`, or on another device, is left out."""
        self.graph, self.algebra, self.alone = graph, Algebra(graph), alone

    def run(self, jaxpr: Any, values: Sequence[Value]) -> list[Value]:
        """The outputs of a jaxpr, whose constants are the first of the values."""
        known: dict[Any, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], values, strict=True))

        def read(variable):
            return self.constant(variable.val, variable.aval) if isinstance(variable, core.Literal) else known[variable]

        for equation in jaxpr.eqns:
            outputs = self.equation(equation, [read(variable) for variable in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def closed(self, closed: Any, values: Sequence[Value]) -> list[Value]:
        jaxpr, consts = (closed.jaxpr, closed.consts) if isinstance(closed, core.ClosedJaxpr) else (closed, [])
        constants = [self.constant(const, variable.aval) for const, variable in zip(consts, jaxpr.constvars, strict=True)]
        return self.run(jaxpr, [*constants, *values])

    def constant(self, number: Any, aval: Any) -> Value:
        if goes_apart(aval) and not isinstance(number, jax.core.Tracer):
            return entries(np.asarray(number, aval.dtype))
        return self.opened(self.graph.results(Constant(number), [aval])[0], aval)

    def opened(self, node: Any, aval: Any) -> Value:
        """Taken apart if it is small."""
        return self.graph.apart(node) if goes_apart(aval) else node

    def equation(self, equation: Any, values: list[Value]) -> list[Value]:
        name, params = equation.primitive.name, equation.params
        avals = [variable.aval for variable in equation.outvars]
        if name in _INLINED and params.get("name") == wholes.NAME:
            return [control.as_whole(self.graph, values[0], avals[0].dtype)]
        if name in _INLINED:
            return self._solved(equation, values) or self.closed(params[_INLINED[name]], values)
        if name in _SAME:
            return values
        if self.alone and name == "platform_index":
            place = next(i for i, names in enumerate(params["platforms"]) if names is None or "cpu" in names)
            return [scalar(avals[0].dtype.type(place))]
        if self.alone and name in _FIRST_ALONE:
            return [values[_FIRST_ALONE[name]]]
        if name in _CONTROL:
            return _CONTROL[name](self, equation, values) or self.as_it_is(equation, values)
        if not all(map(is_apart, values)) or not all(map(goes_apart, avals)) or _is_beyond(name, equation, values):
            return self.as_it_is(equation, values)
        if name in ELEMENTWISE:
            return [self.elementwise(equation, values, avals[0])]
        rule = MOVING.get(name) or COMBINING.get(name)
        if rule is None:
            return self.as_it_is(equation, values)
        return rule(self.algebra, values, params, avals)

    def _solved(self, equation: Any, values: list[Value]) -> list[Value] | None:
        """Linear equations, if it is they and nothing more: derivatives and batches of them keep their name."""
        rule = solving.RULES.get(equation.params.get("name", ""))
        shapes = [variable.aval.shape for variable in (*equation.invars, *equation.outvars)]
        alike = len(shapes) == (2 if rule is solving.inverse else 3) and all(len(shape) == 2 for shape in shapes)
        if rule is None or not alike or shapes[-1] != shapes[-2] or not all(map(is_apart, values)):
            return None
        return rule(self.algebra, values, self.alone)

    def elementwise(self, equation: Any, values: list[Value], aval: Any) -> Value:
        values = [np.broadcast_to(value, aval.shape) for value in values]
        out = np.empty(aval.shape, object)
        for place in np.ndindex(aval.shape):
            out[place] = self.algebra.apply(equation.primitive, equation.params, tuple(value[place] for value in values), aval.dtype)
        return out

    def as_it_is(self, equation: Any, values: list[Value]) -> list[Value]:
        self.graph.count(1 + sum(value.size for value in values if is_apart(value)))
        self.graph.fallbacks[equation.primitive.name] += 1
        self.graph.bound |= {equation.primitive.name, *(name for inner in _jaxprs_in(equation) for name in names_within(inner))}
        avals = [variable.aval for variable in equation.outvars]
        bind = Bind(equation.primitive, equation.params, values, [variable.aval.dtype for variable in equation.invars])
        kept = {value.shape for value in values if not is_apart(value)}
        return [
            node if aval.shape in kept else self.opened(node, aval)
            for node, aval in zip(self.graph.results(bind, avals), avals, strict=True)
        ]


def names_within(jaxpr: Any) -> set[str]:
    """Of all primitives in a jaxpr and in those within it."""
    names = {equation.primitive.name for equation in jaxpr.eqns}
    return names.union(*(names_within(inner) for equation in jaxpr.eqns for inner in _jaxprs_in(equation)))


def _jaxprs_in(equation: Any) -> list[Any]:
    parts = [part for param in equation.params.values() for part in (param if isinstance(param, tuple | list) else [param])]
    return [part.jaxpr if isinstance(part, core.ClosedJaxpr) else part for part in parts if isinstance(part, core.ClosedJaxpr | core.Jaxpr)]


def goes_apart(aval: Any) -> bool:
    plain = isinstance(aval.dtype, np.dtype) and (aval.dtype in (np.float32, np.float64) or aval.dtype.kind in "iub")
    return plain and int(np.prod(aval.shape)) <= LARGEST_APART


def _is_beyond(name: str, equation: Any, values: list[Value]) -> bool:
    """Cases of a primitive that its rule does not cover."""
    if name == "sort":
        return values[0].shape[equation.params["dimension"]] > LONGEST_SORT
    if name == "dot_general":
        return len({variable.aval.dtype for variable in (*equation.invars, *equation.outvars)}) > 1
    if name in ("argmax", "argmin"):
        return len(equation.params["axes"]) != 1
    return name == "reshape" and equation.params["dimensions"] is not None


def _linear_solve(interpreter: Interpreter, equation: Any, values: list[Value]) -> list[Value]:
    lengths, jaxprs = equation.params["const_lengths"], equation.params["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    right = before + lengths.solve + lengths.transpose_solve
    return interpreter.closed(jaxprs.solve, [*values[before : before + lengths.solve], *values[right:]])


def _while(interpreter: Interpreter, equation: Any, values: list[Value]) -> list[Value]:
    params = equation.params
    for_condition, for_body = params["cond_nconsts"], params["body_nconsts"]
    condition, body, first = np.split(np.arange(len(values)), [for_condition, for_condition + for_body])
    return control.while_loop(
        interpreter.graph,
        lambda carry: interpreter.closed(params["cond_jaxpr"], [*(values[i] for i in condition), *carry]),
        lambda carry: interpreter.closed(params["body_jaxpr"], [*(values[i] for i in body), *carry]),
        [values[i] for i in first],
    )


def _cond(interpreter: Interpreter, equation: Any, values: list[Value]) -> list[Value]:
    index, *operands = values
    branches = [lambda branch=branch: interpreter.closed(branch, operands) for branch in equation.params["branches"]]
    avals = [variable.aval for variable in equation.outvars]
    out = control.switch(interpreter.graph, index[()], branches)
    return [interpreter.opened(value, aval) if not is_apart(value) else value for value, aval in zip(out, avals, strict=True)]


def _scan(interpreter: Interpreter, equation: Any, values: list[Value]) -> list[Value] | None:
    """A short one is written out."""
    params = equation.params
    constants, carried, length = params["num_consts"], params["num_carry"], params["length"]
    consts, carry, rows = values[:constants], values[constants : constants + carried], values[constants + carried :]
    stacked = [variable.aval for variable in equation.outvars[carried:]]
    if length > control.LONGEST_UNROLLED or not all(map(is_apart, rows)) or not all(map(goes_apart, stacked)):
        return None
    kept: list[list[Value]] = []
    for i in reversed(range(length)) if params["reverse"] else range(length):
        out = interpreter.closed(params["jaxpr"], [*consts, *carry, *(row[i : i + 1].reshape(row.shape[1:]) for row in rows)])
        carry = out[:carried]
        kept.append(out[carried:])
    kept = kept[::-1] if params["reverse"] else kept
    stacks = [np.stack([row[k] for row in kept]) if kept else np.empty(aval.shape, object) for k, aval in enumerate(stacked)]
    return [*carry, *stacks]


BEARABLE = {
    *ELEMENTWISE,
    *MOVING,
    *_INLINED,
    *(
        "reduce_sum",
        "reduce_max",
        "reduce_min",
        "reduce_prod",
        "reduce_and",
        "reduce_or",
        "argmax",
        "argmin",
        "copy",
        "while",
        "cond",
        "scan",
    ),
} - {"sort"}
"""Names of primitives of whole arrays of which a kernel of a CPU may be made. Others are calls to a library, or shared out to threads."""
_CONTROL = {"while": _while, "cond": _cond, "scan": _scan, "custom_linear_solve": _linear_solve}
