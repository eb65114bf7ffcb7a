"""The sequences domain: ``sort 3 1 2 =`` asks for ``1 2 3``.

Kinds: ``copy``, ``sort`` (ascending), ``reverse``, and ``count`` (how many of the symbols are odd). All sequences of
the chosen lengths over the chosen symbols exist once for each kind. A hash of the sequence alone decides its split, so
a held-out sequence was never seen in training under any kind, whatever the seed.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from steelyard.domains.base import Domain, Split
from steelyard.errors import ConfigError
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import Task, Verdict
from steelyard.verification import FunctionVerifier

MOST_SEQUENCES = 200_000
SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""A tenth of the sequences each; the rest is for training."""

ANSWERS: dict[str, Callable[[tuple[int, ...]], Sequence[int]]] = {
    "copy": lambda symbols: symbols,
    "sort": sorted,
    "reverse": lambda symbols: symbols[::-1],
    "count": lambda symbols: [sum(symbol % 2 for symbol in symbols)],
}


@dataclass(frozen=True)
class Sequences(Domain):
    """Difficulty is the length; reward the share of right positions, success an exact answer."""

    kinds: tuple[str, ...] = ("copy", "sort", "count")
    min_length: int = 2
    max_length: int = 3
    symbols: int = 8
    """The sequences are over the numbers 0 to symbols - 1."""
    seed: int = 0
    """Decides the order of tasks, not their split."""
    step_rewards: bool = False
    """Credit each position of the answer by itself (use with ``credit.gamma`` below 1)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        unknown = [kind for kind in self.kinds if kind not in ANSWERS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ConfigError(f"sequences: kinds={list(self.kinds)}; choose some of {', '.join(ANSWERS)}, each once")
        if not 1 <= self.min_length <= self.max_length or self.symbols < 2:
            raise ConfigError(
                f"sequences: min_length={self.min_length}, max_length={self.max_length}, symbols={self.symbols}; "
                f"needed: 1 <= min_length <= max_length and symbols >= 2"
            )
        count = sum(self.symbols**length for length in self._lengths)
        if count > MOST_SEQUENCES:
            raise ConfigError(f"sequences: {count} sequences, at most {MOST_SEQUENCES}; fewer symbols or shorter ones")

    def vocabulary(self) -> tuple[str, ...]:
        numbers = max(self.symbols, self.max_length + 1 if "count" in self.kinds else 0)
        return (*SPECIAL_TOKENS, *self.kinds, "=", *(str(number) for number in range(numbers)))

    def size(self, split: Split) -> int:
        return len(self._contents[split])

    def task(self, split: Split, index: int) -> Task:
        kind, symbols = self._contents[split][index]
        shown = " ".join(map(str, symbols))
        answer = " ".join(map(str, ANSWERS[kind](symbols)))
        return Task(
            id=f"{kind}-{shown.replace(' ', '-')}",
            prompt=f"{kind} {shown} =",
            spec={"kind": kind, "answer": answer},
            difficulty=float(len(symbols)),
        )

    def verifier(self) -> FunctionVerifier:
        """Step rewards make other verdicts, so they have a version of their own."""
        function, version = (score_by_position, "1-steps") if self.step_rewards else (score, "1")
        return FunctionVerifier(function, name=self.name, version=version, deterministic=True, isolate=False)

    @property
    def _lengths(self) -> range:
        return range(self.min_length, self.max_length + 1)

    @cached_property
    def _contents(self) -> dict[Split, list[tuple[str, tuple[int, ...]]]]:
        """(kind, sequence) of every task by split, in the order that the seed gives."""
        by_split: dict[Split, list[tuple[str, tuple[int, ...]]]] = {"train": [], "validation": [], "held_out": []}
        for length in self._lengths:
            for symbols in itertools.product(range(self.symbols), repeat=length):
                by_split[split_of(symbols)].extend((kind, symbols) for kind in self.kinds)
        for number, (split, contents) in enumerate(by_split.items()):
            order = np.random.default_rng([self.seed, number]).permutation(len(contents))
            by_split[split] = [contents[index] for index in order]
        return by_split


def split_of(symbols: Sequence[int]) -> Split:
    """The split a sequence belongs to, by its content alone."""
    return SPLIT_OF_TENTH.get(zlib.crc32(" ".join(map(str, symbols)).encode()) % 10, "train")


def score(task: Task, text: str) -> Verdict:
    """Reward = right positions / longer of answer and output: an output too long or too short loses its share."""
    expected, given = str(task.spec["answer"]).split(), text.split()
    right = sum(a == b for a, b in zip(expected, given, strict=False))
    return Verdict.scored(right / max(len(expected), len(given)), success=given == expected)


def score_by_position(task: Task, text: str) -> Verdict:
    """The same reward and success, with step rewards: 1 for each right position, and 1 more at the last for a right
    length.
    """
    verdict = score(task, text)
    expected, given = str(task.spec["answer"]).split(), text.split()
    ends = itertools.accumulate((len(word) + 1 for word in given), initial=-1)
    steps = [
        (end, float(place < len(expected) and word == expected[place]))
        for place, (word, end) in enumerate(zip(given, itertools.islice(ends, 1, None), strict=True))
    ]
    if steps and len(given) == len(expected):
        steps[-1] = (steps[-1][0], steps[-1][1] + 1.0)
    return replace(verdict, steps=tuple(steps))
