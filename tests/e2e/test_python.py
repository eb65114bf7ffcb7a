"""The Python front door: a checker that is a function in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.tracking import read_metrics

from .conftest import Call

WORDS = ["say", "a", "b", "c"]
SMALL: dict[str, Any] = {
    "model": {"scratch": {"layers": 1, "width": 32, "heads": 2, "vocabulary": WORDS, "max_length": 16}},
    "sampling": {"tasks_per_step": 2, "group_size": 8, "max_new_tokens": 4},
    "optimiser": {"lr": 1e-2},
    "tracking": {"console": False, "samples_every": 0},
}


def test_a_lambda_is_a_checker_and_the_policy_learns_from_it(call: Call) -> None:
    run = steelyard.train(
        tasks=["say a", "say b"],
        verifier=lambda task, text: text.split().count(task.prompt.split()[1]) / 4,
        recipe=SMALL,
        run={"steps": 30, "name": "letters"},
    )
    rewards = [row["reward/mean"] for row in read_metrics(Path("runs/letters/metrics.jsonl"))]
    assert run.step == len(rewards) == 30
    assert sum(rewards[-5:]) > sum(rewards[:5]) + 1.0

    refused = call("eval", "runs/letters")
    assert refused.code == 2
    assert "started from Python with its own tasks and verifier" in refused.err
    shown = call("sample", "runs/letters", "--prompt", "say b", "--n", "1")
    assert shown.code == 0, "a prompt needs neither"
    assert "say b" in shown.out
    refused = call("sample", "runs/letters", "--prompt", "say b", "--score")
    assert refused.code == 2
    assert "with its own verifier:" in refused.err


def test_resume_from_python_goes_on_where_it_was(folder: Path) -> None:
    def train(steps: int, **more: Any) -> Any:
        return steelyard.train(
            tasks=["say a"], verifier=lambda _task, text: len(text), recipe=SMALL, run={"steps": steps}, **more
        )

    assert train(2).step == 2
    with pytest.raises(steelyard.SteelyardError, match="holds a run already"):
        train(4)
    assert train(4, resume=True).step == 4
    assert [row["step"] for row in read_metrics(folder / "runs/run/metrics.jsonl")] == [1, 2, 3, 4]


def test_what_can_be_named_is_named_so_the_command_line_can_go_on(call: Call) -> None:
    Path("letters.py").write_text("def score(task, text):\n    return 'a' in text\n", encoding="utf-8")
    Path("tasks.jsonl").write_text('{"prompt": "say a"}\n{"prompt": "say b"}\n', encoding="utf-8")
    steelyard.train(model=SMALL["model"], tasks="tasks.jsonl", verifier="letters:score", recipe=SMALL, run={"steps": 1})
    judged = call("eval", "runs/run", "--split", "train")
    assert judged.code == 0, judged.err
    assert "2 train tasks" in judged.out
    none_held_out = call("eval", "runs/run")
    assert none_held_out.code == 2
    assert "no tasks are held out" in none_held_out.err


def test_what_is_handed_over_stands_in_for_what_the_recipe_names() -> None:
    recipe = SMALL | {"tasks": {"file": "not-there.jsonl", "held_out": 1.0}, "verify": {"verifier": "not:there"}}
    run = steelyard.train(
        tasks=["say a", "say b", "say c"],
        verifier=lambda _task, text: len(text),
        recipe=recipe,
        run={"steps": 1},
        evaluate={"every": 1},
    )
    assert run.evaluator is not None
    assert len(run.evaluator.tasks) == 1, "the recipe's share is held out of the tasks handed over"


def test_trl_reward_functions_work_unchanged() -> None:
    seen: list[set[str]] = []

    def reward_letters(prompts, completions, letter, **kwargs):
        seen.append({type(completion).__name__ for completion in completions})
        assert len(prompts) == len(completions) == len(letter)
        return [float(completion.split().count(wanted)) for completion, wanted in zip(completions, letter, strict=True)]

    tasks = [{"prompt": "say a", "letter": "a"}, {"prompt": "say b", "letter": "b"}]
    run = steelyard.train(
        tasks=tasks, verifier=reward_letters, recipe=SMALL, run={"steps": 1}, verify={"pool": "inline"}
    )
    assert run.step == 1
    assert seen
    assert set.union(*seen) == {"str"}
