"""A model from scratch learns to look up prices with a tool. Takes about a minute on a CPU."""

import random
from typing import Literal

import steelyard

CHARACTERS = [chr(code) for code in range(32, 127)]


class Price:
    """Look up the current price of an item."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # prices differ from episode to episode

    def __call__(self, item: Literal["apple", "bread"]) -> int:
        return self.random.randint(1, 9)


def right(task, text):
    """Check that the answer is the price that the tool reported for the item."""
    *calls, result, _ = ("", "", *(turn["content"] for turn in task.spec["turns"]))
    return task.prompt in calls[-1] and text == result


if __name__ == "__main__":
    run = steelyard.train(
        model={"scratch": {"layers": 2, "width": 64, "max_length": 256, "vocabulary": CHARACTERS, "spaced": False}},
        tasks=["apple", "bread"],
        verifier=right,
        tools=[Price],
        constraint={"kind": "tools", "source": "[1-9]"},  # a call, or a digit
        sampling={"max_new_tokens": 96, "tasks_per_step": 4, "group_size": 32},
        episode={"max_turns": 3},
        optimiser={"lr": 2e-3},
        run={"name": "prices", "steps": 50},
    )
    print(run.sample("bread", spec={}))
    print(run.evaluate())
