"""Pictures of a run."""

from .plots import plot as plot
