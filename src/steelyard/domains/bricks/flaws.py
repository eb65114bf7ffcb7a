"""What can be wrong with a structure, in five kinds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from steelyard.errors import Invalid


class Reason(StrEnum):
    """Why a brick cannot be taken; checked in this order, and floating last, when all bricks are there."""

    ILL_FORMATTED = "ill formatted"
    NOT_IN_LIBRARY = "not in library"
    OUT_OF_BOUNDS = "out of bounds"
    COLLISION = "collision"
    FLOATING = "floating"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong, and where."""

    reason: Reason
    line: int
    """Which brick as it was given, counted from 1: in a text its line."""
    what: str
    """What stands there and what it is at odds with."""

    def __str__(self) -> str:
        return f"{self.reason}: brick {self.line}, {self.what}"


class InvalidStructureError(Invalid):
    """No structure: the first flaw found. Raised in a verifier it rejects the sample."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(str(flaw))
        self.flaw = flaw
