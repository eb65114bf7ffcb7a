"""The verdict cache: which verdicts it stores, and under which keys."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import Invalid, VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification import (
    CacheStage,
    FunctionVerifier,
    GroupMode,
    InlinePool,
    Item,
    Pipeline,
    VerdictCache,
    as_verifier,
)
from steelyard.verification import cache as caching
from steelyard.verification.cache import content_key, verifier_key, why_not_cached


class Counting:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, task: Task, text: str) -> float | Verdict | None:
        self.calls += 1
        if text == "unscored":
            return Verdict("unscored")
        if text == "bad":
            raise Invalid("bad")
        if text == "boom":
            raise OSError("boom")
        return None if text == "none" else float(len(text))


class Cached(Pipeline):
    """An inline pool behind a cache."""

    def __init__(self, path: Path, function: object, **settings: object) -> None:
        verifier = FunctionVerifier(function, name="f", **{"version": "1", "deterministic": True, **settings})
        self.cache, self.verifier = VerdictCache(path), verifier
        super().__init__([CacheStage(verifier, self.cache)], InlinePool(verifier))


def key_of(verifier: FunctionVerifier, item: Item, domain: str = "") -> bytes | None:
    return content_key(verifier_key(verifier, domain), verifier, item)


def verdicts_of(pool: Cached, items: list) -> list[Verdict]:
    pool.submit(items)
    found = dict(pool.completed(wait=True))
    return [found[item.sample.key] for item in items]


def test_a_second_run_verifies_nothing(tmp_path: Path, group) -> None:
    first, second = Counting(), Counting()
    items = group("a", "bb", "bad")
    pool = Cached(tmp_path / "cache.sqlite", first)
    before = verdicts_of(pool, items)
    assert pool.metrics() == {"cache/hits": 0.0, "cache/misses": 3.0}
    pool.close()
    again = Cached(tmp_path / "cache.sqlite", second)
    assert verdicts_of(again, items) == before
    assert (first.calls, second.calls) == (3, 0)
    assert again.metrics() == {"cache/hits": 3.0, "cache/misses": 0.0}
    assert again.metrics() == {"cache/hits": 0.0, "cache/misses": 0.0}, "counters restart with every call"


def test_failures_are_not_cached(tmp_path: Path, group) -> None:
    function = Counting()
    pool = Cached(tmp_path / "cache.sqlite", function)
    statuses = [verdict.status for verdict in verdicts_of(pool, group("boom", "none", "unscored"))]
    assert statuses == ["rejected", "unscored", "unscored"]
    assert len(pool.cache) == 0


def test_the_key_is_the_content(item) -> None:
    verifier = FunctionVerifier(Counting(), name="f", version="1", deterministic=True)
    one = item("a", key=(0, 0, 0, 0), answer=1)
    key = key_of(verifier, one)
    assert key_of(verifier, item("a", key=(5, 0, 2, 7), answer=1)) == key, (
        "the key does not depend on where it was sampled"
    )
    others = [
        key_of(verifier, item("b", answer=1)),
        key_of(verifier, item("a", answer=2)),
        key_of(verifier, item("a", prompt="q", answer=1)),
        key_of(replace(verifier, version="2"), one),
        key_of(replace(verifier, name="g"), one),
        key_of(replace(verifier, floor=-1.0), one),
        key_of(verifier, one, "bricks"),
    ]
    assert key not in others
    assert len(set(others)) == len(others)


def score(task: Task, text: str, limit: int = 0) -> float:
    return float(limit)


class AtLeast:
    """A callable object whose verdicts depend on its state."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, task: Task, text: str) -> bool:
        return len(text) >= self.limit

    def method(self, task: Task, text: str) -> bool:
        return self(task, text)


class Holding:
    """A verifier class with an attribute named ``function``, like a function verifier."""

    name, version, floor, deterministic, mode = "f", "1", 0.0, True, None

    def __init__(self, limit: int) -> None:
        self.function, self.limit = score, limit


def test_functions_and_objects_are_distinguished_by_name_and_state(item) -> None:
    functions = [score, *(partial(score, limit=limit) for limit in (3, 5)), AtLeast(3), AtLeast(5), AtLeast(3).method]
    verifiers = [FunctionVerifier(function, name="f", version="1", deterministic=True) for function in functions]
    keys = [verifier_key(verifier, "") for verifier in (*verifiers, Holding(3), Holding(5))]
    assert len(set(keys)) == len(keys)
    assert keys[3] == verifier_key(replace(verifiers[3], function=AtLeast(3)), ""), (
        "the key depends on the state, not on the address"
    )


def test_verifiers_without_an_import_path_are_not_cached(tmp_path: Path) -> None:
    """Two closures of one function, or two lambdas, differ although they have the same name."""

    def above(limit: int) -> object:
        return lambda task, text: len(text) > limit

    for function in (above(1), partial(above(1)), threading.Lock().__enter__):
        verifier = FunctionVerifier(function, name="f", version="1", deterministic=True)
        assert "cannot be imported" in why_not_cached(verifier)
    locked = FunctionVerifier(AtLeast(threading.Lock()), version="1", deterministic=True)  # type: ignore[arg-type]
    assert "lock" in why_not_cached(locked)


