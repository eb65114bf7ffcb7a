"""Benchmarks, each of which tests one claim about Steelyard. ``python -m benchmarks --list`` lists them."""
