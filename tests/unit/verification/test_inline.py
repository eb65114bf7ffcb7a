"""The inline pool: the time at which items are verified, and exactly one verdict per item."""

from __future__ import annotations

import random

import pytest

from steelyard.types import Task
from steelyard.verification import BatchMode, FunctionVerifier, GroupMode, InlinePool, Mode, SingleMode


class Spy:
    """A function that records its calls."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, task: Task | list[Task], texts: str | list[str]) -> object:
        if isinstance(texts, str):
            self.calls.append([texts])
            return float(texts)
        self.calls.append(list(texts))
        return [float(text) for text in texts]


def spied(mode: Mode) -> tuple[Spy, InlinePool]:
    spy = Spy()
    return spy, InlinePool(FunctionVerifier(spy, mode=mode))


def test_single_items_are_verified_immediately(item) -> None:
    spy, pool = spied(SingleMode())
    pool.submit([item("1"), item("2", key=(0, 0, 0, 1))])
    assert spy.calls == [["1"], ["2"]]
    assert [(key.sample, verdict.reward) for key, verdict in pool.completed(wait=False)] == [(0, 1.0), (1, 2.0)]
    assert list(pool.completed(wait=True)) == []


def test_batches_are_collected_and_an_incomplete_one_waits(group) -> None:
    spy, pool = spied(BatchMode(2))
    pool.submit(group("1", "2", "3"))
    assert spy.calls == [["1", "2"]]
    assert len(list(pool.completed(wait=False))) == 2
    pool.submit(group("4", slot=1))
    assert spy.calls == [["1", "2"], ["3", "4"]]
    pool.submit(group("5", slot=2))
    assert [verdict.reward for _, verdict in pool.completed(wait=True)] == [3.0, 4.0, 5.0]
    assert spy.calls[-1] == ["5"]


def test_groups_are_verified_when_complete_and_in_order(group) -> None:
    spy, pool = spied(GroupMode())
    first, second = group("1", "2"), group("3", "4", slot=1)
    pool.submit([first[1], second[0]])
    assert spy.calls == []
    pool.submit([first[0]])
    assert spy.calls == [["1", "2"]], "the samples of a group are in the order of their index"
    assert [verdict.reward for _, verdict in pool.completed(wait=True)] == [1.0, 2.0, 3.0]
    assert spy.calls == [["1", "2"], ["3"]], "waiting verifies an incomplete group"


def test_a_refilled_slot_is_another_group(item) -> None:
    spy, pool = spied(GroupMode())
    keys = [(0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1)]
    pool.submit([item(text, key=key, of=2) for text, key in zip("123", keys, strict=True)])
    assert spy.calls == [["2", "3"]]


@pytest.mark.parametrize("mode", [SingleMode(), BatchMode(3), GroupMode()])
def test_every_item_gets_exactly_one_verdict(mode: Mode, group) -> None:
    items = [entry for slot in range(20) for entry in group("1", "boom", "nan", "2", slot=slot)]
    random.Random(0).shuffle(items)
    _, pool = spied(mode)
    seen = []
    for start in range(0, len(items), 7):
        pool.submit(items[start : start + 7])
        seen.extend(pool.completed(wait=False))
    seen.extend(pool.completed(wait=True))
    assert sorted(key for key, _ in seen) == sorted(entry.sample.key for entry in items)
    if not isinstance(mode, GroupMode):
        by_key = {entry.sample.key: entry.sample.text for entry in items}
        expected = {"1": "", "2": "", "boom": "exception", "nan": "bad return"}
        assert all(verdict.cause == expected[by_key[key]] for key, verdict in seen)


def test_a_consumer_may_stop_and_come_back(group) -> None:
    _, pool = spied(SingleMode())
    pool.submit(group("1", "2", "3"))
    assert next(pool.completed(wait=False))[1].reward == 1.0
    assert [verdict.reward for _, verdict in pool.completed(wait=False)] == [2.0, 3.0]


def test_closing_discards_waiting_items(group) -> None:
    spy, pool = spied(BatchMode(5))
    pool.submit(group("1", "2"))
    pool.close()
    assert list(pool.completed(wait=True)) == []
    assert spy.calls == []


def test_an_interrupt_passes_through(item) -> None:
    def stop(task: Task, text: str) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        InlinePool(FunctionVerifier(stop)).submit([item()])


def test_a_failure_is_retried_and_then_attributed_to_the_sample(item) -> None:
    calls: list[str] = []

    def shaky(task: Task, text: str) -> float:
        calls.append(text)
        if text == "once" and calls.count(text) > 1:
            return 1.0
        raise OSError(text)

    pool = InlinePool(FunctionVerifier(shaky, floor=-1.0))
    pool.submit([item("once"), item("ever", key=(0, 0, 0, 1))])
    once, ever = (verdict for _, verdict in pool.completed(wait=True))
    assert (once.status, once.reward, once.tries) == ("scored", 1.0, 2)
    assert (ever.status, ever.reward, ever.cause, ever.tries) == ("rejected", -1.0, "exception", 2)
