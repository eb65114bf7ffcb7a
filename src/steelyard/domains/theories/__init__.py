"""Gauge theories: what they are, whether they are consistent, and what is left of them after symmetry breaking."""
