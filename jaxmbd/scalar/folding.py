"""Elementwise primitives on entries: numbers that are known are computed with numpy, zeros and ones vanish, equal expressions are shared.

What is left out must not change results, with one exception that sparsity needs: **a zero that is known while tracing stays zero, whatever
it is multiplied with or divided by**, be that infinite or NaN. x - x and x / x are not simplified: where a step breaks down, NaN still says so.
The sign of a zero may be lost (x + 0 is x).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from .graph import Entry, Graph, is_known, same


def _divide(one, other):
    if one.dtype.kind == "f":
        return np.divide(one, other)
    return None if other == 0 else np.sign(one) * np.sign(other) * (np.abs(one) // np.abs(other))


def _remainder(one, other):
    return None if one.dtype.kind != "f" and other == 0 else np.fmod(one, other)


def _convert(number, new_dtype, **_):
    kind = np.dtype(new_dtype)
    if number.dtype.kind == "f" and kind.kind in "iu":
        bounds = np.iinfo(kind)
        if not bounds.min < number < bounds.max:
            return None
    return number.astype(kind)


def _round(number, rounding_method):
    return np.round(number) if rounding_method == lax.RoundingMethod.TO_NEAREST_EVEN else None


def _integer_power(number, y):
    return np.power(number, y) if y >= 0 or number.dtype.kind == "f" else None


def _power(number, exponent):
    return np.power(number, exponent) if number.dtype.kind == "f" else None


_NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _divide,
    "rem": _remainder,
    "neg": np.negative,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": _round,
    "is_finite": np.isfinite,
    "abs": np.abs,
    "max": np.maximum,
    "min": np.minimum,
    "clamp": lambda low, number, high: np.minimum(np.maximum(number, low), high),
    "pow": _power,
    "integer_pow": _integer_power,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": lambda number: 1 / np.sqrt(number),
    "cbrt": np.cbrt,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "select_n": lambda which, *cases: cases[int(which)],
    "nextafter": np.nextafter,
    "convert_element_type": _convert,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log1p": np.log1p,
    "expm1": np.expm1,
}
_COMMUTE = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}
ELEMENTWISE = {
    *_NUMPY,
    *("logistic", "erf", "erfc", "erf_inv", "lgamma", "digamma", "shift_left", "shift_right_logical", "shift_right_arithmetic"),
    *("population_count", "clz", "unvmap_any", "unvmap_all", "unvmap_max", "select_if_vmap"),
}
"""Names of primitives that work entry by entry. Those that numpy lacks are not computed while tracing."""
_DEFAULTS: dict[Any, dict[str, Any]] = {lax.mul_p: {"out_dtype": None}}
"""Parameters that a primitive must be given."""
_TO_INT = {"new_dtype": np.dtype(np.int32), "weak_type": False, "sharding": None}


class Algebra:
    """Makes the operations of a graph."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def apply(self, primitive: Any, params: dict[str, Any], arguments: tuple[Entry, ...], dtype: Any) -> Entry:
        """One entry of what an elementwise primitive gives; dtype is its."""
        dtype = np.dtype(dtype)
        given = {name: value for name, value in params.items() if value is not None and name != "accuracy"}
        if all(is_known(entry) for entry in arguments):
            number = _fold(primitive.name, given, arguments)
            if number is not None:
                return dtype.type(number)
        shortcut = _SHORTCUTS.get(primitive.name)
        if shortcut is not None:
            found = shortcut(self, arguments, dtype, **given)
            if found is not None:
                return found
        return self.graph.operation(primitive, params, arguments, dtype, primitive.name in _COMMUTE)

    def _make(self, primitive, dtype, *arguments):
        return self.apply(primitive, _DEFAULTS.get(primitive, {}), arguments, dtype)

    def add(self, one, other):
        return self._make(lax.add_p, one.dtype, one, other)

    def subtract(self, one, other):
        return self._make(lax.sub_p, one.dtype, one, other)

    def multiply(self, one, other):
        return self._make(lax.mul_p, one.dtype, one, other)

    def divide(self, one, other):
        return self._make(lax.div_p, one.dtype, one, other)

    def size(self, one):
        return self._make(lax.abs_p, one.dtype, one)

    def as_index(self, condition):
        """0 or 1, for a branch."""
        return self.apply(lax.convert_element_type_p, _TO_INT, (condition,), np.int32)

    def negate(self, one):
        return self._make(lax.neg_p, one.dtype, one)

    def maximum(self, one, other):
        return self._make(lax.max_p, one.dtype, one, other)

    def minimum(self, one, other):
        return self._make(lax.min_p, one.dtype, one, other)

    def both(self, one, other):
        return self._make(lax.and_p, one.dtype, one, other)

    def either(self, one, other):
        return self._make(lax.or_p, one.dtype, one, other)

    def opposite(self, one):
        return self._make(lax.not_p, one.dtype, one)

    def less(self, one, other):
        return self._make(lax.lt_p, bool, one, other)

    def at_least(self, one, other):
        return self._make(lax.ge_p, bool, one, other)

    def equal(self, one, other):
        return self._make(lax.eq_p, bool, one, other)

    def select(self, condition, yes, no):
        return self._make(lax.select_n_p, yes.dtype, condition, no, yes)

    def is_nan(self, one):
        return np.False_ if one.dtype.kind != "f" else self._make(lax.ne_p, bool, one, one)


