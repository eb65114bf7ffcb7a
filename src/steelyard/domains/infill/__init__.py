"""Fill-in-the-blank tasks: a policy fills the holes in a text, and a program and optionally a judge model score the
result.
"""

from steelyard.domains.infill.domain import Infill

__all__ = ["Infill"]
