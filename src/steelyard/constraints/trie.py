"""Applies character automata to any tokenizer; a token is allowed if the automaton accepts all its characters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, cast

import numpy as np
from numpy.typing import NDArray

from steelyard.constraints.automaton import Automaton, AutomatonConstraint, State
from steelyard.errors import ConstraintError


class TokenTrie:
    """The tokens of a vocabulary as a tree of characters, in plain arrays; read-only after construction.

    The tree omits tokens that are not text (special, unused, empty, or part of a UTF-8 character).
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self.text: list[str] = [_text(token) for token in tokens]
        """Text of each token; empty for omitted tokens."""
        self.single: dict[str, int] = {}
        """Characters that are tokens themselves, with their codes in the tree."""
        codes: dict[str, int] = {}
        parents, characters = [-1], [-1]
        children: dict[tuple[int, int], int] = {}
        node_of_token: list[int] = []
        for text in self.text:
            node = 0
            for character in text:
                code = codes.setdefault(character, len(codes))
                child = children.setdefault((node, code), len(parents))
                if child == len(parents):
                    parents.append(node)
                    characters.append(code)
                node = child
            node_of_token.append(node)
            if len(text) == 1:
                self.single[text] = codes[text]
        self.longest = max(map(len, self.text), default=0)
        self.characters = len(codes)
        self._node_of_token_V = np.asarray(node_of_token, np.int64)
        self._code_of_node = np.asarray(characters, np.int64)
        # The children of node i are child[first_child[i] : first_child[i + 1]].
        parent_of_node = np.asarray(parents, np.int64)
        self._child = np.argsort(parent_of_node, kind="stable")
        self._first_child = np.searchsorted(parent_of_node[self._child], np.arange(len(parents) + 1))

    def __len__(self) -> int:
        return len(self.text)

    def reach(
        self, start: State, moves: Callable[[State], Mapping[str, State]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], list[State]]:
        """Return the tokens that the automaton accepts from a state, the index of each token's final state, and the
        final states. The tree is processed level by level, all live nodes together.
        """
        table = _Transitions(self, moves, [start], {start: 0})
        state_of_node = np.full(len(self._code_of_node), -1)
        node_K = state_K = np.zeros(1, np.int64)
        while True:
            first_K = self._first_child[node_K]
            width_K = self._first_child[node_K + 1] - first_K
            offset_K = first_K - (np.cumsum(width_K) - width_K)
            child_C = self._child[np.repeat(offset_K, width_K) + np.arange(width_K.sum())]
            if not len(child_C):
                break
            state_C = table.follow(np.repeat(state_K, width_K), self._code_of_node[child_C])
            alive_C = state_C >= 0
            node_K, state_K = child_C[alive_C], state_C[alive_C]
            state_of_node[node_K] = state_K
        state_of_token_V = state_of_node[self._node_of_token_V]  # omitted tokens map to the root, which has no state
        token_N = np.flatnonzero(state_of_token_V >= 0)
        used, which_N = _renumber(state_of_token_V[token_N])
        return token_N, which_N, [table.states[number] for number in used]


