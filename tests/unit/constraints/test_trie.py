"""Character automata over tokenizers: the token tree, the bytes of tokens, and unsupported tokenizers."""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from steelyard.constraints.automaton import Automaton, AutomatonWalk
from steelyard.constraints.base import Constraint, Walk, count, members
from steelyard.constraints.examples.brackets import Brackets
from steelyard.constraints.trie import _BYTE_OF, CharacterConstraint, TokenTrie, token_bytes
from steelyard.errors import ConstraintError
from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.pretrained.catalogue import MODELS
from steelyard.types import Task
from tests.automata import TASK, Table, samples

SMOLLM2 = MODELS["smollm2"].folder


class Letters(Automaton[int]):
    """Accepts at most ``longest`` letters."""

    def __init__(self, longest: int, letters: str = string.ascii_letters) -> None:
        self.longest, self.letters = longest, letters

    def start(self, task: Task) -> int:
        return self.longest

    def moves(self, state: int) -> Mapping[str, int]:
        return dict.fromkeys(self.letters, state - 1) if state else {}

    def may_end(self, state: int) -> bool:
        return True


def allowed(walk: Walk, left: int) -> list[int]:
    return members(walk.allowed(left)).tolist()


def test_it_implements_constraint_and_walk() -> None:
    constraint = CharacterConstraint(Letters(2, "ab"), [None, b"a", b"b"], 0)
    assert isinstance(constraint, Constraint)
    assert isinstance(constraint.begin(TASK), Walk)
    assert (constraint.vocabulary, constraint.canonical_tokens) == (3, False)


def test_a_token_is_allowed_if_all_its_characters_are_accepted() -> None:
    tokens = [None, b"a", b"b", b"ab", b"abc", b"ba", b"c", b"", b"ab", b"\xff", b"aaa"]
    walk = CharacterConstraint(Letters(2, "ab"), tokens, 0).begin(TASK)
    assert allowed(walk, 9) == [0, 1, 2, 3, 5, 8]
    walk.advance(8)
    assert allowed(walk, 9) == [0]
    for token in (1, 4, 7, 9, 11, -1):
        with pytest.raises(ConstraintError, match=f"token {token} "):
            walk.advance(token)


def test_the_budget_counts_one_token_per_character() -> None:
    tokens = [None, b"(", b")", b"((", b"))", b"()"]
    walk = CharacterConstraint(Brackets(9, "()"), tokens, 0).begin(TASK)
    assert [allowed(walk, left) for left in (1, 2, 3, 4)] == [[0], [0, 5], [0, 1, 5], [0, 1, 3, 5]]
    walk.advance(3)
    assert walk.shortest_end() == 3
    assert allowed(walk, 3) == [2, 4]
    assert walk.forced(3) == [], "one text, but two tokenizations"
    walk.advance(4)
    assert walk.forced(1) == [0]


def test_the_end_token_ends_the_sample_even_if_it_has_text() -> None:
    constraint = CharacterConstraint(Table({0: {"a": 1, "b": 1}}, [1]), [b"a", b"b", b"a"], 0)
    assert allowed(constraint.begin(TASK), 9) == [1, 2]
    assert set(samples(constraint, 9)) == {(1,), (2,)}


def test_a_tree_can_be_shared() -> None:
    trie = TokenTrie([None, b"(", b")", b"()"])
    assert (len(trie), trie.longest, sorted(trie.single)) == (4, 2, ["(", ")"])
    one, other = CharacterConstraint(Brackets(1, "()"), trie, 0), CharacterConstraint(Letters(1, "("), trie, 0)
    assert one.trie is other.trie is trie
    assert allowed(one.begin(TASK), 9) == [0, 1, 3]
    assert allowed(other.begin(TASK), 9) == [0, 1]


def test_a_vocabulary_without_text_allows_only_the_end() -> None:
    assert allowed(CharacterConstraint(Table({}, [0]), [None, None], 1).begin(TASK), 3) == [1]


