"""A cache of verdicts on disk, so that a deterministic verifier never verifies the same sample twice.

The cache key covers the domain, the verifier and its version, the task and the sample. Weights of a weighted verifier
are not part of the key, because the cache holds the verdict of each part rather than their sum. Failures are never
cached.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from steelyard.errors import VerifierError
from steelyard.types import SampleKey, Verdict
from steelyard.verification.base import GroupMode, Item, Verifier
from steelyard.verification.calling import UserFunction, parameters_of
from steelyard.verification.fingerprint import NoFingerprintError, fingerprint
from steelyard.verification.functions import FunctionVerifier
from steelyard.verification.pipeline import Stage
from steelyard.verification.returns import BadReturn, read_verdict
from steelyard.verification.trl import TRLVerifier

log = logging.getLogger("steelyard.verification")

BUSY_SECONDS = 60.0
"""Timeout if another process has locked the file. After one timeout, the cache no longer waits for locks."""


class VerdictCache:
    """A table of verdicts in a SQLite file that any number of runs on one machine can share.

    Every verdict is written in its own transaction to a write-ahead log, so killing a run does not damage the file. The
    log needs shared memory: keep the file on a local disk, not on a network drive. If another process holds a lock, the
    cache waits for one timeout only; after that it skips every access that would have to wait.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._logged: set[str] = set()
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
                    f"verdict cache {path}: {error}; delete the file or set another verify.cache"
                ) from None
            self._log_once("opened", error)

    def get(self, key: bytes, text: str) -> Verdict | None:
        """Return the cached verdict of a sample with this text, or ``None``. A read error is logged once."""
        try:
            row = self._execute("SELECT verdict FROM verdicts WHERE key = ?", (key,)).fetchone()
            return None if row is None else read_verdict(json.loads(row[0]), text)
        except (sqlite3.Error, TypeError, ValueError, RecursionError, BadReturn) as error:
            self._log_once("read", error)
            return None

    def put(self, key: bytes, verdict: Verdict) -> None:
        """Store a verdict. A write error is logged once and does not stop the run."""
        text = json.dumps(verdict.to_json())
        try:
            self._execute("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", (key, text))
        except sqlite3.Error as error:
            self._log_once("written", error)

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

    def _log_once(self, what: str, error: Exception) -> None:
        if what not in self._logged:
            self._logged.add(what)
            log.warning("verdict cache %s could not be %s (%s); the run continues without it", self.path, what, error)

    def __len__(self) -> int:
        return self._connection.execute("SELECT COUNT(*) FROM verdicts").fetchone()[0]

    def close(self) -> None:
        self._connection.close()


def _is_locked(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class CacheStage(Stage):
    """Returns cached verdicts and stores all new ones."""

    def __init__(self, verifier: Verifier, cache: VerdictCache, domain: str = "") -> None:
        reason = why_not_cached(verifier)
        if reason:
            raise VerifierError(f"{verifier.name} cannot be cached: {reason}")
        self.verifier, self.cache = verifier, cache
        self._verifier_key = verifier_key(verifier, domain)  # computed once: calls may change the verifier's state
        self._missed: dict[SampleKey, bytes | None] = {}
        self._hits = self._misses = 0

    def answer(self, item: Item) -> Verdict | None:
        key = content_key(self._verifier_key, self.verifier, item)
        cached = None if key is None else self.cache.get(key, item.sample.text)
        if cached is None:
            self._missed[item.sample.key] = key
        self._hits += cached is not None
        self._misses += cached is None
        return cached

    def observe(self, key: SampleKey, verdict: Verdict) -> None:
        content = self._missed.pop(key)
        if content is not None and not verdict.verifier_failed:
            self.cache.put(content, verdict)

    def metrics(self) -> dict[str, float]:
        counts = {"cache/hits": float(self._hits), "cache/misses": float(self._misses)}
        self._hits = self._misses = 0
        return counts

    def close(self) -> None:
        self._missed.clear()
        self.cache.close()


def why_not_cached(verifier: Verifier) -> str:
    """Return why the verdicts of a verifier cannot be cached, or an empty string if they can."""
    if isinstance(verifier.mode, GroupMode):
        return "it compares the samples of a group, so a verdict does not depend on one sample alone"
    if not verifier.deterministic:
        return "it does not declare itself deterministic"
    if verifier.version is None:
        return "it does not declare a version"
    if isinstance(verifier, TRLVerifier) and "trainer_state" in (parameters_of(verifier.function) or {}):
        return "it depends on the progress of training (trainer_state)"
    try:
        verifier_key(verifier, "")
    except NoFingerprintError as error:
        return f"it cannot be distinguished from other verifiers: {error}"
    return ""


def verifier_key(verifier: Verifier, domain: str) -> bytes:
    """Return a digest of everything about the verifier that a verdict may depend on.

    The digest covers the import path and the state of a callable object or the arguments of a partial. Raises
    ``NoFingerprintError`` for a function without an import path.
    """
    called, success_at = verifier, None
    if isinstance(verifier, UserFunction):
        called, success_at = verifier.function, verifier.success_at
    return fingerprint([domain, called, verifier.name, verifier.version, [verifier.floor, success_at]])


def content_key(verifier_digest: bytes, verifier: Verifier, item: Item) -> bytes | None:
    """Return a digest of everything a verdict may depend on, or ``None`` if the task contains a value without a digest.

    A plain function receives the task and the text. Any other verifier may also use the tokens and the finish reason.
    """
    task, sample = item.task, item.sample
    content: list[object] = [sample.text]
    if not isinstance(verifier, FunctionVerifier):
        content += [sample.completion_ids, sample.finish]
    try:
        return fingerprint([verifier_digest, task.id, task.prompt, task.spec, task.difficulty, content])
    except NoFingerprintError:
        return None
