"""Record the calls to an environment and its answers while episodes are played, then repeat the calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from steelyard.types import SampleKey, Verdict
from steelyard.verification import Item, Pool
from steelyard.verification.check import content


class SecondAnswers(NamedTuple):
    """The result of repeating all recorded calls to an environment."""

    answers: int
    seconds: float
    same: float
    """Share of episodes with the same answers."""


class RecordingPool(Pool):
    """Passes items on to ``pool`` and records them and their answers in order."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._items: dict[SampleKey, list[Item]] = {}
        self._answers: dict[SampleKey, list[Verdict]] = {}

    def submit(self, items: Sequence[Item]) -> None:
        for item in items:
            self._items.setdefault(item.sample.key, []).append(item)
        self.pool.submit(items)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        for key, verdict in self.pool.completed(wait=wait):
            self._answers.setdefault(key, []).append(verdict)
            yield key, verdict

    def metrics(self) -> dict[str, float]:
        return self.pool.metrics()

    def close(self) -> None:
        self.pool.close()

    @property
    def rounds(self) -> int:
        """Number of times that ``ask_again`` calls ``advance``."""
        return max(map(len, self._items.values()), default=0)

    def ask_again(self, advance: Callable[[], None] = lambda: None) -> SecondAnswers:
        """Submit all items again, turn by turn, and compare the answers."""
        start, again = time.perf_counter(), dict[SampleKey, list[Verdict]]()
        for at_turn in zip_longest(*self._items.values()):
            self.pool.submit([item for item in at_turn if item is not None])
            for key, verdict in self.pool.completed(wait=True):
                again.setdefault(key, []).append(verdict)
            advance()
        seconds = time.perf_counter() - start
        same = sum(list(map(content, again[key])) == list(map(content, first)) for key, first in self._answers.items())
        return SecondAnswers(sum(map(len, again.values())), seconds, same / max(len(again), 1))
