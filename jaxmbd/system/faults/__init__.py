"""What turned out wrong in a run: numbers that cannot be used, elements that are not finite."""
