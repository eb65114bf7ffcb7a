"""Constrains samples to the sentences of a grammar, with bounded length."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from steelyard.constraints import bounds
from steelyard.constraints.base import count
from steelyard.constraints.grammar.sources import (
    HINTS,
    KINDS,
    Kind,
    excerpt,
    json_text,
    parsed,
    regex_text,
    unbounded_text,
)
from steelyard.constraints.grammar.tokens import TokenTable, import_engine
from steelyard.constraints.grammar.walk import GrammarWalk, check
from steelyard.errors import ConstraintError
from steelyard.types import Task

if TYPE_CHECKING:
    from llguidance import LLMatcher

log = logging.getLogger(__name__)

MAX_CACHED_GRAMMARS = 256
"""Number of compiled grammars to cache when each task has its own grammar."""


@dataclass(frozen=True)
class PerTask:
    """Takes the grammar of each task from ``task.spec[column]``."""

    column: str

    def __call__(self, task: Task) -> object:
        if self.column not in task.spec:
            known = ", ".join(map(repr, task.spec)) or "nothing"
            raise ConstraintError(f"task {task.id}: no grammar in column {self.column!r}; its spec has {known}")
        return task.spec[self.column]


Source = str | Mapping[str, Any] | Sequence[str] | Callable[[Task], object]


@dataclass(frozen=True)
class Compiled:
    """A compiled grammar."""

    first: GrammarWalk
    source: object
    unbounded_because: str


class GrammarConstraint:
    """Constrains samples to sentences of a grammar. ``max_tokens`` is the sample's budget, including the end token.

    With ``max_tokens``, open-ended lengths in the grammar are bounded so that no sample can be truncated. ``bounded``
    says whether that succeeded; if not, ``unbounded_because`` gives the reason. Lengths assume the worst case of one
    token per byte.
    """

    def __init__(
        self,
        kind: Kind,
        source: Source,
        tokenizer: object,
        *,
        end_id: int,
        vocabulary: int,
        canonical_tokens: bool = True,
        max_tokens: int | None = None,
    ) -> None:
        """``tokenizer`` may be a :class:`TokenTable` shared between constraints."""
        if kind not in KINDS:
            raise ConstraintError(f"kind = {kind!r} is unknown; choose one of {', '.join(KINDS)}")
        import_engine()
        self.kind: Kind = kind
        self.max_tokens = max_tokens
        self._canonical_runs = canonical_tokens
        if not isinstance(tokenizer, TokenTable):
            tokenizer = TokenTable(tokenizer, end_id=end_id, vocabulary=vocabulary)
        if (tokenizer.end_id, tokenizer.vocabulary) != (end_id, vocabulary):
            raise ConstraintError(
                f"the token table is for end token {tokenizer.end_id} and {tokenizer.vocabulary} tokens, "
                f"not for {end_id} and {vocabulary}; build one for this model"
            )
        self.table = tokenizer
        self._source = source
        self._cache: OrderedDict[str, Compiled] = OrderedDict()
        self._warned: set[str] = set()
        self._fixed = None if callable(source) else self._compiled(source)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickle the source: the receiver compiles it again and rebuilds its :class:`TokenTable`."""
        settings = {"canonical_tokens": self.canonical_tokens, "max_tokens": self.max_tokens}
        build = partial(type(self), end_id=self.table.end_id, vocabulary=self.vocabulary, **settings)
        return build, (self.kind, self._source, self.table)

    @property
    def vocabulary(self) -> int:
        return self.table.vocabulary

    @property
    def canonical_tokens(self) -> bool:
        return self._canonical_runs

    @property
    def bounded(self) -> bool:
        """Whether every sentence fits in ``max_tokens``, so that no sample can be truncated."""
        return not self.unbounded_because

    @property
    def unbounded_because(self) -> str:
        """Why a sample may be truncated; empty if that is impossible."""
        if self._fixed is None:
            return "each task has its own grammar"
        return self._fixed.unbounded_because

    def why_unbounded(self, task: Task) -> str:
        """Return ``unbounded_because`` for the grammar of this task."""
        return self._of(task).unbounded_because

    def begin(self, task: Task) -> GrammarWalk:
        return self._of(task).first.copy()

    def check_budget(self, task: Task, tokens: int) -> None:
        """Compare the shortest sentence, in the tokenizer's own tokens plus the end token, with the budget."""
        source = self._of(task).source
        try:
            sentence = self._shortest(source)
        except bounds.TooLong as reason:
            raise ConstraintError(
                f"task {task.id}: no sample can be long enough for {excerpt(source)} ({reason}); simplify the grammar"
            ) from None
        except bounds.LengthUnknown as reason:
            self._warn(f"cannot check whether a sentence fits in {tokens} tokens: {reason}")
            return
        if sentence is None:
            raise ConstraintError(
                f"no sentence of the grammar is short enough for a sample; simplify {excerpt(source)}"
            )
        needed = len(self.table.encode(sentence)) + 1
        if needed > tokens:
            raise ConstraintError(
                f"task {task.id}: the shortest sentence of the grammar, {excerpt(sentence)}, takes {needed} tokens "
                f"including the end token, more than the limit of {tokens}; raise sampling.max_new_tokens"
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
        source = parsed(self.kind, source)
        key = json.dumps(source)
        if key not in self._cache:
            self._cache[key] = self._compile(source)
            if len(self._cache) > MAX_CACHED_GRAMMARS:
                self._cache.popitem(last=False)
        self._cache.move_to_end(key)
        return self._cache[key]

    def _compile(self, source: Any) -> Compiled:
        free = self._walk(unbounded_text(self.kind, source), source)
        if self.max_tokens is None:
            return Compiled(free, source, "no max_tokens is set")
        try:
            return Compiled(self._bounded_walk(source, free, self.max_tokens - 1), source, "")
        except (bounds.LengthUnknown, ConstraintError) as reason:
            return Compiled(free, source, str(reason))

    def _bounded_walk(self, source: Any, free: GrammarWalk, max_bytes: int) -> GrammarWalk:
        """Return a walk limited to sentences of at most ``max_bytes`` bytes, or raise ``LengthUnknown``."""
        if self.kind == "json_schema":
            return self._walk(json_text(bounds.json_schema.bound(source, max_bytes)), source)
        if self.kind == "choices":
            size = max(len(choice.encode()) for choice in source)
            if size > max_bytes:
                raise bounds.LengthUnknown(f"the longest choice has {size} bytes, more than {max_bytes}")
            return free
        if self.kind == "regex":
            walk = self._follow(regex_text(source, max_bytes))
            if not walk.forced(2) and not count(walk.allowed(2)):
                raise bounds.LengthUnknown(f"the pattern matches nothing of at most {max_bytes} bytes")
            return walk
        raise bounds.LengthUnknown("a Lark grammar is not bounded")

    def _walk(self, text: str, source: object) -> GrammarWalk:
        try:
            walk = self._follow(text)
            dead = not walk.forced(2) and not count(walk.allowed(2))
        except ConstraintError as error:
            reason = str(error) if self.kind == "lark" else str(error).partition("\n   1 |")[0]
            raise ConstraintError(
                f"{self.kind} {excerpt(source)} cannot be used: {reason} ({HINTS[self.kind]})"
            ) from None
        if dead:
            raise ConstraintError(f"{self.kind} {excerpt(source)}: no token in this vocabulary can start a sentence")
        return walk

    def _follow(self, text: str) -> GrammarWalk:
        """Return the walk for a grammar in the engine's Lark dialect."""
        engine = import_engine()
        if not self.canonical_tokens:
            text = '%llguidance {"no_forcing": true}\n' + text
        matcher: LLMatcher = engine.LLMatcher(self.table.engine, engine.LLMatcher.grammar_from_lark(text), log_level=0)
        check(matcher)
        return GrammarWalk(self.table, matcher, self.canonical_tokens)

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
