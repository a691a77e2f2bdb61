"""Fitting parameters of mechanisms to measurements."""
