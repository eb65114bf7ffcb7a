"""bricks-learn counts distinct structures and successes by kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.bricks.bricks_learn import LearningRun, by_kind, canonical_bricks
from steelyard.domains.bricks import World
from steelyard.domains.bricks.actions import Absolute
from steelyard.training.evaluation import summarise
from steelyard.types import Decisions, Group, Sample, SampleKey, Task, Verdict

SPACE = Absolute(World(), 4)
TWO, SWAPPED = "x0 y0 z0 1x1 x2 y0 z0 2x2", "x2 y0 z0 2x2 x0 y0 z0 1x1"
MOVED, OTHER = "x3 y1 z0 1x1 x5 y1 z0 2x2", "x0 y0 z0 1x1"


def group(kind: str, texts: list[tuple[str, bool]]) -> Group:
    none = np.zeros(0, np.int32)
    decisions = Decisions(none, none, np.zeros(0, np.float32))
    samples = [Sample(SampleKey(0, 0, 0, n), none, 0, text, "stop", decisions) for n, (text, _) in enumerate(texts)]
    verdicts = [Verdict.scored(float(success), success=success) for _, success in texts]
    return Group(Task(kind, kind, {"kind": kind}), tuple(samples), tuple(verdicts))


def run_with(*groups: Group) -> LearningRun:
    found: Any = summarise(groups, [1])
    return LearningRun(0, SPACE, found, found, [], 0.0)


def test_order_does_not_matter_and_position_matters_unless_ignored() -> None:
    def canonical(text: str, *, ignore_position: bool = False) -> tuple[Any, ...]:
        return canonical_bricks(SPACE, text, ignore_position=ignore_position)

    assert canonical(TWO) == canonical(SWAPPED)
    assert canonical(TWO) != canonical(MOVED)
    assert canonical(TWO, ignore_position=True) == canonical(MOVED, ignore_position=True)


def test_only_successes_count_as_distinct_and_briefs_are_counted_separately() -> None:
    run = run_with(
        group("tower", [(TWO, True), (SWAPPED, True), (MOVED, True), (OTHER, False)]), group("wall", [(TWO, True)])
    )
    assert run.distinct() == pytest.approx(3 / 4)
    assert run.distinct(ignore_position=True) == pytest.approx(2 / 4)
    assert run_with(group("tower", [(TWO, False)])).distinct() == 0.0


def test_success_by_kind() -> None:
    groups = [group("tower", [(TWO, True), (OTHER, False)]), group("wall", [(TWO, True)])]
    assert by_kind(groups) == {"tower": 0.5, "wall": 1.0}
