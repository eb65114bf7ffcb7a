"""Constraints: which tokens may come, in sampling and in training alike."""
