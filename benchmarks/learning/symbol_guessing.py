"""Guessing tasks: the answer is one of eight symbols, and the prompt does not reveal it.

A single guess cannot beat chance, so the mean reward does not favour diverse guesses. With k guesses, a policy that
varies them finds the answer far more often than a policy that repeats the same guess; pass@k measures this.
"""

from __future__ import annotations

import itertools

import numpy as np

from steelyard.types import Task, Verdict

SYMBOLS = tuple(str(number) for number in range(8))
VOCABULARY = ("guess", "=", *SYMBOLS)


def tasks(split: str) -> list[Task]:
    """Return 512 prompts, every eighth of them held out, with evenly distributed hidden answers."""
    prompts = [f"guess {' '.join(symbols)} =" for symbols in itertools.product(SYMBOLS, repeat=3)]
    answers = np.random.default_rng(3).permutation(np.tile(SYMBOLS, len(prompts) // len(SYMBOLS)))
    every_task = [
        Task(str(number), prompt, spec={"answer": str(answer)})
        for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]
    return [task for task in every_task if (int(task.id) % 8 == 0) == (split == "held_out")]


def check(task: Task, text: str) -> Verdict:
    """Return 1 for the hidden answer and 0 for anything else."""
    right = text == task.spec["answer"]
    return Verdict.scored(float(right), success=right)
