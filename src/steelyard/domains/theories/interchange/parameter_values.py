"""Parameter values in the model files of other programs, where some may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from steelyard.errors import DataError

MISSING_VALUES = "couplings count as 1, vacuum expectation values as 246 GeV"
"""Explains the defaults for missing values."""


class ParameterValues:
    """Values of couplings and vacuum expectation values in a file. Names without a value are added to ``missing``."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self._known = known
        self.missing: list[str] = []

    def coupling(self, name: str) -> float:
        return self._value(name, 1.0)

    def vev(self, name: str) -> float:
        return self._value(name, 246.0)

    def _value(self, name: str, default: float) -> float:
        if name not in self._known:
            self.missing.append(name)
        return self._known.get(name, default)


def integer(text: str, where: str) -> int:
    """Parse an integer; ``where`` names the file, field and entry for the error message."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{where} = {text!r} must be an integer") from None


def fraction(text: str, where: str) -> Fraction:
    try:
        return Fraction(text.replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        raise DataError(f"{where} = {text!r} must be a fraction such as -1/3") from None


def decimal(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where} = {text!r} must be a number") from None
