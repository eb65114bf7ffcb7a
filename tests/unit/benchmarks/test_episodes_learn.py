"""episodes-learn can miss its bars, and counts games, builds and tokens as documented."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.episodes import episodes_learn, episodes_learn_repair
from benchmarks.episodes.episodes_learn import Games, GuessRun
from benchmarks.episodes.episodes_learn_repair import ATTEMPTS, RepairRun, attempts, compare
from steelyard.types import NO_DECISIONS, Group, Sample, SampleKey, Task, Turn, Verdict

RUN = GuessRun(0, 100, 12.0, Games(11.0, 4.0, 0.3), Games(4.1, 4.0, 1.0), 20.0, 300)
TASK = Task("tower", "")


@pytest.mark.parametrize(
    ("change", "ok"),
    [
        ({}, [True, True, True]),
        ({"after": Games(4.3, 4.0, 1.0)}, [False, True, True]),
        ({"after": Games(13.0, 4.0, 0.2)}, [False, False, True]),
        ({"minutes": 31.0}, [True, True, False]),
    ],
)
def test_guess_can_miss_each_bar_and_the_worst_seed_counts(change: dict[str, Any], ok: list[bool]) -> None:
    runs = [RUN, replace(RUN, seed=1, **change)]
    assert [figure.ok for figure in episodes_learn.figures(runs, episodes_learn.TARGET)] == ok


def sample(*builds: int) -> Sample:
    """Return an episode with one build per token count, and five tokens of feedback between builds."""
    turns: list[Turn] = []
    place = 2
    for number, tokens in enumerate(builds):
        if number:
            turns.append(Turn("user", "findings", place, place + 5))
            place += 5
        turns.append(Turn("assistant", "build", place, place + tokens))
        place += tokens
    ids = np.zeros(place, np.int32)
    return Sample(SampleKey(0, 0, 0, 0), ids, 2, "", "stop", NO_DECISIONS, turns=tuple(turns))


def group(*pairs: tuple[Sample, bool]) -> Group:
    verdicts = [Verdict.scored(float(success), success=success) for _, success in pairs]
    return Group(TASK, tuple(one for one, _ in pairs), tuple(verdicts))


def test_only_the_last_build_of_an_episode_succeeds_and_findings_cost_nothing() -> None:
    found = attempts(sample(10, 12), Verdict.scored(1.0, success=True))
    assert [tuple(one) for one in found] == [(10, False), (12, True)]


def test_both_sides_get_the_tokens_of_three_independent_builds() -> None:
    single = [(sample(10), False)] * (ATTEMPTS - 1) + [(sample(10), True)]
    late = group(*single)
    run = compare(0, 0.5, [group((sample(10, 10, 10), True), (sample(10, 10, 11), True))], [late], 1.0, 2.0)
    assert run.budget == 30
    assert run.repair == [0.5], "the second episode needs 31 tokens"
    assert run.independent == [0.0], "the sixth build succeeds, after 60 tokens"
    assert (run.first, run.alone) == (0.0, 1 / ATTEMPTS)


def test_repair_must_lead_by_disjoint_intervals() -> None:
    run = RepairRun(0, 0.55, [1.0] * 30, [0.6] * 30, 0.6, 0.6, 100, 1.0, 1.0)
    assert all(figure.ok for figure in episodes_learn_repair.figures([run]))
    close = replace(run, repair=[1.0, 0.5] * 15, independent=[0.5, 0.95] * 15)
    assert [figure.ok for figure in episodes_learn_repair.figures([close])] == [True, False]
    assert [figure.ok for figure in episodes_learn_repair.figures([replace(run, repair=[0.1] * 30)])] == [False, False]


def test_the_rows_of_all_parts_have_the_same_columns() -> None:
    repair = RepairRun(0, 0.55, [1.0], [0.6], 0.6, 0.6, 100, 1.0, 1.0)
    assert list(RUN.row()) == list(repair.row())
    assert "random player" in RUN.summary
    assert "independently" in repair.summary
