"""The state of a run."""

from typing import Any

import equinox as eqx
from jaxtyping import Float

from .._numbers import Numbers


class Memory(eqx.Module):
    """What a state remembers besides numbers that move continuously; it changes only when a step is accepted, and has no derivative."""

    angles: Float[Numbers, "*runs angles"]
    """rad, the relative angles over full turns at the last accepted step"""
    kept_rows: Float[Numbers, "*runs rows"]
    """1 for a constraint row that is enforced, 0 for one that follows from the others (redundant)"""


class State(eqx.Module):
    """Everything at one time. `method` is what the integrator carries along; another integrator may start from the rest."""

    t: Float[Numbers, "*runs"]
    """s"""
    q: Float[Numbers, "*runs q"]
    v: Float[Numbers, "*runs q"]
    x: Float[Numbers, "*runs x"]
    """differential states"""
    multipliers: Float[Numbers, "*runs rows"]
    """zero of rows that were not enforced when they were computed: by the step that led here, after which memory may keep others"""
    acceleration: Float[Numbers, "*runs q"]
    """q'' as the equations of motion give it"""
    state_rate: Float[Numbers, "*runs x"]
    """x'"""
    memory: Memory
    method: Any = None
