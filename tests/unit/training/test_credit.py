"""Credit assignment compared with values computed by hand: spans, discounts, excluded samples and penalties."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from steelyard.algorithms.advantages import best_of_group, group_mean, group_norm, rloo
from steelyard.algorithms.subsets import max_at_k
from steelyard.errors import TrainingError
from steelyard.training.credit import Credit, CreditedSample, LengthPenalty
from steelyard.types import FinishReason, Group, Sample, Task, Verdict
from tests.tiny import sample_of

MEAN = Credit(estimator=group_mean)


def sample(slot: int, index: int, tokens: int = 2, finish: FinishReason = "stop") -> Sample:
    """Return a sample with one prompt token and ``tokens`` decisions of two characters each."""
    starts = range(0, 2 * tokens, 2)
    return sample_of([1] * (tokens + 1), key=(0, slot, 0, index), finish=finish, starts=starts)


def group(*verdicts: Verdict, slot: int = 0, samples: Sequence[Sample] | None = None) -> Group:
    samples = samples or [sample(slot, index) for index in range(len(verdicts))]
    return Group(Task(f"t{slot}", ""), tuple(samples), verdicts)


def scored(reward: float, *steps: tuple[int, float]) -> Verdict:
    return Verdict.scored(reward, steps=steps)


def assign(credit: Credit, *groups: Group) -> list[CreditedSample]:
    return credit.assign(groups)


def advantages(credit: Credit, *groups: Group) -> list[list[float]]:
    return [item.advantage_N.tolist() for item in assign(credit, *groups)]


def test_one_terminal_reward_is_the_advantage_of_every_decision() -> None:
    assert advantages(MEAN, group(scored(1.0), scored(4.0))) == [[-1.5, -1.5], [1.5, 1.5]]


def test_samples_are_compared_within_their_group_and_stay_in_order() -> None:
    credited = assign(MEAN, group(scored(0.0), scored(1.0)), group(scored(10.0), scored(14.0), slot=1))
    assert [item.sample.key[1::2] for item in credited] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [item.advantage_N[0] for item in credited] == [-0.5, 0.5, -2.0, 2.0]
    assert {item.advantage_N.dtype for item in credited} == {np.dtype(np.float32)}


def test_step_rewards_are_discounted_by_spans() -> None:
    """Returns with gamma 1/2: 1 + 4/2 = 3, then 4; the other sample has a return of 1 in both spans.

    Span 0: mean of (3, 1) is 2. Span 1: mean of (4, 1) is 2.5.
    """
    samples = [sample(0, 0, tokens=5), sample(0, 1, tokens=2)]
    verdicts = [scored(5.0, (4, 1.0), (6, 4.0)), scored(1.0)]
    # The tokens start at 0, 2, 4, 6 and 8. The first span ends at 4, so the token at 4 is in the second span. Tokens
    # beyond the last end belong to the last span.
    expected = [[1.0, 1.0, 1.5, 1.5, 1.5], [-1.0, -1.0]]
    assert advantages(Credit(estimator=group_mean, gamma=0.5), group(*verdicts, samples=samples)) == expected


def test_without_discount_a_span_includes_all_later_rewards() -> None:
    samples = [sample(0, 0, tokens=2), sample(0, 1, tokens=2)]
    verdicts = [scored(3.0, (2, 1.0), (4, 2.0)), scored(1.0, (2, 0.0), (4, 1.0))]
    assert advantages(MEAN, group(*verdicts, samples=samples)) == [[1.0, 0.5], [-1.0, -0.5]]


def test_gamma_does_not_change_a_single_terminal_reward() -> None:
    groups = group(scored(1.0), scored(4.0))
    assert advantages(Credit(estimator=group_mean, gamma=0.1), groups) == advantages(MEAN, groups)


def test_unscored_samples_are_excluded_from_the_statistics() -> None:
    lost = Verdict.unscored("timeout")
    credited = assign(MEAN, group(scored(1.0), lost, scored(3.0)))
    assert [item.sample.key.sample for item in credited] == [0, 2]
    assert [item.advantage_N[0] for item in credited] == [-1.0, 1.0]


def test_rejected_samples_count_with_their_floor() -> None:
    floor = Verdict.rejected("no brick", floor=-1.0)
    assert advantages(MEAN, group(floor, scored(1.0))) == [[-1.0, -1.0], [1.0, 1.0]]


def test_a_rejected_sample_without_a_floor_counts_like_the_worst_scored_one() -> None:
    rejected = Verdict.rejected("too long for the judge")
    credited = assign(MEAN, group(rejected, scored(-2.0), scored(-3.0), scored(0.0)))
    assert [item.advantage_N[0] for item in credited] == [-1.0, 0.0, -1.0, 2.0]
    assert advantages(MEAN, group(rejected, scored(4.0))) == [[-2.0, -2.0], [2.0, 2.0]], "but never more than 0"
    assert advantages(MEAN, group(rejected, rejected)) == [[0.0, 0.0], [0.0, 0.0]]


def test_a_rejected_sample_does_not_beat_a_penalised_or_discounted_one() -> None:
    rejected = Verdict.rejected("no brick")
    samples = [sample(0, 0), sample(0, 1, finish="length")]
    penalised = Credit(estimator=group_mean, truncated="penalise", truncation_penalty=3.0)
    assert advantages(penalised, group(rejected, scored(1.0), samples=samples)) == [[0.0, 0.0], [0.0, 0.0]]
    discounted = Credit(estimator=group_mean, gamma=0.5)
    steps = scored(-1.0, (2, -2.0), (4, 1.0))  # -2 + 1/2
    assert advantages(discounted, group(rejected, steps)) == [[0.0, 0.0], [0.0, 1.25]]
    other = group(scored(-9.0), scored(-9.0), slot=1)
    assert advantages(MEAN, group(rejected, scored(2.0)), other)[0] == [-1.0, -1.0], "only its own group matters"


def test_a_group_with_too_few_scored_samples_is_dropped() -> None:
    lost = Verdict.unscored("timeout")
    groups = [group(scored(1.0), scored(2.0), lost), group(scored(1.0), scored(2.0), scored(3.0), slot=1)]
    credited = assign(Credit(estimator=group_mean, min_scored=3), *groups)
    assert {item.sample.key.slot for item in credited} == {1}
    assert len(credited) == 3


def test_unscored_groups_give_no_advantages() -> None:
    assert assign(MEAN, group(Verdict.unscored("timeout"), Verdict.unscored("timeout"))) == []


NEARLY = 0.1 + 0.2


@pytest.mark.parametrize(
    ("credit", "verified", "dead"),
    [
        (Credit(), group(scored(1000.0), scored(1000.0009)), False),
        (Credit(), group(scored(NEARLY), scored(0.3)), True),
        (MEAN, group(scored(0.0, (2, NEARLY), (4, -0.3)), scored(0.0, (2, 0.3), (4, -0.3))), True),
        (MEAN, group(scored(1.0, (2, 1.0), (4, 0.0)), scored(1.0, (2, 0.0), (4, 1.0))), False),
        (Credit(estimator=best_of_group), group(scored(0.0), scored(1.0), scored(1.0)), True),
        (Credit(min_scored=3), group(scored(0.0), scored(1.0)), True),
        (Credit(truncated="mask"), group(Verdict.unscored("timeout"), Verdict.unscored("timeout")), True),
    ],
)
def test_a_group_is_dead_when_no_advantage_differs_from_zero(credit: Credit, verified: Group, dead: bool) -> None:
    assert credit.dead(verified) == dead


def test_length_and_truncation_decide_whether_a_group_is_dead() -> None:
    """Penalties and masking can create a learning signal in a group with equal rewards, or remove one."""
    samples = [sample(0, 0, tokens=8), sample(0, 1, tokens=2), sample(0, 2, tokens=2, finish="length")]
    equal, different = group(*[scored(1.0)] * 3, samples=samples), group(*map(scored, (1.0, 1.0, 2.0)), samples=samples)
    assert MEAN.dead(equal)
    assert not Credit(length_penalty=LengthPenalty(8, 4)).dead(equal)
    assert not Credit(truncated="penalise", truncation_penalty=1.0).dead(equal)
    assert Credit(truncated="penalise", truncation_penalty=1.0).dead(different)
    assert not MEAN.dead(different)
    assert Credit(truncated="mask").dead(different)


def truncated_group() -> Group:
    samples = [sample(0, 0), sample(0, 1), sample(0, 2, finish="length")]
    return group(scored(0.0), scored(2.0), scored(4.0), samples=samples)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("count", [-2.0, 0.0, 2.0]),
        ("mask", [-1.0, 1.0]),  # the truncated sample is excluded from the mean
        ("penalise", [-1.0, 1.0, 0.0]),  # 4 - 3 = 1: mean of (0, 2, 1) is 1
    ],
)
def test_truncated_samples(how: str, expected: list[float]) -> None:
    credit = Credit(estimator=group_mean, truncated=how, truncation_penalty=3.0)  # type: ignore[arg-type]
    assert [row[0] for row in advantages(credit, truncated_group())] == expected


def test_masking_can_leave_too_few_samples() -> None:
    samples = [sample(0, 0), sample(0, 1, finish="length")]
    assert assign(Credit(truncated="mask"), group(scored(0.0), scored(1.0), samples=samples)) == []


def test_the_length_penalty_falls_linearly_to_its_weight() -> None:
    """Limit 10, buffer 4, weight 2: no penalty at 6 tokens, 1 at 8 and 2 at 10. The mean of (0, -1, -2) is -1."""
    samples = [sample(0, index, tokens) for index, tokens in enumerate((6, 8, 10))]
    credit = Credit(estimator=group_mean, length_penalty=LengthPenalty(limit=10, buffer=4, weight=2.0))
    rows = advantages(credit, group(scored(0.0), scored(0.0), scored(0.0), samples=samples))
    assert [row[0] for row in rows] == [1.0, 0.0, -1.0]


def test_penalties_apply_to_the_last_span() -> None:
    """Without discount, the first sample has the returns (1 + 2 - 3, 2 - 3) = (0, -1) and the other has 0."""
    samples = [sample(0, 0, finish="length"), sample(0, 1)]
    credit = Credit(estimator=group_mean, truncated="penalise", truncation_penalty=3.0, gamma=0.5)
    rows = advantages(credit, group(scored(3.0, (2, 1.0), (4, 2.0)), scored(0.0), samples=samples))
    # discounted: 1 + (2 - 3) / 2 = 0.5 and -1, against 0
    assert rows == [[0.25, -0.5], [-0.25, -0.25]]


def test_kl_in_the_reward_is_subtracted_from_its_span() -> None:
    """Spans of the first sample lose 0.5 and 0.25 + 0.25; the second sample loses 1 in its only span.

    Returns: (1 - 0.5) + (2 - 0.5) = 2 and 1.5, against 1 - 1 = 0.
    """
    samples = [sample(0, 0, tokens=3), sample(0, 1, tokens=2)]
    penalty = {0: np.array([0.5, 0.25, 0.25]), 1: np.array([0.75, 0.25])}
    credited = MEAN.assign(
        [group(scored(3.0, (2, 1.0), (6, 2.0)), scored(1.0), samples=samples)],
        penalties=lambda item: penalty[item.key.sample],
    )
    assert [item.advantage_N.tolist() for item in credited] == [[1.0, 0.75, 0.75], [-1.0, -1.0]]


def test_the_advantage_clip() -> None:
    assert advantages(Credit(estimator=rloo, clip=1.0), group(scored(0.0), scored(5.0))) == [[-1.0, -1.0], [1.0, 1.0]]


def test_equal_rewards_give_exactly_zero() -> None:
    assert advantages(Credit(estimator=group_norm), group(scored(0.1), scored(0.1), scored(0.1))) == [[0.0, 0.0]] * 3


def test_a_sample_without_decisions_is_still_compared() -> None:
    """The first sample's return with gamma 1/2 is 1 + 4/2 = 3, as it would be with decisions; (3, 1) has mean 2."""
    samples = [sample_of([1, 2], key=(0, 0, 0, 0), decided=[], starts=[]), sample(0, 1)]
    verdicts = [scored(5.0, (2, 1.0), (4, 4.0)), scored(1.0)]
    credit = Credit(estimator=group_mean, gamma=0.5)
    assert advantages(credit, group(*verdicts, samples=samples)) == [[], [-1.0, -1.0]]
    penalised = credit.assign(
        [group(*verdicts, samples=samples)], penalties=lambda item: 0.5 * np.ones(len(item.decisions))
    )
    assert [item.advantage_N.tolist() for item in penalised] == [[], [-1.5, -1.5]]  # (3, 1 - 1)


def test_step_rewards_need_the_text_offsets_of_tokens() -> None:
    """Samples stored by an earlier version have no offsets, which matters only for step rewards."""
    old = [sample_of([1, 2], key=(0, 0, 0, index)) for index in range(2)]
    assert advantages(MEAN, group(scored(1.0), scored(2.0), samples=old)) == [[-0.5], [0.5]]
    with pytest.raises(TrainingError, match=r"sample \(0, 0, 0, 0\) has step rewards.*start_N.*sample it again"):
        advantages(MEAN, group(scored(1.0, (1, 1.0)), scored(2.0), samples=old))


def test_the_estimator_is_any_function() -> None:
    """Max@2 of (0, 1, 3): the best sample adds 3 to one pair and 2 to another; the mean of (3, 2, 0) times 3 is 5."""
    credit = Credit(estimator=partial(max_at_k, k=2))
    rows = advantages(credit, group(scored(0.0), scored(1.0), scored(3.0)))
    assert [row[0] for row in rows] == pytest.approx([0.0, 1.0, 5.0])
