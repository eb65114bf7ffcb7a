"""Gauge theories as plain data, with a shorthand to write them, well-known models and limits on their size."""
