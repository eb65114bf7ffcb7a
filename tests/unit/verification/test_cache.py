"""The verdict cache: what is kept, under which key, and what never is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import Invalid, VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification import CachedPool, FunctionVerifier, InlinePool, VerdictCache, WholeGroup, as_verifier
from steelyard.verification.cache import content_key, why_not_cached


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


def cached(path: Path, function: object, **settings: object) -> CachedPool:
    verifier = FunctionVerifier(function, name="f", **{"version": "1", "deterministic": True, **settings})
    return CachedPool(InlinePool(verifier), verifier, VerdictCache(path))


def judged(pool: CachedPool, items: list) -> list[Verdict]:
    pool.submit(items)
    found = dict(pool.completed(wait=True))
    return [found[item.sample.key] for item in items]


def test_a_second_run_verifies_nothing(tmp_path: Path, group) -> None:
    first, second = Counting(), Counting()
    items = group("a", "bb", "bad")
    pool = cached(tmp_path / "cache.sqlite", first)
    before = judged(pool, items)
    assert pool.metrics() == {"cache/hits": 0.0, "cache/misses": 3.0}
    pool.close()
    again = cached(tmp_path / "cache.sqlite", second)
    assert judged(again, items) == before
    assert (first.calls, second.calls) == (3, 0)
    assert again.metrics() == {"cache/hits": 3.0, "cache/misses": 0.0}
    assert again.metrics() == {"cache/hits": 0.0, "cache/misses": 0.0}, "counted since last asked"


def test_what_was_not_judged_is_not_kept(tmp_path: Path, group) -> None:
    function = Counting()
    pool = cached(tmp_path / "cache.sqlite", function)
    statuses = [verdict.status for verdict in judged(pool, group("boom", "none", "unscored"))]
    assert statuses == ["rejected", "unscored", "unscored"]
    assert len(pool.cache) == 0


def test_the_key_is_the_content(item) -> None:
    verifier = FunctionVerifier(Counting(), name="f", version="1", deterministic=True)
    one = item("a", key=(0, 0, 0, 0), answer=1)
    key = content_key(verifier, one, "")
    assert content_key(verifier, item("a", key=(5, 0, 2, 7), answer=1), "") == key, "not where it was sampled"
    others = [
        content_key(verifier, item("b", answer=1), ""),
        content_key(verifier, item("a", answer=2), ""),
        content_key(verifier, item("a", prompt="q", answer=1), ""),
        content_key(replace(verifier, version="2"), one, ""),
        content_key(replace(verifier, name="g"), one, ""),
        content_key(replace(verifier, floor=-1.0), one, ""),
        content_key(verifier, one, "bricks"),
    ]
    assert key not in others
    assert len(set(others)) == len(others)


def score(task: Task, text: str, limit: int = 0) -> float:
    return float(limit)


def test_functions_of_the_same_name_are_told_apart(item) -> None:
    def other(task: Task, text: str) -> float:
        return 1.0

    other.__name__ = "score"
    functions = [score, other, partial(score, limit=3), partial(score, limit=5), Counting()]
    verifiers = [FunctionVerifier(function, name="f", version="1", deterministic=True) for function in functions]
    keys = [content_key(verifier, item(), "") for verifier in verifiers]
    assert len(set(keys)) == len(keys)


def test_any_spec_has_a_key_of_its_own(item) -> None:
    verifier = FunctionVerifier(score, version="1", deterministic=True)
    specs = [{1: "a"}, {"1": "a"}, {(1, 2): "a", "b": 2}, {"b": 2, (1, 2): "b"}, {"x": np.arange(2)}, {"x": [0, 1]}]
    items = [replace(item(), task=Task("t", "p", spec)) for spec in specs]
    keys = [content_key(verifier, entry, "") for entry in items]
    assert len(set(keys)) == len(keys)
    assert content_key(verifier, replace(item(), task=Task("t", "p", {"a": 1, "b": 2})), "") == content_key(
        verifier, replace(item(), task=Task("t", "p", {"b": 2, "a": 1})), ""
    )


def test_a_cache_that_fails_is_done_without(tmp_path: Path, group, caplog: pytest.LogCaptureFixture) -> None:
    function = Counting()
    pool = cached(tmp_path / "cache.sqlite", function)
    pool.cache._connection.execute("DROP TABLE verdicts")
    assert [verdict.reward for verdict in judged(pool, group("a", "bb"))] == [1.0, 2.0]
    assert caplog.text.count("could not be read") == 1
    assert caplog.text.count("could not be written") == 1


def test_what_follows_the_progress_of_training_is_not_cached() -> None:
    def reward(completions, trainer_state):
        return [trainer_state.global_step] * len(completions)

    verifier = as_verifier(reward, mode="batch", size=2, version="1", deterministic=True)
    assert "trainer_state" in why_not_cached(verifier)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"version": None}, "version"),
        ({"deterministic": False}, "deterministic"),
        ({"mode": WholeGroup()}, "compares"),
    ],
)
def test_only_what_declares_itself_is_cached(tmp_path: Path, settings, reason) -> None:
    with pytest.raises(VerifierError, match=reason):
        cached(tmp_path / "cache.sqlite", Counting(), **settings)
    assert not why_not_cached(FunctionVerifier(Counting(), version="1", deterministic=True))


def test_a_file_that_is_no_cache_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_text("no database " * 100)
    with pytest.raises(VerifierError, match=r"cache\.sqlite: .*remove the file"):
        VerdictCache(path)
