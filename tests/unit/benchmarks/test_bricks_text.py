"""bricks-text can say no, and a model that knows nothing is told apart from one that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.bricks import bricks_text
from benchmarks.bricks.brick_decoders import CONSTRAINT, FREE, REJECTION, ROLLBACK, Bench, Contest, Look, Seen, seen
from benchmarks.bricks.bricks_text import BASE, TRAINED, WARM, Study
from benchmarks.bricks.token_budget import Try
from steelyard.domains.bricks.actions import Lines
from steelyard.domains.bricks.briefs import Tower
from steelyard.domains.bricks.structure import World
from steelyard.types import Task

GOOD, BAD = Seen(True, True, True), Seen(True, False, False)
TOWER = Tower(height=3, length=2, width=2)
STANDING = "2x2 (4,4,0)\n2x2 (4,4,1)\n2x2 (4,4,2)\n"


def found(*, warm: list[Seen], trained: list[Seen], constraint: int, rejection: int) -> Study:
    """Two briefs, the second of which is never won."""

    def look(stage: str, decoding: str, first: list[Seen]) -> Look:
        return Look(stage, decoding, ["tower", "wall"], [first, [BAD] * len(first)], 30.0)

    def contest(stage: str, decoding: str, tokens: int) -> Contest:
        return Contest(stage, decoding, [[Try(tokens, True)], [Try(100, False)]])

    stages = ((WARM, warm), (TRAINED, trained))
    looks = [look(stage, decoding, first) for stage, first in stages for decoding in (CONSTRAINT, FREE)]
    contests = [
        contest(stage, decoding, tokens)
        for stage, _ in stages
        for decoding, tokens in ((CONSTRAINT, constraint), (REJECTION, rejection), (ROLLBACK, rejection))
    ]
    return Study([look(BASE, CONSTRAINT, [BAD]), *looks], contests, 0.5, 3, {"warm start": 1.0})


@pytest.mark.parametrize(
    ("changed", "ok"),
    [
        ({}, [True, True, True]),
        ({"trained": [GOOD, Seen(False, True, False)]}, [False, False, True]),
        ({"trained": [GOOD, BAD]}, [True, False, True]),
        ({"constraint": 120}, [True, True, False]),
    ],
)
def test_each_bar_can_be_missed(changed: dict[str, Any], ok: list[bool]) -> None:
    study = found(**{"warm": [GOOD, BAD], "trained": [GOOD, GOOD], "constraint": 40, "rejection": 60, **changed})
    assert [figure.ok for figure in bricks_text.full_figures(study, 100)] == ok


def test_a_loss_that_has_not_fallen_misses_the_quick_bar() -> None:
    study = found(warm=[GOOD], trained=[GOOD], constraint=1, rejection=1)
    assert all(figure.ok for figure in bricks_text.quick_figures(study))
    stuck = Study(study.looks, study.contests, 2.0, 1, {})
    assert not bricks_text.quick_figures(stuck)[1].ok


def test_all_rows_have_the_same_columns() -> None:
    study = found(warm=[GOOD, BAD], trained=[GOOD, GOOD], constraint=40, rejection=60)
    rows = bricks_text.table(study, (50, 100))
    assert len(rows) == 5 + 6
    assert len({tuple(row) for row in rows}) == 1
    last = rows[-2]
    assert (last["stage"], last["decoding"]) == (TRAINED, "rejection, temperature 0.6")
    assert str(last["won in 50 tokens"]).startswith("0.000 ")
    assert str(last["won in 100 tokens"]).startswith("0.500 ")
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
def test_what_is_seen_of_a_text(text: str, expected: tuple[bool, bool, bool]) -> None:
    pytest.importorskip("highspy")
    assert seen(Lines(World(), 9), Task("t", "", TOWER.spec), text) == expected


def test_a_model_that_knows_nothing_is_valid_under_the_constraint_alone(tmp_path: Path) -> None:
    pytest.importorskip("highspy")
    from steelyard import config as configs
    from steelyard.compose import build_policy, tasks_of_split

    characters = sorted({*map(chr, range(32, 127)), "\n"})
    scratch = {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "max_length": 512, "spaced": False}
    options = {"action": "text", "prompt_form": "plain", "kinds": ["tower"], "most": 3, "hardest": 6.0}
    tables: dict[str, Any] = {
        "run": {"folder": str(tmp_path)},
        "model": {"device": "cpu", "scratch": {**scratch, "vocabulary": characters}},
        "domain": {"name": "bricks", "options": {**options, "world_size": [8, 8, 8]}},
        "sampling": {"max_new_tokens": 40},
    }
    config = configs.build(tables, source="test")
    policy, tasks = build_policy(config), tasks_of_split(config, "held_out")
    bench = Bench(config, tasks, lambda _: None)

    looks = {look.decoding: look for look in bench.looks(BASE, policy, 2)}
    assert looks[CONSTRAINT].mean("valid") == 1.0
    assert looks[FREE].mean("valid") == 0.0
    assert policy.constraint is not None, "it is back"

    contests = {contest.decoding: contest for contest in bench.contests(BASE, policy, 100)}
    assert contests.keys() == {CONSTRAINT, REJECTION, ROLLBACK}
    for contest in contests.values():
        assert len(contest.tries) == len(tasks)
        for tries in contest.tries:
            assert sum(one.tokens for one in tries) == 100 or tries[-1].success
    assert max(len(tries) for tries in contests[CONSTRAINT].tries) > 2
