"""Balanced brackets: the language contains exactly the balanced samples, over words and over characters."""

from __future__ import annotations

import itertools

import pytest

from steelyard.constraints.automaton import Automaton, WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.brackets import Brackets
from steelyard.constraints.trie import CharacterConstraint
from steelyard.errors import ConstraintError
from tests.automata import TASK, balanced, samples

WORDS = ("<end>", "(", ")", "[", "]")


def sentences(longest: int) -> set[str]:
    return {"".join(marks) for length in range(longest + 1) for marks in itertools.product("()[]", repeat=length)}


@pytest.mark.parametrize(("depth", "least"), [(1, 0), (2, 0), (2, 3), (9, 0), (9, 5)])
@pytest.mark.parametrize("budget", [1, 2, 5, 7])
def test_the_samples_are_exactly_the_balanced_ones(depth: int, least: int, budget: int) -> None:
    brackets = Brackets(depth, least=least)
    expected = {text for text in sentences(budget - 1) if balanced(text, depth, least=least)}
    if least + least % 2 + 1 > budget:
        with pytest.raises(ConstraintError, match=f"limit of {budget}"):
            WordConstraint(brackets, WORDS, 0).check_budget(TASK, budget)
        return
    over_words = WordConstraint(brackets, WORDS, 0)
    assert {"".join(WORDS[token] for token in tokens) for tokens in samples(over_words, budget)} == expected
    over_characters = CharacterConstraint(brackets, [None, b"(", b")", b"[", b"]"], 0)
    assert set(samples(over_characters, budget)) == set(samples(over_words, budget))


@pytest.mark.parametrize(("depth", "least"), [(1, 0), (3, 0), (3, 7)])
def test_the_formula_agrees_with_a_search(depth: int, least: int) -> None:
    brackets = Brackets(depth, least=least)
    states = [brackets.start(TASK)]
    for state in states:
        assert brackets.shortest_end(state) == Automaton.shortest_end(brackets, state)
        states += [following for following in brackets.moves(state).values() if following not in states]
        assert all(
            brackets.shortest_end(following) <= brackets.shortest_end(state) + brackets.stretch
            for following in brackets.moves(state).values()
        )
    assert len(states) > 2


def test_the_last_bracket_closes_first_and_runs_are_forced_near_the_limit() -> None:
    walk = WordConstraint(Brackets(3), WORDS, 0).begin(TASK)
    for word in "([(":
        walk.advance(WORDS.index(word))
    assert members(walk.allowed(99)).tolist() == [WORDS.index(")")], "maximum depth"
    assert [WORDS[token] for token in walk.forced(4)] == [")", "]", ")", "<end>"]


@pytest.mark.parametrize(("depth", "kinds"), [(0, "()"), (2, ""), (2, "()["), (2, "(("), (2, "()()")])
def test_invalid_settings_are_rejected(depth: int, kinds: str) -> None:
    with pytest.raises(ConstraintError, match=r"Brackets: (depth|kinds)"):
        Brackets(depth, kinds)


def test_a_bracket_missing_from_the_vocabulary_is_named_immediately() -> None:
    with pytest.raises(ConstraintError, match=r"'\{'"):
        WordConstraint(Brackets(2, "(){}"), WORDS, 0)
    with pytest.raises(ConstraintError, match=r"'\{'"):
        CharacterConstraint(Brackets(2, "(){}"), [None, b"(", b")"], 0)
