"""Verifier pool, samplers and learners on a Ray cluster, with the same interfaces as on one machine."""
