"""Functions of small arrays as programs of scalars: `scalarise`."""

from .lanes import one_kernel as one_kernel
from .transform import Report as Report
from .transform import scalarise as scalarise
from .wholes import kept_whole as kept_whole
