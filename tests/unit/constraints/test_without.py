"""Constraints that exclude tokens the policy never samples."""

from __future__ import annotations

import pytest

from steelyard.constraints.automaton import WordConstraint
from steelyard.constraints.base import Constraint, members
from steelyard.constraints.without import WithoutTokens
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.automata import Table

WORDS = ("<end>", "a", "b", "c")
TASK = Task("t", "")
STEPS = {0: {"a": 1, "b": 1, "c": 1}, 1: {"a": 2, "b": 2}, 2: {"b": 3}}


def without(*excluded: int) -> WithoutTokens:
    return WithoutTokens(WordConstraint(Table(STEPS, [3]), WORDS, 0, vocabulary=9), excluded)


def test_excluded_tokens_are_removed_from_sets() -> None:
    constraint = without(3, 7, 20)
    assert isinstance(constraint, Constraint)
    walk = constraint.begin(TASK)
    assert members(walk.allowed(9)).tolist() == [1, 2]
    assert list(walk.forced(9)) == []
    with pytest.raises(ConstraintError, match=r"token 3.*never sampled"):
        walk.advance(3)


def test_the_only_remaining_token_is_forced() -> None:
    walk = without(1).begin(TASK)
    walk.advance(2)
    other = walk.copy()
    assert list(walk.forced(9)) == [2]
    walk.advance(2)
    assert list(walk.forced(9)) == [2, 0]
    assert list(other.forced(9)) == [2], "a copy is independent"


def test_a_forced_token_that_is_never_sampled_is_an_error() -> None:
    walk = without(2).begin(TASK)
    walk.advance(1)
    walk.advance(1)
    with pytest.raises(ConstraintError, match=r"requires token 2.*model\.excluded_tokens"):
        walk.forced(9)
