"""Helpers for grammar tests: two real tokenizers, seeded random walks, and replays of those walks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from steelyard.constraints.base import Bits, Walk, members
from steelyard.constraints.grammar import GrammarConstraint, TokenTable
from steelyard.pretrained.catalogue import MODELS
from steelyard.types import Task

TASK = Task("t", "write something")
SMOLLM = MODELS["smollm2"].folder / "tokenizer.json"
CORPUS = [
    '{"name":"Anna","tags":["red","green"],"age":31}',
    "the answer is 42, the end",
    "alpha alphabet (1+2)*3 é",
] * 3


@cache
def small_table() -> TokenTable:
    """Train a byte-level BPE with 300 tokens: begin, end and padding tokens, all bytes, and some merges."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<begin>", "<end>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return TokenTable(tokenizer, end_id=1, vocabulary=tokenizer.get_vocab_size() + 5)


@cache
def smollm_table() -> TokenTable:
    """Load SmolLM2's 49,152 tokens with padded logits; the end token is ``<|im_end|>``."""
    if not SMOLLM.exists():
        pytest.skip(f"SmolLM2's tokenizer is not at {SMOLLM}: run `steelyard fetch smollm2`")
    from tokenizers import Tokenizer

    return TokenTable(Tokenizer.from_file(str(SMOLLM)), end_id=2, vocabulary=49160)


def grammar(table: TokenTable, kind: Any, source: Any, **settings: Any) -> GrammarConstraint:
    return GrammarConstraint(kind, source, table, end_id=table.end_id, vocabulary=table.vocabulary, **settings)


@dataclass
class Followed:
    """The record of a walk: its tokens, and for each decision the position and the allowed set."""

    tokens: list[int] = field(default_factory=list)
    decisions: list[tuple[int, bytes]] = field(default_factory=list)
    ended: bool = False

    def text(self, table: TokenTable) -> str:
        plain = [token for token in self.tokens if token != table.end_id]
        return table.engine.decode_bytes(plain).decode("utf-8")


def follow(constraint: GrammarConstraint, seed: int, left: int, *, rank: Any = None, task: Task = TASK) -> Followed:
    """Draw a walk uniformly from the allowed tokens, or from those with the lowest rank."""
    generator = np.random.default_rng(seed)

    def choose(bits: Bits) -> int:
        allowed = members(bits).tolist()
        best = min(map(rank, allowed)) if rank else None
        return int(generator.choice([token for token in allowed if rank is None or rank(token) == best]))

    return _follow(constraint.begin(task), left, constraint, choose)


def lengthening(table: TokenTable) -> Any:
    """Return a rank that produces long texts: single bytes, four-byte characters first, closing characters last."""

    def rank(token: int) -> int:
        text = b"" if token == table.end_id else table.engine.decode_bytes([token])
        if len(text) != 1:
            return 4
        if text[0] >= 0xF0:
            return 0
        return 3 if text in b']}"' else 2 if text in b"0+)" else 1

    return rank


def replay(constraint: GrammarConstraint, tokens: list[int], left: int, task: Task = TASK) -> Followed:
    """Repeat a walk from its tokens alone."""
    found = Followed()
    return _follow(constraint.begin(task), left, constraint, lambda _: tokens[len(found.tokens)], found)


def _follow(
    walk: Walk, left: int, constraint: GrammarConstraint, choose: Any, found: Followed | None = None
) -> Followed:
    found = found or Followed()
    while left > 0 and not found.ended:
        run = list(walk.forced(left))
        if not run:
            bits = walk.allowed(left)
            assert members(bits).size, "a dead end"
            found.decisions.append((len(found.tokens), bits.tobytes()))
            run = [choose(bits)]
        for token in run:
            walk.advance(token)
        found.tokens += run
        left -= len(run)
        found.ended = run[-1] == constraint.table.end_id
    return found
