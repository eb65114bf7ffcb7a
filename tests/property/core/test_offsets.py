"""Recorded token starts equal those from decoding every prefix, for any tokenizer and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from steelyard.policies.scratch import closed_vocabulary_tokenizer
from steelyard.policies.tokens.codec import Codec
from steelyard.pretrained.catalogue import MODELS
from steelyard.sampling.offsets import TextOffsets

pytestmark = pytest.mark.property

SMOLLM2 = MODELS["smollm2"].folder
TEXTS = st.text(alphabet=st.sampled_from("ab .,'n't\n€ß漢字👩‍👩‍👧🇩🇪\ufffd"), max_size=20)
LINES = ["don 't do n't , say it 's so . ok ?", "the words of a text", "漢字 and €"] * 5


def byte_level() -> Any:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer, core.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<end>", "<tool>"], initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(LINES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>")


def byte_fallback() -> Any:
    """Like sentencepiece: unknown characters are bytes, and a run of bytes is text only if all of it is valid."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "▁the", "n", "'", "t"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    core = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>", unk_token="<unk>")


def word_piece(*, clean_up: bool) -> Any:
    """Spaces before punctuation and contractions are removed, even across several tokens."""
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.pre_tokenizer, core.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    core.train_from_iterator(
        LINES, trainers.WordPieceTrainer(vocab_size=80, special_tokens=special, show_progress=False)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="[UNK]", sep_token="[SEP]", clean_up_tokenization_spaces=clean_up
    )


def smollm2() -> Any:
    if not SMOLLM2.is_dir():
        pytest.skip(f"no tokenizer of SmolLM2 in {SMOLLM2}: run `steelyard fetch smollm2`")
    return AutoTokenizer.from_pretrained(SMOLLM2)


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "byte_level": byte_level,
    "byte_fallback": byte_fallback,
    "word_piece": lambda: word_piece(clean_up=False),
    "cleaned_up": lambda: word_piece(clean_up=True),
    "words": lambda: closed_vocabulary_tokenizer(["a", "bc", "def"]),
    "characters": lambda: closed_vocabulary_tokenizer(list("abc漢"), spaced=False),
    "smollm2": smollm2,
}


@cache
def reader(name: str) -> tuple[Any, Callable[[Sequence[int]], str], TextOffsets]:
    tokenizer = TOKENIZERS[name]()
    ends = () if tokenizer.eos_token_id is None else (tokenizer.eos_token_id,)
    decode = Codec(tokenizer, ends, len(tokenizer)).decode
    return tokenizer, decode, TextOffsets(tokenizer, decode)


def by_prefixes(decode: Callable[[Sequence[int]], str], ids: Sequence[int]) -> list[int]:
    return [len(decode(ids[:place])) for place in range(len(ids))]


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_starts_equal_those_of_decoded_prefixes(name: str, data: st.DataObject) -> None:
    """Texts with multi-token characters, random tokens (parts of characters in any order), and both."""
    tokenizer, decode, offsets = reader(name)
    token = st.lists(st.integers(0, len(tokenizer) - 1), max_size=12)
    ids: list[int] = []
    for part in data.draw(st.lists(st.one_of(TEXTS, token), max_size=4)):
        if isinstance(part, list):
            ids += part
        elif name not in ("words", "characters"):
            ids += tokenizer.encode(part, add_special_tokens=False)
    text, start_T = offsets.read(ids)
    assert text == decode(ids)
    assert start_T.tolist() == by_prefixes(decode, ids)


def test_parts_of_a_character_start_at_it_or_after_it() -> None:
    """Until its last byte arrives, a four-byte character is one replacement character in the text."""
    tokenizer, decode, offsets = reader("byte_level")
    ids = tokenizer.encode("a👩b", add_special_tokens=False)
    assert len(ids) == 6
    text, start_T = offsets.read(ids)
    assert (text, start_T.tolist()) == ("a👩b", [0, 1, 2, 2, 2, 2])
    assert by_prefixes(decode, ids) == [0, 1, 2, 2, 2, 2]


@pytest.mark.parametrize("name", ["byte_level", "words"])
def test_the_work_is_linear_in_the_length(name: str) -> None:
    tokenizer, decode, _ = reader(name)
    decoded = 0

    def counted(ids: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return decode(ids)

    offsets = TextOffsets(tokenizer, counted)
    text = "the words € of a text 漢字 " * 100 if name == "byte_level" else "a bc def " * 300
    ids = tokenizer.encode(text, add_special_tokens=False)
    offsets.read(ids)
    assert decoded < 20 * len(ids), "decoding prefixes would take len(ids) / 2 times the length"
    decoded = 0
    offsets.read(ids)
    assert decoded < 12 * len(ids)
