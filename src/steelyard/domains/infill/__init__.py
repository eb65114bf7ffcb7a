"""Texts with holes that a policy fills; a program, and optionally a judge model, scores the result."""

from steelyard.domains.infill.domain import Infill

__all__ = ["Infill"]
