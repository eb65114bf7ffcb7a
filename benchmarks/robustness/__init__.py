"""Runs survive kills and attacks."""
