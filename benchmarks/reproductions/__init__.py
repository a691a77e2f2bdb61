"""The reproductions of `benchmarks/reproduce.py`, a module for each paper."""