def _fold(name, params, arguments):
    function = _NUMPY.get(name)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return function(*arguments, **params)


def _is(entry, number) -> bool:
    return is_known(entry) and bool(entry == number)


def _add(algebra, arguments, dtype):
    for one, other in (arguments, arguments[::-1]):
        if _is(one, 0):
            return other
        if getattr(one, "primitive", None) is lax.neg_p:
            return algebra.subtract(other, one.arguments[0])
    return None


def _add_any(algebra, arguments, dtype):
    return algebra.add(*arguments)


def _subtract(algebra, arguments, dtype):
    one, other = arguments
    if _is(other, 0):
        return one
    if _is(one, 0) and dtype.kind == "f":
        return algebra.negate(other)
    if getattr(other, "primitive", None) is lax.neg_p:
        return algebra.add(one, other.arguments[0])
    return None


def _multiply(algebra, arguments, dtype):
    for one, other in (arguments, arguments[::-1]):
        if _is(one, 0):
            return dtype.type(0)
        if _is(one, 1):
            return other
        if dtype.kind == "f" and _is(one, -1):
            return algebra.negate(other)
    return None


def _quotient(algebra, arguments, dtype):
    one, other = arguments
    if _is(one, 0) and dtype.kind == "f" and not is_known(other):
        return dtype.type(0)
    return one if _is(other, 1) else None


def _negate(algebra, arguments, dtype):
    return arguments[0].arguments[0] if getattr(arguments[0], "primitive", None) is lax.neg_p else None


def _extreme(algebra, arguments, dtype):
    return arguments[0] if same(*arguments) else None


def _and(algebra, arguments, dtype):
    if dtype.kind == "b":
        for one, other in (arguments, arguments[::-1]):
            if is_known(one):
                return other if one else np.False_
    return _extreme(algebra, arguments, dtype)


def _or(algebra, arguments, dtype):
    if dtype.kind == "b":
        for one, other in (arguments, arguments[::-1]):
            if is_known(one):
                return np.True_ if one else other
    return _extreme(algebra, arguments, dtype)


def _select(algebra, arguments, dtype):
    which, *cases = arguments
    if is_known(which):
        return cases[int(which)]
    if all(same(case, cases[0]) for case in cases):
        return cases[0]
    if dtype.kind == "b" and which.dtype.kind == "b" and all(is_known(case) for case in cases):
        return which if cases[1] else algebra.opposite(which)
    return None


def _integer_pow(algebra, arguments, dtype, y):
    one = arguments[0]
    if y == 0:
        return dtype.type(1)
    if y == 1:
        return one
    if y in (2, 3):
        square = algebra.multiply(one, one)
        return square if y == 2 else algebra.multiply(one, square)
    return None


def _square(algebra, arguments, dtype):
    return algebra.multiply(arguments[0], arguments[0])


def _same_dtype(algebra, arguments, dtype, **_):
    return arguments[0] if arguments[0].dtype == dtype else None


_SHORTCUTS: dict[str, Callable[..., Entry | None]] = {
    "add": _add,
    "add_any": _add_any,
    "sub": _subtract,
    "mul": _multiply,
    "div": _quotient,
    "neg": _negate,
    "max": _extreme,
    "min": _extreme,
    "and": _and,
    "or": _or,
    "select_n": _select,
    "integer_pow": _integer_pow,
    "square": _square,
    "convert_element_type": _same_dtype,
}
