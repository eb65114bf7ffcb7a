"""Gauge theories as plain data, a shorthand notation, well-known models, and size limits."""
