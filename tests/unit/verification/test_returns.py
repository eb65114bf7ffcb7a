"""Conversion of return values into verdicts."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from steelyard.errors import Invalid
from steelyard.types import Verdict
from steelyard.verification.returns import BadReturn, as_scores, checked_verdict, read_verdict, verdict_of


def verdict(raw: object, text: str = "abcdef", success_at: float | None = 1.0) -> Verdict:
    return verdict_of(raw, text, floor=-3.0, success_at=success_at)


@pytest.mark.parametrize(
    ("raw", "reward", "success"),
    [
        (True, 1.0, True),
        (False, 0.0, False),
        (0.25, 0.25, False),
        (1.0, 1.0, True),
        (3, 3.0, True),
        (-2, -2.0, False),
        (np.float32(0.5), 0.5, False),
        (np.bool_(True), 1.0, True),
        (np.array(1.5), 1.5, True),
        (torch.tensor(0.5), 0.5, False),
    ],
)
def test_numbers_and_bools_are_scored(raw: object, reward: float, success: bool) -> None:
    assert verdict(raw) == Verdict.scored(reward, success=success)


def test_success_needs_at_least_success_at() -> None:
    assert verdict(0.5, success_at=0.5).success
    assert not verdict(0.4999, success_at=0.5).success
    assert not verdict(9.0, success_at=None).success
    assert verdict(True, success_at=None).success, "a bool is itself the success"


def test_none_is_no_score() -> None:
    assert verdict(None).status == "unscored"
    assert verdict(None).cause == "no score"


@pytest.mark.parametrize("raw", [math.nan, math.inf, -math.inf, np.float64("nan"), "0.5", [0.5], {}, object(), 1j])
def test_values_that_are_not_finite_numbers_are_bad_returns(raw: object) -> None:
    given = verdict(raw)
    assert (given.status, given.cause) == ("unscored", "bad return")
    assert given.reason


def test_an_invalid_in_a_list_of_scores_is_rejected_with_the_floor() -> None:
    assert verdict(Invalid("no roof")) == Verdict.rejected("no roof", floor=-3.0)


def test_verdicts_keep_their_steps_and_parts() -> None:
    given = Verdict.scored(1.5, success=True, parts={"a": 1.0, "b": 0.5}, steps=[(2, 1.0), (6, 0.5)])
    assert verdict(given) == given
    assert verdict(Verdict.rejected("why", floor=-1.0)) == Verdict.rejected("why", floor=-1.0)
    assert verdict(Verdict.rejected("why")) == Verdict.rejected("why", floor=-3.0), (
        "the floor of the verifier applies, as for Invalid"
    )


@pytest.mark.parametrize("raw", [Invalid("why"), Verdict.rejected("why")])
def test_an_open_floor_survives_serialisation(raw: object) -> None:
    found = verdict_of(raw, "", floor=None, success_at=None)
    assert (found.status, found.reward, found.open_floor) == ("rejected", 0.0, True)
    assert Verdict.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert "open_floor" not in Verdict.rejected("why", floor=0.0).to_json()
    assert verdict(Verdict.unscored("timeout", "3 s")) == Verdict.unscored("timeout", "3 s")


def test_an_unscored_verdict_without_a_cause_gets_one() -> None:
    given = verdict(Verdict("unscored", reason="the server is down"))
    assert given == Verdict.unscored("no cause given", "the server is down")
    assert given.verifier_failed
    assert Verdict("unscored").verifier_failed
    assert not any(plain.verifier_failed for plain in (Verdict.scored(0.0), Verdict.rejected("why")))


def test_numpy_values_in_a_verdict_become_plain_floats() -> None:
    numbers: Any = np.float32(0.5), np.float64(2), np.int64(1)
    half, two, one = numbers
    given = checked_verdict(Verdict("scored", half, {"a": two}, steps=((one, half),)), "ab", 0.0)
    assert given == Verdict.scored(0.5, parts={"a": 2.0}, steps=[(1, 0.5)])
    assert [type(given.reward), type(given.parts["a"]), *map(type, given.steps[0])] == [float, float, int, float]


@pytest.mark.parametrize(
    "broken",
    [
        Verdict("scored", math.nan),
        Verdict("rejected", math.inf),
        Verdict.scored(1.0, parts={"a": math.nan}),
        Verdict("scored", 1.0, parts={"a": "high"}),  # pyright: ignore[reportArgumentType]
        Verdict.scored(1.0, steps=[(3, 1.0), (3, 1.0)]),
        Verdict.scored(1.0, steps=[(4, 1.0), (2, 1.0)]),
        Verdict.scored(1.0, steps=[(7, 1.0)]),
        Verdict.scored(1.0, steps=[(-1, 1.0)]),
        Verdict.scored(1.0, steps=[(2, math.nan)]),
        Verdict("scored", 1.0, steps=((2, 1.0, 3.0),)),  # pyright: ignore[reportArgumentType]
        Verdict("scored", 1.0, steps=((2.5, 1.0),)),  # pyright: ignore[reportArgumentType]
    ],
)
def test_an_invalid_verdict_is_a_bad_return(broken: Verdict) -> None:
    assert (verdict(broken).status, verdict(broken).cause) == ("unscored", "bad return")


@pytest.mark.parametrize("raw", [[1.0, 2.0], (1.0, 2.0), np.array([1.0, 2.0]), torch.tensor([1.0, 2.0])])
def test_scores_can_be_any_sequence(raw: object) -> None:
    assert [float(score) for score in as_scores(raw, 2)] == [1.0, 2.0]  # pyright: ignore[reportArgumentType]


WITHOUT_ORDER = [{1.0, 2.0}, frozenset((1.0, 2.0)), {"a": 1, "b": 2}.keys()]


@pytest.mark.parametrize(
    "raw", [[1.0], [1.0] * 3, 1.0, None, "ab", {"a": 1, "b": 2}, np.ones((2, 1)), itertools.count(), *WITHOUT_ORDER]
)
def test_scores_of_the_wrong_number_or_kind_are_rejected(raw: object) -> None:
    with pytest.raises(BadReturn, match="2 scores"):
        as_scores(raw, 2)


@pytest.mark.parametrize(
    "given",
    [
        Verdict.scored(0.5, success=True, parts={"a": 1.0}, steps=[(2, 0.5)]),
        Verdict.rejected("why", floor=-1.0),
        Verdict.unscored("timeout", "3 s", detail="late", tries=2),
    ],
)
def test_a_verdict_is_read_back_from_json(given: Verdict) -> None:
    assert read_verdict(json.loads(json.dumps(given.to_json())), "ab") == given


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "perfect"},
        {"reward": "1"},
        {"reward": None},
        {"reward": math.inf},
        {"reward": 10**400},
        {"success": 1},
        {"parts": [["a", 1.0]]},
        {"parts": {"a": {"b": 1.0}}},
        {"steps": [[3, 1.0]]},
        {"steps": [7]},
        {"reason": ["why"]},
        {"cause": None},
        {"tries": 0},
        {"tries": True},
        {"extra": 1},
    ],
)
def test_json_that_is_not_a_verdict_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(BadReturn):
        read_verdict({**Verdict.scored(0.5).to_json(), **wrong}, "ab")
    for data in (None, 3, [], "scored", {}):
        with pytest.raises(BadReturn):
            read_verdict(data, "ab")
