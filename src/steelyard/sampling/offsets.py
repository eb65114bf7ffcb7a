"""Finds the offset in the text at which each token of a completion starts.

A token starts where the decoded text of all earlier tokens ends. Decoding every prefix would take quadratic time.
Almost every token adds the same number of characters after any other token, so that number is cached. A token that
contains part of a character or depends on its neighbours is decoded together with the few tokens before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steelyard.types import IntArray

CONTEXT = 8
"""Number of preceding tokens to decode with a token. A UTF-8 character spans at most 4 bytes and so 4 tokens."""
INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
"""Appears in decoded text in place of bytes that are not (yet) a complete character."""


class TextOffsets:
    """Decodes completions with one tokenizer and caches token lengths across samples."""

    def __init__(self, tokenizer: Any, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        id_of: dict[str, int] = tokenizer.get_vocab()
        self._bytes = frozenset(id_of[name] for byte in range(256) if (name := f"<0x{byte:02X}>") in id_of)
        """Byte tokens (sentencepiece). A run of byte tokens is decoded as text only if the complete run is valid."""
        self._added: dict[int, int | None] = {}
        """Number of characters that a token adds after another token, or None if that depends on its neighbours."""
        self._neighbour: int | None = None

    def read(self, ids: Sequence[int]) -> tuple[str, IntArray]:
        """Return the text of a completion and the offset at which each token starts."""
        text, context = self._decode(ids), CONTEXT
        added = self._added_characters(ids)
        while sum(added) != len(text):  # the tokenizer needs more context, up to the whole text
            added = [self._added_in_context(ids, place, context) for place in range(len(ids))]
            context *= 2
        return text, np.cumsum([0, *added])[:-1].astype(np.int32)

    def _added_characters(self, ids: Sequence[int]) -> list[int]:
        added: list[int] = []
        after_text = False
        for place, token in enumerate(ids):
            length = self._look_up(token) if after_text else None
            added.append(self._added_in_context(ids, place, CONTEXT) if length is None else length)
            after_text = after_text or added[-1] > 0
        return added

    def _look_up(self, token: int) -> int | None:
        if token not in self._added:
            if self._neighbour is None and not self._is_plain(self._decode([token])):
                return None
            self._neighbour = token if self._neighbour is None else self._neighbour
            alone, both = self._decode([self._neighbour]), self._decode([self._neighbour, token])
            plain = both.startswith(alone) and INCOMPLETE not in both
            self._added[token] = len(both) - len(alone) if plain else None
        return self._added[token]

    def _added_in_context(self, ids: Sequence[int], place: int, context: int) -> int:
        start = max(0, place - context)
        while start and ids[start] in self._bytes:
            start -= 1
        before = len(self._decode(ids[start:place])) if start < place else 0
        return len(self._decode(ids[start : place + 1])) - before

    @staticmethod
    def _is_plain(text: str) -> bool:
        return bool(text.strip()) and INCOMPLETE not in text
