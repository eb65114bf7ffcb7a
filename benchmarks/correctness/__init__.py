"""Correctness: log-probabilities and updates match independent computations."""
