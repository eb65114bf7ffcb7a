"""Over enumerated episodes, the expected update is the policy gradient, and common alternatives are biased."""

from __future__ import annotations

import pytest

from benchmarks.episodes.coin_game import Case, build
from benchmarks.episodes.episodes_exact import (
    CONTROLS,
    DISCOUNTED,
    PER_EPISODE,
    PER_TURN,
    Scheme,
    deviation,
    discount_gaps,
    frequencies,
    update_gap,
)


@pytest.fixture(scope="module")
def case() -> Case:
    return build()


def name(scheme: Scheme) -> str:
    return scheme.name


def test_the_real_path_records_every_episode_with_its_turn_rewards(case: Case) -> None:
    assert {len(sample.rows) for sample in case.samples} == {1, 2, 3}, "some episodes fork, some twice"
    assert {verdict.status for verdict in case.verdicts} == {"scored", "rejected"}
    for episode, verdict in zip(case.episodes, case.verdicts, strict=True):
        assert verdict.reward == pytest.approx(sum(episode.rewards))
        if verdict.turn_rewards:
            assert verdict.turn_rewards == pytest.approx(episode.rewards)
        else:
            assert not any(episode.rewards[:-1])


@pytest.mark.parametrize("scheme", [PER_EPISODE, PER_TURN, DISCOUNTED], ids=name)
def test_the_expected_update_is_the_policy_gradient(case: Case, scheme: Scheme) -> None:
    assert float(deviation(case, scheme, 2)["relative deviation"]) < 1e-6


@pytest.mark.parametrize("scheme", CONTROLS, ids=name)
def test_a_biased_comparison_is_noticed(case: Case, scheme: Scheme) -> None:
    assert float(deviation(case, scheme, 2)["at best scale"]) > 1e-2


def test_the_training_loop_updates_by_the_same_coefficients(case: Case) -> None:
    assert update_gap(case, 3, groups=3) < 1e-6


def test_a_discount_optimises_neither_return(case: Case) -> None:
    assert min(discount_gaps(case)) > 1e-2


def test_sampled_episodes_have_their_enumerated_frequencies(case: Case) -> None:
    found = frequencies(case, 500)
    assert found["p-value"] > 1e-3
    assert found["log-prob"] < 1e-5
