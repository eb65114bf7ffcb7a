"""Compare decoders with equal token budgets: every sampled token counts, including those in rejected lines.

Each task gets the same number of tokens. A decoder makes attempts until one succeeds or the tokens are used up; an
attempt that needs more tokens than are left is cut off and fails.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from benchmarks.bricks.rejection import Building, BuildResult, LineRequest
from steelyard.domains.bricks.structure import Structure

Found = TypeVar("Found")


class Attempt(NamedTuple):
    """One attempt at a task."""

    tokens: int
    success: bool


class PricedLine(NamedTuple):
    """A line and the number of tokens sampled for it."""

    line: str
    tokens: int


LineRequester = Generator[LineRequest, PricedLine | None, Found]
"""Yields requests for lines, receives the lines with their token counts, and returns its result."""
WriteLines = Callable[[Mapping[int, LineRequest]], Mapping[int, PricedLine]]
"""Writes the requested lines, keyed by requester number."""


def tokens_to_success(attempts: Sequence[Attempt]) -> float:
    """Return the tokens used up to the end of the first success, or infinity without a success."""
    totals = itertools.accumulate(attempt.tokens for attempt in attempts)
    return next((float(total) for total, one in zip(totals, attempts, strict=True) if one.success), math.inf)


def solved_within(tasks: Iterable[Sequence[Attempt]], budget: int) -> list[float]:
    """Return 1 for each task that was solved within ``budget`` tokens, else 0."""
    return [float(tokens_to_success(attempts) <= budget) for attempts in tasks]


def per_thousand(tasks: Iterable[Sequence[Attempt]]) -> float:
    """Return successes per 1,000 tokens over all tasks."""
    attempts = [attempt for found in tasks for attempt in found]
    return 1000 * sum(attempt.success for attempt in attempts) / sum(attempt.tokens for attempt in attempts)


def truncate_attempts(attempts: Iterable[Attempt], budget: int) -> list[Attempt]:
    """Return the attempts up to the first success or until the tokens are used up."""
    kept: list[Attempt] = []
    left = budget
    for attempt in attempts:
        if left <= 0 or (kept and kept[-1].success):
            break
        kept.append(_within(attempt, left))
        left -= kept[-1].tokens
    return kept


def is_finished(attempts: Sequence[Attempt], budget: int) -> bool:
    """Whether the task is solved or its tokens are used up."""
    return any(attempt.success for attempt in attempts) or sum(attempt.tokens for attempt in attempts) >= budget


def request_attempts(
    start: Callable[[], Building], succeeds: Callable[[Structure], bool], budget: int
) -> LineRequester[list[Attempt]]:
    """Build structures until one succeeds or the tokens are used up."""
    kept: list[Attempt] = []
    while not is_finished(kept, budget):
        left = budget - sum(attempt.tokens for attempt in kept)
        built, tokens = yield from _build_within(start(), left)
        kept.append(_within(Attempt(tokens, built is not None and succeeds(built.structure)), left))
    return kept


def run_together(requesters: Sequence[LineRequester[Found]], write: WriteLines) -> list[Found]:
    """Run all requesters to completion, writing the lines they request in batches."""
    found: dict[int, Found] = {}
    written: dict[int, PricedLine | None] = dict.fromkeys(range(len(requesters)))
    while written:
        requests: dict[int, LineRequest] = {}
        for number, line in written.items():
            try:
                requests[number] = requesters[number].send(line)
            except StopIteration as end:
                found[number] = end.value
        written = dict(write(requests)) if requests else {}
    return [found[number] for number in range(len(requesters))]


def _build_within(building: Building, left: int) -> LineRequester[tuple[BuildResult | None, int]]:
    """Return the structure and its token count, or None if it needs more than ``left`` tokens."""
    line: str | None = None
    tokens = 0
    while tokens <= left:
        try:
            request = building.send(line)
        except StopIteration as end:
            return end.value, tokens
        if written := (yield request):
            line, tokens = written.line, tokens + written.tokens
    building.close()
    return None, tokens


def _within(attempt: Attempt, left: int) -> Attempt:
    if attempt.tokens < 1:
        raise ValueError(f"attempt.tokens = {attempt.tokens} must be at least 1; count the end token as well")
    return Attempt(min(attempt.tokens, left), attempt.success and attempt.tokens <= left)
