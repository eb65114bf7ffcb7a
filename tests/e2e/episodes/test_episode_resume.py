"""A resumed run with episodes equals the uninterrupted run bit for bit, although replies come from worker processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.episodes.episodes_faults import tables
from steelyard import config as configs
from tests.e2e.test_resume import assert_same, outcome, resumed, started, stop_after


def config_of(folder: Path) -> configs.Config:
    plain: dict[str, Any] = tables("", folder.parent, folder.name, 4)
    plain["checkpoint"] = {"every": 0}
    plain["sampling"] |= {"group_size": 6}
    return configs.build(plain, source="test")


def test_a_resumed_run_of_sessions_in_workers_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    trainer = started(config_of(tmp_path / "uninterrupted"))
    trainer.train()
    expected = outcome(trainer, tmp_path / "uninterrupted")
    config = config_of(tmp_path / "parts")
    first = started(config)
    stop_after(first, 2)
    last = resumed(config)
    last.train()
    assert_same(expected, outcome(last, tmp_path / "parts"))
    for each in (trainer, first, last):
        each.parts.pool.close()
    assert (tmp_path / "turns").exists(), "episodes have later turns"
