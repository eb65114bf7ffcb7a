"""The sequences domain: the answer to ``sort 3 1 2 =`` is ``1 2 3``.

Kinds: ``copy``, ``sort`` (ascending), ``reverse``, and ``count`` (the number of odd symbols). Every sequence of the
configured lengths and symbols occurs once per kind. A hash of the sequence alone determines its split, so a held-out
sequence never occurs in training, whatever the kind or seed.
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

MAX_SEQUENCES = 200_000
SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""Each of these splits gets one tenth of the sequences; the rest are used for training."""

ANSWERS: dict[str, Callable[[tuple[int, ...]], Sequence[int]]] = {
    "copy": lambda symbols: symbols,
    "sort": sorted,
    "reverse": lambda symbols: symbols[::-1],
    "count": lambda symbols: [sum(symbol % 2 for symbol in symbols)],
}


@dataclass(frozen=True)
class Sequences(Domain):
    """Digit sequences. Difficulty is the sequence length, reward is the fraction of correct positions, and success
    requires an exact answer.
    """

    kinds: tuple[str, ...] = ("copy", "sort", "count")
    min_length: int = 2
    max_length: int = 3
    symbols: int = 8
    """Number of distinct symbols; sequences consist of the numbers 0 to ``symbols - 1``."""
    seed: int = 0
    """Seed for the task order; does not affect the splits."""
    step_rewards: bool = False
    """Reward each position of the answer separately (use with ``credit.gamma`` below 1)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(self.kinds))
        unknown = [kind for kind in self.kinds if kind not in ANSWERS]
        if unknown or not self.kinds or len(set(self.kinds)) < len(self.kinds):
            raise ConfigError(
                f"sequences: kinds={list(self.kinds)} is invalid; choose from {', '.join(ANSWERS)}, each once"
            )
        if not 1 <= self.min_length <= self.max_length or self.symbols < 2:
            raise ConfigError(
                f"sequences: min_length={self.min_length}, max_length={self.max_length}, symbols={self.symbols} "
                f"must satisfy 1 <= min_length <= max_length and symbols >= 2"
            )
        count = sum(self.symbols**length for length in self._lengths)
        if count > MAX_SEQUENCES:
            raise ConfigError(
                f"sequences: symbols={self.symbols} and max_length={self.max_length} give {count} sequences, more than "
                f"{MAX_SEQUENCES}; reduce symbols or max_length"
            )

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
        """Return the verifier. Step rewards change verdicts, so they use a separate version."""
        function, version = (score_by_position, "1-steps") if self.step_rewards else (score, "1")
        return FunctionVerifier(function, name=self.name, version=version, deterministic=True, isolate=False)

    @property
    def _lengths(self) -> range:
        return range(self.min_length, self.max_length + 1)

    @cached_property
    def _contents(self) -> dict[Split, list[tuple[str, tuple[int, ...]]]]:
        """The (kind, sequence) pairs of each split, in an order determined by the seed."""
        by_split: dict[Split, list[tuple[str, tuple[int, ...]]]] = {"train": [], "validation": [], "held_out": []}
        for length in self._lengths:
            for symbols in itertools.product(range(self.symbols), repeat=length):
                by_split[split_of(symbols)].extend((kind, symbols) for kind in self.kinds)
        for number, (split, contents) in enumerate(by_split.items()):
            order = np.random.default_rng([self.seed, number]).permutation(len(contents))
            by_split[split] = [contents[index] for index in order]
        return by_split


def split_of(symbols: Sequence[int]) -> Split:
    """Return the split of a sequence, which depends only on its content."""
    return SPLIT_OF_TENTH.get(zlib.crc32(" ".join(map(str, symbols)).encode()) % 10, "train")


def score(task: Task, text: str) -> Verdict:
    """Reward = correct positions / max(length of answer, length of output)."""
    expected, given = str(task.spec["answer"]).split(), text.split()
    right = sum(a == b for a, b in zip(expected, given, strict=False))
    return Verdict.scored(right / max(len(expected), len(given)), success=given == expected)


def score_by_position(task: Task, text: str) -> Verdict:
    """Like ``score``, but with step rewards: 1 for each correct position, and 1 at the last position for the correct
    length.
    """
    verdict = score(task, text)
    expected, given = str(task.spec["answer"]).split(), text.split()
    ends = itertools.accumulate((len(word) + 1 for word in given), initial=-1)
    steps = [
        (end, float(position < len(expected) and word == expected[position]))
        for position, (word, end) in enumerate(zip(given, itertools.islice(ends, 1, None), strict=True))
    ]
    if steps and len(given) == len(expected):
        steps[-1] = (steps[-1][0], steps[-1][1] + 1.0)
    return replace(verdict, steps=tuple(steps))
