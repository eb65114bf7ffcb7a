"""Decoders compared at equal tokens: every token that was drawn counts, those of rejected lines too.

Each task gets the same number of tokens. A decoder tries again and again until a try succeeds or the tokens are used
up; a try that takes more than are left is cut off and lost. So what counts is at how many tokens a task was won.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from benchmarks.bricks.rejection import Asked, Building, Built
from steelyard.domains.bricks.structure import Structure

Found = TypeVar("Found")


class Try(NamedTuple):
    """One try at a task."""

    tokens: int
    success: bool


class Written(NamedTuple):
    """A line, and how many tokens were drawn for it."""

    line: str
    tokens: int


Going = Generator[Asked, Written | None, Found]
"""Asks for lines, is sent them with their price, and returns what came of it."""
WriteAll = Callable[[Mapping[int, Asked]], Mapping[int, Written]]
"""The lines that are asked for, by the place of the one that asks."""


def won_at(tries: Sequence[Try]) -> float:
    """How many tokens were drawn up to the end of the first success; infinite if there is none."""
    totals = itertools.accumulate(one.tokens for one in tries)
    return next((float(total) for total, one in zip(totals, tries, strict=True) if one.success), math.inf)


def won_within(tasks: Iterable[Sequence[Try]], budget: int) -> list[float]:
    """1 for each task that was won within so many tokens, else 0."""
    return [float(won_at(tries) <= budget) for tries in tasks]


def per_thousand(tasks: Iterable[Sequence[Try]]) -> float:
    """Successes per 1,000 tokens, over all tasks together."""
    tries = [one for found in tasks for one in found]
    return 1000 * sum(one.success for one in tries) / sum(one.tokens for one in tries)


def counted(tries: Iterable[Try], budget: int) -> list[Try]:
    """Those of the tries that are made: up to the first success or the end of the tokens."""
    made: list[Try] = []
    left = budget
    for one in tries:
        if left <= 0 or (made and made[-1].success):
            break
        made.append(_within(one, left))
        left -= made[-1].tokens
    return made


def used_up(made: Sequence[Try], budget: int) -> bool:
    """Whether no further try would be made."""
    return any(one.success for one in made) or sum(one.tokens for one in made) >= budget


def trying(begin: Callable[[], Building], judge: Callable[[Structure], bool], budget: int) -> Going[list[Try]]:
    """Structure after structure, until one succeeds or the tokens are used up."""
    made: list[Try] = []
    while not used_up(made, budget):
        left = budget - sum(one.tokens for one in made)
        built, tokens = yield from _priced(begin(), left)
        made.append(_within(Try(tokens, built is not None and judge(built.structure)), left))
    return made


def side_by_side(goings: Sequence[Going[Found]], write: WriteAll) -> list[Found]:
    """Follow all of them to their ends, the lines they ask for written together."""
    found: dict[int, Found] = {}
    written: dict[int, Written | None] = dict.fromkeys(range(len(goings)))
    while written:
        asked: dict[int, Asked] = {}
        for place, line in written.items():
            try:
                asked[place] = goings[place].send(line)
            except StopIteration as end:
                found[place] = end.value
        written = dict(write(asked)) if asked else {}
    return [found[place] for place in range(len(goings))]


def _priced(building: Building, left: int) -> Going[tuple[Built | None, int]]:
    """What was built and the tokens it took; nothing, if they were more than are left."""
    line: str | None = None
    tokens = 0
    while tokens <= left:
        try:
            asked = building.send(line)
        except StopIteration as end:
            return end.value, tokens
        if written := (yield asked):
            line, tokens = written.line, tokens + written.tokens
    building.close()
    return None, tokens


def _within(one: Try, left: int) -> Try:
    if one.tokens < 1:
        raise ValueError("a try without any token: the end alone is one")
    return Try(min(one.tokens, left), one.success and one.tokens <= left)
