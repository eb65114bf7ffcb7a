"""Metrics of groups and evaluations compared with values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from steelyard.training.evaluation import summarise
from steelyard.training.metrics import floors_above_scored, group_metrics, pool_metrics
from steelyard.types import FinishReason, Group, GroupSummary, Sample, Task, Turn, Verdict
from tests.tiny import sample_of


def group(*verdicts: Verdict, texts: tuple[str, ...] = (), finishes: tuple[FinishReason, ...] = ()) -> Group:
    samples = tuple(
        sample_of(
            [1] * (index + 2),
            text=texts[index] if texts else str(index),
            finish=finishes[index] if finishes else "stop",
        )
        for index in range(len(verdicts))
    )
    return Group(Task("t", ""), samples, verdicts)


def summaries(*groups: Group) -> list[GroupSummary]:
    return [one.summary() for one in groups]


LOST = Verdict.unscored("timeout", "3 s")


def test_the_metrics_of_a_step() -> None:
    groups = [
        group(
            Verdict.scored(1.0, success=True, parts={"form": 0.5}),
            Verdict.scored(0.0, parts={"form": 1.0, "size": 2.0}),
            Verdict.rejected("no brick", floor=-1.0),
            LOST,
            finishes=("stop", "stop", "length", "stop"),
        ),
        group(Verdict.scored(2.0, success=True), Verdict.scored(2.0)),
    ]
    metrics = group_metrics(summaries(*groups))
    assert metrics["share/scored"] == pytest.approx(4 / 6)
    assert metrics["share/rejected"] == pytest.approx(1 / 6)
    assert metrics["share/unscored"] == pytest.approx(1 / 6)
    assert metrics["reward/mean"] == pytest.approx((1 + 0 - 1 + 2 + 2) / 5)
    assert metrics["reward/std"] == pytest.approx(math.sqrt(sum((r - 0.8) ** 2 for r in (1, 0, -1, 2, 2)) / 5))
    assert metrics["reward/best"] == 2.0
    assert metrics["reward/histogram"] == [1.0, 0.0, -1.0, 2.0, 2.0]
    assert metrics["success"] == pytest.approx(2 / 5)
    assert metrics["length/mean"] == pytest.approx((1 + 2 + 3 + 4 + 1 + 2) / 6)
    assert metrics["length/truncated"] == pytest.approx(1 / 6)
    assert metrics["parts/form/mean"] == 0.75
    assert metrics["parts/size/histogram"] == [2.0]
    assert metrics["unscored/timeout"] == 1.0
    assert metrics["samples"] == 6


def with_turns(sample: Sample, turns: int) -> Sample:
    """Return an episode with ``turns`` policy turns and a reply between each two of them."""
    roles = (["assistant", "user"] * turns)[: 2 * turns - 1]
    return replace(sample, turns=tuple(Turn(role, "", 0, 0) for role in roles))


def test_episodes_have_mean_turns_and_shares_of_the_limits_that_ended_them() -> None:
    plain = group(*[Verdict.scored(1.0)] * 4, finishes=("stop", "turns", "turns", "length"))
    assert not [name for name in group_metrics(summaries(plain)) if name.startswith("episode/")]
    played = replace(plain, samples=tuple(map(with_turns, plain.samples, (2, 4, 4, 1))))
    expected = {
        "episode/turns": 11 / 4,
        "episode/ended_by/turns": 0.5,
        "episode/ended_by/length": 0.25,
        "episode/ended_by/episode_length": 0.0,
    }
    metrics = group_metrics(summaries(played))
    assert {name: metrics[name] for name in expected} == expected
    evaluated = summarise([played], [1])
    assert {name: evaluated.metrics()[f"eval/{name}"] for name in expected} == expected
    assert "2.75 turns per episode" in repr(evaluated)
    assert "turns" not in repr(summarise([plain], [1]))


def test_the_parts_of_an_evaluation_are_means_over_tasks() -> None:
    found = summarise(
        [
            group(
                Verdict.scored(1.0, parts={"form": 0.5}), Verdict.scored(0.0, parts={"form": 1.0, "size": 2.0}), LOST
            ),
            group(Verdict.scored(2.0, parts={"form": 0.0}), Verdict.scored(2.0)),
            group(LOST),
        ],
        ks=(1,),
    )
    assert found.parts == {"form": pytest.approx((0.75 + 0.0) / 2), "size": 2.0}
    assert found.metrics()["eval/parts/form"] == pytest.approx(0.375)
    assert summarise([group(LOST)], ks=(1,)).parts == {}


def test_a_rejected_sample_without_a_floor_gets_the_lowest_scored_reward() -> None:
    metrics = group_metrics(
        summaries(group(Verdict.rejected("long"), Verdict.scored(-2.0), Verdict.scored(-4.0), LOST))
    )
    assert metrics["reward/histogram"] == [-4.0, -2.0, -4.0]
    assert metrics["floors/above_scored"] == 0.0
    assert group(Verdict.rejected("long"), Verdict.scored(2.0)).verdicts[0].reward == 0.0
    (rejected, _) = group(Verdict.rejected("long"), LOST).verdicts
    assert (rejected.reward, rejected.open_floor) == (0.0, True)


def test_a_declared_floor_above_a_scored_reward_is_counted_and_described() -> None:
    floors = group(
        Verdict.rejected("a", floor=-10.0),
        Verdict.rejected("b", floor=-30.0),
        Verdict.scored(-12.5),
        Verdict.scored(3.0),
    )
    equal = group(Verdict.rejected("a", floor=1.0), Verdict.scored(1.0))
    alone = group(Verdict.rejected("a", floor=1.0), LOST)
    assert group_metrics(summaries(equal, alone), summaries(floors))["floors/above_scored"] == 1 / 8
    (found,) = floors_above_scored(summaries(equal, floors, alone))
    assert found == ("t", -10.0, -12.5)
    assert "-10" in str(found)
    assert "at most -12.5" in str(found)
    assert "task t" in str(found)


def test_in_an_evaluation_a_rejected_sample_gets_the_lowest_reward_of_all_tasks() -> None:
    """A task may have a single sample, so its own group does not suffice."""
    groups = [group(Verdict.rejected("long")), group(Verdict.scored(-1.0)), group(Verdict.scored(-3.0))]
    found = summarise(groups, (1,))
    assert found.reward.mean == pytest.approx(-7 / 3)
    assert [one.verdicts[0].reward for one in found.groups] == [-3.0, -1.0, -3.0]
    declared = [group(Verdict.rejected("long", floor=-2.0)), group(Verdict.scored(-3.0))]
    assert summarise(declared, (1,)).reward.mean == -2.5


def test_a_step_without_any_score_has_no_reward() -> None:
    metrics = group_metrics(summaries(group(LOST, LOST)))
    assert "reward/mean" not in metrics
    assert metrics["share/unscored"] == 1.0


def test_the_results_of_an_evaluation() -> None:
    """Tasks have equal weight however many samples were scored; pass@2 ignores a task with a single score."""
    groups = [
        group(Verdict.scored(1.0, success=True), Verdict.scored(0.0), Verdict.scored(0.0), texts=("a", "b", "b")),
        group(Verdict.scored(0.5), LOST, LOST, texts=("a", "c", "d")),
        group(LOST, LOST, LOST, texts=("a", "a", "a")),
    ]
    found = summarise(groups, (1, 2))
    assert found.reward.mean == pytest.approx((1 / 3 + 0.5) / 2)
    assert found.best.mean == pytest.approx((1.0 + 0.5) / 2)
    assert found.success.mean == pytest.approx((1 / 3 + 0) / 2)
    assert found.pass_at[1].mean == pytest.approx((1 / 3 + 0) / 2)
    assert found.pass_at[2].mean == pytest.approx(2 / 3)  # 1 - C(2,2)/C(3,2)
    assert found.distinct == pytest.approx(4 / 9)
    assert found.unscored == pytest.approx(5 / 9)
    assert found.reward.low <= found.reward.mean <= found.reward.high
    assert found.metrics()["eval/pass@2"] == found.pass_at[2].mean


def test_an_evaluation_without_any_score_is_nan() -> None:
    found = summarise([group(LOST)], (1,))
    assert math.isnan(found.reward.mean)
    assert found.unscored == 1.0


def test_the_cache_hit_rate_is_a_metric_if_there_is_a_cache() -> None:
    assert pool_metrics({"pool/retried": 2.0}) == {"pool/retried": 2.0}
    assert pool_metrics({"cache/hits": 3.0, "cache/misses": 1.0})["cache/hit_rate"] == 0.75
    assert "cache/hit_rate" not in pool_metrics({"cache/hits": 0.0, "cache/misses": 0.0})


def test_the_repr_of_an_evaluation_is_one_line() -> None:
    shown = repr(summarise([group(Verdict.scored(1.0, success=True), Verdict.scored(0.5), LOST)], ks=(1, 2)))
    assert "\n" not in shown
    assert shown.startswith("Evaluation(1 task: reward 0.750 [")
    assert all(figure in shown for figure in ("success 0.500 [", "pass@1 0.500 [", "pass@2 1.000 [", "33% unscored"))
