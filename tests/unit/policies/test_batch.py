"""Collating samples into padded rows and a flat list of decisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steelyard.errors import PolicyError
from steelyard.policies.batch import collate_causal, pad_rows
from steelyard.types import CutRule
from tests.tiny import sample_of

TOP_2 = CutRule(0.5, top_k=2)


def test_rows_and_decisions_of_two_samples() -> None:
    """A decision's distribution is read one position before its token; other tokens are only context."""
    first = sample_of([1, 10, 11, 12], 2, rule=CutRule(0.5))
    second = sample_of([1, 20, 21, 22, 23, 24], 1, decided=[2, 5], rule=CutRule(2.0))
    batch = collate_causal([first, second], pad_id=0)
    assert batch.input_ids.tolist() == [[1, 10, 11, 0, 0], [1, 20, 21, 22, 23]]
    assert batch.length_B.tolist() == [3, 5]
    assert batch.row_N.tolist() == [0, 0, 1, 1]
    assert batch.sample_N.tolist() == [0, 0, 1, 1]
    assert batch.column_N.tolist() == [1, 2, 1, 4]
    assert batch.token_N.tolist() == [11, 12, 21, 24]
    assert batch.temperature_N.tolist() == [0.5, 0.5, 2.0, 2.0]
    assert batch.supports is None
    assert batch.decisions == 4


def test_supports_of_several_samples_share_one_table() -> None:
    cut = sample_of([1, 5, 6], rule=TOP_2, supports=[[5, 7], [6, 3]])
    free = sample_of([1, 2])
    again = sample_of([1, 4], rule=TOP_2, supports=[[4, 0]])
    supports = collate_causal([cut, free, again], pad_id=0).supports
    assert supports is not None
    blocked_NV = supports.blocked(slice(0, 4), 8)
    allowed = [set(torch.nonzero(~row_V)[:, 0].tolist()) for row_V in blocked_NV]
    assert allowed == [{5, 7}, {3, 6}, set(range(8)), {0, 4}]
    assert torch.equal(supports.blocked(slice(1, 3), 8), blocked_NV[1:3])


def test_a_sample_with_complete_and_cut_supports() -> None:
    sample = sample_of([1, 5, 6], rule=TOP_2, supports=[[5, 7], [6, 3]])
    assert sample.decisions.support_N is not None
    sample.decisions.support_N[0] = -1
    supports = collate_causal([sample], pad_id=0).supports
    assert supports is not None
    assert supports.blocked(slice(0, 2), 8).sum(1).tolist() == [0, 6]


def test_a_cut_sample_without_supports_is_rejected() -> None:
    with pytest.raises(PolicyError, match=r"\(0, 0, 0, 0\) was drawn with a cut .* has no supports"):
        collate_causal([sample_of([1, 5, 6], rule=TOP_2)], pad_id=0)


def test_an_empty_list_is_rejected() -> None:
    with pytest.raises(PolicyError, match="empty"):
        collate_causal([], pad_id=0)


def test_rows_are_padded_on_either_side() -> None:
    rows = [np.array([1, 2, 3]), np.array([4])]
    assert pad_rows(rows, 9).tolist() == [[1, 2, 3], [4, 9, 9]]
    assert pad_rows(rows, 9, left=True).tolist() == [[1, 2, 3], [9, 9, 4]]
