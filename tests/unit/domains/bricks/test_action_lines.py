"""The text format as an automaton over characters, alone and with real tokenizers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from benchmarks.bricks.random_structures import texts
from steelyard.constraints.base import Walk, members
from steelyard.constraints.trie import CharacterConstraint, token_bytes
from steelyard.domains.bricks import Brick, Library, Part, World, parse
from steelyard.domains.bricks.actions import Lines
from steelyard.domains.bricks.actions.lines import LineState
from steelyard.errors import ConstraintError
from steelyard.pretrained.catalogue import MODELS
from tests.automata import TASK, ramble

SMOLLM2 = MODELS["smollm2"].folder
ROW = World((12, 1, 1), Library((Part(1, 1, 1e-3),)))


def after(space: Lines, text: str) -> str:
    """Return the characters allowed after the given text."""
    automaton = space.automaton()
    state = automaton.start(TASK)
    for character in text:
        state = automaton.moves(state)[character]
    return "".join(automaton.moves(state))


def follow(walk: Walk, tokens: Sequence[int]) -> None:
    for token in tokens:
        walk.advance(token)


@pytest.mark.parametrize(
    ("text", "characters"),
    [
        ("", "1"),
        ("1", "x"),
        ("1x1", " "),
        ("1x1 ", "("),
        ("1x1 (", "0123456789"),
        ("1x1 (1", ",01"),
        ("1x1 (11", ","),
        ("1x1 (2", ","),
        ("1x1 (0,0,0", ")"),
        ("1x1 (0,0,0)", "\n"),
        ("1x1 (0,0,0)\n", "1"),
        ("1x1 (0,0,0)\n1x1 (", "123456789"),
        ("1x1 (1,0,0)\n1x1 (1", "01"),
        ("1x1 (0,0,0)\n1x1 (1,0,0)\n", ""),
    ],
)
def test_characters_by_hand(text: str, characters: str) -> None:
    assert after(Lines(ROW, 2), text) == characters


def test_shortest_end_counts_required_digits() -> None:
    automaton = Lines(ROW, 12).automaton()
    tens = tuple(Brick(1, 1, x, 0, 0) for x in range(10))
    assert automaton.shortest_end(LineState(())) == len("1x1 (0,0,0)\n")
    assert automaton.shortest_end(LineState((), (1, 1), "", "(")) == len("(0,0,0)\n")
    assert automaton.shortest_end(LineState((), (1, 1), "1")) == len(",0,0)\n")
    assert automaton.shortest_end(LineState(tens, (1, 1))) == len("10,0,0)\n")
    assert automaton.shortest_end(LineState(tens, (1, 1), "1")) == len("0,0,0)\n")
    assert automaton.shortest_end(LineState(tens, (), "", "\n")) == 1
    assert automaton.shortest_end(LineState(tens)) == 0


def test_parts_with_a_common_prefix_are_distinguished() -> None:
    world = World((12, 12, 1), Library((Part(1, 1, 1e-3), Part(1, 12, 1e-3), Part(2, 12, 1e-3))))
    space = Lines(world, 9)
    assert after(space, "") == "12"
    assert after(space, "1") == "x2"
    assert after(space, "1x1") == " 2"
    assert after(space, "12x") == "12"
    assert after(space, "12x2 (0,") == "0123456789"
    assert after(space, "12x2 (0,1") == ",0"
    assert after(space, "1x1 (6,6,0)\n12x1 (0,") == "012345789", "one row is occupied"
    assert space.automaton().shortest_end(LineState((), (), "1")) == len("x1 (0,0,0)\n")
    assert space.automaton().shortest_end(LineState((), (1,), "12")) == len(" (0,0,0)\n")
    assert space.tokens_per_brick == len("12x2 (11,11,0)\n")
    assert space.automaton().alphabet() == sorted("0123456789x (,)\n")


def test_floating_bricks_are_excluded_unless_allowed() -> None:
    text = "2x4 (0,0,0)\n1x1 (5,5,"
    assert after(Lines(World(), 9), text) == "0"
    assert after(Lines(World(), 9, may_float=True), text) == "0123456789"
    assert after(Lines(World(), 9), "2x4 (0,0,0)\n1x1 (1,3,") == "1"


def test_alphabet_contains_only_required_characters() -> None:
    assert Lines(World((3, 3, 3), Library((Part(1, 2, 1e-3),))), 9).automaton().alphabet() == sorted("012x (,)\n")


@cache
def bpe() -> tuple[Any, list[bytes | None]]:
    """Train a byte-level tokenizer on structures; its tokens span several numbers and lines."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts(random.Random(0), 200), trainer)
    return core, token_bytes(SimpleNamespace(backend_tokenizer=core), core.get_vocab_size())


