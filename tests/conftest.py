"""Shared by all tests: jaxmbd before anything else, so that float64 is on."""

import jaxmbd  # noqa: F401
