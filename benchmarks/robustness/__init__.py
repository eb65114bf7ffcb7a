"""Robustness of runs against kills and attacks."""
