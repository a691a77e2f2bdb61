"""Parametric rolling bearings."""

from .deep_groove import DeepGroove as DeepGroove
from .report import Report as Report
from .start import Start as Start
