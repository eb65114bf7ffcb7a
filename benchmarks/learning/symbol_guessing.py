"""Tasks whose answer the prompt does not tell: one of eight symbols, right or wrong.

Nobody can do better than chance with one guess, so the mean reward rewards no spread; with k guesses a policy that
spreads them finds the answer far more often than one that always says the same. That is what pass@k measures.
"""

from __future__ import annotations

import itertools

import numpy as np

from steelyard.types import Task, Verdict

SYMBOLS = tuple(str(number) for number in range(8))
VOCABULARY = ("guess", "=", *SYMBOLS)


def tasks(split: str) -> list[Task]:
    """512 prompts, of which every eighth is held out; the hidden answers are spread evenly."""
    prompts = [f"guess {' '.join(symbols)} =" for symbols in itertools.product(SYMBOLS, repeat=3)]
    answers = np.random.default_rng(3).permutation(np.tile(SYMBOLS, len(prompts) // len(SYMBOLS)))
    made = [
        Task(str(number), prompt, spec={"answer": str(answer)})
        for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True))
    ]
    return [task for task in made if (int(task.id) % 8 == 0) == (split == "held_out")]


def check(task: Task, text: str) -> Verdict:
    """Right or wrong, nothing between."""
    right = text == task.spec["answer"]
    return Verdict.scored(float(right), success=right)
