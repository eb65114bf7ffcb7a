"""The arithmetic domain: questions whose answer is one whole number, for models that call a calculator."""

from steelyard.domains.arithmetic.domain import Arithmetic

__all__ = ["Arithmetic"]
