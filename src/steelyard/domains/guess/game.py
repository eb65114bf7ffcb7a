"""The rules of the guessing game, the number of questions it takes, and its environment."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from steelyard.constraints.automaton import Automaton
from steelyard.environments import Answer, Environment, Turns
from steelyard.environments.base import assistant_texts
from steelyard.errors import Invalid
from steelyard.types import FinishReason, Reply, Task, Verdict

HIGHER, LOWER = "higher", "lower"
Legal = Literal["range", "possible"]
"""Which numbers the policy may guess: all in the task's range, or only those that the replies have not excluded."""
Earned = Literal["nothing", "progress", "expected_progress"]
"""Reward of a question before its cost of 1 is subtracted: nothing, the progress it made, or the expected progress
over all possible numbers. Expected progress has the same mean as actual progress but does not depend on luck."""


class Question(NamedTuple):
    """One question, its reply, and the possible numbers before and after it."""

    number: int
    low: int
    high: int
    """The numbers from ``low`` to ``high`` were possible before the question."""
    next_low: int
    next_high: int
    """The numbers from ``next_low`` to ``next_high`` are possible after the reply."""
    reply: str
    """Empty if the number was found."""

    @property
    def count(self) -> int:
        """Return how many numbers were possible before the question."""
        return self.high - self.low + 1

    @property
    def left(self) -> int:
        """Return how many numbers are still possible after the reply; 0 if the number was found."""
        return self.next_high - self.next_low + 1 if self.reply else 0

    @property
    def progress(self) -> float:
        """Return the decrease in log2(numbers left + 1), which approximates the number of questions still needed."""
        return math.log2((self.count + 1) / (self.left + 1))

    @property
    def expected_progress(self) -> float:
        """Return the mean progress over equally likely numbers; it is at least 1 for the middle number."""
        if not self.low <= self.number <= self.high:
            return 0.0
        sides = self.number - self.low, self.high - self.number
        return math.log2(self.count + 1) - sum(side * math.log2(side + 1) for side in sides) / self.count


def questions(low: int, high: int, hidden: int, numbers: Sequence[int]) -> list[Question]:
    """Play a game from ``low`` to ``high``, up to the question that finds the number."""
    asked: list[Question] = []
    for number in numbers:
        if number == hidden:
            asked.append(Question(number, low, high, hidden, hidden, ""))
            break
        left = (max(low, number + 1), high) if number < hidden else (low, min(high, number - 1))
        asked.append(Question(number, low, high, *left, HIGHER if number < hidden else LOWER))
        low, high = left
    return asked


@cache
def _bisection_total(count: int) -> int:
    """Return the number of questions that bisection needs, summed over all hidden numbers."""
    below = (count - 1) // 2
    return count + _bisection_total(below) + _bisection_total(count - 1 - below) if count else 0


def optimum(count: int) -> float:
    """Return the mean number of questions that bisection needs, the minimum for ``count`` equally likely numbers."""
    return _bisection_total(count) / count


def longest_bisection(count: int) -> int:
    """Return the maximum number of questions that bisection needs for ``count`` numbers."""
    return count.bit_length()


def random_player(count: int, limit: int) -> float:
    """Return the mean number of questions of a player who guesses one of ``count`` numbers at random in every turn.

    A number that is not found within ``limit`` questions counts as ``limit`` plus the optimum.
    """
    miss = 1 - 1 / count
    found = sum(turn * miss ** (turn - 1) / count for turn in range(1, limit + 1))
    return found + miss**limit * (limit + optimum(count))


@dataclass(frozen=True)
class GuessGame(Environment):
    """Replies "higher" or "lower" until the number is found.

    A question costs 1 and earns its progress, both divided by the optimum. A question that halves the possible numbers
    makes about 1 unit of progress. The rewards of a solved game with n numbers add up to (log2(n + 1) - questions) /
    optimum, so they rank players by the number of questions, and every turn is credited with its own contribution.
    """

    name = "guess"
    isolate = False
    earned: Earned = "progress"
    legal: Legal = "range"

    def reply(self, task: Task, turns: Turns) -> Answer:
        asked = played(task, assistant_texts(turns))
        last = asked[-1]
        earned = 0.0 if self.earned == "nothing" else getattr(last, self.earned)
        reward = (earned - 1) / optimum(count_of(task))
        if not last.reply:
            return self._verdict(task, len(asked), reward, found=True)
        spec = {"legal": [last.next_low, last.next_high]} if self.legal == "possible" else {}
        return Reply.text(last.reply, reward=reward, spec=spec)

    def cut_off(self, task: Task, turns: Turns, limit: FinishReason) -> Answer:
        """Return the verdict of an unsolved game, which counts as the questions asked plus the optimum."""
        asked, best = len(assistant_texts(turns)), optimum(count_of(task))
        return self._verdict(task, asked + best, -1.0, found=False)

    def _verdict(self, task: Task, asked: float, reward: float, *, found: bool) -> Verdict:
        """Return the verdict with the reward of the last turn; the rewards of earlier turns are added to it later."""
        count = count_of(task)
        parts = {"questions": float(asked), "optimum": optimum(count), "found": float(found)}
        return Verdict.scored(reward, success=found and asked <= longest_bisection(count), parts=parts)


class LegalNumbers(Automaton[tuple[int, int, bool]]):
    """Allows one number per turn, within the range ``legal`` of the task's spec, which replies may narrow."""

    stretch = 0

    def start(self, task: Task) -> tuple[int, int, bool]:
        low, high = task.spec.get("legal", (task.spec["low"], task.spec["high"]))
        return int(low), int(high), False

    def moves(self, state: tuple[int, int, bool]) -> dict[str, tuple[int, int, bool]]:
        low, high, asked = state
        return {} if asked else {str(number): (low, high, True) for number in range(low, high + 1)}

    def may_end(self, state: tuple[int, int, bool]) -> bool:
        return state[2]

    def shortest_end(self, state: tuple[int, int, bool]) -> int:
        return 0 if state[2] else 1


def count_of(task: Task) -> int:
    """Return the size of the task's range."""
    return int(task.spec["high"]) - int(task.spec["low"]) + 1


def played(task: Task, texts: Sequence[str]) -> list[Question]:
    """Return the questions in the policy's texts, one number per text."""
    spec = task.spec
    return questions(int(spec["low"]), int(spec["high"]), int(spec["hidden"]), [_number(text) for text in texts])


def numbers_in(text: str) -> list[int]:
    """Return the numbers in the text of an episode, with or without its replies."""
    return [int(number) for number in re.findall(r"\d+", text)]


def _number(text: str) -> int:
    found = numbers_in(text)
    if len(found) != 1:
        raise Invalid(f"a question must be one number, not {text!r}")
    return found[0]
