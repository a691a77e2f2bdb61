"""What moves."""
