"""Raising errors from compiled programs: the one place where a program calls back to the host."""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, Int


class Failure(RuntimeError):
    """What a compiled program raises, as the last line of JAX's own error."""


# The error itself has all there is to say: JAX need not write it to the log before, with a page of its own frames.
logging.getLogger("jax._src.callback").addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], Failure)))


def raise_if(values: Any, failed: Bool[Array, ""], which: Int[Array, ""] | int, sentences: Sequence[str]) -> Any:
    """The values, which are arrays. Once they are computed, Failure(sentences[which]) is raised if `failed`; in a batch, if it is in any
    lane, with the largest `which` of those that failed."""
    which = eqxi.unvmap_max(jnp.where(failed, which, 0))
    failed = eqxi.unvmap_any(failed)
    if not isinstance(failed, Tracer):
        if bool(failed):
            raise Failure(sentences[int(which)])
        return values
    return _guard(values, failed, which, tell=_Teller(tuple(sentences)))


@eqx.filter_custom_jvp
def _guard(values, failed, which, *, tell):
    shapes = jax.eval_shape(lambda: values)
    return jax.lax.cond(failed, lambda: jax.pure_callback(tell, shapes, which), lambda: values)


@_guard.def_jvp
def _guard_jvp(primals, tangents, *, tell):
    return _guard(*primals, tell=tell), tangents[0]


@dataclasses.dataclass(frozen=True)
class _Teller:
    """Runs on the host. Equal if its sentences are: a program that was traced again is known again."""

    sentences: tuple[str, ...]

    def __call__(self, which: Any) -> None:
        # JAX's message begins with the frames below the one that raised. Below a generator that has ended there are none.
        next(self.tell(int(which)))

    def tell(self, which: int) -> Iterator[None]:
        raise Failure(self.sentences[which])
        yield
