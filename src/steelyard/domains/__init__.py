"""Families of tasks with verifiers. This package does not import torch."""

from steelyard.domains.artifacts import Artifact, Report, Row, Summary, TextSpan
from steelyard.domains.base import Domain, Split
from steelyard.domains.registry import domain_names, make_domain, register

__all__ = [
    "Artifact",
    "Domain",
    "Report",
    "Row",
    "Split",
    "Summary",
    "TextSpan",
    "domain_names",
    "make_domain",
    "register",
]
