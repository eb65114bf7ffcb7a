r"""Text grammars over a model's vocabulary: JSON schemas, regular expressions, Lark grammars and lists of choices.

The engine is llguidance (docs/dependencies.md says why); this is the only file that imports it.

What a grammar means here:

- JSON is written compactly, ``{"a":1,"b":[2,3]}``: no white space, keys in the order of the schema, control characters
  only as the short escapes. A keyword that the engine would pass over is refused.
- A regular expression is for the whole sample, in Rust's syntax (no look-around, no back-references), with ASCII
  ``\d``, ``\w`` and ``\s``.
- A Lark grammar is in llguidance's dialect, from the rule ``start``.
- The only special token that is ever allowed is the end token, and only where a sentence is whole.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from steelyard.constraints import bounds
from steelyard.constraints.base import Bits, count, members, pack
from steelyard.errors import ConstraintError, MissingExtraError
from steelyard.types import Task

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

log = logging.getLogger(__name__)

Kind = Literal["json_schema", "regex", "lark", "choices"]
KINDS: tuple[Kind, ...] = ("json_schema", "regex", "lark", "choices")
COMPILED_AT_ONCE = 256
"""How many compiled grammars are kept when each task has its own."""


@dataclass(frozen=True)
class PerTask:
    """A source that each task brings along: ``task.spec[column]``."""

    column: str

    def __call__(self, task: Task) -> object:
        if self.column not in task.spec:
            known = ", ".join(map(repr, task.spec)) or "nothing"
            raise ConstraintError(f"task {task.id}: no grammar in column {self.column!r}; its spec has {known}")
        return task.spec[self.column]


Source = str | Mapping[str, Any] | Sequence[str] | Callable[[Task], object]


HINTS: dict[Kind, str] = {
    "json_schema": "oneOf works only for parts that exclude one another (else say anyOf), $ref only inside the schema",
    "regex": "the syntax is Rust's: no look-around, no back-references, \\z for \\Z",
    "lark": "see docs/syntax.md of llguidance for its dialect",
    "choices": "choices are texts",
}


class TokenTable:
    """A tokenizer as the engine needs it. Building one takes a second for a real vocabulary, so it can be shared."""

    def __init__(self, tokenizer: object, *, end_id: int, vocabulary: int) -> None:
        """``tokenizer``: a fast Hugging Face one, or the bytes of each token (None: special), cut greedily then."""
        if not 0 <= end_id < vocabulary:
            raise ConstraintError(f"the end token {end_id} is not in a vocabulary of {vocabulary}")
        self.end_id = end_id
        self.vocabulary = vocabulary
        self.engine, special = _engine_tokenizer(tokenizer, end_id)
        known = self.engine.vocab_size
        if known > vocabulary:
            raise ConstraintError(f"the tokenizer has {known} tokens, the model's vocabulary only {vocabulary}")
        barred = special | {end_id}
        plain = [token for token in range(known) if token not in barred and not self.engine.is_special_token(token)]
        self.plain = pack(plain, vocabulary)
        """The tokens that stand for text."""

    def encode(self, text: str) -> list[int]:
        """The tokenizer's own tokens for a text."""
        return self.engine.tokenize_str(text)


