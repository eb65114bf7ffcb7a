"""Verifiers built from functions, lists, mappings and classes."""

from __future__ import annotations

import asyncio
from functools import partial
from operator import itemgetter

import pytest

from steelyard.errors import VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification import (
    BatchMode,
    FunctionVerifier,
    GroupMode,
    InlinePool,
    Item,
    SingleMode,
    TRLVerifier,
    Verifier,
    WeightedVerifier,
    as_verifier,
    safe_verify,
    verifier,
)


def correct(task: Task, text: str) -> bool:
    return text == task.spec["answer"]


def length(task: Task, text: str) -> float:
    return len(text) / 10


def test_a_plain_function_gets_task_and_text(item) -> None:
    checked = as_verifier(correct)
    assert isinstance(checked, Verifier)
    assert (checked.name, checked.mode, checked.floor) == ("correct", SingleMode(), None)
    assert safe_verify(checked, [item("4", answer="4"), item("5", answer="4")]) == [
        Verdict.scored(1.0, success=True),
        Verdict.scored(0.0),
    ]


def test_the_decorator_declares_and_leaves_the_function_callable(item) -> None:
    @verifier(mode="batch", size=3, floor=-1.0, success_at=0.2, version="7", deterministic=True, name="len")
    def lengths(tasks: list[Task], texts: list[str]) -> list[float]:
        return [len(text) / 10 for text in texts]

    assert lengths([], ["ab"]) == [0.2]
    assert as_verifier(lengths) is lengths
    assert (lengths.name, lengths.mode, lengths.floor) == ("len", BatchMode(3), -1.0)
    assert (lengths.version, lengths.deterministic) == ("7", True)
    assert [verdict.success for verdict in safe_verify(lengths, [item("a"), item("ab")])] == [False, True]


def test_the_decorator_without_arguments() -> None:
    @verifier
    def score(task: Task, text: str) -> float:
        return 1.0

    assert isinstance(score, FunctionVerifier)
    assert (score.mode, score.version, score.deterministic) == (SingleMode(), None, False)


def test_settings_override_what_a_function_declares() -> None:
    declared = verifier(floor=-1.0, version="1")(length)
    changed = as_verifier(declared, floor=-5.0, success_at=None)
    assert isinstance(changed, FunctionVerifier)
    assert (changed.floor, changed.version, changed.success_at) == (-5.0, "1", None)
    assert declared.floor == -1.0


def test_a_group_function_gets_one_task_and_all_texts(group) -> None:
    @verifier(mode="group")
    def distinct(task: Task, texts: list[str]) -> list[float]:
        assert task.id == "task-0"
        return [1 / texts.count(text) for text in texts]

    assert [verdict.reward for verdict in safe_verify(distinct, group("a", "b", "a", "c"))] == [0.5, 1.0, 0.5, 1.0]


def test_steps_pass_from_function_to_pool(item) -> None:
    def graded(task: Task, text: str) -> Verdict:
        return Verdict.scored(1.0, steps=[(2, 0.25), (4, 0.75)])

    pool = InlinePool(as_verifier(graded))
    pool.submit([item("abcd")])
    assert [verdict.steps for _, verdict in pool.completed(wait=True)] == [((2, 0.25), (4, 0.75))]


def test_coroutines_are_awaited_even_under_a_running_loop(item) -> None:
    async def slow(task: Task, text: str) -> float:
        await asyncio.sleep(0)
        return 0.5

    async def notebook() -> list[Verdict]:
        return safe_verify(as_verifier(slow), [item()])

    assert safe_verify(as_verifier(slow), [item()]) == asyncio.run(notebook()) == [Verdict.scored(0.5)]


def test_partials_objects_and_built_ins_have_names() -> None:
    class Scorer:
        def __call__(self, task: Task, text: str) -> float:
            return 0.0

    assert as_verifier(partial(length)).name == "length"
    assert as_verifier(Scorer()).name == "Scorer"
    assert as_verifier(max).name == "max", "a built-in without a signature is accepted"


