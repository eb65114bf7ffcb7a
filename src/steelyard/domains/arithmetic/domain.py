"""The arithmetic domain: ``What is 347 * 862 - 95?`` is answered with a single integer.

A hash of the expression determines its split, so a held-out expression never occurs in training, whatever the seed.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from steelyard.domains.base import Domain, Split
from steelyard.errors import ConfigError
from steelyard.types import Message, Task, Verdict
from steelyard.verification import FunctionVerifier

SPLIT_OF_TENTH: dict[int, Split] = {0: "held_out", 1: "validation"}
"""Each of these splits gets one tenth of the expressions; the rest are used for training."""
QUESTION = "What is {}?"
CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "12 + 30"}}</tool_call>'
_ASKED, _ANSWERED = {"role": "user", "content": QUESTION.format("12 + 30")}, {"role": "assistant", "content": "42"}
EXAMPLES: dict[str, tuple[Message, ...]] = {
    "answer": (_ASKED, _ANSWERED),
    "call": (_ASKED, {"role": "assistant", "content": CALL}, {"role": "tool", "content": "42"}, _ANSWERED),
}


@dataclass(frozen=True)
class Arithmetic(Domain):
    """Integer expressions. Reward and success require the exact value as the only number in the answer."""

    min_digits: int = 2
    max_digits: int = 4
    """Maximum number of digits in each number."""
    max_terms: int = 3
    """Maximum number of terms in an expression; the minimum is two."""
    tasks: int = 2000
    """Number of training tasks; there are a tenth as many validation tasks and held-out tasks."""
    example: Literal["none", "answer", "call"] = "none"
    """Example to include in every prompt: a direct answer, or one that calls the calculator."""
    seed: int = 0
    """Seed for the training tasks; does not affect the splits or the other tasks."""

    def __post_init__(self) -> None:
        if self.example not in ("none", *EXAMPLES):
            raise ConfigError(f"arithmetic: example={self.example!r} must be one of none, {', '.join(EXAMPLES)}")
        if not 1 <= self.min_digits <= self.max_digits <= 9 or not 2 <= self.max_terms <= 9 or self.tasks < 10:
            raise ConfigError(
                f"arithmetic: min_digits={self.min_digits}, max_digits={self.max_digits}, max_terms={self.max_terms}, "
                f"tasks={self.tasks} must satisfy 1 <= min_digits <= max_digits <= 9, 2 <= max_terms <= 9, tasks >= 10"
            )

    def size(self, split: Split) -> int:
        return self.tasks if split == "train" else self.tasks // 10

    def task(self, split: Split, index: int) -> Task:
        expression = next(self._expressions(split, index))
        question: Message = {"role": "user", "content": QUESTION.format(expression)}
        prompt = (*EXAMPLES[self.example], question) if self.example != "none" else question["content"]
        return Task(f"{split}-{index}", prompt, {"expression": expression, "answer": _value(expression)})

    def verifier(self) -> FunctionVerifier:
        return FunctionVerifier(score, name="arithmetic", version="1", deterministic=True)

    def _expressions(self, split: Split, index: int) -> Iterator[str]:
        """Yield the expressions drawn for a task that belong to its split."""
        seed = self.seed if split == "train" else 0
        for attempt in count():
            draw = random.Random(f"{seed} {split} {index} {attempt}")  # noqa: S311 - tasks are not secrets
            terms = draw.randint(2, self.max_terms)
            numbers = [str(self._number(draw)) for _ in range(terms)]
            signs = [draw.choice("+-*") for _ in range(terms - 1)]
            expression = " ".join(f"{number} {sign}" for number, sign in zip(numbers, signs, strict=False))
            expression = f"{expression} {numbers[-1]}"
            if split_of(expression) == split:
                yield expression

    def _number(self, draw: random.Random) -> int:
        digits = draw.randint(self.min_digits, self.max_digits)
        return draw.randint(10 ** (digits - 1), 10**digits - 1)


def split_of(expression: str) -> Split:
    """Return the split of an expression, which depends only on its text."""
    return SPLIT_OF_TENTH.get(zlib.crc32(expression.encode()) % 10, "train")


def score(task: Task, text: str) -> Verdict:
    """Compare the only number in the answer with the expected value."""
    numbers = re.findall(r"-?\d[\d,]*", text)
    right = len(numbers) == 1 and int(numbers[0].replace(",", "")) == task.spec["answer"]
    return Verdict.scored(float(right), success=right)


def _value(expression: str) -> int:
    """Return the value of an expression of numbers joined by +, - and *."""
    products = re.findall(r"([+-]?) ?(\d+(?: \* \d+)*)", expression)
    total = 0
    for sign, product in products:
        value = 1
        for factor in product.split(" * "):
            value *= int(factor)
        total += -value if sign == "-" else value
    return total
