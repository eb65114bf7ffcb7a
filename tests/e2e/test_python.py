"""Runs from Python: start, open, sample, evaluate, resume."""

from __future__ import annotations

import json
import subprocess
import sys
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


def test_the_policy_learns_from_a_lambda_verifier(call: Call) -> None:
    run = steelyard.train(
        tasks=["say a", "say b"],
        verifier=lambda task, text: text.split().count(task.prompt.split()[1]) / 4,
        recipe=SMALL,
        run={"steps": 30, "name": "letters"},
    )
    rewards = [row["reward/mean"] for row in read_metrics(Path("runs/letters/metrics.jsonl"))]
    assert run.step == len(rewards) == 30
    assert sum(rewards[-5:]) > sum(rewards[:5]) + 1.0

    rejected = call("eval", "runs/letters")
    assert rejected.code == 2
    for part in ("a verifier that no other process can import", "--verify.verifier", "steelyard.open_run("):
        assert part in rejected.err
    with pytest.raises(steelyard.SteelyardError, match="verifier=…"):
        steelyard.open_run("runs/letters").evaluate()
    assert steelyard.open_run("letters", verifier=lambda _task, _text: True).evaluate().success.mean == 1.0
    shown = call("sample", "runs/letters", "--prompt", "say b", "--n", "1")
    assert shown.code == 0, "a prompt needs no verifier"
    assert "say b" in shown.out
    rejected = call("sample", "runs/letters", "--prompt", "say b", "--score")
    assert rejected.code == 2
    assert "--verify.verifier" in rejected.err


def short(steps: int = 1, **more: Any) -> Any:
    tasks = [{"prompt": "say a", "letter": "a"}, {"prompt": "say b", "letter": "b"}]
    return steelyard.train(
        tasks=tasks, verifier=lambda _task, text: len(text), recipe=SMALL, run={"steps": steps}, **more
    )


def test_resume_from_python_continues_at_the_last_step(folder: Path) -> None:
    assert short(2).step == 2
    assert short(4, resume=True).step == 4
    assert [row["step"] for row in read_metrics(folder / "runs/run/metrics.jsonl")] == [1, 2, 3, 4]
    assert short(4, resume=True).resume(steps=5).step == 5


def test_training_again_uses_a_new_name_or_overwrites_the_run(folder: Path, caplog) -> None:
    assert [short().folder.name for _ in range(3)] == ["run", "run-2", "run-3"]
    assert "overwrite=True replaces it" in caplog.text
    (folder / "runs/run/note.txt").write_text("old", encoding="utf-8")
    assert short(2, overwrite=True).folder.name == "run"
    assert not (folder / "runs/run/note.txt").exists()
    with pytest.raises(steelyard.SteelyardError, match="choose one"):
        short(overwrite=True, resume=True)


def test_a_run_samples_evaluates_and_shows_its_metrics() -> None:
    run = short(3)
    assert repr(run).startswith("Run('runs/run', step 3 of 3, reward ")
    assert list(run.metrics.index) == [1, 2, 3]  # pandas is installed here
    assert [row["step"] for row in run.rows] == [1, 2, 3]

    (group,) = run.sample("say c", n=3)
    assert len(group.samples) == 3
    assert "say c\n  │ " in repr(run.sample("say c"))
    assert "reward" not in repr(run.sample("say c")), "a prompt alone is not verified"
    assert "reward" in repr(run.sample("say c", spec={"letter": "c"}))
    assert [group.task.spec["letter"] for group in run.sample(tasks=2, n=1)] == ["a", "b"]
    assert {group.verdicts[0].status for group in run.sample(tasks=2, n=1)} == {"scored"}

    found = run.evaluate(k=(1, 2))
    assert set(found.pass_at) == {1, 2}
    assert len(found.groups) == 2
    assert len(repr(found)) < 1000


SCRIPT = """
import steelyard

def score(task, text):
    return text.split().count(task.spec["letter"]) / 4

if __name__ == "__main__":
    steelyard.train(
        model={"scratch": {"layers": 1, "width": 32, "heads": 2, "vocabulary": ["say", "a", "b"], "max_length": 16}},
        tasks=[{"prompt": "say a", "letter": "a"}, {"prompt": "say b", "letter": "b"}],
        eval_tasks=[{"prompt": "say b", "letter": "b"}],
        verifier=score,
        sampling={"tasks_per_step": 2, "group_size": 4, "max_new_tokens": 4},
        run={"steps": 2, "name": "letters"},
    )
"""


