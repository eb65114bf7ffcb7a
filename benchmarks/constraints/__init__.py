"""Constrained sampling: exactness, validity, cost, and the grammar engines compared."""
