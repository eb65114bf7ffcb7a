"""Shared benchmark code: the catalogue, results, the report, processes and training runs."""