def test_the_command_line_evaluates_samples_and_resumes_the_run_of_a_script(
    folder: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    Path("script.py").write_text(SCRIPT, encoding="utf-8")
    subprocess.run([sys.executable, "script.py"], check=True, capture_output=True)
    evaluated = call("eval", "runs/letters")
    assert evaluated.code == 0, evaluated.err
    assert "1 held-out task ×" in evaluated.out
    assert call("eval", "runs/letters", "--split", "train").code == 0
    sampled = call("sample", "runs/letters", "--prompt", "say a")
    assert sampled.code == 0, sampled.err
    (folder / "runs/letters").rename(folder / "runs/moved")
    resumed = call("train", "--resume", "runs/moved", "--run.steps", "3")
    assert resumed.code == 0, resumed.err
    assert "code has changed" not in caplog.text, "the script is the same as main program and as imported module"
    assert steelyard.open_run("runs/moved").step == 3
    Path("script.py").write_text(SCRIPT.replace("/ 4", "/ 5"), encoding="utf-8")
    assert call("train", "--resume", "runs/moved", "--run.steps", "4").code == 0
    assert "code has changed since the run was last trained (script)" in caplog.text


def test_a_verifier_in_a_script_outside_the_working_directory_is_not_named(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "script.py").write_text(SCRIPT, encoding="utf-8")
    subprocess.run([sys.executable, "elsewhere/script.py"], check=True, capture_output=True)
    run = steelyard.open_run("runs/letters")
    assert run.config.verify.verifier is None
    with pytest.raises(steelyard.SteelyardError, match=r"open_run\('.*', verifier=…\)"):
        run.evaluate()


def test_a_script_that_trains_when_it_is_imported_is_reported(call: Call) -> None:
    Path("unguarded.py").write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"), encoding="utf-8")
    Path("tasks.jsonl").write_text('{"prompt": "say a"}\n', encoding="utf-8")
    with pytest.raises(steelyard.SteelyardError, match='if __name__ == "__main__"'):
        steelyard.train(tasks="tasks.jsonl", verifier="unguarded:score", recipe=SMALL, run={"steps": 1})


def test_verifiers_and_tasks_given_by_name_work_on_the_command_line(call: Call) -> None:
    Path("letters.py").write_text("def score(task, text):\n    return 'a' in text\n", encoding="utf-8")
    Path("tasks.jsonl").write_text('{"prompt": "say a"}\n{"prompt": "say b"}\n', encoding="utf-8")
    steelyard.train(model=SMALL["model"], tasks="tasks.jsonl", verifier="letters:score", recipe=SMALL, run={"steps": 1})
    evaluated = call("eval", "runs/run", "--split", "train")
    assert evaluated.code == 0, evaluated.err
    assert "2 training tasks ×" in evaluated.out


def test_python_and_the_command_line_use_the_training_tasks_if_none_are_held_out(call: Call) -> None:
    Path("letters.py").write_text("def score(task, text):\n    return 'a' in text\n", encoding="utf-8")
    run = steelyard.train(tasks=["say a", "say b"], verifier="letters:score", recipe=SMALL, run={"steps": 1})
    assert repr(run.evaluate(k=(1,))).startswith("Evaluation(2 training tasks: reward ")
    evaluated, sampled = call("eval", "runs/run", "--k", "1"), call("sample", "runs/run", "--n", "1")
    assert (evaluated.code, sampled.code) == (0, 0), evaluated.err + sampled.err
    assert "2 training tasks (no tasks are held out) × 1 sample, temperature" in evaluated.out
    assert "1 training task (no tasks are held out), temperature" in sampled.out
    assert json.loads(call("eval", "runs/run", "--json").out)["split"] == "train"
    requested = call("eval", "runs/run", "--split", "held_out")
    assert requested.code == 2
    assert "set tasks.held_out" in requested.err


def test_arguments_replace_the_tasks_and_verifier_of_the_recipe() -> None:
    recipe = SMALL | {"tasks": {"file": "not-there.jsonl", "held_out": 1.0}, "verify": {"verifier": "not:there"}}
    run = steelyard.train(
        tasks=["say a", "say b", "say c"],
        verifier=lambda _task, text: len(text),
        recipe=recipe,
        run={"steps": 1},
        evaluate={"every": 1},
    )
    assert len(run.evaluate(split="held_out").groups) == 1, "the recipe's share of the given tasks is held out"


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
