"""How large a step is."""

from .base import AbstractController as AbstractController
from .local_error import LocalError as LocalError
