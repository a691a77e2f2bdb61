"""What a run shows: names, what they look at, energies, reactions."""