@cache
def smollm2() -> tuple[Any, list[bytes | None]]:
    if not SMOLLM2.is_dir():
        pytest.skip(f"the SmolLM2 tokenizer is not in {SMOLLM2}")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2)
    return tokenizer.backend_tokenizer, token_bytes(tokenizer, len(tokenizer))


TOKENIZERS = pytest.mark.parametrize("tokenizer", [bpe, smollm2])


@TOKENIZERS
@pytest.mark.parametrize(
    "text", ["", "2x4 (", "2x4 (1", "2x4 (8,8,0", "2x4 (8,8,0)", "2x4 (8,8,0)\n2x2 (8,7,", "8x1 (12"]
)
def test_allowed_tokens_match_the_automaton(tokenizer: Any, text: str) -> None:
    core, written = tokenizer()
    automaton = Lines(World(), 3).automaton()
    walk = CharacterConstraint(automaton, written, 0).begin(TASK)
    follow(walk, core.encode(text, add_special_tokens=False).ids)
    cost = {0: 0} if automaton.may_end(walk.state) else {}
    for token, piece in enumerate(written):
        state: LineState | None = walk.state
        for character in (piece or b"").decode(errors="replace"):
            state = automaton.moves(state).get(character) if state is not None else None
        if piece and state is not None:
            cost[token] = automaton.shortest_end(state) + 1
    assert len(cost) >= 1
    for left in (1, 5, 10, 14, 20, 1000):
        assert members(walk.allowed(left)).tolist() == sorted(token for token in cost if cost[token] <= left - 1)


@TOKENIZERS
def test_valid_structures_are_allowed_token_by_token(tokenizer: Any) -> None:
    core, written = tokenizer()
    constraint = CharacterConstraint(Lines(World(), 12, may_float=True).automaton(), written, 0)
    for text in texts(random.Random(1), 5):
        walk = constraint.begin(TASK)
        for token in core.encode(text, add_special_tokens=False).ids:
            assert token in members(walk.allowed(1000))
            walk.advance(token)
        assert walk.may_end()
        assert walk.state.bricks == parse(text, World(), may_float=True).bricks


@TOKENIZERS
def test_overlapping_bricks_are_rejected(tokenizer: Any) -> None:
    core, written = tokenizer()
    walk = CharacterConstraint(Lines(World(), 9).automaton(), written, 0).begin(TASK)
    wrong, right = (core.encode(f"2x4 (8,8,0)\n2x2 (8,9,{z})\n", add_special_tokens=False).ids for z in (0, 1))
    follow(walk.copy(), right)
    with pytest.raises(ConstraintError, match="is not allowed"):
        follow(walk, wrong)


@TOKENIZERS
@pytest.mark.parametrize("seed", range(5))
def test_random_token_walks_end_within_budget_as_structures(tokenizer: Any, seed: int) -> None:
    _, written = tokenizer()
    space, rng = Lines(World((11, 6, 3)), 4), random.Random(seed)
    constraint = CharacterConstraint(space.automaton(), written, 0)
    budget = rng.randint(13, 4 * space.tokens_per_brick + 1)
    made = ramble(constraint, budget, rng.choice)
    assert len(made) <= budget
    text = b"".join(written[token] or b"" for token in made[:-1]).decode()
    assert 1 <= len(parse(text, space.world)) <= 4
