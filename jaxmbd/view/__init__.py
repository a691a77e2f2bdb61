"""Pictures of a run, and of many."""

from .fits import plot_fit as plot_fit
from .fits import plot_sensitivities as plot_sensitivities
from .plots import plot as plot
from .sweeps import plot_sweep as plot_sweep
