"""Truncated importance weights and their statistics, computed by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from steelyard.algorithms.importance import importance_statistics, importance_weights

pytestmark = pytest.mark.golden

# old / behaviour = 2, 1/4, 8, 1
OLD = torch.tensor([0.4, 0.1, 0.8, 0.3], dtype=torch.float64).log()
BEHAVIOUR = torch.tensor([0.2, 0.4, 0.1, 0.3], dtype=torch.float64).log()
WEIGHT = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)


def test_weights_are_capped_above_only_and_detached() -> None:
    weight_N = importance_weights(OLD.clone().requires_grad_(), BEHAVIOUR, 3.0)
    assert weight_N.tolist() == pytest.approx([2.0, 0.25, 3.0, 1.0], rel=1e-12)
    assert not weight_N.requires_grad


def test_statistics_are_of_the_unclipped_ratio() -> None:
    statistics = importance_statistics(OLD.clone().requires_grad_(), BEHAVIOUR, WEIGHT, 3.0)
    # 0.1 log 2 + 0.2 log 4 + 0.3 log 8 = (0.1 + 0.4 + 0.9) log 2
    assert statistics.log_ratio.item() == pytest.approx(1.4 * log(2), rel=1e-12)
    assert statistics.log_ratio_max.item() == pytest.approx(log(8), rel=1e-12)
    # 0.1 * 2 + 0.2 / 4 + 0.3 * 8 + 0.4
    assert statistics.ratio.item() == pytest.approx(3.05, rel=1e-12)
    assert statistics.capped.item() == pytest.approx(0.3, rel=1e-12)
    assert not statistics.ratio.requires_grad


def test_statistics_without_a_cap() -> None:
    assert importance_statistics(OLD, BEHAVIOUR, WEIGHT).capped.item() == 0.0


def test_a_ratio_at_the_cap_is_not_capped() -> None:
    zero = torch.zeros(1)
    assert importance_statistics(zero, zero, torch.ones(1), 1.0).capped.item() == 0.0


def test_weights_of_another_precision() -> None:
    assert importance_statistics(OLD, BEHAVIOUR, WEIGHT.float()).ratio.item() == pytest.approx(3.05)


def test_no_decisions() -> None:
    empty = torch.zeros(0)
    statistics = importance_statistics(empty, empty, empty, 2.0)
    assert [statistics.log_ratio.item(), statistics.log_ratio_max.item(), statistics.ratio.item()] == [0.0, 0.0, 0.0]
    assert statistics.capped.item() == 0.0


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"old_logp_N \[4\], behaviour_logp_N \[1\]"):
        importance_weights(OLD, BEHAVIOUR[:1], 2.0)
    with pytest.raises(ValueError, match=r"old_logp_N \[4\], behaviour_logp_N \[4\], weight_N \[1\]"):
        importance_statistics(OLD, BEHAVIOUR, WEIGHT[:1])
