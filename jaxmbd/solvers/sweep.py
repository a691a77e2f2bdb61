"""Linear systems that are solved by walking through them, forward, or transposed, backwards.

`jax.lax.custom_linear_solve` does the same, but traces the matrix, its transpose and both solutions whenever one of them is needed: for
a time loop that doubles the time before a gradient runs. Here each is traced where it is used.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jaxtyping import Array, Float

Vector = Float[Array, "n"]


def solve(
    product: Callable[[Any, Vector], Vector],
    forward: Callable[[Any, Vector], Vector],
    backward: Callable[[Any, Vector], Vector],
    values: Any,
    right: Vector,
) -> Vector:
    """The x with product(values, x) = right, which forward(values, right) finds; backward(values, right) does so for the transpose.

    All three close over no array: what the matrix depends on are the values, a pytree. Differentiates in any mode and to any order, with
    respect to `values` through `product`; neither walk is differentiated.
    """
    leaves, structure = jax.tree.flatten(values)
    given = lambda function: lambda leaves, x: function(jax.tree.unflatten(structure, leaves), x)  # noqa: E731
    return _sweep.bind(*leaves, right, product=given(product), forward=given(forward), backward=given(backward))


_sweep = Primitive("sweep")


@_sweep.def_impl
def _walk(*arguments: Any, product, forward, backward):
    del product, backward
    *leaves, right = arguments
    return forward(leaves, right)


@_sweep.def_abstract_eval
def _shape(*arguments: Any, **_: Any):
    return arguments[-1]


def _jvp(arguments, tangents, *, product, forward, backward):
    """dx = A^-1 (db - dA x)."""
    functions = {"product": product, "forward": forward, "backward": backward}
    x = _sweep.bind(*arguments, **functions)
    *leaves, _ = arguments
    *moved, change = (None if isinstance(tangent, ad.Zero) else tangent for tangent in tangents)
    places = [i for i, tangent in enumerate(moved) if tangent is not None]
    if places:

        def of_moved(*values):
            every = list(leaves)
            for place, value in zip(places, values, strict=True):
                every[place] = value
            return product(every, x)

        _, turned = jax.jvp(of_moved, tuple(leaves[i] for i in places), tuple(moved[i] for i in places))
        change = -turned if change is None else change - turned
    return x, _sweep.bind(*leaves, change, **functions)


def _transpose(cotangent, *arguments, product, forward, backward):
    *leaves, _ = arguments
    turned = lambda leaves, y: jax.linear_transpose(lambda x: product(leaves, x), y)(y)[0]  # noqa: E731
    return [*(None for _ in leaves), _sweep.bind(*leaves, cotangent, product=turned, forward=backward, backward=forward)]


def _batch(arguments, places, **functions):
    """Every right side its own walk."""
    *leaves, right = arguments
    *of_leaves, of_right = places
    size = next(leaf.shape[place] for leaf, place in zip(arguments, places, strict=True) if place is not batching.not_mapped)
    right = batching.bdim_at_front(right, of_right, size)
    each = {
        name: lambda leaves, x, function=function: jax.vmap(function, in_axes=(list(of_leaves), 0))(list(leaves), x)
        for name, function in functions.items()
    }
    return _sweep.bind(*leaves, right, **each), 0


ad.primitive_jvps[_sweep] = _jvp
ad.primitive_transposes[_sweep] = _transpose
batching.primitive_batchers[_sweep] = _batch
mlir.register_lowering(_sweep, mlir.lower_fun(_walk, multiple_results=False))
