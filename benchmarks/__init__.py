"""Benchmarks: each measures one claim about Steelyard. ``python -m benchmarks --list`` lists them."""
