"""Flaws of a structure, in five categories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from steelyard.errors import Invalid


class Reason(StrEnum):
    """Reasons why a brick is invalid, in checking order. Floating bricks are found after all bricks are placed."""

    ILL_FORMATTED = "ill formatted"
    NOT_IN_LIBRARY = "not in library"
    OUT_OF_BOUNDS = "out of bounds"
    COLLISION = "collision"
    FLOATING = "floating"


@dataclass(frozen=True, slots=True)
class Flaw:
    """A flaw of one brick, with its position in the input."""

    reason: Reason
    line: int
    """Number of the brick in the input, counted from 1; in text, its line number."""
    detail: str
    """The offending text or brick, and the rule it breaks."""

    def __str__(self) -> str:
        return f"{self.reason}: brick {self.line}, {self.detail}"


class InvalidStructureError(Invalid):
    """The input is not a valid structure; ``flaw`` is the first one found.

    If a verifier raises this error, the sample is rejected.
    """

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(str(flaw))
        self.flaw = flaw
