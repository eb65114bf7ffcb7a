"""A model from scratch learns to look up a price with a tool. Takes about a minute on a CPU."""

from typing import Literal

import steelyard

PRICES = {"apple": 7, "bread": 3, "cheese": 9, "dates": 5}
CHARACTERS = [chr(code) for code in range(32, 127)]


def price(item: Literal["apple", "bread", "cheese", "dates"]) -> int:
    """Look up the price of an item."""
    return PRICES[item]


def right(task, text):
    return text == str(PRICES[task.prompt])


if __name__ == "__main__":
    run = steelyard.train(
        model={"scratch": {"layers": 2, "width": 64, "max_length": 192, "vocabulary": CHARACTERS, "spaced": False}},
        tasks=list(PRICES),
        verifier=right,
        tools=[price],
        constraint={"kind": "tools", "source": "[0-9]"},  # a call of `price`, or one digit
        sampling={"max_new_tokens": 96, "tasks_per_step": 4},
        optimiser={"lr": 2e-3},
        run={"name": "prices", "steps": 30},
    )
    print(run.sample("cheese", spec={}))
    print(run.evaluate())
