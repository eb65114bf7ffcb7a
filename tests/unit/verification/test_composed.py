"""Pools made of pools."""

from __future__ import annotations

from steelyard.types import Verdict
from steelyard.verification import FunctionVerifier, InlinePool, WeightedPool, WholeSamplesPool, as_verifier, judge_all


def test_weighted_parts_are_judged_apart_and_weighed_as_by_the_verifier_itself(group) -> None:
    def length(task, text):
        return len(text)

    def first(tasks, texts):
        return [float(text < "b") for text in texts]

    by_mode = FunctionVerifier(first, mode=as_verifier(first, mode="batch", size=2).mode)
    verifier = as_verifier([(length, 2.0), (by_mode, 1.0)])
    items = group("abc", "b", "a")
    pool = WeightedPool(verifier, [InlinePool(part.verifier) for part in verifier.parts])
    pool.submit(items)
    early = dict(pool.completed(wait=False))
    assert len(early) == 2, "the batch of the second part is not full yet"
    found = early | dict(pool.completed(wait=True))
    assert [found[entry.sample.key] for entry in items] == judge_all(verifier, items)
    assert found[items[0].sample.key].parts == {"length": 3.0, "first": 1.0}


def test_an_accident_of_a_part_is_one_of_the_whole(item) -> None:
    def broken(task, text):
        raise OSError("gone")

    verifier = as_verifier({"good": lambda task, text: 1.0, "bad": broken})
    pool = WeightedPool(verifier, [InlinePool(part.verifier) for part in verifier.parts])
    pool.submit([item()])
    ((_, verdict),) = pool.completed(wait=True)
    assert (verdict.status, verdict.cause, verdict.tries) == ("rejected", "exception", 2)
    assert verdict.reason.startswith("bad: Traceback")


def test_what_was_cut_off_is_rejected_without_asking(item) -> None:
    asked: list[str] = []

    def spy(task, text):
        asked.append(text)
        return 1.0

    pool = WholeSamplesPool(InlinePool(FunctionVerifier(spy)), Verdict.rejected("cut off", floor=-1.0))
    pool.submit([item("whole"), item("cut", key=(0, 0, 0, 1), finish="length")])
    found = {key.sample: verdict for key, verdict in pool.completed(wait=True)}
    assert asked == ["whole"]
    assert (found[1].status, found[1].reward) == ("rejected", -1.0)
