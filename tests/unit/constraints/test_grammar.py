"""Text grammars: independent checkers accept the walks, and replay gives the same policy."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import re
import subprocess
import sys
from typing import Any

import jsonschema
import lark
import numpy as np
import pytest

from steelyard.constraints.base import Constraint, Walk, count, members, unpack
from steelyard.constraints.grammar import GrammarConstraint, PerTask, TokenTable
from steelyard.errors import ConstraintError
from steelyard.types import Task
from tests.grammars import TASK, follow, grammar, replay, small_table, smollm_table

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "grün"]}},
        "age": {"type": "integer", "minimum": 0},
        "sure": {"type": ["boolean", "null"]},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
ORDER = r"(foo|[0-9]+, )*end é{2}"
SUMS = """
start: sum
sum: product ("+" product)*
product: atom ("*" atom)*
atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]{1,3}/
"""
CHOICES = ["alpha", "alphabet", "alphabetical", "é😀", "beta max"]
SOURCES: dict[str, Any] = {"json_schema": PERSON, "regex": ORDER, "lark": SUMS, "choices": CHOICES}
SUMS_PARSER = lark.Lark(SUMS)


@pytest.fixture(params=["small", "smollm"], scope="module")
def table(request: pytest.FixtureRequest) -> TokenTable:
    return small_table() if request.param == "small" else smollm_table()


@pytest.fixture
def small() -> TokenTable:
    return small_table()


def accepts(kind: str, text: str) -> bool:
    """Return whether an independent checker accepts the text."""
    if kind == "json_schema":
        try:
            jsonschema.validate(json.loads(text), PERSON)
        except (ValueError, jsonschema.ValidationError):
            return False
        return True
    if kind == "regex":
        return re.fullmatch(ORDER, text, re.ASCII) is not None
    if kind == "lark":
        try:
            SUMS_PARSER.parse(text)
        except lark.exceptions.LarkError:
            return False
        return True
    return text in CHOICES


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("kind", list(SOURCES))
def test_samples_are_accepted_by_an_independent_checker(table: TokenTable, kind: str, canonical: bool) -> None:
    constraint = grammar(table, kind, SOURCES[kind], canonical_tokens=canonical, max_tokens=80)
    texts = set()
    for seed in range(25):
        found = follow(constraint, seed, 80)
        if constraint.bounded:
            assert found.ended
        if found.ended:
            texts.add(found.text(table))
    assert len(texts) > 3
    assert all(accepts(kind, text) for text in texts), texts
    assert constraint.bounded == (kind != "lark")


@pytest.mark.parametrize("kind", list(SOURCES))
def test_mutated_samples_are_rejected_by_checker_and_walk(small: TokenTable, kind: str) -> None:
    constraint = grammar(small, kind, SOURCES[kind], max_tokens=60, canonical_tokens=False)
    text = next(found.text(small) for found in (follow(constraint, seed, 60) for seed in range(9)) if found.ended)
    assert accepts(kind, text)
    take(constraint, text)
    for mutant in ("+" + text, text + "}", "\x01" + text, text + text + "|", text[:-1] + "\n"):
        assert not accepts(kind, mutant)
        with pytest.raises(ConstraintError):
            take(constraint, mutant)


def take(constraint: GrammarConstraint, text: str) -> None:
    walk = constraint.begin(TASK)
    for token in [*constraint.table.encode(text), constraint.table.end_id]:
        walk.advance(token)


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("kind", list(SOURCES))
def test_replay_has_the_same_decisions_and_sets(table: TokenTable, kind: str, canonical: bool) -> None:
    constraint = grammar(table, kind, SOURCES[kind], canonical_tokens=canonical, max_tokens=60)
    for seed in range(6):
        found = follow(constraint, seed, 40)
        again = replay(constraint, found.tokens, 40)
        assert again.decisions == found.decisions
        assert again.tokens == found.tokens


@pytest.mark.parametrize("kind", list(SOURCES))
def test_a_walk_that_only_advances_is_in_the_same_state(table: TokenTable, kind: str) -> None:
    constraint = grammar(table, kind, SOURCES[kind])
    for seed in range(3):
        tokens = follow(constraint, seed, 25).tokens[:-1]
        asked = constraint.begin(TASK)
        for place, token in enumerate(tokens):
            silent = constraint.begin(TASK)
            for earlier in tokens[:place]:
                silent.advance(earlier)
            assert list(silent.forced(99)) == list(asked.forced(99))
            np.testing.assert_array_equal(silent.allowed(99), asked.allowed(99))
            assert silent.may_end() == asked.may_end()
            asked.advance(token)


@pytest.mark.parametrize("kind", list(SOURCES))
def test_the_mask_agrees_with_trying_single_tokens(small: TokenTable, kind: str) -> None:
    """Every text token is tried on a copy of the walk; the mask must agree."""
    constraint = grammar(small, kind, SOURCES[kind], canonical_tokens=False)
    walk = constraint.begin(TASK)
    for token in follow(constraint, 3, 12).tokens:
        allowed = set(members(walk.allowed(99)).tolist())
        for tried in range(small.vocabulary):
            copied = walk.copy()
            if tried in allowed:
                copied.advance(tried)
            else:
                with pytest.raises(ConstraintError):
                    copied.advance(tried)
        walk.advance(token)


def test_forced_keys_are_one_run_of_the_tokenizers_own_tokens() -> None:
    table = smollm_table()
    schema = {
        "type": "object",
        "properties": {"first_name": {"type": "integer"}, "last_name": {"type": "null"}},
        "required": ["first_name", "last_name"],
        "additionalProperties": False,
    }
    walk = grammar(table, "json_schema", schema).begin(TASK)
    run = list(walk.forced(99))
    assert len(run) > 1
    assert '{"first_name":'.startswith(table.engine.decode_str(run))
    assert table.encode('{"first_name":')[: len(run)] == run
    assert list(walk.forced(1)) == run[:1]
    assert members(walk.allowed(99)).tolist() == run[:1]
    walk.advance(run[0])
    assert list(walk.forced(99)) == run[1:]
    assert not walk.may_end()


def test_without_canonical_runs_every_tokenization_of_a_forced_text_is_allowed() -> None:
    table = smollm_table()
    first = {
        canonical: grammar(table, "regex", "abcdef", canonical_tokens=canonical).begin(TASK)
        for canonical in (True, False)
    }
    assert [table.engine.decode_str([int(t)]) for t in members(first[False].allowed(9))] == ["a", "ab", "abc"]
    assert list(first[False].forced(9)) == []
    assert table.engine.decode_str(list(first[True].forced(9))) == "abcdef"
    assert count(first[True].allowed(9)) == 1
    with pytest.raises(ConstraintError, match="canonical run"):
        first[True].advance(table.encode("a")[0])


def test_the_end_is_forced_if_nothing_else_is_allowed(table: TokenTable) -> None:
    walk = grammar(table, "choices", ["ab"]).begin(TASK)
    assert not walk.may_end()
    assert walk.shortest_end() is None
    while not walk.may_end():
        walk.advance(walk.forced(9)[0])
    assert walk.shortest_end() == 1
    assert list(walk.forced(9)) == [table.end_id]
    assert members(walk.allowed(9)).tolist() == [table.end_id]
    walk.advance(table.end_id)
    assert count(walk.allowed(9)) == 0
    assert list(walk.forced(9)) == []
    assert not walk.may_end()
    with pytest.raises(ConstraintError, match="after the end"):
        walk.advance(table.end_id)


def test_with_one_token_left_only_the_end_is_allowed_if_possible(small: TokenTable) -> None:
    walk = grammar(small, "regex", "a+b?").begin(TASK)
    assert not unpack(walk.allowed(1), small.vocabulary)[small.end_id]
    walk.advance(small.encode("a")[0])
    assert count(walk.allowed(2)) > 1
    assert list(walk.forced(2)) == []
    assert members(walk.allowed(1)).tolist() == [small.end_id]
    assert list(walk.forced(1)) == [small.end_id]
    assert list(walk.forced(0)) == []


def test_no_special_token_except_the_end_is_ever_allowed(table: TokenTable) -> None:
    constraint = grammar(table, "regex", "(?s).*")
    walk = constraint.begin(TASK)
    bits = walk.allowed(9)
    assert len(bits) == -(-table.vocabulary // 8)
    allowed = set(members(bits).tolist())
    specials = {token for token in range(table.engine.vocab_size) if table.engine.is_special_token(token)}
    assert allowed & specials == {table.end_id}
    assert max(allowed) < table.engine.vocab_size < table.vocabulary
    assert len(allowed) > 0.9 * table.engine.vocab_size - 100
    for token in (*(specials - {table.end_id}), table.vocabulary - 1, table.vocabulary + 99, -1):
        with pytest.raises(ConstraintError, match="not allowed"):
            walk.advance(token)
    inverse = grammar(table, "lark", 'start: TEXT\nTEXT: ~"a"').begin(TASK)
    assert not set(members(inverse.allowed(9)).tolist()) & (specials - {table.end_id})


def test_a_rejected_token_does_not_change_the_walk(small: TokenTable) -> None:
    walk = grammar(small, "regex", "[ab]c").begin(TASK)
    before = walk.allowed(9)
    with pytest.raises(ConstraintError, match="not allowed by the grammar"):
        walk.advance(small.encode("x")[0])
    with pytest.raises(ConstraintError, match="before the sentence is complete"):
        walk.advance(small.end_id)
    np.testing.assert_array_equal(walk.allowed(9), before)
    walk.advance(small.encode("a")[0])


def test_copies_are_independent(small: TokenTable) -> None:
    constraint = grammar(small, "json_schema", PERSON)
    assert isinstance(constraint, Constraint)
    walk = constraint.begin(TASK)
    assert isinstance(walk, Walk)
    for token in walk.forced(99):
        walk.advance(token)
    here = walk.allowed(99).copy()
    other = walk.copy()
    for _ in range(5):
        other.advance(int(members(other.allowed(99))[0]))
    np.testing.assert_array_equal(walk.allowed(99), here)


@pytest.mark.parametrize("canonical", [True, False])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_constraint_survives_copying_and_pickling(table: TokenTable, kind: str, canonical: bool) -> None:
    constraint = grammar(table, kind, SOURCES[kind], canonical_tokens=canonical, max_tokens=60)
    walks = [follow(constraint, seed, 60) for seed in range(3)]
    for other in (copy.deepcopy(constraint), pickle.loads(pickle.dumps(constraint))):
        assert other.table.engine is not table.engine
        assert (other.bounded, other.max_tokens) == (constraint.bounded, 60)
        assert [follow(other, seed, 60) for seed in range(3)] == walks


def test_the_parts_of_a_constraint_survive_pickling(small: TokenTable) -> None:
    task = Task("1", "", {"labels": ["yes"]})
    both = [grammar(small, "choices", source) for source in (PerTask("labels"), ["a"])]
    one, other = pickle.loads(pickle.dumps(both))
    assert one.table is other.table
    assert follow(one, 0, 9, task=task).text(small) == "yes"
    closed = GrammarConstraint("regex", "abb", [b"a", b"b", b"ab", None], end_id=3, vocabulary=4)
    assert list(pickle.loads(pickle.dumps(closed)).begin(TASK).forced(9)) == [2, 1]


def test_a_closed_vocabulary_of_characters_is_tokenized_greedily() -> None:
    tokens = [b"a", b"b", b"ab", b"1", None, None, b"-"]
    constraint = GrammarConstraint("regex", "abb-[1b]+", tokens, end_id=4, vocabulary=7)
    walk = constraint.begin(TASK)
    assert list(walk.forced(9)) == [2, 1, 6]
    for token in (2, 1, 6):
        walk.advance(token)
    assert members(walk.allowed(9)).tolist() == [1, 3]
    walk.advance(3)
    assert members(walk.allowed(9)).tolist() == [1, 3, 4]
    free = GrammarConstraint("regex", "abb", tokens, end_id=4, vocabulary=7, canonical_tokens=False).begin(TASK)
    assert members(free.allowed(9)).tolist() == [0, 2]


def test_characters_missing_from_the_vocabulary_are_a_dead_end() -> None:
    tokens = [b"a", b"b", None]
    with pytest.raises(ConstraintError, match="can start a sentence"):
        GrammarConstraint("regex", "x", tokens, end_id=2, vocabulary=3)
    walk = GrammarConstraint("regex", "[ab]x", tokens, end_id=2, vocabulary=3).begin(TASK)
    walk.advance(0)
    assert count(walk.allowed(9)) == 0


def test_a_hugging_face_tokenizer_is_accepted() -> None:
    from transformers import PreTrainedTokenizerFast

    from tests.grammars import SMOLLM

    if not SMOLLM.exists():
        pytest.skip(f"SmolLM2's tokenizer is not at {SMOLLM}")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(SMOLLM), eos_token="<|endoftext|>")
    constraint = GrammarConstraint("choices", ["yes", "no"], tokenizer, end_id=2, vocabulary=49152)
    walk = constraint.begin(TASK)
    assert {tokenizer.decode(int(token)) for token in members(walk.allowed(9))} == {"y", "ye", "yes", "n", "no"}
    walk.advance(tokenizer.convert_tokens_to_ids("no"))
    assert list(walk.forced(9)) == [2]


def test_a_task_can_have_its_own_grammar(small: TokenTable) -> None:
    constraint = grammar(small, "choices", PerTask("labels"), max_tokens=9)
    one, two = Task("1", "", {"labels": ["yes", "no"]}), Task("2", "", {"labels": ["a", "much longer choice"]})
    assert follow(constraint, 0, 9, task=one).text(small) in ("yes", "no")
    assert constraint.why_unbounded(one) == ""
    assert "18 bytes, more than 8" in constraint.why_unbounded(two)
    assert not constraint.bounded
    assert "each task" in constraint.unbounded_because
    assert grammar(small, "regex", lambda task: task.id + "+").begin(one).forced(9)
    with pytest.raises(ConstraintError, match="task 3: no grammar in column 'labels'; its spec has 'label'"):
        constraint.begin(Task("3", "", {"label": 1}))
    with pytest.raises(ConstraintError, match="task 4: choices must be a list"):
        constraint.begin(Task("4", "", {"labels": "yes"}))


def test_the_cache_of_compiled_grammars_is_bounded(small: TokenTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steelyard.constraints.grammar.constraint.MAX_CACHED_GRAMMARS", 2)
    constraint = grammar(small, "regex", PerTask("pattern"))
    tasks = [Task(str(number), "", {"pattern": "a" * (number + 1)}) for number in range(3)]
    first = constraint._of(tasks[0])
    assert constraint._of(tasks[0]) is first
    constraint.begin(tasks[1])
    assert constraint._of(tasks[0]) is first
    constraint.begin(tasks[2])
    assert constraint._of(tasks[0]) is first
    assert len(constraint._cache) == 2


def test_the_table_must_fit_the_model(small: TokenTable) -> None:
    with pytest.raises(ConstraintError, match="end_id = 9 is not in the vocabulary of 3"):
        TokenTable([b"a", b"b", None], end_id=9, vocabulary=3)
    with pytest.raises(ConstraintError, match="has 3 tokens, but the model's vocabulary has only 2"):
        TokenTable([b"a", None, b"b"], end_id=1, vocabulary=2)
    with pytest.raises(ConstraintError, match="fast Hugging Face tokenizer"):
        TokenTable(object(), end_id=1, vocabulary=2)
    with pytest.raises(ConstraintError, match="the token table is for end token 1"):
        GrammarConstraint("regex", "a", small, end_id=2, vocabulary=small.vocabulary)


@pytest.mark.parametrize(
    ("kind", "source", "sentence"),
    [
        ("json_schema", PERSON, '{"name":"","tags":[]}'),
        ("regex", "(ab|abc)+ (the|answer)", "ab the"),
        ("lark", SUMS, "0"),
        ("choices", ["internationalisation", "é😀漢"], None),
    ],
)
def test_a_budget_below_the_shortest_sentence_is_rejected(
    table: TokenTable, kind: str, source: Any, sentence: str | None
) -> None:
    constraint = grammar(table, kind, source)
    shortest = sentence or min(source, key=lambda choice: len(table.encode(choice)))
    needed = len(table.encode(shortest)) + 1
    constraint.check_budget(TASK, needed)
    said = f"{re.escape(repr(shortest))}, takes {needed} tokens .*limit of {needed - 1}; raise sampling.max_new_"
    with pytest.raises(ConstraintError, match=said):
        constraint.check_budget(TASK, needed - 1)


def test_an_infinite_grammar_is_rejected(small: TokenTable) -> None:
    with pytest.raises(ConstraintError, match="short enough for a sample"):
        grammar(small, "lark", 'start: "a" start').check_budget(TASK, 99)


def test_an_unknown_length_is_reported_once(small: TokenTable, caplog: pytest.LogCaptureFixture) -> None:
    constraint = grammar(small, "regex", r"\p{Lu}+")
    with caplog.at_level(logging.WARNING):
        constraint.check_budget(TASK, 1)
        constraint.check_budget(TASK, 1)
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["grammar"]
    assert "whether a sentence fits in 1 tokens" in caplog.text


def test_texts_with_many_bytes_in_few_tokens_are_still_allowed() -> None:
    table = smollm_table()
    constraint = grammar(table, "regex", "international( relations)*", max_tokens=6)
    assert "matches nothing of at most 5 bytes" in constraint.unbounded_because
    constraint.check_budget(TASK, 6)
    assert follow(constraint, 0, 6).tokens


def test_importing_needs_neither_the_engine_nor_torch() -> None:
    code = (
        "import sys; sys.modules['llguidance'] = None\n"
        "import steelyard.constraints.grammar as g, steelyard.errors as e\n"
        "assert not {'torch', 'transformers', 'tokenizers'} & set(sys.modules)\n"
        "try: g.GrammarConstraint('regex', 'a', [b'a', None], end_id=1, vocabulary=2)\n"
        "except e.MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "missing optional package for text grammars: pip install 'steelyard[grammars]'" in done.stdout
