"""Models that were described for other programs."""
