"""Pictures of a run, and of many."""

from .plots import plot as plot
from .sweeps import plot_sweep as plot_sweep
