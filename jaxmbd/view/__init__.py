"""Pictures of a run, and of many."""

from .accounts import plot_contact as plot_contact
from .accounts import plot_energy as plot_energy
from .accounts import plot_named as plot_named
from .accounts import plot_steps as plot_steps
from .fits import plot_fit as plot_fit
from .fits import plot_sensitivities as plot_sensitivities
from .methods import plot_work_precision as plot_work_precision
from .plots import plot as plot
from .plots import plot_phase as plot_phase
from .sweeps import plot_sweep as plot_sweep