def test_several_come_as_lists_pairs_and_mappings() -> None:
    listed = as_verifier([correct, (length, 0.5)])
    assert isinstance(listed, WeightedVerifier)
    assert [(part.name, part.weight) for part in listed.parts] == [("correct", 1.0), ("length", 0.5)]
    named = as_verifier({"correct": (correct, 2), "short": length}, floor=-1.0)
    assert isinstance(named, WeightedVerifier)
    assert [(part.name, part.weight) for part in named.parts] == [("correct", 2.0), ("short", 1.0)]
    assert named.floor == -1.0


def test_a_completions_parameter_means_trl_style() -> None:
    def reward(completions: list[str], **kwargs: object) -> list[float]:
        return [0.0 for _ in completions]

    found = as_verifier(reward)
    assert isinstance(found, TRLVerifier)
    assert found.mode == GroupMode()
    batched = verifier(mode="batch", size=4)(reward)
    assert isinstance(batched, TRLVerifier)
    assert batched.mode == BatchMode(4)


@pytest.mark.parametrize("function", [lambda text: 1.0, lambda: 1.0, lambda a, b, c: 1.0])
def test_a_function_that_cannot_take_task_and_text_is_rejected(function: object) -> None:
    with pytest.raises(VerifierError, match=r"cannot be called as f\(task, text\).*completions"):
        as_verifier(function)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "batch"}, "needs a size"),
        ({"mode": "one", "size": 3}, "only with mode"),
        ({"mode": "many"}, 'mode="many" is unknown'),
    ],
)
def test_invalid_modes_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(VerifierError, match=message):
        as_verifier(correct, **settings)  # pyright: ignore[reportArgumentType]


def test_size_alone_means_a_batch() -> None:
    assert as_verifier(correct, size=5).mode == BatchMode(5)
    with pytest.raises(ValueError, match="batch size = 0"):
        BatchMode(0)


@pytest.mark.parametrize("thing", [3, None, object()])
def test_an_object_that_is_not_a_verifier_is_rejected(thing: object) -> None:
    with pytest.raises(VerifierError, match="is not a verifier"):
        as_verifier(thing)


class Undeclared:
    """Has ``verify`` but is not derived from ``Verifier``."""

    name = "undeclared"

    def verify(self, items: list[Item]) -> list[Verdict]:
        return [Verdict.scored(1.0) for _ in items]

    def __call__(self, task: Task, text: str) -> float:
        return 0.0


class Declared(Undeclared, Verifier):
    """The same class, derived from ``Verifier``."""


def test_a_class_with_verify_must_derive_from_verifier(item) -> None:
    with pytest.raises(VerifierError, match=r"Undeclared has verify\(items\).*derive.*\.Verifier"):
        as_verifier(Undeclared())
    declared = as_verifier(Declared())
    assert (declared.mode, declared.floor, declared.isolate, dict(declared.blame)) == (SingleMode(), None, True, {})
    pool = InlinePool(declared)
    pool.submit([item()])
    assert [verdict.reward for _, verdict in pool.completed(wait=True)] == [1.0]


@pytest.mark.parametrize("part", [(correct, "much"), (correct, 1.0, 2.0)])
def test_invalid_parts_are_rejected(part: object) -> None:
    with pytest.raises(VerifierError, match="a part must be"):
        as_verifier([part])


def test_settings_on_the_wrong_verifier_are_rejected() -> None:
    with pytest.raises(VerifierError, match=r"version .*weighted verifier; set it"):
        as_verifier([correct, length], version="1")
    with pytest.raises(VerifierError, match="cannot override floor"):
        as_verifier(WeightedVerifier(as_verifier([correct]).parts), floor=1.0)  # pyright: ignore[reportAttributeAccessIssue]


def test_itemgetter_has_a_name_too() -> None:
    assert as_verifier(itemgetter).name == "itemgetter"
