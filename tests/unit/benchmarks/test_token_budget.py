"""Equal token budgets: how tokens, attempts and successes are counted, using a scripted writer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import pytest

from benchmarks.bricks.rejection import BRICKGPT, LineRequest, RejectionLimits, building
from benchmarks.bricks.token_budget import (
    Attempt,
    PricedLine,
    is_finished,
    per_thousand,
    request_attempts,
    run_together,
    solved_within,
    tokens_to_success,
    truncate_attempts,
)
from steelyard.domains.bricks import Structure, World

WORLD = World()
LINE = 11
"""Tokens per line in the scripts; the end token counts as one."""


class Scripts:
    """Writes the lines of a script for each requester, and records which requests arrived together."""

    def __init__(self, *scripts: list[str]) -> None:
        self.scripts = scripts
        self.rounds: list[list[int]] = []
        self.tokens = 0

    def __call__(self, asked: Mapping[int, LineRequest]) -> dict[int, PricedLine]:
        self.rounds.append(sorted(asked))
        lines = {place: self.scripts[place].pop(0) for place in asked}
        written = {place: PricedLine(line, LINE if line else 1) for place, line in lines.items()}
        self.tokens += sum(one.tokens for one in written.values())
        return written


def two_tall(structure: Structure) -> bool:
    return len(structure) == 2


def attempts(scripts: Scripts, *, budget: int, limits: RejectionLimits = BRICKGPT) -> list[list[Attempt]]:
    begin = partial(building, WORLD, max_bricks=9, limits=limits)
    return run_together([request_attempts(begin, two_tall, budget) for _ in scripts.scripts], scripts)


def test_rejected_lines_and_the_end_cost_tokens() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "1x1 (0,0,0)", "nonsense", "1x1 (0,0,1)", ""])
    assert attempts(scripts, budget=100) == [[Attempt(4 * LINE + 1, True)]]
    assert scripts.tokens == 4 * LINE + 1


def test_a_failed_attempt_is_followed_by_another_from_the_start() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "", "1x1 (0,0,0)", "1x1 (0,0,1)", ""])
    assert attempts(scripts, budget=100) == [[Attempt(LINE + 1, False), Attempt(2 * LINE + 1, True)]]


def test_an_attempt_over_the_budget_is_cut_off_and_fails() -> None:
    lines = ["1x1 (0,0,0)", "1x1 (0,0,1)", ""]
    (found,) = attempts(Scripts([*lines]), budget=2 * LINE)
    assert found == [Attempt(2 * LINE, False)]
    (found,) = attempts(Scripts([*lines]), budget=2 * LINE + 1)
    assert found == [Attempt(2 * LINE + 1, True)], "the end just fits"


def test_running_out_of_patience_ends_the_attempt() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "x", "1x1 (0,0,0)", "1x1 (0,0,1)", ""])
    (found,) = attempts(scripts, budget=100, limits=RejectionLimits(rejections=0))
    assert found == [Attempt(2 * LINE, False), Attempt(2 * LINE + 1, True)]


def test_finished_requesters_are_skipped_and_keep_their_number() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "1x1 (0,0,1)", ""], ["1x1 (0,0,0)"] + ["x"] * 9)
    first, second = attempts(scripts, budget=3 * LINE)
    assert first == [Attempt(2 * LINE + 1, True)]
    assert second == [Attempt(3 * LINE, False)]
    assert scripts.rounds == [[0, 1], [0, 1], [0, 1], [1]]


def test_tries_of_another_decoder_are_counted_the_same_way() -> None:
    made = [Attempt(10, False), Attempt(20, True), Attempt(5, True)]
    assert truncate_attempts(made, 100) == made[:2]
    assert truncate_attempts(made, 30) == made[:2]
    assert truncate_attempts(made, 29) == [Attempt(10, False), Attempt(19, False)]
    assert truncate_attempts(made, 10) == made[:1]
    assert not is_finished(made[:1], 11)
    assert is_finished(made[:1], 10)
    assert is_finished(made[:2], 100)


def test_budgets_and_rates() -> None:
    solved, failed = [Attempt(10, False), Attempt(20, True)], [Attempt(40, False)]
    assert (tokens_to_success(solved), tokens_to_success(failed)) == (30.0, math.inf)
    assert solved_within([solved, failed], 29) == [0.0, 0.0]
    assert solved_within([solved, failed], 30) == [1.0, 0.0]
    assert per_thousand([solved, failed]) == pytest.approx(1000 / 70)


def test_an_attempt_costs_at_least_one_token() -> None:
    with pytest.raises(ValueError, match=r"attempt.tokens = 0 .* at least 1"):
        truncate_attempts([Attempt(0, False)], 10)
