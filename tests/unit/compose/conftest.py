"""Small configurations and verifiers for the tests of ``steelyard.compose``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest

from steelyard import config as configs
from steelyard.errors import Invalid
from steelyard.types import Task, Verdict
from steelyard.verification import Verifier, verifier


def config_of(tables: Mapping[str, Any] | None = None) -> configs.Config:
    """Build a tiny run on the sequences domain, with some tables changed."""
    plain: dict[str, Any] = {
        "model": {"scratch": {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32}, "device": "cpu"},
        "domain": {"name": "sequences"},
        "sampling": {"max_new_tokens": 6, "tasks_per_step": 2, "group_size": 4},
        "evaluate": {"every": 0},
        "tracking": {"console": False},
    }
    for name, table in (tables or {}).items():
        plain[name] = {**plain.get(name, {}), **table} if table is not None else None
    return configs.build({name: table for name, table in plain.items() if table is not None}, source="test")


def half(task: Task, text: str) -> float:
    if text == "bad":
        raise Invalid("it is bad")
    return 0.5


@verifier(floor=-7.0, success_at=0.1)
def declared(task: Task, text: str) -> float:
    return half(task, text)


class Whole(Verifier):
    """A verifier defined as a class."""

    name, floor = "whole", -9.0

    def verify(self, items: Any) -> list[Verdict]:
        return [Verdict.scored(0.25) for _ in items]


@pytest.fixture(autouse=True)
def user_verifiers_module(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("user_verifiers")
    module.half, module.declared, module.Whole = half, declared, Whole  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "user_verifiers", module)


def own(verify: Mapping[str, Any], **run: Any) -> configs.Config:
    scratch = {"layers": 1, "width": 16, "heads": 2, "kv_heads": 1, "max_length": 32, "vocabulary": ("a", "b")}
    tables = {"domain": None, "tasks": {"prompts": ["a"]}, "verify": verify, "model": {"scratch": scratch}, "run": run}
    return config_of(tables)
