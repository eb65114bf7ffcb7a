"""Verifiers and processes that try to make the verdict cache stall or return a wrong verdict."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.robustness.attack_programs import Attack
from benchmarks.verification.misbehaving import item
from steelyard.errors import VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification import CacheStage, FunctionVerifier, InlinePool, Item, Pipeline, VerdictCache
from steelyard.verification import cache as caching

ITEMS = 32
BUSY_SECONDS = 2.0
LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA locking_mode=EXCLUSIVE")
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""
NONSENSE = (
    '{"status": "scored", "reward": "all of it", "success": true}',
    '{"status": "scored", "reward": 1e999, "success": true}',
    '{"status": "scored", "reward": 1, "success": true, "parts": {"a": {"b": 1}}}',
    '{"status": "scored", "reward": 1, "success": true, "steps": [[999, 1.0]]}',
    '{"status": "scored", "reward": 1, "success": true, "tries": "many"}',
    "[" * 100_000,
)


def by_text(_task: Task, text: str) -> float:
    return float(len(text))


def kind_of_x(task: Task, _text: str) -> str | Verdict:
    """Return a verdict that depends on the type of a column, not only on its content."""
    value = task.spec["x"]
    kind = f"{type(value).__name__} {getattr(value, 'dtype', '')} {getattr(value, 'shape', '')}"
    return Verdict.rejected(kind)


class LongerThan:
    """A verifier with state."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, _task: Task, text: str) -> bool:
        return len(text) > self.limit


def longer_than(limit: int) -> Any:
    return lambda _task, text: len(text) > limit


def verdicts(path: Path, function: Any, items: list[Item]) -> list[Verdict]:
    """Return the verdicts from a run with this cache file."""
    verifier = FunctionVerifier(function, name="score", version="1", deterministic=True)
    pool = Pipeline([CacheStage(verifier, VerdictCache(path))], InlinePool(verifier))
    try:
        pool.submit(items)
        found = dict(pool.completed(wait=True))
        return [found[one.sample.key] for one in items]
    finally:
        pool.close()


def share_a_key(make: Any) -> Any:
    """Return an attack in which two verifiers that differ only in their captured state share one file."""

    def run(folder: Path) -> str | None:
        for limit, expected in ((1, 1.0), (5, 0.0)):
            try:
                (found,) = verdicts(folder / "cache.sqlite", make(limit), [item(0, "abc")])
            except VerifierError:  # rejected, so nothing is cached
                continue
            if found.reward != expected:
                return f"a limit of {limit} gave the verdict of another limit: {found}"
        return None

    return run


def confuse_types(folder: Path) -> str | None:
    values = [{"b": 2}, ["{}", ["str", "'b'", 2]], [0, 1], (0, 1), np.arange(2), np.arange(2, dtype=np.int32)]
    values += [np.arange(2.0), np.arange(2).reshape(1, 2), 1, 1.0, True, np.float64(1)]
    items = [replace(item(number, "a"), task=Task("t", "p", {"x": value})) for number, value in enumerate(values)]
    fresh = [verdicts(folder / f"{number}.sqlite", kind_of_x, [one])[0] for number, one in enumerate(items)]
    shared = verdicts(folder / "shared.sqlite", kind_of_x, items)
    again = verdicts(folder / "shared.sqlite", kind_of_x, items)
    return None if fresh == shared == again else f"verdicts of another type: {shared}"


def hold_the_lock(folder: Path) -> str | None:
    path = folder / "cache.sqlite"
    before, caching.BUSY_SECONDS = caching.BUSY_SECONDS, BUSY_SECONDS
    try:
        with subprocess.Popen(
            [sys.executable, "-c", LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as locker:
            assert locker.stdout is not None
            locker.stdout.readline()
            began = time.monotonic()
            found = verdicts(path, by_text, [item(number, "a" * number) for number in range(ITEMS)])
            seconds = time.monotonic() - began
            locker.kill()
    finally:
        caching.BUSY_SECONDS = before
    if [verdict.reward for verdict in found] != list(range(ITEMS)):
        return "wrong verdicts while the file was locked"
    most = ITEMS * BUSY_SECONDS / 2
    return None if seconds < most else f"{ITEMS} items took {seconds:.0f} s with a timeout of {BUSY_SECONDS} s"


def write_nonsense(folder: Path) -> str | None:
    path, items = folder / "cache.sqlite", [item(number, "a" * number) for number in range(len(NONSENSE))]
    expected = verdicts(path, by_text, items)
    with sqlite3.connect(path) as other:
        keys = other.execute("SELECT key FROM verdicts").fetchall()
        other.executemany(
            "UPDATE verdicts SET verdict = ? WHERE key = ?",
            [(text, key) for text, (key,) in zip(NONSENSE, keys, strict=True)],
        )
    other.close()
    found = verdicts(path, by_text, items)
    return None if found == expected else f"verdicts forged by another process: {found}"


ATTACKS = (
    Attack("verdict cache", "two closures of one function", share_a_key(longer_than)),
    Attack("verdict cache", "two callable objects of one class", share_a_key(LongerThan)),
    Attack("verdict cache", "columns of equal contents and different types", confuse_types),
    Attack("verdict cache", "another process locks the file and keeps it", hold_the_lock),
    Attack("verdict cache", "another process writes nonsense into the file", write_nonsense),
)
