"""Step rewards of the sequences domain, computed by hand."""

from __future__ import annotations

import pytest

from steelyard.domains.sequences import Sequences
from steelyard.domains.sequences.domain import score, score_by_position
from steelyard.types import Task

TASK = Task("t", "sort 3 1 2 =", spec={"answer": "1 2 3"})


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("1 2 3", ((1, 1.0), (3, 1.0), (5, 2.0))),
        ("1 3 2", ((1, 1.0), (3, 0.0), (5, 1.0))),
        ("1 2", ((1, 1.0), (3, 1.0))),
        ("1 2 3 3", ((1, 1.0), (3, 1.0), (5, 1.0), (7, 0.0))),
        ("sort 2 3", ((4, 0.0), (6, 1.0), (8, 2.0))),
        ("", ()),
    ],
)
def test_each_position_is_rewarded_and_the_last_for_the_length(text: str, steps: tuple[tuple[int, float], ...]) -> None:
    verdict = score_by_position(TASK, text)
    assert verdict.steps == steps
    plain = score(TASK, text)
    assert (verdict.reward, verdict.success) == (plain.reward, plain.success)


def test_the_option_selects_the_verifier() -> None:
    assert Sequences().verifier().function is score
    assert Sequences(step_rewards=True).verifier().function is score_by_position
