"""The guess domain: find a hidden number from the replies "higher" and "lower".

The prompt gives the first and last number of a range; every turn of the policy is one number. A task is a range
with a hidden number. A hash of the range determines its split, so evaluation ranges never occur in training.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, get_args

import numpy as np

from steelyard.domains.artifacts import Artifact, Report, Row, Summary
from steelyard.domains.base import Domain, Split
from steelyard.domains.defaults import summarise
from steelyard.domains.guess.game import (
    HIGHER,
    LOWER,
    Earned,
    GuessGame,
    Legal,
    LegalNumbers,
    Question,
    longest_bisection,
    numbers_in,
    optimum,
    questions,
)
from steelyard.domains.guess.picture import draw_game
from steelyard.drawing import Scene
from steelyard.errors import ConfigError, DataError, Invalid
from steelyard.special_tokens import SPECIAL_TOKENS
from steelyard.types import Message, Task

SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""Each of these splits gets one tenth of the ranges; the rest are used for training."""
Range = tuple[int, int]


@dataclass(frozen=True)
class Guess(Domain):
    """Find a hidden number from the replies "higher" and "lower". Difficulty is the mean number of questions that
    bisection needs; success means asking no more questions than bisection needs in the worst case.
    """

    numbers: int = 64
    """Ranges lie between 0 and ``numbers - 1``."""
    min_count: int = 8
    """Minimum size of a range."""
    max_count: int | None = None
    """Maximum size of a range. Default: ``numbers``."""
    legal: Legal = "range"
    """Numbers that the policy may guess: all in the task's ``range``, or only those that are still ``possible``."""
    earned: Earned = "progress"
    """Reward of a question before its cost of 1 is subtracted: ``nothing``, ``progress`` or ``expected_progress``."""
    seed: int = 0
    """Seed for the order of tasks; does not affect the splits."""

    def __post_init__(self) -> None:
        largest = self.numbers if self.max_count is None else self.max_count
        if not 1 <= self.min_count <= largest <= self.numbers:
            raise ConfigError(
                f"guess: min_count={self.min_count}, max_count={self.max_count}, numbers={self.numbers} must satisfy "
                "1 <= min_count <= max_count <= numbers"
            )
        for name, known in (("legal", get_args(Legal)), ("earned", get_args(Earned))):
            if getattr(self, name) not in known:
                raise ConfigError(
                    f"guess: {name}={getattr(self, name)!r} does not exist; choose one of {', '.join(known)}"
                )
        if not self._ranges["train"]:
            raise ConfigError(
                f"guess: numbers={self.numbers} and min_count={self.min_count} leave no range for training; raise "
                "numbers or lower min_count"
            )

    def vocabulary(self) -> tuple[str, ...]:
        return (*SPECIAL_TOKENS, HIGHER, LOWER, *(str(number) for number in range(self.numbers)))

    def size(self, split: Split) -> int | None:
        """Return ``None`` for training; the other splits contain one task for each number in each of their ranges."""
        return None if split == "train" else len(self._evaluated[split])

    def task(self, split: Split, index: int) -> Task:
        low, high, hidden = self._drawn(index) if split == "train" else self._evaluated[split][index]
        return Task(
            id=f"{low}-{high}-{hidden}",
            prompt=f"{low} {high}",
            spec={"low": low, "high": high, "hidden": hidden},
            difficulty=optimum(high - low + 1),
        )

    def verifier(self) -> Any:
        return GuessGame(self.earned, self.legal)

    def automaton(self) -> LegalNumbers:
        return LegalNumbers()

    def describe(self, task: Task) -> str:
        return "find {hidden} between {low} and {high}".format(**task.spec)

    def episode_text(self, turns: Sequence[Message]) -> str:
        """Return all numbers that the policy guessed."""
        return " ".join(turn["content"] for turn in turns if turn["role"] == "assistant")

    def draw(self, artifact: Artifact) -> Scene:
        """Draw one line per question: the numbers that are still possible, and the number guessed."""
        return draw_game(_game(artifact.text, artifact.spec))

    def report(self, text: str, spec: Mapping[str, Any] | None = None) -> Report:
        """Play a game with the numbers in a file; ``spec`` gives ``low``, ``high`` and ``hidden``."""
        try:
            asked = _game(text, spec)
        except Invalid as error:
            raise DataError(
                f'{error}\nPass the game as JSON: --spec \'{{"low": 0, "high": 9, "hidden": 4}}\'.'
            ) from None
        found = not asked[-1].reply
        count = asked[0].high - asked[0].low + 1
        rows = tuple(
            Row((str(turn), str(one.number), one.reply or "found", str(one.left)), good=one.progress > 0)
            for turn, one in enumerate(asked, 1)
        )
        result = (
            f"{'found' if found else 'not found'} with {len(asked)} questions; bisection takes {optimum(count):.3g}"
        )
        good = found and len(asked) <= longest_bisection(count)
        columns = ("question", "number", "reply", "left")
        return Report(columns, rows, (), (f"{result} on average, {longest_bisection(count)} at most",), good)

    def summary(self, artifacts: Sequence[Artifact], *, title: str = "") -> Summary:
        """Compare the mean number of questions with the optimum."""
        parts = [one.verdict.parts for one in artifacts if one.verdict is not None and "questions" in one.verdict.parts]
        if not parts:
            return summarise(artifacts, title or self.name)
        asked, best = (fmean(part[name] for part in parts) for name in ("questions", "optimum"))
        line = f"{asked:.3g} questions on average, {asked / best:.3g} times the optimum of {best:.3g}"
        return summarise(artifacts, title or self.name, (line,))

    @cached_property
    def _ranges(self) -> dict[Split, list[Range]]:
        found: dict[Split, list[Range]] = {"train": [], "validation": [], "held_out": []}
        largest = self.numbers if self.max_count is None else self.max_count
        for count in range(self.min_count, largest + 1):
            for low in range(self.numbers - count + 1):
                found[split_of(low, low + count - 1)].append((low, low + count - 1))
        return found

    @cached_property
    def _evaluated(self) -> dict[Split, list[tuple[int, int, int]]]:
        """The (low, high, hidden) triples of each split, in an order determined by the seed."""
        listed: dict[Split, list[tuple[int, int, int]]] = {}
        for number, (split, ranges) in enumerate(self._ranges.items()):
            triples = [(low, high, hidden) for low, high in ranges for hidden in range(low, high + 1)]
            order = np.random.default_rng([self.seed, number]).permutation(len(triples))
            listed[split] = [triples[index] for index in order]
        return listed

    def _drawn(self, index: int) -> tuple[int, int, int]:
        """Draw a training range and a hidden number from it."""
        rng = np.random.default_rng([self.seed, index])
        ranges = self._ranges["train"]
        low, high = ranges[int(rng.integers(len(ranges)))]
        return low, high, int(rng.integers(low, high + 1))


def split_of(low: int, high: int) -> Split:
    """Return the split of a range, which depends only on its endpoints."""
    return SPLIT_OF_TENTH.get(zlib.crc32(f"{low} {high}".encode()) % 10, "train")


def _game(text: str, spec: Mapping[str, Any] | None) -> list[Question]:
    """Play a game with the numbers in the text; raise ``Invalid`` if there is no spec or no number."""
    names = ("low", "high", "hidden")
    if spec is None or any(name not in spec for name in names):
        raise Invalid(f"a game needs {', '.join(names)}")
    low, high, hidden = (int(spec[name]) for name in names)
    asked = questions(low, high, hidden, numbers_in(text))
    if not asked:
        raise Invalid("the text contains no numbers")
    return asked
