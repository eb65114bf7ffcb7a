"""Families of tasks with their checkers. Nothing here imports torch."""

from steelyard.domains.base import Domain, Split
from steelyard.domains.registry import domain_paths, make_domain

__all__ = ["Domain", "Split", "domain_paths", "make_domain"]
