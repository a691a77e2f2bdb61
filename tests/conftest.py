"""Shared by all tests: compile fast rather than fast code, and jaxmbd before anything else, so that float64 is on."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import jaxmbd  # noqa: F401
