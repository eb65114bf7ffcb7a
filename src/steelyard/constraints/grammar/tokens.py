"""Imports the grammar engine and converts tokenizers for it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

from steelyard.constraints.base import pack
from steelyard.errors import ConstraintError, MissingExtraError

if TYPE_CHECKING:
    from llguidance import LLTokenizer


def import_engine() -> Any:
    try:
        import llguidance
    except ImportError:
        raise MissingExtraError("text grammars", "grammars") from None
    return llguidance


class TokenTable:
    """A tokenizer in the engine's format. Building one takes about a second for a real vocabulary, so share it."""

    def __init__(self, tokenizer: object, *, end_id: int, vocabulary: int) -> None:
        """``tokenizer`` is a fast Hugging Face tokenizer, or the bytes of each token (None for special tokens) for
        greedy tokenization.
        """
        if not 0 <= end_id < vocabulary:
            raise ConstraintError(
                f"end_id = {end_id} is not in the vocabulary of {vocabulary} tokens; pass the id of one of them"
            )
        self.end_id = end_id
        self.vocabulary = vocabulary
        self._tokenizer = tokenizer
        self.engine, special = _engine_tokenizer(tokenizer, end_id)
        known = self.engine.vocab_size
        if known > vocabulary:
            raise ConstraintError(
                f"the tokenizer has {known} tokens, but the model's vocabulary has only {vocabulary}; use the "
                "model's own tokenizer"
            )
        excluded = special | {end_id}
        plain = [token for token in range(known) if token not in excluded and not self.engine.is_special_token(token)]
        self.plain = pack(plain, vocabulary)
        """Tokens that represent text."""

    def __reduce__(self) -> tuple[partial[Self], tuple[object]]:
        """Rebuild the engine's tokenizer in every copy, because it can be neither copied nor pickled."""
        return partial(type(self), end_id=self.end_id, vocabulary=self.vocabulary), (self._tokenizer,)

    def encode(self, text: str) -> list[int]:
        """Return the tokenizer's own tokens for the text."""
        return self.engine.tokenize_str(text)


class _HasBackend(Protocol):
    """The part of the fast Hugging Face tokenizer interface used here."""

    backend_tokenizer: Any
    all_special_ids: Sequence[int]


class _ByteVocabulary:
    """A closed vocabulary for the engine, with greedy longest-match tokenization."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes | None], end_id: int) -> None:
        self.eos_token_id = end_id
        self.special_token_ids = [token for token, text in enumerate(tokens) if not text or token == end_id]
        self.tokens = [
            b"" if token in set(self.special_token_ids) else text or b"" for token, text in enumerate(tokens)
        ]
        self.numbers = {text: token for token, text in reversed(list(enumerate(self.tokens))) if text}
        self.longest = max(map(len, self.numbers), default=0)

    def __call__(self, text: bytes) -> list[int]:
        """Tokenize text up to the first byte without a matching token."""
        found: list[int] = []
        while text:
            sizes = range(min(self.longest, len(text)), 0, -1)
            size = next((size for size in sizes if text[:size] in self.numbers), None)
            if size is None:
                break
            found.append(self.numbers[text[:size]])
            text = text[size:]
        return found


def _engine_tokenizer(tokenizer: object, end_id: int) -> tuple[LLTokenizer, set[int]]:
    """Return the engine's tokenizer and the ids of special tokens."""
    engine = import_engine()
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, str):
        table = _ByteVocabulary(cast("Sequence[bytes | None]", tokenizer), end_id)
        return engine.LLTokenizer(engine.TokenizerWrapper(table)), set(table.special_token_ids)
    backend = cast("_HasBackend", tokenizer).backend_tokenizer if hasattr(tokenizer, "backend_tokenizer") else tokenizer
    if not hasattr(backend, "to_str"):
        raise ConstraintError(
            f"text grammars need a fast Hugging Face tokenizer or the bytes of each token, "
            f"not {type(tokenizer).__name__}"
        )
    backend = copy(cast("Any", backend))
    backend.no_padding()
    backend.no_truncation()
    special = {int(token) for token in getattr(tokenizer, "all_special_ids", ())}
    return engine.LLTokenizer(backend.to_str(), eos_token=end_id), special
