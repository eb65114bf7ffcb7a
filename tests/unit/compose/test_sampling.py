"""Samplers are closed together with their run, and also when setup fails."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from steelyard import compose
from steelyard.cluster import samplers
from steelyard.errors import MissingExtraError, PolicyError
from steelyard.sampling.local import LocalSampler
from steelyard.sampling.vllm import engine

from .conftest import config_of


@pytest.mark.parametrize("broken", [False, True])
def test_an_engine_is_closed_with_its_run_and_if_loading_weights_fails(
    broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    def load(_weights: Any) -> None:
        if broken:
            raise PolicyError("there is no such weight")

    opened = SimpleNamespace(load=load, close=lambda: closed.append("engine"), excluded=[])
    monkeypatch.setattr(engine, "open_engine", lambda *_: opened)
    config = config_of({"sampling": {"engine": "vllm", "max_new_tokens": 6}, "verify": {"pool": "inline"}})
    with pytest.raises(PolicyError, match="no such weight") if broken else nullcontext():
        compose.build_trainer(config).close()
    assert closed == ["engine"]


def test_replicas_are_closed_if_loading_weights_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    def publish(_version: int) -> None:
        raise PolicyError("there is no such weight")

    replicas = SimpleNamespace(publish=publish, close=lambda: closed.append("replicas"))
    monkeypatch.setattr(samplers, "RaySampler", lambda *_, **__: replicas)
    config = config_of({"sampling": {"engine": "vllm", "max_new_tokens": 6}, "cluster": {"samplers": {"replicas": 2}}})
    with pytest.raises(PolicyError, match="no such weight"):
        compose.build_sampler(config, compose.build_policy(config))
    assert closed == ["replicas"]


def test_a_missing_engine_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    config = config_of({"sampling": {"engine": "vllm"}})
    policy = compose.build_policy(config)
    with pytest.raises(MissingExtraError, match=r"docs/vllm\.md.*pip install 'steelyard\[vllm\]'"):
        compose.build_sampler(config, policy)
    assert isinstance(compose.build_sampler(config_of(), policy), LocalSampler)
