"""Verdicts kept on disk, so that the same thing is never judged twice by the same version of a deterministic verifier.

A verdict is found again by its content: domain, verifier and its version, the task, and what was made. The weights of
several verifiers are no part of that, since each verifier's own verdict is kept and not their sum. What the checker did
not manage to judge is never kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Pool, Verifier, WholeGroup
from steelyard.verification.calling import parameters_of
from steelyard.verification.functions import FunctionVerifier
from steelyard.verification.trl import TRLVerifier

log = logging.getLogger("steelyard.verification")

BUSY_SECONDS = 60.0
"""How long to wait for another run that is writing."""


class VerdictCache:
    """A table of verdicts in one SQLite file, which any number of runs on one machine may read and write at once.

    Every verdict is written in a transaction of its own to a write-ahead log, so a run that is killed leaves the file
    whole. (The log needs shared memory: keep the file on a local disk, not on a network drive.)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._complained: set[str] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise VerifierError(
                f"verdict cache {path}: {error}; remove the file or choose another verify.cache"
            ) from None

    def get(self, key: bytes) -> Verdict | None:
        """``None`` if it is not there, or cannot be read, which is said once."""
        try:
            row = self._connection.execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
            return None if row is None else Verdict.from_json(json.loads(row[0]))
        except (sqlite3.Error, KeyError, TypeError, ValueError) as error:
            self._complain("read", error)
            return None

    def put(self, key: bytes, verdict: Verdict) -> None:
        """What cannot be written is not kept, which is said once; the run goes on."""
        text = json.dumps(verdict.to_json())
        try:
            self._connection.execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", (key, text))
        except sqlite3.Error as error:
            self._complain("written", error)

    def _complain(self, what: str, error: Exception) -> None:
        if what not in self._complained:
            self._complained.add(what)
            log.warning("verdict cache %s: a verdict could not be %s (%s); going on without", self.path, what, error)

    def __len__(self) -> int:
        return self._connection.execute("SELECT COUNT(*) FROM verdicts").fetchone()[0]

    def close(self) -> None:
        self._connection.close()


class CachedPool:
    """Answers from the cache what it knows and asks the pool for the rest."""

    def __init__(self, pool: Pool, verifier: Verifier, cache: VerdictCache, domain: str = "") -> None:
        reason = why_not_cached(verifier)
        if reason:
            raise VerifierError(f"{verifier.name} cannot be cached: {reason}")
        self.pool, self.verifier, self.cache, self.domain = pool, verifier, cache, domain
        self._ready: deque[tuple[SampleKey, Verdict]] = deque()
        self._asked: dict[SampleKey, bytes] = {}
        self._hits = self._looked_up = 0

    def submit(self, items: Sequence[Item]) -> None:
        unknown: list[Item] = []
        for item in items:
            key = content_key(self.verifier, item, self.domain)
            known = self.cache.get(key)
            if known is None:
                self._asked[item.sample.key] = key
                unknown.append(item)
            else:
                self._ready.append((item.sample.key, known))
        self._looked_up += len(items)
        self._hits += len(items) - len(unknown)
        if unknown:
            self.pool.submit(unknown)

    def completed(self, *, wait: bool | float) -> Iterator[tuple[SampleKey, Verdict]]:
        while self._ready:
            yield self._ready.popleft()
        for sample, verdict in self.pool.completed(wait=wait):
            key = self._asked.pop(sample)
            if not verdict.accident:
                self.cache.put(key, verdict)
            yield sample, verdict

    def metrics(self) -> dict[str, float]:
        counts = {"cache/hits": float(self._hits), "cache/misses": float(self._looked_up - self._hits)}
        self._hits = self._looked_up = 0
        return self.pool.metrics() | counts

    def close(self) -> None:
        self._ready.clear()
        self._asked.clear()
        self.pool.close()
        self.cache.close()


def why_not_cached(verifier: Verifier) -> str:
    """Why its verdicts must not be reused; empty if they may."""
    if isinstance(verifier.mode, WholeGroup):
        return "it compares the samples of a group, so a verdict is not of one sample alone"
    if not verifier.deterministic:
        return "it does not declare itself deterministic"
    if verifier.version is None:
        return "it does not declare a version"
    if isinstance(verifier, TRLVerifier) and "trainer_state" in (parameters_of(verifier.function) or {}):
        return "it looks at the progress of training (trainer_state)"
    return ""


def content_key(verifier: Verifier, item: Item, domain: str) -> bytes:
    """A digest of everything a verdict may depend on.

    A plain function is shown the task and the text; every other verifier may look at the sample's tokens and end too.
    """
    task, sample = item.task, item.sample
    made: list[Any] = [sample.text]
    if not isinstance(verifier, FunctionVerifier):
        made += [sample.completion_ids.tolist(), sample.finish]
    settings = [getattr(verifier, name, None) for name in ("floor", "success_at")]
    of_task = [task.id, task.prompt, task.spec, task.difficulty]
    content = [domain, _identity(verifier), verifier.name, verifier.version, settings, of_task, made]
    return hashlib.sha256(json.dumps(_plain(content)).encode()).digest()


def _identity(verifier: Verifier) -> list[str]:
    """Where the verifier is defined, and what a partial was given: two functions may have the same name."""
    thing: Any = getattr(verifier, "function", verifier)
    given: list[str] = []
    while isinstance(thing, partial):
        bound = cast("partial[Any]", thing)
        given.append(repr((bound.args, sorted(bound.keywords.items()))))
        thing = bound.func
    named: Any = thing if hasattr(thing, "__qualname__") else thing.__class__
    return [str(named.__module__), str(named.__qualname__), *given]


def _plain(value: Any) -> Any:
    """The value as JSON that no other value has: mappings as sorted lists, arrays with their type, the rest by repr."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return ["{}", *sorted([[type(key).__name__, repr(key), _plain(item)] for key, item in pairs], key=repr)]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    tolist = getattr(value, "tolist", None)
    return [type(value).__qualname__, tolist() if callable(tolist) else repr(value)]