class GrammarWalk:
    """A grammar followed along one sample.

    Where the characters to come are certain, canonical runs take the tokenizer's own tokens for them. The run is found
    when its beginning is reached and then followed to its end, so it depends on the tokens so far and on nothing else:
    the engine, asked in the middle of a run, might cut the rest in another way.
    """

    __slots__ = ("_bits", "_canonical", "_ended", "_matcher", "_run", "_table")

    def __init__(self, table: TokenTable, matcher: LLMatcher, canonical: bool) -> None:
        self._table = table
        self._matcher = matcher
        self._canonical = canonical
        self._bits: Bits | None = None
        self._run: tuple[int, ...] = ()
        self._ended = False
        self._look_ahead()

    def allowed(self, left: int) -> Bits:
        """What masking gives; with room for one token more, only the end where the sample may end."""
        if self._bits is None:
            self._bits = self._mask()
        if left <= 1 and _has(self._bits, self._table.end_id):
            return pack([self._table.end_id], self._table.vocabulary)
        return self._bits

    def forced(self, left: int) -> Sequence[int]:
        if left < 1 or self._ended:
            return ()
        if self._run:
            return self._run[:left]
        bits = self.allowed(left)
        return (int(members(bits)[0]),) if count(bits) == 1 else ()

    def advance(self, token: int) -> None:
        if self._ended:
            raise ConstraintError(f"token {token} comes after the end of the sample")
        if token == self._table.end_id:
            if not self.may_end():
                raise ConstraintError("the end token comes before the sentence is whole")
            self._ended, self._bits = True, None
            return
        if self._run and token != self._run[0]:
            raise ConstraintError(f"token {token} is not allowed: {self._run[0]} of a canonical run comes next")
        if not _has(self._table.plain, token) or self._matcher.try_consume_tokens([token]) != 1:
            _check(self._matcher)
            raise ConstraintError(f"token {token} is not allowed by the grammar here")
        self._bits = None
        self._run = self._run[1:]
        if not self._run:
            self._look_ahead()

    def may_end(self) -> bool:
        return not self._ended and not self._run and self._matcher.is_accepting()

    def shortest_end(self) -> int | None:
        """1 where the sample may end, else not known."""
        return 1 if self.may_end() else None

    def copy(self) -> GrammarWalk:
        other = copy(self)
        other._matcher = self._matcher.deep_copy()
        return other

    def _look_ahead(self) -> None:
        if not self._canonical:
            return
        run = self._matcher.compute_ff_tokens()
        _check(self._matcher)
        special = next((place for place, token in enumerate(run) if not _has(self._table.plain, token)), len(run))
        self._run = tuple(run[:special])

    def _mask(self) -> Bits:
        if self._ended:
            return np.zeros_like(self._table.plain)
        if self._run:
            return pack(self._run[:1], self._table.vocabulary)
        may_end = self._matcher.is_accepting()
        bits = np.zeros_like(self._table.plain)
        raw = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)[: len(bits)]
        if self._matcher.is_error():
            if not self._matcher.get_error().startswith("NoExtension"):
                _check(self._matcher)
            return bits  # no token fits what must come: a dead end
        np.bitwise_and(raw, self._table.plain[: len(raw)], out=bits[: len(raw)])
        if may_end:
            bits[self._table.end_id // 8] |= 1 << self._table.end_id % 8
        return bits


@dataclass(frozen=True)
class Compiled:
    """A grammar ready to be followed."""

    first: GrammarWalk
    source: object
    unbounded_because: str


class GrammarConstraint:
    """Samples are sentences of a grammar. ``max_tokens`` is what fits into a sample, the end token included.

    With ``max_tokens``, a grammar that leaves lengths open is bounded so that no sample can be cut off: ``bounded``
    says whether that worked, ``unbounded_because`` why not. Counted is a token for each byte, the worst case.
    """

    def __init__(
        self,
        kind: Kind,
        source: Source,
        tokenizer: object,
        *,
        end_id: int,
        vocabulary: int,
        canonical_runs: bool = True,
        max_tokens: int | None = None,
    ) -> None:
        """``tokenizer`` may be a :class:`TokenTable` already, to share it between constraints."""
        if kind not in KINDS:
            raise ConstraintError(f"{kind!r} is no kind of grammar; known: {', '.join(KINDS)}")
        _import_engine()
        self.kind: Kind = kind
        self.max_tokens = max_tokens
        self._canonical_runs = canonical_runs
        if not isinstance(tokenizer, TokenTable):
            tokenizer = TokenTable(tokenizer, end_id=end_id, vocabulary=vocabulary)
        if (tokenizer.end_id, tokenizer.vocabulary) != (end_id, vocabulary):
            raise ConstraintError(
                f"the token table is for end token {tokenizer.end_id} and {tokenizer.vocabulary} tokens, "
                f"not for {end_id} and {vocabulary}"
            )
        self.table = tokenizer
        self._source = source
        self._cache: OrderedDict[str, Compiled] = OrderedDict()
        self._warned: set[str] = set()
        self._fixed = None if callable(source) else self._compiled(source)

    @property
    def vocabulary(self) -> int:
        return self.table.vocabulary

    @property
    def canonical_runs(self) -> bool:
        return self._canonical_runs

    @property
    def bounded(self) -> bool:
        """Whether every sentence fits into ``max_tokens``, so that no sample can be cut off."""
        return not self.unbounded_because

    @property
    def unbounded_because(self) -> str:
        """Why a sample may be cut off; empty if none can be."""
        if self._fixed is None:
            return "each task has a grammar of its own"
        return self._fixed.unbounded_because

    def why_unbounded(self, task: Task) -> str:
        """``unbounded_because`` for the grammar of this task."""
        return self._of(task).unbounded_because

    def begin(self, task: Task) -> GrammarWalk:
        return self._of(task).first.copy()

    def check_budget(self, task: Task, tokens: int) -> None:
        """Compare the shortest sentence, in the tokenizer's own tokens and with the end token, to the budget."""
        source = self._of(task).source
        try:
            sentence = self._shortest(source)
        except bounds.CannotTell as reason:
            self._warn(f"whether a sentence fits into {tokens} tokens is not known: {reason}")
            return
        if sentence is None:
            raise ConstraintError(f"the grammar has no finite sentence: {_excerpt(source)}")
        needed = len(self.table.encode(sentence)) + 1
        if needed > tokens:
            raise ConstraintError(
                f"task {task.id}: the shortest sentence of the grammar, {_excerpt(sentence)}, takes {needed} tokens "
                f"with the end token, but a sample has {tokens}: raise sampling.max_new_tokens"
            )

    def _of(self, task: Task) -> Compiled:
        if self._fixed is not None:
            return self._fixed
        source = cast("Callable[[Task], object]", self._source)(task)
        try:
            return self._compiled(source)
        except ConstraintError as error:
            raise ConstraintError(f"task {task.id}: {error}") from error

    def _compiled(self, source: object) -> Compiled:
        source = _parsed(self.kind, source)
        key = json.dumps(source)
        if key not in self._cache:
            self._cache[key] = self._compile(source)
            if len(self._cache) > COMPILED_AT_ONCE:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def _compile(self, source: Any) -> Compiled:
        free = self._walk(_free_text(self.kind, source), source)
        if self.max_tokens is None:
            return Compiled(free, source, "no max_tokens is set")
        try:
            return Compiled(self._bounded_walk(source, free, self.max_tokens - 1), source, "")
        except (bounds.CannotTell, ConstraintError) as reason:
            return Compiled(free, source, str(reason))

    def _bounded_walk(self, source: Any, free: GrammarWalk, most: int) -> GrammarWalk:
        """A walk of which every sentence has at most ``most`` bytes; ``CannotTell`` why not."""
        if self.kind == "json_schema":
            return self._walk(_json_text(bounds.json_schema.bound(source, most)), source)
        if self.kind == "choices":
            size = max(len(choice.encode()) for choice in source)
            if size > most:
                raise bounds.CannotTell(f"the longest choice has {size} bytes, but {most} fit")
            return free
        if self.kind == "regex":
            walk = self._follow(_regex_text(source, most))
            if not walk.forced(2) and not count(walk.allowed(2)):
                raise bounds.CannotTell(f"the pattern matches nothing of at most {most} bytes")
            return walk
        raise bounds.CannotTell("a Lark grammar is not bounded")

    def _walk(self, text: str, source: object) -> GrammarWalk:
        try:
            walk = self._follow(text)
            dead = not walk.forced(2) and not count(walk.allowed(2))
        except ConstraintError as error:
            said = str(error) if self.kind == "lark" else str(error).partition("\n   1 |")[0]
            raise ConstraintError(
                f"{self.kind} {_excerpt(source)} cannot be sampled from: {said} ({HINTS[self.kind]})"
            ) from None
        if dead:
            raise ConstraintError(f"{self.kind} {_excerpt(source)}: no token of this vocabulary can begin a sentence")
        return walk

    def _follow(self, text: str) -> GrammarWalk:
        """The walk along a grammar in the engine's Lark dialect."""
        engine = _import_engine()
        if not self.canonical_runs:
            text = '%llguidance {"no_forcing": true}\n' + text
        matcher: LLMatcher = engine.LLMatcher(self.table.engine, engine.LLMatcher.grammar_from_lark(text), log_level=0)
        _check(matcher)
        return GrammarWalk(self.table, matcher, self.canonical_runs)

    def _shortest(self, source: Any) -> str | None:
        if self.kind == "json_schema":
            return bounds.json_schema.shortest(source)
        if self.kind == "regex":
            return bounds.regex.shortest(source)
        if self.kind == "lark":
            return bounds.lark.shortest(source)
        return min(source, key=lambda choice: len(self.table.encode(choice)))

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            log.warning("grammar: %s", message)


def _parsed(kind: Kind, source: object) -> object:
    """The source as plain data, refused where it is nothing of its kind."""
    if kind == "json_schema":
        if isinstance(source, str):
            try:
                source = json.loads(source)
            except ValueError as error:
                raise ConstraintError(f"the JSON schema is no JSON: {error}") from None
        return bounds.json_schema.check(source)
    if kind == "choices":
        if isinstance(source, str) or not isinstance(source, Sequence):
            raise ConstraintError(f"choices are a list of texts, not {source!r}")
        choices = list(cast("Sequence[object]", source))
        if not choices or not all(isinstance(choice, str) for choice in choices):
            raise ConstraintError(f"choices are a list of at least one text, not {source!r}")
        return choices
    if not isinstance(source, str):
        raise ConstraintError(f"a {kind} grammar is a text, not {source!r}")
    if kind == "lark":
        _refuse_special_tokens(source)
    return source


def _refuse_special_tokens(grammar: str) -> None:
    try:
        special = bounds.lark.special_tokens(grammar)
    except bounds.CannotTell:
        return
    if special:
        raise ConstraintError(f"special tokens in a grammar ({', '.join(special)}) are never sampled; write text")


def _free_text(kind: Kind, source: Any) -> str:
    """The grammar in the engine's Lark dialect, without bounds."""
    if kind == "json_schema":
        return _json_text(source)
    if kind == "regex":
        return _regex_text(source, None)
    if kind == "choices":
        return "start: CHOICE\nCHOICE: " + " | ".join(map(_lark_string, source))
    return source


def _lark_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _json_text(schema: Mapping[str, Any]) -> str:
    settings = {
        "whitespace_flexible": False,
        "item_separator": ",",
        "key_separator": ":",
        "coerce_one_of": False,
        "lenient": False,
        "json_allowed_escapes": bounds.json_schema.ESCAPES,
    }
    return "start: %json " + json.dumps({**schema, "x-guidance": settings})


def _regex_text(pattern: str, most: int | None) -> str:
    """The pattern, and if ``most`` is given what it has in common with all texts of at most so many bytes."""
    written = _import_engine().regex_to_lark(pattern, "dws")
    if most is None:
        return f"start: /{written}/"
    return (
        '%llguidance {"allow_invalid_utf8": true}\n'  # so that the bytes of a text can be counted
        f"start: TEXT\nTEXT: /(?u:{written})/ & /(?s-u:.){{0,{most}}}/"
    )


def _has(bits: Bits, token: int) -> bool:
    return 0 <= token < 8 * len(bits) and bool(bits[token // 8] >> token % 8 & 1)


def _check(matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise ConstraintError(matcher.get_error().partition("\n<state>")[0].strip())


def _excerpt(source: object, length: int = 120) -> str:
    text = source if isinstance(source, str) else json.dumps(source, ensure_ascii=False)
    return repr(text if len(text) <= length else text[:length] + "…")


def _import_engine() -> Any:
    try:
        import llguidance
    except ImportError:
        raise MissingExtraError("text grammars", "grammars") from None
    return llguidance


class _HasBackend(Protocol):
    """A fast tokenizer of Hugging Face, as far as it is used."""

    backend_tokenizer: Any
    all_special_ids: Sequence[int]


class _Bytes:
    """A closed vocabulary for the engine: the longest token that fits is taken at each place."""

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
        """Tokens of a text as far as there are any."""
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
    """The engine's tokenizer, and the tokens known to be special."""
    engine = _import_engine()
    if isinstance(tokenizer, Sequence) and not isinstance(tokenizer, str):
        table = _Bytes(cast("Sequence[bytes | None]", tokenizer), end_id)
        return engine.LLTokenizer(engine.TokenizerWrapper(table)), set(table.special_token_ids)
    backend = cast("_HasBackend", tokenizer).backend_tokenizer if hasattr(tokenizer, "backend_tokenizer") else tokenizer
    if not hasattr(backend, "to_str"):
        raise ConstraintError(
            f"text grammars need a fast Hugging Face tokenizer or each token's bytes, not {type(tokenizer).__name__}"
        )
    backend = copy(cast("Any", backend))
    backend.no_padding()
    backend.no_truncation()
    special = {int(token) for token in getattr(tokenizer, "all_special_ids", ())}
    return engine.LLTokenizer(backend.to_str(), eos_token=end_id), special
