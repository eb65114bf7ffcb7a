"""Equal tokens: what counts as a token, a try and a win, with a writer that reads from scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import pytest

from benchmarks.bricks.rejection import BRICKGPT, Asked, Patience, building
from benchmarks.bricks.token_budget import (
    Try,
    Written,
    counted,
    per_thousand,
    side_by_side,
    trying,
    used_up,
    won_at,
    won_within,
)
from steelyard.domains.bricks import Structure, World

WORLD = World()
LINE = 11
"""Tokens of a line in the scripts; an end is one token."""


class Scripts:
    """Writes the lines of a script for each place, and notes who asked together."""

    def __init__(self, *scripts: list[str]) -> None:
        self.scripts = scripts
        self.rounds: list[list[int]] = []
        self.tokens = 0

    def __call__(self, asked: Mapping[int, Asked]) -> dict[int, Written]:
        self.rounds.append(sorted(asked))
        lines = {place: self.scripts[place].pop(0) for place in asked}
        written = {place: Written(line, LINE if line else 1) for place, line in lines.items()}
        self.tokens += sum(one.tokens for one in written.values())
        return written


def two_tall(structure: Structure) -> bool:
    return len(structure) == 2


def tries(scripts: Scripts, *, budget: int, patience: Patience = BRICKGPT) -> list[list[Try]]:
    begin = partial(building, WORLD, most=9, patience=patience)
    return side_by_side([trying(begin, two_tall, budget) for _ in scripts.scripts], scripts)


def test_rejected_lines_and_the_end_cost_tokens() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "1x1 (0,0,0)", "nonsense", "1x1 (0,0,1)", ""])
    assert tries(scripts, budget=100) == [[Try(4 * LINE + 1, True)]]
    assert scripts.tokens == 4 * LINE + 1


def test_after_a_failure_it_is_tried_again_from_the_start() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "", "1x1 (0,0,0)", "1x1 (0,0,1)", ""])
    assert tries(scripts, budget=100) == [[Try(LINE + 1, False), Try(2 * LINE + 1, True)]]


def test_a_try_that_takes_more_than_is_left_is_cut_off_and_lost() -> None:
    lines = ["1x1 (0,0,0)", "1x1 (0,0,1)", ""]
    (found,) = tries(Scripts([*lines]), budget=2 * LINE)
    assert found == [Try(2 * LINE, False)]
    (found,) = tries(Scripts([*lines]), budget=2 * LINE + 1)
    assert found == [Try(2 * LINE + 1, True)], "the end fits, to the token"


def test_patience_that_ends_a_structure_ends_the_try() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "x", "1x1 (0,0,0)", "1x1 (0,0,1)", ""])
    (found,) = tries(scripts, budget=100, patience=Patience(rejections=0))
    assert found == [Try(2 * LINE, False), Try(2 * LINE + 1, True)]


def test_those_that_are_done_are_not_asked_again_and_keep_their_place() -> None:
    scripts = Scripts(["1x1 (0,0,0)", "1x1 (0,0,1)", ""], ["1x1 (0,0,0)"] + ["x"] * 9)
    first, second = tries(scripts, budget=3 * LINE)
    assert first == [Try(2 * LINE + 1, True)]
    assert second == [Try(3 * LINE, False)]
    assert scripts.rounds == [[0, 1], [0, 1], [0, 1], [1]]


def test_tries_of_another_decoder_are_counted_alike() -> None:
    made = [Try(10, False), Try(20, True), Try(5, True)]
    assert counted(made, 100) == made[:2]
    assert counted(made, 30) == made[:2]
    assert counted(made, 29) == [Try(10, False), Try(19, False)]
    assert counted(made, 10) == made[:1]
    assert not used_up(made[:1], 11)
    assert used_up(made[:1], 10)
    assert used_up(made[:2], 100)


def test_what_it_comes_to() -> None:
    won, lost = [Try(10, False), Try(20, True)], [Try(40, False)]
    assert (won_at(won), won_at(lost)) == (30.0, math.inf)
    assert won_within([won, lost], 29) == [0.0, 0.0]
    assert won_within([won, lost], 30) == [1.0, 0.0]
    assert per_thousand([won, lost]) == pytest.approx(1000 / 70)


def test_a_try_costs_at_least_a_token() -> None:
    with pytest.raises(ValueError, match="without any token"):
        counted([Try(0, False)], 10)
