"""The algebra below a step."""
