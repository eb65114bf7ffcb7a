"""Prompt templates, system messages and chat templates give the model the same prompts in every command."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import steelyard
from steelyard.policies.tokens import chat_template
from steelyard.policies.tokens.codec import Codec
from tests.tiny import tiny_policy

from .conftest import Call

WORDS = ("system", "user", "assistant", "add", "and", "brief", *"0123456789")
CHAT = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)
RECIPE = """
[run]
name = "sums"
steps = 1
[model]
path = "model"
[tasks]
file = "tasks.jsonl"
held_out = 2
template = "add {a} and {b}"
system = "brief"
[verify]
verifier = "sums:score"
pool = "inline"
[sampling]
tasks_per_step = 2
group_size = 2
max_new_tokens = 2
[evaluate]
every = 1
tasks = 2
"""
ROWS = [{"a": a, "b": b, "answer": a + b} for a in range(3) for b in range(2)]


@pytest.fixture(scope="module", autouse=True)
def close_the_renderer() -> Iterator[None]:
    yield
    chat_template._renderer.close()


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    """Write a tiny chat model, six tasks with columns, their verifier and a recipe."""
    policy = tiny_policy(words=WORDS)
    policy.tokenizer.chat_template = CHAT
    policy.save_pretrained(folder / "model")
    Path("tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    checker = "def score(task, text):\n    assert task.prompt.startswith('add ')\n    return len(text) / 10\n"
    Path("sums.py").write_text(checker, encoding="utf-8")
    Path("sums.toml").write_text(RECIPE, encoding="utf-8")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The prompts that the model receives, as text."""
    found: set[str] = set()
    encode = Codec.encode

    def recorded(codec: Codec, prompt: Any) -> Any:
        ids = encode(codec, prompt)
        found.add(codec.tokenizer.decode(ids).removeprefix("<bos> "))
        return ids

    monkeypatch.setattr(Codec, "encode", recorded)
    return found


def take(sent: set[str]) -> set[str]:
    found = set(sent)
    sent.clear()
    return found


def chat_text(a: object, b: object) -> str:
    return f"system brief user add {a} and {b} assistant"


EVERY = {chat_text(row["a"], row["b"]) for row in ROWS}


def test_every_command_sends_the_same_prompts(call: Call, sent: set[str]) -> None:
    checked = call("check", "sums.toml", "--tasks", "2", "--samples", "2")
    assert checked.code == 0, checked.err
    assert "as user messages" in checked.out
    assert take(sent) < EVERY

    trained = call("train", "sums.toml")
    assert trained.code == 0, trained.err
    assert trained.err.count("sent as user messages through the chat template of model") == 1
    assert take(sent) == EVERY
    assert "user messages" in json.loads(Path("runs/sums/run.json").read_text())["prompts"]

    assert call("eval", "runs/sums").code == 0
    assert len(sent) == 2
    assert take(sent) < EVERY
    assert call("train", "--resume", "runs/sums", "--run.steps", "2").code == 0
    assert take(sent) == EVERY
    assert call("sample", "runs/sums", "--spec", '{"a": 7, "b": 8}').code == 0
    assert take(sent) == {chat_text(7, 8)}
    assert call("sample", "runs/sums", "--prompt", "add 9").code == 0
    assert take(sent) == {"system brief user add 9 assistant"}
    assert call("sample", "model", "--prompt", "add 9").code == 0
    assert call("sample", "model", "--prompt", "add 9", "--tasks.chat", "never").code == 0
    assert take(sent) == {"user add 9 assistant", "add 9"}


