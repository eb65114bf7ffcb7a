"""Masked (fill-in) policies: exactness and learning."""
