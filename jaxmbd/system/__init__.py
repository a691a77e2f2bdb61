"""What moves. Knows nothing of time stepping."""
