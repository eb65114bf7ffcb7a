"""Automata compared with plain definitions: budgets, exact languages, and tokens by brute force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard.constraints.automaton import NO_END, Automaton, WordConstraint
from steelyard.constraints.base import members
from steelyard.constraints.examples.boxes import Boxes
from steelyard.constraints.examples.brackets import Brackets
from steelyard.constraints.trie import CharacterConstraint, TokenTrie
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.automata import TASK, Table, balanced, packed, ramble, samples

LETTERS = "abc"
tables = st.builds(
    Table,
    st.dictionaries(st.integers(0, 5), st.dictionaries(st.sampled_from(LETTERS), st.integers(0, 6)), max_size=6),
    st.sets(st.integers(0, 6), min_size=1),
)
"""Any automaton with at most seven states, including traps and unreachable ends."""

vocabularies = st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=12).map(
    lambda texts: [None, *(text.encode() for text in [*LETTERS, *texts]), b"", b"\xc3", None]
)
"""Each letter, some longer tokens (possibly duplicates), and some tokens without text."""


def accepts(automaton: Automaton[int], symbols: str) -> bool:
    state: int | None = automaton.start(TASK)
    for symbol in symbols:
        state = automaton.moves(state).get(symbol)
        if state is None:
            return False
    return automaton.may_end(state)


def follows(constraint: WordConstraint[Any], task: Task, tokens: list[int]) -> bool:
    walk = constraint.begin(task)
    try:
        for token in tokens:
            walk.advance(token)
    except ConstraintError:
        return False
    return walk.ended


def ends_within(automaton: Automaton[int], state: int, symbols: int) -> bool:
    """Return by brute force whether an end can be reached within the given number of symbols."""
    reached = {state}
    for _ in range(symbols):
        if any(automaton.may_end(one) for one in reached):
            return True
        reached |= {after for one in reached for after in automaton.moves(one).values()}
    return any(automaton.may_end(one) for one in reached)


@given(tables, st.integers(1, 6))
def test_over_words_the_samples_are_the_sentences_that_fit(table: Table, budget: int) -> None:
    words = ["<end>", *LETTERS]
    assume(ends_within(table, 0, budget - 1))
    sentences = [""]
    for sentence in sentences:
        if len(sentence) < budget - 1:
            sentences += [sentence + letter for letter in LETTERS]
    found = ["".join(words[token] for token in tokens) for tokens in samples(WordConstraint(table, words, 0), budget)]
    assert len(set(found)) == len(found)
    assert set(found) == {sentence for sentence in sentences if accepts(table, sentence)}


@given(tables, vocabularies, st.integers(0, 9))
def test_over_characters_a_token_is_allowed_exactly_by_definition(
    table: Table, tokens: list[bytes | None], left: int
) -> None:
    assume(ends_within(table, 0, 8))
    constraint = CharacterConstraint(table, tokens, 0)
    walk = constraint.begin(TASK)
    for state in range(7):
        walk.state = state
        expected = [0] if table.may_end(state) and left > 0 else []
        for token, written in enumerate(tokens):
            reached: int | None = state
            for character in (written or b"").decode(errors="replace"):
                reached = table.moves(reached).get(character) if reached is not None else None
            if written and reached is not None and left >= 2 and ends_within(table, reached, left - 2):
                expected.append(token)
        assert members(walk.allowed(left)).tolist() == sorted(expected)
        for token in range(len(tokens)):
            fits = token in members(walk.allowed(99)).tolist()
            copy = walk.copy()
            if fits:
                copy.advance(token)
            else:
                with pytest.raises(ConstraintError):
                    copy.advance(token)


@given(tables, vocabularies, st.integers(1, 7))
def test_over_characters_every_tokenization_of_every_sentence_is_allowed(
    table: Table, tokens: list[bytes | None], budget: int
) -> None:
    """A token is allowed if, continuing with one token per character, an end can still be reached within the budget."""
    assume(ends_within(table, 0, budget - 1))
    texts = [(written or b"").decode(errors="ignore") for written in tokens]
    cuttings: list[tuple[tuple[int, ...], str, int]] = [((), "", 0)]
    expected = set[tuple[int, ...]]()
    for cutting, text, state in cuttings:
        if table.may_end(state):
            expected.add(cutting)
        for token, more in enumerate(texts):
            reached: int | None = state
            for character in more:
                reached = table.moves(reached).get(character) if reached is not None else None
            room = budget - len(cutting) - 2
            if more and reached is not None and room >= 0 and ends_within(table, reached, room):
                cuttings.append(((*cutting, token), text + more, reached))
        if len(cuttings) > 3_000:
            assume(False)
    assert all(accepts(table, text) for cutting, text, _ in cuttings if cutting in expected)
    assert sorted(samples(CharacterConstraint(table, tokens, 0), budget)) == sorted(expected)


@given(tables, st.integers(0, 6))
def test_the_search_does_not_depend_on_the_order_of_calls(table: Table, first: int) -> None:
    for state in [first, *range(7)]:
        end = table.shortest_end(state)
        assert (end == NO_END) == (not ends_within(table, state, 7))
        if end < NO_END:
            assert ends_within(table, state, end)
            assert end == 0 or not ends_within(table, state, end - 1)


@given(st.data(), st.integers(1, 4), st.integers(0, 9), st.integers(0, 6), st.booleans())
def test_random_walks_in_brackets_end_in_time_and_balance(
    data: st.DataObject, depth: int, least: int, spare: int, characters: bool
) -> None:
    brackets = Brackets(depth, least=least)
    tokens = [None, b"(", b")", b"[", b"]", b"()", b"([", b"])", b")[]("]
    texts = [(token or b"").decode() for token in tokens]
    constraint = CharacterConstraint(brackets, tokens, 0) if characters else WordConstraint(brackets, texts[:5], 0)
    budget = constraint.begin(TASK).shortest_end() + spare
    constraint.check_budget(TASK, budget)
    made = ramble(constraint, budget, lambda choices: data.draw(st.sampled_from(choices)))
    assert len(made) <= budget
    assert made[-1] == 0
    assert balanced("".join(texts[token] for token in made), depth, least=least)


sizes = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=5)


@given(st.data(), st.integers(1, 4), st.integers(1, 4), sizes, st.integers(0, 6))
def test_random_walks_among_boxes_end_in_time_and_pack(
    data: st.DataObject, width: int, height: int, boxes: list[tuple[int, int]], spare: int
) -> None:
    words = ("<end>", *Boxes(width, height).alphabet())
    constraint = WordConstraint(Boxes(width, height), words, 0)
    task = Task("t", "", {"boxes": boxes})
    budget = len(boxes) + 1 + spare
    constraint.check_budget(task, budget)
    made = ramble(constraint, budget, lambda choices: data.draw(st.sampled_from(choices)), task)
    assert len(made) <= budget
    said = [words[token] for token in made[:-1]]
    assert packed(said, boxes, width, height)

    mutated = [*made]
    where = data.draw(st.integers(0, len(made) - 1))
    mutated[where] = data.draw(st.integers(0, len(words) - 1))
    said = [words[token] for token in mutated[:-1]]
    valid = mutated[-1] == 0 and "<end>" not in said and packed(said, boxes, width, height)
    assert follows(constraint, task, mutated) == valid


class Words(Automaton[str]):
    """Accepts the sentences in a fixed list."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences

    def start(self, task: Task) -> str:
        return ""

    def moves(self, state: str) -> Mapping[str, str]:
        longer = (one for one in self.sentences if one.startswith(state) and len(one) > len(state))
        return {one[len(state)]: one[: len(state) + 1] for one in longer}

    def may_end(self, state: str) -> bool:
        return state in self.sentences


@given(st.lists(st.text("aé漢🙂", max_size=5), min_size=1, max_size=6), st.data())
def test_letters_of_several_bytes_are_single_letters(sentences: list[str], data: st.DataObject) -> None:
    whole = [text.encode() for text in ["a", "é", "漢", "🙂", "éa", "漢🙂", "a🙂é"]]
    parts = [b"\xc3", b"\xa9", "漢".encode()[:2], b"a\xf0\x9f"]
    tokens: list[bytes | None] = [None, *whole, *parts]
    constraint = CharacterConstraint(Words(sentences), TokenTrie(tokens), 0)
    budget = 7 + data.draw(st.integers(0, 2))
    made = ramble(constraint, budget, lambda choices: data.draw(st.sampled_from(choices)))
    text = b"".join(tokens[token] or b"" for token in made).decode()
    assert text in sentences
    assert not np.intersect1d(made, range(len(tokens) - len(parts), len(tokens))).size