def test_a_run_of_the_previous_release_keeps_its_prompts(call: Call, sent: set[str]) -> None:
    plain = RECIPE.replace('system = "brief"', 'chat = "never"')
    Path("plain.toml").write_text(plain, encoding="utf-8")
    before = call("train", "plain.toml")
    assert before.code == 0, before.err
    assert "sent unchanged" in before.err
    unchanged = {f"add {row['a']} and {row['b']}" for row in ROWS}
    assert take(sent) == unchanged
    config = Path("runs/sums/config.toml")
    config.write_text(config.read_text().replace('chat = "never"\n', ""), encoding="utf-8")
    assert "chat" not in tomllib.loads(config.read_text())["tasks"]
    for words in (["eval", "runs/sums"], ["train", "--resume", "runs/sums", "--run.steps", "2"]):
        assert call(*words).code == 0
        assert take(sent) <= unchanged
    assert tomllib.loads(config.read_text())["tasks"]["chat"] == "never"


def train(**changes: Any) -> Any:
    settings: dict[str, Any] = {
        "verifier": lambda task, text: len(text) / 10,
        "model": "model",
        "sampling": {"tasks_per_step": 2, "group_size": 2, "max_new_tokens": 2},
        "run": {"steps": 1},
        "tracking": {"console": False},
        "verify": {"pool": "inline"},
    }
    return steelyard.train(**(settings | changes))


def test_rows_from_python_work_with_a_template_and_a_system_message(sent: set[str], call: Call) -> None:
    table = {"rows": ROWS, "template": "add {a} and {b}", "system": "brief"}
    run = train(tasks=table)
    assert take(sent) == EVERY
    assert [group.task.spec for group in run.sample(tasks=4, n=1)] == list(ROWS[:4]), "the verifier has every column"
    take(sent)
    sampled = call("sample", "runs/run", "--spec", '{"a": 7, "b": 8}')
    assert sampled.code == 0, sampled.err + "a prompt needs neither the tasks nor the verifier of the run"
    assert take(sent) == {chat_text(7, 8)}
    train(tasks={"file": "tasks.jsonl", "template": "add {a}"}, run={"steps": 1, "name": "other"})
    assert "user add 2 assistant" in take(sent)


def test_resuming_from_python_uses_the_prompt_settings_of_the_run_folder(sent: set[str]) -> None:
    train(tasks={"rows": ["add 1"], "chat": "never"})
    assert take(sent) == {"add 1"}
    train(tasks=["add 1"], run={"steps": 2}, resume=True)
    assert take(sent) == {"add 1"}
    config = Path("runs/run/config.toml")
    old = config.read_text().replace('chat = "never"\n', "")
    config.write_text(old, encoding="utf-8")
    train(tasks=["add 1"], run={"steps": 3}, resume=True)
    assert take(sent) == {"add 1"}, "the previous release sent strings unchanged"
    train(tasks=["add 1"], run={"steps": 1, "name": "new"})
    assert take(sent) == {"user add 1 assistant"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            'template = "add {a} {c}"',
            "tasks.jsonl, line 1: tasks.template = 'add {a} {c}' uses the column 'c'",
        ),
        ('template = "add {a.real}"', "a plain column name"),
        ('template = "add"', "contains no column"),
        ('template = "add {a} and {b}"\nchat = "never"', "set tasks.chat to 'auto'"),
    ],
)
def test_mistakes_in_templates_are_reported(change: str, message: str, call: Call) -> None:
    Path("sums.toml").write_text(RECIPE.replace('template = "add {a} and {b}"', change), encoding="utf-8")
    told = call("train", "sums.toml")
    assert told.code == 2
    assert message in told.err
    assert "is missing" not in told.err or "the task has the columns a, b, answer" in told.err
    assert not Path("runs/sums/config.toml").exists()


def test_a_system_message_needs_a_chat_template(call: Call) -> None:
    Path("model/chat_template.jinja").unlink()
    told = call("train", "sums.toml")
    assert told.code == 2
    assert "tasks.system = 'brief': the tokenizer of model has no chat template" in told.err
    plain = call("train", "sums.toml", "--tasks.system", "none")
    assert plain.code == 0, plain.err
    assert plain.err == "", "without a chat template there is no choice to report"
