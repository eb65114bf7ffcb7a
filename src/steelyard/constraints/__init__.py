"""Constraints: which tokens are allowed, in both sampling and training."""
