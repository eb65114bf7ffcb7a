"""The arithmetic domain: disjoint splits, exact values, and answers that consist of one number."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.domains import make_domain
from steelyard.domains.arithmetic.domain import score, split_of
from steelyard.errors import ConfigError
from steelyard.types import Task


def test_values_and_splits() -> None:
    domain = make_domain("arithmetic", tasks=200)
    seen: dict[str, set[str]] = {}
    for split in ("train", "validation", "held_out"):
        tasks = [domain.task(split, index) for index in range(domain.size(split) or 0)]
        seen[split] = {task.spec["expression"] for task in tasks}
        for task in tasks:
            assert task.spec["answer"] == eval(task.spec["expression"])
            assert task.prompt == f"What is {task.spec['expression']}?"
            assert split_of(task.spec["expression"]) == split
    assert len(seen["train"]) == 200
    assert not seen["train"] & (seen["validation"] | seen["held_out"])


def test_the_seed_changes_training_tasks_only() -> None:
    one, other = (make_domain("arithmetic", seed=seed) for seed in (0, 1))
    assert one.task("held_out", 3) == other.task("held_out", 3)
    assert one.task("train", 3) != other.task("train", 3)


def test_the_example_is_part_of_the_prompt() -> None:
    roles = {
        example: [message["role"] for message in make_domain("arithmetic", example=example).task("train", 0).prompt]  # type: ignore[index]
        for example in ("answer", "call")
    }
    assert roles == {
        "answer": ["user", "assistant", "user"],
        "call": ["user", "assistant", "tool", "assistant", "user"],
    }


@pytest.mark.parametrize(
    ("text", "right"),
    [("-12", True), ("The answer is -12.", True), ("12", False), ("-12 or 3", False), ("", False), ("-1,2", True)],
)
def test_an_answer_is_one_number(text: str, right: bool) -> None:
    verdict = score(Task("t", "", {"answer": -12}), text)
    assert (verdict.reward, verdict.success) == (float(right), right)


@pytest.mark.parametrize("options", [{"min_digits": 0}, {"max_terms": 1}, {"example": "two"}, {"tasks": 3}])
def test_invalid_options_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))}={next(iter(options.values()))!r}"):
        make_domain("arithmetic", **options)
