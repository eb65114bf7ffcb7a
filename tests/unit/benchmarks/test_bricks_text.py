"""bricks-text can miss its bars, and distinguishes an untrained model from a trained one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.bricks import bricks_text
from benchmarks.bricks.brick_decoders import (
    CONSTRAINT,
    FREE,
    REJECTION,
    ROLLBACK,
    BudgetRun,
    DecodingEvaluator,
    StageOutcomes,
    TextOutcome,
    text_outcome,
)
from benchmarks.bricks.bricks_text import BASE, TRAINED, WARM, Study
from benchmarks.bricks.token_budget import Attempt
from steelyard.domains.bricks.actions import Lines
from steelyard.domains.bricks.briefs import Tower
from steelyard.domains.bricks.structure import World
from steelyard.types import Task

GOOD, BAD = TextOutcome(True, True, True), TextOutcome(True, False, False)
TOWER = Tower(height=3, length=2, width=2)
STANDING = "2x2 (4,4,0)\n2x2 (4,4,1)\n2x2 (4,4,2)\n"


def found(*, warm: list[TextOutcome], trained: list[TextOutcome], constraint: int, rejection: int) -> Study:
    """Return a study of two briefs, the second of which is never solved."""

    def evaluation(stage: str, decoding: str, first: list[TextOutcome]) -> StageOutcomes:
        return StageOutcomes(stage, decoding, ["tower", "wall"], [first, [BAD] * len(first)], 30.0)

    def budget_run(stage: str, decoding: str, tokens: int) -> BudgetRun:
        return BudgetRun(stage, decoding, [[Attempt(tokens, True)], [Attempt(100, False)]])

    stages = ((WARM, warm), (TRAINED, trained))
    evaluations = [evaluation(stage, decoding, first) for stage, first in stages for decoding in (CONSTRAINT, FREE)]
    budget_runs = [
        budget_run(stage, decoding, tokens)
        for stage, _ in stages
        for decoding, tokens in ((CONSTRAINT, constraint), (REJECTION, rejection), (ROLLBACK, rejection))
    ]
    return Study([evaluation(BASE, CONSTRAINT, [BAD]), *evaluations], budget_runs, 0.5, 3, {"warm start": 1.0})


@pytest.mark.parametrize(
    ("changed", "ok"),
    [
        ({}, [True, True, True]),
        ({"trained": [GOOD, TextOutcome(False, True, False)]}, [False, False, True]),
        ({"trained": [GOOD, BAD]}, [True, False, True]),
        ({"constraint": 120}, [True, True, False]),
    ],
)
def test_each_bar_can_be_missed(changed: dict[str, Any], ok: list[bool]) -> None:
    study = found(**{"warm": [GOOD, BAD], "trained": [GOOD, GOOD], "constraint": 40, "rejection": 60, **changed})
    assert [figure.ok for figure in bricks_text.full_figures(study, 100)] == ok


def test_a_high_loss_misses_the_quick_bar() -> None:
    study = found(warm=[GOOD], trained=[GOOD], constraint=1, rejection=1)
    assert all(figure.ok for figure in bricks_text.quick_figures(study))
    stuck = Study(study.evaluations, study.budget_runs, 2.0, 1, {})
    assert not bricks_text.quick_figures(stuck)[1].ok


def test_all_rows_have_the_same_columns() -> None:
    study = found(warm=[GOOD, BAD], trained=[GOOD, GOOD], constraint=40, rejection=60)
    rows = bricks_text.table(study, (50, 100))
    assert len(rows) == 5 + 6
    assert len({tuple(row) for row in rows}) == 1
    last = rows[-2]
    assert (last["stage"], last["decoding"]) == (TRAINED, "rejection, temperature 0.6")
    assert str(last["solved in 50 tokens"]).startswith("0.000 ")
    assert str(last["solved in 100 tokens"]).startswith("0.500 ")
    assert "trained tower 1.00, wall 0.00" in bricks_text.note(study, bricks_text.FULL)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (STANDING, (True, True, True)),
        (STANDING[:24], (True, True, False)),
        (STANDING + "2x2 (4,4,2)\n", (False, True, False)),
        (STANDING + "Enjoy your tower!", (False, True, False)),
        (STANDING + "1x1 (0,0,5)\n", (True, False, False)),
        ("Sure!", (False, False, False)),
        ("", (False, False, False)),
    ],
)
def test_the_outcome_of_a_text(text: str, expected: tuple[bool, bool, bool]) -> None:
    pytest.importorskip("highspy")
    assert text_outcome(Lines(World(), 9), Task("t", "", TOWER.spec), text) == expected


def test_an_untrained_model_is_valid_only_under_the_constraint(tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    from steelyard import config as configs
    from steelyard.compose import build_policy, tasks_of_split

    characters = sorted({*map(chr, range(32, 127)), "\n"})
    scratch = {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "max_length": 512, "spaced": False}
    options = {"action": "text", "prompt_form": "plain", "kinds": ["tower"], "max_bricks": 3, "max_difficulty": 6.0}
    tables: dict[str, Any] = {
        "run": {"folder": str(tmp_path)},
        "model": {"device": "cpu", "scratch": {**scratch, "vocabulary": characters}},
        "domain": {"name": "bricks", "options": {**options, "world_size": [8, 8, 8]}},
        "sampling": {"max_new_tokens": 40},
    }
    config = configs.build(tables, source="test")
    policy, tasks = build_policy(config), tasks_of_split(config, "held_out")
    evaluator = DecodingEvaluator(config, tasks, lambda _: None)

    found = {one.decoding: one for one in evaluator.evaluate(BASE, policy, 2)}
    assert found[CONSTRAINT].mean("valid") == 1.0
    assert found[FREE].mean("valid") == 0.0
    assert policy.constraint is not None, "the constraint is restored"

    runs = {run.decoding: run for run in evaluator.compare_at_equal_tokens(BASE, policy, 100)}
    assert runs.keys() == {CONSTRAINT, REJECTION, ROLLBACK}
    for run in runs.values():
        assert len(run.attempts) == len(tasks)
        for attempts in run.attempts:
            assert sum(one.tokens for one in attempts) == 100 or attempts[-1].success
    assert max(len(attempts) for attempts in runs[CONSTRAINT].attempts) > 2
