"""float64 throughout: Newton stops at 1e-10 of a length, and error estimates are differences of nearby states.

Importing jaxmbd switches JAX to 64 bits unless the environment variable JAX_ENABLE_X64 says explicitly what the user wants.
"""

import os
import warnings

import jax
import jax.numpy as jnp

if "JAX_ENABLE_X64" not in os.environ:
    jax.config.update("jax_enable_x64", True)
elif not jax.config.read("jax_enable_x64"):
    warnings.warn(
        "JAX_ENABLE_X64 turns 64-bit numbers off. RosenbrockNystrom, WMethod and DormandPrince then run at tolerances down to 1e-4, Verlet, "
        "ExplicitNystrom and SemiExplicit at fixed steps, and equilibrium to four digits; HHT, BDF and Rodas4 fail, and gradients suffer. "
        "Unset it to let jaxmbd use float64.",
        stacklevel=3,
    )

_ROUNDING = float(jnp.finfo(jnp.result_type(float)).eps)


def attainable(tolerance: float, roundings: float = 16.0) -> float:
    """The tolerance, or so many roundings of a number of size 1 where that is more: in 32 bits."""
    return max(tolerance, roundings * _ROUNDING)