@dataclass(slots=True)
class _Transitions(Generic[State]):
    """The moves found during a traversal of the tree, with numbered states and characters."""

    trie: TokenTrie
    moves: Callable[[State], Mapping[str, State]]
    states: list[State]
    numbers: dict[State, int]
    rows: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = field(
        default_factory=dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]
    )

    def follow(self, state_C: NDArray[np.int64], code_C: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the state after each character, or -1 if the character is not allowed."""
        present, row_C = _renumber(state_C)
        rows = [self._row(number) for number in present]
        codes = np.unique(np.concatenate([codes for codes, _ in rows]))
        column_of_code = np.full(self.trie.characters, len(codes))  # the last column is for all other characters
        column_of_code[codes] = np.arange(len(codes))
        next_SA = np.full((len(rows), len(codes) + 1), -1)
        for index, (row_codes, row_next) in enumerate(rows):
            next_SA[index, column_of_code[row_codes]] = row_next
        return next_SA[row_C, column_of_code[code_C]]

    def _row(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        row = self.rows.get(number)
        if row is None:
            codes: list[int] = []
            following: list[int] = []
            for character, state in self.moves(self.states[number]).items():
                codes.append(_code(self.trie, character))
                following.append(self._number(state))
            row = self.rows[number] = np.asarray(codes, np.int64), np.asarray(following, np.int64)
        return row

    def _number(self, state: State) -> int:
        number = self.numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number


class CharacterConstraint(AutomatonConstraint[State]):
    """Applies an automaton over characters to any tokenizer; every tokenization of the text is allowed.

    Every character of the automaton must also be a token, so that any text can be completed with one token per
    character. Budgets assume this worst case. Several constraints may share one :class:`TokenTrie`.
    """

    def __init__(
        self,
        automaton: Automaton[State],
        tokens: Sequence[bytes | None] | TokenTrie,
        end_id: int,
        *,
        remembered: int = 512,
    ) -> None:
        """``tokens`` lists the bytes of each token, None for special and unused ids (see :func:`token_bytes`)."""
        self.trie = tokens if isinstance(tokens, TokenTrie) else TokenTrie(tokens)
        longest = self.trie.longest
        super().__init__(automaton, end_id=end_id, vocabulary=len(self.trie), longest=longest, remembered=remembered)
        for character in automaton.alphabet():
            _code(self.trie, character)

    def step(self, state: State, token: int) -> State | None:
        text = self.trie.text[token] if 0 <= token < self.vocabulary else ""
        reached: State | None = state if text else None
        for character in text:
            reached = self.moves(state).get(character)
            if reached is None:
                break
            state = reached
        return reached

    def describe(self, token: int) -> str:
        text = self.trie.text[token] if 0 <= token < self.vocabulary else ""
        return f"token {token} ({text!r})"

    def _reach(self, state: State) -> tuple[NDArray[np.int64], NDArray[np.int64], Sequence[State]]:
        token_N, which_N, states = self.trie.reach(state, self.moves)
        other_N = token_N != self.end_id  # the end token ends the sample, even if it has text
        return token_N[other_N], which_N[other_N], states


def token_bytes(tokenizer: Any, vocabulary: int) -> list[bytes | None]:
    """Return the bytes of each of a model's ``vocabulary`` tokens, for a fast Hugging Face tokenizer.

    Supports byte-level vocabularies (GPT-2's alphabet), sentencepiece (``▁``, ``<0xNN>``), and vocabularies whose
    tokens are simply concatenated. Special tokens, the unknown token and unused ids are None. Sentencepiece decoders
    strip a leading space, so samples should not start with one.
    """
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(backend, "to_str"):
        raise ConstraintError(f"{type(tokenizer).__name__} is not a fast Hugging Face tokenizer; use one that is")
    content: dict[str, Any] = json.loads(backend.to_str())
    model: dict[str, Any] = content["model"]
    write = _writer(model, content.get("decoder"))
    unknown: Any = model.get("unk_token")
    if model["type"] == "Unigram":
        scored = cast("list[tuple[str, float]]", model["vocab"])
        number_of = {piece: number for number, (piece, _) in enumerate(scored)}
        unknown_id: int | None = model.get("unk_id")
        unknown = None if unknown_id is None else scored[unknown_id][0]
    else:
        number_of = cast("dict[str, int]", model["vocab"])
    written = {number: None if piece == unknown else write(piece) for piece, number in number_of.items()}
    for added in cast("list[dict[str, Any]]", content.get("added_tokens") or []):
        literal = not added["special"] and added["content"] != unknown
        written[added["id"]] = added["content"].encode() if literal else None
    return [written.get(number) for number in range(vocabulary)]


def _writer(model: Mapping[str, Any], decoder: Mapping[str, Any] | None) -> Callable[[str], bytes]:
    """Return a function that maps a vocabulary entry to its bytes, according to the tokenizer's decoder."""
    stages: list[Mapping[str, Any]] = [] if decoder is None else decoder.get("decoders", [decoder])
    kinds = [stage["type"] for stage in stages]
    affixes = model.get("end_of_word_suffix") or model.get("continuing_subword_prefix")
    if not kinds or affixes or not set(kinds) <= {"ByteLevel", "Replace", "Metaspace", "ByteFallback", "Fuse", "Strip"}:
        raise ConstraintError(
            f"a tokenizer with {model['type']} pieces and {' + '.join(kinds) or 'no'} decoder inserts text between "
            "tokens, so they are not sequences of characters; use WordConstraint, with one token per word"
        )
    if "ByteLevel" in kinds:
        return _from_byte_alphabet
    replacements: list[tuple[str, str]] = []
    for stage in stages:
        if stage["type"] == "Metaspace":
            replacements.append((stage["replacement"], " "))
        elif stage["type"] == "Replace":
            if "String" not in stage["pattern"]:
                raise ConstraintError(
                    f"the tokenizer's decoder replaces {stage['pattern']}, which cannot be done token by token; "
                    "pass the bytes of its tokens to CharacterConstraint(tokens=...)"
                )
            replacements.append((stage["pattern"]["String"], stage["content"]))
    byte_fallback = "ByteFallback" in kinds

    def write(piece: str) -> bytes:
        if byte_fallback and (byte := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", piece)):
            return bytes([int(byte[1], 16)])
        for old, new in replacements:
            piece = piece.replace(old, new)
        return piece.encode()

    return write


def _byte_alphabet() -> dict[str, int]:
    """Return GPT-2's byte-to-character map: printable bytes map to themselves, others to U+0100 onwards."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _from_byte_alphabet(piece: str) -> bytes:
    try:
        return bytes([_BYTE_OF[letter] for letter in piece])
    except KeyError:
        return piece.encode()  # as the tokenizer does for pieces outside the alphabet


def _text(token: bytes | None) -> str:
    try:
        return (token or b"").decode()
    except UnicodeDecodeError:
        return ""


def _renumber(number_N: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct numbers in ascending order and the index of each number among them."""
    used = np.bincount(number_N) > 0
    return np.flatnonzero(used).tolist(), (np.cumsum(used) - 1)[number_N]


def _code(trie: TokenTrie, character: str) -> int:
    code = trie.single.get(character)
    if code is None:
        if len(character) != 1:
            raise ConstraintError(f"{character!r} is not a single character; use one character per move")
        raise ConstraintError(
            f"the character {character!r} is not a token, so it could not be generated when forced; "
            "remove it from moves, or use another tokenizer"
        )
    return code
