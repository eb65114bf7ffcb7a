"""The prompts of a domain are sent unchanged, unless the configuration selects the chat template."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard import compose
from steelyard import config as configs
from steelyard.compose.warmstart import warm_start_settings
from steelyard.errors import PolicyError
from steelyard.policies.tokens import chat_template
from steelyard.types import SampleKey, Task
from tests.tiny import tiny_policy

WORDS = ("user", "system", "copy", "sort", "count", "=", *"0123456789")
TASK = Task("t", "copy 1 2 =")


@pytest.fixture(scope="module", autouse=True)
def end_the_renderer() -> Iterator[None]:
    yield
    chat_template._renderer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    policy = tiny_policy(words=WORDS)
    policy.tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
    place = tmp_path_factory.mktemp("chat") / "model"
    policy.save_pretrained(place)
    return place


def config_of(folder: Path, tasks: dict[str, Any] | None) -> configs.Config:
    tables: dict[str, Any] = {"model": {"path": str(folder), "device": "cpu"}, "domain": {"name": "sequences"}}
    return configs.build(tables if tasks is None else {**tables, "tasks": tasks}, source="test")


def sent(folder: Path, tasks: dict[str, Any] | None) -> str:
    """Return the text that the model receives in sampling and in a warm start."""
    policy: Any = compose.build_policy(config_of(folder, tasks))
    example = policy.sample_from_text(TASK, "1 2", SampleKey(0, 0, 0, 0))
    text = policy.tokenizer.decode(policy.encode(TASK.prompt))
    assert policy.tokenizer.decode(example.token_ids[: example.prompt_length]) == text
    return text.removeprefix("<bos> ")


def test_the_prompts_of_a_domain_are_sent_unchanged_unless_chat_is_set(folder: Path) -> None:
    assert sent(folder, None) == sent(folder, {"chat": "auto"}) == "copy 1 2 ="
    assert sent(folder, {"chat": "always"}) == "user copy 1 2 ="
    assert sent(folder, {"system": "sort"}) == "system sort user copy 1 2 ="


def test_a_warm_start_depends_on_how_prompts_are_sent(folder: Path) -> None:
    plain, chat = (warm_start_settings(config_of(folder, tasks), None) for tasks in (None, {"chat": "always"}))
    assert plain != chat
    assert '"tasks"' not in plain, "compatible with files from before the key existed"


def test_two_system_messages_are_an_error(folder: Path) -> None:
    policy = compose.build_policy(config_of(folder, {"system": "sort"}))
    with pytest.raises(PolicyError, match=r"starts with a system message \('count'\).*remove one"):
        policy.encode(({"role": "system", "content": "count"}, {"role": "user", "content": "1"}))
