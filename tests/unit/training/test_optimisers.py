"""Building optimisers by name."""

from __future__ import annotations

import sys

import pytest
import torch
from torch import nn

from steelyard.errors import ConfigError, MissingExtraError
from steelyard.training.optimisers import build_optimiser


def test_settings_are_passed_on() -> None:
    for name in ("adamw", "adamw_fused", "adamw_8bit"):
        if name == "adamw_8bit":
            pytest.importorskip("bitsandbytes")
        optimiser = build_optimiser(
            name, [nn.Parameter(torch.ones(3))], lr=0.1, betas=(0.8, 0.9), eps=1e-5, weight_decay=0.2
        )
        (group,) = optimiser.param_groups
        assert (group["lr"], tuple(group["betas"]), group["eps"], group["weight_decay"]) == (0.1, (0.8, 0.9), 1e-5, 0.2)
        assert bool(group.get("fused")) is (name == "adamw_fused")


def test_an_unknown_name_is_rejected() -> None:
    with pytest.raises(ConfigError, match=r"optimiser\.name = 'sgd'.*choose adamw, adamw_fused or adamw_8bit"):
        build_optimiser("sgd", [], lr=0.1)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", None)
    with pytest.raises(MissingExtraError, match=r"8-bit AdamW.*steelyard\[bitsandbytes\]"):
        build_optimiser("adamw_8bit", [nn.Parameter(torch.ones(3))], lr=0.1)
