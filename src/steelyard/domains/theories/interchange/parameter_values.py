"""Numbers in the model files of other programs, which may have symbols in their place."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from steelyard.errors import DataError

MISSING_VALUES = "couplings count as 1, vacuum expectation values as 246 GeV"
"""What is taken where a file has no value."""


class ParameterValues:
    """What a file says of the values of its couplings; those it says nothing of are noted when asked for."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self._known = known
        self.missing: list[str] = []

    def coupling(self, name: str) -> float:
        return self._of(name, 1.0)

    def vev(self, name: str) -> float:
        return self._of(name, 246.0)

    def _of(self, name: str, otherwise: float) -> float:
        if name not in self._known:
            self.missing.append(name)
        return self._known.get(name, otherwise)


def integer(text: str, where: str) -> int:
    """A whole number; ``where`` says which file, field and entry it is of."""
    try:
        return int(text)
    except ValueError:
        raise DataError(f"{where} is {text!r}; write it as a whole number") from None


def fraction(text: str, where: str) -> Fraction:
    try:
        return Fraction(text.replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        raise DataError(f"{where} is {text!r}; write it as a fraction such as -1/3") from None


def decimal(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{where} is {text!r}; write it as a number") from None