def test_a_character_that_is_not_a_token_is_named_when_it_occurs() -> None:
    walk = CharacterConstraint(Letters(2, "ab"), [None, b"a", b"ab"], 0).begin(TASK)
    with pytest.raises(ConstraintError, match=r"the character 'b' is not a token.*another tokenizer"):
        walk.allowed(9)


def test_a_symbol_of_several_characters_is_rejected() -> None:
    walk = CharacterConstraint(Table({0: {"ab": 1}}, [1]), [None, b"a", b"ab"], 0).begin(TASK)
    with pytest.raises(ConstraintError, match="'ab' is not a single character"):
        walk.allowed(9)


def test_a_state_is_expanded_once_and_the_cache_is_bounded() -> None:
    asked: list[int] = []

    class Counted(Letters):
        def moves(self, state: int) -> Mapping[str, int]:
            asked.append(state)
            return super().moves(state)

    constraint = CharacterConstraint(Counted(9, "ab"), [None, b"a", b"b", b"ab"], 0, remembered=5)
    walk = constraint.begin(TASK)
    first = walk.allowed(50)
    asked.clear()
    assert all(walk.allowed(left) is first for left in range(50, 60))
    assert asked == []
    for state in range(9):
        AutomatonWalk(constraint, state).allowed(50)
    assert len(constraint._exact) == len(constraint._moves) == 5


# Token bytes.


def fast(core: Tokenizer) -> Any:
    return SimpleNamespace(backend_tokenizer=core)


def test_byte_level_pieces() -> None:
    core = Tokenizer(models.BPE({"a": 0, "Ġthe": 1, "Ã": 2, "Ċ": 3, "Ã©": 4, "<s>": 5, "漢": 6}, []))
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(["<s>", "<pad>"])
    core.add_tokens([AddedToken("<think>", special=False), AddedToken("Ġ", special=False, normalized=False)])
    written = token_bytes(fast(core), 12)
    assert written == [
        *(b"a", b" the", b"\xc3", b"\n", "é".encode(), None, "漢".encode()),
        *(None, b"<think>", "Ġ".encode(), None, None),
    ]


SENTENCEPIECE = {"<unk>": 0, "<s>": 1, "<0x0A>": 2, "<0xC3>": 3, "▁the": 4, "a": 5, "▁": 6, "▁▁": 7, "é": 8}
WRITTEN = [None, None, b"\n", b"\xc3", b" the", b"a", b" ", b"  ", "é".encode(), None]


def test_sentencepiece_pieces_of_a_bpe_model() -> None:
    core = Tokenizer(models.BPE(SENTENCEPIECE, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    core.add_special_tokens(["<s>"])
    assert token_bytes(fast(core), 10) == WRITTEN
    assert (
        core.decode([5, 4, 6, 8, 2, 5]) == b"".join(filter(None, map(WRITTEN.__getitem__, [5, 4, 6, 8, 2, 5]))).decode()
    )


def test_sentencepiece_pieces_of_a_unigram_model() -> None:
    core = Tokenizer(models.Unigram([(piece, -1.0) for piece in SENTENCEPIECE], unk_id=0, byte_fallback=True))
    core.decoder = decoders.Metaspace()
    core.add_special_tokens(["<s>"])
    literal = [*WRITTEN[:2], b"<0x0A>", b"<0xC3>", *WRITTEN[4:]]
    assert token_bytes(fast(core), 10) == literal, "without byte fallback, byte tokens are literal text"
    assert core.decode([5, 4, 6, 2]) == b"".join(filter(None, map(literal.__getitem__, [5, 4, 6, 2]))).decode()


def test_a_closed_vocabulary_of_characters() -> None:
    core = Tokenizer(models.WordLevel({"<eos>": 0, "a": 1, " ": 2, "é": 3, "[UNK]": 4}, unk_token="[UNK]"))
    core.decoder = decoders.Fuse()
    core.add_special_tokens(["<eos>"])
    written = token_bytes(fast(core), 5)
    assert written == [None, b"a", b" ", "é".encode(), None]
    assert set(samples(CharacterConstraint(Letters(2, "aé"), written, 0), 2)) == {(), (1,), (3,)}


def test_ids_beyond_the_model_are_omitted() -> None:
    core = Tokenizer(models.WordLevel({"a": 0, "b": 7}, unk_token="a"))
    core.decoder = decoders.Fuse()
    assert token_bytes(fast(core), 2) == [None, None]


def test_words_joined_by_spaces_need_a_word_constraint() -> None:
    with pytest.raises(ConstraintError, match=r"WordLevel.*WordPiece decoder.*use WordConstraint"):
        token_bytes(closed_vocabulary_tokenizer(["(", ")"]), 5)
    with pytest.raises(ConstraintError, match="no decoder"):
        token_bytes(fast(Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))), 5)
    suffixed = Tokenizer(models.BPE({"a</w>": 0}, [], end_of_word_suffix="</w>"))
    suffixed.decoder = decoders.ByteLevel()
    with pytest.raises(ConstraintError, match="BPE pieces and ByteLevel"):
        token_bytes(fast(suffixed), 5)


