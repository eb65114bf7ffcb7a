"""Weighted verifiers: sums, names, missing parts, failures, successes and steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.errors import Invalid, VerifierError
from steelyard.types import Task, Verdict
from steelyard.verification import BatchMode, FunctionVerifier, GroupMode, WeightedPart, WeightedVerifier
from tests.verifying import verdicts_of


def named(name: str, *returned: object, mode: object = None) -> FunctionVerifier:
    """Return a verifier that returns the given values in turn, and raises those that are exceptions."""
    values = iter(returned)

    def one(task: Task, text: str) -> object:
        value = next(values)
        if isinstance(value, BaseException):
            raise value
        return value

    def many(tasks: object, texts: list[str]) -> object:
        return [next(values) for _ in texts]

    if mode is None:
        return FunctionVerifier(one, name=name)
    return FunctionVerifier(many, name=name, mode=mode)  # pyright: ignore[reportArgumentType]


def weighted(*parts: tuple[FunctionVerifier, float], **settings: object) -> WeightedVerifier:
    return WeightedVerifier(tuple(WeightedPart(part, weight) for part, weight in parts), **settings)  # pyright: ignore[reportArgumentType]


def test_the_reward_is_the_weighted_sum_and_parts_are_raw(item) -> None:
    (verdict,) = verdicts_of(weighted((named("a", 0.5), 2.0), (named("b", -1.0), 0.25)), [item()])
    assert verdict == Verdict.scored(0.75, parts={"a": 0.5, "b": -1.0})


def test_none_drops_a_part_and_all_none_is_unscored(item) -> None:
    both = weighted((named("a", None, None), 2.0), (named("b", 0.5, None), 3.0))
    assert verdicts_of(both, [item(), item()]) == [
        Verdict.scored(1.5, parts={"b": 0.5}),
        Verdict.unscored("no score", "every part returned None"),
    ]


def test_a_part_that_fails_makes_only_that_sample_unscored(item) -> None:
    both = weighted((named("a", ValueError("odd"), 1.0), 1.0), (named("b", 0.5, 0.5), 1.0))
    failed, scored = verdicts_of(both, [item(), item()])
    assert (failed.status, failed.cause) == ("unscored", "exception")
    assert failed.reason.startswith("a: ")
    assert scored.reward == 1.5


def test_a_rejection_by_a_part_uses_the_floor_of_the_sum(item) -> None:
    (verdict,) = verdicts_of(
        weighted((named("a", Invalid("no roof")), 1.0), (named("b", 0.5), 1.0), floor=-2.0), [item()]
    )
    assert (verdict.status, verdict.reward, verdict.reason) == ("rejected", -2.0, "a: no roof")
    assert verdict.parts["b"] == 0.5


def test_the_floor_of_the_sum_is_the_weighted_sum_of_floors(item) -> None:
    """Otherwise an invalid sample could get a higher reward than a valid but bad one."""
    roof = replace(named("roof", Invalid("no roof"), Verdict.rejected("no roof"), -1.0), floor=-1.0)
    combined = weighted((roof, 2.0), (replace(named("b", 0.5, 0.5, 0.5), floor=-0.5), 1.0))
    assert combined.floor == -2.5
    verdicts = verdicts_of(combined, [item(), item(), item()])
    assert [verdict.reward for verdict in verdicts] == [-2.5, -2.5, -1.5]
    assert not any(verdict.open_floor for verdict in verdicts)
    assert replace(combined, floor=0.0).floor == 0.0, "an explicit floor takes precedence"


@pytest.mark.parametrize(("floors", "weights"), [((-1.0, None), (1.0, 1.0)), ((-1.0, -1.0), (1.0, -1.0))])
def test_floors_that_are_not_lower_bounds_give_no_floor(floors, weights, item) -> None:
    """A part without a floor may return less than 0, and a negative weight reverses the order of rewards."""
    parts = [replace(named(name, Invalid("no"), 2.0), floor=floor) for name, floor in zip("ab", floors, strict=True)]
    combined = weighted(*zip(parts, weights, strict=True))
    assert combined.floor is None
    verdict, scored = verdicts_of(combined, [item(), item()])
    assert (verdict.status, verdict.reward, verdict.open_floor) == ("rejected", 0.0, True)
    assert verdict.parts == {name: floor for name, floor in zip("ab", floors, strict=True) if floor is not None}
    assert (scored.status, scored.open_floor) == ("scored", False)


def test_success_needs_every_deciding_part_that_gave_a_score(item) -> None:
    def success(a: object, b: object, *, decides: bool = True) -> bool:
        parts = (WeightedPart(named("a", a)), WeightedPart(named("b", b), decides=decides))
        return verdicts_of(WeightedVerifier(parts), [item()])[0].success

    assert success(True, 1.0)
    assert not success(True, 0.5)
    assert success(True, 0.5, decides=False)
    assert success(True, None)
    assert not success(None, 1.0, decides=False), "no deciding part has a score"


def test_success_by_the_sum(item) -> None:
    verifier = weighted((named("a", 0.5, 0.5), 1.0), (named("b", 0.25, 0.5), 1.0), success_at=1.0)
    assert [verdict.success for verdict in verdicts_of(verifier, [item(), item()])] == [False, True]


def test_parts_of_parts_are_kept_under_their_name(item) -> None:
    inner = Verdict.scored(0.5, parts={"roof": 1.0})
    assert verdicts_of(weighted((named("house", inner), 1.0)), [item()])[0].parts == {"house": 0.5, "house/roof": 1.0}


def test_steps_are_summed_by_offset_and_other_rewards_count_at_the_end(item) -> None:
    first = named("a", Verdict.scored(3.0, steps=[(1, 1.0), (3, 2.0)]))
    second = named("b", Verdict.scored(1.0, steps=[(3, 1.0)]))
    (verdict,) = verdicts_of(weighted((first, 1.0), (second, 2.0), (named("c", 0.5), 4.0)), [item("abcd")])
    assert verdict.steps == ((1, 1.0), (3, 4.0), (4, 2.0))
    assert sum(reward for _, reward in verdict.steps) == verdict.reward == 7.0


def test_each_part_is_called_in_its_own_mode(group) -> None:
    calls: dict[str, list[int]] = {"batch": [], "group": []}

    def spy(name: str, mode: object) -> FunctionVerifier:
        def many(tasks: object, texts: list[str]) -> list[float]:
            calls[name].append(len(texts))
            return [0.0] * len(texts)

        return FunctionVerifier(many, name=name, mode=mode)  # pyright: ignore[reportArgumentType]

    verdicts_of(weighted((spy("batch", BatchMode(2)), 1.0), (spy("group", GroupMode()), 1.0)), group("a", "b", "c"))
    assert calls == {"batch": [2, 1], "group": [3]}


def test_duplicate_names_and_empty_sums_are_rejected() -> None:
    with pytest.raises(VerifierError, match="two parts are named 'a'"):
        weighted((named("a"), 1.0), (named("a"), 1.0))
    with pytest.raises(VerifierError, match="at least one"):
        WeightedVerifier(())
