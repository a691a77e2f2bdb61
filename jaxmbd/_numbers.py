"""What the numbers of elements are."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Array

if TYPE_CHECKING:  # what code may do with them is what it may do with arrays of JAX
    Numbers = Array
    Number = Array
else:
    Numbers = Array | np.ndarray | np.number
    """Of numpy where a person made the element, of JAX in a run. In a system elements are stacked by kind: their numbers have a first axis,
    and so shapes of fields begin with `*stack`, which is nothing for a single element."""
    Number = Numbers | float
    """One, of numpy, JAX or Python: t, where a person asks."""