def test_tokenizers_that_cannot_be_read() -> None:
    with pytest.raises(ConstraintError, match="SimpleNamespace is not a fast"):
        token_bytes(SimpleNamespace(), 5)
    core = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    core.decoder = decoders.Replace(Regex("a+"), "b")
    with pytest.raises(ConstraintError, match=r"replaces \{'Regex': 'a\+'\}"):
        token_bytes(fast(core), 5)


@cache
def smollm2() -> tuple[Any, list[bytes | None]]:
    if not SMOLLM2.is_dir():
        pytest.skip(f"no tokenizer of SmolLM2 in {SMOLLM2}")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(SMOLLM2)
    return tokenizer, token_bytes(tokenizer, 49_160)


def test_smollm2_agrees_with_llguidance() -> None:
    tokenizer, written = smollm2()
    from llguidance.hf import from_tokenizer

    reference = from_tokenizer(tokenizer)
    special = {token for token in range(len(tokenizer)) if reference.is_special_token(token)}
    assert {token for token in range(len(tokenizer)) if written[token] is None} == special
    assert all(written[token] == reference.decode_bytes([token]) for token in range(len(tokenizer)) if written[token])
    assert written[len(tokenizer) :] == [None] * (49_160 - len(tokenizer))


def test_smollm2_decodes_the_bytes_of_its_tokens() -> None:
    tokenizer, written = smollm2()
    text = "Naïve 漢字 🙂\n\tdef f(x): return x ** 2"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert b"".join(written[token] or b"" for token in ids).decode() == text


@pytest.mark.parametrize(
    "automaton", [Letters(3), Letters(40, string.ascii_letters + " "), Brackets(3), Brackets(3, least=6)]
)
def test_over_smollm2_exactly_the_right_tokens_are_allowed(automaton: Automaton[Any]) -> None:
    _, written = smollm2()
    constraint = CharacterConstraint(automaton, written, 0)
    walk = constraint.begin(TASK)
    cost = {0: 0} if automaton.may_end(walk.state) else {}
    for token, piece in enumerate(written):
        text = (piece or b"").decode(errors="replace")
        state = walk.state
        for character in text:
            state = automaton.moves(state).get(character)
            if state is None:
                break
        if text and state is not None:
            cost[token] = automaton.shortest_end(state) + 1
    for left in (1, 3, 5, 8, 200):
        assert allowed(walk, left) == sorted(token for token in cost if cost[token] <= left - 1)
    assert count(walk.allowed(200)) > 8


def test_the_byte_alphabet_is_gpt2s() -> None:
    assert set(_BYTE_OF) == set(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(_BYTE_OF.values()) == list(range(256))
    assert all(decoders.ByteLevel().decode([letter]) == chr(byte) for letter, byte in _BYTE_OF.items() if byte < 128)
    assert all(
        decoders.ByteLevel().decode(["Ã", letter]) == bytes([0xC3, byte]).decode()
        for letter, byte in _BYTE_OF.items()
        if 128 <= byte < 192
    )
