"""Gauge theories: group theory, grammar, cost and learning."""
