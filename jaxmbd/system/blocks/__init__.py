"""Large mechanisms as matrices of small blocks."""
