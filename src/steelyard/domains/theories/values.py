"""Numbers in the model files of other programs, which may have symbols in their place."""

from __future__ import annotations

from fractions import Fraction

from steelyard.errors import DataError


def integer(said: str, where: str) -> int:
    """A whole number; ``where`` says which file, field and entry it is of."""
    try:
        return int(said)
    except ValueError:
        raise DataError(f"{where} is {said!r}; write it as a whole number") from None


def fraction(said: str, where: str) -> Fraction:
    try:
        return Fraction(said.replace(" ", ""))
    except (ValueError, ZeroDivisionError):
        raise DataError(f"{where} is {said!r}; write it as a fraction such as -1/3") from None


def decimal(said: str, where: str) -> float:
    try:
        return float(said)
    except ValueError:
        raise DataError(f"{where} is {said!r}; write it as a number") from None
