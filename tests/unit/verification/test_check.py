"""The report of a check, compared with values computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from steelyard.types import FinishReason, Group, Task, Turn, Verdict
from steelyard.verification import Item
from steelyard.verification.check import CheckReport, EpisodeReport, summarise_check, summarise_episodes

HALF = Verdict.scored(0.5, parts={"a": 0.5})
ONE = Verdict.scored(1.0, success=True)
ZERO = Verdict.scored(0.0)
BROKEN = Verdict.unscored("exception", "ValueError: first")
INVALID = Verdict.rejected("no roof", floor=-1.0)


@pytest.fixture
def groups(item):
    def make(*verdicts: tuple[Verdict, ...]) -> list[Group]:
        one: Item = item()
        return [Group(Task(str(n), "p"), (one.sample,) * len(given), given) for n, given in enumerate(verdicts)]

    return make


def test_all_values(groups) -> None:
    verified = groups((ONE, ZERO, HALF), (ONE, ONE, BROKEN), (INVALID, INVALID, BROKEN), (BROKEN, BROKEN, BROKEN))
    report = summarise_check(verified, [], seconds=6.0, dead=3)
    rewards = [1.0, 0.0, 0.5, 1.0, 1.0, -1.0, -1.0]
    mean = sum(rewards) / 7
    assert report == CheckReport(
        groups=4,
        items=12,
        seconds_per_item=0.5,
        scored=5,
        rejected=2,
        unscored=5,
        reward_mean=pytest.approx(mean),  # pyright: ignore[reportArgumentType]
        reward_std=pytest.approx(math.sqrt(sum((r - mean) ** 2 for r in rewards) / 7)),  # pyright: ignore[reportArgumentType]
        reward_min=-1.0,
        reward_max=1.0,
        success_share=3 / 7,
        dead_share=3 / 4,
        determinism=None,
        causes={"exception": 5, "rejected: no roof": 2},
        examples={"exception": "ValueError: first"},
    )


def test_determinism_is_the_share_of_equal_verdicts(groups) -> None:
    first = groups((ONE, HALF), (BROKEN, INVALID))
    same_except_reasons = (
        Verdict.unscored("exception", "ValueError: second", tries=2),
        Verdict.rejected("x", floor=-1.0),
    )
    assert summarise_check(first, [(ONE, HALF), same_except_reasons], 1.0, dead=0).determinism == 1.0
    for changed in (
        Verdict.scored(0.5, parts={"a": 0.25}),
        Verdict.scored(0.5, parts={"a": 0.5}, success=True),
        Verdict.scored(0.5, parts={"a": 0.5}, steps=[(1, 0.5)]),
        Verdict.scored(0.25, parts={"a": 0.5}),
        BROKEN,
    ):
        assert summarise_check(first, [(ONE, changed), same_except_reasons], 1.0, dead=0).determinism == 0.75


def test_rejections_without_a_floor_are_the_same_twice(groups) -> None:
    twice = (Verdict.rejected("no roof"), Verdict.scored(-2.0))
    assert summarise_check(groups(twice), [twice], 1.0, dead=0).determinism == 1.0


def test_without_scores_there_are_no_rewards(groups) -> None:
    report = summarise_check(groups((BROKEN, BROKEN)), [], 1.0, dead=1)
    assert (report.reward_mean, report.reward_std, report.reward_min, report.reward_max) == (None,) * 4
    assert (report.success_share, report.dead_share) == (0.0, 1.0)


def test_a_check_without_samples_is_rejected(groups) -> None:
    with pytest.raises(ValueError, match="at least one sample"):
        summarise_check(groups(), [], 1.0, dead=0)


@pytest.mark.parametrize(
    ("verdicts", "second", "messages"),
    [
        ([(ONE, ZERO)], [(ONE, ZERO)], []),
        ([(ONE, ZERO)], [(ONE, ONE)], ["only 50% of the verdicts"]),
        ([(ZERO, ZERO), (ZERO, ZERO)], [], ["every reward is 0, "]),
        ([(ZERO, ZERO)] * 9 + [(ONE, ZERO)], [], ["90% of the groups have no advantages"]),
        (
            [(ONE, ZERO)] * 4 + [(BROKEN, BROKEN)],
            [],
            ["2 of 10 samples could not be scored, mostly because of 'exception'"],
        ),
        ([(ONE, ZERO)] * 20 + [(BROKEN, ZERO)], [], []),
    ],
)
def test_concerns_name_what_to_look_at(verdicts, second, messages: list[str], groups) -> None:
    dead = sum(len({verdict.reward for verdict in own}) < 2 for own in verdicts)
    concerns = summarise_check(groups(*verdicts), second, 1.0, dead=dead).concerns()
    assert len(concerns) == len(messages)
    assert all(concern.startswith(message) for concern, message in zip(concerns, messages, strict=True))


def episodes(turns: tuple[int, ...], finishes: dict[FinishReason, int], same: float = 1.0) -> EpisodeReport:
    return EpisodeReport(turns, finishes, failed=0, answers=10, seconds_per_answer=0.1, same=same)


@pytest.mark.parametrize(
    ("report", "messages"),
    [
        (episodes((1, 3), {"stop": 1, "turns": 1}), []),
        (episodes((3, 3), {"turns": 2}), ["every episode ended at episode.max_turns"]),
        (episodes((1, 1), {"turns": 2}), ["every episode ended at episode.max_turns"]),
        (episodes((1, 1), {"stop": 2}), ["no episode has a second turn"]),
        (episodes((1, 2), {"length": 2}), ["2 of 2 episodes ended at sampling.max_new_tokens"]),
        (episodes((1, 2), {"episode_length": 2}), ["2 of 2 episodes ended at episode.max_tokens"]),
        (episodes((1, 2), {"stop": 2}, same=0.5), ["only 50% of the episodes"]),
    ],
)
def test_concerns_about_episodes(report: EpisodeReport, messages: list[str], groups) -> None:
    concerns = summarise_check(groups((ONE, ZERO)), [], 1.0, dead=0, episodes=report).concerns()
    assert len(concerns) == len(messages)
    assert all(concern.startswith(message) for concern, message in zip(concerns, messages, strict=True))


def test_episodes_are_counted_by_turns_and_finish_reason(groups) -> None:
    (group,) = groups((ONE, ZERO))
    turns = (Turn("assistant", "a", 0, 1), Turn("user", "b", 1, 2), Turn("assistant", "c", 2, 3))
    samples = (replace(group.samples[0], turns=turns), replace(group.samples[1], turns=turns[:2], finish="turns"))
    report = summarise_episodes([replace(group, samples=samples)], answers=4, seconds=2.0, same=1.0)
    assert report == EpisodeReport((2, 1), {"stop": 1, "turns": 1}, 0, 4, 0.5, 1.0)
    failing = replace(group, samples=samples, verdicts=(BROKEN, ZERO))
    report = summarise_episodes([failing], answers=4, seconds=2.0, same=1.0)
    assert (report.finishes, report.failed) == ({"turns": 1}, 1)