def test_different_specs_have_different_keys(item) -> None:
    verifier = FunctionVerifier(score, version="1", deterministic=True)
    values = [
        {1: "a"}, {"1": "a"}, {(1, 2): "a", "b": 2}, {"b": 2, (1, 2): "b"}, [["b", 2]], {"b": 2},
        ["{}", ["str", "'b'", 2]], [0, 1], (0, 1), {0, 1}, frozenset((0, 1)), [0.0, 1.0], [False, True], np.arange(2),
        np.arange(2, dtype=np.int32), np.arange(2.0), np.arange(2).reshape(1, 2), ["ndarray", [0, 1]],
        1, 1.0, True, "1", b"1", None, np.int64(1),
        np.float64(1), np.float32(1), AtLeast(1), AtLeast(2), [[1], 2], [[1, 2]], -0.0, "\ud800",
    ]  # fmt: skip
    keys = [key_of(verifier, replace(item(), task=Task("t", "p", {"x": value}))) for value in values]
    assert len(set(keys)) == len(keys)
    same = [{"a": {1, "x"}, "b": 2}, {"b": 2, "a": {"x", 1}}]
    assert len({key_of(verifier, replace(item(), task=Task("t", "p", spec))) for spec in same}) == 1


def test_a_task_without_a_key_is_verified_but_not_cached(tmp_path: Path, item) -> None:
    pool = Cached(tmp_path / "cache.sqlite", score)
    entry = item("a", helper=lambda: 1)
    assert [verdict.status for verdict in verdicts_of(pool, [entry]) + verdicts_of(pool, [entry])] == ["scored"] * 2
    assert len(pool.cache) == 0


def test_a_file_that_stays_locked_costs_one_timeout(
    tmp_path: Path, group, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After the first timeout, SQLite's busy timeout is set to 0."""
    path = tmp_path / "cache.sqlite"
    monkeypatch.setattr(caching, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    pool = Cached(path, Counting())
    timeout = pool.cache._connection.execute("PRAGMA busy_timeout").fetchone()[0]
    assert timeout == 0, "later accesses do not wait"
    assert [verdict.reward for verdict in verdicts_of(pool, group("a", "bb"))] == [1.0, 2.0]
    assert caplog.text.count("(database is locked)") == 3, "once for each of opening, reading and writing"
    other.execute("COMMIT")
    other.close()
    verdicts_of(pool, group("a", "bb"))
    assert len(pool.cache) == 2, "the cache is used again when it is free"


@pytest.mark.parametrize(
    "stored",
    [
        '{"status": "scored", "reward": "lots", "success": true}',
        "[" * 100_000,
        "3",
        '{"status": "scored", "reward": NaN}',
    ],
)
def test_an_invalid_stored_verdict_is_not_used(tmp_path: Path, group, stored: str) -> None:
    pool = Cached(tmp_path / "cache.sqlite", Counting())
    verdicts_of(pool, group("a"))
    pool.cache._connection.execute("UPDATE verdicts SET verdict = ?", (stored,))
    assert [verdict.reward for verdict in verdicts_of(pool, group("a"))] == [1.0]
    assert pool.verifier.function.calls == 2


def test_the_run_continues_if_the_cache_fails(tmp_path: Path, group, caplog: pytest.LogCaptureFixture) -> None:
    function = Counting()
    pool = Cached(tmp_path / "cache.sqlite", function)
    pool.cache._connection.execute("DROP TABLE verdicts")
    assert [verdict.reward for verdict in verdicts_of(pool, group("a", "bb"))] == [1.0, 2.0]
    assert caplog.text.count("could not be read") == 1
    assert caplog.text.count("could not be written") == 1


def test_a_verifier_that_reads_the_trainer_state_is_not_cached() -> None:
    def reward(completions, trainer_state):
        return [trainer_state.global_step] * len(completions)

    verifier = as_verifier(reward, mode="batch", size=2, version="1", deterministic=True)
    assert "trainer_state" in why_not_cached(verifier)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"version": None}, "version"),
        ({"deterministic": False}, "deterministic"),
        ({"mode": GroupMode()}, "compares"),
    ],
)
def test_only_verifiers_with_version_and_determinism_are_cached(tmp_path: Path, settings, reason) -> None:
    with pytest.raises(VerifierError, match=reason):
        Cached(tmp_path / "cache.sqlite", Counting(), **settings)
    assert not why_not_cached(FunctionVerifier(Counting(), version="1", deterministic=True))


def test_a_file_that_is_not_a_cache_is_rejected_with_a_suggestion(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_text("no database " * 100)
    with pytest.raises(VerifierError, match=r"cache\.sqlite: .*delete the file"):
        VerdictCache(path)
