"""Fill-in-the-blank tasks: a policy fills holes in text; a program and optionally a judge model score the result."""

from steelyard.domains.infill.domain import Infill

__all__ = ["Infill"]
