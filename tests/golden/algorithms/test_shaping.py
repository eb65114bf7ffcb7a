"""Length penalty, truncation and advantage clipping, computed by hand."""

from __future__ import annotations

import pytest
import torch

from steelyard.algorithms.shaping import clip_advantages, handle_truncated, soft_length_penalty

pytestmark = pytest.mark.golden


def test_soft_length_penalty() -> None:
    # Maximum length 100, buffer 20: no penalty up to 80, -1/4 at 85, -1/2 at 90, -1 at 100 and beyond.
    length_M = torch.tensor([0, 79, 80, 85, 90, 100, 130])
    penalty_M = soft_length_penalty(length_M, max_length=100, buffer=20)
    assert penalty_M.tolist() == [0.0, 0.0, 0.0, -0.25, -0.5, -1.0, -1.0]
    assert penalty_M.dtype == torch.float64


def test_a_buffer_of_the_whole_length_is_allowed() -> None:
    assert soft_length_penalty(torch.tensor([0, 1, 4]), max_length=4, buffer=4).tolist() == [0.0, -0.25, -1.0]


def test_a_buffer_of_one_is_a_step_function() -> None:
    assert soft_length_penalty(torch.tensor([2, 3, 4]), max_length=4, buffer=1).tolist() == [0.0, 0.0, -1.0]


@pytest.mark.parametrize("buffer", [0, -1, 101])
def test_soft_length_penalty_rejects_an_invalid_buffer(buffer: int) -> None:
    with pytest.raises(ValueError, match=rf"^soft length penalty: buffer = {buffer} .*max_length \(100\)$"):
        soft_length_penalty(torch.tensor([1]), max_length=100, buffer=buffer)


def test_lengths_must_be_flat() -> None:
    with pytest.raises(ValueError, match=r"length_M \[1, 1\]"):
        soft_length_penalty(torch.tensor([[1]]), max_length=10, buffer=5)


REWARD = torch.tensor([1.0, 2.0, 3.0])
TRUNCATED = torch.tensor([False, True, False])


def test_truncated_samples_may_count() -> None:
    reward_M, keep_M = handle_truncated(REWARD, TRUNCATED, "count", 0.5)
    assert (reward_M.tolist(), keep_M.tolist()) == ([1.0, 2.0, 3.0], [True, True, True])


def test_truncated_samples_may_be_masked() -> None:
    reward_M, keep_M = handle_truncated(REWARD, TRUNCATED, "mask", 0.5)
    assert (reward_M.tolist(), keep_M.tolist()) == ([1.0, 2.0, 3.0], [True, False, True])


def test_truncated_samples_may_be_penalised() -> None:
    reward_M, keep_M = handle_truncated(REWARD, TRUNCATED, "penalise", 0.5)
    assert (reward_M.tolist(), keep_M.tolist()) == ([1.0, 1.5, 3.0], [True, True, True])
    assert handle_truncated(REWARD, TRUNCATED, "penalise")[0].tolist() == [1.0, 1.0, 3.0], "by 1, as credit.truncated"


def test_truncation_needs_one_flag_per_sample() -> None:
    with pytest.raises(ValueError, match=r"reward_M \[3\], truncated_M \[1\]"):
        handle_truncated(REWARD, TRUNCATED[:1], "mask")


def test_advantage_clip() -> None:
    advantage_M = torch.tensor([-3.0, -1.0, 0.5, 4.0])
    assert clip_advantages(advantage_M, 2.0).tolist() == [-2.0, -1.0, 0.5, 2.0]
    assert clip_advantages(advantage_M, None).tolist() == [-3.0, -1.0, 0.5, 4.0]
