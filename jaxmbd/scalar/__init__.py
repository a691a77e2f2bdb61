"""Functions of small arrays as programs of scalars: `scalarise`."""

from .transform import Report as Report
from .transform import scalarise as scalarise
