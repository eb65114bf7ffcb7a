"""Stages in front of a pool, and pools of weighted verifiers."""

from __future__ import annotations

import pytest

from steelyard.types import Verdict
from steelyard.verification import (
    Blame,
    FunctionVerifier,
    InlinePool,
    Pipeline,
    RejectTruncated,
    Stage,
    as_verifier,
    pool_for,
)


def test_weighted_parts_are_verified_separately_and_summed(group) -> None:
    def length(task, text):
        return len(text)

    def first(tasks, texts):
        return [float(text < "b") for text in texts]

    verifier = as_verifier([(length, 2.0), (as_verifier(first, mode="batch", size=2), 1.0)])
    items = group("abc", "b", "a")
    pool = pool_for(verifier, InlinePool)
    pool.submit(items)
    early = dict(pool.completed(wait=False))
    assert len(early) == 2, "the batch of the second part is not full yet"
    found = early | dict(pool.completed(wait=True))
    assert [found[entry.sample.key] for entry in items] == [
        Verdict.scored(7.0, success=True, parts={"length": 3.0, "first": 1.0}),
        Verdict.scored(2.0, parts={"length": 1.0, "first": 0.0}),
        Verdict.scored(3.0, success=True, parts={"length": 1.0, "first": 1.0}),
    ]


def test_weighted_verifiers_can_be_nested(item) -> None:
    inner = as_verifier({"a": lambda task, text: 1.0, "b": lambda task, text: 2.0}, name="inner")
    pool = pool_for(as_verifier([(inner, 0.5), (lambda task, text: 4.0, 1.0)]), InlinePool)
    pool.submit([item()])
    ((_, verdict),) = pool.completed(wait=True)
    assert verdict.reward == 5.5
    assert verdict.parts == {"inner": 3.0, "inner/a": 1.0, "inner/b": 2.0, "<lambda>": 4.0}


def test_if_one_pool_cannot_be_built_the_others_are_closed() -> None:
    closed: list[str] = []

    class Closing(InlinePool):
        def close(self) -> None:
            closed.append(self.verifier.name)

    def build(verifier):
        if verifier.name == "bad":
            raise OSError("no workers")
        return Closing(verifier)

    good, bad = as_verifier(max, name="good"), as_verifier(max, name="bad")
    pool_for(as_verifier([good]), build)
    assert closed == []
    with pytest.raises(OSError, match="no workers"):
        pool_for(as_verifier([good, bad]), build)
    assert closed == ["good"]


def test_a_failure_of_a_part_is_a_failure_of_the_sum(item) -> None:
    def broken(task, text):
        raise OSError("gone")

    pool = pool_for(as_verifier({"good": lambda task, text: 1.0, "bad": broken}), InlinePool)
    pool.submit([item()])
    ((_, verdict),) = pool.completed(wait=True)
    assert (verdict.status, verdict.cause, verdict.tries) == ("rejected", "exception", 2)
    assert verdict.reason.startswith("bad: Traceback")


def test_a_truncated_sample_is_rejected_without_verifying(item) -> None:
    verified: list[str] = []

    def spy(task, text):
        verified.append(text)
        return 1.0

    pool = Pipeline([RejectTruncated(floor=-1.0)], InlinePool(FunctionVerifier(spy)))
    pool.submit([item("complete"), item("cut", key=(0, 0, 0, 1), finish="length")])
    found = {key.sample: verdict for key, verdict in pool.completed(wait=True)}
    assert verified == ["complete"]
    assert (found[0].status, found[1].status, found[1].reward) == ("scored", "rejected", -1.0)
    assert "truncated" in found[1].reason


class RecordingStage(Stage):
    """Returns a verdict for one text and records all calls."""

    def __init__(self, name: str, answers: str, seen: list[str]) -> None:
        self.name, self.answers, self.seen = name, answers, seen

    def answer(self, item):
        self.seen.append(f"{self.name}<{item.sample.text}")
        return Verdict.scored(9.0) if item.sample.text == self.answers else None

    def observe(self, key, verdict) -> None:
        self.seen.append(f"{self.name}>{verdict.reward:g}")

    def metrics(self):
        return {self.name: 1.0}

    def close(self) -> None:
        self.seen.append(f"{self.name} closed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", ["outer<1", "inner<1", "inner>1", "outer>1"]),
        ("inner", ["outer<inner", "inner<inner", "outer>9"]),
        ("outer", ["outer<outer"]),
    ],
)
def test_every_earlier_stage_observes_a_verdict(item, text, expected) -> None:
    seen: list[str] = []
    stages = [RecordingStage("outer", "outer", seen), RecordingStage("inner", "inner", seen)]
    pool = Pipeline(stages, InlinePool(FunctionVerifier(lambda task, text: float(text)), Blame(tries=1)))
    pool.submit([item(text)])
    assert seen == [step for step in expected if "<" in step], "stages observe verdicts when they are fetched"
    assert [verdict.reward for _, verdict in pool.completed(wait=False)] == [1.0 if text == "1" else 9.0]
    assert seen == expected
    assert list(pool.completed(wait=True)) == []
    assert pool.metrics() == {"outer": 1.0, "inner": 1.0}
    pool.submit([item("outer")])
    pool.close()
    assert seen[-2:] == ["outer closed", "inner closed"]
    assert list(pool.completed(wait=True)) == [], "closing discards verdicts that were not fetched"
