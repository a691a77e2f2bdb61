"""Models as data: numbers, names and kinds, never code."""
