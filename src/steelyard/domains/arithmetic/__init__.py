"""The arithmetic domain: questions whose answer is a single integer, for models that call a calculator."""

from steelyard.domains.arithmetic.domain import Arithmetic

__all__ = ["Arithmetic"]
