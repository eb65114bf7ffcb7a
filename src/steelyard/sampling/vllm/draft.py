"""A sample that vLLM writes, seen from our side: which token must come, which were taken, what a cut has left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from steelyard.sampling.row import Row

DRAFT = "steelyard_draft"
"""The extra argument of a request that says which draft it writes."""


class Draft:
    """A row that vLLM writes. Tokens come back a step later than they were drawn, log-probs at the end."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.kept: np.ndarray | None = None
        """What the cut of the newest draw has left."""

    def follow(self, tokens: Sequence[int]) -> None:
        """Take the tokens that the row does not have yet; what comes after its end is no part of it."""
        row = self.row
        while row.finished is None and len(row.tokens) < len(tokens):
            row.take(tokens[len(row.tokens)], math.nan, self.kept)

    def forced(self, place: int) -> int | None:
        """The only token that may come at this place; None: one is to be drawn.

        A row that has ended, be it that the rest was forced or that nothing fits, ends the request at once.
        """
        row = self.row
        if row.finished is not None:
            return min(row.end_ids)
        return row.tokens[place] if place < len(row.tokens) else None
