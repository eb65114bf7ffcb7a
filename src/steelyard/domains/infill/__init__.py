"""Texts with holes: a policy fills them, a program and perhaps a model judge what came of it."""

from steelyard.domains.infill.domain import Infill

__all__ = ["Infill"]
