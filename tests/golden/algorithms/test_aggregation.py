"""Decision weights computed by hand: sample 5 has two decisions, sample 0 has one and sample 8 has three."""

from __future__ import annotations

import pytest
import torch

from steelyard.algorithms.aggregation import decision_weights
from steelyard.errors import ConfigError

pytestmark = pytest.mark.golden

SAMPLE = torch.tensor([5, 0, 8, 5, 8, 8])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sequence_mean", [1 / 6, 1 / 3, 1 / 9, 1 / 6, 1 / 9, 1 / 9]),
        ("token_mean", [1 / 6] * 6),
        ("constant", [1 / 30] * 6),
    ],
)
def test_weights(name: str, expected: list[float]) -> None:
    weight_N = decision_weights(name, SAMPLE, length=10, dtype=torch.float64)
    assert weight_N.tolist() == pytest.approx(expected, rel=1e-15)
    assert weight_N.dtype == torch.float64
    assert decision_weights(name, SAMPLE, length=10).dtype == torch.float32


@pytest.mark.parametrize("name", ["sequence_mean", "token_mean"])
def test_means_need_no_length(name: str) -> None:
    assert decision_weights(name, SAMPLE).sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["sequence_mean", "token_mean", "constant"])
def test_no_decisions_give_no_weights(name: str) -> None:
    assert decision_weights(name, torch.tensor([], dtype=torch.int64), length=1).tolist() == []


@pytest.mark.parametrize("length", [None, 0, -1.0])
def test_constant_needs_a_length(length: float | None) -> None:
    with pytest.raises(ConfigError, match=rf"aggregation 'constant' needs length > 0.*length = {length}$"):
        decision_weights("constant", SAMPLE, length=length)


def test_a_length_below_one_is_valid() -> None:
    assert decision_weights("constant", torch.tensor([0]), length=0.5).tolist() == [2.0]


def test_unknown_name() -> None:
    with pytest.raises(ConfigError, match="unknown aggregation 'token_men': did you mean 'token_mean'"):
        decision_weights("token_men", SAMPLE)


def test_samples_must_be_flat() -> None:
    with pytest.raises(ValueError, match=r"sample_N \[1, 6\]"):
        decision_weights("token_mean", SAMPLE[None])
