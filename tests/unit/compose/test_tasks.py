"""Task sources and evaluation tasks, built from the configuration."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard import compose
from steelyard import config as configs
from steelyard.compose import Supplied
from steelyard.data import as_source
from steelyard.domains import make_domain
from steelyard.errors import ConfigError, PolicyError
from steelyard.types import Task

from .conftest import config_of


def test_held_out_with_a_source_is_rejected() -> None:
    tables = {
        "domain": None,
        "tasks": {"held_out": 2},
        "run": {"supplied": ["tasks", "verifier"]},
        "model": {"scratch": {"vocabulary": ["a"], "max_length": 32}},
        "evaluate": {"every": 1},
    }
    source = as_source([{"prompt": "a"}], seed=0)
    with pytest.raises(ConfigError, match="pass eval_tasks"):
        compose.build_tasks(config_of(tables), Supplied(tasks=source, verifier=lambda task, text: 1.0))


def test_an_evaluation_without_tasks_is_rejected() -> None:
    small = {"domain.options.limits.groups": 2, "domain.options.limits.largest": 4}
    with pytest.raises(ConfigError, match=r"'theories' has no validation tasks .*evaluate.every = 0"):
        compose.build_tasks(configs.load("theories", small))
    _, tasks = compose.build_tasks(configs.load("theories", {**small, "evaluate.every": 0}))
    assert tasks == []


SOURCE_TASKS: dict[str, Any] = {
    "domain": None,
    "verify": {"verifier": "steelyard.domains.sequences.domain:score"},
    "model": {"scratch": {"layers": 1, "width": 16, "heads": 2, "max_length": 32, "vocabulary": ["a", "b"]}},
}


def test_a_finite_domain_can_be_generated_in_order_and_an_endless_one_as_a_list() -> None:
    def drawn(domain: dict[str, Any], source: dict[str, Any], count: int) -> list[str]:
        config = config_of({"domain": domain, "tasks": {"source": source}})
        return [task.id for task in compose.build_tasks(config)[0].draw(0, count)]

    sequences = {"name": "sequences", "options": {"symbols": 2, "max_length": 2, "kinds": ["copy"]}}
    size = make_domain("sequences", **sequences["options"]).size("train") or 0
    in_order = drawn(sequences, {"kind": "generated"}, 2 * size)
    assert in_order[:size] == in_order[size:]
    assert len(set(in_order)) == size
    bricks = {"name": "bricks", "options": {"kinds": ["tower"]}}
    assert len(set(drawn(bricks, {"kind": "dataset", "limit": 3}, 9))) == 3
    with pytest.raises(ConfigError, match=r"tasks\.source\.limit"):
        drawn(bricks, {"kind": "dataset"}, 1)


def test_every_listed_task_of_a_mixture_is_checked_before_the_run() -> None:
    parts = [{"name": "short", "prompts": ["a"]}, {"name": "long", "prompts": ["a " * 40]}]
    config = config_of({**SOURCE_TASKS, "tasks": {"source": {"kind": "mixture", "parts": parts}}})
    with pytest.raises(PolicyError, match="task long/0"):
        compose.build_trainer(config)


def test_a_custom_source_receives_the_listed_tasks_and_the_domain() -> None:
    kind = {"kind": f"{__name__}:GivenTasks"}
    listed = config_of({**SOURCE_TASKS, "tasks": {"prompts": ["a", "b"], "source": kind}})
    own: Any = compose.build_tasks(listed)[0]
    assert ([task.prompt for task in own.context.tasks], own.context.domain, own.context.seed) == (["a", "b"], None, 0)
    own = compose.build_tasks(config_of({"tasks": {"source": kind}, "run": {"seed": 3}}))[0]
    assert (list(own.context.tasks), own.context.domain.name, own.context.seed) == ([], "sequences", 3)


class GivenTasks:
    """A source that only stores its context."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def draw(self, step: int, n: int) -> list[Task]:
        return []

    def observe(self, groups: Any) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None: ...
