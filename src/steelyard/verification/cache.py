"""Verdicts kept on disk, so that the same thing is never judged twice by the same version of a deterministic verifier.

A verdict is found again by its content: domain, verifier and its version, the task, and what was made. The weights of
several verifiers are no part of that, since each verifier's own verdict is kept and not their sum. What the checker did
not manage to judge is never kept.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import Item, Verifier, WholeGroup
from steelyard.verification.calling import UserFunction, parameters_of
from steelyard.verification.fingerprint import NoFingerprintError, fingerprint
from steelyard.verification.functions import FunctionVerifier
from steelyard.verification.pipeline import Stage
from steelyard.verification.returns import BadReturn, read_verdict
from steelyard.verification.trl import TRLVerifier

log = logging.getLogger("steelyard.verification")

BUSY_SECONDS = 60.0
"""How long to wait for another process that has locked the file. After one such wait, nothing waits for it again."""


class VerdictCache:
    """A table of verdicts in one SQLite file, which any number of runs on one machine may read and write at once.

    Every verdict is written in a transaction of its own to a write-ahead log, so a run that is killed leaves the file
    whole. (The log needs shared memory: keep the file on a local disk, not on a network drive.) A file that another
    process keeps locked costs one timeout; from then on only what is available immediately is read and written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._complained: set[str] = set()
        self._prepared = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._execute("SELECT 1")
        except (OSError, sqlite3.Error) as error:
            if not _is_locked(error):
                raise VerifierError(
                    f"verdict cache {path}: {error}; remove the file or choose another verify.cache"
                ) from None
            self._complain("opened", error)

    def get(self, key: bytes, text: str) -> Verdict | None:
        """The verdict of a sample with this text; ``None`` if it is not there or cannot be read, which is logged
        once.
        """
        try:
            row = self._execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
            return None if row is None else read_verdict(json.loads(row[0]), text)
        except (sqlite3.Error, TypeError, ValueError, RecursionError, BadReturn) as error:
            self._complain("read", error)
            return None

    def put(self, key: bytes, verdict: Verdict) -> None:
        """What cannot be written is not kept, which is said once; the run goes on."""
        text = json.dumps(verdict.to_json())
        try:
            self._execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", (key, text))
        except sqlite3.Error as error:
            self._complain("written", error)

    def _execute(self, statement: str, values: Sequence[bytes | str] = ()) -> sqlite3.Cursor:
        try:
            if not self._prepared:
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute("PRAGMA synchronous=NORMAL")
                self._connection.execute(
                    "CREATE TABLE IF NOT EXISTS verdicts (key BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID"
                )
                self._prepared = True
            return self._connection.execute(statement, values)
        except sqlite3.Error as error:
            if _is_locked(error):
                self._connection.execute("PRAGMA busy_timeout=0")
            raise

    def _complain(self, what: str, error: Exception) -> None:
        if what not in self._complained:
            self._complained.add(what)
            log.warning("verdict cache %s could not be %s (%s); the run continues without", self.path, what, error)

    def __len__(self) -> int:
        return self._connection.execute("SELECT COUNT(*) FROM verdicts").fetchone()[0]

    def close(self) -> None:
        self._connection.close()


def _is_locked(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class CacheStage(Stage):
    """Answers what the cache knows, and keeps what the verifier says of the rest."""

    def __init__(self, verifier: Verifier, cache: VerdictCache, domain: str = "") -> None:
        reason = why_not_cached(verifier)
        if reason:
            raise VerifierError(f"{verifier.name} cannot be cached: {reason}")
        self.verifier, self.cache = verifier, cache
        self._verifier_key = verifier_key(verifier, domain)  # as it is now: a verifier may count its calls
        self._asked: dict[SampleKey, bytes | None] = {}
        self._hits = self._misses = 0

    def answer(self, item: Item) -> Verdict | None:
        key = content_key(self._verifier_key, self.verifier, item)
        known = None if key is None else self.cache.get(key, item.sample.text)
        if known is None:
            self._asked[item.sample.key] = key
        self._hits += known is not None
        self._misses += known is None
        return known

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        asked = self._asked.pop(key)
        if asked is not None and not verdict.accident:
            self.cache.put(asked, verdict)

    def metrics(self) -> dict[str, float]:
        counts = {"cache/hits": float(self._hits), "cache/misses": float(self._misses)}
        self._hits = self._misses = 0
        return counts

    def close(self) -> None:
        self._asked.clear()
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
    try:
        verifier_key(verifier, "")
    except NoFingerprintError as error:
        return f"it cannot be told from other verifiers: {error}"
    return ""


def verifier_key(verifier: Verifier, domain: str) -> bytes:
    """A digest of everything about the verifier that a verdict may depend on: where it can be imported from, and the
    state of a callable object or the arguments of a partial. Raises ``NoFingerprintError`` for what has no import path.
    """
    asked, success_at = verifier, None
    if isinstance(verifier, UserFunction):
        asked, success_at = verifier.function, verifier.success_at
    return fingerprint([domain, asked, verifier.name, verifier.version, [verifier.floor, success_at]])


def content_key(asked: bytes, verifier: Verifier, item: Item) -> bytes | None:
    """A digest of everything a verdict may depend on: the verifier's own key, the task, and the sample. ``None`` if the
    task holds something that has no digest.

    A plain function is shown the task and the text; every other verifier may look at the sample's tokens and end too.
    """
    task, sample = item.task, item.sample
    made: list[object] = [sample.text]
    if not isinstance(verifier, FunctionVerifier):
        made += [sample.completion_ids, sample.finish]
    try:
        return fingerprint([asked, task.id, task.prompt, task.spec, task.difficulty, made])
    except NoFingerprintError:
        return None
