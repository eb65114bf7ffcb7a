"""Families of tasks with their checkers. Nothing here imports torch."""

from steelyard.domains.base import Domain, Made, Report, Row, Split, Survey, Surveyed, Workshop, workshop_of
from steelyard.domains.registry import domain_paths, make_domain

__all__ = [
    "Domain",
    "Made",
    "Report",
    "Row",
    "Split",
    "Survey",
    "Surveyed",
    "Workshop",
    "domain_paths",
    "make_domain",
    "workshop_of",
]
