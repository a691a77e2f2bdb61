"""How a run ended."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Int


class RESULTS(eqx.Enumeration):
    """Result codes with a sentence a person can act on."""

    successful = "the run reached its end."
    event_occurred = "an event ended the run."
    max_steps_reached = "the run stopped because it took as many steps as max_steps allows: raise max_steps, or take larger steps."
    step_too_small = (
        "the step became smaller than min_step: the motion cannot be resolved to the tolerance (an impact, a singular configuration, or an "
        "error in the model)."
    )
    singular_configuration = (
        "the constraints became singular: the mechanism stands in a dead point or a branching of its motion, or the independent coordinates "
        "that were given cannot describe it there."
    )
    diverged = (
        "speeds grew beyond anything physical, as they do if the step is too large for the method: use smaller or adaptive steps, or an "
        "implicit method such as mbd.HHT()."
    )
    not_finite = "a force, a constraint or a rate of a differential state became NaN or infinite: look at the function that gives it."
    newton_failed = "Newton's method did not converge at a prescribed step size: use smaller or adaptive steps."
    constraints_not_met = (
        "after a step of a prescribed size no configuration was found that satisfies the constraints: use smaller or adaptive steps."
    )
    not_finite_at_start = "a force, a constraint or a rate of a differential state is NaN or infinite at the initial state."
    jammed_start = (
        "no accelerations and multipliers satisfy the equations of motion at the initial state together with the forces that depend on "
        "multipliers: friction jams there; take a smaller coefficient, or another initial state."
    )
    inconsistent_start = (
        "the constraints cannot be satisfied near the initial configuration: joints contradict each other, or the start is too far off."
    )
    bad_parameter = "the run did not start, because a number that was given to it is NaN, infinite or out of its range."


def sentences() -> list[str]:
    """Of all results, by their numbers."""
    return list(RESULTS._index_to_message)


def number(result: RESULTS) -> Int[Array, ""]:
    """Traced results too have one."""
    return jnp.asarray(result._value)
