"""A safe call: every item gets a verdict, and a bad item does not affect the others."""

from __future__ import annotations

import sys

import pytest

from steelyard.errors import Invalid
from steelyard.types import Task, Verdict
from steelyard.verification import BatchMode, FunctionVerifier, GroupMode, Item, safe_verify
from steelyard.verification.safe_verify import TAIL_CHARACTERS


def moody(task: Task, text: str) -> float:
    if text == "invalid":
        raise Invalid("not a number")
    if text == "raise":
        raise ZeroDivisionError("of my own")
    if text == "exit":
        sys.exit(3)
    if text == "memory":
        raise MemoryError
    if text == "interrupt":
        raise KeyboardInterrupt
    if text == "long":
        raise ValueError("y" * 5000)
    return float(text)


def moody_batch(tasks: list[Task], texts: list[str]) -> list[float]:
    return [moody(task, text) for task, text in zip(tasks, texts, strict=True)]


def moody_group(task: Task, texts: list[str]) -> list[float]:
    return [moody(task, text) for text in texts]


ONE = FunctionVerifier(moody, floor=-2.0)


def statuses(verdicts: list[Verdict]) -> list[str]:
    return [verdict.status if verdict.has_reward else verdict.cause for verdict in verdicts]


def test_invalid_is_rejected_with_the_floor_of_the_verifier(item) -> None:
    assert safe_verify(ONE, [item("invalid")]) == [Verdict.rejected("not a number", floor=-2.0)]


def test_an_exception_is_unscored_with_the_tail_of_its_traceback(item) -> None:
    (verdict,) = safe_verify(ONE, [item("raise")])
    assert (verdict.status, verdict.cause) == ("unscored", "exception")
    assert verdict.reason.endswith("ZeroDivisionError: of my own")
    assert "in moody" in verdict.reason
    assert "in judge\n" not in verdict.reason, "frames of this package are of no use to the user"


def test_the_tail_is_bounded(item) -> None:
    (verdict,) = safe_verify(ONE, [item("long")])
    assert len(verdict.reason) <= TAIL_CHARACTERS + 3


def test_exit_and_memory_errors_have_their_own_causes(item) -> None:
    assert safe_verify(ONE, [item("exit")])[0].cause == "exited"
    assert "3" in safe_verify(ONE, [item("exit")])[0].reason
    assert safe_verify(ONE, [item("memory")])[0].cause == "out of memory"


def test_ctrl_c_passes_through(item) -> None:
    with pytest.raises(KeyboardInterrupt):
        safe_verify(ONE, [item("interrupt")])


@pytest.mark.parametrize("verifier", [ONE, FunctionVerifier(moody_batch, mode=BatchMode(8))])
def test_a_bad_item_of_a_batch_does_not_affect_the_others(verifier: FunctionVerifier, item) -> None:
    verdicts = safe_verify(verifier, [item("1"), item("raise"), item("invalid"), item("0.5"), item("nan")])
    assert statuses(verdicts) == ["scored", "exception", "rejected", "scored", "bad return"]
    assert [verdicts[0].reward, verdicts[3].reward] == [1.0, 0.5]


def test_a_group_fails_as_a_whole_because_its_samples_are_compared(group) -> None:
    verifier = FunctionVerifier(moody_group, mode=GroupMode())
    assert statuses(safe_verify(verifier, group("1", "raise", "2"))) == ["exception"] * 3


@pytest.mark.parametrize("returned", [[1.0], [1.0] * 3, 1.0, "ab", None])
@pytest.mark.parametrize("mode", [BatchMode(8), GroupMode()])
def test_a_wrong_number_of_scores_is_a_bad_return_for_all(returned: object, mode: BatchMode | GroupMode, group) -> None:
    calls: list[int] = []

    def wrong(task: object, texts: list[str]) -> object:
        calls.append(len(texts))
        return returned

    verdicts = safe_verify(FunctionVerifier(wrong, mode=mode), group("a", "b"))
    assert statuses(verdicts) == ["bad return"] * 2
    assert calls == [2], "a wrong length concerns all items, so there is no second try"


class Homemade:
    """A verifier class that returns arbitrary values."""

    name = "homemade"
    mode = BatchMode(4)
    floor = 0.0
    version = None
    deterministic = True

    def __init__(self, returned: list[object]) -> None:
        self.returned = returned

    def verify(self, items: list[Item]) -> list[Verdict]:
        return self.returned  # pyright: ignore[reportReturnType]


def test_results_of_verifier_classes_are_checked(group) -> None:
    two = group("a", "b")
    assert statuses(safe_verify(Homemade([Verdict.scored(1.0), 0.5]), two)) == ["scored", "bad return"]  # pyright: ignore[reportArgumentType]
    assert statuses(safe_verify(Homemade([Verdict.scored(1.0)]), two)) == ["bad return"] * 2  # pyright: ignore[reportArgumentType]
    assert statuses(safe_verify(Homemade([Verdict("scored", float("inf")), Verdict.scored(0)]), two)) == [  # pyright: ignore[reportArgumentType]
        "bad return",
        "scored",
    ]


class Unprintable(Invalid):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def rambling(task: Task, text: str) -> Verdict | float:
    if text == "unprintable":
        raise Unprintable
    if text == "invalid":
        raise Invalid("x" * 20_000_000)
    if text == "unscored":
        return Verdict.unscored("c" * 20_000_000, "y" * 20_000_000, detail="d" * 20_000_000)
    return Verdict.scored(1.0, parts={"p" * 20_000_000: 1.0, "part\x1b[2J\ud800": 2.0})


@pytest.mark.parametrize("text", ["unprintable", "invalid", "unscored", "scored"])
def test_texts_of_a_verifier_are_bounded(item, text: str) -> None:
    (verdict,) = safe_verify(FunctionVerifier(rambling), [item(text)])
    assert verdict.status == {"unprintable": "rejected", "invalid": "rejected"}.get(text, text)
    assert len(str(verdict.to_json())) < 10_000
    assert all(name.isprintable() for name in [verdict.cause, verdict.detail, *verdict.parts])
