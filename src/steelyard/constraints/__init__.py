"""Constraints: which tokens are allowed, both in sampling and in training."""
