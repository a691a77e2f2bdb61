"""float64 throughout: Newton stops at 1e-10 of a length, and error estimates are differences of nearby states.

Importing jaxmbd switches JAX to 64 bits unless the environment variable JAX_ENABLE_X64 says explicitly what the user wants.
"""

import os
import warnings

import jax

if "JAX_ENABLE_X64" not in os.environ:
    jax.config.update("jax_enable_x64", True)
elif not jax.config.read("jax_enable_x64"):
    warnings.warn(
        "JAX_ENABLE_X64 turns 64-bit numbers off: constraint tolerances of 1e-10, error estimates below 1e-4 and gradients will suffer, "
        "and Newton's method may not converge. Unset it to let jaxmbd use float64.",
        stacklevel=3,
    )
