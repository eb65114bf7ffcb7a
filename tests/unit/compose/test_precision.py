"""``model.dtype = "auto"`` is resolved once for the machine, and the run keeps the result."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import steelyard
from steelyard import compose
from steelyard import config as configs
from steelyard.compose import precision
from steelyard.compose.precision import resolve_dtype
from tests.tiny import tiny_policy


@pytest.fixture
def folder(tmp_path: Path) -> str:
    tiny_policy().save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def config_of(path: str, **model: Any) -> configs.Config:
    tables = {
        "model": {"path": path, "dtype": "auto", "device": "cpu", **model},
        "run": {"supplied": ["tasks", "verifier"]},
    }
    return configs.build(tables, source="test")


def dtype_of(policy: Any) -> torch.dtype:
    return next(policy.base.parameters()).dtype


def test_on_a_cpu_it_is_float32_unless_only_bfloat16_fits(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, adapted = config_of(folder), config_of(folder, lora={"rank": 2})
    assert dtype_of(compose.build_policy(whole)) == torch.float32
    weights = 4 * sum(parameter.numel() for parameter in tiny_policy().model.parameters())
    monkeypatch.setattr(precision, "main_memory", lambda: 3 * weights)
    assert resolve_dtype(whole).model.dtype == "bfloat16", "weights, gradients and two moments do not fit"
    assert resolve_dtype(adapted).model.dtype == "float32", "with LoRA the weights alone do"
    assert dtype_of(compose.build_policy(whole)) == torch.bfloat16
    monkeypatch.setattr(precision, "main_memory", lambda: None)
    assert resolve_dtype(whole).model.dtype == "float32", "unknown memory"


def test_a_fixed_dtype_is_unchanged(folder: str) -> None:
    named = config_of(folder, dtype="bfloat16")
    assert resolve_dtype(named) is named


def test_a_run_keeps_the_dtype_chosen_at_its_start(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(steps: int, **more: Any) -> Any:
        return steelyard.train(
            model={"path": folder, "dtype": "auto", "device": "cpu"},
            tasks=["1 2"],
            verifier=lambda _task, text: len(text),
            sampling={"tasks_per_step": 1, "group_size": 2, "max_new_tokens": 2},
            verify={"pool": "inline"},
            run={"steps": steps, "folder": str(tmp_path)},
            tracking={"console": False},
            **more,
        )

    train(1)
    config = tmp_path / "run" / "config.toml"
    assert tomllib.loads(config.read_text())["model"]["dtype"] == "float32"
    monkeypatch.setattr(precision, "main_memory", lambda: 1)
    train(2, resume=True)
    assert tomllib.loads(config.read_text())["model"]["dtype"] == "float32"
